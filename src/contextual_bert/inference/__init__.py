"""Using a trained model: completion of raw sets, labels of texts, scoring of data sets."""

from contextual_bert.inference.constraints import CONSTRAINTS, permitted_items
from contextual_bert.inference.encode import bin_names, encode_sets, placed, segment_labels, set_index
from contextual_bert.inference.encode_texts import EncodedTexts, TextReport, encode_texts
from contextual_bert.inference.label_scoring import score_labels
from contextual_bert.inference.pipeline import Answer, Candidate, CompletionPipeline, Slot
from contextual_bert.inference.saved import load_text_model
from contextual_bert.inference.scoring import ScoredSet, Scorer, score
from contextual_bert.inference.text_pipeline import LabelledTexts, TextAnswer, TextPipeline
from contextual_bert.inference.text_sampling import sample_texts

__all__ = [
    "CONSTRAINTS",
    "Answer",
    "Candidate",
    "CompletionPipeline",
    "EncodedTexts",
    "LabelledTexts",
    "ScoredSet",
    "Scorer",
    "Slot",
    "TextAnswer",
    "TextPipeline",
    "TextReport",
    "bin_names",
    "encode_sets",
    "encode_texts",
    "load_text_model",
    "permitted_items",
    "placed",
    "sample_texts",
    "score",
    "score_labels",
    "segment_labels",
    "set_index",
]
