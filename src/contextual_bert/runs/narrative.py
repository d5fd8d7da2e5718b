"""What a study found, in sentences: the order of the rows, what size alone is worth, and whether something leaks.

What must be beaten, and whether a few items decide, are ``rival_findings`` and ``few_targets``. It reads runs and their
recipes, and writes nothing. PROTOCOL, points 8 to 10 and 14.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from contextual_bert.evaluation import Interval, LabelComparison, Run, metric_of
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, Metric
from contextual_bert.evaluation.paper import PaperRow
from contextual_bert.evaluation.tables import interval_cell
from contextual_bert.runs.few_targets import FewTargets, about_few
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.paired_means import PairedMeans
from contextual_bert.runs.registry import BASELINES
from contextual_bert.runs.rival_findings import (
    about_baselines,
    about_contexts,
    about_turned_orders,
    gaps_in_words,
    num_new_blocks,
)
from contextual_bert.training.recipe import Recipe

# Two models whose counted parameters differ by no more than this share are of one size. PROTOCOL, point 9.
SAME_SIZE = 0.01
WIDE_SUFFIX = "_wide"  # of controls that differ in size alone


def on_shared_seeds(runs: Sequence[Run]) -> list[Run]:
    """The runs without those of methods whose seed another method lacks; all where no seed is shared by all."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        if run.role == "method":
            seeds.setdefault(run.name, set()).add(run.seed)
    shared = set[int].intersection(*seeds.values()) if seeds else set[int]()
    return [run for run in runs if run.role != "method" or run.seed in shared or not shared]


def findings(
    runs: Sequence[Run],
    recipes: Mapping[str, Recipe],
    *,
    num_items: int | None = None,
    paper: Mapping[str, PaperRow] | None = None,
    few: FewTargets | None = None,
) -> list[str]:
    """The sentences that a reader needs first: the order of methods and baselines, and whether to believe it.

    The order is that on the seeds which all methods have: a lucky seed that only one of them has does not count.

    Args:
        runs: of all rows, on the same masked positions.
        recipes: row -> recipe of one of its runs.
        num_items: how many items were ranked, if known.
        paper: the paper's table, where the study is one of its methods: whether its order holds is said first.
        few: the commonest items of the training part, and where they are asked for; None says nothing of them.
    """
    firsts = {run.name: run for run in reversed(runs)}
    shared = on_shared_seeds(runs)
    every = PairedMeans(runs, num_items=num_items)
    even = PairedMeans(shared, num_items=num_items) if len(shared) < len(runs) else every
    means = {name: even.mean(name) for name in firsts}
    roles = {name: run.role for name, run in firsts.items()}
    ranked = sorted((name for name in firsts if roles[name] in ("method", "baseline")), key=lambda name: means[name])
    methods = [name for name in ranked if roles[name] == "method"]
    baselines = [name for name in ranked if roles[name] == "baseline"]
    if not methods:
        return []
    first, *_ = ranked
    steps = [f"{_named(first, roles)} {means[first]:.3f}"]
    steps += [
        f"{_named(name, roles)} {means[name]:.3f} ({_interval(even.difference(name, before))})"
        for before, name in pairwise(ranked)
    ]
    kept = ", ".join(map(str, sorted({run.seed for run in shared if run.role == "method"})))
    on_seeds = f" on the seeds that all methods have ({kept})" if len(shared) < len(runs) else ""
    found = [
        *_about_the_papers_order({name: paper[name] for name in methods if name in paper} if paper else {}, even),
    ]
    if len(ranked) > 1:
        found.append(
            f"By cross-entropy{on_seeds}: {', '.join(steps)}. In brackets: nats to the row before it, with the "
            "interval of this one comparison."
        )
    found += about_baselines(methods, baselines, even)
    found += about_contexts({name: recipes[name] for name in firsts if name in recipes}, roles, every)
    found += about_turned_orders(ranked, runs, every)
    if few is not None and num_items is not None:
        rival = next((name for name in ranked if name != methods[0]), None)
        found += about_few(methods[0], rival, runs, few, num_items=num_items)
    for name, recipe in recipes.items():
        if recipe.is_context_shuffled:
            found.append(_about_leaks(name, recipes, firsts, every.difference))
        elif recipe.is_control:
            # Without a context its size alone is in question, with one whether it is as good as the best.
            like = _of_one_size(name, methods, firsts) if not has_context(recipe) else None
            rivals = dict.fromkeys((recipe.conditioning, like or methods[0]))
            others = [other for other in rivals if other in firsts and other != name]
            gaps = (f"{_interval(every.difference(name, other))} nats to `{other}`" for other in others)
            what = "Size alone" if name.endswith(WIDE_SUFFIX) else "Control"
            found.append(f"{what}: `{name}` {means[name]:.3f}, {', '.join(gaps)}.")
    oracles = [name for name, run in firsts.items() if run.role == "oracle"]
    if oracles:
        gap = means[first] - means[oracles[0]]
        found.append(f"The best {roles[first]}, `{first}`, is {gap:.3f} nats above the best possible score.")
    return found


