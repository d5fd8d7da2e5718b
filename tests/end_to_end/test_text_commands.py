"""The commands on tables of texts and miniature text models: for people, for programs and as files."""

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import (
    ContextSchema,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
    TextPipeline,
    TextSampling,
    sample_texts,
)
from contextual_bert.context import Categorical, History
from contextual_bert.data import Split, read_table, write_table
from contextual_bert.evaluation import FeatureImportances
from contextual_bert.inference import FillMaskPipeline
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROWS = {
    "text": ["word1 word2", "word3", "word4 word5 word6 word7 word8 word9 word1", "word1"],
    "other": ["word2", "word9 word9", "word3", "word1"],
    "sex": ["f", "m", None, "x"],
    "price": [1.5, None, 2.0, 3.0],
}
LONG = " ".join(["word1"] * 9)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.parquet"
    write_table(pa.table(ROWS), path)
    return path


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def test_one_text_in_json_is_what_the_pipeline_says(command: Any, text_runs: Path) -> None:
    query = ("--text", "word1 word2", "--pair", "word3", "--context", '{"sex": "x"}')
    found = json.loads(ok(command("predict", text_runs / "labels", *query, "--format", "json")).stdout)
    pipeline = TextPipeline.from_pretrained(text_runs / "labels")
    assert found == pipeline({"text": "word1 word2", "pair": "word3", "context": {"sex": "x"}})
    assert found["unknown_context"] == {"sex": ["x"]}


def test_one_text_for_people(command: Any, text_runs: Path) -> None:
    result = ok(command("predict", text_runs / "labels", "--text", LONG, "--context", '{"sex": "x"}'))
    answer: Any = TextPipeline.from_pretrained(text_runs / "labels")({"text": LONG, "context": {"sex": "x"}})
    ranked = sorted(answer["probabilities"], key=lambda name: -answer["probabilities"][name])
    assert ranked[0] == answer["label"]
    assert f"{LONG!r}: {ranked[0]}" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines() if "%" in line]
    assert [line[0] for line in lines] == ranked
    assert [line[-1] for line in lines] == [f"{answer['probabilities'][name]:.2%}" for name in ranked]
    assert lines[0][1].count("█") == round(20 * answer["probabilities"][ranked[0]])
    assert "unknown values of sex, treated as unknown: x" in result.stderr
    assert "its end was not read" in result.stderr
    middle = command("predict", text_runs / "labels", "--text", LONG, "--truncation", "head_tail")
    assert "its middle was not read" in ok(middle).stderr


def test_words_and_numbers_for_people(command: Any, text_runs: Path) -> None:
    result = ok(command("predict", text_runs / "tags", "--text", LONG))
    answer: Any = TextPipeline.from_pretrained(text_runs / "tags")({"text": LONG})
    lines = [line.split() for line in result.stdout.splitlines() if line.strip().startswith("word1  ")]
    pairs = zip(answer["label"], answer["probabilities"], strict=True)
    read = [["word1", tag, f"{share:.2%}"] for tag, share in pairs if tag]
    assert lines == [*read, *[["word1", "not", "read"]] * 3]
    number: Any = TextPipeline.from_pretrained(text_runs / "number")({"text": "word1"})
    assert f"{number['label']:.6g}" in ok(command("predict", text_runs / "number", "--text", "word1")).stdout


def test_a_context_that_nothing_reads_is_said(command: Any, text_runs: Path) -> None:
    result = ok(command("predict", text_runs / "none", "--text", "word1", "--context", '{"sex": "f"}'))
    assert "context was not used" in result.stderr


