from .explainer import explain
from .explanation import (
    Counterfactual,
    Explanation,
    FeatureContribution,
    FieldContribution,
    ItemContribution,
    ItemReasons,
)

__all__ = [
    "Counterfactual",
    "Explanation",
    "FeatureContribution",
    "FieldContribution",
    "ItemContribution",
    "ItemReasons",
    "explain",
]
