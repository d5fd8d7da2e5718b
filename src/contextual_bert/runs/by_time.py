"""The features of a table that a split by time would leave out: said by ``inspect`` where the split is another one."""

from collections.abc import Collection, Mapping

import pyarrow as pa

from contextual_bert.context import InferredSchema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.running import clock_of
from contextual_bert.context.seasons import DATE
from contextual_bert.data import Split
from contextual_bert.training.recipe import Recipe


def by_time_lines(
    recipe: Recipe,
    found: InferredSchema,
    training: pa.Table,
    overrides: Mapping[str, str],
    *,
    split: Split | None,
) -> list[str]:
    """Return a sentence on the features that a split by time would leave out, none where there are none.

    Args:
        recipe: says how dates are written.
        found: the features, inferred for a split that is not by time.
        training: the rows that they were found in.
        overrides: column -> the kind that was asked for.
        split: where it is by time, the features are those already.
    """
    if split is not None and split.by == "time":
        return []
    formats, columns = recipe.reading.date_formats, found.schema.columns
    dates = [note.column for note in found.notes if note.kind == DATE or note.remark]
    clock = clock_of(training, split_by=None, candidates=dates, date_formats=formats)
    if clock is None:
        return []
    read = training.select([name for name in training.column_names if name in {*columns, clock.column}])
    asked = SchemaSettings(
        exclude=() if clock.column in columns else (clock.column,),
        overrides={name: kind for name, kind in overrides.items() if name in columns},
        min_count=1,
        max_categories=max(1, training.num_rows),
        date_formats=formats,
        time=clock.column,
    )
    lost = _lost(found, infer_features(read, asked).schema.names)
    listed = ", ".join(map(repr, lost))
    return [f"under a split by time (of {clock.column!r}) no feature either: {listed}"] if lost else []


def _lost(found: InferredSchema, kept: Collection[str]) -> list[str]:
    return [name for name in found.schema.names if name not in kept]
