"""The kinds of context features, one file each; `register_kind` makes another one known.

A kind says what a column means and how a value becomes ids or numbers. `feature.py` has the protocol.
"""

from contextual_bert.context.kinds.categorical import CATEGORICAL_RESERVED, CATEGORICAL_UNKNOWN, Categorical
from contextual_bert.context.kinds.feature import (
    KINDS,
    MISSING,
    MULTI_MISSING,
    MULTI_PADDING,
    RARE,
    EncodedColumn,
    Feature,
    FeatureLayout,
    Finding,
    InferenceSettings,
    default_embedding_size,
    register_kind,
    schema_fault,
)
from contextual_bert.context.kinds.history import History
from contextual_bert.context.kinds.item_text import ItemText
from contextual_bert.context.kinds.multi_categorical import MULTI_EMPTY, MULTI_RESERVED, MULTI_UNKNOWN, MultiCategorical
from contextual_bert.context.kinds.numerical import Numerical, bin_names, edge_names
from contextual_bert.context.kinds.vector import Vector

__all__ = [
    "CATEGORICAL_RESERVED",
    "CATEGORICAL_UNKNOWN",
    "KINDS",
    "MISSING",
    "MULTI_EMPTY",
    "MULTI_MISSING",
    "MULTI_PADDING",
    "MULTI_RESERVED",
    "MULTI_UNKNOWN",
    "RARE",
    "Categorical",
    "EncodedColumn",
    "Feature",
    "FeatureLayout",
    "Finding",
    "History",
    "InferenceSettings",
    "ItemText",
    "MultiCategorical",
    "Numerical",
    "Vector",
    "bin_names",
    "default_embedding_size",
    "edge_names",
    "register_kind",
    "schema_fault",
]

for _kind in (Categorical, MultiCategorical, Numerical, Vector, ItemText, History):
    register_kind(_kind)
