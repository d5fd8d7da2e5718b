from .backbone import Attended, Backbone, Blocks, ConditionedLayer, LayerInput
from .registry import BACKBONES, REFUSED, get_blocks

__all__ = [
    "BACKBONES",
    "REFUSED",
    "Attended",
    "Backbone",
    "Blocks",
    "ConditionedLayer",
    "LayerInput",
    "get_blocks",
]
