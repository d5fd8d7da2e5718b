"""Runs on sequences: the next item is learned from those before it, evaluated at the end, and asked for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from contextual_bert.data import ReadSettings, SetPolicy
from contextual_bert.errors import ConfigurationError, DataError, QueryError
from contextual_bert.evaluation import Report, SetPredictions
from contextual_bert.inference import CompletionPipeline, OnnxCompletionPipeline, explain, export_onnx
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.runs import prepare, run
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.evaluator import evaluated_recipe
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.runs.permutation_importance import ablate_features, permute_features
from contextual_bert.runs.run_directory import load_run
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion
from contextual_bert_cli.main import app

NUM_ITEMS = 12
MODEL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 32}
TRAINING = {"num_train_epochs": 30, "per_device_train_batch_size": 32, "learning_rate": 0.01, "weight_decay": 0.01}


def walks(num_rows: int = 360) -> list[dict[str, Any]]:
    """Walks around a circle, by customers who go up or down: one item does not say which way, the context does."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for number in range(num_rows):
        step = 1 if number % 2 else -1
        places = (rng.integers(NUM_ITEMS) + step * np.arange(rng.choice([2, 2, 2, 3, 4, 6]))) % NUM_ITEMS
        times = np.sort(rng.choice(1000, len(places), replace=False))
        part = "train" if number < 240 else "validation" if number < 300 else "test"
        rows.append(
            {
                "items": [f"p{place}" for place in places],
                "at": times.tolist(),
                "way": "up" if step > 0 else "down",
                "part": part,
                "who": f"u{number}",
            }
        )
    return rows


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The walks, the items of each row in any order beside their times."""
    rng = np.random.default_rng(1)
    rows = walks()
    for row in rows:
        order = rng.permutation(len(row["items"]))
        row["items"], row["at"] = ([row[name][place] for place in order] for name in ("items", "at"))
    found = tmp_path_factory.mktemp("walks") / "walks.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), found)
    return found


def recipe_for(path: Path, conditioning: str = "global_state_update", **changes: Any) -> Recipe:
    settings: dict[str, Any] = {
        "task": SetCompletion(items="items", order="at", hide="next"),
        "model": MODEL,
        "training": TRAINING,
        "field_selection": "off",
        "exclude": ("who",),
    }
    return Recipe(data=str(path), split_column="part", conditioning=conditioning, **{**settings, **changes})


def recall(report: Report) -> float:
    return report.metrics["recall_at_1_percent"].value


@pytest.fixture(scope="module")
def learned(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned") / "run"
    run(recipe_for(path, training={**TRAINING, "field_dropout": 0.1}), folder)
    return folder


@pytest.mark.slow
def test_the_next_item_is_learned_from_order_and_context(path: Path, learned: Path, tmp_path: Path) -> None:
    own = evaluate_run(learned, part="test").report
    assert recall(own) > 90
    assert own.num_rows == 60
    told = own.to_markdown()
    assert "next items of 60 sequences" in told
    assert "| next item, times in training |" in told
    assert "cross-entropy of the next item in nats" in told
    assert "The next item is a set of one" in told
    assert "masked item" not in told
    assert prepare(recipe_for(path)).lines()[0].startswith("360 sequences of 360 rows kept")
    # Without the context a walk of two tells nothing of its way; contexts of others are worse than none.
    none = run(recipe_for(path, "none"), tmp_path / "none")
    shuffled = run(recipe_for(path, is_context_shuffled=True), tmp_path / "shuffled")
    assert recall(shuffled) < recall(none) + 10 < recall(own)
    predictions = load_run(learned, name="own").scores.predictions
    assert isinstance(predictions, SetPredictions)
    assert (predictions.set_size == 1).all()


def test_a_model_that_reads_both_sides_learns_too(path: Path, tmp_path: Path) -> None:
    found = run(
        recipe_for(path, model={**MODEL, "predicts_next": False}, training={**TRAINING, "num_train_epochs": 20}),
        tmp_path / "run",
    )
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["has_position_embeddings"]
    assert not config["predicts_next"]
    assert recall(found) > 50


@pytest.mark.parametrize("longest", [3, 6])
@pytest.mark.parametrize("name", ["none", "popularity"])
def test_nothing_of_a_sequence_is_proposed_again(path: Path, tmp_path: Path, name: str, longest: int) -> None:
    settings = {"model": {**MODEL, "max_position_embeddings": longest}} if name == "none" else {"model": {}}
    recipe = recipe_for(path, name, **settings, training={"num_train_epochs": 1} if name == "none" else {})
    ready = prepare(recipe)
    run(recipe, tmp_path / "run", prepared=ready)
    predictions = load_run(tmp_path / "run", name=name).scores.predictions
    assert isinstance(predictions, SetPredictions)
    test = ready.datasets["test"]
    assert len(predictions.lists) == len(test)
    for row, proposed in zip(predictions.list_id, predictions.lists, strict=True):
        [number] = np.flatnonzero(test.example_ids.numpy() == row)
        shown = test.input_ids[test.offsets[number] : test.offsets[number + 1] - 1].numpy() - 3
        assert not {*shown.tolist()} & {*proposed.tolist()}


@pytest.mark.parametrize("baseline", ["popularity", "bag_context", "item_knn"])
def test_baselines_are_asked_the_same(path: Path, learned: Path, tmp_path: Path, baseline: str) -> None:
    given = {"model": {}, "training": {"num_train_epochs": 2} if "bag" in baseline else {}}
    found = run(recipe_for(path, baseline, **given), tmp_path / "run")
    own = load_run(learned, name="own")
    other = load_run(tmp_path / "run", name=baseline)
    assert np.array_equal(own.scores.example_id, other.scores.example_id)
    assert np.array_equal(own.scores.position, other.scores.position)
    assert recall(found) < 70


def test_order_is_what_the_model_reads(path: Path, learned: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        row["at"] = row["at"][::-1]
    other = tmp_path / "reversed.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), other)
    assert recall(evaluate_run(learned, overrides={"data": str(other)}).report) < 60


def test_an_item_that_training_has_not_is_asked_for_and_not_replaced(path: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(path).to_pylist()
    newest = next(row for row in rows if row["part"] == "test")
    newest["items"], newest["at"] = [*newest["items"], "new"], [*newest["at"], 5000]
    other = tmp_path / "new.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), other)
    ready = prepare(recipe_for(other))
    assert len(ready.datasets["test"]) == 60
    found = run(recipe_for(other, training={"num_train_epochs": 1}), tmp_path / "run", prepared=ready)
    assert found.num_rows == 59
    assert found.asked is not None
    assert (found.asked.num_all, found.asked.reasons) == (60, {"new to the run": 1})


@pytest.mark.slow
def test_long_sequences_are_learned_whole_and_read_from_their_end(path: Path, tmp_path: Path) -> None:
    found = run(recipe_for(path, model={**MODEL, "max_position_embeddings": 3}), tmp_path / "run")
    assert recall(found) > 90
    ready = prepare(recipe_for(path))
    asked = recipe_for(path, model={**MODEL, "max_position_embeddings": 3})
    assert ready.num_learned_rows(asked) > ready.num_learned_rows(recipe_for(path)) == 240
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run")
    walk = [f"p{place}" for place in range(6)]
    answer = pipeline({"items": [*walk, "[MASK]"], "context": {"way": "up"}}, top_k=3)
    assert answer["slots"][0]["position"] == 6
    assert answer["slots"][0]["candidates"][0]["item"] == "p6"
    assert not {each["item"] for each in answer["slots"][0]["candidates"]} & {*walk}
    # What stands before the items that are read is proposed neither in answers nor in reports.
    rows = [row for row in walks() if row["part"] == "test"]
    asked_all = [{"items": [*row["items"][:-1], "[MASK]"], "context": {"way": row["way"]}} for row in rows]
    answers: Any = pipeline(asked_all, top_k=NUM_ITEMS)
    own = [{each["item"]: each["probability"] for each in one["slots"][0]["candidates"]} for one in answers]
    losses = [-np.log(one[row["items"][-1]]) for one, row in zip(own, rows, strict=True)]
    assert found.metrics["cross_entropy_nats"].value == pytest.approx(np.mean(losses), abs=1e-5)
    assert any("Read: the newest 2 of 6 items" in note for note in answer["notes"])


@pytest.mark.parametrize("predicts_next", [True, False])
def test_training_leaves_out_the_items_of_earlier_pieces(
    predicts_next: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, own = list[bool](), ContextualBertForMaskedLM.barred

    def barred(self: ContextualBertForMaskedLM, earlier_ids: Any, set_of: Any) -> Any:
        found = own(self, earlier_ids, set_of)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(ContextualBertForMaskedLM, "barred", barred)
    model = {**MODEL, "max_position_embeddings": 3, "predicts_next": predicts_next}
    run(recipe_for(path, model=model, training={"num_train_epochs": 1}), tmp_path / "run")
    assert any(asked)
    asked.clear()
    run(
        recipe_for(path, model={**model, "max_position_embeddings": 6}, training={"num_train_epochs": 1}),
        tmp_path / "6",
    )
    assert asked
    assert not any(asked)


@pytest.mark.slow
def test_a_run_is_asked_explained_and_exported(learned: Path, tmp_path: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(learned)
    query = {"items": ["p3", "p4"], "context": {"way": "up"}}
    answer = pipeline(query, top_k=NUM_ITEMS)
    assert answer["slots"][0]["candidates"][0]["item"] == "p5"
    assert pipeline({"items": [], "context": {"way": "up"}})["slots"][0]["candidates"]
    assert explain(pipeline, query).item == "p5"
    export_onnx(learned, tmp_path / "onnx")
    exported = OnnxCompletionPipeline.from_pretrained(tmp_path / "onnx")
    for each in (query, {"items": ["p1"], "context": {"way": "down"}}, {"items": []}):
        own, other = (asked(each, top_k=5)["slots"][0]["candidates"] for asked in (pipeline, exported))
        assert [found["item"] for found in own] == [found["item"] for found in other]
        np.testing.assert_allclose(
            [found["probability"] for found in own], [found["probability"] for found in other], atol=1e-5
        )
    for asked in (pipeline, exported):
        with pytest.raises(QueryError, match="stands before others"):
            asked({"items": ["p3", "[MASK]", "p4"]})
        with pytest.raises(QueryError, match="'p4' is to be replaced"):
            asked({"items": ["p3", "p4"], "locked": ["p3"]})


@pytest.mark.slow
def test_a_playlist_with_a_gap_is_filled_by_its_order(path: Path, tmp_path: Path) -> None:
    task = SetCompletion(items="items", order="at", policy=SetPolicy(min_size=3))
    found = run(recipe_for(path, task=task, training={**TRAINING, "num_train_epochs": 80}), tmp_path / "run")
    assert found.num_rows > 100
    assert found.metrics["recall_at_1_percent"].value > 70
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run")
    answer = pipeline({"items": ["p3", "[MASK]", "p5"], "context": {"way": "up"}})
    assert answer["slots"][0]["candidates"][0]["item"] == "p4"


def test_positions_are_those_of_the_run_that_a_model_starts_from(path: Path, tmp_path: Path) -> None:
    few = {"num_train_epochs": 1}
    for number, more in enumerate(({}, {"predicts_next": False})):
        own = {**MODEL, "max_position_embeddings": 3, **more}
        run(recipe_for(path, model=own, training=few), tmp_path / f"short-{number}")
        task = SetCompletion(items="items", order="at", hide="next", init_from=str(tmp_path / f"short-{number}"))
        found = run(recipe_for(path, task=task, model=more, training=few), tmp_path / f"next-{number}")
        assert found.num_rows == 60
    gap = SetCompletion(items="items", order="at", init_from=str(tmp_path / "short-1"))
    with pytest.raises(ConfigurationError, match=r"init_from=.*reads at most 3 items, and a set of .* has 6"):
        run(recipe_for(path, task=gap, model={}, training=few), tmp_path / "gap")
    with pytest.raises(ConfigurationError, match=r"init_from=.*is a run that tells what comes next"):
        task = SetCompletion(items="items", init_from=str(tmp_path / "short-0"))
        run(recipe_for(path, task=task, model={}, training=few), tmp_path / "sets")


def test_gaps_are_filled_in_parts_with_longer_sequences_than_training(path: Path, tmp_path: Path) -> None:
    table = parquet.read_table(path)
    is_short = pc.or_(pc.not_equal(table["part"], "train"), pc.less(pc.list_value_length(table["items"]), 4))
    other = tmp_path / "other.parquet"
    parquet.write_table(table.filter(is_short), other)
    task = SetCompletion(items="items", order="at")
    run(recipe_for(other, task=task, training={"num_train_epochs": 1}), tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["max_position_embeddings"] == 6
    long = tmp_path / "long.parquet"
    rows = [{"items": [f"p{place}" for place in range(size)], "at": [*range(size)], "way": "up"} for size in (3, 7)]
    parquet.write_table(pa.Table.from_pylist(rows), long)
    with pytest.raises(DataError, match=r"row 2, column 'items': the set has 7 items, and the model reads at most 6"):
        evaluate_run(tmp_path / "run", overrides={"data": str(long)})


def test_what_does_not_go_together_is_refused(path: Path, learned: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no column puts the items in order"):
        SetCompletion(items="items", hide="next")
    with pytest.raises(ConfigurationError, match="shows none of them"):
        SetCompletion(items="items", order="at", hide="set")
    with pytest.raises(ConfigurationError, match="no column puts the items in order"):
        SetCompletion(items="items", policy=SetPolicy(max_size=3, longer="newest"))
    ready = prepare(recipe_for(path))
    for changes, told in (
        ({"model": {**MODEL, "has_position_embeddings": False}}, "leaves the order out"),
        ({"training": {"masks_per_set": 3}}, "each is asked for"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            run(recipe_for(path, **changes), tmp_path / "run", prepared=ready)
    gaps = recipe_for(
        path, task=SetCompletion(items="items", order="at"), model={**MODEL, "max_position_embeddings": 3}
    )
    with pytest.raises(ConfigurationError, match="has 6 items"):
        run(gaps, tmp_path / "run")
    with pytest.raises(ConfigurationError, match="predicts_next"):
        run(replace(gaps, model={**MODEL, "predicts_next": True}), tmp_path / "run")
    started = SetCompletion(items="items", init_from=str(learned))
    with pytest.raises(ConfigurationError, match="is a run that tells what comes next"):
        run(recipe_for(path, task=started, model={}), tmp_path / "run")


def test_rows_of_one_item_are_put_in_order_by_the_command_line(path: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    lines = ["who,items,at,way,part"]
    for row in parquet.read_table(path).to_pylist():
        lines += [
            f"{row['who']},{item},2024-01-01T00:{time // 60:02}:{time % 60:02},{row['way']},{row['part']}"
            for item, time in zip(row["items"], row["at"], strict=True)
        ]
    long.write_text("\n".join(lines) + "\n")
    order = ["--items", "items", "--group-by", "who", "--order", "at", "--hide", "next", "--split-column", "part"]
    sizes = [word for name, value in MODEL.items() for word in ("--model", f"{name}={value}")]
    rates = ["--epochs", "30", "--batch-size", "32", "--learning-rate", "0.01", "--set", "weight_decay=0.01"]
    found = CliRunner().invoke(
        app,
        ["train", str(long), *order, *sizes, *rates, "--field-selection", "off", "--output", str(tmp_path / "run")],
    )
    assert found.exit_code == 0, found.output
    assert recall(evaluate_run(tmp_path / "run", part="test").report) > 90
    recipe = Recipe.load(tmp_path / "run")
    assert recipe.set_task.order == "at"
    assert recipe.schema is not None
    assert not {"at", "who"} & {feature["name"] for feature in recipe.schema["features"]}
    broken = tmp_path / "broken.csv"
    first, second, *others = long.read_text().splitlines()
    broken.write_text("\n".join([first, second.replace(second.split(",")[2], ""), *others]) + "\n")
    found = CliRunner().invoke(app, ["train", str(broken), *order, "--output", str(tmp_path / "none")])
    assert found.exit_code == 2
    assert "at" in found.output
    assert not (tmp_path / "none").exists()


def test_a_list_of_another_length_is_an_error(path: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(path).to_pylist()
    rows[4]["at"] = rows[4]["at"][1:]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "short.parquet")
    with pytest.raises(DataError, match="and 'items' has"):
        prepare(recipe_for(tmp_path / "short.parquet"))
    rows[7]["at"] = [None, *rows[7]["at"][1:]]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "short.parquet")
    dropping = recipe_for(tmp_path / "short.parquet", reading=ReadSettings(on_bad_row="drop"))
    ready = prepare(dropping)
    assert len(ready.datasets["train"]) == 238
    told = "1 with another number of values of 'at' than of items, 1 with a missing value of 'at'"
    assert any(told in line for line in ready.lines())
    with pytest.raises(DataError, match="row 12, column 'at'"):  # of the file, though rows before it were left out
        for row in rows:
            row["at"] = ["2024-01-01" if time is not None else None for time in row["at"]]
        rows[11]["at"][0] = "soon"
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "short.parquet")
        prepare(dropping)


def test_inspect_finds_the_times_of_items(path: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        places = np.argsort(row["at"], kind="stable")
        row["items"], row["at"] = ([row[name][place] for place in places] for name in ("items", "at"))
    ordered = tmp_path / "ordered.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), ordered)
    given = ["inspect", str(ordered), "--items", "items", "--customer", "who", "--split-column", "part"]
    found = CliRunner().invoke(app, [*given, "--output", str(tmp_path / "schema.json")])
    assert found.exit_code == 0, found.output
    assert "column 'at' has a time for each item" in " ".join(found.output.split())
    assert "--order at" in found.output
    assert "--hide next" in found.output
    assert "at" not in {each["name"] for each in json.loads((tmp_path / "schema.json").read_text())["features"]}
    # In no order they are no times of the items; left out, they say nothing.
    for more in ([str(path)], [str(ordered), "--exclude", "at"]):
        words = ["inspect", *more, *given[2:], "--output", str(tmp_path / "other.json"), "--overwrite"]
        other = CliRunner().invoke(app, words)
        assert other.exit_code == 0, other.output
        assert "--hide next" not in other.output


def test_inspect_tells_times_from_amounts_and_asks_about_dates_in_no_order(tmp_path: Path) -> None:
    asked = Recipe(data="lists", task=SetCompletion(items="items"))
    sets = [[f"p{place}" for place in range(number % 3, number % 3 + 3)] for number in range(60)]
    amounts = pa.table({"items": sets, "amounts": [[1, 1, 1]] * 60})
    assert inspect_table(asked, source=amounts).order is None
    days = ["2024-01-02", "2024-01-01", "2024-01-03"]
    for kind in (pa.string(), pa.date32()):
        dates = pa.array(days).cast(kind)
        lists = pa.FixedSizeListArray.from_arrays(pa.concat_arrays([dates] * 60), 3)
        found = inspect_table(asked, source=pa.table({"items": sets, "when": lists, "amounts": [[1, 1, 1]] * 60}))
        assert (found.order, found.unordered) == (None, "when")
        assert any("If it says when each was taken, give --order when" in line for line in found.lines())
        task = SetCompletion(items="items", order="when", hide="next")
        ready = prepare(asked.changed(task=task), source=pa.table({"items": sets, "when": lists}))
        names = [ready.processor.items.value_of(index) for index in ready.datasets["train"].input_ids[:3].tolist()]
        assert [name[1:] for name in names] in (["1", "0", "2"], ["2", "1", "3"], ["3", "2", "4"])


def test_another_table_is_evaluated_by_its_own_column_of_times(learned: Path, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.filter(pc.equal(table["part"], "test")).rename_columns({"at": "when"}), other)
    given = [str(learned), "--data", str(other), "--order", "when"]
    found = CliRunner().invoke(app, ["evaluate", *given, "--format", "json", "--customer", "who"])
    assert found.exit_code == 0, found.output
    own = evaluate_run(learned, overrides={"data": str(path)}, part="test").report.metrics["cross_entropy_nats"].value
    asked = {"data": str(other), "order": "when"}
    assert evaluate_run(learned, overrides=asked).report.metrics["cross_entropy_nats"].value == pytest.approx(own)
    sets = recipe_for(path, task=SetCompletion(items="items"))
    with pytest.raises(ConfigurationError, match="trained on sets without one"):
        evaluated_recipe(sets, asked)


def test_importance_says_what_order_is_worth(learned: Path, path: Path, tmp_path: Path) -> None:
    found = permute_features(learned, num_permutations=2).importances
    assert any("within each sequence; all features leaves them as they are" in note for note in found.notes())
    told = {each.feature: each.rise_nats.interval.value for each in found.rows}
    assert {*told} == {"all features", "way", "order of the items"}
    assert told["order of the items"] > 0.1 < told["way"]
    assert told["all features"] == pytest.approx(told["way"], abs=0.5)  # the order is no feature of the context
    # Of long sequences the model reads the same items in another order: of one item before the last there is none.
    run(
        recipe_for(path, model={**MODEL, "max_position_embeddings": 2}, training={"num_train_epochs": 1}),
        tmp_path / "2",
    )
    short = {each.feature: each.rise_nats.interval for each in permute_features(tmp_path / "2").importances.rows}
    assert short["order of the items"].value == short["order of the items"].high == 0
    # Without a context the order is all that can be permuted.
    run(recipe_for(path, "none", training={**TRAINING, "num_train_epochs": 2}), tmp_path / "none")
    without = permute_features(tmp_path / "none").importances
    [alone] = without.rows
    assert alone.feature == "order of the items"
    assert any("those before the last are permuted within each sequence." in note for note in without.notes())
    assert not any("whole context" in note or "feature is removed" in note for note in without.notes())
    card = " ".join((tmp_path / "none" / "README.md").read_text(encoding="utf-8").split())
    assert "A model of sequences of items, conditioned by `none`. It proposes the next item of a sequence, " in card
    assert "given the items before it, without a context" in card
    assert "Several masks" not in card
    with pytest.raises(ConfigurationError, match="reads no context"):
        ablate_features(tmp_path / "none")
