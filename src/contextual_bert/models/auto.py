"""Registers the classes with transformers' Auto classes: ``AutoModelForMaskedLM.from_pretrained(run)`` finds them.

It knows no class but those of this package.
"""

from transformers import AutoConfig, AutoFeatureExtractor, AutoModel, AutoModelForMaskedLM, AutoProcessor

from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.modeling_contextual_bert import ContextualBertForMaskedLM, ContextualBertModel
from contextual_bert.models.processing_contextual_bert import ContextFeatureExtractor, ContextualBertProcessor


def register_auto_classes() -> None:
    """Make the Auto classes know ``model_type`` "contextual_bert"; calling it again changes nothing."""
    AutoConfig.register(ContextualBertConfig.model_type, ContextualBertConfig, exist_ok=True)
    AutoModel.register(ContextualBertConfig, ContextualBertModel, exist_ok=True)
    AutoModelForMaskedLM.register(ContextualBertConfig, ContextualBertForMaskedLM, exist_ok=True)
    AutoFeatureExtractor.register(ContextualBertConfig, ContextFeatureExtractor, exist_ok=True)
    AutoProcessor.register(ContextualBertConfig, ContextualBertProcessor, exist_ok=True)
