"""Texts instead of sets: encoded, labelled, scored, sampled."""

from contextual_bert.inference.texts.answer_scoring import score_answers
from contextual_bert.inference.texts.encode_questions import EncodedQuestions, QuestionReport, encode_questions
from contextual_bert.inference.texts.encode_texts import EncodedTexts, TextReport, encode_texts
from contextual_bert.inference.texts.label_scoring import score_labels
from contextual_bert.inference.texts.question_answering import AnsweredTable, QuestionAnsweringPipeline, TextSpan
from contextual_bert.inference.texts.text_pipeline import LabelledTexts, TextAnswer, TextPipeline
from contextual_bert.inference.texts.text_sampling import TextSampling, sample_texts

__all__ = [
    "AnsweredTable",
    "EncodedQuestions",
    "EncodedTexts",
    "LabelledTexts",
    "QuestionAnsweringPipeline",
    "QuestionReport",
    "TextAnswer",
    "TextPipeline",
    "TextReport",
    "TextSampling",
    "TextSpan",
    "encode_questions",
    "encode_texts",
    "sample_texts",
    "score_answers",
    "score_labels",
]
