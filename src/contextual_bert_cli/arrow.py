"""How the command line has pyarrow loaded: without pandas, which no command gives it."""

import sys
from importlib.machinery import ModuleSpec


class _WithoutPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas, and leave other names to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return None


def load_arrow() -> None:
    """Import pyarrow and let it look for pandas once, in vain, where nothing has imported pandas yet.

    ``pyarrow.array`` imports pandas to see whether a list is a Series, which takes half a second. It asks again where
    it needs pandas, so ``Table.to_pandas`` works afterwards.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)  # None in sys.modules would be taken for the package
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
