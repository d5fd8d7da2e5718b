"""Make the index of a run's items, measured with sets of its own table.

Not in the papers. Reference: docs/decisions/062.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.data.collators import MaskingCollator
from contextual_bert.data.dataset import EveryPosition, SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.guidance import guided_states
from contextual_bert.inference.item_index import (
    INDEX_FOLDER,
    INDEX_RECORD_FILE,
    RECALL,
    IndexRecord,
    ItemIndex,
)
from contextual_bert.inference.output_rows import Floats
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.manifest import model_digests
from contextual_bert.places import PathPlace
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.run_directory import finished_run

FEWEST = 10_000  # items that an index is made of: all of fewer are ranked faster
NUM_SETS, _BATCH_SIZE = 400, 100


def index_items(
    directory: str | Path, *, recall: float = RECALL, progress: Callable[[str], None] = lambda _: None
) -> IndexRecord:
    """Write the index of a run's items into its folder, from where completions take it.

    Args:
        directory: of a run on sets.
        recall: how many of the ten best items a search is to find, in the mean.
        progress: called with a sentence at each step.

    Returns:
        What was measured.

    Raises:
        ConfigurationError: faiss is not installed, a run of few items, a recall outside (0, 1].
        RunDirectoryError: no finished run.
        ContextualBertError: the table of the run cannot be read, which gives the sets to measure with.
    """
    if not 0 < recall <= 1:
        allowed = "Allowed: above 0, at most 1."
        raise ConfigurationError("is not allowed", setting="recall", value=recall, allowed=allowed)
    directory = Path(directory)
    run = finished_run(directory)
    pipeline = CompletionPipeline.from_pretrained(directory, device="cpu", is_exact=True)
    first, num_items = len(pipeline.processor.items.reserved), len(pipeline.processor.items.values)
    if num_items < FEWEST:
        raise ConfigurationError(
            f"has {num_items:,} items: of fewer than {FEWEST:,}, all are ranked as fast",
            fix="Leave the index out.",
            place=PathPlace(directory),
        )
    progress(f"reading the validation part of {run.recipe.data}")
    states = blank_states(pipeline, load_evaluation(run, part="validation").dataset)
    index = ItemIndex.build(
        pipeline.output_rows(),
        first_id=first,
        states=states,
        files=model_digests(directory),
        recall=recall,
        progress=progress,
    )
    with replacing_directory(directory / INDEX_FOLDER, last=INDEX_RECORD_FILE) as folder:
        index.save(folder)
    return index.record


def blank_states(pipeline: CompletionPipeline, dataset: SequenceDataset, *, num_sets: int = NUM_SETS) -> Floats:
    """Return what the output matrix reads where one item of a set is missing: (num_sets, size), or all there are."""
    positions = EveryPosition(dataset, most=num_sets)
    config: Any = pipeline.model.config
    collator = MaskingCollator(mask_id=config.mask_token_id, pad_id=config.pad_token_id)
    found: list[Any] = []
    for start in range(0, len(positions), _BATCH_SIZE):
        numbers = torch.arange(start, min(start + _BATCH_SIZE, len(positions)))
        inputs = dict(collator(positions.__getitems__(numbers)))
        inputs = {name: value for name, value in inputs.items() if name not in ("labels", "earlier_ids")}
        rows = torch.arange(len(numbers))
        found.append(guided_states(pipeline.model, inputs, [1.0] * len(numbers), rows=rows).read.numpy())
    return np.concatenate(found)
