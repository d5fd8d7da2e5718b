"""The names of the conditioning methods: one line a method.

A method defined elsewhere calls ``register_method`` and is from then on a valid ``conditioning`` of a config. Names are
checked before torch is loaded, so this module imports a method when its class is first read.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean
from contextual_bert.places import SettingPlace

if TYPE_CHECKING:
    from contextual_bert.conditioning.method import ConditioningMethod

PAPER_METHODS = ("none", "concat", "new_position", "global_state", "global_state_update")
# Name, which is also that of its module -> its class, and the names of the settings of its own.
_BUILT_IN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "none": ("NoContext", ()),
    "concat": ("Concat", ()),
    "new_position": ("NewPosition", ()),
    "global_state": ("GlobalState", ()),
    "global_state_update": ("GlobalStateUpdate", ()),
    "state_flow": ("StateFlow", ()),
    "film": ("FiLM", ()),
    "multi_attribute": (
        "MultiAttribute",
        ("attribute_start", "attribute_width", "attribute_act", "has_attribute_values"),
    ),
}


class _Methods(MutableMapping[str, "type[ConditioningMethod]"]):
    """The methods by name. A class of this package is imported when it is read."""

    def __init__(self) -> None:
        self._classes: dict[str, type[ConditioningMethod] | None] = dict.fromkeys(_BUILT_IN)

    def __getitem__(self, name: str) -> "type[ConditioningMethod]":
        found = self._classes[name]
        if found is None:
            module = import_module(f"contextual_bert.conditioning.{name}")
            found = self._classes[name] = getattr(module, _BUILT_IN[name][0])
        return found

    def __setitem__(self, name: str, method: "type[ConditioningMethod]") -> None:
        self._classes[name] = method

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def settings_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the settings of a method's own, without importing a class of this package."""
        return _BUILT_IN[name][1] if name in _BUILT_IN else self[name].setting_names()


METHODS = _Methods()


def get_method(name: str, settings: Mapping[str, Any] | None = None) -> "ConditioningMethod":
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
        raise UnknownNameError(
            "is unknown", place=SettingPlace("conditioning"), value=name, allowed=did_you_mean(name, METHODS)
        )
    method = METHODS[name]
    return method.with_settings(settings) if settings else method()


def methods_of_setting(setting: str) -> list[str]:
    """Return the names of the methods that have a setting of this name.

    Example:
        >>> methods_of_setting("attribute_start"), methods_of_setting("hidden_size")
        (['multi_attribute'], [])
    """
    return [name for name in METHODS if setting in METHODS.settings_of(name)]


def register_method(method: "type[ConditioningMethod]") -> "type[ConditioningMethod]":
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
