"""The commands run no code that lies in a folder, and ask nobody whether they shall."""

import builtins
import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from contextual_bert.manifest import write_manifest
from contextual_bert.testing.heads import miniature_checkpoint


@pytest.fixture(autouse=True)
def _nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> NoReturn:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(builtins, "input", asked)


def with_code(folder: Path, **config: Any) -> Path:
    (folder / "evil.py").write_text(f"open({str(folder / 'it-ran')!r}, 'w')\nclass Config: pass\nclass Fast: pass\n")
    for name in ("config.json", "tokenizer_config.json", "processor_config.json"):
        path = folder / name
        content = json.loads(path.read_text()) if path.exists() else {}
        classes = {"AutoConfig": "evil.Config", "AutoTokenizer": ["evil.Fast", "evil.Fast"]}
        path.write_text(json.dumps(content | {"auto_map": classes} | (config if name == "config.json" else {})))
    if (folder / "manifest.json").exists():
        write_manifest(folder)  # who changes a run can do that, too
    return folder


@pytest.mark.parametrize(
    "words", [("complete", "--set", "a,[MASK]"), ("evaluate",), ("export",), ("serve", "--port", 0)]
)
def test_a_run_that_asks_for_its_code_is_refused(command: Any, finished: Path, tmp_path: Path, words: Any) -> None:
    run = with_code(shutil.copytree(finished, tmp_path / "run"), model_type="evil")
    result = command(words[0], run, *words[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "code of its own (auto_map), which is never done" in " ".join(result.stderr.split())
    assert not (run / "it-ran").exists()


def test_a_run_with_code_beside_it_answers_without_it(command: Any, finished: Path, tmp_path: Path) -> None:
    asked = ("--set", "[MASK]", "--format", "json")
    run = with_code(shutil.copytree(finished, tmp_path / "run"))
    assert command("complete", run, *asked).stdout == command("complete", finished, *asked).stdout != ""
    assert not (run / "it-ran").exists()


def test_a_checkpoint_that_asks_for_its_code_is_not_trained(command: Any, tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    torch.manual_seed(0)
    miniature_checkpoint(BertForMaskedLM(BertConfig(vocab_size=23, **sizes)), tmp_path / "bert")
    table = pa.table({"review": ["word1 word2", "word3"] * 30, "verdict": ["good", "bad"] * 30})
    pyarrow.csv.write_csv(table, tmp_path / "reviews.csv")
    words = ("train", tmp_path / "reviews.csv", "--text", "review", "--label", "verdict", "--device", "cpu")
    for number, config in enumerate(({}, {"model_type": "evil"})):
        folder = with_code(shutil.copytree(tmp_path / "bert", tmp_path / f"bert-{number}"), **config)
        output = ("--epochs", 1, "--checkpoint", folder, "--output", tmp_path / f"run-{number}")
        result = command(*words, *output, "--conditioning", "none")
        assert result.exit_code == (2 if config else 0), result.output
        assert ("code of its own (auto_map)" in " ".join(result.stderr.split())) == bool(config)
        assert not (folder / "it-ran").exists()
