"""Write what the frozen runs give now: ``python -m tests.frozen.make [CASE ...]``, in the root of a checkout.

A change that is meant belongs in the commit message, with its reason.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.frozen.cases import frozen_cases, prepare_inputs

EXPECTED = Path(__file__).parent / "expected"
NUM_DIGITS = 7


def kept_text(found: object) -> str:
    """Return JSON with as many digits as are compared."""
    return json.dumps(rounded(found), indent=None, separators=(",", ":"), sort_keys=True) + "\n"


def rounded(found: object) -> object:
    """Return the value with its numbers rounded to so many digits."""
    if isinstance(found, float):
        return float(f"{found:.{NUM_DIGITS}g}")
    if isinstance(found, dict):
        return {str(key): rounded(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return found


def make(names: list[str]) -> None:
    """Train the cases and write what they give."""
    cases = frozen_cases()
    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare_inputs(Path(folder))
        for name in names or cases:
            (EXPECTED / f"{name}.json").write_text(kept_text(cases[name](Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    make(sys.argv[1:])
