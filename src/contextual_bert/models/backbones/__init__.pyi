from .backbone import Backbone
from .registry import BACKBONES, REFUSED, get_backbone

__all__ = ["BACKBONES", "REFUSED", "Backbone", "get_backbone"]
