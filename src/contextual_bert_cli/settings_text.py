"""Read lists with commas and NAME=VALUE pairs, as options have them."""

import json
from collections.abc import Sequence
from typing import Any

# Option that takes NAME=VALUE -> an example.
_EXAMPLES = {"--set": "weight_decay=0.1", "--model": "hidden_size=256", "--lora": "rank=4"}


def listed(values: Sequence[str] | None) -> tuple[str, ...]:
    """The parts of repeatable options whose values may hold commas.

    Example:
        >>> listed(["a,b", "c"])
        ('a', 'b', 'c')
    """
    return tuple(part for value in values or () for part in (piece.strip() for piece in value.split(",")) if part)


def assigned(settings: Sequence[str] | None, *, option: str) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is read as JSON (3, 0.1, true, null, [1]) and otherwise as text.

    Raises:
        ConfigurationError: no "=", or a name twice.

    Example:
        >>> assigned(["hidden_size=256", "lr_scheduler_type=linear"], option="--set")
        {'hidden_size': 256, 'lr_scheduler_type': 'linear'}
    """
    from contextual_bert.errors import ConfigurationError

    found: dict[str, Any] = {}
    for setting in settings or ():
        name, sign, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not sign or not name:
            example = _EXAMPLES[option]
            fix = f"Give NAME=VALUE, for instance {option} {example}."
            raise ConfigurationError("is not allowed", setting=option, value=setting, fix=fix)
        if name in found:
            raise ConfigurationError(f"{option} names {name!r} twice", fix="Give it once.")
        try:
            found[name] = json.loads(text)
        except RecursionError:
            raise ConfigurationError(f"{option} {setting!r:.60}: the value is nested too deep.") from None
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return found
