"""contextual-bert: masked language models that know who is asking.

Importing registers the classes with transformers' Auto classes, and does nothing else.

Paper: Denk and Peleteiro Ramallo (2020), "Contextual BERT: Conditioning the Language Model Using a Global State".
"""

from contextual_bert.conditioning import METHODS, ConditioningMethod, get_method, register_method
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector, infer_schema
from contextual_bert.errors import ContextualBertError
from contextual_bert.inference import (
    Catalogue,
    CompletionPipeline,
    Explanation,
    OnnxCompletionPipeline,
    QuestionAnsweringPipeline,
    TextPipeline,
    TextSampling,
    encode_questions,
    encode_texts,
    explain,
    export_onnx,
    sample_texts,
    score,
    to_table,
)
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertModel,
    ContextualBertProcessor,
)
from contextual_bert.models import register_auto_classes as _register_auto_classes
from contextual_bert.training import (
    ContextualBertTrainer,
    ContextualTrainingArguments,
    add_lora,
    freeze_bert,
    unfreeze_bert,
)

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Catalogue",
    "Categorical",
    "CompletionPipeline",
    "ConditioningMethod",
    "ContextSchema",
    "ContextualBertConfig",
    "ContextualBertError",
    "ContextualBertForMaskedLM",
    "ContextualBertForQuestionAnswering",
    "ContextualBertForSequenceClassification",
    "ContextualBertForTokenClassification",
    "ContextualBertModel",
    "ContextualBertProcessor",
    "ContextualBertTrainer",
    "ContextualTrainingArguments",
    "Explanation",
    "MultiCategorical",
    "Numerical",
    "OnnxCompletionPipeline",
    "QuestionAnsweringPipeline",
    "TextPipeline",
    "TextSampling",
    "Vector",
    "add_lora",
    "encode_questions",
    "encode_texts",
    "explain",
    "export_onnx",
    "freeze_bert",
    "get_method",
    "infer_schema",
    "register_method",
    "sample_texts",
    "score",
    "to_table",
    "unfreeze_bert",
]

_register_auto_classes()
