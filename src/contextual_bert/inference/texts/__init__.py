"""Texts instead of sets: encoded, labelled, scored, sampled."""

from contextual_bert.inference.texts.encode_texts import EncodedTexts, TextReport, encode_texts
from contextual_bert.inference.texts.label_scoring import score_labels
from contextual_bert.inference.texts.text_pipeline import LabelledTexts, TextAnswer, TextPipeline
from contextual_bert.inference.texts.text_sampling import TextSampling, sample_texts

__all__ = [
    "EncodedTexts",
    "LabelledTexts",
    "TextAnswer",
    "TextPipeline",
    "TextReport",
    "TextSampling",
    "encode_texts",
    "sample_texts",
    "score_labels",
]
