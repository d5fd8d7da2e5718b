"""Coverage of prediction sets by segment, of a run's validation and test rows that are shuffled by customer again.

One split says what chance did to a segment; the mean over many says whether its coverage is biased.

    python benchmarks/recalibrated_splits.py RUN --splits 6 --min-rows 200
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contextual_bert.evaluation.answer_calibration import TEMPERATURES, CalibrationRows, fit_calibration
from contextual_bert.evaluation.segments import rows_by_value
from contextual_bert.inference import set_index
from contextual_bert.inference.whole_rows import TemperedRows
from contextual_bert.runs.calibrated_evaluation import choices_of, clusters_of, read_choices
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.reporting import segments_of


def rows_of(directory: Path, part: str) -> CalibrationRows:
    """Return what floors are chosen from, of one part."""
    data = load_evaluation(directory, part=part)
    scored, num = data.score(data.dataset), len(data.dataset)
    grid = torch.from_numpy(TEMPERATURES).expand(num, -1)
    reader = TemperedRows(choices_of(data, scored), data.num_choices, grid, torch.empty(num, 0))
    index = set_index(data.dataset, scored.example_id)
    return CalibrationRows(
        scored.log_probability,
        scored.num_better == 0,
        read_choices(data, reader, scored, progress=None),
        segments_of(data.dataset, data.ready.processor, index),
        clusters_of(data, scored),
    )


def chosen(rows: CalibrationRows, places: np.ndarray) -> CalibrationRows:
    """Return some of the rows."""
    labels = {
        name: [column[place] for place in places.tolist()] if isinstance(column, list) else column[places]
        for name, column in rows.labels.items()
    }
    log, best, sums, _, clusters = rows
    return CalibrationRows(log[places], best[places], sums[places], labels, clusters[places])


def covered_by(rows: CalibrationRows, learned: CalibrationRows, coverage: float, *, min_rows: int) -> np.ndarray:
    """Return whether the set of each row holds its true choice, with floors chosen from others."""
    found = fit_calibration(learned, part="validation", coverages=(coverage,), min_rows=min_rows)
    place = int(np.abs(TEMPERATURES - found.temperature).argmin())
    tempered = rows.log_probability / found.temperature - rows.sums[:, place]
    return rows.is_best | (tempered >= found.floors[0].of(rows.labels, len(tempered)))


def main() -> None:
    """Print a line for each coverage: of the run's own split, and of the mean over others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--min-rows", type=int, default=200, help="of a value with a floor of its own")
    parser.add_argument("--segment-rows", type=int, default=500, help="of a segment that is counted")
    given = parser.parse_args()
    first, second = (rows_of(given.run, part) for part in ("validation", "test"))
    num_first, offset = len(first.clusters), int(first.clusters.max()) + 1
    joined: dict[str, Any] = {
        name: column + second.labels[name]
        if isinstance(column, list)
        else np.concatenate([np.asarray(column), np.asarray(second.labels[name])])
        for name, column in first.labels.items()
    }
    pairs = zip(first[:3], second[:3], strict=True)
    clusters = np.concatenate([first.clusters, second.clusters + offset])
    rows = CalibrationRows(*(np.concatenate(pair) for pair in pairs), joined, clusters)
    customers, generator = np.unique(clusters), np.random.default_rng(0)
    masks = [np.arange(len(clusters)) < num_first]
    for _ in range(given.splits):
        drawn = generator.permutation(customers)[: round(len(customers) * num_first / len(clusters))]
        masks.append(np.isin(clusters, drawn))
    groups = [((name, value), place) for name, column in joined.items() for value, place in rows_by_value(column)]
    for coverage in (0.8, 0.9):
        off: dict[tuple[str, str], list[float]] = {}
        for number, is_learned in enumerate(masks):
            learned = chosen(rows, np.flatnonzero(is_learned))
            covered = covered_by(rows, learned, coverage, min_rows=given.min_rows)
            own = {key: place[~is_learned[place]] for key, place in groups}
            gaps = {
                key: covered[place].mean() - coverage for key, place in own.items() if len(place) >= given.segment_rows
            }
            if number == 0:
                near, mean = sum(abs(gap) <= 0.01 for gap in gaps.values()), np.mean(np.abs([*gaps.values()]))
                reached = covered[~is_learned].mean()
                print(
                    f"{coverage:g}, own split: {reached:.4f}; {near} of {len(gaps)} segments within a point, {mean:.4f}"
                )
                continue
            for key, gap in gaps.items():
                off.setdefault(key, []).append(gap)
        means = {key: float(np.mean(gaps)) for key, gaps in off.items() if 2 * len(gaps) > given.splits}
        if means:
            near, furthest = (
                sum(abs(gap) <= 0.01 for gap in means.values()),
                max(means.items(), key=lambda each: abs(each[1])),
            )
            chance = float(np.mean([np.std(gaps) for gaps in off.values()]))
            print(
                f"{coverage:g}, other splits: {near} of {len(means)} means within a point, furthest {furthest}; "
                f"sd of a segment {chance:.4f}"
            )


if __name__ == "__main__":
    main()
