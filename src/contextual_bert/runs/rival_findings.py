"""Findings on rivals: baselines, the row without a context, the order on validation.

A difference is called one where its interval excludes 0. It reads runs and their recipes, and trains nothing.
docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from contextual_bert.conditioning import get_method
from contextual_bert.errors import NAME, Message, joined
from contextual_bert.evaluation import Interval, PairedRuns, Run, metric_of
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, Metric
from contextual_bert.evaluation.tables import interval_cell
from contextual_bert.models.pretrained import extra_layers_of
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import BASELINES, CONTEXT_AS_TEXT
from contextual_bert.training.recipe import Recipe

CONTEXT_SUFFIX = "_context"  # of baselines that read the context beside what the one without the suffix reads
MOST_TURNED = 3  # pairs of rows that validation and test order differently, the largest first
TRY_MORE = Message(
    "Before you choose a trained method, look at the end of its training. Train longer ({num_train_epochs}) where the "
    "loss still falls, and at a lower {learning_rate} where it rises.",
    num_train_epochs=NAME,
    learning_rate=NAME,
)
WITHOUT_CONTEXT = Message(
    "Take the row without the context. Or leave out columns that change between training and test with {exclude}: "
    "attribute measures what each is worth. {field_dropout} may reduce the harm.",
    exclude=NAME,
    field_dropout=0.1,
)


def about_baselines(methods: Sequence[str], baselines: Sequence[str], paired: PairedRuns, key: str) -> list[str]:
    """Return a sentence on the best trained method beside each baseline; nothing without one of them.

    Args:
        methods: trained ones, the best first.
        baselines: the best first.
        paired: runs of the study.
        key: of the metric that the order is by.
    """
    if not methods or not baselines:
        return []
    gaps = {name: paired.difference(methods[0], name, key).interval for name in baselines}
    return [gaps_in_words(methods[0], gaps, key)]


def gaps_in_words(method: str, gaps: Mapping[str, Interval], key: str) -> str:
    """Return what the differences of the best trained method to the baselines say.

    Args:
        method: its name.
        gaps: baseline -> the method minus the baseline, the best baseline first.
        key: of the metric.

    Example:
        >>> gap = Interval(-0.2, -0.3, -0.1, 0.05, 90, 30)
        >>> gaps_in_words("film", {"bag": gap}, "cross_entropy_nats")
        '`film` is ahead of every baseline by CE. The nearest is `bag` (-0.2000 [-0.3000, -0.1000] nats).'
    """
    metric = metric_of(key)
    sign = -1 if metric.is_higher_better else 1
    behind = [name for name, gap in gaps.items() if sign * gap.value > 0 and gap.excludes(0)]
    ahead = [name for name, gap in gaps.items() if sign * gap.value < 0 and gap.excludes(0)]
    open_ones = [name for name in gaps if name not in (*behind, *ahead)]
    if not behind and not open_ones:
        nearest = ahead[0]
        return (
            f"`{method}` is ahead of every baseline by {metric.label}. The nearest is `{nearest}` "
            f"({signed_words(gaps[nearest], metric)})."
        )
    said: list[str] = []
    for word, names in (("behind", behind), ("level with", open_ones)):
        if names:
            listed = ", ".join(f"`{name}` ({signed_words(gaps[name], metric)})" for name in names)
            said.append(f"{word} {listed}")
    return joined(
        f"No trained method is ahead of every baseline by {metric.label}. The best of them, `{method}`, is "
        f"{' and '.join(said)}. ",
        TRY_MORE,
    )


def about_contexts(recipes: Mapping[str, Recipe], roles: Mapping[str, str], paired: PairedRuns) -> list[str]:
    """Return a sentence on the rows that a context harms, and one on those where it makes no difference.

    Args:
        recipes: row -> recipe.
        roles: row -> what it is in the study; controls are left out.
        paired: runs of the study, by cross-entropy.
    """
    metric, harmed, open_ones = metric_of(CROSS_ENTROPY), list[str](), list[str]()
    for name in recipes:
        other = partner_without_context(name, recipes, roles)
        if other is None:
            continue
        gap = paired.difference(name, other).interval
        told = f"`{name}` beside `{other}` ({signed_words(gap, metric)})"
        if gap.low > 0:
            harmed.append(told)
        elif not gap.excludes(0):
            open_ones.append(told)
    found: list[str] = []
    if harmed:
        found.append(joined(f"The context harms: {', '.join(harmed)}. ", WITHOUT_CONTEXT))
    if open_ones:
        found.append(f"The context makes no significant difference: {', '.join(open_ones)}.")
    return found


def partner_without_context(name: str, recipes: Mapping[str, Recipe], roles: Mapping[str, str]) -> str | None:
    """Return the row that is the same without a context: of a baseline its namesake, of a method a trained one.

    None of a row without a context, of a control, and where there is no such row.
    """
    recipe = recipes[name]
    if roles.get(name) not in ("method", "baseline") or not has_context(recipe):
        return None
    if recipe.conditioning in BASELINES and recipe.conditioning != CONTEXT_AS_TEXT:
        plain = recipe.conditioning.removesuffix(CONTEXT_SUFFIX)
        plain = "popularity" if recipe.conditioning == "context_popularity" else plain
        namesakes = (each for each, other in recipes.items() if other.conditioning == plain)
        return next((each for each in namesakes if each != name and roles.get(each) == "baseline"), None)
    plain_ones = [
        each
        for each, other in recipes.items()
        if other.conditioning not in BASELINES and not has_context(other) and roles.get(each) in ("method", "control")
    ]
    as_deep = [each for each in plain_ones if num_new_blocks(recipes[each]) == num_new_blocks(recipe)]
    return min(as_deep or plain_ones, key=lambda each: recipes[each].is_control, default=None)


def num_new_blocks(recipe: Recipe) -> int:
    """Return the number of blocks on top of a checkpoint."""
    usual = 0 if recipe.conditioning in BASELINES else get_method(recipe.conditioning).num_extra_layers
    return extra_layers_of(recipe.model, default=usual)


def about_turned_orders(names: Sequence[str], paired: PairedRuns) -> list[str]:
    """Return a sentence on rows that validation orders one way and the test part, beyond its interval, the other.

    Args:
        names: the rows that are ordered.
        paired: runs of the study, with the cross-entropy of the validation part where the test part was evaluated.
    """
    turned, metric = list[tuple[Interval, str]](), metric_of(CROSS_ENTROPY)
    for pair in combinations(names, 2):
        numbers = paired.pair(*pair)
        on_validation = [_validation_mean([paired.runs[number] for number in own]) for own in numbers]
        if None in on_validation or on_validation[0] == on_validation[1]:
            continue
        first, second = sorted(zip(on_validation, pair, strict=True), key=lambda each: each[0] or 0.0)
        gap = paired.difference(first[1], second[1]).interval
        if gap.low > 0:
            told = (
                f"`{first[1]}` ({first[0]:.3f}) is before `{second[1]}` ({second[0]:.3f}) on validation and behind it "
                f"on the test part ({signed_words(gap, metric)})"
            )
            turned.append((gap, told))
    if not turned:
        return []
    turned.sort(key=lambda each: -each[0].value)
    more = f", and {len(turned) - MOST_TURNED:,} pairs more" if len(turned) > MOST_TURNED else ""
    return [
        f"Validation and test order the rows differently: {'; '.join(told for _, told in turned[:MOST_TURNED])}{more}. "
        "A choice made on validation does not hold on the test part. Where the split is by time, look for columns that "
        "change with time."
    ]


def _validation_mean(runs: Sequence[Run]) -> float | None:
    """Return the mean over runs of the cross-entropy on the validation part, None where one of them lacks it."""
    found = [run.validation_nats for run in runs if run.validation_nats is not None]
    return sum(found) / len(found) if found and len(found) == len(runs) else None


def signed_words(gap: Interval, metric: Metric) -> str:
    """Return a difference with its interval and unit.

    Example:
        >>> signed_words(Interval(0.5, 0.4, 0.6, 0.05, 90, 30), metric_of("cross_entropy_nats"))
        '+0.5000 [+0.4000, +0.6000] nats'
    """
    return f"{interval_cell(gap, metric, is_signed=True)} {metric.unit}".strip()
