"""The vectors of a run's items as a table, for search engines and other programs. Not in the paper."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.scoring import nonfinite_error


@torch.no_grad()
def item_vectors(pipeline: CompletionPipeline, *, training_counts: Mapping[str, int] | None = None) -> pa.Table:
    """Return a row an item, in the order of the vocabulary.

    Shapes: ``input_vector`` and ``output_vector`` lists of one length, float32; ``bias`` float32.

    Args:
        pipeline: of a run.
        training_counts: how often each item stands in the training sets; None: it is not known.

    Returns:
        The columns ``item``; ``input_vector``, which stands for the item in a set; ``output_vector`` and ``bias``, of
        which its logit is made; ``is_new``, true for an item that no set of training held; ``is_removed``, true for one
        that is proposed no more; ``training_count``, null where it is not known.

    Raises:
        NonFiniteError: the model gives no numbers.

    Example:
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> table = item_vectors(CompletionPipeline(miniature_model("none"), miniature_processor()))
        >>> table.column_names[:3], table.schema.field("bias").type
        (['item', 'input_vector', 'output_vector'], DataType(float))
    """
    model, vocabulary = pipeline.model, pipeline.processor.items
    first, names = len(vocabulary.reserved), vocabulary.values
    output, bias = model.output_matrix()
    for each in (model.input_matrix(), output, bias):
        if not bool(each[first:].isfinite().all()):
            raise nonfinite_error(model)
    is_new = pipeline.is_new if pipeline.is_new is not None else np.zeros(len(vocabulary), dtype=np.bool_)
    removed = {*pipeline.processor.removed_items}
    counts = [training_counts.get(name, 0) for name in names] if training_counts is not None else [None] * len(names)
    return pa.table(
        {
            "item": vocabulary.array,
            "input_vector": _lists(model.input_matrix()[first:]),
            "output_vector": _lists(output[first:]),
            "bias": pa.array(bias[first:].float().cpu().numpy()),
            "is_new": pa.array(is_new[first:]),
            "is_removed": pa.array([name in removed for name in names], pa.bool_()),
            "training_count": pa.array(counts, pa.int64()),
        }
    )


def _lists(rows: Tensor) -> pa.FixedSizeListArray:
    values = rows.float().cpu().contiguous().numpy()
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
