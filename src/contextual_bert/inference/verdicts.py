"""Which fields of the context a run's own report tells from nothing, as its directory says.

A run keeps what permuting each field did on its validation part, with p-values corrected for the number of fields. This
module reads that; it measures nothing. Paper: not there; docs/decisions/036.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

IMPORTANCES, PART = "importances", "part"  # keys of metrics.json
LEVEL = 0.05  # of the corrected p-value


@dataclass(frozen=True)
class FieldVerdicts:
    """Verdict of a run's report on each field.

    Args:
        part: that it was measured on.
        rises: field -> by how many nats the cross-entropy rises without it, and the corrected p-value.

    Example:
        >>> verdicts = FieldVerdicts("validation", {"age": (0.02, 0.001), "noise": (0.0003, 0.9)})
        >>> verdicts.is_told_apart("age"), verdicts.is_told_apart("noise"), verdicts.is_told_apart("new")
        (True, False, None)
    """

    part: str
    rises: Mapping[str, tuple[float, float]]

    def is_told_apart(self, field: str) -> bool | None:
        """Return whether the report tells a field from nothing; None where it does not know the field.

        It does where the loss rises without the field and the corrected p-value is below 0.05.
        """
        if field not in self.rises:
            return None
        rise, p_value = self.rises[field]
        return rise > 0 and p_value < LEVEL

    def doubtful(self, fields: Iterable[str] | None = None) -> list[str]:
        """Return those of some fields, or of all, that the report does not tell from nothing."""
        return [name for name in (self.rises if fields is None else fields) if self.is_told_apart(name) is False]

    def lines(self) -> list[str]:
        """Return a sentence on the fields that the report does not tell from nothing, none where there are none."""
        found = self.doubtful()
        return [f"context {', '.join(map(repr, found))}: {self._sentence()}"] if found else []

    def notes(self, fields: Iterable[str]) -> list[str]:
        """Return what an explanation says of its fields, none where all are told from nothing."""
        found = self.doubtful(fields)
        return [f"{', '.join(found)}: {self._sentence()}"] if found else []

    def _sentence(self) -> str:
        return (
            f"could not be told from nothing on the {self.part} part. Fields that say the same can stand in for each "
            "other; `contextual-bert importance` measures at length."
        )

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> Self | None:
        """Return what the content of ``metrics.json`` says; None where it says nothing of fields."""
        kept: Any = metrics.get(IMPORTANCES)
        try:
            rows = [row for row in kept["rows"] if row["feature"] != kept["rows"][0]["feature"]]
            rises = {row["feature"]: _rise_of(row["rise_nats"]) for row in rows}
            return cls(str(kept[PART]), rises)
        except (TypeError, KeyError, IndexError, ValueError):
            return None

    @classmethod
    def from_run(cls, directory: str | Path) -> Self | None:
        """Return what a run's directory says; None where it says nothing of fields, as an export."""
        try:
            metrics = json.loads((Path(directory) / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return cls.from_metrics(cast("dict[str, Any]", metrics)) if isinstance(metrics, dict) else None


def _rise_of(difference: Mapping[str, Any]) -> tuple[float, float]:
    """Return a rise and its corrected p-value; without one, as of a single customer, nothing is told apart."""
    p_value = difference.get("adjusted_p_value")
    found = float(p_value) if isinstance(p_value, int | float) else math.nan
    return float(difference["interval"]["value"]), found
