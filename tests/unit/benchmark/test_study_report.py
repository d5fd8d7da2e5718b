"""The sentences above a study's tables: the order of the methods, size alone, and whether something leaks."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from contextual_bert.benchmark.findings import CrossEntropies, findings, label_findings
from contextual_bert.evaluation import Cost, LabelledRows, Role, Run, Scores, compare_labels
from contextual_bert.evaluation.paper import PAPER_TABLE_1
from contextual_bert.training import Recipe, TextTask

ROWS = 300
GSU, SHUFFLED, FROZEN = "global_state_update", "global_state_update_shuffled", "bert_concat_word"
MA_BERT = "multi_attribute"
PLAIN = Recipe(data="days.parquet", items="items", conditioning="none")
RECIPES = {
    "none": PLAIN,
    "none_wide": replace(PLAIN, name="none_wide", is_control=True),
    "none_new_blocks": replace(PLAIN, name="none_new_blocks", is_control=True),
    GSU: replace(PLAIN, conditioning=GSU),
    MA_BERT: replace(PLAIN, conditioning=MA_BERT),
    SHUFFLED: replace(PLAIN, conditioning=GSU, is_context_shuffled=True),
    FROZEN: replace(PLAIN, conditioning=FROZEN, is_control=True),
}
PARAMETERS = {
    "none": 500,
    "none_wide": 1_000,
    "none_new_blocks": 800,
    GSU: 1_000,
    MA_BERT: 803,
    SHUFFLED: 1_000,
    FROZEN: 2_000,
    "oracle": None,
}
CONTROLS: dict[str, Role] = dict.fromkeys(("none_wide", "none_new_blocks", SHUFFLED, FROZEN), "control")
ROLES: Mapping[str, Role] = {**CONTROLS, "oracle": "oracle"}


def run(name: str, nats: float) -> Run:
    """A run with this mean cross-entropy, and noise of its own around it."""
    noise = np.random.default_rng(len(name)).normal(scale=0.05, size=ROWS)
    loss = 1 + np.random.default_rng(0).exponential(1, ROWS)
    loss += nats - loss.mean() + noise - noise.mean()
    scores = Scores(
        np.arange(ROWS), np.zeros(ROWS, dtype=int), -loss, np.zeros(ROWS), np.ones(ROWS), np.full(ROWS, 0.5)
    )
    return Run(name, 0, scores, None, Cost(PARAMETERS[name]), ROLES.get(name, "method"))


def said(**nats: float) -> list[str]:
    runs = [run(name, value) for name, value in nats.items()]
    recipes = {name: RECIPES[name] for name in nats if name in RECIPES}
    return findings(runs, recipes)


def test_the_order_with_intervals_then_the_oracle() -> None:
    order, gap = said(**{"none": 3.7, GSU: 3.2, "oracle": 2.7})
    assert order.startswith("By cross-entropy: `global_state_update` 3.200, `none` 3.700 (+0.5000 [+0.49")
    assert gap == "The best method, `global_state_update`, is 0.500 nats above the best possible score."


def test_the_papers_order_is_looked_at_first() -> None:
    runs = [run(name, nats) for name, nats in {"none": 3.7, GSU: 3.2}.items()]
    recipes = {name: RECIPES[name] for name in ("none", GSU)}
    holds, _ = findings(runs, recipes, paper=PAPER_TABLE_1)
    assert holds == "The paper's order holds: `global_state_update`, `none`, each ahead of the next."
    turned = [run(name, nats) for name, nats in {"none": 3.1, GSU: 3.2}.items()]
    fails, _ = findings(turned, recipes, paper=PAPER_TABLE_1)
    assert fails.startswith("The paper's order, from the best `global_state_update`, `none`, does not hold: ")
    assert "`global_state_update` is not ahead of `none` (+0.1000 [+0.09" in fails
    assert findings(runs[:1], recipes, paper=PAPER_TABLE_1) == []
    assert "paper" not in findings(runs, recipes)[0]


def test_size_alone() -> None:
    (_, size) = said(**{"none": 3.7, "none_wide": 3.6, GSU: 3.2})
    assert size.startswith("Size alone: `none_wide` 3.600, -0.1000 [-0.1")
    assert "nats to `none`, +0.4000 [+0.39" in size
    assert size.endswith("nats to `global_state_update`.")


def test_a_control_is_not_set_against_itself() -> None:
    (control,) = said(**{GSU: 3.2, FROZEN: 3.6})
    assert control.startswith("Control: `bert_concat_word` 3.600, +0.4000 [+0.39")
    assert control.count("nats to") == 1


@pytest.mark.parametrize(
    ("nats", "sentence"),
    [
        ({"none": 3.7, SHUFFLED: 3.7}, "is not better: no leak is seen"),
        ({"none": 3.7, SHUFFLED: 3.6}, "is better, by its size or by a leak"),
        ({"none": 3.7, "none_wide": 3.6, SHUFFLED: 3.6}, "is not better: no leak is seen"),
        ({"none": 3.7, "none_wide": 3.7, SHUFFLED: 3.6}, "is better: something leaks"),
        ({GSU: 3.2, SHUFFLED: 3.6}, "Whether something leaks is unknown"),
    ],
)
def test_a_leak_is_told_from_size(nats: dict[str, float], sentence: str) -> None:
    about = said(**nats)[-1]
    assert sentence in about
    assert ("nats to `none_wide`" in about) == ("none_wide" in nats)


def test_a_control_stands_beside_the_row_of_its_size() -> None:
    nats = {"none": 3.7, "none_new_blocks": 3.65, GSU: 3.2, MA_BERT: 3.3, SHUFFLED: 3.7}
    blocks, leaks = said(**nats)[1:]
    assert "nats to `none`" in blocks
    assert blocks.endswith("nats to `multi_attribute`.")
    assert "nats to `none`" in leaks, "new blocks are of another size"


@pytest.mark.parametrize(("model", "beside"), [({"num_extra_layers": 1}, "none"), ({}, "none_new_blocks")])
def test_new_blocks_stand_beside_as_many(model: dict[str, int], beside: str) -> None:
    plain = Recipe(data="texts.parquet", texts=TextTask(checkpoint="bert"), conditioning="none")
    recipes = {
        "none": plain,
        "none_new_blocks": replace(plain, name="none_new_blocks", is_control=True, model={"num_extra_layers": 6}),
        SHUFFLED: replace(plain, conditioning=MA_BERT, is_context_shuffled=True, model=model),
    }
    runs = [run(name, nats) for name, nats in (("none", 3.7), ("none_new_blocks", 3.6), (SHUFFLED, 3.6))]
    assert f"nats to `{beside}`)" in findings(runs, recipes)[-1]


def test_one_customer_tells_nothing_of_leaks() -> None:
    runs = [
        replace(run(name, nats), clusters=np.zeros(ROWS, dtype=int)) for name, nats in (("none", 3.7), (SHUFFLED, 3.6))
    ]
    about = findings(runs, {run.name: RECIPES[run.name] for run in runs})[-1]
    assert about.startswith("Whether something leaks is unknown: one customer")


def test_nothing_to_say_without_a_method() -> None:
    assert said(oracle=2.7) == []


def test_labels_are_judged_by_what_people_count() -> None:
    """Tags of eight texts of a name each: the reference finds none, one row all of them and one row half."""
    truth = {"example_id": range(8), "position": [0] * 8, "true": [0] * 8, "names": ("B-place", "O")}
    predicted = {"none": [1] * 8, "film": [0, 1] * 4, "concat": [0] * 8}
    rows = [(name, 0, LabelledRows(predicted=each, **truth)) for name, each in predicted.items()]
    (line,) = label_findings(compare_labels(rows, reference="none"))
    assert line.startswith(
        "By entity F1 (%): `none` 0.00; against it `concat` +100.00 [+100.00, +100.00], `film` +66.67 ["
    )
    assert label_findings(compare_labels(rows[:1], reference="none")) == []


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    """The third seed of one row is a lucky one: it must not decide against a row that has no third."""
    runs = [replace(run(GSU, nats), seed=seed) for seed, nats in enumerate((3.2, 3.2, 2.0))]
    runs += [replace(run("none", nats), seed=seed) for seed, nats in enumerate((3.1, 3.1))]
    runs.append(run("oracle", 1.9))
    every = CrossEntropies(runs)
    assert every.difference(GSU, "none").value == pytest.approx(0.1)
    assert every.difference("none", GSU).value == pytest.approx(-0.1)
    assert every.difference(GSU, "oracle").value == pytest.approx(0.9)  # of all three: an oracle has no seed
    assert every.mean(GSU) == pytest.approx(2.8)
    order, gap = findings(runs, {name: RECIPES[name] for name in (GSU, "none")})
    assert order.startswith(
        "By cross-entropy on the seeds that all methods have (0, 1): `none` 3.100, `global_state_update` 3.200 (+0.1000"
    )
    assert gap == "The best method, `none`, is 1.200 nats above the best possible score."
