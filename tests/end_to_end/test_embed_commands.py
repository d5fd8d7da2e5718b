"""The commands on vectors: train, evaluate, embed, export; what does not go with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import read_table, write_table
from contextual_bert.inference import EmbeddingPipeline

TINY = ("hidden_size=16", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=16")
SIZES = tuple(part for setting in TINY for part in ("--model", setting))
TASK = ("--text", "query", "--pair", "document", "--objective", "contrastive")
SETTINGS = ("--vocab-size", 257, "--epochs", 1, "--device", "cpu", "--max-length", 32, *SIZES)
CITIES = ("oslo", "rome")


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def said(result: Any) -> str:
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.csv"
    cities = [*CITIES] * 120
    documents = [f"shop {number % 7} of {city}" for number, city in enumerate(cities)]
    queries = [f"shop {number % 7}" for number in range(240)]
    write_table(pa.table({"query": queries, "document": documents, "city": cities}), path)
    return path


@pytest.fixture(scope="module")
def trained(command: Any, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("vectors") / "run"
    result = ok(command("train", pairs, *TASK, *SETTINGS, "--output", output))
    told = " ".join(result.stderr.split())
    assert f"contextual-bert embed {output} --text ... --context" in told and "--pair" not in told.partition("next:")[2]
    card = (output / "README.md").read_text("utf-8")
    assert "from contextual_bert.inference import EmbeddingPipeline" in card and "finds `document` for `query`" in card
    return output


@pytest.fixture(scope="module")
def plain(command: Any, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("plain") / "run"
    ok(command("train", pairs, *TASK, *SETTINGS, "--conditioning", "none", "--output", output))
    return output


def test_a_vector_is_that_of_the_pipeline(command: Any, trained: Path) -> None:
    found = json.loads(ok(command("embed", trained, "--text", "shop 3", "--context", '{"city": "oslo"}')).stdout)
    pipeline = EmbeddingPipeline.from_pretrained(trained)
    assert found == pipeline({"text": "shop 3", "context": {"city": "oslo"}})
    document = json.loads(ok(command("embed", trained, "--text", "shop 3")).stdout)
    assert document["vector"] == pytest.approx(pipeline.encode(["shop 3"])[0].tolist(), abs=1e-6)


def test_tables_of_texts_and_of_documents_get_vectors(command: Any, trained: Path, pairs: Path, tmp_path: Path) -> None:
    rows, pipeline = read_table(pairs).to_pydict(), EmbeddingPipeline.from_pretrained(trained)
    asked = tmp_path / "asked.parquet"
    ok(command("embed", trained, "--data", pairs, "--output", asked, "--batch-size", 7))
    found = read_table(asked)
    assert found.column_names == ["query", "document", "city", "vector"]
    wanted = pipeline.encode(rows["query"], [{"city": city} for city in rows["city"]])
    assert np.array(found.column("vector").to_pylist()) == pytest.approx(wanted, abs=1e-5)
    again = command("embed", trained, "--data", pairs, "--output", asked)
    assert "exists already" in said(again)
    shop = tmp_path / "shop.csv"
    write_table(pa.table({"title": ["shop 1 of oslo", "shop 2 of rome"]}), shop)
    ok(command("embed", trained, "--data", shop, "--text-column", "title", "--documents", "--output", asked,
               "--overwrite"))  # fmt: skip
    wanted = pipeline.encode(["shop 1 of oslo", "shop 2 of rome"])
    assert np.array(read_table(asked).column("vector").to_pylist()) == pytest.approx(wanted, abs=1e-5)
    ok(command("embed", trained, "--data", pairs, "--documents", "--output", tmp_path / "documents.jsonl"))
    for _ in range(2):  # the second finds the files of the first
        folder = ("--documents", "--text-column", "title", "--output", tmp_path / "parts", "--shard-size", 1)
        told = ok(command("embed", trained, "--data", shop, *folder))
    assert "kept" in told.stderr or "there already" in told.stderr, told.stderr
    parts = [
        read_table(path).column("vector").to_pylist()[0] for path in sorted((tmp_path / "parts").glob("*.parquet"))
    ]
    assert np.array(parts) == pytest.approx(wanted, abs=1e-5)
    lines = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text("utf-8").splitlines()]
    assert lines[0]["vector"] == pytest.approx(pipeline.encode(rows["document"][:1])[0].tolist(), abs=1e-5)


def test_what_does_not_go_with_vectors_is_refused(command: Any, trained: Path, pairs: Path, tmp_path: Path) -> None:
    shop, output = tmp_path / "shop.csv", ("--output", tmp_path / "new.parquet")
    write_table(pa.table({"query": ["shop 1"]}), shop)
    assert "give --documents" in said(command("embed", trained, "--data", shop, *output))
    wrong = command("embed", trained, "--data", shop, "--documents", *output)
    assert "'document'" in said(wrong) and "--text-column" in said(wrong)
    assert "nothing to read" in said(command("embed", trained, "--text", " "))
    assert "belongs to --data" in said(command("embed", trained, "--text", "a", "--documents"))
    assert "belongs to --text" in said(command("embed", trained, "--data", pairs, "--context", "{}", *output))
    assert "needs --output FILE" in said(command("embed", trained, "--data", pairs))
    assert "city" in said(command("embed", trained, "--text", "a", "--context", '{"town": "oslo"}'))
    csv = command("embed", trained, "--data", pairs, "--output", tmp_path / "new.csv")
    assert "--output" in said(csv) and not (tmp_path / "new.csv").exists()
    for other in (("predict", "--text", "a"), ("serve",), ("explain", "--text", "a"), ("complete", "--set", "a")):
        told = said(command(other[0], trained, *other[1:]))
        assert "is a run on vectors of texts. Give it to contextual-bert embed" in told


def test_exports_are_for_sentence_transformers_where_there_is_no_context(
    command: Any, trained: Path, plain: Path, tmp_path: Path
) -> None:
    told = said(command("export", plain, "--output", tmp_path / "onnx"))
    assert "it makes vectors" in told and "--format sentence-transformers" in told
    asked = ("--format", "sentence-transformers", "--output", tmp_path / "vectors")
    assert "reads a context" in said(command("export", trained, *asked))
    assert "--top is for ONNX" in said(command("export", plain, *asked, "--top", 3))
    ok(command("export", plain, *asked))
    assert (tmp_path / "vectors" / "modules.json").is_file()
    library = pytest.importorskip("sentence_transformers")
    texts = ["shop 3", "shop 1 of oslo", "something else entirely, in many more words than the model was given to read"]
    wanted = EmbeddingPipeline.from_pretrained(plain).encode(texts)
    found = library.SentenceTransformer(str(tmp_path / "vectors"), device="cpu").encode(texts)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_an_evaluation_says_what_was_ranked(command: Any, trained: Path) -> None:
    result = ok(command("evaluate", trained, "--part", "test", "--format", "markdown"))
    assert "NDCG@10" in result.stdout and "right documents" in result.stdout and "among the first k" in result.stdout
    assert "A text's own is ranked among those of its part" in " ".join(result.stderr.split())


def test_inspection_reads_texts_and_documents(command: Any, pairs: Path, tmp_path: Path) -> None:
    result = ok(command("inspect", pairs, *TASK, "--output", tmp_path / "schema.json"))
    told = " ".join((result.stdout + result.stderr).split())
    assert "14 different texts in 'document'" in told and "vectors of texts are learned" in told
    assert "--objective contrastive" in told.partition("next:")[2]
