from .answers import Answer, Candidate, Slot
from .attributes import Attribute
from .catalogue import Catalogue
from .constraint_evaluation import (
    Asked,
    Constraint,
    Permitted,
    permitted_beside,
    permitted_items,
    query_model,
)
from .constraints import CONSTRAINTS, constraint
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
from .joint import JointSearch
from .joint_answers import Completion, JointAnswer
from .pipeline import CompletionPipeline
from .query_schema import Condition
from .saved import load_text_model
from .scoring import Scorer, score
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
    TextPipeline,
    TextReport,
    TextSampling,
    TextSpan,
    encode_questions,
    encode_texts,
    sample_texts,
    score_answers,
    score_labels,
)

__all__ = [
    "CONSTRAINTS",
    "Answer",
    "AnsweredTable",
    "Asked",
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
    "Slot",
    "TableCompleter",
    "TextAnswer",
    "TextPipeline",
    "TextReport",
    "TextSampling",
    "TextSpan",
    "complete_table",
    "complete_table_on_ray",
    "constraint",
    "encode_questions",
    "encode_sets",
    "encode_texts",
    "explain",
    "export_onnx",
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
    "segment_labels",
    "set_index",
    "to_table",
]
