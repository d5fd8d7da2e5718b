"""Registers the classes with transformers' Auto classes: ``AutoModelForMaskedLM.from_pretrained(run)`` finds them.

It knows no class but those of this package.
"""

from collections.abc import Mapping
from typing import Any

from transformers import AutoConfig, AutoFeatureExtractor, AutoProcessor

from contextual_bert.models.causal_lm import ContextualBertForCausalLM
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.feature_extraction_contextual_bert import ContextFeatureExtractor
from contextual_bert.models.masked_lm import ContextualBertForMaskedLM
from contextual_bert.models.modeling_contextual_bert import ContextualBertModel, ContextualBertPreTrainedModel
from contextual_bert.models.processing_contextual_bert import ContextualBertProcessor
from contextual_bert.models.seq2seq_lm import ContextualBertForSeq2SeqLM
from contextual_bert.models.sequence_classification import ContextualBertForSequenceClassification
from contextual_bert.models.token_heads import (
    ContextualBertForQuestionAnswering,
    ContextualBertForTokenClassification,
)

# Auto class -> the class it finds for a ContextualBertConfig; one line a head.
MODELS: Mapping[Any, type[ContextualBertPreTrainedModel]] = {
    each.auto_class: each
    for each in (
        ContextualBertModel,
        ContextualBertForMaskedLM,
        ContextualBertForCausalLM,
        ContextualBertForSeq2SeqLM,
        ContextualBertForSequenceClassification,
        ContextualBertForTokenClassification,
        ContextualBertForQuestionAnswering,
    )
}


def register_auto_classes() -> None:
    """Make the Auto classes know ``model_type`` "contextual_bert"; calling it again changes nothing."""
    AutoConfig.register(ContextualBertConfig.model_type, ContextualBertConfig, exist_ok=True)
    for auto_class, model_class in MODELS.items():
        auto_class.register(ContextualBertConfig, model_class, exist_ok=True)
    AutoFeatureExtractor.register(ContextualBertConfig, ContextFeatureExtractor, exist_ok=True)
    AutoProcessor.register(ContextualBertConfig, ContextualBertProcessor, exist_ok=True)
