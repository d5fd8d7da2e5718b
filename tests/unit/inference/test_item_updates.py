import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from typer.testing import CliRunner

from contextual_bert.context import ContextSchema, Vocabulary
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, SchemaError, UnknownNameError
from contextual_bert.folder_lock import LOCK_FILE, locked_folder
from contextual_bert.inference import BulkSettings, CompletionPipeline, complete_table, item_updates
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.exported import OnnxCompletionPipeline, export_onnx
from contextual_bert.inference.item_schema import infer_item_schema
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.inference.item_updates import change_catalogue
from contextual_bert.inference.tables.ray_completion import CompletionJob
from contextual_bert.inference.tables.set_shards import SetShardPlan
from contextual_bert.inference.tables.shard_worker import ShardJob, ShardWorker
from contextual_bert.item_features import ItemLayout
from contextual_bert.manifest import check_manifest, write_manifest
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing import miniature_model, miniature_processor
from contextual_bert_cli.main import app

ITEMS = ["coat", "hat", "bag", "belt"]
SHOP = {
    "id": ITEMS,
    "colour": ["red", "blue", "red", "blue"],
    "size": ["s", "s", "l", "l"],
}
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
QUERY = {"items": ["coat", "[MASK]"]}


def saved(folder: Path, *, has_features: bool = True, columns: dict[str, list] = SHOP) -> Path:
    torch.manual_seed(0)
    processor = ContextualBertProcessor.from_items(ITEMS)
    fields: dict = {"vocab_size": 7, "softmax_over": "candidates", **SIZES}
    if has_features:
        shop = Catalogue(pa.table(columns), processor.items)
        schema: ContextSchema = infer_item_schema(shop).schema
        items = encode_catalogue(shop, schema, processor.items)
        processor = processor.with_item_schema(schema)
        layout = ItemLayout(schema.layout, num_places=items.value_ids.shape[1])
        model = ContextualBertForMaskedLM(ContextualBertConfig(item_features=layout.to_dict(), **fields))
        model.bert.embeddings.attributes.fill(items, is_new=torch.zeros(4, dtype=torch.bool))
    else:
        model = ContextualBertForMaskedLM(ContextualBertConfig(**fields))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    (folder / "README.md").write_text("# A run\n", encoding="utf-8")
    write_manifest(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return saved(tmp_path / "run")


def table(path: Path, **columns: list) -> Path:
    Path(path).write_text(
        "\n".join(",".join(str(value) for value in row) for row in [[*columns], *zip(*columns.values(), strict=True)]),
        encoding="utf-8",
    )
    return path


@contextmanager
def other_process_in(folder: Path) -> Generator[None]:
    """Another process that holds the lock of a folder."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with locked_folder(folder):
            os.write(writing, b"held")
            signal.pause()
        os._exit(0)
    assert os.read(reading, 4) == b"held"
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def best(folder: Path, query: dict = QUERY, **settings: object) -> dict[str, float]:
    pipeline = CompletionPipeline.from_pretrained(folder, device="cpu", **settings)
    slot = pipeline(query, top_k=20)["slots"][0]
    return {each["item"]: each["probability"] for each in slot["candidates"]}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_added_items_are_known_by_their_features_and_the_run_is_left_alone(run: Path, tmp_path: Path) -> None:
    before, was = contents(run), best(run)
    new = table(tmp_path / "new.csv", id=["scarf", "shawl", "hat"], colour=["red", "red", "red"], size=["s", "s", "l"])
    change = change_catalogue(run, tmp_path / "next", action="add", catalogue=new)
    assert (change.added, change.updated, change.kept) == (("scarf", "shawl"), (), 1)
    assert contents(run) == before
    now = best(tmp_path / "next")
    assert set(now) == {*was, "scarf", "shawl"}
    assert now["scarf"] == pytest.approx(now["shawl"])
    ratios = [now[item] / was[item] for item in was]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-5)  # known items keep their scores
    check_manifest(tmp_path / "next")
    assert "2 items added" in (tmp_path / "next" / "README.md").read_text("utf-8")


def test_updated_items_have_the_features_of_the_catalogue(run: Path, tmp_path: Path) -> None:
    other = table(tmp_path / "other.csv", id=["bag", "hat"], colour=["blue", "blue"], size=["s", "s"])
    change = change_catalogue(run, tmp_path / "next", action="update", catalogue=other)
    assert set(change.updated) == {"bag", "hat"} and not change.added
    model = CompletionPipeline.from_pretrained(tmp_path / "next", device="cpu").model
    values = model.bert.embeddings.attributes.value_ids
    assert torch.equal(values[5], values[4])  # the bag is now what the hat is
    assert best(tmp_path / "next")["bag"] != pytest.approx(best(run)["bag"])


def test_removed_items_are_never_proposed_and_still_understood(run: Path, tmp_path: Path) -> None:
    change = change_catalogue(run, tmp_path / "next", action="remove", items=["hat"])
    assert change.removed == ("hat",)
    assert "hat" in best(run) and "hat" not in best(tmp_path / "next")
    asked = {"items": ["hat", "[MASK]"]}
    assert best(tmp_path / "next", asked) == pytest.approx(best(run, asked))  # it says the same in a set
    back = table(tmp_path / "back.csv", id=["hat"], colour=["blue"], size=["s"])
    again = change_catalogue(tmp_path / "next", tmp_path / "again", action="add", catalogue=back)
    assert again.added == ("hat",)
    assert best(tmp_path / "again") == pytest.approx(best(run))


def test_an_export_of_a_changed_run_knows_and_removes_the_same(run: Path, tmp_path: Path) -> None:
    new = table(tmp_path / "new.csv", id=["scarf"], colour=["red"], size=["s"])
    change_catalogue(run, tmp_path / "more", action="add", catalogue=new)
    change_catalogue(tmp_path / "more", tmp_path / "less", action="remove", items=["bag"])
    export_onnx(tmp_path / "less", tmp_path / "onnx", top_k=8)
    slot = OnnxCompletionPipeline.from_pretrained(tmp_path / "onnx")(QUERY, top_k=8)["slots"][0]
    found = {each["item"]: each["probability"] for each in slot["candidates"]}
    assert set(found) == {"hat", "belt", "scarf"}
    shop = pa.table({"id": ["hat", "shawl"], "colour": ["red", "red"], "size": ["s", "l"]})
    notes = OnnxCompletionPipeline.from_pretrained(tmp_path / "onnx", catalogue=shop).notes()
    assert any("An export knows the items of its run alone" in note for note in notes)
    assert found == pytest.approx(best(tmp_path / "less"), rel=1e-4)


def test_a_catalogue_beside_a_run_makes_its_new_items_known(run: Path, tmp_path: Path) -> None:
    new = table(tmp_path / "new.csv", id=["scarf", "hat"], colour=["red", "blue"], size=["s", "s"], price=[3, 4])
    pipeline = CompletionPipeline.from_pretrained(run, device="cpu", catalogue=new)
    answer = pipeline({**QUERY, "max_price": 3.5}, top_k=5)["slots"][0]["candidates"]
    assert [each["item"] for each in answer] == ["scarf"]
    assert any("known by their features alone: 1 item of the" in note for note in pipeline.catalogue.notes())
    plain = saved(tmp_path / "plain", has_features=False)
    lacking = CompletionPipeline.from_pretrained(plain, device="cpu", catalogue=new)
    assert lacking.catalogue.unknown_items == ("scarf",)
    narrow = table(tmp_path / "narrow.csv", id=["scarf", "hat"], price=[3, 4])
    without = CompletionPipeline.from_pretrained(run, device="cpu", catalogue=narrow)
    assert without.catalogue.unknown_items == ("scarf",)
    assert any("it lacks colour, size" in note for note in without.catalogue.notes())
    assert not any("it lacks" in note for note in lacking.catalogue.notes())


def test_values_that_training_never_saw_are_told(run: Path, tmp_path: Path) -> None:
    new = table(tmp_path / "new.csv", id=["scarf", "shawl"], colour=["mauve", "mauve"], size=["s", "l"])
    change = change_catalogue(run, tmp_path / "next", action="add", catalogue=new)
    assert any("'mauve' (2)" in line for line in change.lines())
    both = table(tmp_path / "both.csv", id=["scarf", "hat"], colour=["mauve", "pink"], size=["s", "l"])
    shop = CompletionPipeline.from_pretrained(run, device="cpu", catalogue=both).catalogue
    (told,) = [note for note in shop.notes() if "no item of the training has" in note]
    assert "'mauve' (1)" in told and "pink" not in told  # of the hat nothing is read anew
    assert "pink" not in str(change_catalogue(run, tmp_path / "both", action="add", catalogue=both).lines())
    assert "pink" in str(change_catalogue(run, tmp_path / "anew", action="update", catalogue=both).lines())


@pytest.mark.parametrize("action", ["add", "update"])
def test_a_run_without_features_is_refused(tmp_path: Path, action: str) -> None:
    plain = saved(tmp_path / "plain", has_features=False)
    new = table(tmp_path / "new.csv", id=["scarf"], colour=["red"], size=["s"])
    with pytest.raises(ConfigurationError, match="no features of its items") as caught:
        change_catalogue(plain, tmp_path / "next", action=action, catalogue=new)
    assert str(caught.value.place.path) == str(plain)
    assert not (tmp_path / "next").exists()
    assert change_catalogue(plain, tmp_path / "less", action="remove", items=["hat"]).removed == ("hat",)


def test_a_faulty_change_writes_nothing(run: Path, tmp_path: Path) -> None:
    before = contents(run)
    lacking = table(tmp_path / "lacking.csv", id=["scarf"], colour=["red"])
    with pytest.raises(SchemaError, match="size"):
        change_catalogue(run, tmp_path / "next", action="add", catalogue=lacking)
    with pytest.raises(UnknownNameError, match="'hta'") as caught:
        change_catalogue(run, tmp_path / "next", action="remove", items=["hta"])
    assert "hat" in str(caught.value)
    with pytest.raises(ConfigurationError, match="catalogue or items"):
        change_catalogue(run, tmp_path / "next", action="remove")
    assert not (tmp_path / "next").exists()
    with pytest.raises(ConfigurationError, match="is there already"):
        change_catalogue(run, run, action="remove", items=["hat"])
    assert contents(run) == before


def test_a_vocabulary_keeps_its_ids_when_items_are_added(run: Path, tmp_path: Path) -> None:
    new = table(tmp_path / "new.csv", id=["aaa"], colour=["red"], size=["s"])
    change_catalogue(run, tmp_path / "next", action="add", catalogue=new)
    found: Vocabulary = ContextualBertProcessor.from_pretrained(tmp_path / "next").items
    assert found.values == (*ITEMS, "aaa")


def test_files_of_here_and_of_a_worker_know_the_items_that_a_catalogue_adds(run: Path, tmp_path: Path) -> None:
    shop = pa.table({"id": ["scarf", "hat"], "colour": ["red", "blue"], "size": ["s", "s"]})
    sets = pa.table({"items": [["coat", "[MASK]"], ["scarf"]]})
    pipeline = CompletionPipeline.from_pretrained(run, device="cpu", catalogue=shop)
    settings = BulkSettings(top_k=9)
    report = complete_table(pipeline, sets, tmp_path / "here", settings=settings, shard_size=1)
    assert any("1 of 3 items is new to the model" in line for line in report.lines())
    assert any("known by their features alone: 1 item of the catalogue" in line for line in report.lines())
    plan = SetShardPlan(pipeline, sets, tmp_path / "there", settings=settings, shard_size=1)
    plan.output.mkdir()
    (plan.output / "_manifest.json").write_text(plan.manifest, encoding="utf-8")
    worker = ShardWorker(ShardJob(CompletionJob(str(run), settings, shop), str(plan.output), plan.manifest, "cpu"))
    for number in range(2):
        assert worker.answer(number, plan.rows(number))["error"] is None
        name = f"part-{number:05}.parquet"
        (row,) = parquet.read_table(plan.output / name).to_pylist()
        assert row["is_new"] == [each == "scarf" for each in row["candidates"]]
        assert (plan.output / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


@pytest.mark.slow
def test_an_export_says_that_its_run_is_another_one_now_and_is_refreshed(run: Path, tmp_path: Path) -> None:
    export_onnx(run, run / "onnx", top_k=3)
    assert OnnxCompletionPipeline(run / "onnx").notes() == []
    new = table(tmp_path / "new.csv", id=["scarf", "shawl"], colour=["red", "red"], size=["s", "l"])
    change_catalogue(run, tmp_path / "more", action="add", catalogue=new)
    change_catalogue(tmp_path / "more", tmp_path / "less", action="remove", items=["bag"])
    moved = tmp_path / "elsewhere"
    shutil.copytree(run / "onnx", moved / "onnx")  # without its run
    assert OnnxCompletionPipeline(moved / "onnx").notes() == []
    for path in (tmp_path / "less").iterdir():
        shutil.copyfile(path, run / path.name)
    (note,) = OnnxCompletionPipeline(run / "onnx").notes()
    assert f"exported from {run}, which holds another model now (2 items more, 1 item proposed no more)" in note
    assert note.endswith(f"contextual-bert export {run} --output {run / 'onnx'} --top 3.")
    shown = CliRunner().invoke(app, ["complete", str(run / "onnx"), "--set", "coat,[MASK]", "--top", "2"])
    assert shown.exit_code == 0 and "holds another model now" in " ".join(shown.stderr.split()), shown.output
    export_onnx(run, run / "onnx", top_k=3)
    assert OnnxCompletionPipeline(run / "onnx").notes() == []

    shutil.rmtree(moved)
    shutil.copytree(saved(tmp_path / "other", has_features=False), moved)
    shutil.copytree(run / "onnx", moved / "onnx")  # into the folder of another run
    (note,) = OnnxCompletionPipeline(moved / "onnx").notes()
    assert f"exported from {moved}, which holds another model now (2 items fewer, 1 item proposed again)" in note
    (moved / "tokenizer.json").unlink()
    assert OnnxCompletionPipeline(moved / "onnx").notes() == []  # no run: the export answers by itself


@pytest.mark.slow
def test_an_export_over_another_one_leaves_none_of_its_graphs(run: Path, tmp_path: Path) -> None:
    other = CompletionPipeline(miniature_model("global_state"), miniature_processor())
    export_onnx(other, tmp_path / "onnx", top_k=3)
    assert (tmp_path / "onnx" / "context.onnx").is_file()
    export_onnx(run, tmp_path / "onnx", top_k=3)
    assert not list((tmp_path / "onnx").glob("context.onnx*"))
    assert OnnxCompletionPipeline(tmp_path / "onnx")(QUERY, top_k=1)["slots"]


def test_a_folder_that_another_process_writes_to_is_left_to_it(run: Path, tmp_path: Path) -> None:
    before = contents(run)
    for folder in (run, tmp_path / "next"):
        with other_process_in(folder), pytest.raises(RunDirectoryError, match=r"in use: process .* writes to it"):
            change_catalogue(run, tmp_path / "next", action="remove", items=["hat"])
    (run / LOCK_FILE).unlink()  # of the process that was killed
    assert contents(run) == before and not (tmp_path / "next" / "config.json").exists()
    (tmp_path / "next" / ".partial-1").mkdir()  # of one that was ended
    assert change_catalogue(run, tmp_path / "next", action="remove", items=["hat"]).removed == ("hat",)
    with pytest.raises(ConfigurationError, match="is there already"):
        change_catalogue(run, tmp_path / "next", action="remove", items=["bag"])


def test_a_run_that_becomes_another_one_meanwhile_is_told_and_nothing_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = saved(tmp_path / "other", has_features=False)
    load = item_updates.load_item_model

    def load_and_train_again(folder: Path) -> Any:
        found = load(folder)
        for path in other.iterdir():
            shutil.copyfile(path, run / path.name)
        return found

    monkeypatch.setattr(item_updates, "load_item_model", load_and_train_again)
    with pytest.raises(RunDirectoryError, match="was changed while it was read"):
        change_catalogue(run, tmp_path / "next", action="remove", items=["hat"])
    assert not (tmp_path / "next").exists()


@pytest.mark.slow
def test_of_two_changes_at_once_one_is_written_and_the_other_is_refused(run: Path, tmp_path: Path) -> None:
    (run / "recipe.json").write_text('{"recipe": {}}', encoding="utf-8")
    begin = [sys.executable, "-m", "contextual_bert_cli.main", "catalogue", "remove", str(run), "--output"]
    began = [
        subprocess.Popen([*begin, str(tmp_path / "next"), "--item", item], stderr=subprocess.PIPE, text=True)
        for item in ("hat", "bag", "belt")
    ]
    told = [each.communicate(timeout=300)[1] for each in began]
    codes = [each.returncode for each in began]
    assert sorted(codes) == [0, 2, 2], told
    for code, words in zip(codes, told, strict=True):
        said = " ".join(words.split())
        assert code == 0 or "is in use" in said or "is there already" in said
        assert "Traceback" not in words
    winner = ("hat", "bag", "belt")[codes.index(0)]
    assert {*best(run)} - {*best(tmp_path / "next")} == {winner}
    check_manifest(tmp_path / "next")
    assert not list((tmp_path / "next").glob(".*"))


@pytest.mark.parametrize(
    ("names", "pictures", "told"),
    [
        (
            ["hat", "scarf"],
            [[1.0, 2.0], [1.0, 2.0, 3.0]],
            "row 2, column 'picture': the vector has 3 components, not 2",
        ),
        (["hat", "scarf", "scarf"], [[1.0, 2.0], [1.0, 0.0], [0.0, 1.0]], "row 3, column 'id': 'scarf' was in row 2"),
        (["hat", "hat"], [[1.0, 2.0], [0.0, 1.0]], "row 2, column 'id': 'hat' was in row 1"),
        (["hat", "scarf"], ["a picture", "another"], "column 'picture'"),
    ],
    ids=["another length", "new, twice", "known, twice", "no vectors"],
)
def test_a_faulty_catalogue_is_one_error_wherever_it_is_given(
    names: list[str], pictures: list, told: str, tmp_path: Path
) -> None:
    pictured = {**SHOP, "picture": [[1.0, 0.0], [0.5, 2.0], [0.0, 1.0], [2.0, 2.0]]}
    run = saved(tmp_path / "run", columns=pictured)
    before = contents(run)
    same = {"colour": ["red"] * len(names), "size": ["s"] * len(names)}
    parquet.write_table(pa.table({"id": names, **same, "picture": pictures}), tmp_path / "shop.parquet")
    for action in ("add", "update"):
        with pytest.raises((DataError, SchemaError), match=re.escape(told)):
            change_catalogue(run, tmp_path / "next", action=action, catalogue=tmp_path / "shop.parquet")
        assert not (tmp_path / "next").exists() and contents(run) == before
    with pytest.raises((DataError, SchemaError), match=re.escape(told)):
        CompletionPipeline.from_pretrained(run, device="cpu", catalogue=tmp_path / "shop.parquet")
