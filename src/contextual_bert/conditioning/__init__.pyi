from .method import (
    Attend,
    BlockSlot,
    ConditioningMethod,
    FeedForward,
    InputSlot,
    MethodSettings,
    Sizes,
    StateSlot,
)
from .registry import METHODS, get_method, methods_of_setting, register_method

__all__ = [
    "METHODS",
    "Attend",
    "BlockSlot",
    "ConditioningMethod",
    "FeedForward",
    "InputSlot",
    "MethodSettings",
    "Sizes",
    "StateSlot",
    "get_method",
    "methods_of_setting",
    "register_method",
]
