"""The sentences above a study's tables: the order of the methods, size alone, and whether something leaks."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from contextual_bert.evaluation import Cost, LabelPredictions, PairedRuns, Role, Run, Scores
from contextual_bert.evaluation.paper import PAPER_TABLE_1
from contextual_bert.runs.narrative import FewTargets, findings
from contextual_bert.training import Classification, MaskedText, Recipe, SetCompletion

ROWS = 300
GSU, SHUFFLED, FROZEN = "global_state_update", "global_state_update_shuffled", "bert_concat_word"
MA_BERT = "multi_attribute"
PLAIN = Recipe(data="days.parquet", task=SetCompletion(items="items"), conditioning="none")
LABELS = Classification(text="review", label="stars", checkpoint="bert-base-uncased")
RECIPES = {
    "none": PLAIN,
    "none_wide": replace(PLAIN, name="none_wide", is_control=True),
    "none_new_blocks": replace(PLAIN, name="none_new_blocks", is_control=True),
    GSU: replace(PLAIN, conditioning=GSU),
    MA_BERT: replace(PLAIN, conditioning=MA_BERT),
    SHUFFLED: replace(PLAIN, conditioning=GSU, is_context_shuffled=True),
    FROZEN: replace(PLAIN, task=LABELS, conditioning=FROZEN, is_control=True),
    "bag": replace(PLAIN, conditioning="bag"),
    "bag_context": replace(PLAIN, conditioning="bag_context"),
    "popularity": replace(PLAIN, conditioning="popularity"),
}
PARAMETERS = {
    "none": 500,
    "none_wide": 1_000,
    "none_new_blocks": 800,
    GSU: 1_000,
    MA_BERT: 803,
    SHUFFLED: 1_000,
    FROZEN: 2_000,
    "bag": 10,
    "bag_context": 20,
    "popularity": 0,
    "oracle": None,
}
CONTROLS: dict[str, Role] = dict.fromkeys(("none_wide", "none_new_blocks", SHUFFLED, FROZEN), "control")
BASELINES: dict[str, Role] = dict.fromkeys(("bag", "bag_context", "popularity"), "baseline")
ROLES: Mapping[str, Role] = {**CONTROLS, **BASELINES, "oracle": "oracle"}


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
    return findings(PairedRuns(runs), recipes)


def test_the_order_with_intervals_then_the_oracle() -> None:
    order, _, gap = said(**{"none": 3.7, GSU: 3.2, "oracle": 2.7})
    assert order.startswith("By cross-entropy: `global_state_update` 3.200, `none` 3.700 (+0.5000 [+0.49")
    assert gap == "The best method, `global_state_update`, is 0.500 nats above the best possible score."


def test_the_papers_order_is_looked_at_first() -> None:
    runs = [run(name, nats) for name, nats in {"none": 3.7, GSU: 3.2}.items()]
    recipes = {name: RECIPES[name] for name in ("none", GSU)}
    holds, *_ = findings(PairedRuns(runs), recipes, paper=PAPER_TABLE_1)
    assert holds == "The paper's order holds: `global_state_update`, `none`, each ahead of the next."
    turned = [run(name, nats) for name, nats in {"none": 3.1, GSU: 3.2}.items()]
    fails, *_ = findings(PairedRuns(turned), recipes, paper=PAPER_TABLE_1)
    assert fails.startswith("The paper's order, the best first `global_state_update`, `none`, does not hold: ")
    assert "`global_state_update` is not ahead of `none` (+0.1000 [+0.09" in fails
    assert findings(PairedRuns(runs[:1]), recipes, paper=PAPER_TABLE_1) == []
    assert "paper" not in findings(PairedRuns(runs), recipes)[0]


def test_size_alone() -> None:
    *_, size = said(**{"none": 3.7, "none_wide": 3.6, GSU: 3.2})
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
        ({GSU: 3.2, SHUFFLED: 3.6}, "Leaks cannot be tested"),
    ],
)
def test_a_leak_is_told_from_size(nats: dict[str, float], sentence: str) -> None:
    about = said(**nats)[-1]
    assert sentence in about
    assert ("nats to `none_wide`" in about) == ("none_wide" in nats)


def test_a_control_stands_beside_the_row_of_its_size() -> None:
    nats = {"none": 3.7, "none_new_blocks": 3.65, GSU: 3.2, MA_BERT: 3.3, SHUFFLED: 3.7}
    blocks, leaks = said(**nats)[-2:]
    assert "nats to `none`" in blocks
    assert blocks.endswith("nats to `multi_attribute`.")
    assert "nats to `none`" in leaks, "new blocks are of another size"


@pytest.mark.parametrize(("model", "beside"), [({"num_extra_layers": 1}, "none"), ({}, "none_new_blocks")])
def test_new_blocks_stand_beside_as_many(model: dict[str, int], beside: str) -> None:
    plain = Recipe(data="texts.parquet", task=MaskedText(checkpoint="bert"), conditioning="none")
    recipes = {
        "none": plain,
        "none_new_blocks": replace(plain, name="none_new_blocks", is_control=True, model={"num_extra_layers": 6}),
        SHUFFLED: replace(plain, conditioning=MA_BERT, is_context_shuffled=True, model=model),
    }
    runs = [run(name, nats) for name, nats in (("none", 3.7), ("none_new_blocks", 3.6), (SHUFFLED, 3.6))]
    assert f"nats to `{beside}`)" in findings(PairedRuns(runs), recipes)[-1]


def test_one_customer_tells_nothing_of_leaks() -> None:
    runs = [
        replace(run(name, nats), clusters=np.zeros(ROWS, dtype=int)) for name, nats in (("none", 3.7), (SHUFFLED, 3.6))
    ]
    about = findings(PairedRuns(runs), {run.name: RECIPES[run.name] for run in runs})[-1]
    assert about.startswith("Leaks cannot be tested: one customer")


def test_what_a_context_gains_is_said_with_its_interval() -> None:
    found = said(none=3.7, **{GSU: 3.2}, bag=3.6, bag_context=3.3, popularity=3.9)
    (helped,) = [sentence for sentence in found if sentence.startswith("The context helps: ")]
    assert "`global_state_update` beside `none` (-0.5000 [-0.5" in helped
    assert "`bag_context` beside `bag` (-0.3000 [-0.3" in helped
    assert not any("The context harms" in sentence for sentence in found)


def test_baselines_alone_have_an_order_and_a_context() -> None:
    order, helped = said(bag=3.6, bag_context=3.3)
    assert order.startswith("By cross-entropy: `bag_context` (baseline) 3.300, `bag` (baseline) 3.600 (+0.3000")
    assert helped.startswith("The context helps: `bag_context` beside `bag` (-0.3000 [")


def test_only_what_is_trained_is_told_of_dropout() -> None:
    """A counted baseline reads no setting of a training."""
    recipes = {name: replace(PLAIN, conditioning=name) for name in ("popularity", "context_popularity")}
    runs = [run("popularity", 3.5), replace(run("bag_context", 3.7), name="context_popularity")]
    harm = findings(PairedRuns(runs), recipes)[-1]
    assert harm.startswith("The context harms: `context_popularity` beside `popularity` (+0.2000 [")
    assert "field_dropout" not in harm
    assert "field_dropout" in said(bag=3.3, bag_context=3.6)[-1]


def test_nothing_to_say_without_a_method() -> None:
    assert said(oracle=2.7) == []


def labelled_runs(predicted: Mapping[str, list[int]], true: list[int], names: tuple[str, ...]) -> PairedRuns:
    """Runs on texts of one label each, whose probabilities are the same."""
    rows = np.arange(len(true))
    truth = {"example_id": rows, "position": 0 * rows, "true": true, "names": names}
    ranks = (np.full(len(rows), -0.7), 0 * rows, 0 * rows + 1, np.full(len(rows), 0.5))
    return PairedRuns(
        [
            Run(
                name,
                0,
                Scores(rows, 0 * rows, *ranks, predictions=LabelPredictions(predicted=each, **truth)),
                role=ROLES.get(name, "method"),
            )
            for name, each in predicted.items()
        ]
    )


def test_labels_are_judged_by_what_people_count() -> None:
    """Tags of eight texts of a name each: one row finds none, one all of them and one half."""
    predicted = {"none": [1] * 8, "film": [0, 1] * 4, "concat": [0] * 8}
    first, second = findings(labelled_runs(predicted, [0] * 8, ("B-place", "O")), {})
    assert first.startswith("By entity F1: `concat` 100.00, `film` 66.67 (-33.33 [")
    assert "`none` 0.00 (-66.67 [" in first and "the row before in points," in first
    assert second.startswith("By cross-entropy: ")
    alone = labelled_runs({"none": [1] * 8}, [0] * 8, ("B-place", "O"))
    assert findings(alone, {}) == []


def test_rows_are_compared_on_the_seeds_that_both_have() -> None:
    """The third seed of one row is a lucky one: it must not decide against a row that has no third."""
    runs = [replace(run(GSU, nats), seed=seed) for seed, nats in enumerate((3.2, 3.2, 2.0))]
    runs += [replace(run("none", nats), seed=seed) for seed, nats in enumerate((3.1, 3.1))]
    runs.append(run("oracle", 1.9))
    every = PairedRuns(runs)
    assert every.difference(GSU, "none").interval.value == pytest.approx(0.1)
    assert every.difference("none", GSU).interval.value == pytest.approx(-0.1)
    assert every.difference(GSU, "oracle").interval.value == pytest.approx(0.9)  # of all three: an oracle has no seed
    assert every.mean(GSU) == pytest.approx(2.8)
    order, _, gap = findings(every, {name: RECIPES[name] for name in (GSU, "none")})
    assert order.startswith(
        "By cross-entropy on the seeds that all methods have (0, 1): `none` 3.100, `global_state_update` 3.200 (+0.1000"
    )
    assert gap == "The best method, `none`, is 1.200 nats above the best possible score."


def test_a_baseline_that_wins_is_named_first_and_is_ahead() -> None:
    order, rivals, _, gap = said(**{"none": 7.5, GSU: 7.2, "bag": 7.0, "popularity": 8.0, "oracle": 6.5})
    assert order.startswith("By cross-entropy: `bag` (baseline) 7.000, `global_state_update` 7.200 (+0.2000 [+0.19")
    assert rivals.startswith("No trained method is ahead of every baseline by CE. The best of them, `global_state_upd")
    assert "is behind `bag` (+0.2000 [+0.19" in rivals
    assert "popularity" not in rivals
    assert "num_train_epochs" in rivals and "learning_rate" in rivals and "where it rises" in rivals
    assert gap == "The best baseline, `bag`, is 0.500 nats above the best possible score."


def test_a_baseline_that_no_interval_tells_apart_is_level() -> None:
    _, rivals = said(none=7.5, bag=7.5005)
    assert "`none`, is level with `bag` (-0.000" in rivals
    assert "behind" not in rivals


def test_a_method_ahead_of_every_baseline_is_said_to_be() -> None:
    _, rivals = said(none=7.2, bag=7.5, popularity=8.0)
    assert rivals.startswith("`none` is ahead of every baseline by CE. The nearest is `bag` (-0.3000 [-0.3")


def test_a_context_that_harms_is_named_with_its_interval() -> None:
    _, harm = said(**{"none": 7.0, GSU: 7.2})
    assert harm.startswith("The context harms: `global_state_update` beside `none` (+0.2000 [+0.19")
    assert "exclude" in harm and "field_dropout" in harm
    *_, of_baselines = said(none=6.0, bag=7.0, bag_context=7.2)
    assert of_baselines.startswith("The context harms: `bag_context` beside `bag` (+0.2000 [+0.19")


def test_a_context_that_changes_nothing_is_said_to_change_nothing() -> None:
    _, level = said(**{"none": 7.0, GSU: 7.0005})
    assert level.startswith("The context makes no significant difference: `global_state_update` beside `none` (+0")


def test_an_order_that_validation_does_not_share() -> None:
    def both(tested: float, other: float) -> str:
        runs = [replace(run(GSU, tested), validation_nats=7.496), replace(run("none", other), validation_nats=7.507)]
        return " ".join(findings(PairedRuns(runs), {name: RECIPES[name] for name in (GSU, "none")}))

    turned = both(7.744, 7.485)
    assert "Validation and test order the rows differently: `global_state_update` (7.496) is before `none` " in turned
    assert "(7.507) on validation and behind it on the test part (+0.2590 [+0.25" in turned
    assert "Validation and test" not in both(7.4853, 7.485), "no interval tells the two apart on the test part"
    assert "Validation and test" not in both(7.2, 7.485)


def found_items(hits: Mapping[str, np.ndarray]) -> list[Run]:
    """Runs that find these positions and no other; the rest is the same."""
    return [
        Run(
            name,
            0,
            Scores(
                np.arange(len(each)),
                np.zeros(len(each), dtype=int),
                np.where(each, -1.0, -3.0),
                np.where(each, 0, 50),
                np.ones(len(each)),
                np.full(len(each), 0.5),
            ),
            cost=Cost(PARAMETERS[name]),
            role=ROLES.get(name, "method"),
        )
        for name, each in hits.items()
    ]


def test_a_few_items_that_carry_a_metric_are_named() -> None:
    """Of 400 positions 40 hold one of three items; the method finds 30 of these and 10 others, `none` just the 10."""
    number = np.arange(400)
    few = FewTargets(("hat", "coat", "shoe"), number < 40)
    others = (number >= 40) & (number % 36 == 0)
    runs = found_items({GSU: (number < 30) | others, "none": others})
    recipes = {name: RECIPES[name] for name in (GSU, "none")}
    said_of_few = [
        line for line in findings(PairedRuns(runs, num_items=100), recipes, few=few) if line.startswith("3 items")
    ]
    carried, by_entropy, by_recall = said_of_few
    assert "3 items carry recall@1 of `global_state_update`" in carried
    assert "'shoe', the most frequent in training, are 10.0% of the positions and 75.0% of the hits" in carried
    assert "Recall@1 is 2.78% without them and 10.00% over all." in carried
    assert "difference in CE of `global_state_update` to `none` (-0.1500 [" in by_entropy
    assert "difference in recall@1 of `global_state_update` to `none` (+7.50 [" in by_recall
    assert by_recall.endswith("without 'hat', 'coat', 'shoe' it is +0.00 [+0.00, +0.00] points.")
    spread = found_items({GSU: number % 2 == 0, "none": number % 10 == 0})
    assert not any(line.startswith("3 items") for line in findings(PairedRuns(spread, num_items=100), recipes, few=few))


def test_labels_name_a_baseline_that_wins() -> None:
    paired = labelled_runs({"none": [0] * 60, "bag": [0, 1] * 30}, [0, 1] * 30, ("bad", "good"))
    _, rivals, *_ = findings(paired, {})
    assert rivals.startswith("No trained method is ahead of every baseline by accuracy. The best of them, `none`, is ")
    assert "behind `bag` (-50.00 [-6" in rivals
