from .explainer import explain
from .explanation import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
)

__all__ = ["Counterfactual", "Explanation", "FieldContribution", "ItemContribution", "explain"]
