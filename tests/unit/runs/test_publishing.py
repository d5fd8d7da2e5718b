"""Runs on the Hub: what is sent answers as the run does, and says nothing of this machine."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from contextual_bert import CompletionPipeline
from contextual_bert.errors import ConfigurationError, ContextualBertError, RunDirectoryError
from contextual_bert.manifest import check_manifest
from contextual_bert.runs import SetCompletionTask, as_row
from contextual_bert.runs.publishing import check_repository, publish_run, published_files, stage_run, without_paths
from contextual_bert.runs.run_directory import load_recipe
from contextual_bert.runs.runner import run
from contextual_bert.training import Classification, Recipe, SetCompletion
from tests.hub_stand_in import TOKEN, Hub, hub_stand_in

REPOSITORY = "my-shop/outfits"


@pytest.fixture(scope="module")
def trained(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "private-name" / "gsu"
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 1})
    run(as_row(recipe, "global_state_update"), folder, prepared=tiny_data, is_quiet=True)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_stand_in() as found:
        monkeypatch.setattr(constants, "ENDPOINT", found.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield found


def answers_of(folder: Path) -> object:
    return CompletionPipeline.from_pretrained(folder)({"items": ["[MASK]"], "context": {"age": 30}})


def test_what_is_sent_answers_as_the_run(trained: Path, hub: Hub, tmp_path: Path) -> None:
    assert publish_run(trained, REPOSITORY, token=TOKEN) == f"{hub.address}/{REPOSITORY}"
    assert hub.repositories == {REPOSITORY: True}
    sent = hub.files[REPOSITORY]
    assert {*sent} == {*published_files(trained), "manifest.json"} >= {"README.md", "model.safetensors", "schema.json"}
    assert not {"test_scores.safetensors", "checkpoints", "tensorboard"} & {*sent}
    for name, content in sent.items():
        (tmp_path / name).write_bytes(content)
    check_manifest(tmp_path)
    assert answers_of(tmp_path) == answers_of(trained)
    assert load_recipe(tmp_path).conditioning == "global_state_update"
    publish_run(trained, REPOSITORY, is_private=False, token=TOKEN)
    assert hub.repositories == {REPOSITORY: True}, "one that is there stays what it is"
    publish_run(trained, "my-shop/open", is_private=False, token=TOKEN)
    assert hub.repositories["my-shop/open"] is False


def test_no_folder_of_this_machine_is_named(trained: Path, tiny_data: SetCompletionTask, tmp_path: Path) -> None:
    for name in stage_run(trained, tmp_path):
        content = (tmp_path / name).read_bytes()
        for folder in (trained, Path(tiny_data.recipe.data)):
            assert str(folder.parent).encode() not in content, name
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert recipe["recipe"]["data"] == "outfits.parquet"
    assert recipe["resolved"]["training"]["output_dir"] == "checkpoints"
    assert {**json.loads((trained / "schema.json").read_text())} == json.loads((tmp_path / "schema.json").read_text())


def test_each_path_of_a_recipe_keeps_its_last_part_and_names_on_the_hub_stay() -> None:
    sets = Recipe(
        data="/ann/sets.csv",
        test_data="/ann/later/sets-2.csv",
        task=SetCompletion(items="items", catalogue="/ann/shop.csv", init_from="/ann/runs/before"),
    )
    found = without_paths({"recipe": sets.to_dict(), "resolved": {"lines": ["items of /ann/shop.csv"]}}, sets)
    assert "/ann" not in json.dumps(found)
    assert found["recipe"]["task"]["catalogue"] == "shop.csv" and found["recipe"]["test_data"] == "sets-2.csv"
    assert found["recipe"]["task"]["init_from"] == "before" and found["resolved"]["lines"] == ["items of shop.csv"]
    texts = Recipe(
        data="texts.csv", task=Classification(text="text", label="label", checkpoint="google/bert_uncased_L-2")
    )
    assert without_paths({"recipe": texts.to_dict()}, texts)["recipe"] == texts.to_dict()


@pytest.mark.parametrize("name", ["outfits", "a/b/c", "my shop/outfits", "my-shop/", "/outfits", "", "a--b/c"])
def test_what_is_no_repository(name: str, trained: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_repository(name)
    assert "OWNER/NAME" in caught.value.fix
    with pytest.raises(ConfigurationError, match="is no repository"):
        publish_run(trained, name, token=TOKEN)


def test_a_hub_that_does_not_take_it(trained: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="401") as caught:
        publish_run(trained, REPOSITORY, token="hf_of_somebody_else")
    assert "hf auth login" in caught.value.fix and not hub.files
    hub.failing_with = 500
    with pytest.raises(ContextualBertError, match="answers 500"):
        publish_run(trained, REPOSITORY, token=TOKEN)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ContextualBertError, match=r"The Hub at http://127\.0\.0\.1:9 is not reached"):
        publish_run(trained, REPOSITORY, token=TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match="HF_HUB_OFFLINE is set"):
        publish_run(trained, REPOSITORY, token=TOKEN)


def test_only_a_whole_run_is_sent(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError):
        published_files(tmp_path)
    stage_run(trained, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"config\.json"):
        published_files(tmp_path)
