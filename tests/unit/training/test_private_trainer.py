"""DP-SGD: no example counts for more than the bound, the noise is the accountant's, and epsilon is what was asked."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import Report
from contextual_bert.evaluation.privacy_spent import PrivacySpent
from contextual_bert.runs import prepare, run
from contextual_bert.runs.model_factory import arguments_of
from contextual_bert.training import Recipe, SetCompletion, private_trainer
from contextual_bert.training.private_trainer import (
    PoissonSampler,
    PrivateTrainer,
    check_private,
    clipped_sum,
    epsilon_of,
    noise_for,
)
from contextual_bert_cli.main import app

pytest.importorskip("opacus")
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    columns = {
        "items": [[f"item {each}" for each in draw.permutation(9)[: 2 + number % 3]] for number in range(400)],
        "season": [("warm", "cold")[number % 2] for number in range(400)],
        "size": draw.normal(size=400).round(1),
    }
    path = tmp_path_factory.mktemp("private") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def recipe_on(table: Path, **training: Any) -> Recipe:
    settings = {"dp_epsilon": 8.0, "num_train_epochs": 2, "per_device_train_batch_size": 64, **training}
    return Recipe(
        data=str(table),
        task=SetCompletion(items="items"),
        model=SIZES,
        training=settings,
        device="cpu",
        field_selection="off",
    )


def trainer_on(table: Path, folder: Path, **training: Any) -> PrivateTrainer:
    recipe = recipe_on(table, **training)
    ready = prepare(recipe)
    arguments = arguments_of(recipe, folder, has_validation=True, defaults=ready.default_training(recipe))
    trainer = ready.make_trainer(recipe, ready.build_model(recipe, is_quiet=True), arguments, callbacks=[])
    assert isinstance(trainer, PrivateTrainer)
    return trainer


@pytest.fixture
def trainer(table: Path, tmp_path: Path) -> PrivateTrainer:
    return trainer_on(table, tmp_path)


def batch_of(trainer: PrivateTrainer, rows: list[int]) -> dict[str, Any]:
    dataset: Any = trainer.train_dataset
    collate: Any = trainer.data_collator
    return collate(dataset.__getitems__(rows))


def weights_of(trainer: PrivateTrainer) -> tuple[Any, dict[str, torch.Tensor]]:
    model: Any = trainer.model
    return model.eval(), {name: weight.detach() for name, weight in model.named_parameters()}


def alone(trainer: PrivateTrainer, row: int) -> dict[str, torch.Tensor]:
    """The gradient of one set, as the model itself computes it: by its own loss, in a batch of one."""
    model, _ = weights_of(trainer)
    model.zero_grad()
    model(**batch_of(trainer, [row])).loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def length(gradients: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float(each.square().sum()) for each in gradients.values()))


def test_the_sum_is_that_of_each_sets_own_clipped_gradient(trainer: PrivateTrainer) -> None:
    model, weights = weights_of(trainer)
    rows = [*range(24)]
    sizes = {int(size) for size in batch_of(trainer, rows)["attention_mask"].sum(dim=1)}
    assert len(sizes) > 1  # sets of several lengths in one step
    each = [alone(trainer, row) for row in rows]
    bound = float(np.median([length(one) for one in each]))  # so that some are clipped, and some are not
    sums, losses, norms = clipped_sum(model, weights, batch_of(trainer, rows), max_norm=bound)
    assert norms.tolist() == pytest.approx([length(one) for one in each], rel=1e-4)
    for name, total in sums.items():
        expected = sum(one[name] * min(1.0, bound / length(one)) for one in each if name in one)
        assert torch.allclose(total, torch.as_tensor(expected), atol=1e-5), name
    model.zero_grad()
    assert losses[0].item() == pytest.approx(model(**batch_of(trainer, [0])).loss.item(), rel=1e-5)


@pytest.mark.parametrize("bound", [0.01, 1.0, 100.0])
def test_no_example_counts_for_more_than_the_bound(trainer: PrivateTrainer, bound: float) -> None:
    model, weights = weights_of(trainer)
    for row in range(12):
        own, _, norms = clipped_sum(model, weights, batch_of(trainer, [row]), max_norm=bound)
        assert length(own) <= bound * (1 + 1e-5)
        assert length(own) == pytest.approx(min(bound, float(norms[0])), rel=1e-3)
    whole = clipped_sum(model, weights, batch_of(trainer, [*range(12)]), max_norm=bound)[0]
    less = clipped_sum(model, weights, batch_of(trainer, [*range(11)]), max_norm=bound)[0]
    assert length({name: whole[name] - less[name] for name in whole}) <= bound * (1 + 1e-4)


def test_few_gradients_at_once_give_the_same(trainer: PrivateTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    model, weights = weights_of(trainer)
    whole = clipped_sum(model, weights, batch_of(trainer, [*range(12)]), max_norm=1.0)[0]
    monkeypatch.setattr(private_trainer, "MOST_NUMBERS", 1)
    single = clipped_sum(model, weights, batch_of(trainer, [*range(12)]), max_norm=1.0)[0]
    assert all(torch.allclose(whole[name], single[name], atol=1e-5) for name in whole)


def test_the_noise_is_what_the_accountant_says(table: Path, tmp_path: Path) -> None:
    trainer = trainer_on(table, tmp_path, max_grad_norm=0.5)
    trainer.state.max_steps = 100
    trainer.generator = torch.Generator().manual_seed(0)
    expected = 0.5 * noise_for(8.0, 1e-5, sample_rate=trainer.sample_rate, steps=100)
    drawn = trainer.with_noise(torch.zeros(200_000))
    assert float(drawn.std()) == pytest.approx(expected, rel=0.01)
    assert abs(float(drawn.mean())) < 0.01 * expected


def test_a_step_without_rows_is_noise_alone(trainer: PrivateTrainer) -> None:
    trainer.state.max_steps = 10
    model: Any = trainer.model
    nobody = {"input_ids": torch.zeros(0, 1, dtype=torch.int64), "labels": torch.zeros(0, 1, dtype=torch.int64)}
    assert float(trainer.training_step(model, nobody)) == 0
    found = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    rows = trainer.sample_rate * trainer.num_private_rows
    assert float(found.std()) == pytest.approx(trainer.noise_multiplier / rows, rel=0.05)


def test_the_epsilon_of_all_steps_is_what_was_asked() -> None:
    for epsilon in (1.0, 8.0):
        noise = noise_for(epsilon, 1e-5, sample_rate=0.02, steps=300)
        spent = [epsilon_of(noise, 1e-5, sample_rate=0.02, steps=steps) for steps in (0, 100, 300)]
        assert spent[0] == 0 and spent[1] < spent[2] <= epsilon and spent[2] == pytest.approx(epsilon, abs=0.02)
    assert noise_for(1.0, 1e-5, sample_rate=0.02, steps=300) > noise_for(8.0, 1e-5, sample_rate=0.02, steps=300)


def test_rows_are_drawn_by_themselves_and_not_by_the_seed() -> None:
    steps = [*PoissonSampler(1000, 0.05)]
    counts = [len(rows) for rows in steps]
    assert len(steps) == 20 and len(set(counts)) > 1
    many = [len(rows) for _ in range(20) for rows in PoissonSampler(1000, 0.05)]
    assert np.mean(many) == pytest.approx(50, abs=2) and np.var(many) == pytest.approx(47.5, rel=0.3)
    assert [*PoissonSampler(1000, 0.05)] != steps
    assert [] in [*PoissonSampler(1, 0.01, generator=torch.Generator().manual_seed(0))]


def test_a_run_trains_and_says_what_it_has_spent(table: Path, tmp_path: Path) -> None:
    command = ["train", str(table), "--items", "items", "--epochs", "2", "--batch-size", "64", "--device", "cpu"]
    for name, value in SIZES.items():
        command += ["--model", f"{name}={value}"]
    options = ["--dp-epsilon", "8", "--dp-delta", "1e-4", "--set", "max_grad_norm=0.5"]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, *options, "--output", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert re.search(r"Trained with DP-SGD: epsilon (8\.0|7\.9)\d at delta 0\.0001", " ".join(done.output.split()))
    content = json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]
    spent = PrivacySpent(**content["privacy"])
    assert (spent.target_epsilon, spent.delta, spent.max_grad_norm) == (8.0, 1e-4, 0.5)
    assert spent.epsilon == pytest.approx(8, abs=0.02)
    assert spent.steps == 2 * math.ceil(1 / spent.sample_rate)
    assert "Trained with DP-SGD" in (tmp_path / "run" / "README.md").read_text()
    assert Report.from_json(json.dumps(content)).privacy == spent


def test_a_private_run_is_resumed_where_it_stopped(table: Path, tmp_path: Path) -> None:
    recipe = recipe_on(table)
    run(recipe, tmp_path / "run", is_quiet=True)
    whole = json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["privacy"]
    (tmp_path / "run" / "metrics.json").unlink()
    again = run(recipe, tmp_path / "run", is_resumed=True, is_quiet=True)
    assert again is not None and again.privacy == PrivacySpent(**whole)


@pytest.mark.parametrize(
    ("changes", "training", "said"),
    [
        ({"item_vectors": "cooccurrence"}, {}, "reads the rows without any"),
        ({"conditioning": "bag"}, {}, "is a baseline"),
        ({"task": SetCompletion(items="items", hide="set")}, {}, "masked one by one"),
        ({"dtype": "bfloat16"}, {}, "needs dtype='float32'"),
        ({}, {"loss": "gbce"}, "would mix its examples"),
        ({}, {"gradient_accumulation_steps": 2}, "each step has noise of its own"),
        ({}, {"gradient_checkpointing": True}, "not computed so"),
        ({}, {"torch_compile": True}, "are not compiled"),
        ({}, {"max_grad_norm": 0.0}, "clips nothing"),
        ({}, {"dp_epsilon": 0.0}, "above 0"),
        ({}, {"dp_epsilon": None, "dp_delta": 1e-5}, "not asked for"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    table: Path, changes: dict[str, Any], training: dict[str, Any], said: str
) -> None:
    recipe = recipe_on(table)
    settings = {name: value for name, value in {**recipe.training, **training}.items() if value is not None}
    with pytest.raises(ConfigurationError, match=said):
        recipe.changed(training=settings, **changes)


def test_a_delta_that_is_no_small_chance_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="below 1 / rows"):
        check_private(trainer_on(table, tmp_path, dp_delta=0.01))


def test_without_opacus_it_says_what_to_install(trainer: PrivateTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_trainer, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[privacy\]'"):
        trainer.train()
