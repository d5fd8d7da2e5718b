from .answer_scoring import score_answers
from .base_question_answering import AnsweredTable
from .base_text_pipeline import LabelledTexts
from .embedding_pipeline import EmbeddedTable, EmbeddingPipeline
from .encode_phrases import encode_phrases
from .encode_questions import EncodedQuestions, encode_questions
from .encode_texts import EncodedTexts, encode_texts
from .label_scoring import score_labels
from .mask_filling import FillMaskPipeline
from .question_answering import QuestionAnsweringPipeline
from .sentence_encoder import SentenceEncoder
from .text_answers import TextAnswer, TextSpan, TextVector
from .text_generation import TextGeneration, generate_texts
from .text_pipeline import TextPipeline
from .text_reports import QuestionReport, TextReport
from .text_sampling import TextSampling, sample_texts
from .text_writing import TextToTextPipeline
from .token_scoring import score_tokens

__all__ = [
    "AnsweredTable",
    "EmbeddedTable",
    "EmbeddingPipeline",
    "EncodedQuestions",
    "EncodedTexts",
    "FillMaskPipeline",
    "LabelledTexts",
    "QuestionAnsweringPipeline",
    "QuestionReport",
    "SentenceEncoder",
    "TextAnswer",
    "TextGeneration",
    "TextPipeline",
    "TextReport",
    "TextSampling",
    "TextSpan",
    "TextToTextPipeline",
    "TextVector",
    "encode_phrases",
    "encode_questions",
    "encode_texts",
    "generate_texts",
    "sample_texts",
    "score_answers",
    "score_labels",
    "score_tokens",
]
