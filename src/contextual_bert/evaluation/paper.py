"""The paper's numbers, to stand beside ours: Table 1 and the gains that its text names.

Transcribed, not measured: the paper's data are private, so nobody can repeat them. Ours are of other data; what may be
compared is the order of the methods and their relative gains, never a cross-entropy with a cross-entropy.

Paper: Denk and Peleteiro Ramallo (2020), Table 1 and section 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from contextual_bert.evaluation.intervals import SeedMean
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, recall_key

PAPER_SOURCE = (
    "Denk and Peleteiro Ramallo (2020), Table 1: validation data, mean of three runs, standard error in brackets, "
    "30,000 items. Its data are private, so its numbers cannot be repeated, and a cross-entropy of other data cannot "
    "be compared with them: only the order of the methods and the relative gains can."
)
_NUM_RUNS = 3


@dataclass(frozen=True)
class PaperRow:
    """One row of Table 1: metrics over three runs, and parameters without item and feature embeddings and output."""

    metrics: dict[str, SeedMean]
    parameters: int


@dataclass(frozen=True)
class PaperGain:
    """A relative gain in recall@1 that the paper's text states: `method` over `baseline`, in percent."""

    method: str
    baseline: str
    stated_percent: float


def _row(*values: tuple[float, float], parameters: int) -> PaperRow:
    keys = (CROSS_ENTROPY, recall_key(1), recall_key(5), recall_key(250))
    return PaperRow(
        {key: SeedMean(mean, error, _NUM_RUNS) for key, (mean, error) in zip(keys, values, strict=True)}, parameters
    )


# Cross-entropy in nats; recall@1, @5 and @250 in percent; each with its standard error.
PAPER_TABLE_1: Mapping[str, PaperRow] = {
    "none": _row((5.2636, 0.0038), (8.53, 0.06), (21.44, 0.04), (87.14, 0.09), parameters=546_432),
    "concat": _row((4.9428, 0.0047), (10.26, 0.16), (25.75, 0.09), (90.76, 0.10), parameters=673_664),
    "new_position": _row((4.9260, 0.0078), (10.53, 0.06), (26.27, 0.25), (90.80, 0.11), parameters=640_768),
    "global_state": _row((4.8542, 0.0084), (11.19, 0.06), (27.56, 0.28), (91.35, 0.13), parameters=723_328),
    "global_state_update": _row((4.7459, 0.0043), (12.21, 0.17), (29.40, 0.06), (92.19, 0.08), parameters=921_856),
}
# Section 4: "a relative improvement of +43% [...] and +16% compared to [NP] (the best method without global state)".
PAPER_GAINS = (
    PaperGain("global_state_update", "none", 43.0),
    PaperGain("global_state_update", "new_position", 16.0),
)


def relative_gain_percent(value: float, baseline: float) -> float | None:
    """Return the relative gain over the baseline in percent; None over a baseline of 0.

    Example:
        >>> relative_gain_percent(12.0, 10.0), relative_gain_percent(12.0, 0.0)
        (20.0, None)
    """
    return 100.0 * (value - baseline) / baseline if baseline else None
