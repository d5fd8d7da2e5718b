"""Findings of a study in sentences: the order of the rows, the worth of size alone, and leaks.

Baselines and contexts are in ``rival_findings``, items that carry a metric in ``few_targets``. This module reads runs
and their recipes, and writes nothing. Rules: docs/protocol.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from contextual_bert.evaluation import Interval, PairedRuns, Run, metric_of
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, Metric
from contextual_bert.evaluation.paper import PaperRow
from contextual_bert.evaluation.tables import interval_cell
from contextual_bert.runs.few_targets import FewTargets, about_few
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import BASELINES
from contextual_bert.runs.rival_findings import (
    about_baselines,
    about_contexts,
    about_turned_orders,
    num_new_blocks,
)
from contextual_bert.training.recipe import Recipe

# Two models whose counted parameters differ by no more than this share are of one size. docs/protocol.md, "Controls".
SAME_SIZE = 0.01
WIDE_SUFFIX = "_wide"  # of controls that differ in size alone


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
    if not methods:
        return []
    found = [
        *_about_the_papers_order({name: paper[name] for name in methods if name in paper} if paper else {}, even),
    ]
    for key in dict.fromkeys((paired.main, CROSS_ENTROPY)):
        found += _about_order(paired, even, key)
        found += about_baselines(even.ranked("method", key=key), even.ranked("baseline", key=key), even, key)
    ranked = even.ranked("method", "baseline")
    found += about_contexts({name: recipes[name] for name in firsts if name in recipes}, roles, paired)
    found += about_turned_orders(ranked, paired)
    if few is not None:
        rival = next((name for name in ranked if name != methods[0]), None)
        found += about_few(methods[0], rival, paired, few)

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
    digits, unit = (3, "nats") if key == CROSS_ENTROPY else (metric.digits, "percentage points")
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
        f"By {label}{on_seeds}: {', '.join(steps)}. In brackets: difference to the row before in {unit}, with its "
        "interval."
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
