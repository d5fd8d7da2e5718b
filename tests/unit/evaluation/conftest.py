"""A study of made-up numbers, shared by the tests of its page, its pictures and its files."""

import numpy as np
import pytest

from contextual_bert.evaluation import (
    Cost,
    EvaluationSettings,
    LearningCurve,
    LearningPoint,
    Provenance,
    Run,
    Scores,
    Study,
    compare_runs,
    evaluate_scores,
)
from contextual_bert.evaluation.paper import PAPER_TABLE_1

SETTINGS = EvaluationSettings(ks=(1, 5, 250), num_resamples=100, min_segment_clusters=5, min_cell_clusters=1)
SETS, SIZE = 80, 3
ROWS = SETS * SIZE
CUSTOMERS = np.repeat(np.arange(SETS) // 2, SIZE)
STYLES = np.repeat(np.where(np.arange(SETS) % 2, "plain", "<b>loud</b>"), SIZE)
GAINS = {"none": 0.0, "concat": 0.3, "new_position": 0.3, "global_state_update": 0.5, "<b>odd</b>": 0.2}
# Of how many rows in 240 the target is first: recall@1 by hand.
FIRST = {"none": 24, "concat": 36, "new_position": 30, "global_state_update": 60, "<b>odd</b>": 24}
PROVENANCE = Provenance("1f3a", "c0ffee", (0, 1), "two cores", "a test")


def scores(gain: float, num_first: int, *, seed: int) -> Scores:
    noise = 0.05 * np.random.default_rng(seed).normal(size=ROWS)
    loss = 2 + np.random.default_rng(0).exponential(1, ROWS) - gain + noise
    better = np.where(np.arange(ROWS) < num_first, 0, 7)
    return Scores(
        np.repeat(np.arange(SETS), SIZE),
        np.tile(np.arange(SIZE), SETS),
        -loss,
        better,
        [1] * ROWS,
        np.linspace(0.05, 0.6, ROWS),
    )


def make_study(*, has_oracle: bool) -> Study:
    runs, curves, reports = [], [], {}
    for number, (name, gain) in enumerate(GAINS.items()):
        for seed in range(2):
            made = scores(gain, FIRST[name], seed=10 * number + seed)
            runs.append(Run(name, seed, made, CUSTOMERS, Cost(500_000 + number, 60.0 + number, 2**30)))
            slope = -0.1 if name == "concat" else 0.0
            points = [LearningPoint(float(epoch), 10 * epoch, None, 5 + slope * epoch) for epoch in range(1, 7)]
            curves.append(LearningCurve(name, seed, tuple(points)))
            if seed == 0:
                reports[name] = evaluate_scores(
                    made,
                    clusters=CUSTOMERS,
                    segments={"style": STYLES},
                    num_items=1000,
                    settings=SETTINGS,
                    provenance=PROVENANCE,
                )
    runs.append(Run("popularity", 0, scores(-1.0, 12, seed=98), CUSTOMERS, role="baseline"))
    if has_oracle:
        runs.append(Run("oracle", 0, scores(0.8, 90, seed=99), CUSTOMERS, role="oracle"))

    def compare(reference: str):
        return compare_runs(runs, reference=reference, num_items=1000, settings=SETTINGS, provenance=PROVENANCE)

    return Study(
        "Does a context help?",
        compare("none"),
        compare("oracle") if has_oracle else None,
        tuple(curves),
        reports,
        paper=dict(PAPER_TABLE_1),
        texts=("The context is worth <b>half</b> a nat; `global_state_update` is best.", "A second finding."),
    )


@pytest.fixture(scope="session")
def study() -> Study:
    return make_study(has_oracle=True)


@pytest.fixture(scope="session")
def study_without_oracle() -> Study:
    return make_study(has_oracle=False)
