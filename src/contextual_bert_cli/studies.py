"""The end of a study: its report as files, and what of it a terminal shows. ``compare`` and ``benchmark`` share it."""

from pathlib import Path
from typing import TYPE_CHECKING

from contextual_bert_cli.output import remark, show

if TYPE_CHECKING:
    from contextual_bert.evaluation import Study


def finish_study(found: "Study", output: Path, *, runs: Path) -> None:
    """Write the report into ``output`` and show its tables and findings."""
    from contextual_bert.evaluation import write_study

    write_study(found, output)
    show(found.comparison.to_rich())
    if found.labels is not None:
        show(found.labels.to_rich(has_groups=False))  # they are in the files
    remark("", *found.texts, *(f"{each.name}: {each} when training ended" for each in found.convergences()))
    remark(f"wrote {output / 'report.html'}, report.md with its pictures and study.json; runs in {runs}")
