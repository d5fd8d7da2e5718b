from .method import (
    Attend,
    BlockSlot,
    ConditioningMethod,
    FeedForward,
    InputSlot,
    Sizes,
    StateSlot,
)
from .registry import METHODS, get_method, register_method

__all__ = [
    "METHODS",
    "Attend",
    "BlockSlot",
    "ConditioningMethod",
    "FeedForward",
    "InputSlot",
    "Sizes",
    "StateSlot",
    "get_method",
    "register_method",
]
