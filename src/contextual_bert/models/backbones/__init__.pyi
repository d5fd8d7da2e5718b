from .backbone import Backbone, Blocks, ConditionedLayer, LayerInput
from .registry import BACKBONES, REFUSED, get_blocks

__all__ = [
    "BACKBONES",
    "REFUSED",
    "Backbone",
    "Blocks",
    "ConditionedLayer",
    "LayerInput",
    "get_blocks",
]
