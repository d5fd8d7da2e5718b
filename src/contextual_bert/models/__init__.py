"""The Hugging Face face: configuration, models, processor."""

from contextual_bert.candidates import MaskedScores
from contextual_bert.models.auto import register_auto_classes
from contextual_bert.models.compatibility import check_processor
from contextual_bert.models.configuration_contextual_bert import (
    PAPER_CONTEXT_SIZE,
    ContextualBertConfig,
)
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.feature_extraction_contextual_bert import ContextFeatureExtractor
from contextual_bert.models.label_ranks import best_labels, label_logits, rank_labels, span_logits
from contextual_bert.models.masked_lm import IGNORED_LABEL, ContextualBertForMaskedLM
from contextual_bert.models.modeling_contextual_bert import ContextualBertModel, ContextualBertPreTrainedModel
from contextual_bert.models.parameters import (
    PAPER_PARAMETERS,
    ParameterCount,
    Table1Row,
    count_parameters,
    matching_sizes,
    table1,
)
from contextual_bert.models.processing_contextual_bert import RESERVED_ITEMS, ContextualBertProcessor
from contextual_bert.models.sequence_classification import ContextualBertForSequenceClassification
from contextual_bert.models.token_heads import (
    ContextualBertForQuestionAnswering,
    ContextualBertForTokenClassification,
)

__all__ = [
    "IGNORED_LABEL",
    "PAPER_CONTEXT_SIZE",
    "PAPER_PARAMETERS",
    "RESERVED_ITEMS",
    "ContextFeatureExtractor",
    "ContextState",
    "ContextualBertConfig",
    "ContextualBertForMaskedLM",
    "ContextualBertForQuestionAnswering",
    "ContextualBertForSequenceClassification",
    "ContextualBertForTokenClassification",
    "ContextualBertModel",
    "ContextualBertPreTrainedModel",
    "ContextualBertProcessor",
    "MaskedScores",
    "ParameterCount",
    "Table1Row",
    "best_labels",
    "check_processor",
    "count_parameters",
    "label_logits",
    "matching_sizes",
    "rank_labels",
    "register_auto_classes",
    "span_logits",
    "table1",
]
