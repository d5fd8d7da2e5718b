"""A tiny stylist world on disk, one trained run, and a function that runs the command in this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner, Result

from contextual_bert.data import StylistWorld
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
)
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert_cli.main import app

SMALL = (
    "--items", "items", "--customer", "customer_id", "--epochs", "1", "--batch-size", "64", "--device", "cpu",
    "--model", "hidden_size=16", "--model", "num_hidden_layers=1", "--model", "num_attention_heads=2",
    "--model", "intermediate_size=16",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Two processes that share two cores wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class CommandLine:
    """``command(ARGUMENTS)`` runs ``contextual-bert ARGUMENTS``; ``command.small`` are the options of a tiny run."""

    small = SMALL

    def __call__(self, *arguments: object) -> Result:
        return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="session")
def command() -> CommandLine:
    return CommandLine()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a world of 60 articles with 300 outfits."""
    folder = tmp_path_factory.mktemp("world")
    made = StylistWorld.generate(60)
    made.save(folder)
    pq.write_table(made.sample(300, seed=1), folder / "outfits.parquet")
    return folder


@pytest.fixture(scope="session")
def table(world: Path) -> Path:
    return world / "outfits.parquet"


@pytest.fixture(scope="session")
def finished(command: CommandLine, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run; tests read it and change copies only."""
    output = tmp_path_factory.mktemp("runs") / "gsu"
    result = command("train", table, *command.small, "--output", output)
    assert result.exit_code == 0, result.output
    return output


@pytest.fixture(scope="session")
def text_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folders of untrained miniature text models: labels, tags, number, masked, none."""
    parent, processor = tmp_path_factory.mktemp("texts"), miniature_text_processor()
    processor.tokenizer.model_max_length = 8
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    tokens = {"vocab_size": 23, "type_vocab_size": 2, "reserved_token_ids": [0, 1, 2, 3, 4]}
    fields: dict[str, Any] = {**sizes, **tokens, "has_position_embeddings": True}
    verdicts = {"id2label": {0: "bad", 1: "good"}}
    heads: dict[str, tuple[Any, dict[str, Any]]] = {
        "labels": (ContextualBertForSequenceClassification, verdicts),
        "none": (ContextualBertForSequenceClassification, {**verdicts, "conditioning": "none"}),
        "number": (ContextualBertForSequenceClassification, {"id2label": {0: "price"}}),
        "tags": (ContextualBertForTokenClassification, verdicts),
        "masked": (ContextualBertForMaskedLM, {}),
    }
    for name, (head, more) in heads.items():
        settings = {"conditioning": "global_state", **fields, **more}
        drawn_anew(head(ContextualBertConfig.from_schema(processor.schema, **settings))).save_pretrained(parent / name)
        processor.save_pretrained(parent / name)
    return parent
