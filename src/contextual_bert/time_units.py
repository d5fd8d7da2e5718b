"""Name the units of time gaps, and the id of a gap that is not known. ``data.time_gaps`` makes the other ids."""

from typing import Literal, get_args

# "seconds": of dates and timestamps. "numbers": whatever the numbers of a column count.
TimeUnit = Literal["seconds", "numbers"]
TIME_UNITS: tuple[TimeUnit, ...] = get_args(TimeUnit)
UNKNOWN_GAP = 0
