"""Using a trained model: completion of raw sets, labels of texts, scoring of data sets."""

from contextual_bert.inference.answers import Answer, Candidate, Slot
from contextual_bert.inference.attributes import Attribute
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.constraint_evaluation import (
    Asked,
    Constraint,
    Permitted,
    constraint,
    permitted_beside,
    permitted_items,
    query_model,
    read_settings,
)
from contextual_bert.inference.constraints import CONSTRAINTS
from contextual_bert.inference.encode import (
    encode_sets,
    outside_lines_of,
    placed,
    segment_labels,
    set_index,
)
from contextual_bert.inference.explain import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
    explain,
)
from contextual_bert.inference.exported import Completions, OnnxCompletionPipeline, OnnxExport, export_onnx
from contextual_bert.inference.flat import to_table
from contextual_bert.inference.joint import Completion, JointAnswer, JointSearch
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.query_schema import Condition
from contextual_bert.inference.saved import load_text_model
from contextual_bert.inference.scoring import ScoredSet, Scorer, score
from contextual_bert.inference.tables import (
    BulkReport,
    BulkSettings,
    RayCluster,
    TableCompleter,
    complete_table,
    complete_table_on_ray,
)
from contextual_bert.inference.texts import (
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
from contextual_bert.manifest import write_manifest

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
    "ScoredSet",
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
    "read_settings",
    "sample_texts",
    "score",
    "score_answers",
    "score_labels",
    "segment_labels",
    "set_index",
    "to_table",
    "write_manifest",
]
