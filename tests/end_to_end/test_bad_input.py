"""A user's mistake gets a paragraph with what, where and what to do, and exit code 2; nothing is half written."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.context import Categorical, ContextSchema, Numerical
from contextual_bert.runs.run_directory import remember_recipe
from contextual_bert.training import Recipe, SetCompletion
from tests.end_to_end.refusals import At, refused


def write(path: Path, **columns: object) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


SETS = [["a", "b"], ["b", "c"], ["a", "c"]] * 20
WHO = [str(number) for number in range(60)]

TABLES = {
    "empty file": ({}, ("days.parquet", "0 bytes", At("days.parquet"))),
    "empty sets": (
        {"items": [[]] * 60, "who": WHO},
        ("days.parquet", "'items'", "empty in the table", "Loosen", At("days.parquet", "items")),
    ),
    "longer sets": (
        {"items": [["a", "b", "c", "d"]] * 60, "who": WHO},
        ("days.parquet", "'items'", "60 with more than 3 items", "Loosen", At("days.parquet", "items")),
    ),
    "duplicates": (
        {"items": [["a", "b"]] * 59 + [["c", "c"]], "who": WHO},
        ("days.parquet", "row 60", "'items'", "'c'", "--duplicates drop", At("days.parquet", 59, "items")),
    ),
    "missing item": (
        {"items": [["a", "b"]] * 59 + [["c", None]], "who": WHO},
        ("row 60", "item 2 of 2", "null", At("days.parquet", 59, "items")),
    ),
    "missing customer": (
        {"items": SETS, "who": [*WHO[:-1], None]},
        ("days.parquet", "row 60", "'who'", "missing", At("days.parquet", 59, "who")),
    ),
    "infinite context": (
        {"items": SETS, "who": WHO, "age": [20.0, 30.0, 40.0] * 19 + [1.0, 2.0, float("inf")]},
        ("days.parquet", "row 60", "'age'", "inf", At("days.parquet", 59, "age")),
    ),
    "items of the wrong type": (
        {"items": [{"x": 1}] * 60, "who": WHO},
        ("'items'", "struct", "list of strings", At("days.parquet", "items")),
    ),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("verb", ["inspect", "train"])
def test_faulty_tables(command: Any, tmp_path: Path, name: str, verb: str) -> None:
    columns, expected = TABLES[name]
    path = tmp_path / "days.parquet"
    if columns:
        write(path, **columns)
    else:
        path.touch()
    options = ("--items", "items", "--customer", "who", "--max-size", 3, "--output", tmp_path / "out")
    refused(command(verb, path, *options), *expected)
    assert {each.name for each in tmp_path.iterdir()} == {"days.parquet"}


def test_a_missing_file_names_its_neighbours(command: Any, table: Path, tmp_path: Path) -> None:
    result = command("train", table.with_name("outfit.parquet"), *command.small, "--output", tmp_path / "run")
    refused(result, "outfit.parquet", "no such file", "Did you mean 'outfits.parquet'", At("outfit.parquet"))


def test_a_broken_line_is_named(command: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "days.jsonl", items=SETS, who=WHO)
    path.write_text(path.read_text("utf-8") + '{"items": ["a"], "who"\n', encoding="utf-8")
    refused(
        command("inspect", path, "--items", "items", "--output", tmp_path / "s.json"),
        "days.jsonl, line 61",
        At("days.jsonl", 60),
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--items", "itmes"), ("'itmes'", "Did you mean 'items'", "outfits.parquet", At("itmes"))),
        (("--customer", "customerid"), ("'customerid'", "Did you mean 'customer_id'", At("customerid"))),
        (
            ("--split", "split.json", "--validation", "0.3"),
            ("--validation 0.3", "--split split.json names one", At("validation")),
        ),
        (("--init-from", "started", "--exclude", "age", "--conditioning", "none"), ("--exclude", "--init-from brings")),
        (("--exclude", "contry"), ("'contry'", "Did you mean 'country'", At("contry"))),
        (
            ("--conditioning", "globl_state"),
            ("--conditioning globl_state", "Did you mean 'global_state'", At("conditioning")),
        ),
        (("--device", "gpu"), ("--device gpu", "auto", At("device"))),
        (("--dtype", "float16"), ("--dtype float16", "bfloat16", At("dtype"))),
        (("--split-by", "custmer"), ("--split-by custmer", "Did you mean 'customer'", At("split_by"))),
        (("--split-by", "time"), ("time", "--time", At("split_by"))),
        (("--longer", "smaple", "--max-size", "3"), ("--longer smaple", "Did you mean 'sample'", At("longer"))),
        (("--duplicates", "keeep"), ("--duplicates keeep", "Did you mean 'keep'", At("duplicates"))),
        (
            ("--set", "weight_decy=1"),
            ("--set weight_decy=1", "Did you mean 'weight_decay'", At("training", "weight_decy")),
        ),
        (("--set", "weight_decay"), ("NAME=VALUE", At("--set"))),
        (("--set", "bf16=true"), ("--set bf16=true", "Give --dtype in", At("training", "bf16"))),
        (("--set", "num_train_epochs=2"), ("--epochs", "--set num_train_epochs")),
        (
            ("--set", "lr_scheduler_type=cosin"),
            ("--set lr_scheduler_type=cosin", "Did you mean 'cosine'", At("lr_scheduler_type")),
        ),
        (("--min-size", "0"), ("--min-size 0", "at least 1", At("min_size"))),
        (("--patience", "0"), ("--patience 0", "1 or more", At("patience"))),
        (("--batch-size", "0"), ("--batch-size 0", "above 0", At("per_device_train_batch_size"))),
        (("--learning-rate", "nan"), ("--learning-rate nan", "above 0", At("learning_rate"))),
        (("--epochs", "0"), ("--epochs 0", "above 0", At("num_train_epochs"))),
        (("--masks-per-set", "0"), ("--masks-per-set 0", "above 0", At("masks_per_set"))),
        (("--set", "masks_per_set=0"), ("--masks-per-set 0", "above 0", At("masks_per_set"))),
        (
            ("--model", "hiden_size=16"),
            ("--model hiden_size=16", "Did you mean 'hidden_size'", At("model", "hiden_size")),
        ),
        (("--model", "num_attention_heads=3"), ("num_attention_heads",)),
        (("--model", "vocab_size=5"), ("--model vocab_size=5", "Leave it out", At("model", "vocab_size"))),
        (("--validation", "0.6", "--test", "0.6"), ("--validation 0.6 and --test 0.6 leave no row", At("validation"))),
        (("--patience", "2", "--validation", "0"), ("--patience 2", "--validation 0 leaves none", At("patience"))),
        (("--schema", "nowhere.json"), ("nowhere.json", "no such file", "--schema", At("nowhere.json"))),
        (("--split", "nowhere.json"), ("nowhere.json", "no such file", At("nowhere.json"))),
        (("--init-from", "nowhere"), ("nowhere does not exist", "--output of train")),
        (("--resume", "--overwrite"), ("--resume", "--overwrite")),
        (("--item", "x"), ("--item", "--items")),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_faulty_options(
    command: Any,
    table: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    expected: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overridden = {"--batch-size": 2, "--items": 2, "--customer": 2, "--epochs": 2, "--device": 2}
    kept = list(command.small)
    for name in options:
        if name in overridden:
            place = kept.index(name)
            del kept[place : place + overridden[name]]
    if "num_train_epochs=2" not in options and "--init-from" in options:
        kept = ["--items", "items"]
    monkeypatch.chdir(tmp_path)
    Path("split.json").touch()
    Path("started").mkdir()
    recipe = Recipe(data="days.parquet", task=SetCompletion(items="items"))
    (Path("started") / "recipe.json").write_text(json.dumps({"recipe": recipe.to_dict()}), "utf-8")
    result = command("train", table, *kept, *options, "--output", tmp_path / "run")
    refused(result, *expected)
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_a_schema_that_does_not_fit_the_table(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    ContextSchema(features=(Numerical(name="agee", edges=(30.0,)),)).save(tmp_path / "schema.json")
    result = command("train", table, *command.small, "--schema", tmp_path / "schema.json", "--output", tmp_path / "run")
    refused(result, "'agee'", "Did you mean 'age'", At("agee"))
    ContextSchema(features=(Numerical(name="country", edges=(30.0,)),)).save(tmp_path / "other.json")
    result = command("train", table, *command.small, "--schema", tmp_path / "other.json", "--output", tmp_path / "run")
    refused(result, "outfits.parquet", "row ", "'country'", At("outfits.parquet", 0, "country"))
    own = (Numerical(name="age", edges=(30.0,)), Categorical(name="worn", source="items", values=("a",)))
    ContextSchema(features=own).save(tmp_path / "leak.json")
    result = command("train", table, *command.small, "--schema", tmp_path / "leak.json", "--output", tmp_path / "run")
    refused(result, "leak.json, feature 'worn': reads 'items' as context", "inspect", At("leak.json", "features", 1))
    options = ("--items", "preferred_colours", "--init-from", finished, "--output", tmp_path / "run")
    said = "reads 'preferred_colours' as context, and here it is learned or learned from"
    refused(command("train", table, *options), f"{finished} {said}", "--exclude preferred_colours")
    (tmp_path / "broken.json").write_text('{"features": [{"kind": "categoricl", "name": "x"}]}', encoding="utf-8")
    result = command("train", table, *command.small, "--schema", tmp_path / "broken.json", "--output", tmp_path / "run")
    refused(result, "broken.json, feature 'x', kind: ", "'categoricl'", "Did you mean", At("features", 0, "kind"))
    assert not (tmp_path / "run").exists()


def test_a_split_of_another_table(command: Any, table: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "days.parquet", items=SETS, who=WHO)
    assert command("split", other, "--by", "who", "--output", tmp_path / "split.json").exit_code == 0
    result = command("train", table, *command.small, "--split", tmp_path / "split.json", "--output", tmp_path / "run")
    refused(result, "300 rows", "60", "outfits.parquet", At("outfits.parquet"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ("--by COLUMN", "--by-time COLUMN")),
        (("--by", "customer_id", "--by-row"), ("one of",)),
        (("--by-row", "--separator", ";"), ("--separator", "--items")),
        (("--by-time", "account_age_days", "--seed", "1"), ("--by-time", "--seed")),
        (("--by", "customerid"), ("Did you mean 'customer_id'", At("customerid"))),
        (("--by-time", "country"), ("row 1", "'country'", "is not a time", At("outfits.parquet", 0, "country"))),
        (
            ("--by", "customer_id", "--validation", "0.0001", "--test", "0.0001"),
            ("would be empty", At("outfits.parquet", "customer_id")),
        ),
        (("--by", "customer_id", "--items", "itms"), ("Did you mean 'items'", At("itms"))),
    ],
)
def test_faulty_splits(
    command: Any, table: Path, tmp_path: Path, options: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    refused(command("split", table, *options, "--output", tmp_path / "split.json"), *expected)
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_overwritten_unasked(command: Any, table: Path, tmp_path: Path) -> None:
    for name in ("schema.json", "split.json"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    refused(command("inspect", table, "--items", "items", "--output", tmp_path / "schema.json"), "--overwrite")
    refused(command("split", table, "--by-row", "--output", tmp_path / "split.json"), "--overwrite")
    assert {path.read_text("utf-8") for path in tmp_path.iterdir()} == {"mine"}
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    refused(command("train", table, *command.small, "--output", tmp_path), "README.md", "another --output")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            ("--set", "coat-0", "--context", '{"agee": 3}'),
            (
                ": --context, feature 'agee': the context has no feature 'agee'",
                "Did you mean 'age'",
                At("context", "agee"),
            ),
        ),
        (
            ("--set", "coat-0", "--context", '{"age": "old"}'),
            (": --context, feature 'age': 'old'", "number", At("context", "age")),
        ),
        (("--set", "coat-0", "--context", '{"age": NaN}'), ("NaN", "Leave the feature out")),
        (("--set", "coat-0", "--context", '{"age": 1e999}'), ("'age'", "inf", At("context", "age"))),
        (("--set", "coat-0", "--context", '{"country": ["x"]}'), ("'country'", "['x']", At("context", "country"))),
        (("--set", "coat-0", "--context", '{"age": 3'), ("column 10", "--context", "JSON", At("context"))),
        (("--set", "coat-0", "--context", "[1]"), ("JSON object", "[1]")),
        (("--set", "coat-0,,hat-0"), ("nothing as item 2 of 3", At("--set"))),
        (("--set", "coat-0", "--top", "0"), ("--top",)),
        (("--set", "coat-0", "--format", "jsn"), ("jsn", "Did you mean 'json'", At("--format"))),
        (("--set", "coat-0", "--where", "category"), ("--where category is no condition", "price<=80", At("--where"))),
        (("--set", "coat-0", "--where", "price<=cheap"), ("'cheap', which is no number", At("--where"))),
        (
            ("--set", "coat-0", "--max-price", "3"),
            (": --max-price: it needs a catalogue", "--catalogue", At("max_price")),
        ),
        (("--set", "coat-0", "--guidance", "101"), (": --guidance: 101.0 is no number", At("guidance"))),
        (("--set", "coat-0", "--catalogue", "nowhere.csv"), ("nowhere.csv", "no such file", At("nowhere.csv"))),
        (("--input", "queries.jsonl", "--one-per", "category"), ("--one-per belongs to --set", "at_most_one_per")),
        ((), ("--set", "--input")),
        (("--input", "nowhere.jsonl"), ("nowhere.jsonl", "no such file", At("nowhere.jsonl"))),
        (("--set", "coat-0", "--ray"), ("--ray is for --data",)),
        (("--data", "a.csv", "--output", "o", "--workers", "2"), ("--workers is for --ray",)),
        (("--set", "a", "--shard-size", "9"), ("--shard-size is for --data",)),
        (("--set", "a", "--keep", "b"), ("--keep is for --data",)),
        (("--data", "a.csv", "--output", "o", "--ray-address", "auto"), ("--ray-address is for --ray",)),
        (
            ("--data", "a.csv", "--output", "o", "--ray", "--device", "mps"),
            ("--device mps", "auto, cpu, cuda", At("device")),
        ),
        (("--data", "a.csv", "--output", "o", "--ray", "--ray-address", "ray://h:1"), ("ray://h:1", "Ray client")),
    ],
)
def test_faulty_queries(command: Any, finished: Path, query: tuple[str, ...], expected: tuple[str, ...]) -> None:
    for name in ("a.csv", "queries.jsonl"):
        Path(name).touch()
    refused(command("complete", finished, *query), *expected)


def test_a_faulty_line_of_queries_is_named(command: Any, finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"items": ["coat-0"]}\n{"items": [}\n', encoding="utf-8")
    refused(command("complete", finished, "--input", path), "queries.jsonl, line 2", "column 12")
    path.write_text('{"items": ["coat-1"]}', encoding="utf-16")
    refused(
        command("complete", finished, "--input", path),
        "queries.jsonl",
        "not UTF-8",
        "Save it as UTF-8",
        At("queries.jsonl"),
    )
    path.write_text('{"items": ["coat-1", "a\u2028b"]}', encoding="utf-8")
    assert command("complete", finished, "--input", path).exit_code == 0
    for faulty, expected in (
        ('{"itms": ["coat-0"]}', (", itms: unknown key 'itms'", "Did you mean 'items'")),
        ('{"items": ["coat-0"], "context": {"age": "old"}}', (", context.age: 'old'", "number")),
        ('{"items": ["coat-0"], "where": {"price": 3}}', (", where: it needs a catalogue", "--catalogue")),
    ):
        path.write_text(f'{{"items": ["coat-0"]}}\n\n{faulty}\n', encoding="utf-8")  # empty lines count as lines
        refused(command("complete", finished, "--input", path), f"queries.jsonl, line 3{expected[0]}", *expected)


def damaged(finished: Path, tmp_path: Path, name: str) -> Path:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    path = run / name
    if name == "recipe.json":
        content = json.loads(path.read_text("utf-8"))
        content["recipe"]["format"] = "contextual-bert recipe 99"
        path.write_text(json.dumps(content), encoding="utf-8")
    elif name == "model.safetensors":
        path.write_bytes(path.read_bytes()[:1000])
    elif name == "config.json":
        content = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(content | {"num_hidden_layers": 2}), encoding="utf-8")
    else:
        path.unlink()
    return run


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recipe.json", ("contextual-bert recipe 99", "another version")),
        ("tokenizer.json", ("tokenizer.json missing", "no complete run directory")),
        ("model.safetensors", ("cannot be loaded", "damaged")),
        ("config.json", ("lack", "another version")),
    ],
)
@pytest.mark.parametrize("verb", ["complete", "evaluate"])
def test_faulty_run_directories(
    command: Any, finished: Path, tmp_path: Path, name: str, expected: tuple[str, ...], verb: str
) -> None:
    run = damaged(finished, tmp_path, name)
    query = ("--set", "coat-0") if verb == "complete" else ()
    if name != "tokenizer.json" and (verb, name) != ("complete", "recipe.json"):  # which completion does not read
        refused(command(verb, run, *query), f"{name} differs from manifest.json", "Copy the folder again")
    (run / "manifest.json").unlink()  # as in a run of an older version
    refused(command(verb, run, *query), *expected)


def test_what_is_no_run_directory(command: Any, finished: Path, tmp_path: Path) -> None:
    refused(command("complete", tmp_path / "nowhere", "--set", "a"), "nowhere", "does not exist", "--output", "export")
    (tmp_path / "file.csv").touch()
    refused(command("evaluate", tmp_path / "file.csv"), "file.csv is a file", "--output of train")
    recipe = Recipe(data="x.parquet", task=SetCompletion(items="items"), conditioning="bag")
    remember_recipe(tmp_path / "half", recipe, digests={}, num_devices=1)
    for verb in (
        "evaluate",
        "export",
        "complete --set a",
        "predict --text word1",
        "sample",
        "explain --set a --context {}",
        "similar --item a",
        f"vectors --output {tmp_path / 'vectors.parquet'}",
    ):
        name, *options = verb.split()
        result = command(name, tmp_path / "half", *options)
        refused(result, "holds an interrupted run", f"--output {tmp_path / 'half'} --resume")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe.to_dict()), encoding="utf-8")
    refused(command("evaluate", tmp_path), "'bag'", "no weights")


@pytest.mark.parametrize("verb", ["evaluate", "importance", "export"])
def test_a_file_in_the_place_of_a_folder_is_found_before_anything_is_computed(
    command: Any, finished: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "output").write_text("mine", encoding="utf-8")
    refused(command(verb, finished, "--output", tmp_path / "output"), "--output", "is a file")
    assert (tmp_path / "output").read_text("utf-8") == "mine"


def test_faulty_evaluations(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    refused(
        command("evaluate", finished, "--data", tmp_path / "no.parquet"), "no.parquet", "no such file", At("no.parquet")
    )
    refused(command("evaluate", finished, "--part", "tst"), "tst", "Did you mean 'test'", At("--part"))
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(table).slice(0, 50), other)
    refused(command("evaluate", finished, "--data", other, "--part", "test"), "which split", "--split", At("part"))
    pq.write_table(pq.read_table(table).drop_columns(["age"]), other)
    refused(command("evaluate", finished, "--data", other), "'age'", At("age"))
    refused(
        command("evaluate", finished, "--items", "preferred_colours"),
        "none of the",
        "vocabulary",
        At("outfits.parquet", "preferred_colours"),
    )
    assert [each.name for each in tmp_path.iterdir()] == ["other.parquet"]


def test_faulty_importances(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    output = ("--output", tmp_path / "out")
    refused(command("importance", finished, "--part", "tst", *output), "tst", "Did you mean 'test'", At("--part"))
    refused(command("importance", finished, "--format", "jsn", *output), "jsn", "Did you mean 'json'", At("--format"))
    refused(command("importance", finished, "--permutations", 0, *output), "--permutations")
    refused(
        command("importance", finished, "--data", tmp_path / "no.parquet", *output),
        "no.parquet",
        "no such file",
        At("no.parquet"),
    )
    refused(command("importance", tmp_path / "nowhere", *output), "nowhere", "does not exist", "--output of train")
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(table).slice(0, 50), other)
    refused(
        command("importance", finished, "--data", other, "--part", "test", *output),
        "which split",
        "--split",
        At("part"),
    )
    run = tmp_path / "none"
    assert command("train", table, *command.small, "--conditioning", "none", "--output", run).exit_code == 0
    refused(command("importance", run, *output), "--conditioning none", "reads no context", "another method")
    assert {each.name for each in tmp_path.iterdir()} == {"other.parquet", "none"}


def test_faulty_studies(command: Any, table: Path, tmp_path: Path) -> None:
    study = ("compare", table, *command.small, "--output", tmp_path / "cmp")
    refused(command(*study, "--conditioning", "none,conct"), "--conditioning conct", "Did you mean 'concat'")
    refused(command(*study, "--conditioning", "concat", "--reference", "none"), "--reference none", "concat")
    refused(command(*study, "--baselines", "bags"), "--baselines bags", "Did you mean 'bag'")
    refused(command(*study, "--seeds", 0), "--seeds")
    assert not (tmp_path / "cmp").exists()


def test_faulty_worlds(command: Any, world: Path, table: Path, tmp_path: Path) -> None:
    refused(command("world", "oracle", tmp_path), "world.json", "is missing", At("world.json"))
    refused(command("world", "generate", "--items", 1, "--output", tmp_path / "w"), "1", At("num_items"))
    refused(
        command("world", "generate", "--outfits", 5, "--customers", 9, "--output", tmp_path / "w"),
        "num_customers=9",
        At("num_customers"),
    )
    other = write(tmp_path / "days.parquet", items=SETS, who=WHO)
    refused(command("world", "oracle", world, "--data", other), "column", At(0, "items"))
    rows = pq.read_table(table).slice(0, 3)
    strange = rows.set_column(1, "items", pa.array([["coat-0"], ["spaceship"], ["hat-0"]]))
    pq.write_table(strange, other)
    refused(command("world", "oracle", world, "--data", other), "'spaceship'", "row 2", At(1, "items"))


def full_disk(*arguments: object, **keywords: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_nothing_half_written(
    command: Any, table: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = ("No space is left", "Free some space")
    monkeypatch.setattr("contextual_bert.runs.runner.write_card", full_disk)
    refused(command("train", table, *command.small, "--output", tmp_path / "run"), *advice, is_placeless=True)
    assert {each.name for each in (tmp_path / "run").iterdir()} == {"checkpoints", "tensorboard"}
    refused(command("complete", tmp_path / "run", "--set", "a"), "interrupted run", "--resume")
    monkeypatch.undo()
    resumed = command("train", table, *command.small, "--resume", "--output", tmp_path / "run")
    assert resumed.exit_code == 0, resumed.output

    monkeypatch.setattr(Path, "replace", full_disk)
    schema, split = tmp_path / "schema.json", tmp_path / "split.json"
    refused(command("inspect", table, "--items", "items", "--output", schema), *advice, is_placeless=True)
    result = command("split", table, "--by-row", "--output", split)
    assert (result.exit_code, schema.exists(), split.exists()) == (2, False, False)
    assert "No space is left" in result.stderr
    result = command("evaluate", finished, "--output", tmp_path / "report", "--format", "json")
    assert result.exit_code == 2
    assert "No space is left" in result.stderr
    assert list((tmp_path / "report").iterdir()) == []
    result = command("importance", finished, "--output", tmp_path / "importance")
    assert result.exit_code == 2
    assert list((tmp_path / "importance").iterdir()) == []
    result = command("world", "generate", "--items", 60, "--outfits", 50, "--output", tmp_path / "world")
    refused(result, *advice, is_placeless=True)
    assert list((tmp_path / "world").iterdir()) == []


def test_debugging_shows_the_traceback(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTUAL_BERT_DEBUG", "0")
    mistake = ("inspect", tmp_path / "no.csv", "--items", "items")
    assert type(command(*mistake).exception) is SystemExit
    assert "DataError" in type(command("--debug", *mistake).exception).__name__


def test_a_context_that_nothing_reads_is_said(command: Any, table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert command("train", table, *command.small, "--conditioning", "none", "--output", run).exit_code == 0
    result = command("complete", run, "--set", "coat-0", "--context", '{"age": 34}')
    assert result.exit_code == 0, result.output
    assert "context was not used" in result.stderr


def test_a_method_with_context_on_a_table_without(command: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "days.parquet", items=SETS)
    result = command("train", path, "--items", "items", "--output", tmp_path / "run")
    refused(
        result, "needs a context", "--conditioning none", "no column of", "days.parquet", "inspect", At("conditioning")
    )
    path = write(tmp_path / "days.parquet", items=SETS, planet=["earth"] * 60)
    result = command("train", path, "--items", "items", "--output", tmp_path / "run")
    refused(
        result, "needs a context", "--conditioning none", "no column of", "days.parquet", "inspect", At("conditioning")
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ("--text", "--data")),
        (("--text", "a", "--data", "reviews.parquet"), ("either --text", "--data")),
        (("--data", "reviews.parquet"), ("--data needs --output",)),
        (("--text", "word1", "--output", "o.csv"), ("--output belongs to --data",)),
        (("--text", "word1", "--text-column", "t"), ("--text-column belongs to --data",)),
        (("--data", "reviews.parquet", "--output", "o.csv", "--context", "{}"), ("--context belongs to --text",)),
        (("--data", "reviews.parquet", "--output", "o.csv", "--format", "json"), ("--format belongs to --text",)),
        (("--text", "word1", "--context", "[1]"), ("JSON object", "[1]")),
        (("--text", "word1", "--context", '{"sex": '), ("--context", "not valid JSON")),
        (
            ("--text", "word1", "--context", '{"sexx": "f"}'),
            (
                ": --context, feature 'sexx': the context has no feature 'sexx'",
                "Did you mean 'sex'",
                At("context", "sexx"),
            ),
        ),
        (
            ("--text", "word1", "--context", '{"sex": [1]}'),
            (": --context, feature 'sex': [1] is a list", At("context", "sex")),
        ),
        (("--text", "word1", "--format", "jsn"), ("jsn", "Did you mean 'json'", At("--format"))),
        (("--text", "word1", "--truncation", "tail"), ("tail", "head_tail", At("--truncation"))),
        (("--text", ""), ("--text is '', in which there is nothing to read",)),
        (("--text", " "), ("--text is ' ', in which there is nothing to read",)),
        (("--text", "word1", "--pair", "\udcff"), (": --pair: ", "half of a character", At("pair"))),
        (("--data", "no.csv", "--output", "o.csv"), ("no.csv", "no such file", At("no.csv"))),
        (
            ("--data", "reviews.parquet", "--output", "o.xlsx"),
            ("'.xlsx' are not written", ".jsonl", At("--output o.xlsx")),
        ),
        (("--data", "reviews.parquet", "--output", "reviews.parquet"), ("exists already", "--overwrite")),
        (
            ("--data", "reviews.parquet", "--output", "o.jsonl", "--text-column", "txt"),
            ("'txt' in reviews.parquet", "Did you mean 'text'", "--text-column", At("txt")),
        ),
        (
            ("--data", "reviews.parquet", "--output", "o.jsonl", "--pair-column", "par"),
            ("no column 'par' in reviews.parquet", "--pair-column", At("par")),
        ),
        (
            ("--data", "reviews.parquet", "--output", "o.jsonl", "--text-column", "price"),
            ("reviews.parquet, column 'price'", "column of text", At("reviews.parquet", "price")),
        ),
        (
            ("--data", "reviews.parquet", "--output", "o.jsonl", "--text-column", "words"),
            ("'words'", "of text", At("reviews.parquet", "words")),
        ),
        (
            ("--data", "reviews.parquet", "--output", "o.csv"),
            (
                "--output o.csv, column 'words'",
                "CSV holds no list",
                ".parquet or .jsonl",
                At("--output o.csv", "words"),
            ),
        ),
        (
            ("--data", "labelled.parquet", "--output", "o.csv"),
            ("labelled.parquet, column 'predicted_label'", "Rename", At("labelled.parquet", "predicted_label")),
        ),
        (
            ("--data", "strangers.parquet", "--output", "o.csv"),
            ("strangers.parquet: the table has no column of the context ('sex')", At("strangers.parquet")),
        ),
        (
            ("--data", "listed.parquet", "--output", "o.jsonl"),
            ("listed.parquet", "'sex'", "list", At("listed.parquet")),
        ),
    ],
)
def test_faulty_predictions(
    command: Any,
    text_runs: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    expected: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("reviews.parquet"), text=["word1"], sex=["f"], price=[0.5], words=[["a"]])
    write(Path("labelled.parquet"), text=["word1"], sex=["f"], predicted_label=["good"])
    write(Path("strangers.parquet"), text=["word1"])
    write(Path("listed.parquet"), text=["word1"], sex=[["f"]])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused(command("predict", text_runs / "labels", *options), *expected)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--prompt", "word1 word2"), ("has no [MASK]", "nothing to draw", At("prompt"))),
        (("--prompt", "[MASK]", "--tokens", "3"), ("--prompt", "Leave --tokens out")),
        (("--tokens", "7"), ("9 tokens", "reads 8", "Ask for 6 or fewer")),
        (("--tokens", "0"), ("--tokens",)),
        (("--temperature", "0"), ("--temperature 0 ", "above 0", At("temperature"))),
        (
            ("--context", "{}", "--context", '{"sexx": "f"}'),
            (
                ": --context, feature 'sexx': the context has no feature 'sexx'",
                "Did you mean 'sex'",
                At("context", "sexx"),
            ),
        ),
        (("--context", "3"), ("JSON object",)),
        (("--format", "table"), ("table", "json, text", At("--format"))),
    ],
)
def test_faulty_samples(command: Any, text_runs: Path, options: tuple[str, ...], expected: tuple[str, ...]) -> None:
    refused(command("sample", text_runs / "masked", *options), *expected)


def test_a_folder_for_something_else_names_its_command(
    command: Any, finished: Path, text_runs: Path, tmp_path: Path
) -> None:
    predict, sample = ("--text", "word1"), ("--tokens", 2)
    (tmp_path / "reviews.csv").touch()
    for name, options in (("predict", predict), ("sample", sample), ("complete", ("--set", "a"))):
        refused(command(name, tmp_path / "reviews.csv", *options), "reviews.csv is a file")
    refused(command("predict", text_runs / "masked", *predict), "there is no [MASK] in the text", is_placeless=True)
    refused(command("predict", finished, *predict), "on sets of items", "contextual-bert complete")
    refused(command("sample", text_runs / "tags", *sample), "is a run on tags of words", "contextual-bert predict")
    refused(command("sample", finished, *sample), "on sets of items", "contextual-bert complete")
    for words in (("predict", *predict), ("sample", *sample)):
        refused(command(words[0], tmp_path / "nowhere", *words[1:]), "nowhere", "no such folder", "save_pretrained")
        refused(command(words[0], tmp_path, *words[1:]), "cannot be loaded", "save_pretrained")
        broken = tmp_path / words[0]
        shutil.copytree(text_runs / ("labels" if words[0] == "predict" else "masked"), broken)
        (broken / "model.safetensors").write_bytes(b"broken")
        refused(command(words[0], broken, *words[1:]), "cannot be loaded", "damaged")


def test_a_full_disk_leaves_no_half_predictions(
    command: Any, text_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path / "reviews.parquet", text=["word1"], sex=["f"])
    monkeypatch.setattr(Path, "replace", full_disk)
    result = command("predict", text_runs / "labels", "--data", data, "--output", tmp_path / "out.csv")
    refused(result, "No space is left", "Free some space", is_placeless=True)
    assert [each.name for each in tmp_path.iterdir()] == ["reviews.parquet"]


@pytest.mark.parametrize("name", ["evaluate", "importance", "export"])
def test_a_place_for_no_file_is_told_before_the_work(
    command: Any, finished: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("contextual_bert.runs.evaluation.evaluate_run", full_disk)
    refused(command(name, finished, "--output", "/proc/results"), "/proc/results: No such file", "Check the path")
