"""The names of the conditioning methods: one line a method.

A method defined elsewhere calls ``register_method`` and is from then on a valid ``conditioning`` of a config. This
module knows only names.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from contextual_bert.conditioning.concat import Concat
from contextual_bert.conditioning.film import FiLM
from contextual_bert.conditioning.global_state import GlobalState
from contextual_bert.conditioning.global_state_update import GlobalStateUpdate
from contextual_bert.conditioning.method import ConditioningMethod, MethodSettings
from contextual_bert.conditioning.multi_attribute import MultiAttribute
from contextual_bert.conditioning.new_position import NewPosition
from contextual_bert.conditioning.none import NoContext
from contextual_bert.conditioning.state_flow import StateFlow
from contextual_bert.errors import ConfigurationError, SettingPlace, UnknownNameError, did_you_mean

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


def get_method(name: str, settings: Mapping[str, Any] | None = None) -> ConditioningMethod:
    """Return the method of a name.

    Args:
        name: one of ``METHODS``.
        settings: of the method's own; what is left out has its default.

    Raises:
        UnknownNameError: no such method, or no such setting of it; the message suggests the closest name.
        ConfigurationError: a setting has a value that the method does not take.

    Example:
        >>> get_method("global_state").label
        '[GS]'
    """
    if name not in METHODS:
        raise UnknownNameError(f"Unknown conditioning {name!r}", allowed=did_you_mean(name, METHODS))
    method = METHODS[name]
    return method(_read_settings(method, settings)) if settings else method()


def methods_of_setting(setting: str) -> list[str]:
    """Return the names of the methods that have a setting of this name.

    Example:
        >>> methods_of_setting("attribute_start"), methods_of_setting("hidden_size")
        (['multi_attribute'], [])
    """
    return [name for name, method in METHODS.items() if setting in method.setting_names()]


def register_method(method: type[ConditioningMethod]) -> type[ConditioningMethod]:
    """Make a method defined elsewhere known; usable as a class decorator.

    Raises:
        ConfigurationError: another class already has that name.
    """
    known = METHODS.setdefault(method.name, method)
    if known is not method:
        raise ConfigurationError(
            f"Conditioning {method.name!r} is already {known.__qualname__}", fix="Choose another name."
        )
    return method


def _read_settings(method: type[ConditioningMethod], given: Mapping[str, Any]) -> MethodSettings:
    """Return the settings of a method, checked by the types of their dataclass."""
    known = method.setting_names()
    for name in given:
        if name not in known:
            allowed = did_you_mean(name, known) if known else "It has no settings."
            raise UnknownNameError(
                f"has no setting {name!r}", place=SettingPlace("conditioning"), value=method.name, allowed=allowed
            )
    types, values = get_type_hints(method.settings_class), dict[str, Any]()
    for name, value in given.items():
        try:
            values[name] = TypeAdapter(types[name]).validate_python(value, strict=True)
        except ValidationError as error:
            if get_origin(types[name]) is Literal:
                known = did_you_mean(str(value), get_args(types[name]))
                raise ConfigurationError("is unknown", setting=name, value=value, allowed=known) from None
            raise ConfigurationError(
                "is not allowed", setting=name, value=value, fix=f"{error.errors()[0]['msg']}."
            ) from None
    return method.settings_class(**values)
