"""The backbones by the name that a checkpoint's config gives its architecture."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from contextual_bert.models.backbones.backbone import Backbone, Blocks
from contextual_bert.models.backbones.bert import Bert, BertBlocks
from contextual_bert.models.backbones.distilbert import DistilBert
from contextual_bert.models.backbones.electra import Electra
from contextual_bert.models.backbones.modernbert import ModernBert
from contextual_bert.models.backbones.roberta import Roberta

BACKBONES: Mapping[str, Backbone] = MappingProxyType(
    {
        model_type: backbone
        for backbone in (Bert(), Roberta(), DistilBert(), Electra(), ModernBert())
        for model_type in backbone.model_types
    }
)
# Why these are none, for those who ask.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "albert": "all of its blocks share their weights, and a method has modules of its own in each",
        "mpnet": "its attention adds biases that it learned of distances",
        "deberta": "its attention keeps positions apart from words",
        "deberta-v2": "its attention keeps positions apart from words",
    }
)


def get_blocks(name: str) -> Blocks:
    """The blocks of a name that ``ContextualBertConfig.backbone`` may have.

    Example:
        >>> get_blocks("bert").pools_mean
        False
    """
    if name == "modernbert":  # whose layers of transformers are loaded when used
        return import_module("contextual_bert.models.backbones.modernbert_blocks").ModernBertBlocks()
    return BertBlocks()
