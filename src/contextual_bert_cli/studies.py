"""The end of a study: its report as files, and what of it a terminal shows. ``compare`` and the studies share it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from contextual_bert_cli.output import remark, show
from contextual_bert_cli.wording import in_options

if TYPE_CHECKING:
    from contextual_bert.evaluation import Study
    from contextual_bert.training import Recipe


def finish_study(found: "Study", output: Path, *, runs: Path) -> None:
    """Write the report into ``output`` and show its tables and findings, both with settings as options.

    A study that Python writes names them as Python does.
    """
    from contextual_bert.evaluation import write_study

    found = replace(
        found,
        texts=tuple(map(in_options, found.texts)),
        data=tuple(map(in_options, found.data)),
        about=tuple(map(in_options, found.about)),
    )
    write_study(found, output)
    show(found.comparison.to_rich(has_groups=False))  # they are in the files
    remark(
        "",
        *found.texts,
        *(f"{each.name}: {each} when training ended" for each in found.convergences()),
    )
    remark(f"wrote {output / 'report.html'}, report.md with its pictures and study.json; runs in {runs}")


def without_weights(first: str, usable: "Recipe") -> list[str]:
    """Return the remark that the first row of a study cannot be used, where the command to run next is of another.

    Args:
        first: name of the first row.
        usable: the first row whose weights are kept.
    """
    if first == usable.label:
        return []
    return [
        "",
        f"{first} stands first in the findings. It is a baseline whose weights are not kept. The command below is of "
        f"{usable.label}, the first row with weights.",
    ]
