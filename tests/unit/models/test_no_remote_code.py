"""Code that lies in a folder is never run, and nobody is asked whether it shall be."""

import builtins
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from contextual_bert import CompletionPipeline, TextPipeline
from contextual_bert.errors import CheckpointError, ConfigurationError, ContextualBertError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
    ContextualBertProcessor,
)
from contextual_bert.models.checkpoint_files import found_config, load_tokenizer, own_config
from contextual_bert.testing import miniature_model, miniature_processor, miniature_text_processor

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
CLASSES = {
    "config.json": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoModelForMaskedLM": "evil.Model"},
    "tokenizer_config.json": {"AutoTokenizer": ["evil.Slow", "evil.Fast"]},
    "processor_config.json": {"AutoProcessor": "evil.Processor", "AutoFeatureExtractor": "evil.Extractor"},
    "preprocessor_config.json": {"AutoFeatureExtractor": "evil.Extractor", "AutoProcessor": "evil.Processor"},
}


@pytest.fixture(autouse=True)
def _nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> NoReturn:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(builtins, "input", asked)


def with_code(folder: Path, **config: Any) -> Path:
    """The folder, every file of which asks to run a module that writes a file."""
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(folder / 'it-ran')!r}).touch()\n"
        "class Config: pass\nclass Model: pass\nclass Slow: pass\nclass Fast: pass\n"
        "class Processor: pass\nclass Extractor: pass\n"
    )
    for name, classes in CLASSES.items():
        content = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        own = config if name == "config.json" else {}
        (folder / name).write_text(json.dumps(content | {"auto_map": classes} | own))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    miniature_model("global_state").save_pretrained(tmp_path / "run")
    miniature_processor().save_pretrained(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **SIZES)
    ContextualBertForSequenceClassification(config).save_pretrained(tmp_path / "texts")
    miniature_text_processor().save_pretrained(tmp_path / "texts")
    return tmp_path / "texts"


def test_a_run_with_code_beside_it_loads_without_its_code(run: Path, texts: Path) -> None:
    before: Any = CompletionPipeline.from_pretrained(run)({"items": ["item-1"]})
    assert CompletionPipeline.from_pretrained(with_code(run))({"items": ["item-1"]}) == before
    assert TextPipeline.from_pretrained(with_code(texts))({"text": "word1"})
    assert not [*run.glob("it-ran"), *texts.glob("it-ran")]


@pytest.mark.parametrize("model_type", ["evil", "contextual_evil"])
def test_a_kind_of_model_that_needs_its_code_is_refused_in_words(run: Path, texts: Path, model_type: str) -> None:
    for folder, load in ((run, CompletionPipeline.from_pretrained), (texts, TextPipeline.from_pretrained)):
        with pytest.raises(ContextualBertError, match=r"code of its own \(auto_map\), which is never done"):
            load(with_code(folder, model_type=model_type))
        with pytest.raises(CheckpointError, match=r"code of its own \(auto_map\), which is never done"):
            found_config(folder, {})
        with pytest.raises(CheckpointError, match="code of its own"):
            load_tokenizer(folder)
        assert own_config(folder) is None
        with pytest.raises(CheckpointError, match="is of model_type"):
            ContextualBertForMaskedLM.from_pretrained(folder)
        assert not [*folder.glob("it-ran")]


def test_a_tokenizer_that_needs_its_code_is_refused_or_loads_without(texts: Path) -> None:
    path = with_code(texts) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "Fast"}))
    try:
        assert TextPipeline.from_pretrained(texts)({"text": "word1"})
    except ContextualBertError as error:
        assert "trust_remote_code" not in str(error)
    assert not [*texts.glob("it-ran")]


def test_nobody_can_ask_for_it(run: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="trust_remote_code=True is not allowed: code beside a model is never run"
    ):
        ContextualBertProcessor.from_pretrained(with_code(run), trust_remote_code=True)
    assert ContextualBertProcessor.from_pretrained(run, trust_remote_code=False).items
    assert not [*run.glob("it-ran")]


def test_a_kernel_of_the_hub_is_code_too(run: Path) -> None:
    with pytest.raises(ContextualBertError, match="'evil/attention', code from the Hub, which is never run"):
        CompletionPipeline.from_pretrained(with_code(run, attn_implementation="evil/attention"))
