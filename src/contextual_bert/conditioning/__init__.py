"""How the context enters: one method a file, torch only."""

from contextual_bert.conditioning.method import (
    Attend,
    BlockSlot,
    ConditioningMethod,
    FeedForward,
    InputSlot,
    Sizes,
    StateSlot,
)
from contextual_bert.conditioning.registry import METHODS, get_method, register_method

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
