"""Runs that read how much time passed before each item of a sequence: learned, evaluated, asked and exported."""

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from contextual_bert.data import SetPolicy, read_table
from contextual_bert.errors import ConfigurationError, DataError, QueryError, UnknownNameError
from contextual_bert.inference import (
    BulkSettings,
    CompletionPipeline,
    OnnxCompletionPipeline,
    TableCompleter,
    complete_table,
    explain,
    export_onnx,
    similar_items,
)
from contextual_bert.runs import prepare, run
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.evaluator import evaluated_recipe
from contextual_bert.runs.model_inspection import inspect_model
from contextual_bert.runs.permutation_importance import permute_features
from contextual_bert.runs.run_directory import load_run
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion
from contextual_bert_cli.main import app

NUM_ITEMS = 12
SHORT, LONG = (10, 40), (5_000, 30_000)  # seconds
MODEL = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "max_position_embeddings": 6,
}
TRAINING = {"num_train_epochs": 20, "per_device_train_batch_size": 16, "learning_rate": 0.01, "weight_decay": 0.01}
POLICY = SetPolicy(duplicates="keep")


def visits(num_rows: int = 300) -> list[dict[str, Any]]:
    """Walks around a circle: after a short time to the next item, after a long one to the fifth from there."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for number in range(num_rows):
        is_long = rng.random(rng.choice([3, 5, 8])) < 0.5
        gaps = np.where(is_long, rng.integers(*LONG, len(is_long)), rng.integers(*SHORT, len(is_long)))
        places = (rng.integers(NUM_ITEMS) + np.cumsum([0, *np.where(is_long, 5, 1)])) % NUM_ITEMS
        part = "train" if number < 200 else "validation" if number < 250 else "test"
        times = 1_700_000_000 + np.cumsum([0, *gaps])
        own = {"items": [f"p{place}" for place in places], "at": times.tolist(), "part": part}
        rows.append({**own, "who": f"u{number}", "colour": "red" if number % 2 else "blue"})
    return rows


def as_moments(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    moments = table["at"].cast(pa.list_(pa.timestamp("s")))
    return table.set_column(table.column_names.index("at"), "at", moments)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The visits, the items of each row in any order beside their times."""
    rng, rows = np.random.default_rng(1), visits()
    for row in rows:
        order = rng.permutation(len(row["items"]))
        row["items"], row["at"] = ([row[name][place] for place in order] for name in ("items", "at"))
    found = tmp_path_factory.mktemp("visits") / "visits.parquet"
    parquet.write_table(as_moments(rows), found)
    return found


