"""Why an item: what each field of a context and each item of a set did, as Shapley values in log-odds."""

from contextual_bert.inference.explain.explained import (
    Counterfactual,
    Explanation,
    FieldContribution,
    ItemContribution,
)
from contextual_bert.inference.explain.explanation import explain

__all__ = ["Counterfactual", "Explanation", "FieldContribution", "ItemContribution", "explain"]
