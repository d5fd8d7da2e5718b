from .explainer import explain
from .explanation import (
    Counterfactual,
    Explanation,
    FeatureContribution,
    FieldContribution,
    ItemContribution,
    ItemReasons,
)
from .text_explainer import explain_text
from .text_explanation import TextCounterfactual, TextExplanation, WordContribution

__all__ = [
    "Counterfactual",
    "Explanation",
    "FeatureContribution",
    "FieldContribution",
    "ItemContribution",
    "ItemReasons",
    "TextCounterfactual",
    "TextExplanation",
    "WordContribution",
    "explain",
    "explain_text",
]