def recipe_for(path: Path, *, task: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    columns = {"items": "items", "order": "at", "hide": "next", "time_gaps": True, "policy": POLICY}
    settings: dict[str, Any] = {"model": MODEL, "training": TRAINING, "conditioning": "none", "exclude": ("who",)}
    own = SetCompletion(**{**columns, **(task or {})})
    return Recipe(data=str(path), split_column="part", task=own, **{"field_selection": "off", **settings, **changes})


def loss(report: Any) -> float:
    return report.metrics["cross_entropy_nats"].value


@pytest.fixture(scope="module")
def learned(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned") / "run"
    training = {**TRAINING, "field_dropout": 0.2}
    run(recipe_for(path, conditioning="global_state_update", training=training), folder)
    return folder


def queries(part: str = "test") -> list[dict[str, Any]]:
    """The sequences of a part with the last item open and all times known."""
    found: list[dict[str, Any]] = []
    for row in visits():
        if row["part"] == part:
            at = [datetime.datetime.fromtimestamp(each, datetime.UTC).replace(tzinfo=None) for each in row["at"]]
            times = [each.isoformat() for each in at]
            context = {"colour": row["colour"]}
            asked = {"items": [*row["items"][:-1], "[MASK]"], "times": times, "context": context}
            found.append({**asked, "repeats": True})
    return found


def best_of(answer: Any) -> dict[str, float]:
    return {each["item"]: each["probability"] for each in answer["slots"][0]["candidates"]}


def test_what_the_gap_decides_is_learned_with_gaps_alone(path: Path, learned: Path, tmp_path: Path) -> None:
    own = evaluate_run(learned, part="test").report
    assert loss(own) < 0.2
    config = json.loads((learned / "config.json").read_text(encoding="utf-8"))
    assert (config["time_gaps"], config["type_vocab_size"]) == ("seconds", 64)
    without = run(recipe_for(path, task={"time_gaps": False}), tmp_path / "without")
    assert loss(without) > 0.6
    config = json.loads((tmp_path / "without" / "config.json").read_text(encoding="utf-8"))
    assert (config["time_gaps"], config["type_vocab_size"]) == (None, 0)
    # Nothing else is read: the table, and with it the split, are the same.
    assert (tmp_path / "without" / "split.json").read_bytes() == (learned / "split.json").read_bytes()


def test_a_query_with_times_is_answered_as_it_was_evaluated(learned: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(learned)
    scores = load_run(learned, name="own").scores
    answers: Any = pipeline(queries(), top_k=NUM_ITEMS)
    true = [row["items"][-1] for row in visits() if row["part"] == "test"]
    asked = [np.log(best_of(answer)[item]) for answer, item in zip(answers, true, strict=True)]
    order = np.argsort(scores.example_id)
    np.testing.assert_allclose(asked, scores.log_probability[order], atol=1e-4)
    # Without times nothing fails, and the two steps are as likely as each other.
    for query in ({"items": ["p3", "p4"]}, {"items": ["p3", "p4"], "times": None}):
        unknown = best_of(pipeline(query, top_k=NUM_ITEMS))
        assert 0.1 < unknown["p5"] < 0.9 and 0.1 < unknown["p9"] < 0.9
    at = ["2024-01-01T10:00:00", "2024-01-01T10:00:20"]
    for soon in ("2024-01-01T10:00:40", datetime.datetime(2024, 1, 1, 10, 0, 40), np.datetime64("2024-01-01T10:00:40")):
        assert best_of(pipeline({"items": ["p3", "p4", "[MASK]"], "times": [*at, soon]}))["p5"] > 0.9
    late = {"items": ["p3", "p4", "[MASK]"], "times": [*at, "2024-01-01T14:00:00"]}
    assert best_of(pipeline(late))["p9"] > 0.9
    zoned = {**late, "times": [f"{each}+01:00" for each in late["times"]]}
    assert best_of(pipeline(zoned)) == pytest.approx(best_of(pipeline(late)))
    # A [MASK] that is added has no time, and neither has one that is null.
    added, null = ({"items": items, "times": at} for items in (["p3", "p4"], ["p3", "p4"]))
    null = {"items": ["p3", "p4", "[MASK]"], "times": [*at, None]}
    assert best_of(pipeline(added)) == best_of(pipeline(null))
    # The items of a long sequence keep the gaps to those that are read no more.
    [long] = [each for each in queries() if len(each["items"]) == 9][:1]
    cut = {**long, "items": long["items"][3:], "times": long["times"][3:]}
    assert best_of(pipeline(long, top_k=3)) != best_of(pipeline(cut, top_k=3))


@pytest.mark.slow
def test_all_that_asks_a_pipeline_reads_times(learned: Path, tmp_path: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(learned)
    asked = queries()[:8]
    answers: Any = pipeline(asked, top_k=5)
    # Whole sets at once, explanations, and what is shown of one query.
    joint: Any = pipeline.complete_jointly(asked[0], num_completions=2)
    assert joint["completions"][0]["filled"] == [answers[0]["slots"][0]["candidates"][0]["item"]]
    for query, answer in zip(asked, answers, strict=True):
        found = explain(pipeline, query)
        assert found.item == answer["slots"][0]["candidates"][0]["item"]
        assert found.probability == pytest.approx(answer["slots"][0]["candidates"][0]["probability"], abs=1e-5)
    shown = inspect_model(learned, {key: value for key, value in asked[0].items() if key != "repeats"})
    assert asked[0]["items"] and shown is not None
    # Exported, with times and without.
    export_onnx(learned, tmp_path / "onnx")
    exported = OnnxCompletionPipeline.from_pretrained(tmp_path / "onnx")
    for query in (*asked, {"items": ["p3", "p4"]}, {"items": []}):
        own, other = (each(query, top_k=5)["slots"][0]["candidates"] for each in (pipeline, exported))
        assert [each["item"] for each in own] == [each["item"] for each in other]
        np.testing.assert_allclose(
            [each["probability"] for each in own], [each["probability"] for each in other], atol=1e-5
        )
    # Over HTTP.
    import httpx

    from contextual_bert.server import create_app

    async def served() -> list[Any]:
        server = create_app(exported)
        async with server.router.lifespan_context(server):
            transport = httpx.ASGITransport(app=server, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                good = await client.post("/v1/complete?top_k=5", json=asked)
                bad = await client.post("/v1/complete", json={"items": ["p1", "p2"], "times": [3, "2024-01-01"]})
                return [good.json(), bad.status_code, bad.json()]

    found, status, problem = asyncio.run(served())
    assert [best_of(each) for each in found] == [pytest.approx(best_of(each), abs=1e-5) for each in answers]
    assert status == 422
    assert "times" in json.dumps(problem)
    # Items alike are asked for without a set.
    assert similar_items(pipeline, [{"item": "p3"}])
    with pytest.raises(UnknownNameError, match="unknown key 'times'"):
        similar_items(pipeline, [{"item": "p3", "times": [1]}])


def test_the_times_of_a_query_are_read_once(learned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    from contextual_bert.inference import queries as reading
    from contextual_bert.inference.query_times import query_gaps
    from contextual_bert.server import create_app

    pipeline, asked = CompletionPipeline.from_pretrained(learned), queries()[:3]
    answers: Any = pipeline(asked, top_k=5)
    read: list[int] = []

    def counted(times: Any, config: Any, *, num_items: int, row: int) -> Any:
        read.append(num_items)
        return query_gaps(times, config, num_items=num_items, row=row)

    monkeypatch.setattr(reading, "query_gaps", counted)
    assert pipeline(asked, top_k=5) == answers
    assert read == [len(each["items"]) for each in asked]
    read.clear()
    pipeline.complete_jointly(asked[0], num_completions=2)
    assert read == [len(asked[0]["items"])]

    async def served() -> Any:
        server = create_app(pipeline)
        async with server.router.lifespan_context(server):
            transport = httpx.ASGITransport(app=server, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                read.clear()
                return (await client.post("/v1/complete?top_k=5", json=asked)).json()

    found = asyncio.run(served())
    assert [best_of(each) for each in found] == [pytest.approx(best_of(each), abs=1e-5) for each in answers]
    assert read == [len(each["items"]) for each in asked]


@pytest.mark.parametrize("is_grouped", [False, True])
def test_a_table_is_completed_as_its_queries_are(learned: Path, tmp_path: Path, is_grouped: bool) -> None:
    pipeline = CompletionPipeline.from_pretrained(learned)
    rng, rows = np.random.default_rng(2), [row for row in visits() if row["part"] == "test"][:20]
    for row in rows:
        order = rng.permutation(len(row["items"]) - 1)
        row["items"] = [*(row["items"][place] for place in order), "[MASK]"]
        row["at"] = [*(row["at"][place] for place in order), row["at"][-1]]
    table, grouping = as_moments(rows), list[str]()
    if is_grouped:
        long = [
            {**row, "items": item, "at": at} for row in rows for item, at in zip(row["items"], row["at"], strict=True)
        ]
        table, grouping = pa.Table.from_pylist(long), ["who"]
        table = table.set_column(table.column_names.index("at"), "at", table["at"].cast(pa.timestamp("s")))
    settings = BulkSettings(top_k=5, group_by=grouping, constraints={"repeats": True})
    answers: Any = pipeline(queries()[:20], top_k=5)
    wanted = [pytest.approx([*best_of(each).values()], abs=1e-5) for each in answers]
    report = complete_table(pipeline, table, tmp_path / "out", settings=settings)
    found = read_table(tmp_path / "out" / "part-00000.parquet")
    assert found["probabilities"].to_pylist() == wanted
    assert any("items put in order by 'at'" in line for line in report.lines())
    # Without the column nothing is known of the times, and the report says so.
    columns = ["items", "colour", "who"]
    report = complete_table(pipeline, table.select(columns), tmp_path / "none", settings=settings)
    assert any("how much time passed between them is not known" in line for line in report.lines())
    other = read_table(tmp_path / "none" / "part-00000.parquet")["probabilities"].to_pylist()
    assert other != wanted
    if not is_grouped:
        plain = [{"items": row["items"], "context": {"colour": row["colour"]}, "repeats": True} for row in rows]
        assert other == [pytest.approx([*best_of(each).values()], abs=1e-5) for each in pipeline(plain, top_k=5)]
        by_itself = TableCompleter(pipeline, settings)(table.select(columns))
        assert by_itself["probabilities"].to_pylist() == [pytest.approx(each) for each in other]
        numbers = table.set_column(table.column_names.index("at"), "at", pa.array([row["at"] for row in rows]))
        with pytest.raises(DataError, match="column 'at': the column has numbers for times, and the run was trained"):
            complete_table(pipeline, numbers, tmp_path / "numbers", settings=BulkSettings())


def test_faulty_times_are_named(learned: Path, path: Path, tmp_path: Path) -> None:
    pipeline = CompletionPipeline.from_pretrained(learned)
    for times, told in (
        (["2024-01-01"], r"query 1, times: 1 time for 2 items"),
        ("2024-01-01", r"query 1, times: '2024-01-01' is not a list of times"),
        (["2024-01-01", "soon"], r"query 1, times\[1\]: 'soon' is not a time"),
        (["2024-01-01", 5], r"query 1, times\[1\]: 5 is no time, and the run was trained with dates"),
        (["2024-01-02", "2024-01-01"], r"query 1, times\[1\]: the time is before that of an item"),
        (["2024-01-02T10:00:00Z", "2024-01-03"], r"query 1, times\[1\]: .* with a zone"),
    ):
        with pytest.raises(QueryError, match=told):
            pipeline({"items": ["p1", "p2"], "times": times})
    task = {"time_gaps": False}
    run(recipe_for(path, task=task, training={**TRAINING, "num_train_epochs": 1}), tmp_path / "run")
    with pytest.raises(QueryError, match="query 1, times: the model reads no times"):
        CompletionPipeline.from_pretrained(tmp_path / "run")({"items": ["p1"], "times": [None]})


def test_numbers_are_times_too(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "numbers.parquet"
    parquet.write_table(pa.Table.from_pylist(visits()), table)
    run(recipe_for(table), tmp_path / "run")
    assert loss(evaluate_run(tmp_path / "run", part="test").report) < 0.2
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run")
    for times in ([0, 20, 40], ["0", "20", 40.0], np.array([0, 20, 40])):
        assert best_of(pipeline({"items": ["p3", "p4", "[MASK]"], "times": times}))["p5"] > 0.9
    with pytest.raises(QueryError, match=r"times\[0\]: '2024-01-01' is a string, not a number"):
        pipeline({"items": ["p3"], "times": ["2024-01-01"]})
    with pytest.raises(DataError, match="has dates or timestamps for times, and the run was trained with numbers"):
        evaluate_run(tmp_path / "run", overrides={"data": str(path)}, part="all")
    # Another table in the order of its items has no times.
    found = evaluate_run(tmp_path / "run", overrides={"data": str(table), "order": "items"}, part="test")
    assert loss(found.report) > 0.5
    assert any("how much time passed between items is not known" in line for line in found.lines)
    assert not evaluated_recipe(Recipe.load(tmp_path / "run"), {"order": "items"}).set_task.time_gaps


@pytest.mark.slow
def test_models_that_read_both_sides_read_gaps(path: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.parquet"
    parquet.write_table(
        as_moments([{**row, "items": row["items"][:3], "at": row["at"][:3]} for row in visits()]), short
    )
    model = {**MODEL, "hidden_size": 32, "attention_probs_dropout_prob": 0.0, "predicts_next": False}
    training = {**TRAINING, "num_train_epochs": 40, "per_device_train_batch_size": 32, "masks_per_set": 1}
    found = run(recipe_for(short, model=model, training=training), tmp_path / "next")
    assert loss(found) < 0.4 < np.log(2)  # what is left to who knows all but the gap
    few = {"num_train_epochs": 1}
    model = {**MODEL, "max_position_embeddings": 9}
    run(recipe_for(path, task={"hide": "items"}, model=model, training=few), tmp_path / "gaps")
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "gaps")
    query, at = {"items": ["p3", "[MASK]", "p9"]}, ["2024-01-01T10:00", None, "2024-01-01T16:00"]
    known = {**query, "times": [at[0], "2024-01-01T10:01", at[2]]}
    answers = [best_of(pipeline(each)) for each in (query, {**query, "times": at}, known)]
    assert answers[0] == answers[1] != answers[2]


def test_the_command_line_asks_with_times(learned: Path, tmp_path: Path) -> None:
    def asked(*words: str) -> Any:
        found = CliRunner().invoke(app, [*words])
        return (json.loads(found.stdout), "") if found.exit_code == 0 else (None, found.output)

    ask = ("complete", str(learned), "--set", "p3,p4,[MASK]", "--format", "json")
    at = [f"2024-01-01T{hour}:00" for hour in ("10", "13", "16")]
    for times in (",".join(at), json.dumps(at)):
        assert best_of(asked(*ask, "--times", times)[0])["p9"] > 0.9
    none, known = (asked(*ask, "--times", times)[0] for times in (",,", ",".join([*at[:2], ""])))
    assert best_of(none)["p5"] > 0.1 < best_of(known)["p5"]
    output = asked(*ask, "--times", ",".join([*at[:2], "later"]))[1]
    assert "--times" in output and "later" in output
    assert "no JSON list of times" in asked(*ask, "--times", "[1,")[1]
    lines = tmp_path / "queries.jsonl"
    lines.write_text(json.dumps(queries()[0]) + "\n", encoding="utf-8")
    answer, output = asked("complete", str(learned), "--input", str(lines), "--top", "5")
    pipeline = CompletionPipeline.from_pretrained(learned)
    assert best_of(answer) == pytest.approx(best_of(pipeline(queries()[0])), abs=1e-6)
    assert "belongs to --set" in asked("complete", str(learned), "--input", str(lines), "--times", ",")[1]
    data = ("complete", str(learned), "--data", str(lines), "--output", str(tmp_path / "out"), "--times", ",")
    assert "belongs to --set" in asked(*data)[1]
    told = ("explain", str(learned), "--set", "p3,p4,[MASK]", "--context", '{"colour": "red"}', "--format", "json")
    assert asked(*told, "--times", ",".join(at))[0]["item"] == "p9"


@pytest.mark.slow
def test_a_training_of_the_command_line_reads_gaps(path: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    lines = ["who,items,at,part"]
    for row in read_table(path).to_pylist():
        pairs = zip(row["items"], row["at"], strict=True)
        lines += [f"{row['who']},{item},{time.isoformat()},{row['part']}" for item, time in pairs]
    long.write_text("\n".join(lines) + "\n", encoding="utf-8")
    order = ["--items", "items", "--group-by", "who", "--order", "at", "--hide", "next", "--split-column", "part"]
    sizes = [word for name, value in MODEL.items() for word in ("--model", f"{name}={value}")]
    rates = ["--epochs", "20", "--batch-size", "16", "--learning-rate", "0.01", "--set", "weight_decay=0.01"]
    more = ["--duplicates", "keep", "--conditioning", "none", "--field-selection", "off"]
    words = ["train", str(long), *order, *sizes, *rates, *more, "--time-gaps", "--output", str(tmp_path / "run")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert loss(evaluate_run(tmp_path / "run", part="test").report) < 0.2
    assert Recipe.load(tmp_path / "run").set_task.time_gaps
    refused = CliRunner().invoke(app, ["train", str(long), "--items", "items", "--time-gaps", "--output", "none"])
    assert refused.exit_code == 2
    assert "--time-gaps" in refused.output and "--order" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize("first", ["none,", ""])
def test_baselines_are_compared_without_the_gaps(path: Path, tmp_path: Path, first: str) -> None:
    order = ["--items", "items", "--order", "at", "--hide", "next", "--split-column", "part", "--duplicates", "keep"]
    sizes = [word for name, value in MODEL.items() for word in ("--model", f"{name}={value}")]
    rates = ["--epochs", "1", "--batch-size", "16", "--seeds", "1", "--field-selection", "off", "--exclude", "who"]
    folders = {name: tmp_path / name for name in ("gaps", "plain")}
    for name, more in (("gaps", ["--time-gaps"]), ("plain", [])):
        names = f"{first}bag,item_knn,popularity" if first else "bag,item_knn,none"
        own = ["--conditioning", names, *more, "--output", str(folders[name])]
        found = CliRunner().invoke(app, ["compare", str(path), *order, *sizes, *rates, *own])
        assert found.exit_code == 0, found.output
    runs = {name: folder / "none" / "seed-0" for name, folder in folders.items()}
    assert [Recipe.load(each).set_task.time_gaps for each in runs.values()] == [True, False]
    assert json.loads((runs["gaps"] / "config.json").read_text(encoding="utf-8"))["time_gaps"] == "seconds"
    for name in ("bag", "item_knn"):
        assert not Recipe.load(folders["gaps"] / name / "seed-0").set_task.time_gaps
        own, other = (load_run(folder / name / "seed-0", name=name).scores for folder in folders.values())
        np.testing.assert_array_equal(own.log_probability, other.log_probability)
    told = [(folder / "report.md").read_text(encoding="utf-8") for folder in folders.values()]
    without = "`bag`, `item_knn`, `popularity` do not read" if first else "`bag`, `item_knn` do not read"
    assert f"{without} how much time passed between items. The other rows do." in told[0]
    assert "how much time passed" not in told[1]


def test_gaps_that_no_row_reads_are_refused(path: Path, tmp_path: Path) -> None:
    order = ["--items", "items", "--order", "at", "--hide", "next", "--split-column", "part", "--time-gaps"]
    words = ["compare", str(path), *order, "--conditioning", "bag,popularity", "--output", str(tmp_path / "out")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert "--time-gaps" in found.output and "no row of this comparison reads it" in found.output


def test_permuting_the_items_leaves_the_gaps_in_their_places(learned: Path) -> None:
    told = {each.feature: each.rise_nats.interval.value for each in permute_features(learned).importances.rows}
    assert told["order of the items"] > 0.5 > abs(told["colour"])


def test_what_does_not_go_together_is_refused(path: Path, learned: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"time_gaps=True is how much time passed.*no column has their times"):
        SetCompletion(items="items", time_gaps=True)
    with pytest.raises(ConfigurationError, match="'items' has the items, and no times"):
        SetCompletion(items="items", order="items", time_gaps=True)
    ready = prepare(recipe_for(path))
    for name in ("popularity", "bag_context", "item_knn"):
        with pytest.raises(ConfigurationError, match=f"time_gaps=True .*'{name}' is a baseline"):
            run(recipe_for(path, conditioning=name, model={}, training={}), tmp_path / "run", prepared=ready)
    few = {"num_train_epochs": 1}
    plain = tmp_path / "plain"
    run(recipe_for(path, task={"time_gaps": False}, training=few), plain)
    own = {"conditioning": "global_state_update", "model": {}, "training": few}
    for start, has, told in (
        (plain, True, "was trained without time gaps, and this run would be with gaps of dates"),
        (learned, False, "was trained with gaps of dates or timestamps, and this run would be without"),
    ):
        task = {"time_gaps": has, "init_from": str(start)}
        changes = {**own, "conditioning": "none"} if start == plain else own
        with pytest.raises(ConfigurationError, match=told):
            run(recipe_for(path, task=task, **changes), tmp_path / "run")
    with pytest.raises(ConfigurationError, match="init_from"):
        task = SetCompletion(items="items", init_from=str(learned), policy=POLICY)
        run(recipe_for(path, **own).changed(task=task), tmp_path / "run")
    found = run(recipe_for(path, task={"init_from": str(learned)}, **own), tmp_path / "next")
    assert loss(found) < 0.3


def test_a_recipe_without_the_field_is_as_it_was(path: Path) -> None:
    recipe = recipe_for(path, task={"time_gaps": False}).to_dict()
    del recipe["task"]["time_gaps"]
    assert not Recipe.from_dict(recipe).set_task.time_gaps
    assert prepare(Recipe.from_dict(recipe)).datasets["train"].token_type_ids is None
