"""Runs whose items have features, from a table of sets and a catalogue to answers."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner

from contextual_bert.data import SetPolicy, new_split
from contextual_bert.data.cold_items import with_cold_items
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.exported import OnnxCompletionPipeline, export_onnx
from contextual_bert.manifest import write_manifest
from contextual_bert.runs import run
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.runs.registry import as_row
from contextual_bert.runs.tasks import prepare
from contextual_bert.training.arguments import training_arguments
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion
from contextual_bert_cli.main import app

COLOURS = ("red", "green", "blue", "black")
MODEL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
NEW = ("green-new", "blue-new")  # in no set of the training part


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of one colour each; the last fifth of the sets, the test part, has new items, too."""
    folder = tmp_path_factory.mktemp("shop")
    generator = np.random.default_rng(0)
    rows = []
    for number in range(400):
        colour = COLOURS[number % 4]
        items = [f"{colour}-{each}" for each in generator.choice(6, 3, replace=False)]
        if number >= 320 and f"{colour}-new" in NEW:
            items[0] = f"{colour}-new"
        rows.append({"items": items, "part": "test" if number >= 320 else "train", "sex": "fm"[number % 2]})
    parquet.write_table(pa.Table.from_pylist(rows), folder / "sets.parquet")
    names = [*(f"{colour}-{each}" for colour in COLOURS for each in range(6)), *NEW]
    catalogue = {
        "id": names,
        "colour": [name.partition("-")[0] for name in names],
        "size": ["s" if index % 2 else "l" for index in range(len(names))],
        "picture_url": [f"https://shop/{name}.png" for name in names],
    }
    parquet.write_table(pa.table(catalogue), folder / "items.parquet")
    return folder


def recipe(data: Path, *, catalogue: bool = True, **task: object) -> Recipe:
    named = {"catalogue": str(data / "items.parquet")} if catalogue else {}
    return Recipe(
        data=str(data / "sets.parquet"),
        task=SetCompletion(items="items", **named, **task),
        split_column="part",
        model=MODEL,
        training={"num_train_epochs": 25, "eval_strategy": "no"},
        device="cpu",
        dtype="float32",
    )


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "with"
    run(recipe(data), output, is_quiet=True)
    return output


