"""Each command does its job on a tiny world, and its output can be read by people and by programs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from contextual_bert import CompletionPipeline, ContextSchema, Explanation, OnnxCompletionPipeline
from contextual_bert.data import Split
from contextual_bert.evaluation import FeatureImportances, Report, Study


def test_inspect_writes_a_schema_that_train_takes(command: Any, table: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    columns = ("--items", "items", "--customer", "customer_id")
    options = ("--override", "shoe_size=categorical", "--override", "newsletter=ignore", "--min-count", 2)
    result = command("inspect", table, *columns, *options, "--output", schema)
    assert result.exit_code == 0, result.output
    found = ContextSchema.load(schema)
    assert found.feature("shoe_size").kind == "categorical"
    assert "newsletter" not in found.names
    assert "customer_id" not in found.names
    assert "ignored: by an override" in result.stdout
    assert "300 sets of 300 rows kept" in result.stdout
    assert "items seen fewer than 2 times" in result.stdout or "60 distinct items" in result.stdout
    assert f"contextual-bert train {table} --items items --customer customer_id --min-count 2" in result.stderr
    trained = command("train", table, *command.small, "--schema", schema, "--output", tmp_path / "run")
    assert trained.exit_code == 0, trained.output
    assert ContextSchema.load(tmp_path / "run" / "schema.json") == found


def test_inspect_learns_nothing_from_the_test_part(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    result = command(
        "inspect", table, "--items", "items", "--customer", "customer_id", "--output", tmp_path / "schema.json"
    )
    assert result.exit_code == 0, result.output
    assert ContextSchema.load(tmp_path / "schema.json") == ContextSchema.load(finished / "schema.json")


def test_train_writes_everything(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "schema.json", "split.json", "recipe.json"}
    assert wanted | {"metrics.json", "README.md", "test_scores.safetensors"} <= names
    assert not [name for name in names if name.startswith(".")]


def test_train_takes_any_argument_and_any_field(command: Any, table: Path, tmp_path: Path) -> None:
    extra = ("--set", "weight_decay=0.5", "--set", "lr_scheduler_type=linear", "--model", "hidden_dropout_prob=0.25")
    result = command(
        "train",
        table,
        *command.small,
        *extra,
        "--conditioning",
        "none",
        "--masks-per-set",
        2,
        "--output",
        tmp_path / "run",
    )
    assert result.exit_code == 0, result.output
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text("utf-8"))["resolved"]
    assert recipe["training"]["weight_decay"] == 0.5
    assert recipe["training"]["masks_per_set"] == 2
    assert recipe["model"]["hidden_dropout_prob"] == 0.25


def test_train_starts_from_a_run_and_appends_items(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    rows = pq.read_table(table)
    items = pa.array([[*row, "new-item"] for row in rows["items"].to_pylist()])
    pq.write_table(rows.set_column(rows.column_names.index("items"), "items", items), tmp_path / "more.parquet")
    options = ("--items", "items", "--customer", "customer_id", "--epochs", 1, "--device", "cpu")
    result = command(
        "train", tmp_path / "more.parquet", *options, "--init-from", finished, "--output", tmp_path / "run"
    )
    assert result.exit_code == 0, result.output
    before, after = (CompletionPipeline.from_pretrained(each).processor.items for each in (finished, tmp_path / "run"))
    assert after.values == (*before.values, "new-item")


def test_a_run_that_another_starts_from_is_not_removed_for_it(
    command: Any, table: Path, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    before = {path: path.stat().st_size for path in (tmp_path / "run").rglob("*")}
    options = ("--items", "items", "--customer", "customer_id", "--epochs", 1, "--device", "cpu", "--overwrite")
    result = command("train", table, *options, "--init-from", tmp_path / "run", "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert "which the run starts from" in result.output
    assert {path: path.stat().st_size for path in (tmp_path / "run").rglob("*")} == before


def test_train_without_a_validation_part_keeps_the_last_weights(command: Any, table: Path, tmp_path: Path) -> None:
    result = command("train", table, *command.small, "--validation", 0, "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert set(json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))) >= {"test", "cost"}


def test_overwrite_replaces_a_run_and_nothing_else(command: Any, table: Path, finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "notes.txt").write_text("mine", encoding="utf-8")
    refused = command("train", table, *command.small, "--output", run)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    replaced = command("train", table, *command.small, "--conditioning", "none", "--overwrite", "--output", run)
    assert replaced.exit_code == 0, replaced.output
    assert json.loads((run / "recipe.json").read_text("utf-8"))["recipe"]["conditioning"] == "none"
    assert (run / "notes.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("options", "by"),
    [(("--by", "customer_id"), "customer"), (("--by-time", "account_age_days"), "time"), (("--by-row",), "row")],
)
def test_split_writes_a_file_that_fits_the_table(
    command: Any, table: Path, tmp_path: Path, options: tuple[str, ...], by: str
) -> None:
    result = command("split", table, *options, "--items", "items", "--output", tmp_path / "split.json")
    assert result.exit_code == 0, result.output
    split = Split.load(tmp_path / "split.json")
    split.check(pq.read_table(table))
    assert split.by == by
    assert f"hash {split.digest[:16]}" in result.stdout
    assert "equal sets in two parts" in result.stdout


def test_a_split_file_is_what_train_uses(command: Any, table: Path, tmp_path: Path) -> None:
    made = command("split", table, "--by", "customer_id", "--test", 0.3, "--output", tmp_path / "split.json")
    assert made.exit_code == 0
    result = command("train", table, *command.small, "--split", tmp_path / "split.json", "--output", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert Split.load(tmp_path / "run" / "split.json").digest == Split.load(tmp_path / "split.json").digest


def test_a_run_that_made_its_own_split_is_evaluated_on_another(command: Any, table: Path, tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other.json"
    made = command("split", table, "--by", "customer_id", "--seed", 5, "--test", 0.3, "--output", other)
    assert made.exit_code == 0
    trained = command("train", table, *command.small, "--test", 0.2, "--split-seed", 1, "--output", run)
    assert trained.exit_code == 0, trained.output
    result = command("evaluate", run, "--split", other, "--format", "json", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert f"the test part of {other}" in " ".join(result.stderr.split())


def test_evaluate_repeats_the_numbers_of_the_run(command: Any, finished: Path) -> None:
    result = command("evaluate", finished, "--format", "json", "--device", "cpu")
    assert result.exit_code == 0, result.output
    report = Report.from_json(result.stdout)
    before = json.loads((finished / "metrics.json").read_text("utf-8"))["test"]["metrics"]
    assert report.metrics["cross_entropy_nats"].value == pytest.approx(before["cross_entropy_nats"]["value"], abs=1e-9)
    assert report.num_rows == json.loads((finished / "metrics.json").read_text("utf-8"))["test"]["num_rows"]
    assert "the test part of the split that the run was trained with" in result.stderr


def test_evaluate_on_another_table_counts_unknown_items(
    command: Any, world: Path, finished: Path, tmp_path: Path
) -> None:
    rows = pq.read_table(world / "outfits.parquet").slice(0, 20)
    items = pa.array([[*row, "never-seen"] for row in rows["items"].to_pylist()])
    pq.write_table(rows.set_column(rows.column_names.index("items"), "items", items), tmp_path / "new.parquet")
    result = command(
        "evaluate", finished, "--data", tmp_path / "new.parquet", "--output", tmp_path / "out", "--segments", 2
    )
    assert result.exit_code == 0, result.output
    assert "20 of " in result.stderr
    assert "never-seen" in result.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.md", "report.json", "recall.png", "reliability.png"} <= names
    report = Report.from_json((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert report.num_rows == sum(len(row) for row in items.to_pylist()) - 20


def test_importance_takes_each_feature_from_the_run(command: Any, finished: Path, tmp_path: Path) -> None:
    options = ("--permutations", 2, "--device", "cpu", "--output", tmp_path / "out")
    result = command("importance", finished, *options)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "importance.json",
        "importance.md",
        "importance.png",
    }
    found = FeatureImportances.from_json((tmp_path / "out" / "importance.json").read_text("utf-8"))
    assert found.num_permutations == 2
    features = [row.feature for row in found.rows]
    assert features[0] == "all features"
    assert sorted(features[1:]) == sorted(ContextSchema.load(finished / "schema.json").names)
    assert all(name in result.stdout for name in features)
    assert "2 times, the mean is shown" in " ".join(result.stdout.split())
    before = json.loads((finished / "metrics.json").read_text("utf-8"))["test"]["metrics"]
    assert found.unpermuted["cross_entropy_nats"].value == pytest.approx(before["cross_entropy_nats"]["value"])
    assert "the test part of the split that the run was trained with" in result.stderr


def test_importance_on_another_part_for_people_and_programs(command: Any, finished: Path) -> None:
    part = ("importance", finished, "--part", "validation", "--device", "cpu")
    found = FeatureImportances.from_json(command(*part, "--format", "json").stdout)
    before = json.loads((finished / "metrics.json").read_text("utf-8"))["validation"]
    assert found.num_rows == before["num_rows"]
    assert command(*part, "--format", "markdown").stdout.strip() == found.to_markdown().strip()


def test_complete_answers_one_query_in_json(command: Any, finished: Path) -> None:
    query = ("--set", "coat-0,hat-0,[MASK]", "--context", '{"age": 34, "country": "Atlantis"}', "--format", "json")
    result = command("complete", finished, *query, "--top", 4, "--deny", "coat-1")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    proposed = [each["item"] for each in answer["slots"][0]["candidates"]]
    assert len(proposed) == 4
    assert not {"coat-0", "hat-0", "coat-1", "[MASK]"} & set(proposed)
    assert answer["unknown_context"] == {"country": ["Atlantis"]}


def test_complete_says_in_words_what_it_did_not_know(command: Any, finished: Path) -> None:
    result = command("complete", finished, "--set", "spaceship", "--context", '{"country": "Atlantis"}', "--top", 2)
    assert result.exit_code == 0, result.output
    assert "spaceship, [MASK]" in " ".join(result.stdout.split())
    assert "unknown items" in result.stderr
    assert "unknown values of country, treated as unknown: Atlantis" in result.stderr


def test_complete_allows_and_repeats(command: Any, finished: Path) -> None:
    allowed = command(
        "complete", finished, "--set", "coat-0", "--allow", "coat-0,hat-0", "--repeats", "--format", "json"
    )
    answer = json.loads(allowed.stdout)
    # No outfit of the world holds an article twice, so what that would be worth was never learned.
    assert {each["item"] for each in answer["slots"][0]["candidates"]} == {"hat-0"}
    assert any("repeats changes nothing" in note for note in answer["notes"])
    assert sum(each["probability"] for each in answer["slots"][0]["candidates"]) == pytest.approx(1.0, abs=1e-5)
    nothing = command("complete", finished, "--set", "coat-0", "--allow", ",")
    assert nothing.exit_code != 0
    assert "--allow names no item" in nothing.stderr


@pytest.fixture
def shop(world: Path, tmp_path: Path) -> Path:
    """The articles with prices: the number in the name, in tens; and one that no outfit holds."""
    articles = pq.read_table(world / "articles.parquet")
    names = articles.column("item").to_pylist()
    prices = pa.array([10 * int(name.split("-")[1]) for name in names])
    articles = articles.drop_columns("price").append_column("price", prices)
    articles = articles.append_column("in_stock", pa.array([not name.endswith("-1") for name in names]))
    path = tmp_path / "shop.parquet"
    pq.write_table(pa.concat_tables([articles, articles.slice(0, 1).set_column(0, "item", pa.array(["cape-0"]))]), path)
    return path


def test_complete_under_constraints(command: Any, finished: Path, shop: Path) -> None:
    query = ("--set", "coat-0,[MASK],[MASK]", "--catalogue", shop, "--where", "category=hat|bag", "--max-price", 30)
    query += ("--where", "0:category!=hat", "--in-stock", "--owned", "bag-2", "--one-per", "category", "--top", 9)
    result = command("complete", finished, *query, "--budget", 20, "--format", "json")
    assert result.exit_code == 0, result.output
    assert "does not know 1 items of the catalogue" in result.stderr
    answer = json.loads(result.stdout)
    first, second = ({each["item"] for each in slot["candidates"]} for slot in answer["slots"])
    assert (first, second) == ({"bag-0"}, {"bag-0", "bag-2", "hat-0", "hat-2"} - {"bag-2"})
    assert list(answer["slots"][0]["removed"]) == ["in_stock", "owned", "where", "max_price", "budget"]


def test_complete_says_what_the_constraints_excluded(command: Any, finished: Path, shop: Path) -> None:
    query = ("--set", "coat-0", "--catalogue", shop, "--where", "category=hat")
    result = command("complete", finished, *query)
    assert "permitted items" in " ".join(result.stdout.split())
    assert "Probabilities are among the permitted items; the model gives" in result.stderr
    nothing = command("complete", finished, *query, "--max-price", 0, "--deny", "hat-0")
    assert (nothing.exit_code, "No item is left after max_price" in nothing.stderr) == (0, True)


def test_complete_proposes_whole_sets(command: Any, finished: Path, shop: Path, tmp_path: Path) -> None:
    joint = ("--catalogue", shop, "--joint", "--top", 4, "--diversity", 2)
    asked = (
        "--set",
        "coat-0,[MASK],[MASK]",
        "--where",
        "category=hat|bag|belt",
        "--one-per",
        "category",
        "--budget",
        30,
    )
    result = command("complete", finished, *asked, *joint, "--format", "json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["method"] == "exact"
    for each in answer["completions"]:
        first, second = (name.split("-") for name in each["filled"])
        assert first[0] != second[0]
        assert each["price"] == 10 * (int(first[1]) + int(second[1])) <= 30
    table = command("complete", finished, *asked, *joint)
    assert "pseudo-log-likelihood" in " ".join(table.stdout.split())
    assert "probabilities are among all permitted sets" in table.stderr
    path = tmp_path / "queries.jsonl"
    query = {"items": ["coat-0", "hat-0", "bag-0"], "locked": ["hat-0"], "budget": 30, "context": {"age": 20}}
    path.write_text(json.dumps(query), encoding="utf-8")
    search = ("--method", "beam", "--max-forward-passes", 20)
    lines = command("complete", finished, "--input", path, *joint, *search).stdout.splitlines()
    settings = {"num_completions": 4, "diversity": 2, "method": "beam", "max_forward_passes": 20}
    pipeline = CompletionPipeline.from_pretrained(finished, catalogue=shop)
    assert [json.loads(line) for line in lines] == pipeline.complete_jointly([query], **settings)
    refused = command("complete", finished, *asked, "--max-forward-passes", 9)
    assert (refused.exit_code, "--max-forward-passes is for --joint" in refused.stderr) == (2, True)


def test_complete_is_as_personal_as_it_is_asked_to_be(command: Any, finished: Path, tmp_path: Path) -> None:
    query = ("--set", "coat-0", "--context", '{"gender": "female", "age": 30}', "--top", 60, "--format", "json")
    plain, same, none, anonymous = (
        json.loads(command("complete", finished, *query[:2], *options, *query[4:]).stdout)
        for options in (query[2:4], (*query[2:4], "--guidance", 1), (*query[2:4], "--guidance", 0), ())
    )
    assert same == plain
    (not_given,) = plain["notes"]
    assert not_given.startswith("Not given: ")
    assert any("trained without context_dropout" in note for note in none["notes"])
    shares = [
        {each["item"]: each["probability"] for each in one["slots"][0]["candidates"]} for one in (none, anonymous)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=1e-6)
    path = tmp_path / "queries.jsonl"
    lines = [{"items": ["coat-0"], "context": {"age": 30}}, {"items": ["coat-0"], "guidance": 1}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    result = command("complete", finished, "--input", path, "--guidance", 2)
    assert [len(json.loads(line)["notes"]) for line in result.stdout.splitlines()] == [2, 1]


def test_complete_reads_a_table_of_text_as_the_run_was_trained(command: Any, table: Path, tmp_path: Path) -> None:
    rows = pq.read_table(table)
    texts = [" ; ".join(row) for row in rows["items"].to_pylist()]
    rows = pa.table({"customer_id": rows["customer_id"], "items": texts, "age": rows["age"]})
    write_csv(rows, tmp_path / "outfits.csv")
    run, source = tmp_path / "run", tmp_path / "outfits.csv"
    rates = ("--set", "context_dropout=0.1", "--set", "field_dropout=0.2")  # for explain
    assert command("train", source, *command.small, *rates, "--separator", ";", "--output", run).exit_code == 0
    result = command("complete", run, "--data", source, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    lists = rows.set_column(1, "items", pc.split_pattern(rows["items"], " ; "))
    pq.write_table(lists, tmp_path / "outfits.parquet")
    assert (
        command("complete", run, "--data", tmp_path / "outfits.parquet", "--output", tmp_path / "lists").exit_code == 0
    )
    found = [pq.read_table(tmp_path / name / "part-00000.parquet") for name in ("out", "lists")]
    assert found[0] == found[1]
    assert "taken for constraints" not in result.stderr
    context = ("--context", '{"age": 34}', "--format", "json")
    items = [item for row in lists["items"].to_pylist() for item in row][:2]
    asked = [
        json.loads(command(verb, run, "--set", f"{items[0]}; {items[1]};[MASK]", *context, *more).stdout)
        for verb, more in (("complete", ()), ("complete", ("--separator", ";")), ("explain", ()))
    ]
    assert asked[0]["items"] == [*items, "[MASK]"]
    assert asked[0] == asked[1]
    assert asked[2]["item"] == asked[0]["slots"][0]["candidates"][0]["item"]
    (tmp_path / "queries.jsonl").write_text(json.dumps({"items": ";".join(items), "deny": ";".join(items)}))
    (line,) = command("complete", run, "--input", tmp_path / "queries.jsonl").stdout.splitlines()
    assert json.loads(line)["items"] == [*items, "[MASK]"]
    slip = command("complete", run, "--set", f"{items[0]},{items[1]},[MASK]")
    assert slip.exit_code == 2, slip.output
    assert "--set: " in slip.stderr
    assert "--separator ',' says what stands between them" in " ".join(slip.stderr.split())
    refused = command("complete", run, "--data", source, "--output", tmp_path / "no", "--separator", "|")
    assert refused.exit_code == 2, refused.output
    assert "have ';'" in refused.output


def test_complete_of_a_table_is_as_personal_as_it_is_asked_to_be(
    command: Any, finished: Path, table: Path, tmp_path: Path
) -> None:
    for guidance in (0, 2):
        output = tmp_path / str(guidance)
        result = command("complete", finished, "--data", table, "--output", output, "--guidance", guidance)
        assert result.exit_code == 0, result.output
        found = pq.read_table(output / "part-00000.parquet").to_pylist()[0]
        pipeline, row = CompletionPipeline.from_pretrained(finished), pq.read_table(table).to_pylist()[0]
        context = {name: row[name] for name in pipeline.processor.schema.names}
        query = {"items": row["items"], "context": context, "guidance": guidance}
        expected = pipeline(query, top_k=10)["slots"][0]["candidates"]
        assert found["candidates"] == [each["item"] for each in expected]
        assert found["probabilities"] == pytest.approx([each["probability"] for each in expected], abs=1e-6)


@pytest.fixture(scope="module")
def told_less(command: Any, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "told-less"
    rates = ("--set", "context_dropout=0.1", "--set", "field_dropout=0.2")
    assert command("train", table, *command.small, *rates, "--output", output).exit_code == 0
    return output


def test_explain_prints_what_complete_answers(command: Any, told_less: Path) -> None:
    query = ("--set", "coat-0,[MASK]", "--context", '{"gender": "female", "age": 30}')
    result = command("explain", told_less, *query, "--format", "json")
    assert result.exit_code == 0, result.output
    found = Explanation.from_json(result.stdout)
    answer = json.loads(command("complete", told_less, *query, "--format", "json").stdout)
    best = answer["slots"][0]["candidates"][0]
    assert found.item == found.best_item == best["item"]
    assert found.probability == pytest.approx(best["probability"], abs=1e-5)
    assert {each.field for each in found.fields} == {"gender", "age"}
    other = answer["slots"][0]["candidates"][1]["item"]
    table = command("explain", told_less, *query, "--item", other)
    assert f"Why {other} (the best is {best['item']}) as item 2 of coat-0, [MASK]" in table.stdout
    assert table.stdout.count("│") == 3 and "together" in table.stdout
    assert "next:" in table.stderr
    markdown = command("explain", told_less, *query, "--slot", 1, "--format", "markdown")
    assert markdown.stdout.startswith(f"## Why {best['item']} as item 2 of coat-0, [MASK]")


def test_explain_answers_under_the_constraints_of_complete(
    command: Any, told_less: Path, world: Path, tmp_path: Path
) -> None:
    query = ("--set", "coat-0,[MASK]", "--context", '{"gender": "female", "age": 30}', "--format", "json")
    best = [
        each["item"] for each in json.loads(command("complete", told_less, *query).stdout)["slots"][0]["candidates"]
    ]
    articles = pq.read_table(world / "articles.parquet")
    is_there = pa.array([name not in best[:3] for name in articles["item"].to_pylist()])
    pq.write_table(articles.append_column("in_stock", is_there), tmp_path / "shop.parquet")
    shop = ("--catalogue", tmp_path / "shop.parquet")
    for more in (
        ("--deny", f"{best[0]},{best[1]}"),
        ("--owned", best[0]),
        ("--allow", f"{best[2]},{best[4]}"),
        ("--repeats", "--guidance", "2"),
        (*shop, "--in-stock"),
        (*shop, "--where", "category=hat|shoes", "--max-price", "80"),
        (*shop, "--budget", "60"),
        (*shop, "--one-per", "category"),
    ):
        answer = json.loads(command("complete", told_less, *query, *more).stdout)
        result = command("explain", told_less, *query, *more)
        assert result.exit_code == 0, result.output
        found, [slot] = Explanation.from_json(result.stdout), answer["slots"]
        assert found.item == slot["candidates"][0]["item"], more
        assert found.probability == pytest.approx(slot["candidates"][0]["probability"], abs=1e-5), more
    forbidden = command("explain", told_less, *query, "--deny", best[0], "--item", best[0])
    assert forbidden.exit_code == 2
    assert "not permitted by the query" in " ".join(forbidden.stderr.split())
    assert "or give --repeats" in " ".join(forbidden.stderr.split())
    for more, told in (
        (("--in-stock",), "--in-stock: it needs a catalogue"),
        (("--allow", ","), "--allow names no item"),
        (
            (*shop, "--budget-includes-visible"),
            "--budget-includes-visible: it belongs to --budget, which is not there. Give --budget, or leave it out",
        ),
        (("--max-price", "dear"), "--max-price"),
        ((*shop, "--where", "size=3"), "--where size=3"),
    ):
        refused = command("explain", told_less, *query, *more)
        assert refused.exit_code == 2, refused.output
        assert told in " ".join(refused.stderr.split()).replace("'", "")


def test_explain_knows_new_items_by_their_catalogue(command: Any, world: Path, tmp_path: Path) -> None:
    articles = pq.read_table(world / "articles.parquet")
    spring = articles.slice(0, 1).set_column(0, "item", pa.array(["coat-spring"]))
    write_csv(pa.concat_tables([articles, spring]), tmp_path / "shop.csv")
    rates = ("--set", "context_dropout=0.1", "--set", "field_dropout=0.2", "--catalogue", world / "articles.parquet")
    run = tmp_path / "run"
    assert command("train", world / "outfits.parquet", *command.small, *rates, "--output", run).exit_code == 0
    query = ("--set", "coat-0,[MASK]", "--context", '{"age": 30}', "--item", "coat-spring")
    unknown = command("explain", run, *query)
    assert unknown.exit_code == 2 and "--item coat-spring is no item that the model knows" in unknown.stderr
    result = command("explain", run, *query, "--catalogue", tmp_path / "shop.csv", "--format", "json")
    assert result.exit_code == 0, result.output
    found = Explanation.from_json(result.stdout)
    assert found.item == "coat-spring" and found.item_reasons is not None and found.item_reasons.is_new
    assert "New to the run, and known by their features alone: 1 item" in " ".join(result.stderr.split())
    refused = command("explain", run, *query, "--decimal", ",")
    assert refused.exit_code == 2
    assert "--decimal says how the file of --catalogue is written" in " ".join(refused.stderr.split())


def test_explain_refuses_what_it_would_have_to_invent(command: Any, finished: Path, told_less: Path) -> None:
    query = ("--set", "coat-0", "--context", '{"age": 30}')
    result = command("explain", finished, *query)
    assert result.exit_code == 2
    assert "trained without field_dropout" in result.stderr and "--set field_dropout=0.1" in result.stderr
    for options, message in ((("--item", "coat"), "Did you mean 'coat-"), (("--slot", 2), "--slot 2 asks for [MASK]")):
        result = command("explain", told_less, *query, *options)
        assert result.exit_code == 2
        assert message in result.stderr


@pytest.mark.slow
def test_export_writes_a_model_that_completes(command: Any, finished: Path, tmp_path: Path) -> None:
    result = command("export", finished, "--output", tmp_path / "onnx", "--top", 3)
    assert result.exit_code == 0, result.output
    assert "nats from the model, 100.0% of its 3 best items found" in result.stderr
    query = {"items": ["coat-1", "[MASK]"], "context": {"age": 34}}
    both = (OnnxCompletionPipeline(tmp_path / "onnx"), CompletionPipeline.from_pretrained(finished))
    exported, eager = ([each["item"] for each in made(query, top_k=3)["slots"][0]["candidates"]] for made in both)  # pyright: ignore
    assert exported == eager
    line = ("--set", "coat-1,[MASK]", "--context", '{"age": 34}', "--top", 3, "--format", "json")
    answers = [json.loads(command("complete", folder, *line).stdout) for folder in (tmp_path / "onnx", finished)]
    found = [[each["item"] for each in answer["slots"][0]["candidates"]] for answer in answers]
    assert found == [eager, eager]


def test_export_refuses_what_it_does_not_know(command: Any, finished: Path, tmp_path: Path) -> None:
    result = command("export", finished, "--format", "torchscript", "--output", tmp_path / "out")
    assert result.exit_code != 0
    assert "onnx" in result.output
    assert not (tmp_path / "out").exists()


def test_complete_answers_a_file_line_by_line(command: Any, finished: Path, tmp_path: Path) -> None:
    queries = [{"items": ["coat-0", "[MASK]"], "context": {"age": age}, "deny": ["hat-0"]} for age in (20, 60)]
    path = tmp_path / "queries.jsonl"
    path.write_text("\n".join(json.dumps(query) for query in queries) + "\n\n", encoding="utf-8")
    result = command("complete", finished, "--input", path, "--top", 3)
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["items"] for answer in answers] == [["coat-0", "[MASK]"]] * 2
    expected = CompletionPipeline.from_pretrained(finished)(queries, top_k=3)
    assert answers == expected


@pytest.mark.slow
def test_compare_writes_a_table_and_goes_on_where_it_stopped(command: Any, table: Path, tmp_path: Path) -> None:
    study = (
        "compare",
        table,
        *command.small,
        "--conditioning",
        "none,concat",
        "--seeds",
        2,
        "--output",
        tmp_path / "cmp",
    )
    first = command(*study, "--baselines", "bag")
    assert first.exit_code == 0, first.output
    found = Study.from_json((tmp_path / "cmp" / "study.json").read_text("utf-8"))
    assert [(row.name, row.seeds, row.role) for row in found.comparison.rows] == [
        ("none", (0, 1), "method"),
        ("concat", (0, 1), "method"),
        ("bag", (0, 1), "baseline"),
    ]
    written = {path.name for path in (tmp_path / "cmp").iterdir()}
    assert {"report.html", "report.md", "recall.png", "learning_curves.png"} <= written
    assert "By cross-entropy: `" in first.stderr
    assert "`bag` (baseline)" in first.stderr
    ranking = found.ranking()
    assert sorted(ranking) == ["bag", "concat", "none"]
    usable = next(name for name in ranking if name != "bag")
    assert f"contextual-bert evaluate {tmp_path / 'cmp' / usable / 'seed-0'} --part test" in first.stderr
    assert ("bag stands first in the findings" in first.stderr) == (ranking[0] == "bag")
    assert "Beside the paper" not in (tmp_path / "cmp" / "report.md").read_text("utf-8")
    again = command(*study)
    assert again.exit_code == 0
    assert again.stderr.count("complete, not run again") == 4
    other = command(*study, "--learning-rate", 0.5)
    assert other.exit_code == 2
    assert "learning_rate" in other.stderr
    assert "--overwrite" in other.stderr


def test_parameters_equal_the_papers(command: Any) -> None:
    result = command("parameters", "--format", "json")
    counts = {row["conditioning"]: row["parameters"] for row in json.loads(result.stdout) if row["paper"]}
    assert counts == {
        "none": 546432,
        "concat": 673664,
        "new_position": 640768,
        "global_state": 723328,
        "global_state_update": 921856,
    }
    assert "921,856" in command("parameters").stdout


def test_a_world_and_its_oracle(command: Any, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    made = command(
        "world", "generate", "--items", 60, "--outfits", 50, "--customers", 20, "--additive", "--output", folder
    )
    assert made.exit_code == 0, made.output
    assert json.loads((folder / "world.json").read_text("utf-8"))["has_interactions"] is False
    assert len(pq.read_table(folder / "outfits.parquet")["customer_id"].unique()) == 20
    best = command("world", "oracle", folder, "--limit", 20, "--format", "json", "--output", tmp_path / "oracle.json")
    assert best.exit_code == 0, best.output
    report = Report.from_json(best.stdout)
    assert report.num_sets == 20
    assert (tmp_path / "oracle.json").read_text("utf-8").strip() == best.stdout.strip()
    again = command("world", "generate", "--items", 60, "--outfits", 50, "--output", folder)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