@pytest.mark.parametrize("source", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("target", ["parquet", "csv", "jsonl"])
def test_a_table_gets_its_labels(command: Any, text_runs: Path, source: str, target: str, tmp_path: Path) -> None:
    write_table(pa.table(ROWS), tmp_path / f"reviews.{source}")
    output = tmp_path / "out" / f"predictions.{target}"
    result = ok(command("predict", text_runs / "labels", "--data", tmp_path / f"reviews.{source}", "--output", output))
    assert result.stdout == ""
    for sentence in ("4 texts, 1 of them cut to 8 tokens", "'sex': 1 row has values never seen", f"wrote {output}"):
        assert sentence in result.stderr
    found = read_table(output)
    assert found.column_names == [*ROWS, "predicted_label", "probability", "probability_bad", "probability_good"]
    assert found.select(list(ROWS)).to_pydict() == ROWS
    queries = [
        {"text": text, "context": {"sex": sex} if sex else {}}
        for text, sex in zip(ROWS["text"], ROWS["sex"], strict=True)
    ]
    expected: Any = TextPipeline.from_pretrained(text_runs / "labels")(queries)
    for row, answer in zip(found.to_pylist(), expected, strict=True):
        assert row["predicted_label"] == answer["label"]
        shares = {name: row[f"probability_{name}"] for name in ("bad", "good")}
        assert shares == pytest.approx(answer["probabilities"], abs=1e-5)
        assert row["probability"] == pytest.approx(max(shares.values()), abs=1e-5)
    assert [each.name for each in output.parent.iterdir()] == [output.name]


def test_tables_of_pairs_tags_and_numbers(command: Any, text_runs: Path, reviews: Path, tmp_path: Path) -> None:
    columns = ("--text-column", "other", "--pair-column", "text", "--batch-size", 2)
    ok(command("predict", text_runs / "labels", "--data", reviews, *columns, "--output", tmp_path / "pairs.jsonl"))
    query = {"text": "word2", "pair": "word1 word2", "context": {"sex": "f"}}
    answer: Any = TextPipeline.from_pretrained(text_runs / "labels")(query)
    assert read_table(tmp_path / "pairs.jsonl")["predicted_label"][0].as_py() == answer["label"]
    ok(command("predict", text_runs / "tags", "--data", reviews, "--output", tmp_path / "tags.parquet"))
    tags = read_table(tmp_path / "tags.parquet")
    assert [len(row) for row in tags["predicted_label"].to_pylist()] == [2, 1, 7, 1]
    assert tags["probability"][2].as_py()[6] is None
    ok(command("predict", text_runs / "number", "--data", reviews, "--output", tmp_path / "numbers.csv"))
    assert read_table(tmp_path / "numbers.csv").column_names == [*ROWS, "predicted_label"]


def test_a_large_table_becomes_a_folder(command: Any, text_runs: Path, reviews: Path, tmp_path: Path) -> None:
    run, single, out = text_runs / "labels", tmp_path / "single.parquet", tmp_path / "out"
    ok(command("predict", run, "--data", reviews, "--output", single))
    options = ("--data", reviews, "--output", out, "--shard-size", 3)
    result = ok(command("predict", run, *options))
    for sentence in ("4 texts in 2 files", "4 texts, 1 of them cut to 8 tokens", f"wrote {out}, with the columns"):
        assert sentence in result.stderr
    expected = read_table(single)
    found = pa.concat_tables([read_table(path) for path in sorted(out.glob("part-*"))])
    assert found.column_names == expected.column_names
    assert found["predicted_label"].to_pylist() == expected["predicted_label"].to_pylist()
    assert "4 texts in 2 files, 2 of them kept from before" in ok(command("predict", run, *options)).stderr
    refused = {
        "--overwrite is for one file": (*options, "--overwrite"),
        "was made with another shard_size": (*options[:-1], 2),
        "is one file, and --shard-size and --ray are for": (
            "--data",
            reviews,
            "--output",
            tmp_path / "a.csv",
            *options[-2:],
        ),
        "--shard-size belongs to --data": ("--text", "word1", "--shard-size", 2),
        "--ray is for --data": ("--text", "word1", "--ray"),
        "--workers is for --ray": (*options, "--workers", 2),
        "There is no column 'text'": ("--data", tmp_path / "others.csv", "--output", tmp_path / "none"),
    }
    write_table(pa.table({"other": ["word1"], "sex": ["f"]}), tmp_path / "others.csv")
    for told, words in refused.items():
        result = command("predict", run, *words)
        assert (result.exit_code, told in " ".join(result.stderr.split())) == (2, True), result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_large_table_is_predicted_on_ray(command: Any, text_runs: Path, reviews: Path, tmp_path: Path) -> None:
    options = ("predict", text_runs / "labels", "--data", reviews, "--shard-size", 1, "--device", "cpu")
    cluster = ("--ray", "--ray-address", "local", "--workers", 1)
    result = ok(command(*options, "--output", tmp_path / "there", *cluster))
    assert "computed by 1 worker on 1 machine" in result.stderr
    ok(command(*options, "--output", tmp_path / "here"))
    made = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("there", "here")]
    assert made[0] == made[1]
    assert len(made[0]) == 6


def test_masks_are_filled_for_whoever_asks(command: Any, text_runs: Path, reviews: Path, tmp_path: Path) -> None:
    run, text = text_runs / "masked", "word1 [MASK] word3"
    query = ("--text", text, "--context", '{"sex": "f"}')
    found = json.loads(ok(command("predict", run, *query, "--top", 3, "--format", "json")).stdout)
    pipeline = FillMaskPipeline.from_pretrained(run, top_k=3)
    assert found == pipeline({"text": text, "context": {"sex": "f"}})
    shown = ok(command("predict", run, *query)).stdout
    assert found["filled"] in shown
    assert f"{found['slots'][0]['candidates'][0]['probability']:.2%}" in shown
    table, output = tmp_path / "asked.csv", tmp_path / "filled.jsonl"
    table.write_text("text,sex\nword1 [MASK],f\n[MASK] word2 [MASK],x\n", encoding="utf-8")
    told = ok(command("predict", run, "--data", table, "--output", output, "--top", 2)).stderr
    assert "2 texts, none of them cut" in told
    assert [[len(words) for words in row] for row in read_table(output)["candidates"].to_pylist()] == [[2], [2, 2]]
    refused = {
        "there is no [MASK] in the text": (run, "--text", "word1"),
        "line 3, column 'text': there is no [MASK]": (
            run,
            "--data",
            tmp_path / "none.csv",
            "--output",
            output,
            "--overwrite",
        ),
        "--pair word2 is for runs on pairs": (run, *query, "--pair", "word2"),
        "--truncation is not for texts with [MASK]": (run, *query, "--truncation", "head_tail"),
        "--coverage 0.9 is for runs that give a label": (run, *query, "--coverage", 0.9),
        "--top is for runs on hidden words": (text_runs / "labels", "--text", "word1", "--top", 3),
    }
    (tmp_path / "none.csv").write_text("text,sex\n[MASK],f\nword1,m\n", encoding="utf-8")
    for words, asked in refused.items():
        result = command("predict", *asked)
        assert (result.exit_code, words in " ".join(result.stderr.split())) == (2, True), result.stderr


def test_rare_labels_weigh_more(command: Any, text_runs: Path, own_texts: Path) -> None:
    table = ("train", own_texts / "reviews.csv", "--text", "review", "--label", "verdict", "--device", "cpu")
    checkpoint = ("--checkpoint", own_texts / "bert", "--max-length", 8, "--epochs", 1)
    output = own_texts / "weighted"
    result = ok(command(*table, *checkpoint, "--class-weights", "bad=3", "--output", output))
    assert "weights of the labels in the loss: bad " in " ".join(result.stderr.split())
    bad, good = json.loads((output / "config.json").read_text("utf-8"))["class_weights"]
    assert bad / good == pytest.approx(3)
    assert json.loads((output / "recipe.json").read_text("utf-8"))["recipe"]["task"]["class_weights"] == ["bad=3"]
    refused = {
        "--class-weights bd is no label of the table. Did you mean 'bad'?": "bd=3",
        "a label and a number above 0": "bad=-1",
    }
    for told, given in refused.items():
        result = command(*table, *checkpoint, "--class-weights", given, "--output", own_texts / "refused")
        assert (result.exit_code, told in " ".join(result.stderr.split())) == (2, True), result.stderr
    result = command(*table, "--conditioning", "cnn", "--class-weights", "balanced", "--output", own_texts / "refused")
    assert (result.exit_code, "--class-weights balanced is for BERT and its methods" in result.stderr) == (2, True)
    assert not (own_texts / "refused").exists()


