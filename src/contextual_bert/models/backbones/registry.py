"""The backbones by the name that a checkpoint's config gives its architecture."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from contextual_bert.models.backbones.backbone import Backbone, Blocks
from contextual_bert.models.backbones.bert import Bert, BertBlocks
from contextual_bert.models.backbones.distilbert import DistilBert
from contextual_bert.models.backbones.electra import Electra
from contextual_bert.models.backbones.gpt2 import Gpt2
from contextual_bert.models.backbones.modernbert import ModernBert
from contextual_bert.models.backbones.mpnet import MPNet, MPNetBlocks
from contextual_bert.models.backbones.roberta import Roberta

BACKBONES: Mapping[str, Backbone] = MappingProxyType(
    {
        model_type: backbone
        for backbone in (Bert(), Roberta(), DistilBert(), Electra(), ModernBert(), MPNet(), Gpt2())
        for model_type in backbone.model_types
    }
)
# Why these are none, for those who ask.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "albert": "all of its blocks share their weights, and a method has modules of its own in each",
        "deberta": "its attention keeps positions apart from words",
        "deberta-v2": "its attention keeps positions apart from words",
    }
)
# Blocks whose modules are loaded on request.
_LOADED_WHEN_USED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "modernbert": ("modernbert_blocks", "ModernBertBlocks"),
        "gpt2": ("gpt2_blocks", "Gpt2Blocks"),
        "bilstm": ("recurrent_blocks", "BiLstmBlocks"),
        "bigru": ("recurrent_blocks", "BiGruBlocks"),
        "lstm": ("recurrent_blocks", "LstmBlocks"),
        "gru": ("recurrent_blocks", "GruBlocks"),
    }
)


def get_blocks(name: str) -> Blocks:
    """The blocks of a name that ``ContextualBertConfig.backbone`` may have.

    Example:
        >>> get_blocks("bert").pools_mean
        False
    """
    if name in _LOADED_WHEN_USED:
        module, blocks = _LOADED_WHEN_USED[name]
        return getattr(import_module(f"contextual_bert.models.backbones.{module}"), blocks)()
    return MPNetBlocks() if name == "mpnet" else BertBlocks()
