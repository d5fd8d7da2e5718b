from .dates import check_date_format
from .encoder import ContextEmbedding, ContextEncoder
from .encoding import (
    EncodedContext,
    encode_records,
    encode_table,
    find_outside,
    missing_like,
    unknown_in_words,
    unknown_values,
)
from .forms import as_tensors, unknown_like
from .infer import ColumnNote, InferredSchema, infer_schema
from .kinds import (
    Categorical,
    Feature,
    FeatureLayout,
    History,
    MultiCategorical,
    Numerical,
    Vector,
    bin_names,
    default_embedding_size,
    edge_names,
    register_kind,
)
from .ranges import Outside, outside_lines, outside_notes, outside_of
from .schema import ContextSchema
from .sentences import record_sentences, table_sentences
from .spelling import SPELLING_RULE, alike_warning, check_rule, spelt
from .vocabulary import Vocabulary, canonical, canonical_array

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
    "History",
    "InferredSchema",
    "MultiCategorical",
    "Numerical",
    "Outside",
    "Vector",
    "Vocabulary",
    "alike_warning",
    "as_tensors",
    "bin_names",
    "canonical",
    "canonical_array",
    "check_date_format",
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
