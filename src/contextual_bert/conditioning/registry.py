"""The names of the conditioning methods: one line a method.

A method defined elsewhere calls ``register_method`` and is from then on a valid ``conditioning`` of a config. This
module knows only names.
"""

from contextual_bert.conditioning.concat import Concat
from contextual_bert.conditioning.film import FiLM
from contextual_bert.conditioning.global_state import GlobalState
from contextual_bert.conditioning.global_state_update import GlobalStateUpdate
from contextual_bert.conditioning.method import ConditioningMethod
from contextual_bert.conditioning.multi_attribute import MultiAttribute
from contextual_bert.conditioning.new_position import NewPosition
from contextual_bert.conditioning.none import NoContext
from contextual_bert.conditioning.state_flow import StateFlow
from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean

METHODS: dict[str, type[ConditioningMethod]] = {
    method.name: method
    for method in (
        NoContext,
        Concat,
        NewPosition,
        GlobalState,
        GlobalStateUpdate,
        StateFlow,
        FiLM,
        MultiAttribute,
    )
}


def get_method(name: str) -> ConditioningMethod:
    """The method of that name.

    Raises:
        UnknownNameError: no such method; the message suggests the closest name.

    Example:
        >>> get_method("global_state").label
        '[GS]'
    """
    if name not in METHODS:
        raise UnknownNameError(f"Unknown conditioning {name!r}. {did_you_mean(name, METHODS)}")
    return METHODS[name]()


def register_method(method: type[ConditioningMethod]) -> type[ConditioningMethod]:
    """Make a method defined elsewhere known; usable as a class decorator.

    Raises:
        ConfigurationError: another class already has that name.
    """
    known = METHODS.setdefault(method.name, method)
    if known is not method:
        raise ConfigurationError(f"Conditioning {method.name!r} is already {known.__qualname__}. Choose another name.")
    return method
