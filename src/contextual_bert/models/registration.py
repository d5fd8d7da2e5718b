"""Make transformers' Auto classes know this package without importing transformers or torch.

``import contextual_bert`` takes no second, and ``AutoModelForMaskedLM.from_pretrained(run)`` finds the class all the
same: each Auto class is given a stand-in as soon as transformers has defined it. Its first use imports the model and
registers the classes themselves. Reasons: docs/decisions/033.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MODEL_TYPE = "contextual_bert"
# Only what is found by its name needs a stand-in. A model is looked up by its configuration, which registers all.
_STAND_INS: Mapping[str, tuple[str, str]] = {
    "transformers.models.auto.configuration_auto": ("AutoConfig", "ContextualBertConfig"),
    "transformers.models.auto.feature_extraction_auto": ("AutoFeatureExtractor", "ContextFeatureExtractor"),
    "transformers.models.auto.processing_auto": ("AutoProcessor", "ContextualBertProcessor"),
}


class _StandIn(type):
    """Metaclass of stand-ins. Their attributes and calls are those of the class they are named after."""

    def __getattr__(cls, name: str) -> Any:
        return getattr(_registered(cls.__name__), name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _registered(cls.__name__)(*args, **kwargs)


class _AutoModules(MetaPathFinder):
    """Finder of the modules that define the Auto classes: each gets its stand-in once it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _STAND_INS else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = execute_and_register
        return spec


def register_when_imported() -> None:
    """Register with the Auto classes that are imported, and with the others once they are."""
    if not any(isinstance(each, _AutoModules) for each in sys.meta_path):
        sys.meta_path.insert(0, _AutoModules())
    for name in _STAND_INS:
        if name in sys.modules:
            _register(sys.modules[name])


def _register(module: ModuleType) -> None:
    auto_name, name = _STAND_INS[module.__name__]
    key = MODEL_TYPE if auto_name == "AutoConfig" else _stand_in("ContextualBertConfig")
    getattr(module, auto_name).register(key, _stand_in(name), exist_ok=True)


def _stand_in(name: str) -> type:
    return _StandIn(name, (), {"__module__": __name__})


def _registered(name: str) -> Any:
    """Return the class of that name, after all classes have been registered."""
    import_module("contextual_bert.models.auto").register_auto_classes()
    return getattr(import_module("contextual_bert.models"), name)
