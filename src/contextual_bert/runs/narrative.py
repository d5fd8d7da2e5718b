"""Findings of a study in sentences: the order of the rows, their rivals, a few items that decide, and leaks.

Rivals are the baselines, the row without a context, and the order on validation. A difference is called one where its
interval excludes 0. If a few items carry a metric is asked of the commonest items of training, not of what a model
finds: a choice by the result would make every difference rest on a few. Runs and their recipes are read here, and
nothing is trained. Rules: docs/protocol.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.names import BASELINES, CONTEXT_AS_TEXT, FITTED_BASELINES
from contextual_bert.conditioning import get_method
from contextual_bert.errors import NAME, DataError, Message, in_message, joined
from contextual_bert.evaluation import Interval, PairedRuns, Run, Scores, metric_of
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, Metric, exact_mean, recall_key
from contextual_bert.evaluation.paper import PaperRow
from contextual_bert.evaluation.scores import expected_recall
from contextual_bert.evaluation.tables import interval_cell
from contextual_bert.inference import set_index
from contextual_bert.models.pretrained import extra_layers_of
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import TablePlace
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.registry import reads_elmo, reads_time_gaps
from contextual_bert.training.recipe import Recipe

NUM_FEW = 3
LEAST_SHARE = 0.5  # of the hits, from which on a few items carry a metric
LEAST_LIFT = 2.0  # times their share of the positions

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
    "importance measures what each is worth.",
    exclude=NAME,
)
WITH_DROPOUT = Message(" {field_dropout} may reduce the harm.", field_dropout=0.1)

# Two models whose counted parameters differ by no more than this share are of one size. docs/protocol.md, "Controls".
SAME_SIZE = 0.01
WIDE_SUFFIX = "_wide"  # of controls that differ in size alone


@dataclass(frozen=True, eq=False)
class FewTargets:
    """The commonest items of the training part, and where they are asked for.

    Args:
        names: of the items, the commonest first.
        is_few: whether the item of each position is one of them, (positions,), in the order of (example_id, position).
    """

    names: tuple[str, ...]
    is_few: NDArray[np.bool_]


def commonest_targets(ready: PreparedData, part: str, scores: Scores) -> FewTargets | None:
    """Return where the commonest items of the training part are asked for; None for anything but sets of items.

    Args:
        ready: the data.
        part: that was scored.
        scores: of any run on it.
    """
    training, dataset = ready.datasets["train"], ready.datasets[part]
    if not ready.recipe.task.has_items:
        return None
    values = ready.processor.items.values
    first = len(ready.processor.items) - len(values)  # ids below are reserved
    counts = np.bincount(training.input_ids.numpy(), minlength=len(ready.processor.items))[first:]
    few = np.argsort(-counts, kind="stable")[:NUM_FEW]
    ordered = scores.sorted()
    places = dataset.offsets.numpy()[set_index(dataset, ordered.example_id)] + ordered.position
    return FewTargets(tuple(values[number] for number in few), np.isin(dataset.input_ids.numpy()[places] - first, few))


def about_few(name: str, other: str | None, paired: PairedRuns, few: FewTargets) -> list[str]:
    """Return sentences where a few items carry recall@1 of a row, or its difference to another row.

    Args:
        name: the row.
        other: the row that it is compared with, None without one.
        paired: runs of the study.
        few: the items.
    """
    if not few.is_few.any() or few.is_few.all() or (paired.num_items or 0) <= 2 * NUM_FEW:
        return []
    listed = ", ".join(map(repr, few.names))
    share = float(few.is_few.mean())
    hits = np.mean([100.0 * expected_recall(paired.scores[number], 1) for number in paired.groups[name]], axis=0)
    found: list[str] = []
    total = float(hits.sum())
    own = float(hits[few.is_few].sum()) / total if total else 0.0
    if own >= LEAST_SHARE and own >= LEAST_LIFT * share:
        of_others = exact_mean(hits[~few.is_few])
        found.append(
            f"{NUM_FEW} items carry recall@1 of `{name}`: {listed}, the most frequent in training, are {share:.1%} of "
            f"the positions and {own:.1%} of the hits. Recall@1 is {of_others:.2f}% without them and "
            f"{exact_mean(hits):.2f}% over all."
        )
    if other is None:
        return found
    rest = paired.on_rows(~few.is_few, names=(name, other))
    for key in (CROSS_ENTROPY, recall_key(1)):
        whole = paired.difference(name, other, key).interval
        without = rest.difference(name, other, key).interval
        metric = metric_of(key)
        if is_told(whole, metric) and not without.excludes(0):
            found.append(
                f"{NUM_FEW} items carry the difference in {metric.label} of `{name}` to `{other}` "
                f"({signed_words(whole, metric)}): without {listed} it is {signed_words(without, metric)}."
            )
    return found


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
    behind = [name for name, gap in gaps.items() if sign * gap.value > 0 and is_told(gap, metric)]
    ahead = [name for name, gap in gaps.items() if sign * gap.value < 0 and is_told(gap, metric)]
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
    """Return a sentence on the rows that a context helps, one on those that it harms, and one on the level ones.

    Args:
        recipes: row -> recipe.
        roles: row -> what it is in the study; controls are left out.
        paired: runs of the study, by cross-entropy.
    """
    metric = metric_of(CROSS_ENTROPY)
    helped, harmed, open_ones = dict[str, str](), dict[str, str](), dict[str, str]()
    for name in recipes:
        other = partner_without_context(name, recipes, roles)
        if other is None:
            continue
        gap = paired.difference(name, other).interval
        rows = (harmed if gap.value > 0 else helped) if is_told(gap, metric) else open_ones
        rows[name] = f"`{name}` beside `{other}` ({signed_words(gap, metric)})"
    found = [f"The context helps: {', '.join(helped.values())}."] if helped else list[str]()
    if harmed:
        found.append(joined(f"The context harms: {', '.join(harmed.values())}. ", WITHOUT_CONTEXT))
        if any(recipes[name].conditioning not in FITTED_BASELINES for name in harmed):
            found[-1] = joined(found[-1], WITH_DROPOUT)
    if open_ones:
        found.append(f"The context makes no significant difference: {', '.join(open_ones.values())}.")
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


def about_unlearned(is_unlearned: NDArray[np.bool_], paired: PairedRuns, *, part: str) -> list[str]:
    """Return sentences on rows whose label training lacks: how many there are, and the order without them.

    Args:
        is_unlearned: whether training lacks the label of each row, (rows,), in the order of (example_id, position).
        paired: runs of the study.
        part: of the rows.
    """
    count, row = int(is_unlearned.sum()), paired.settings.row_name
    told = (
        f"Training lacks the label of {count:,} of {counted(len(is_unlearned), row)} of the {part} part "
        f"({count / len(is_unlearned):.1%}). There a cross-entropy shows what a method leaves for labels that it never "
        "saw, and nothing that it learned."
    )
    if is_unlearned.all():
        return [f"{told} No figure of this part is one of what was learned."]
    known = paired.on_rows(~is_unlearned, names=[*paired.groups])
    ranked = known.ranked("method", "baseline")
    means = ", ".join(f"{_named(name, known)} {known.mean(name):.3f}" for name in ranked)
    return [f"{told} By cross-entropy without them: {means}."]


def about_unfit(faults: Mapping[str, DataError]) -> list[str]:
    """Return a sentence on the rows that cannot be fitted, for each reason.

    Args:
        faults: row -> why it cannot be fitted.
    """
    rows_of: dict[str, list[str]] = {}
    for name, fault in faults.items():
        place = TablePlace(column=fault.place.column) if isinstance(fault.place, TablePlace) else fault.place
        rows_of.setdefault(in_message(fault.at(place)), []).append(f"`{name}`")
    return [joined(f"No figures of {', '.join(names)}: ", why) for why, names in rows_of.items()]


def about_time_gaps(recipes: Mapping[str, Recipe]) -> list[str]:
    """Return a sentence on the rows that do not read how much time passed between items, beside rows that do.

    Args:
        recipes: row -> recipe.
    """
    return _about_reading(recipes, reads_time_gaps, "how much time passed between items")


def about_elmo(recipes: Mapping[str, Recipe]) -> list[str]:
    """Return a sentence on the rows that do not read the vectors of a language model, beside rows that do.

    Args:
        recipes: row -> recipe.
    """
    return _about_reading(recipes, reads_elmo, "the vectors of the language model in both directions (ELMo)")


def _about_reading(recipes: Mapping[str, Recipe], reads: Callable[[Recipe], bool], what: str) -> list[str]:
    """Return a sentence on the rows that do not read something that others do."""
    without = [f"`{name}`" for name, recipe in recipes.items() if not reads(recipe)]
    if not without or len(without) == len(recipes):
        return []
    verb = agreeing("do", len(without))
    return [f"{', '.join(without)} {verb} not read {what}. The other rows do."]


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
        if gap.value > 0 and is_told(gap, metric):
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


def is_told(gap: Interval, metric: Metric) -> bool:
    """Return whether a difference is one: its interval lies beside 0, and not all of the shown digits are 0.

    Example:
        >>> metric = metric_of("cross_entropy_nats")
        >>> is_told(Interval(-0.2, -0.3, -0.1, 0.05, 90, 30), metric)
        True
        >>> is_told(Interval(-0.00003, -0.00005, -0.00001, 0.00001, 90, 30), metric)  # shown as -0.0000
        False
    """
    return gap.excludes(0) and round(abs(gap.value), metric.digits) > 0


def signed_words(gap: Interval, metric: Metric) -> str:
    """Return a difference with its interval and unit.

    Example:
        >>> signed_words(Interval(0.5, 0.4, 0.6, 0.05, 90, 30), metric_of("cross_entropy_nats"))
        '+0.5000 [+0.4000, +0.6000] nats'
    """
    return f"{_signed(gap, metric)} {metric.gap_unit}".strip()


def findings(
    paired: PairedRuns,
    recipes: Mapping[str, Recipe],
    *,
    paper: Mapping[str, PaperRow] | None = None,
    few: FewTargets | None = None,
) -> list[str]:
    """Return the sentences that a reader needs first: the order of methods and baselines, and whether to believe it.

    The order is that on the seeds which all methods have: a lucky seed that only one of them has does not count. It is
    said of the metric that the rows are judged by, and of the cross-entropy.

    Args:
        paired: runs of all rows.
        recipes: row -> recipe of one of its runs.
        paper: the paper's table, where the study is one of its methods: whether its order holds is said first.
        few: the commonest items of the training part, and where they are asked for; None says nothing of them.
    """
    even = paired.of_shared_seeds()
    firsts = {run.name: run for run in reversed(paired.runs)}
    roles = {name: run.role for name, run in firsts.items()}
    methods = even.ranked("method")
    ranked = even.ranked("method", "baseline")
    if not ranked:
        return []
    found = [
        *_about_the_papers_order({name: paper[name] for name in methods if name in paper} if paper else {}, even),
    ]
    for key in dict.fromkeys((paired.main, CROSS_ENTROPY)):
        found += _about_order(paired, even, key)
        found += about_baselines(even.ranked("method", key=key), even.ranked("baseline", key=key), even, key)
    found += about_contexts({name: recipes[name] for name in firsts if name in recipes}, roles, paired)
    found += about_turned_orders(ranked, paired)
    if few is not None:
        looked_at = methods[0] if methods else ranked[0]
        rival = next((name for name in ranked if name != looked_at), None)
        found += about_few(looked_at, rival, paired, few)

    def difference(name: str, other: str) -> Interval:
        return paired.difference(name, other).interval

    for name, recipe in recipes.items():
        if recipe.is_context_shuffled:
            found.append(_about_leaks(name, recipes, firsts, difference))
        elif recipe.is_control:
            # Without a context its size alone is in question, with one whether it is as good as the best.
            like = _of_one_size(name, methods, firsts) if not has_context(recipe) else None
            rivals = dict.fromkeys((recipe.conditioning, like or methods[0]))
            others = [other for other in rivals if other in firsts and other != name]
            gaps = (f"{_interval(difference(name, other))} nats to `{other}`" for other in others)
            what = "Size alone" if name.endswith(WIDE_SUFFIX) else "Control"
            found.append(f"{what}: `{name}` {even.mean(name):.3f}, {', '.join(gaps)}.")
    for oracle in paired.names("oracle"):
        gap = even.mean(ranked[0]) - even.mean(oracle)
        found.append(f"The best {roles[ranked[0]]}, `{ranked[0]}`, is {gap:.3f} nats above the best possible score.")
    return found


def _about_order(paired: PairedRuns, even: PairedRuns, key: str) -> list[str]:
    """Return a sentence with the methods and baselines by one metric, the best first; nothing of one row."""
    ranked, metric = even.ranked("method", "baseline", key=key), metric_of(key)
    if len(ranked) < 2:
        return []
    digits, unit = 3 if key == CROSS_ENTROPY else metric.digits, metric.gap_unit and f" in {metric.gap_unit}"
    values = {name: f"{_named(name, even)} {even.mean(name, key):.{digits}f}" for name in ranked}
    steps = [values[ranked[0]]]
    steps += [
        f"{values[name]} ({_signed(even.difference(name, before, key).interval, metric)})"
        for before, name in pairwise(ranked)
    ]
    kept = ", ".join(map(str, sorted({run.seed for run in even.runs if run.role == "method"})))
    on_seeds = f" on the seeds that all methods have ({kept})" if len(even.runs) < len(paired.runs) else ""
    label = "cross-entropy" if key == CROSS_ENTROPY else metric.label
    return [
        f"By {label}{on_seeds}: {', '.join(steps)}. In brackets: difference to the row before{unit}, with its interval."
    ]


def _about_the_papers_order(paper: Mapping[str, PaperRow], ours: PairedRuns) -> list[str]:
    """Return sentences on the paper's order by cross-entropy; none for a single method."""
    names = sorted(paper, key=lambda name: paper[name].metrics[CROSS_ENTROPY].mean)
    if len(names) < 2:
        return []
    gaps = {(name, after): ours.difference(name, after).interval for name, after in pairwise(names)}
    failing = [
        f"`{name}` is not ahead of `{after}` ({_interval(gap)})"
        for (name, after), gap in gaps.items()
        if not gap.high < 0
    ]
    order = ", ".join(f"`{name}`" for name in names)
    if failing:
        return [f"The paper's order, the best first {order}, does not hold: {', '.join(failing)}."]
    return [f"The paper's order holds: {order}, each ahead of the next."]