def test_new_items_are_proposed_by_their_features(finished: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(finished, device="cpu")
    best = pipeline([{"items": ["green-0", "green-1", "[MASK]"]}], top_k=6)[0]
    names = [candidate["item"] for candidate in best["slots"][0]["candidates"]]
    assert "green-new" in names[:5]  # of four others that are not there, and it
    seen = pipeline([{"items": ["blue-new", "[MASK]"]}], top_k=3)[0]
    assert all(candidate["item"].startswith("blue") for candidate in seen["slots"][0]["candidates"])


def test_answers_say_which_items_are_new(finished: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(finished, device="cpu")
    note = "new and known by features alone"
    asked = {"items": ["green-0", "green-1", "[MASK]"]}
    answer = pipeline([asked], top_k=6)[0]
    marked = {each["item"]: each.get("is_new") for each in answer["slots"][0]["candidates"]}
    assert marked.pop("green-new") is True and set(marked.values()) == {False}
    assert f"Proposed, {note}: green-new." in answer["notes"]
    assert not any(note in each for each in pipeline([asked], top_k=1)[0]["notes"])
    visible = pipeline({"items": ["blue-new", "blue-1", "[MASK]"], "deny": NEW})
    assert [each for each in visible["notes"] if note in each] == [f"In the set, {note}: blue-new."]
    joint = pipeline.complete_jointly({"items": ["green-0", "[MASK]", "[MASK]"], "allow": ["green-new", "green-1"]})
    assert [each["new_items"] for each in joint["completions"]] == [["green-new"]]
    assert f"Proposed, {note}: green-new." in joint["notes"]
    result = CliRunner().invoke(app, ["complete", str(finished), "--set", "green-0,green-1", "--top", "6"])
    assert result.exit_code == 0, result.output
    (line,) = [line.split() for line in result.stdout.splitlines() if "green-new" in line]
    assert line[-1] == "new"


def test_vectors_are_written_with_the_counts_of_training(finished: Path, data: Path, tmp_path: Path) -> None:
    asked = ["vectors", str(finished), "--output", str(tmp_path / "vectors.parquet")]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "26 items, vectors of 16 numbers" in " ".join(result.stderr.split())
    table = parquet.read_table(tmp_path / "vectors.parquet")
    rows = parquet.read_table(data / "sets.parquet").to_pylist()
    trained = Counter(item for row in rows if row["part"] == "train" for item in row["items"])
    found = dict(zip(table.column("item").to_pylist(), table.column("training_count").to_pylist(), strict=True))
    assert found == {**trained, **dict.fromkeys(NEW, 0)}
    assert table.filter(table.column("is_new")).column("item").to_pylist() == [*NEW]
    elsewhere = (data / "sets.parquet").rename(data / "moved.parquet")
    try:
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 0 and "sets.parquet is not there" in " ".join(result.stderr.split())
        assert parquet.read_table(tmp_path / "vectors.parquet").column("training_count").null_count == 26
        parquet.write_table(parquet.read_table(elsewhere).slice(1), data / "sets.parquet")
        assert "is not the table that the run" in " ".join(CliRunner().invoke(app, asked).stderr.split())
    finally:
        elsewhere.rename(data / "sets.parquet")
    before = (tmp_path / "vectors.parquet").read_bytes()
    for wrong in ("vectors.csv", "."):
        result = CliRunner().invoke(app, [*asked[:-1], str(tmp_path / wrong)])
        assert result.exit_code == 2 and ".parquet" in result.output
    assert [each.name for each in tmp_path.iterdir()] == ["vectors.parquet"]
    assert (tmp_path / "vectors.parquet").read_bytes() == before


def test_items_alike_are_of_one_colour(finished: Path, data: Path, tmp_path: Path) -> None:
    def ask(*options: object) -> Any:
        return CliRunner().invoke(app, ["similar", str(finished), *map(str, options)])

    for more in ((), ("--context", '{"sex": "f"}')):
        for item in ("green-0", "green-new"):
            found = json.loads(ask("--item", item, "--top", 5, "--format", "json", *more).stdout)
            assert all(each["item"].startswith("green") and each["item"] != item for each in found["similar"])
            assert {"probability" in each for each in found["similar"]} == {bool(more)}
    shown = ask("--item", "green-0", "--top", 6).stdout.splitlines()
    assert [line.split()[-1] for line in shown if "green-new" in line] == ["new"]
    shop = ("--catalogue", data / "items.parquet", "--where", "colour=red", "--where", "size=s", "--deny", "red-1")
    table = ask("--item", "green-0", *shop)
    assert table.exit_code == 0, table.output
    assert {line.split()[1] for line in table.stdout.splitlines() if " red-" in line} == {"red-3", "red-5"}
    (tmp_path / "queries.jsonl").write_text('{"item": "red-0"}\n{"item": "blue-0", "deny": ["blue-1"]}\n', "utf-8")
    lines = ask("--input", tmp_path / "queries.jsonl", "--top", 3).stdout.splitlines()
    assert [json.loads(line)["item"] for line in lines] == ["red-0", "blue-0"]
    (tmp_path / "queries.jsonl").write_text('{"item": "red-0"}\n{"item": "bleu-0"}\n', "utf-8")
    for options, told in (
        (
            ("--input", tmp_path / "queries.jsonl"),
            "line 2, item: the model does not know 'bleu-0'. Did you mean 'blue-0'",
        ),
        (("--item", "gren-0"), "--item: the model does not know 'gren-0'. Did you mean 'green-0'"),
        ((), "Give one of --item"),
        (("--item", "red-0", "--where", "colour=red"), "--where: it needs a catalogue"),
        (("--item", "red-0", *shop[:2], "--where", "colur=red"), "Did you mean 'colour'"),
        (("--item", "red-0", "--similarity-weight", 3), "--similarity-weight is for --context"),
        (
            ("--item", "red-0", "--context", "{}", "--similarity-weight", 3000),
            "--similarity-weight 3000 is not allowed",
        ),
        (("--input", tmp_path / "queries.jsonl", "--deny", "red-1"), "--deny belongs to --item"),
        (("--item", "red-0", "--decimal", ","), "--decimal"),
    ):
        result = ask(*options)
        assert result.exit_code == 2 and told in " ".join(result.stderr.split()), (options, result.output)


def test_a_run_without_features_says_nothing_of_new_items(data: Path, tmp_path: Path) -> None:
    short = recipe(data, catalogue=False).changed(training={"num_train_epochs": 1, "eval_strategy": "no"})
    run(short, tmp_path / "plain", is_quiet=True)
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "plain", device="cpu")
    assert pipeline.is_new is None
    answer = pipeline({"items": ["green-0", "green-new", "[MASK]"]})
    assert {*answer["slots"][0]["candidates"][0]} == {"item", "probability"}
    assert answer["unknown_items"] == ["green-new"] and "known by features" not in str(answer["notes"])


def test_new_items_are_scored_and_shown_apart(data: Path, tmp_path: Path) -> None:
    with_features = run(recipe(data), tmp_path / "with", is_quiet=True)
    names = {segment.value for segment in with_features.segments if "times in training" in segment.feature}
    assert "0, a new item" in names
    assert with_features.asked is not None and with_features.asked.num_scored == with_features.asked.num_all == 240


def test_the_training_part_decides_which_items_are_learned(data: Path) -> None:
    ready = prepare(recipe(data))
    assert ready.processor.items.values[-2:] == NEW
    assert ready.processor.features_of_items.names == ("colour", "size")
    assert any("'picture_url' is no feature" in line for line in ready.remarks)
    model = ready.build_model(ready.resolve(recipe(data)))
    is_new = model.bert.embeddings.attributes.is_new
    assert is_new.nonzero().flatten().tolist() == [27, 28]


def test_rare_items_are_new_ones_where_the_catalogue_knows_them(data: Path) -> None:
    counted = prepare(recipe(data, policy=SetPolicy(min_count=42)))
    known = counted.processor.items
    assert len(known.values) == 26
    learned = counted.datasets["train"].input_ids.unique()
    assert len(learned) < 24


def test_a_run_is_exported_as_a_plain_one(finished: Path, tmp_path: Path) -> None:
    record = export_onnx(finished, tmp_path / "onnx", top_k=5)
    assert record["parity"]["max_difference_nats"] < 1e-4
    assert record["new_items"] == [*NEW]
    query = [{"items": ["green-0", "green-1", "[MASK]"], "context": {"sex": "f"}}]
    whole = [
        pipeline.from_pretrained(folder, device="cpu")(query, top_k=5)[0]
        for pipeline, folder in ((CompletionPipeline, finished), (OnnxCompletionPipeline, tmp_path / "onnx"))
    ]
    answers = [each["slots"][0]["candidates"] for each in whole]
    assert whole[0]["notes"] == whole[1]["notes"]
    assert [each.get("is_new") for each in answers[0]] == [each.get("is_new") for each in answers[1]]
    assert {each["item"] for each in answers[1] if each.get("is_new")} == {"green-new"}
    assert [each["item"] for each in answers[0]] == [each["item"] for each in answers[1]]
    np.testing.assert_allclose(*([each["probability"] for each in answer] for answer in answers), rtol=1e-4)
    path = tmp_path / "onnx" / "export.json"
    path.write_text(path.read_text("utf-8").replace("blue-new", "blue-9"), "utf-8")
    write_manifest(path.parent)
    with pytest.raises(RunDirectoryError, match="no list of its items"):
        OnnxCompletionPipeline(path.parent)


def test_a_bag_knows_new_items_by_their_features(data: Path, tmp_path: Path) -> None:
    report = run(as_row(recipe(data), "bag"), tmp_path / "bag", is_quiet=True)
    assert report is not None
    [new] = [each for each in report.segments if each.value == "0, a new item"]
    assert new.metrics["cross_entropy_nats"].value < np.log(8)  # 5 of the 24 that can be meant have its colour


def test_what_is_counted_knows_new_items_by_their_features(data: Path, tmp_path: Path) -> None:
    asked = as_row(recipe(data), "item_knn")
    report = run(asked, tmp_path / "knn", is_quiet=True)
    assert report is not None
    [new] = [each for each in report.segments if each.value == "0, a new item"]
    assert new.metrics["cross_entropy_nats"].value < np.log(8)
    with pytest.raises(ConfigurationError, match="'item_knn'"):
        run(replace(asked, training={"num_train_epochs": 3}), tmp_path / "other", is_quiet=True)


def test_settings_of_features_without_a_catalogue_are_refused(data: Path) -> None:
    for setting in ({"item_exclude": ("size",)}, {"item_kinds": {"size": "ignore"}}, {"item_dropout": 0.2}):
        with pytest.raises(ConfigurationError) as caught:
            recipe(data, catalogue=False, **setting)
        assert caught.value.place.name == next(iter(setting))
    with pytest.raises(ConfigurationError, match="share"):
        recipe(data, item_dropout=1.0)


def started(data: Path, finished: Path, folder: Path, *, catalogue: bool = True, **task: object) -> Recipe:
    """The recipe of a run that goes on from the finished one, on sets that have a new item, and with one more item."""
    rows = [{"items": ["blue-new", "blue-1", "scarf"], "part": "train", "sex": "f"}] * 8
    rows += [{"items": ["blue-new", "blue-2"], "part": "test", "sex": "f"}] * 4
    parquet.write_table(pa.Table.from_pylist(rows), folder / "next.parquet")
    table = parquet.read_table(data / "items.parquet")
    more = {"id": ["scarf", "red-new"], "colour": ["red", "red"], "size": ["s", "l"], "picture_url": ["a", "b"]}
    parquet.write_table(pa.concat_tables([table, pa.table(more)]), folder / "items.parquet")
    named = {"catalogue": str(folder / "items.parquet")} if catalogue else {}
    return Recipe(
        data=str(folder / "next.parquet"),
        task=SetCompletion(items="items", init_from=str(finished), **named, **task),
        split_column="part",
        training={"num_train_epochs": 1, "eval_strategy": "no"},
        device="cpu",
        dtype="float32",
    )


@pytest.mark.parametrize("catalogue", [True, False])
def test_a_run_that_goes_on_gives_new_items_vectors_of_their_own(
    data: Path, finished: Path, tmp_path: Path, catalogue: bool
) -> None:
    recipe = started(data, finished, tmp_path, catalogue=catalogue)
    ready = prepare(recipe)
    before = CompletionPipeline.from_pretrained(finished, device="cpu")
    model = ready.build_model(ready.resolve(recipe)).eval()
    names, known = ready.processor.items.values, before.processor.items.values
    assert names[: len(known)] == known
    assert set(names[len(known) :]) == ({"scarf", "red-new"} if catalogue else {"scarf"})
    ids, rows = (
        [ready.processor.items.id_of(name) for name in ("blue-new", "scarf")],
        [before.processor.items.id_of("blue-new")],
    )
    is_new = model.bert.embeddings.attributes.is_new
    assert not is_new[ids[0]] and not is_new[ids[1]]  # both are in the training part
    assert int(is_new.sum()) == 1 + catalogue  # green-new, and red-new where it is known
    query = ready.processor(items=[["blue-1", "[MASK]"]])["input_ids"]
    with torch.no_grad():
        asked, answered = before.model(input_ids=query).logits, model(input_ids=query).logits
    torch.testing.assert_close(answered[:, : len(known) + 3], asked)
    torch.testing.assert_close(answered[:, ids[0]], asked[:, rows[0]])  # it starts where its features put it


def test_a_run_that_goes_on_keeps_its_features(data: Path, finished: Path, tmp_path: Path) -> None:
    recipe = started(data, finished, tmp_path, item_dropout=0.3)
    run(recipe, tmp_path / "on", is_quiet=True)
    config = CompletionPipeline.from_pretrained(tmp_path / "on", device="cpu").model.config
    assert config.item_layout.dropout == 0.3
    for setting in ({"item_exclude": ("size",)}, {"item_kinds": {"size": "ignore"}}, {"item_encoder": "mlp"}):
        with pytest.raises(ConfigurationError) as caught:
            wrong = started(data, finished, tmp_path, **setting)
            ready = prepare(wrong)
            ready.build_model(ready.resolve(wrong))
        assert caught.value.place.name == next(iter(setting))


def test_items_that_are_retired_leave_with_their_features(data: Path, finished: Path, tmp_path: Path) -> None:
    recipe = started(data, finished, tmp_path, catalogue=False, retire_missing_items=True)
    ready = prepare(recipe)
    model = ready.build_model(ready.resolve(recipe))
    assert set(ready.processor.items.values) == {"blue-new", "blue-1", "scarf"}
    assert model.config.vocab_size == 6 == len(model.bert.embeddings.attributes.is_new)


def test_a_run_without_features_cannot_go_on_with_some(data: Path, tmp_path: Path) -> None:
    run(recipe(data, catalogue=False), tmp_path / "plain", is_quiet=True)
    with pytest.raises(ConfigurationError, match="was trained without") as caught:
        prepare(started(data, tmp_path / "plain", tmp_path))
    assert caught.value.place.name == "catalogue"


def test_inspection_shows_the_columns_of_the_catalogue(data: Path) -> None:
    found = inspect_table(recipe(data))
    assert found.items is not None
    assert found.items.schema.names == ("colour", "size")
    console = Console(record=True, width=120)
    console.print(found.to_rich())
    assert "Columns of the catalogue" in console.export_text()
    assert any("by their features alone: 2 of the catalogue" in line for line in found.lines())


def test_cold_items_are_left_out_of_training_and_scored_apart(data: Path, tmp_path: Path) -> None:
    table = parquet.read_table(data / "sets.parquet").drop_columns("part")
    parquet.write_table(table, tmp_path / "sets.parquet")
    items = pa.array(sorted({item for row in table["items"].to_pylist() for item in row}))
    split = with_cold_items(new_split(table, "row", shares=(0.0, 0.3)), items, 0.2, seed=1)
    split.save(tmp_path / "split.json")
    base = recipe(data)
    asked = replace(base, data=str(tmp_path / "sets.parquet"), split_column=None, split=str(tmp_path / "split.json"))
    ready = prepare(asked)
    names = ready.processor.items
    learned = {names.value_of(int(index)) for index in ready.datasets["train"].input_ids.unique()}
    tested = {names.value_of(int(index)) for index in ready.datasets["test"].input_ids.unique()}
    cold = {*split.cold_items}
    assert cold and not learned & cold
    assert tested & cold
    report = run(asked, tmp_path / "run", is_quiet=True)
    (new,) = [each for each in report.segments if each.value == "0, a new item"]
    counted = sum(item in cold for row in split.rows("test") for item in table["items"][int(row)].as_py())
    assert new.num_rows >= counted  # beside what training lacks by chance
    again = evaluate_run(tmp_path / "run")
    assert again.report.metrics == report.metrics
    measured = report.new_items
    assert measured is not None and again.report.new_items == measured
    assert measured.asked.value == pytest.approx(new.num_rows / report.num_rows)
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run", device="cpu")
    rows = table.take(pa.array(split.rows("test"))).to_pylist()
    asked_for = [
        {"items": ["[MASK]" if place == hidden else item for place, item in enumerate(row["items"])], "sex": row["sex"]}
        for row in rows
        for hidden in range(len(row["items"]))
    ]
    queries = [{"items": each["items"], "context": {"sex": each["sex"]}} for each in asked_for]
    expected = [
        sum(each["probability"] for each in answer["slots"][0]["candidates"] if each["is_new"])
        for answer in pipeline(queries, top_k=len(names))
    ]
    assert measured.expected.value == pytest.approx(np.mean(expected), abs=1e-5)
    line = f"Items that training never saw: expected at {100 * measured.expected.value:.2f}% of the masked positions"
    assert line in report.to_markdown() and line in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize("method", ["global_state_update", "bag"])
def test_own_vectors_can_have_a_decay_of_their_own(method: str, data: Path, tmp_path: Path) -> None:
    base = replace(recipe(data), conditioning=method, model=MODEL if method != "bag" else {})
    norms: list[float] = []
    for decay in (0.0, 20.0):
        settings = {**base.training, "num_train_epochs": 5, "weight_decay": 0.1, "item_weight_decay": decay}
        asked = replace(base, training=settings)
        ready = prepare(asked)
        model: Any = ready.build_model(asked)
        saving = {"save_strategy": "no", "load_best_model_at_end": False}
        arguments = training_arguments(tmp_path / "arguments", device="cpu", **settings, **saving)
        optimizer: Any = ready.make_trainer(asked, model, arguments, callbacks=[]).create_optimizer()
        decays = {id(weight): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
        own = {id(weight) for _, weight in model.item_encoders()}
        assert len(own) == 2 and {decays.pop(weight) for weight in own} == {decay}
        assert {*decays.values()} == {0.0, 0.1}
        run(asked, tmp_path / str(decay), prepared=ready, is_quiet=True)
        weights = load_file(tmp_path / str(decay) / "checkpoints" / "checkpoint-25" / "model.safetensors")
        (inputs,) = (
            value for name, value in weights.items() if name.endswith(("items.weight", "word_embeddings.weight"))
        )
        norms.append(float(inputs[3:].norm()))
    assert norms[1] < 0.8 * norms[0]


def test_a_run_without_new_items_measures_none_of_them(finished: Path, tmp_path: Path, data: Path) -> None:
    plain = run(recipe(data, catalogue=False), tmp_path / "plain", is_quiet=True)
    assert plain.new_items is None and "training never saw" not in plain.to_markdown()
    assert "training never saw" in (finished / "README.md").read_text()
