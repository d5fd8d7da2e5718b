"""Counts of what cannot be scored: rare and new items, left-out sets, words behind the cut.

``Unscored`` says whose they are and why. docs/protocol.md, "What was not asked".
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.data import SequenceDataset, SetPolicy, SetTable
from contextual_bert.evaluation import Scores, SetPredictions, Unscored
from contextual_bert.inference import set_index
from contextual_bert.models import RESERVED_ITEMS
from contextual_bert.runs.prepared_data import as_names

OF_SETS = "of sets that the limits of the size leave out or cut"
NEW = "new to the run"
BEHIND_CUT = "behind the cut of their text"


def unscored_items(
    sets: SetTable,
    dataset: SequenceDataset,
    scores: Scores,
    *,
    rows: NDArray[np.int64] | None,
    part: str,
    policy: SetPolicy,
    customers: NDArray[np.str_] | None,
) -> Unscored | None:
    """Return the items of a part that were not scored, None where that is not known.

    Args:
        sets: of the whole table.
        dataset: the encoded sets of the part.
        scores: of the part.
        rows: of the table that the part has; None: all.
        part: its name.
        policy: the sets were read under.
        customers: of the sets of the part, None where no column names them.
    """
    if sets.left_out is None:
        return None
    left = sets.left_out if rows is None else sets.left_out.of_rows(rows)
    num_left = left.num_rare + left.num_of_sets
    sizes = np.asarray(dataset.sizes)
    if isinstance(scores.predictions, SetPredictions):  # an item that a hidden set holds twice is asked for once
        sizes = sizes - _num_repeated(dataset)
    num_new = sizes - np.bincount(set_index(dataset, scores.example_id), minlength=len(sizes))
    own, others = dataset.example_ids.numpy(), left.rows
    if customers is not None and left.customers is not None:
        own, others = customers, as_names(left.customers)
    rare = (
        f"seen fewer than {policy.min_count} times in training" if policy.min_count > 1 else "not in the training part"
    )
    reasons = {rare: int(left.num_rare.sum()), OF_SETS: int(left.num_of_sets.sum()), NEW: int(num_new.sum())}
    return Unscored(np.concatenate([np.repeat(others, num_left), np.repeat(own, num_new)]), reasons, part)


def unscored_next_items(
    dataset: SequenceDataset, scores: Scores, *, part: str, customers: NDArray[np.str_] | None
) -> Unscored:
    """Return the last items of a part's sequences that were not scored, for the run does not know them.

    Args:
        dataset: the encoded sequences of the part.
        scores: of the part.
        part: its name.
        customers: of the sequences, None where no column names them.
    """
    is_scored = np.isin(dataset.example_ids.numpy(), scores.example_id)
    own = customers if customers is not None else dataset.example_ids.numpy()
    return Unscored(own[~is_scored], {NEW: int((~is_scored).sum())}, part)


def _num_repeated(dataset: SequenceDataset) -> NDArray[np.int64]:
    """Return how many places of each set hold an item that stands before in it; unknown items may be others."""
    ids = dataset.input_ids.numpy()
    rows = np.repeat(np.arange(len(dataset)), dataset.sizes)[ids >= len(RESERVED_ITEMS)]
    pairs = np.unique(np.stack([rows, ids[ids >= len(RESERVED_ITEMS)]]), axis=1)
    return np.bincount(rows, minlength=len(dataset)) - np.bincount(pairs[0], minlength=len(dataset))


def unscored_words(
    words: pa.ChunkedArray,
    example_ids: NDArray[np.int64],
    scores: Scores,
    *,
    part: str,
    customers: NDArray[np.str_] | None,
) -> Unscored:
    """Return the words of a part's texts that were not scored, for they stand behind the cut.

    Args:
        words: lists of words, one a text.
        example_ids: of the texts.
        scores: of the words.
        part: its name.
        customers: of the texts, None where no column names them.
    """
    num_words = pc.fill_null(pc.list_value_length(words), 0).to_numpy()
    places = np.searchsorted(example_ids, scores.example_id)
    num_unread = num_words - np.bincount(places, minlength=len(example_ids))
    owners = np.repeat(customers if customers is not None else example_ids, num_unread)
    return Unscored(owners, {BEHIND_CUT: int(num_unread.sum())}, part, "word")
