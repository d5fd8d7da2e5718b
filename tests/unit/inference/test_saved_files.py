"""Folders of models whose files do not belong together: refused, with and without a manifest, never another answer."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.queries import TrainedSets
from contextual_bert.inference.saved_files import trained_sets
from contextual_bert.manifest import write_manifest
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.testing import miniature_model, miniature_processor


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "copy")


LONG = '{"a": ' + "9" * 5_000 + "}"


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), encoding="utf-8")


def with_field(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda content: content | {name: value}


@pytest.mark.parametrize("change", [1, -1], ids=["more", "fewer"])
def test_another_number_of_blocks_is_refused(folder: Path, change: int) -> None:
    number = json.loads((folder / "config.json").read_text())["num_hidden_layers"]
    edit(folder / "config.json", with_field("num_hidden_layers", number + change))
    with pytest.raises(
        RunDirectoryError, match=r"(lacks weights of the model|has weights that the model does not), bert\.enc"
    ):
        CompletionPipeline.from_pretrained(folder)


@pytest.mark.parametrize("conditioning", ["none", "concat", "global_state", "film"])
def test_another_conditioning_is_refused(folder: Path, conditioning: str) -> None:
    edit(folder / "config.json", with_field("conditioning", conditioning))
    with pytest.raises(RunDirectoryError):
        CompletionPipeline.from_pretrained(folder)


def test_weights_that_are_superfluous_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.9.output.dense.weight"] = next(iter(weights.values())).clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RunDirectoryError, match=r"has weights that the model does not, bert\.encoder\.layer\.9"):
        CompletionPipeline.from_pretrained(folder)


def vocabulary_with(change: Callable[[dict[str, int]], None]) -> Callable[[Any], Any]:
    def changed(content: Any) -> Any:
        change(content["model"]["vocab"])
        return content

    return changed


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda ids: ids.update({[*ids][5]: ids[[*ids][4]]}), "have the same id"),
        (lambda ids: ids.update({[*ids][5]: None}), "None is no whole number"),
        (lambda ids: ids.update({"one more": len(ids)}), "items and its model"),
        (lambda ids: ids.pop([*ids][-1]), "items and its model"),
    ],
    ids=["double", "null", "more", "fewer"],
)
def test_a_vocabulary_that_is_not_the_models_is_refused(folder: Path, change: Any, problem: str) -> None:
    edit(folder / "tokenizer.json", vocabulary_with(change))
    with pytest.raises(RunDirectoryError, match=problem):
        CompletionPipeline.from_pretrained(folder)


def test_an_item_that_stands_twice_is_refused(folder: Path, names: list[str]) -> None:
    path = folder / "tokenizer.json"
    first = json.dumps(names[0])
    text = path.read_text("utf-8")
    assert text.count(f"{first}:") == 1
    path.write_text(text.replace(f"{first}:", f"{first}: 5, {first}:"), encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"tokenizer\.json has the key .* twice"):
        CompletionPipeline.from_pretrained(folder)


def test_only_the_manifest_knows_the_order_of_items(folder: Path) -> None:
    def swap(ids: dict[str, int]) -> None:
        first, second = [*ids][4:6]
        ids[first], ids[second] = ids[second], ids[first]

    write_manifest(folder)
    CompletionPipeline.from_pretrained(folder)
    edit(folder / "tokenizer.json", vocabulary_with(swap))
    with pytest.raises(RunDirectoryError, match=r"tokenizer\.json differs from manifest\.json"):
        CompletionPipeline.from_pretrained(folder)


@pytest.mark.parametrize("name", ["config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "text", ["null", "[]", "3", '"x"', "[" * 100_000, '{"a": ' + "9" * 5_000 + "}"], ids=str.__len__
)
def test_what_is_no_object_is_named(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=name.replace(".", r"\.")):
        CompletionPipeline.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("hidden_size", 10**9),
        ("vocab_size", 10**12),
        ("intermediate_size", 10**9),
        ("max_position_embeddings", 10**12),
        ("num_attention_heads", 10**9),
        ("type_vocab_size", 10**9),
    ],
)
def test_sizes_that_no_machine_holds_are_refused_before_anything_is_built(folder: Path, name: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=1.*at most"):
        ContextualBertConfig(**{name: value})
    edit(folder / "config.json", with_field(name, value))
    with pytest.raises(RunDirectoryError, match=f"{name}=1"):
        CompletionPipeline.from_pretrained(folder)


def test_weights_that_the_machine_has_no_memory_for_are_refused() -> None:
    config = ContextualBertConfig(vocab_size=50, hidden_size=2**17, num_hidden_layers=900, num_attention_heads=8)
    with pytest.raises(ConfigurationError, match=r"GiB, and this machine has .* GiB\. Give smaller sizes\."):
        ContextualBertForMaskedLM(config)


def test_saved_weights_have_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        miniature_model("none").save_pretrained(tmp_path)
        miniature_processor().save_pretrained(tmp_path)
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()}
    assert {*modes.values()} == {"0o640"}, modes


def test_a_file_that_may_not_be_read_is_not_called_damaged(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    (folder / "model.safetensors").chmod(0o600)
    for each in (folder, *folder.parents):
        if each != Path("/") and each.stat().st_uid == 0:
            each.chmod(each.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        with pytest.raises(RunDirectoryError, match=r"model\.safetensors cannot be read: Permission denied") as raised:
            CompletionPipeline.from_pretrained(folder)
        assert "damaged" not in str(raised.value)
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("value", [[[]], [{}], [{"a": None}], [3], [None], "x", 7, {"a": []}], ids=str)
def test_architectures_of_another_type_are_refused(folder: Path, value: Any) -> None:
    (folder / "manifest.json").unlink(missing_ok=True)
    edit(folder / "config.json", with_field("architectures", value))
    with pytest.raises(RunDirectoryError):
        CompletionPipeline.from_pretrained(folder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"recipe": {"task": {"policy": {"separator": [1]}}}}', "[]", "null", "7"]
)
def test_a_record_that_says_nothing_leaves_how_sets_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "recipe.json").write_text(text)
    assert trained_sets(tmp_path) == TrainedSets()


@pytest.mark.parametrize("value", [True, -1, 0, "9", [3], 1.5], ids=str)
def test_a_largest_set_of_another_type_is_none(tmp_path: Path, value: Any) -> None:
    (tmp_path / "recipe.json").write_text(json.dumps({"resolved": {"largest_set": value}}))
    assert trained_sets(tmp_path).largest is None