def test_a_faulty_cell_is_named_with_its_file(command: Any, text_runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "faulty.parquet"
    write_table(pa.table({**ROWS, "text": ["word1", None, "word2", "word3"]}), path)
    result = command("predict", text_runs / "labels", "--data", path, "--output", tmp_path / "out.csv")
    assert result.exit_code != 0
    assert f"{path}, row 2, column 'text': the cell is missing" in " ".join(result.stderr.split())


def test_a_table_is_replaced_if_asked(command: Any, text_runs: Path, reviews: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    output.write_text("mine", encoding="utf-8")
    ok(command("predict", text_runs / "labels", "--data", reviews, "--output", output, "--overwrite"))
    assert read_table(output).num_rows == 4


def test_samples_under_several_contexts(command: Any, text_runs: Path) -> None:
    contexts = [{"sex": "f"}, {"sex": "m"}, {"sex": "x"}]
    options = [word for record in contexts for word in ("--context", json.dumps(record))]
    numbers = ("--num-samples", 2, "--sweeps", 3, "--temperature", 0.5, "--seed", 4)
    prompt = "word9 [MASK] [MASK]"
    result = ok(command("sample", text_runs / "masked", *options, "--prompt", prompt, *numbers))
    model = ContextualBertForMaskedLM.from_pretrained(text_runs / "masked")
    processor = ContextualBertProcessor.from_pretrained(text_runs / "masked")
    sampling = TextSampling(num_sweeps=3, temperature=0.5)
    settings: Any = {"prompt": prompt, "num_samples": 2, "sampling": sampling, "seed": 4}
    drawn = [sample_texts(model, processor, context=record, **settings) for record in contexts]
    assert result.stdout.split("\n\n") == [
        f"{json.dumps(record)}\n  {texts[0]}\n  {texts[1]}" + ("\n" if record == contexts[-1] else "")
        for record, texts in zip(contexts, drawn, strict=True)
    ]
    assert "unknown values of sex, treated as unknown: x" in result.stderr
    found = command("sample", text_runs / "masked", *options, "--prompt", prompt, *numbers, "--format", "json")
    assert json.loads(ok(found).stdout) == [
        {"context": record, "texts": texts, "unknown_context": {"sex": ["x"]} if record["sex"] == "x" else {}}
        for record, texts in zip(contexts, drawn, strict=True)
    ]


def test_guidance_of_a_run_that_never_learned_nothing(command: Any, text_runs: Path) -> None:
    result = command("sample", text_runs / "masked", "--context", '{"sex": "f"}', "--guidance", 2)
    assert result.exit_code == 2
    assert "guidance=2 starts from" in " ".join(result.stderr.split())
    assert "context_dropout=0.1" in result.stderr


def test_samples_without_a_context(command: Any, text_runs: Path) -> None:
    result = ok(command("sample", text_runs / "masked", "--tokens", 3, "--num-samples", 5, "--sweeps", 1))
    assert [len(line.split()) for line in result.stdout.splitlines()] == [3] * 5


@pytest.fixture(scope="module")
def own_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as a user has it, in CSV, and a checkpoint beside it."""
    folder = tmp_path_factory.mktemp("own")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=3, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    rows = [(f"word{row % 7} word{row % 5}", "fm"[row % 2], ["bad", "good"][row % 3 == 0]) for row in range(90)]
    columns = {"review": [row[0] for row in rows], "sex": [row[1] for row in rows], "verdict": [row[2] for row in rows]}
    write_table(pa.table(columns), folder / "reviews.csv")
    return folder


def trained(command: Any, folder: Path, *options: Any, output: str) -> Path:
    settings = ("--epochs", 1, "--device", "cpu", "--text", "review", "--checkpoint", folder / "bert")
    ok(command("train", folder / "reviews.csv", *settings, *options, "--output", folder / output))
    return folder / output


def test_from_a_table_to_predictions(command: Any, own_texts: Path) -> None:
    run = trained(
        command, own_texts, "--label", "verdict", "--max-length", 8, "--truncation", "head_tail", output="labels"
    )
    evaluated = ok(command("evaluate", run))
    assert "accuracy (%)" in evaluated.stdout
    assert "labels of" in evaluated.stdout
    content = json.loads(ok(command("evaluate", run, "--format", "json")).stdout)
    assert 0 <= content["metrics"]["accuracy_percent"]["value"] <= 100
    predictions = own_texts / "predictions.csv"
    ok(command("predict", run, "--data", own_texts / "reviews.csv", "--output", predictions))
    found = read_table(predictions)
    assert set(found.column("predicted_label").to_pylist()) <= {"bad", "good"}
    assert TextPipeline.from_pretrained(run).max_length == 8
    assert "its middle was not read" in ok(command("predict", run, "--text", LONG)).stderr
    next_steps = ok(command("evaluate", run)).stderr
    assert f"contextual-bert predict {run}" in next_steps
    importance = ok(command("importance", run, "--output", own_texts / "importance", "--format", "json"))
    assert [row.feature for row in FeatureImportances.from_json(importance.stdout).rows] == ["all features", "sex"]
    page = (own_texts / "importance" / "importance.md").read_text("utf-8")
    num_texts = len(evaluated_rows(run))
    assert page.startswith(f"## What the model takes from each feature: {num_texts} labels of {num_texts} texts\n")
    for words, refused in {
        "is for sets of items, and this is for labels of texts": command("importance", run, "--items", "review"),
        "--pair is for runs on pairs of texts, and this one is on single ones. Leave it out": command(
            "predict", run, "--text", "word1", "--pair", "word2"
        ),
        "is a run on labels of texts. Give it to contextual-bert predict, or name another": command(
            "complete", run, "--set", "word1"
        ),
    }.items():
        assert refused.exit_code == 2
        assert words in " ".join(refused.stderr.split())


def test_a_model_of_pairs_needs_the_second_text(command: Any, own_texts: Path) -> None:
    table = read_table(own_texts / "reviews.csv")
    write_table(table.append_column("other", table.column("review")), own_texts / "pairs.csv")
    columns = ("--text", "review", "--pair", "other", "--label", "verdict", "--checkpoint", own_texts / "bert")
    run = own_texts / "pairs"
    told = ok(command("train", own_texts / "pairs.csv", *columns, "--epochs", 1, "--device", "cpu", "--output", run))
    next_one = shlex.split(told.stderr.splitlines()[-1].replace("...", "word1"))
    assert "word1" in ok(command(*next_one[1:])).stdout
    refused = command("predict", run, "--text", "word1")
    assert refused.exit_code == 2
    assert "--pair is missing: the run was trained on pairs of texts. Give the second text." in refused.stderr
    assert "word1" in ok(command("predict", run, "--text", "word1", "--pair", "word2")).stdout


def evaluated_rows(run: Path) -> Any:
    return Split.load(run / "split.json").rows("test")


def test_inspect_says_what_to_train(command: Any, own_texts: Path) -> None:
    schema, columns = own_texts / "schema.json", ("--text", "review", "--label", "verdict", "--max-length", 4)
    result = ok(command("inspect", own_texts / "reviews.csv", *columns, "--output", schema))
    assert "90 rows, 35 different texts in 'review'" in result.stdout
    assert "2 labels: bad (66.7%), good (33.3%)" in result.stdout
    assert "tokens" not in result.stdout
    assert "without --checkpoint no tokens were counted" in result.stderr
    assert ContextSchema.load(schema).names == ("sex",)
    own = ("--checkpoint", own_texts / "bert", "--overwrite")
    result = ok(command("inspect", own_texts / "reviews.csv", *columns, *own, "--output", schema))
    assert "no text is longer than 4 tokens" in result.stdout
    last = result.stderr.splitlines()[-1].split()
    assert last[:3] == ["contextual-bert", "train", str(own_texts / "reviews.csv")]
    named = (
        "--text review",
        "--label verdict",
        f"--checkpoint {own_texts / 'bert'}",
        "--max-length 4",
        f"--schema {schema}",
    )
    assert all(option in " ".join(last) for option in named)
    trained_as_told = [each.replace("runs/", f"{own_texts}/told-") for each in last[1:]]
    ok(command(*trained_as_told, "--epochs", 1, "--device", "cpu"))
    assert ContextSchema.load(own_texts / "told-global_state_update" / "schema.json") == ContextSchema.load(schema)


def test_words_are_grades_in_the_order_that_is_given(command: Any, own_texts: Path) -> None:
    """From inspect to predictions; the alphabet has another order, and half grades go without one."""
    table = read_table(own_texts / "reviews.csv")
    words, stars = ["low", "fair", "high"], [1, 1.5, 10]
    table = table.append_column("mood", pa.array([words[row % 3] for row in range(table.num_rows)]))
    table = table.append_column("stars", pa.array([stars[row % 3] for row in range(table.num_rows)]))
    write_table(table, own_texts / "moods.csv")
    columns = ("--text", "review", "--label", "mood", "--order", "low, fair,high", "--checkpoint", own_texts / "bert")
    columns = (*columns, "--exclude", "verdict,stars")
    looked = ok(command("inspect", own_texts / "moods.csv", *columns, "--output", own_texts / "moods.json"))
    assert "3 grades, the lowest first: low (33.3%), fair (33.3%), high (33.3%)" in looked.stdout
    told = looked.stderr.splitlines()[-1].split()[1:]
    assert told[told.index("--order") + 1] == "low,fair,high"
    run = own_texts / "moods-run"
    told = [str(run) if each.startswith("runs/") else each for each in told]
    trained_as_told = ok(command(*told, "--epochs", 1, "--device", "cpu"))
    assert "3 grades, the lowest first: low, fair, high" in trained_as_told.stderr
    assert "3 grades, the lowest first: low, fair, high" in (run / "README.md").read_text(encoding="utf-8")
    recipe = Recipe.load(run)
    assert (recipe.text_task.order, recipe.text_task.is_ordinal) == (("low", "fair", "high"), True)
    evaluated = ok(command("evaluate", run))
    rows: Any = load_scores(run / SCORES_FILE)[0].predictions
    distances = abs(rows.predicted - rows.true)
    assert (rows.names, rows.is_ordinal) == (("low", "fair", "high"), True)
    assert f"{distances.mean():.4f}" in evaluated.stdout
    assert "places of labels in their order where these are words" in " ".join(evaluated.stdout.split())
    answer = json.loads(ok(command("predict", run, "--text", "word1", "--format", "json")).stdout)
    assert sorted(answer["probabilities"]) == ["fair", "high", "low"]
    halves = ("--text", "review", "--label", "stars", "--ordinal", "--checkpoint", own_texts / "bert")
    halves = (*halves, "--exclude", "verdict,mood", "--epochs", 1, "--device", "cpu")
    ok(command("train", own_texts / "moods.csv", *halves, "--output", own_texts / "stars"))
    found: Any = load_scores(own_texts / "stars" / SCORES_FILE)[0].predictions
    assert found.names == ("1", "1.5", "10")
    distances = abs(found.grades[found.predicted] - found.grades[found.true])
    assert f"{distances.mean():.4f}" in ok(command("evaluate", own_texts / "stars")).stdout


def test_what_inspect_left_out_is_left_out_of_the_command(command: Any, own_texts: Path) -> None:
    table = read_table(own_texts / "reviews.csv")
    shops = pa.array([f"shop {row % 3}" for row in range(table.num_rows)])
    write_table(table.append_column("shop", shops), own_texts / "shops.csv")
    columns = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert", "--max-length", 4)
    schema = own_texts / "shops.json"
    result = ok(command("inspect", own_texts / "shops.csv", *columns, "--exclude", "shop", "--output", schema))
    told = result.stderr.splitlines()[-1].split()[1:]
    trained_as_told = [each.replace("runs/", f"{own_texts}/left-out-") for each in told]
    ok(command(*trained_as_told, "--epochs", 1, "--device", "cpu"))
    assert ContextSchema.load(own_texts / "left-out-global_state_update" / "schema.json").names == ("sex",)


def test_from_a_table_to_sampled_texts(command: Any, own_texts: Path) -> None:
    masks = ("--masking", "word", "--max-mask-rate", "1")
    dropout = ("--set", "context_dropout=0.5")
    run = trained(command, own_texts, *masks, *dropout, "--exclude", "verdict", output="masked")
    assert json.loads((run / "recipe.json").read_text(encoding="utf-8"))["recipe"]["task"]["max_mask_rate"] == 1
    assert "tokens of" in ok(command("evaluate", run)).stdout
    sampled = ok(command("sample", run, "--tokens", 3, "--sweeps", 1, "--context", '{"sex": "f"}'))
    assert "word" in sampled.stdout
    guided = command("sample", run, "--tokens", 3, "--sweeps", 1, "--context", '{"sex": "f"}', "--guidance", 2)
    assert len(ok(guided).stdout.splitlines()) == len(sampled.stdout.splitlines())


def test_a_run_is_gone_on_from_with_its_method_and_its_features(command: Any, own_texts: Path) -> None:
    corpus = trained(command, own_texts, "--conditioning", "film", "--exclude", "verdict", output="corpus")
    task = ("--text", "review", "--label", "verdict", "--checkpoint", corpus)
    settings = ("--epochs", 1, "--device", "cpu", "--output", own_texts / "labelled")
    looked = ok(command("inspect", own_texts / "reviews.csv", *task, "--output", own_texts / "corpus.json"))
    assert "brings its own features and its method" in looked.stderr
    assert not (own_texts / "corpus.json").exists()
    assert "--conditioning film" in looked.stderr.splitlines()[-1]
    assert "--schema" not in looked.stderr.splitlines()[-1]
    refused = command("train", own_texts / "reviews.csv", *task, *settings, "--exclude", "sex")
    assert refused.exit_code == 2
    assert "--exclude says what of the table is no context, and --checkpoint brings the features" in refused.stderr
    ok(command("train", own_texts / "reviews.csv", *task, *settings))
    recipe = Recipe.load(own_texts / "labelled")
    assert recipe.conditioning == "film"
    answer = ok(
        command("predict", own_texts / "labelled", "--text", "word1", "--context", '{"sex": "f"}', "--format", "json")
    )
    assert json.loads(answer.stdout)["label"] in ("good", "bad")
    assert "accuracy" in ok(command("evaluate", own_texts / "labelled")).stdout
    refused = command("train", own_texts / "reviews.csv", *task, *settings, "--overwrite", "--conditioning", "none")
    assert refused.exit_code == 2
    assert "--conditioning none differs from 'film', with which" in refused.stderr
    assert (own_texts / "labelled" / "metrics.json").is_file()
    for wrong in (("--max-length", 99), ("--checkpoint", own_texts / "labelled")):
        refused = command("train", own_texts / "reviews.csv", *task, *settings, "--overwrite", *wrong)
        assert refused.exit_code == 2
        assert (own_texts / "labelled" / "model.safetensors").is_file()
    assert "--overwrite would remove" in refused.stderr
    ok(command("train", own_texts / "reviews.csv", *task, *settings, "--overwrite", "--seed", 3))
    assert Recipe.load(own_texts / "labelled").seed == 3
    compared = ("--epochs", 1, "--device", "cpu", "--seeds", 1, "--output", own_texts / "continued")
    ok(command("compare", own_texts / "reviews.csv", *task, *compared, "--baselines", "context_popularity"))
    assert sorted(path.parent.parent.name for path in (own_texts / "continued").glob("*/*/metrics.json")) == [
        "context_popularity",
        "film",
    ]


@pytest.mark.slow
def test_methods_are_compared_on_texts(command: Any, own_texts: Path) -> None:
    texts = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert", "--epochs", 1)
    methods = ("--conditioning", "none,global_state_update", "--baselines", "context_popularity", "--seeds", 1)
    output, settings = own_texts / "compared", ("--device", "cpu", "--jobs", 2)
    result = ok(command("compare", own_texts / "reviews.csv", *texts, *methods, *settings, "--output", output))
    assert result.stderr.count("seed-0: trained") == 3
    assert "context_popularity" in result.stdout
    assert "accuracy (%)" in result.stdout
    assert "**Methods: loss and ranks**" in (output / "report.md").read_text(encoding="utf-8")


def test_without_a_test_part_the_validation_part_is_compared(command: Any, own_texts: Path) -> None:
    texts = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert", "--test", 0)
    output = own_texts / "validated"
    result = ok(
        command(
            *("compare", own_texts / "reviews.csv", *texts, "--epochs", 1, "--device", "cpu", "--seeds", 1),
            *("--conditioning", "none", "--baselines", "popularity", "--output", output),
        )
    )
    assert "accuracy (%)" in result.stdout
    assert "--part validation" in result.stderr
    assert "There is no test part" in result.stderr


@pytest.mark.slow
def test_low_rank_changes_are_trained_compared_and_used(command: Any, own_texts: Path) -> None:
    pytest.importorskip("peft")
    lora = ("--trained-weights", "lora", "--lora", "rank=2", "--lora", "dropout=0.1")
    run = trained(command, own_texts, "--label", "verdict", *lora, output="lora")
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))["recipe"]
    assert (recipe["trained_weights"], recipe["lora"]) == ("lora", {"rank": 2, "dropout": 0.1})
    assert "accuracy (%)" in ok(command("evaluate", run)).stdout
    assert "word1" in ok(command("predict", run, "--text", "word1", "--context", '{"sex": "f"}')).stdout
    texts = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert", "--epochs", 1)
    methods = ("--conditioning", "none,film", "--baselines", "context_popularity", "--seeds", 1, "--device", "cpu")
    rates = {"new_weights_learning_rate": 1e-3, "context_learning_rate": 1e-4}
    settings = [word for name, rate in rates.items() for word in ("--set", f"{name}={rate}")]
    settings += ["--model", "classifier_pooling=cls"]
    output = own_texts / "compared-lora"
    ok(command("compare", own_texts / "reviews.csv", *texts, *methods, *lora, *settings, "--output", output))
    recipes = {
        name: json.loads((output / name / "seed-0" / "recipe.json").read_text(encoding="utf-8"))["recipe"]
        for name in ("none", "film", "context_popularity")
    }
    assert {name: each["trained_weights"] for name, each in recipes.items()} == {
        "none": "lora",
        "film": "lora",
        "context_popularity": "all",
    }
    # Each row has the fields of a model's config that it reads, and the rates for weights that it has.
    pooling = {"classifier_pooling": "cls"}
    models = {"none": pooling, "film": pooling, "context_popularity": {}}
    assert {name: each["model"] for name, each in recipes.items()} == models
    assert {name: rates.keys() & each["training"].keys() for name, each in recipes.items()} == {
        "none": {"new_weights_learning_rate"},
        "film": {*rates},
        "context_popularity": set(),
    }


LABELLED = ("--text", "review", "--checkpoint", "bert", "--label", "verdict")
WORDS = ("--items", "review", "--separator", " ", "--duplicates", "keep")
SMOOTHED = ("--set", "label_smoothing_factor=0.1")
NONE, CNN, MA_BERT, WORD = (("--conditioning", name) for name in ("none", "cnn", "multi_attribute", "bert_concat_word"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*LABELLED, "--lora", "rank=2"), "--lora rank=2 needs --trained-weights lora"),
        ((*LABELLED, "--trained-weights", "lora", "--lora", "rnk=2"), "Did you mean 'rank'"),
        ((*LABELLED, "--trained-weights", "lora", "--lora", "rank"), "for instance --lora rank=4"),
        ((*LABELLED, "--trained-weights", "lora", "--lora", "dropout=2"), "dropout=2 is not allowed. Give a share"),
        ((*LABELLED, "--trained-weights", "lora", "--conditioning", "cnn"), "'cnn' is a baseline"),
        ((*LABELLED, *NONE, "--set", "context_learning_rate=1e-4"), "is for what 'none' does not have"),
        ((*LABELLED, *CNN, "--set", "new_weights_learning_rate=1e-4"), "is for what 'cnn' does not have"),
        (
            (*LABELLED, *CNN, "--model", "num_hidden_layers=2"),
            "num_hidden_layers=2 is not allowed. 'cnn' does not read this field",
        ),
        (
            ("--items", "review", "--conditioning", "bag", "--model", "hidden_size=8"),
            "--model hidden_size=8 is not allowed. 'bag' does not read this field",
        ),
        (
            (*LABELLED, *NONE, "--model", "attribute_start=paper"),
            "--model attribute_start=paper is not allowed. 'none' does not read this",
        ),
        (
            (*LABELLED, "--model", "hidden_act=relu"),
            "--model hidden_act=relu is no field of a model's config that can be set for labels of texts",
        ),
        (
            (*LABELLED, "--from-scratch", "--model", "hidden_act=rlu"),
            "--model hidden_act=rlu is unknown. Did you mean 'relu'",
        ),
        (
            (*LABELLED, "--model", "hidden_dropout_prob=x"),
            "hidden_dropout_prob=x is of another type. Give a number",
        ),
        (
            (*LABELLED, "--from-scratch", "--model", "num_attention_heads=5"),
            "is not a multiple of the number of attention heads (5)",
        ),
        ((*LABELLED, "--model", "num_hidden_layers=two"), "--model num_hidden_layers=two is not allowed. Give a"),
        ((*LABELLED, "--model", "num_extra_layers=-1"), "num_extra_layers=-1 is not allowed. Give a whole number"),
        ((*LABELLED, *MA_BERT, "--model", "num_extra_layers=0"), "num_extra_layers=0 is not allowed. Give a whole"),
        ((*LABELLED, *WORD, "--model", "num_extra_layers=1.5"), "num_extra_layers=1.5 is not allowed. Give a whole"),
        (
            (*LABELLED, *WORD, "--model", "classifier_pooling=men"),
            "--model classifier_pooling=men is unknown. Did you mean 'mean'",
        ),
        (
            (*LABELLED, "--set", "context_learning_rate=0"),
            "context_learning_rate=0 is not allowed. Give a number above 0",
        ),
        ((*LABELLED, "--set", "label_smoothing_factor=1"), "label_smoothing_factor=1 is not allowed. Give a share"),
        ((*LABELLED, *CNN, *SMOOTHED), "is for models that label texts or words"),
        (("--text", "review", "--checkpoint", "bert", *SMOOTHED), "is for models that label texts or words"),
        ((*WORDS, *SMOOTHED), "Masked items and tokens and the baselines have their own loss"),
        ((*LABELLED, "--set", "weight_decay=x"), "--set weight_decay=x is not allowed. Give a number"),
        (
            (*LABELLED, "--set", "metric_for_best_model=acuracy_percent"),
            "--set metric_for_best_model=acuracy_percent is unknown. Did you mean 'accuracy_percent'?",
        ),
        ((*LABELLED, "--trained-weights", "lora", "--from-scratch"), "leaves a checkpoint's weights as they are"),
        (("--items", "review", "--trained-weights", "lora"), "is for texts, where a checkpoint's weights"),
        (
            ("--text", "review"),
            "--checkpoint is missing: only a BERT learns hidden words of texts, and none is named. Give its folder",
        ),
        (("--text", "review", "--label", "verdict"), "--checkpoint is missing, and 'global_state_update' needs a BERT"),
        (("--items", "review", "--label", "verdict"), "--label is for texts"),
        (("--items", "review", "--text", "review", "--checkpoint", "bert"), "either the column of items"),
        ((), "either the column of items"),
        (("--text", "review", "--checkpoint", "bert", "--label", "verdict", "--masking", "word"), ": --masking is for"),
        (("--text", "review", "--checkpoint", "bert", "--max-mask-rate", "0.1"), "between --mask-rate 0.15 and 1"),
        ((*LABELLED, "--mask-rate", "0", "--max-mask-rate", "1"), "--mask-rate, --max-mask-rate are for hidden words"),
        ((*LABELLED, "--exclude", "sex"), "needs a context, and no column of"),
        (("--items", "review", "--max-mask-rate", "1"), "--max-mask-rate is for texts"),
        (("--text", "review", "--checkpoint", "bert", "--ordinal"), "--ordinal is for labels"),
        (
            (*LABELLED, "--ordinal"),
            "the labels bad, good are no numbers, and as grades of one scale they need an order",
        ),
        (
            (*LABELLED, "--order", "good,fair"),
            "the label 'bad' is not in the order good, fair. Name it in --order",
        ),
        ((*LABELLED, "--order", "good,bad,good"), "names 'good' twice. Name each label once"),
        ((*LABELLED, "--order", "good"), "names one label. Name two labels or more, the lowest first"),
        (("--text", "review", "--checkpoint", "bert", "--order", "bad,good"), "--order bad,good is for labels"),
        (("--items", "review", "--order", "bad,good"), "--order 'bad, good' names one column where sets are read"),
        ((*LABELLED, "--pair", "review"), "--text review and --pair review are one column"),
        (("--text", "review", "--checkpoint", "bert", "--label", "review"), "--text review and --label review are one"),
        (
            ("--text", "review", "--checkpoint", "absent", "--label", "verdict"),
            "there is no such folder. Check the path, or give a name on the Hub",
        ),
    ],
)
def test_options_that_do_not_go_together(command: Any, own_texts: Path, options: tuple[str, ...], words: str) -> None:
    options = tuple(str(own_texts / option) if option in ("bert", "absent") else option for option in options)
    result = command("train", own_texts / "reviews.csv", *options, "--output", own_texts / "faulty")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert not (own_texts / "faulty").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "either the column of items with --items, or one of texts with --text"),
        (("--items", "review", "--text", "review"), "either the column of items with --items, or one of texts"),
        (("--items", "review", "--checkpoint", "bert"), "--checkpoint is for texts"),
        (("--items", "review", "--max-length", 4), "--max-length is for texts"),
        (("--text", "review", "--min-size", 2), "--min-size is for sets of items, and --text names"),
        (("--text", "review", "--drop-items", "a"), "--drop-items is for sets"),
        (("--text", "review", "--separator", ";"), "--separator ';' is for labels, and none is named"),
        (("--text", "reviw"), "Did you mean 'review'"),
        (
            ("--text", "review", "--label", "verdict", "--checkpoint", "absent"),
            "there is no such folder. Check the path, or give a name on the Hub",
        ),
    ],
)
def test_what_inspect_refuses(command: Any, own_texts: Path, options: tuple[Any, ...], words: str) -> None:
    output = own_texts / "refused.json"
    options = tuple(str(own_texts / option) if option == "absent" else option for option in options)
    result = command("inspect", own_texts / "reviews.csv", *options, "--output", output)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())
    assert not output.exists()


def test_inspect_names_what_train_would_stop_at(command: Any, tmp_path: Path) -> None:
    table, columns = tmp_path / "t.parquet", ("--text", "text", "--label", "label")
    write_table(pa.table({"text": ["a", None, "b"] * 20, "label": ["x", "y"] * 30}), table)
    result = command("inspect", table, *columns, "--output", tmp_path / "schema.json")
    assert result.exit_code == 2, result.output
    assert "error: 20 missing cells in 'text' (the first in row 2)" in " ".join(result.stdout.split())
    assert "mend what is marked as an error first" in result.stderr
    stopped = command("train", table, *columns, "--checkpoint", "bert", "--output", tmp_path / "run")
    assert stopped.exit_code == 2
    assert "row 2, column 'text': the cell is missing (20 such rows)" in " ".join(stopped.stderr.split())


def test_inspect_names_the_words_and_tags_that_are_missing(command: Any, own_texts: Path, tmp_path: Path) -> None:
    table, columns = tmp_path / "t.parquet", ("--text", "words", "--label", "tags")
    words, tags = [["a", "b"]] * 60, [["x", "y"]] * 60
    faulty = {"words": [*words[:7], ["a", None], *words[8:]], "tags": [*tags[:9], [None, "y"], *tags[10:]]}
    checkpoint = ("--checkpoint", own_texts / "bert")
    write_table(pa.table(faulty), table)
    result = command("inspect", table, *columns, *checkpoint, "--output", tmp_path / "schema.json")
    assert result.exit_code == 2, result.output
    found = " ".join(result.stdout.split())
    assert "error: 1 row of 'words' without a word (the first in row 8)" in found
    assert "error: 1 row of 'tags' without a tag for a word (the first in row 10)" in found
    write_table(pa.table({**faulty, "words": words}), table)
    settings = (*columns, *checkpoint, "--conditioning", "none", "--output", tmp_path / "run")
    stopped = command("train", table, *settings)
    assert stopped.exit_code == 2
    assert "row 10, column 'tags': tag 0 of 2 is missing, counted from 0. Fill it in" in " ".join(
        stopped.stderr.split()
    )


@pytest.mark.parametrize("column", ["verdict", "review"])
def test_a_schema_has_nothing_that_is_learned(command: Any, own_texts: Path, tmp_path: Path, column: str) -> None:
    schema = ContextSchema(features=(Categorical(name=column, values=("bad", "good")),))
    schema.save(tmp_path / "schema.json")
    columns = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert")
    settings = ("--schema", tmp_path / "schema.json", "--output", tmp_path / "run")
    result = command("train", own_texts / "reviews.csv", *columns, *settings)
    assert result.exit_code == 2
    said = f"schema.json, feature {column!r}: reads {column!r} as context, and here it is learned or learned from"
    assert said in " ".join(result.stderr.split())


def test_a_schema_of_texts_has_no_history(command: Any, own_texts: Path, tmp_path: Path) -> None:
    ContextSchema(features=(History(name="before"),)).save(tmp_path / "schema.json")
    columns = ("--text", "review", "--label", "verdict", "--conditioning", "ngrams_context")
    settings = ("--schema", tmp_path / "schema.json", "--output", tmp_path / "run")
    result = command("train", own_texts / "reviews.csv", *columns, *settings)
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "schema.json, feature 'before': is a history of the items of sets, and here texts are learned from" in said
    assert (
        "Allowed: categorical, multi_categorical, numerical, vector" in said
        and "history" not in said.split("Allowed")[1]
    )


def test_texts_that_are_categories_are_texts(command: Any, own_texts: Path, tmp_path: Path) -> None:
    """pandas writes such columns of its type category."""
    read = read_table(own_texts / "reviews.csv")
    table = pa.table({name: read[name].dictionary_encode() for name in read.column_names})
    write_table(table, tmp_path / "reviews.parquet")
    columns = ("--text", "review", "--label", "verdict", "--checkpoint", own_texts / "bert")
    ok(command("inspect", tmp_path / "reviews.parquet", *columns, "--output", tmp_path / "schema.json"))
    settings = ("--epochs", 1, "--device", "cpu", "--output", tmp_path / "run")
    ok(command("train", tmp_path / "reviews.parquet", *columns, *settings))
    ok(command("evaluate", tmp_path / "run"))


def test_rows_that_were_trained_on_are_counted(command: Any, own_texts: Path, tmp_path: Path) -> None:
    run = trained(command, own_texts, "--label", "verdict", output="counted")
    made = ok(command("split", own_texts / "reviews.csv", "--by-row", "--seed", 7, "--text", "review",
                      "--output", tmp_path / "other.json"))  # fmt: skip
    assert "checked: equal texts in two parts (90 texts)" in made.stdout
    assert "train" in made.stderr
    assert all(option in made.stderr for option in ("--text review", "--checkpoint bert-base-uncased"))
    own, other = (Split.load(path) for path in (run / "split.json", tmp_path / "other.json"))
    count = len({*own.rows("train").tolist()} & {*other.rows("test").tolist()})
    assert count
    result = ok(command("evaluate", run, "--split", tmp_path / "other.json"))
    assert f"warning: the run was trained on {count} of these {len(other.rows('test'))} rows" in " ".join(
        result.output.split()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--label", "verdict", "--baselines", "bilstm_crf"), "'bilstm_crf' cannot learn these labels"),
        (("--baselines", "ngrams"), "ngrams is no baseline for hidden words"),
        (("--label", "verdict", "--exclude", "sex", "--baselines", "ngrams_context"), "needs a context"),
        (("--label", "verdict", "--set", "context_learning_rate=0.9"), "no row of this comparison reads it"),
        (("--label", "verdict", "--model", "attribute_start=paper"), "no row of this comparison reads it"),
        (("--label", "verdict", "--time", "sex"), "is for a split by time"),
    ],
)
def test_a_comparison_that_cannot_be_ends_before_its_first_run(
    command: Any, own_texts: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    settings = ("--text", "review", "--checkpoint", own_texts / "bert", "--conditioning", "none", "--epochs", 1)
    result = command("compare", own_texts / "reviews.csv", *settings, *options, "--output", tmp_path / "study")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not list(tmp_path.rglob("recipe.json"))


def test_a_label_that_cannot_be_learned_is_said(command: Any, own_texts: Path, tmp_path: Path) -> None:
    read = read_table(own_texts / "reviews.csv")
    rows = read.append_column("day", pa.array(range(len(read))))
    rare = rows.slice(len(rows) - 1).set_column(2, "verdict", pa.array(["rare"]))
    write_table(pa.concat_tables([rows.slice(0, len(rows) - 1), rare]), tmp_path / "reviews.csv")
    columns = ("--text", "review", "--label", "verdict", "--split-by", "time", "--time", "day", "--exclude", "day")
    settings = ("--checkpoint", own_texts / "bert", "--epochs", 1, "--device", "cpu", "--output", tmp_path / "run")
    result = ok(command("train", tmp_path / "reviews.csv", *columns, *settings))
    assert "warning: no row of the training part has the label rare (" in result.stderr
    assert "): it cannot be learned" in result.stderr


def test_inspect_that_finds_an_error_prints_its_report_and_exits_with_2(command, tmp_path: Path) -> None:
    rows = [["fine", "good"]] * 50 + [["bad", "poor"]] * 50
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows) + "fine,\n")
    result = command("inspect", path, "--text", "text", "--label", "label", "--output", tmp_path / "schema.json")
    assert result.exit_code == 2
    assert "error: 1 missing cell in 'label'" in result.output
    assert "2 labels" in result.output
    path.write_text(path.read_text().removesuffix("fine,\n"))
    assert (
        command("inspect", path, "--text", "text", "--label", "label", "--output", tmp_path / "s.json").exit_code == 0
    )
