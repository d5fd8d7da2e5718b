"""A column of dates -> features of its parts: the year in bins, the month and the weekday as categories."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context.dates import MONTHS, WEEKDAYS, DatePart, date_part, to_dates
from contextual_bert.context.hints import placeholder_days
from contextual_bert.context.kinds.categorical import Categorical
from contextual_bert.context.kinds.feature import Feature, Finding, InferenceSettings, count_distinct, feature_name
from contextual_bert.context.kinds.numerical import Numerical, infer_edges
from contextual_bert.context.seasons import DATE, PARTS, left_out_line, left_out_parts


def infer_date_parts(column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
    """Return the features of the parts of a date that training has gone round twice; see ``Feature.infer``."""
    written = settings.date_format
    dates = to_dates(array, date_format=written, column=column)
    left_out = left_out_parts(dates, is_split_by_time=settings.is_split_by_time)
    if settings.parts is not None:
        left_out = tuple(each for each in left_out if each.is_constant and each.part in settings.parts)
    without = {each.part for each in left_out}
    parts: list[DatePart] = [part for part in settings.parts or PARTS if part not in without]
    distinct, remark = count_distinct(dates), left_out_line(left_out, column=column)
    if not parts:
        is_same = all(each.is_constant for each in left_out)
        asked = ", ".join(settings.parts) if settings.parts is not None else "year, month and weekday"
        reason = f"constant: every row has the same {asked}" if is_same else f"gives no feature: {remark}"
        return Finding(None, reason, distinct, remark="" if is_same else reason)
    reason = f"gives {', '.join(parts)}{f', written as {written}' if written else ''}"
    is_told = any(not each.is_constant for each in left_out)
    reason = f"{reason}; {remark}" if remark else reason
    features = tuple(_part_feature(column, dates, part, settings) for part in parts)
    known = pc.drop_null(dates).cast(pa.int32()).to_numpy().astype(np.int64)
    marks = placeholder_days(known) if not (settings.is_forced or settings.sensitive) else []
    warning = ""
    if marks:
        options = " ".join(f"--missing-value {column}={day:{written or '%Y-%m-%d'}}" for day in marks)
        warning = f"{' and '.join(map(str, marks))} may stand for a missing date: give {options}"
    reason = f"{reason}; {warning}" if warning else reason
    return Finding(DATE, reason, distinct, features, remark=remark if is_told else "", warning=warning)


def _part_feature(column: str, dates: pa.Array, part: DatePart, settings: InferenceSettings) -> Feature:
    shared: dict[str, Any] = {"source": column, "part": part, "date_format": settings.date_format}
    name = feature_name(f"{column}_{part}")
    if part != "year":
        return Categorical(name=name, values=MONTHS if part == "month" else WEEKDAYS, **shared)
    years = date_part(dates, part).to_numpy(zero_copy_only=False).astype(np.float64)  # nulls become NaN
    unique, counts = np.unique(years[~np.isnan(years)], return_counts=True)
    edges = infer_edges(years, unique, counts, settings, num_bins=max(settings.num_bins, len(unique)))
    return Numerical(name=name, edges=edges, **shared)
