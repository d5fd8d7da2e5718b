"""How much a text of each label counts in training: names and numbers in, a weight for each label out."""

import math
from collections.abc import Sequence

from contextual_bert.errors import ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.places import SettingPlace

BALANCED = "balanced"
SETTING = "class_weights"


def read_class_weights(given: Sequence[str]) -> dict[str, float] | None:
    """Return label -> weight as a recipe names them; None of balanced ones.

    Args:
        given: ``["balanced"]``, or ``LABEL=WEIGHT`` for some labels.

    Raises:
        ConfigurationError: one that is written in another way, or no number above 0; a label twice.

    Example:
        >>> read_class_weights(["bad=2", "a=b=0.5"]), read_class_weights(["balanced"])
        ({'bad': 2.0, 'a=b': 0.5}, None)
    """
    if [*given] == [BALANCED]:
        return None
    found: dict[str, float] = {}
    for each in given:
        label, _, written = each.rpartition("=")
        try:
            weight = float(written)
        except ValueError:
            weight = math.nan
        if not label or not math.isfinite(weight) or weight <= 0 or label in found:
            raise ConfigurationError(
                "is not allowed: a label and a number above 0, each label once",
                setting=SETTING,
                value=each,
                fix=Message("Give {class_weights}, or LABEL=WEIGHT such as bad=2.", class_weights=(BALANCED,)),
            )
        found[label] = weight
    return found


def class_weights_of(
    given: Sequence[str], labels: Sequence[str], counts: Sequence[int], *, num_texts: int | None = None
) -> list[float]:
    """Return the weight of each label in the loss.

    Formula:
        balanced: w_k = n / (K n_k), of K labels that occur; several labels a text, of N: w_k = (N - n_k) / n_k
        one label a text, or word, is scaled by n / sum over k of n_k w_k: the mean over training is 1

    Symbols:
        n_k how often label k occurs in the training part, n the sum. A label that does not occur has weight 1.

    Args:
        given: as for ``read_class_weights``; labels without a weight have 1.
        labels: in the order of the ids.
        counts: n_k, (labels,).
        num_texts: N, where a text may have several labels: a weight is then of the texts that have the label, beside
            1 of those that lack it.

    Raises:
        UnknownNameError: a label that no part has.

    Reference:
        King and Zeng (2001), "Logistic Regression in Rare Events Data", section 4.2, for the balanced ones.

    Example:
        >>> class_weights_of(["balanced"], ["bad", "good"], [10, 30])
        [2.0, 0.6666666666666666]
        >>> class_weights_of(["bad=3"], ["bad", "good"], [10, 30])
        [2.0, 0.6666666666666666]
        >>> class_weights_of(["balanced"], ["quiet", "clean"], [10, 30], num_texts=40)
        [3.0, 0.3333333333333333]
    """
    named = read_class_weights(given)
    if named is None:
        weights = _balanced(counts, num_texts)
    else:
        unknown = next((label for label in named if label not in labels), None)
        if unknown is not None:
            raise UnknownNameError(
                "is no label of the table",
                place=SettingPlace(SETTING),
                value=unknown,
                allowed=did_you_mean(unknown, labels),
            )
        weights = [named.get(label, 1.0) for label in labels]
    weighted = math.fsum(count * weight for count, weight in zip(counts, weights, strict=True))
    scale = sum(counts) / weighted if num_texts is None and weighted > 0 else 1.0
    return [weight * scale for weight in weights]


def _balanced(counts: Sequence[int], num_texts: int | None) -> list[float]:
    """The balanced weights; what each text has, or none, tells nothing, and weighs 1."""
    if num_texts is not None:
        return [(num_texts - count) / count if 0 < count < num_texts else 1.0 for count in counts]
    num_labels = sum(count > 0 for count in counts)
    return [sum(counts) / (num_labels * count) if count > 0 else 1.0 for count in counts]
