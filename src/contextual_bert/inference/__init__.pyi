from .attributes import Attribute
from .catalogue import Catalogue
from .completion_answers import Answer, Candidate, Completion, JointAnswer, Slot
from .constraints import (
    CONSTRAINTS,
    Constraint,
    ConstraintInput,
    Permitted,
    constraint,
    permitted_beside,
    permitted_items,
    query_model,
)
from .encode import (
    encode_sets,
    outside_lines_of,
    placed,
    segment_labels,
    set_index,
)
from .explain import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
    explain,
)
from .exported import Completions, OnnxCompletionPipeline, OnnxExport, export_onnx
from .flat import to_table
from .item_updates import change_catalogue
from .item_vectors import item_vectors
from .joint import JointSearch
from .pipeline import CompletionPipeline
from .query_schema import Condition
from .saved import load_text_model
from .scoring import Scorer, score, score_whole_sets
from .similar_items import similar_items
from .similar_queries import SimilarAnswer, SimilarItem
from .tables import (
    BulkReport,
    BulkSettings,
    RayCluster,
    TableCompleter,
    complete_table,
    complete_table_on_ray,
)
from .texts import (
    AnsweredTable,
    EncodedQuestions,
    EncodedTexts,
    LabelledTexts,
    QuestionAnsweringPipeline,
    QuestionReport,
    TextAnswer,
    TextGeneration,
    TextPipeline,
    TextReport,
    TextSampling,
    TextSpan,
    encode_questions,
    encode_texts,
    generate_texts,
    sample_texts,
    score_answers,
    score_labels,
    score_tokens,
)

__all__ = [
    "CONSTRAINTS",
    "Answer",
    "AnsweredTable",
    "Attribute",
    "BulkReport",
    "BulkSettings",
    "Candidate",
    "Catalogue",
    "Completion",
    "CompletionPipeline",
    "Completions",
    "Condition",
    "Constraint",
    "ConstraintInput",
    "Counterfactual",
    "EncodedQuestions",
    "EncodedTexts",
    "Explanation",
    "FieldContribution",
    "ItemContribution",
    "JointAnswer",
    "JointSearch",
    "LabelledTexts",
    "OnnxCompletionPipeline",
    "OnnxExport",
    "Permitted",
    "QuestionAnsweringPipeline",
    "QuestionReport",
    "RayCluster",
    "Scorer",
    "SimilarAnswer",
    "SimilarItem",
    "Slot",
    "TableCompleter",
    "TextAnswer",
    "TextGeneration",
    "TextPipeline",
    "TextReport",
    "TextSampling",
    "TextSpan",
    "change_catalogue",
    "complete_table",
    "complete_table_on_ray",
    "constraint",
    "encode_questions",
    "encode_sets",
    "encode_texts",
    "explain",
    "export_onnx",
    "generate_texts",
    "item_vectors",
    "load_text_model",
    "outside_lines_of",
    "permitted_beside",
    "permitted_items",
    "placed",
    "query_model",
    "sample_texts",
    "score",
    "score_answers",
    "score_labels",
    "score_tokens",
    "score_whole_sets",
    "segment_labels",
    "set_index",
    "similar_items",
    "to_table",
]
