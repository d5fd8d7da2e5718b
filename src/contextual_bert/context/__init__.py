"""The context: who is asking. Raw values -> ids -> one vector a row; knows nothing of BERT. Paper: section 4."""

from contextual_bert.context.absence import missing_like, unknown_like
from contextual_bert.context.encoder import ContextEmbedding, ContextEncoder
from contextual_bert.context.encoding import (
    EncodedContext,
    encode_records,
    encode_table,
    find_outside,
    unknown_in_words,
    unknown_values,
)
from contextual_bert.context.infer import ColumnNote, InferredSchema, infer_schema
from contextual_bert.context.kinds import (
    Categorical,
    Feature,
    FeatureLayout,
    MultiCategorical,
    Numerical,
    Vector,
    bin_names,
    default_embedding_size,
    edge_names,
    register_kind,
)
from contextual_bert.context.ranges import Outside, outside_lines, outside_notes, outside_of
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.sentences import record_sentences, table_sentences
from contextual_bert.context.spelling import SPELLING_RULE, alike_warning, check_rule, spelt
from contextual_bert.context.vocabulary import Vocabulary, canonical, canonical_array

__all__ = [
    "SPELLING_RULE",
    "Categorical",
    "ColumnNote",
    "ContextEmbedding",
    "ContextEncoder",
    "ContextSchema",
    "EncodedContext",
    "Feature",
    "FeatureLayout",
    "InferredSchema",
    "MultiCategorical",
    "Numerical",
    "Outside",
    "Vector",
    "Vocabulary",
    "alike_warning",
    "bin_names",
    "canonical",
    "canonical_array",
    "check_rule",
    "default_embedding_size",
    "edge_names",
    "encode_records",
    "encode_table",
    "find_outside",
    "infer_schema",
    "missing_like",
    "outside_lines",
    "outside_notes",
    "outside_of",
    "record_sentences",
    "register_kind",
    "spelt",
    "table_sentences",
    "unknown_in_words",
    "unknown_like",
    "unknown_values",
]