def _about_leaks(
    name: str,
    recipes: Mapping[str, Recipe],
    firsts: Mapping[str, Run],
    difference: Callable[[str, str], Interval],
) -> str:
    """Return a sentence on a model trained on the contexts of other rows.

    It is compared with a row without a context: of its size, else with as many new blocks, else the plain one.
    """
    models = ((each, recipe) for each, recipe in recipes.items() if recipe.conditioning not in BASELINES)
    without = [each for each, recipe in models if not has_context(recipe)]
    if not without:
        return f"Leaks cannot be tested: no row without a context is compared with `{name}`."
    like = _of_one_size(name, without, firsts)
    as_deep = [each for each in without if num_new_blocks(recipes[each]) == num_new_blocks(recipes[name])]
    other = like or min(as_deep or without, key=lambda each: recipes[each].is_control)
    gap = difference(name, other)
    if math.isnan(gap.high):
        return f"Leaks cannot be tested: one customer is too few to compare `{name}` with `{other}`."
    verdict = "not better: no leak is seen"
    if gap.high < 0:
        verdict = "better: something leaks" if like else "better, by its size or by a leak"
    return f"Trained on the contexts of other rows, `{name}` is {verdict} ({_interval(gap)} nats to `{other}`)."


def _of_one_size(name: str, others: Sequence[str], firsts: Mapping[str, Run]) -> str | None:
    """Return the row with the nearest number of parameters, None where it is of another size."""
    size = {each: run.cost.parameters or 0 for each, run in firsts.items()}
    closest = min(others, key=lambda each: abs(size[each] - size[name]))
    return closest if abs(size[closest] - size[name]) <= SAME_SIZE * size[name] else None


def _named(name: str, paired: PairedRuns) -> str:
    return f"`{name}` (baseline)" if name in paired.names("baseline") else f"`{name}`"


def _interval(gap: Interval) -> str:
    return _signed(gap, metric_of(CROSS_ENTROPY))


def _signed(gap: Interval, metric: Metric) -> str:
    return interval_cell(gap, metric, is_signed=True)
