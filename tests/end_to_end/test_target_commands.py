"""The commands on texts that are written from others: train, evaluate, predict; and a folder without a recipe."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert import TextToTextPipeline
from contextual_bert.data import read_table, write_table

TINY = ("hidden_size=16", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=16")
SIZES = tuple(part for setting in TINY for part in ("--model", setting))
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "numbers.csv"
    written = [str(number) for number in range(100, 180)]
    words = [" ".join(DIGITS[int(digit)] for digit in number) for number in written]
    write_table(pa.table({"number": written, "words": words, "style": ["a", "b"] * 40}), path)
    return path


@pytest.fixture(scope="module")
def trained(command: Any, numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("written") / "run"
    settings = ("--vocab-size", 257, "--epochs", 1, "--device", "cpu", "--max-length", 24, *SIZES)
    texts = ("--text", "number", "--target", "words")
    result = ok(command("train", numbers, *texts, *settings, "--output", output))
    assert f"contextual-bert predict {output}" in " ".join(result.stderr.split())
    return output


@pytest.fixture(scope="module")
def saved(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as ``save_pretrained`` leaves it: no recipe says what it learned."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    without = ("recipe.json", "manifest.json", "checkpoints", "tensorboard", "evaluation", "metrics.json")
    shutil.copytree(trained, folder, ignore=shutil.ignore_patterns(*without))
    return folder


@pytest.mark.parametrize("folder", ["trained", "saved"])
def test_a_text_is_written_as_the_pipeline_writes_it(command: Any, folder: str, request: pytest.FixtureRequest) -> None:
    directory = request.getfixturevalue(folder)
    asked = ("--text", "123", "--context", '{"style": "a"}', "--format", "json")
    found = json.loads(ok(command("predict", directory, *asked)).stdout)
    pipeline = TextToTextPipeline.from_pretrained(directory)
    assert found == pipeline({"text": "123", "context": {"style": "a"}})


def test_a_table_gets_the_same_texts_with_and_without_a_recipe(
    command: Any, trained: Path, saved: Path, numbers: Path, tmp_path: Path
) -> None:
    written = []
    for directory, column in ((trained, ()), (saved, ("--text-column", "number"))):
        output = tmp_path / f"{directory.name}.parquet"
        ok(command("predict", directory, "--data", numbers, *column, "--output", output))
        written.append(read_table(output).column("predicted_text").to_pylist())
    assert written[0] == written[1]
    assert len(written[0]) == 80


def test_what_does_not_go_with_written_texts_is_refused(command: Any, trained: Path, saved: Path) -> None:
    for directory in (trained, saved):
        cut = command("predict", directory, "--text", "123", "--truncation", "head_tail")
        assert "--truncation is not for texts from which others are written" in " ".join(cut.stderr.split())
        drawn = command("generate", directory, "--prompt", "123")
        assert "is a run on texts written from others. Give it to contextual-bert predict" in " ".join(
            drawn.stderr.split()
        )
        assert {cut.exit_code, drawn.exit_code} == {2}
