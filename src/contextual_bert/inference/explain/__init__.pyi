from .explained import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
)
from .explanation import explain

__all__ = ["Counterfactual", "Explanation", "FieldContribution", "ItemContribution", "explain"]
