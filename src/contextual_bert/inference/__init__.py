"""Using a trained model: completion of raw sets, labels of texts, scoring of data sets."""

from contextual_bert.inference.answers import Answer, Candidate, Slot
from contextual_bert.inference.bulk import BulkSettings, TableCompleter
from contextual_bert.inference.catalogue import Attribute, Catalogue
from contextual_bert.inference.constraints import CONSTRAINTS
from contextual_bert.inference.encode import bin_names, encode_sets, placed, segment_labels, set_index
from contextual_bert.inference.encode_texts import EncodedTexts, TextReport, encode_texts
from contextual_bert.inference.explained import Counterfactual, Explanation, FieldContribution, ItemContribution
from contextual_bert.inference.explanation import explain
from contextual_bert.inference.export import OnnxExport, export_onnx
from contextual_bert.inference.fields import Condition
from contextual_bert.inference.joint import Completion, JointAnswer, JointSearch
from contextual_bert.inference.label_scoring import score_labels
from contextual_bert.inference.onnx_model import Completions
from contextual_bert.inference.onnx_pipeline import OnnxCompletionPipeline
from contextual_bert.inference.permission import (
    Asked,
    Constraint,
    Permitted,
    constraint,
    permitted_beside,
    permitted_items,
    query_model,
    read_settings,
)
from contextual_bert.inference.pipeline import CompletionPipeline
from contextual_bert.inference.ray_cluster import RayCluster
from contextual_bert.inference.ray_completion import complete_table_on_ray
from contextual_bert.inference.saved import load_text_model
from contextual_bert.inference.scoring import ScoredSet, Scorer, score
from contextual_bert.inference.shards import BulkReport, complete_table
from contextual_bert.inference.text_pipeline import LabelledTexts, TextAnswer, TextPipeline
from contextual_bert.inference.text_sampling import sample_texts

__all__ = [
    "CONSTRAINTS",
    "Answer",
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
    "RayCluster",
    "ScoredSet",
    "Scorer",
    "Slot",
    "TableCompleter",
    "TextAnswer",
    "TextPipeline",
    "TextReport",
    "bin_names",
    "complete_table",
    "complete_table_on_ray",
    "constraint",
    "encode_sets",
    "encode_texts",
    "explain",
    "export_onnx",
    "load_text_model",
    "permitted_beside",
    "permitted_items",
    "placed",
    "query_model",
    "read_settings",
    "sample_texts",
    "score",
    "score_labels",
    "segment_labels",
    "set_index",
]
