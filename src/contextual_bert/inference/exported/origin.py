"""The run that an export was made from, and whether its folder still holds that run.

An export is whole by itself, and may lie on a machine without its run: then nothing can be said. Where the run is there
and is another one, the export still answers, and says so. It imports no torch.
"""

import os
from collections.abc import Callable
from pathlib import Path

from contextual_bert.errors import ContextualBertError
from contextual_bert.inference.exported.exported_processor import ExportedProcessor
from contextual_bert.inference.exported.record import Export, Origin
from contextual_bert.manifest import model_digests
from contextual_bert.nouns import counted


def origin_of(run: str | Path, output: str | Path) -> Origin:
    """Return what an export says of its run.

    Args:
        run: folder of the run.
        output: folder of the export, from where the run is named.
    """
    return Origin(folder=os.path.relpath(run, output), files=model_digests(run))


def origin_notes(directory: Path, record: Export, *, difference: Callable[[Path], str], options: str = "") -> list[str]:
    """Return a sentence where the folder of an export's run holds another model now; none where it does not tell.

    Args:
        directory: folder of the export.
        record: its record.
        difference: says of the folder of a run how its model differs from the one that was exported.
        options: of the command, with which the run was exported.
    """
    origin: object = record.get("run")
    files: object = origin.get("files") if isinstance(origin, dict) else None
    if not isinstance(origin, dict) or not isinstance(files, dict):
        return []
    run = Path(os.path.normpath(directory.absolute() / str(origin.get("folder"))))
    try:
        now = model_digests(run)
        if not now or now == files:
            return []
        differs = difference(run)
    except (ContextualBertError, OSError):
        return []  # no run, or none that can be read: the export answers without it
    return [
        f"{directory} was exported from {run}, which holds another model now ({differs}). The "
        "answers are those of the model before. To take the one that is there, run: contextual-bert export "
        f"{run} --output {directory}{options}."
    ]


def items_difference(mine: ExportedProcessor, run: Path) -> str:
    """Return in which items a run differs from an export of sets; with the same ones in weights or settings.

    Args:
        mine: of the export.
        run: folder of the run.
    """
    others = ExportedProcessor.from_pretrained(run)
    here, there = {*mine.items.values}, {*others.items.values}
    removed = {*others.removed_items} & here - {*mine.removed_items}
    back = {*mine.removed_items} & there - {*others.removed_items}
    parts = [
        f"{counted(len(items), 'item')} {what}"
        for items, what in (
            (there - here, "more"),
            (here - there, "fewer"),
            (removed, "proposed no more"),
            (back, "proposed again"),
        )
        if items
    ]
    return ", ".join(parts) if parts else "the same items, other weights or settings"
