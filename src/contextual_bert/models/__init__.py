"""The Hugging Face face: configuration, models, processor."""

from importlib import import_module
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name. With a configuration or a model at hand, the Auto classes know all of them."""
    value = _load(name)
    if name.startswith("ContextualBert"):
        import_module("contextual_bert.models.auto").register_auto_classes()
    return value
