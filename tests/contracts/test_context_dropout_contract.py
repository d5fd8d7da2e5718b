"""In a tiny stylist world: trained with context dropout, a model is valid for every subset of the fields."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from contextual_bert.context import missing_like
from contextual_bert.data import SequenceDataset, StylistWorld
from contextual_bert.evaluation import Interval, paired_bootstrap
from contextual_bert.inference import score
from contextual_bert.runs import SetCompletionTask, prepare
from contextual_bert.runs.model_factory import arguments_of, build_model
from contextual_bert.training import Recipe, SetCompletion

FIELDS = ("gender", "age", "occasion", "clothing_size")
SUBSETS = [frozenset(chosen) for size in range(len(FIELDS) + 1) for chosen in combinations(FIELDS, size)]
NOTHING = frozenset[str]()
TOLERANCE_NATS = 0.01
Scored = dict[frozenset[str], NDArray[np.float64]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> SetCompletionTask:
    path = tmp_path_factory.mktemp("world") / "outfits.parquet"
    table = StylistWorld.generate(48).sample(5_000, seed=1)
    pq.write_table(table.select(["customer_id", "items", *FIELDS]), path)
    model = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    training = {"num_train_epochs": 6, "per_device_train_batch_size": 64, "learning_rate": 3e-3, "save_strategy": "no"}
    return prepare(
        Recipe(
            data=str(path),
            task=SetCompletion(items="items"),
            customer="customer_id",
            conditioning="global_state_update",
            validation=0,
            test=0.15,
            model=model,
            training={**training, "report_to": []},
            device="cpu",
        )
    )


def scored(data: SetCompletionTask, folder: Path, subsets: list[frozenset[str]], **changes: Any) -> Scored:
    """Known fields -> the log-probability of every test item, by the model of the recipe with these changes."""
    training = {**data.recipe.training, **changes.pop("training", {})}
    recipe = replace(data.recipe, training=training, **changes)
    model: Any = build_model(recipe, data)
    arguments = arguments_of(recipe, folder, has_validation=False)
    data.make_trainer(recipe, model, arguments, callbacks=[]).train()
    test = data.datasets["test"]
    found: Scored = {}
    for known in subsets:
        context = {name: values if name in known else missing_like(values) for name, values in test.context.items()}
        sets = SequenceDataset(test.input_ids, test.offsets, context=context, example_ids=test.example_ids)
        found[known] = score(model.eval(), sets).log_probability
    return found


@pytest.fixture(scope="module")
def plain(data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Scored:
    return scored(data, tmp_path_factory.mktemp("plain"), SUBSETS)


@pytest.fixture(scope="module")
def dropped(data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Scored:
    rates = {"context_dropout": 0.15, "field_dropout": 0.3}
    return scored(data, tmp_path_factory.mktemp("dropped"), SUBSETS, training=rates)


@pytest.fixture(scope="module")
def blind(data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Scored:
    return scored(data, tmp_path_factory.mktemp("none"), [NOTHING], conditioning="none")


def rise(data: SetCompletionTask, a: NDArray[np.float64], b: NDArray[np.float64]) -> Interval:
    """Cross-entropy of a minus that of b, in nats, with its interval over sets."""
    return paired_bootstrap(
        -a, -b, np.repeat(np.arange(len(data.datasets["test"])), data.datasets["test"].sizes)
    ).interval


def supersets() -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    return ((known, known | {field}) for known in SUBSETS for field in FIELDS if field not in known)


def test_the_anonymous_query_is_answered_better(data: SetCompletionTask, plain: Scored, dropped: Scored) -> None:
    interval = rise(data, dropped[NOTHING], plain[NOTHING])
    assert interval.high < -0.02, interval


def test_it_is_answered_about_as_a_model_does_that_never_had_a_context(
    data: SetCompletionTask, dropped: Scored, blind: Scored
) -> None:
    assert abs(rise(data, dropped[NOTHING], blind[NOTHING]).value) < 0.08


def test_knowing_one_field_more_never_hurts(dropped: Scored) -> None:
    losses = [float((dropped[known] - dropped[more]).mean()) for known, more in supersets()]
    assert max(losses) < TOLERANCE_NATS
    gains = [float((dropped[known | {"gender"}] - dropped[known]).mean()) for known in SUBSETS if "gender" not in known]
    assert min(gains) > 0.05


def test_every_subset_that_lacks_what_matters_is_answered_better(
    data: SetCompletionTask, plain: Scored, dropped: Scored
) -> None:
    for known in SUBSETS:
        if "gender" not in known:
            assert rise(data, dropped[known], plain[known]).high < 0, sorted(known)