def _about_the_papers_order(paper: Mapping[str, PaperRow], ours: PairedMeans) -> list[str]:
    """Whether each method is ahead of the next one of the paper's table, by cross-entropy; nothing of one method."""
    names = sorted(paper, key=lambda name: paper[name].metrics[CROSS_ENTROPY].mean)
    if len(names) < 2:
        return []
    gaps = {(name, after): ours.difference(name, after) for name, after in pairwise(names)}
    failing = [
        f"`{name}` is not ahead of `{after}` ({_interval(gap)})"
        for (name, after), gap in gaps.items()
        if not gap.high < 0
    ]
    order = ", ".join(f"`{name}`" for name in names)
    if failing:
        return [f"The paper's order, from the best {order}, does not hold: {', '.join(failing)}."]
    return [f"The paper's order holds: {order}, each ahead of the next."]


def label_findings(
    labels: LabelComparison, against: Callable[[str], LabelComparison | None] | None = None
) -> list[str]:
    """The same by what labels are judged by: accuracy, or of names in a text how many are found; the best row first.

    Args:
        labels: of all rows.
        against: compares the rows with another reference, the best trained method; None: baselines are not told apart.
    """
    rows, metric = {row.name: row for row in labels.rows}, metric_of(labels.main)
    if labels.reference not in rows or len(rows) == 1:
        return []
    own = rows.pop(labels.reference).metrics[metric.key].mean
    gaps = {name: row.differences[metric.key].interval for name, row in rows.items()}
    best = sorted(gaps, key=lambda name: gaps[name].value, reverse=metric.is_higher_better)
    steps = (f"`{name}` {_signed(gaps[name], metric)}" for name in best)
    found = [f"By {metric.heading}: `{labels.reference}` {own:.{metric.digits}f}; against it {', '.join(steps)}."]
    return [*found, *_about_label_baselines(labels, against)]


def _about_label_baselines(
    labels: LabelComparison, against: Callable[[str], LabelComparison | None] | None
) -> list[str]:
    """The best trained method beside each baseline, by what labels are judged by."""
    metric = metric_of(labels.main)
    ranked = sorted(labels.rows, key=lambda row: row.metrics[metric.key].mean, reverse=metric.is_higher_better)
    methods = [row.name for row in ranked if row.role == "method"]
    baselines = [row.name for row in ranked if row.role == "baseline"]
    compared = against(methods[0]) if against is not None and methods and baselines else None
    if compared is None:
        return []
    rows = {row.name: row for row in compared.rows}
    gaps = {name: _turned(rows[name].differences[metric.key].interval) for name in baselines}
    return [gaps_in_words(methods[0], gaps, metric.key)]


def _turned(gap: Interval) -> Interval:
    """The same difference the other way round."""
    return replace(gap, value=-gap.value, low=-gap.high, high=-gap.low)


def _about_leaks(
    name: str,
    recipes: Mapping[str, Recipe],
    firsts: Mapping[str, Run],
    difference: Callable[[str, str], Interval],
) -> str:
    """A model with the contexts of others beside the row without a context of its size, or else the plain one: with as
    many new blocks, where there is one."""
    models = ((each, recipe) for each, recipe in recipes.items() if recipe.conditioning not in BASELINES)
    without = [each for each, recipe in models if not has_context(recipe)]
    if not without:
        return f"Whether something leaks is unknown: `{name}` has no row without a context beside it."
    like = _of_one_size(name, without, firsts)
    as_deep = [each for each in without if num_new_blocks(recipes[each]) == num_new_blocks(recipes[name])]
    other = like or min(as_deep or without, key=lambda each: recipes[each].is_control)
    gap = difference(name, other)
    if math.isnan(gap.high):
        return f"Whether something leaks is unknown: one customer tells nothing of `{name}` beside `{other}`."
    verdict = "not better: no leak is seen"
    if gap.high < 0:
        verdict = "better: something leaks" if like else "better, by its size or by a leak"
    return f"With the contexts of others, `{name}` is {verdict} ({_interval(gap)} nats to `{other}`)."


def _of_one_size(name: str, others: Sequence[str], firsts: Mapping[str, Run]) -> str | None:
    """Of these rows the one that is closest to a row in its number of parameters, if it is of the same size."""
    size = {each: run.cost.parameters or 0 for each, run in firsts.items()}
    closest = min(others, key=lambda each: abs(size[each] - size[name]))
    return closest if abs(size[closest] - size[name]) <= SAME_SIZE * size[name] else None


def _named(name: str, roles: Mapping[str, str]) -> str:
    return f"`{name}` (baseline)" if roles[name] == "baseline" else f"`{name}`"


def _interval(gap: Interval) -> str:
    return _signed(gap, metric_of(CROSS_ENTROPY))


def _signed(gap: Interval, metric: Metric) -> str:
    return interval_cell(gap, metric, is_signed=True)
