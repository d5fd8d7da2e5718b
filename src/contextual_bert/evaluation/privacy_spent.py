"""The privacy that a training has spent: epsilon at a delta, and what it was computed from.

Paper: not there. Abadi et al. (2016), "Deep learning with differential privacy"; Gopi et al. (2021) for the accountant.
"""

from dataclasses import dataclass

from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.nouns import counted


@dataclass(frozen=True)
class PrivacySpent(JsonText):
    """What DP-SGD guarantees of the weights of a run.

    Formula: for tables that differ in one row, and all sets of weights S, Pr(A(D) in S) <= e^epsilon Pr(A(D') in S) +
        delta.

    Args:
        epsilon: spent by the steps that were done.
        target_epsilon: that was asked for, of all steps.
        delta: at which epsilon holds.
        noise_multiplier: standard deviation of the noise, in units of ``max_grad_norm``.
        max_grad_norm: longest gradient of an example.
        sample_rate: the chance of a row to be in a step.
        steps: that were done.
        num_rows: training rows.

    Relation to its siblings: ``training.private_trainer`` computes it; ``Report.privacy`` holds it.

    Example:
        >>> PrivacySpent(7.99, 8.0, 1e-5, 0.55, 1.0, 0.01, 1000, 25600).note()[:52]
        'Trained with DP-SGD: epsilon 7.99 at delta 1e-05 for'
    """

    epsilon: float
    target_epsilon: float
    delta: float
    noise_multiplier: float
    max_grad_norm: float
    sample_rate: float
    steps: int
    num_rows: int

    def note(self) -> str:
        """Return what is guaranteed and what is not, in sentences."""
        return (
            f"Trained with DP-SGD: epsilon {self.epsilon:.2f} at delta {self.delta:g} for single rows, of "
            f"{counted(self.steps, 'step')} with noise {self.noise_multiplier:.3g} times the longest gradient "
            f"({self.max_grad_norm:g}), {100 * self.sample_rate:.3g}% of {self.num_rows:,} rows a step. A customer of "
            "k rows has at most k times that epsilon. It is of the weights, given vocabulary, schema and choice of "
            "fields, which read the rows without noise, as do these figures."
        )
