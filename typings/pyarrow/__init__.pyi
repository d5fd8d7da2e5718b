# pyarrow makes these names at run time or in Cython and ships no types: what comes from it is unknown, not wrong.
from typing import Any

def __getattr__(name: str) -> Any: ...
