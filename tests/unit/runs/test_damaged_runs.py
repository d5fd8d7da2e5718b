"""Run directories that were damaged at random: the same answers as before or one structured error, and nothing else."""

import json
import random
import shutil
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import CompletionPipeline, TextPipeline
from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.errors import ContextualBertError
from contextual_bert.manifest import MANIFEST_FILE
from contextual_bert.runs import SetCompletionTask, load_run, prepare, run
from contextual_bert.runs.run_directory import best_weights, is_trained, load_history, load_recipe
from contextual_bert.runs.study_report import load_report
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, Recipe

Ask = Callable[[Path], Any]
VALUES = (None, [], {}, "", "x", -1, 0, 1e308, 10**9, True, [[]], {"a": None})
SECONDS = 60


def ask_sets(folder: Path) -> Any:
    pipeline = CompletionPipeline.from_pretrained(folder, device="cpu")
    items = pipeline.processor.items.values
    return pipeline({"items": [items[0], "[MASK]", items[5]], "context": {}}, top_k=5)


def ask_texts(folder: Path) -> Any:
    return TextPipeline.from_pretrained(folder, device="cpu")({"text": "word1 word2 word5", "context": {"sex": "f"}})


LOADERS: dict[str, Ask] = {
    "recipe": load_recipe,
    "scores": lambda folder: load_run(folder, name="run").scores.log_probability.tolist(),
    "report": lambda folder: load_report(folder).to_json(),
    "history": load_history,
    "schema": lambda folder: ContextSchema.load(folder / "schema.json"),
    "split": lambda folder: Split.load(folder / "split.json").digest,
}


@pytest.fixture(scope="module")
def runs(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of sets, one of texts that started from a BERT, and one of a baseline that reads a context."""
    parent = tmp_path_factory.mktemp("runs")
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 1})
    run(recipe, parent / "sets", prepared=tiny_data, is_quiet=True)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **sizes))
    miniature_checkpoint(drawn_anew(bert), parent / "bert")
    rows = range(80)
    table = {
        "text": [f"word{row % 18} word{row % 7} word{row % 5}" for row in rows],
        "sex": ["fm"[row % 2] for row in rows],
        "verdict": [("bad", "good")[row % 3 % 2] for row in rows],
    }
    pq.write_table(pa.table(table), parent / "texts.parquet")
    task = Classification(checkpoint=str(parent / "bert"), text="text", label="verdict")
    texts = Recipe(
        data=str(parent / "texts.parquet"), task=task, training={"num_train_epochs": 1}, device="cpu", test=0.2
    )
    ready = prepare(texts)
    for name, conditioning in {"texts": "global_state", "baseline": "cnn_context"}.items():
        run(replace(texts, conditioning=conditioning), parent / name, prepared=ready, is_quiet=True)
    for folder in (parent / name for name in ("sets", "texts", "baseline")):
        for unread in ("checkpoints", "tensorboard"):
            shutil.rmtree(folder / unread)
    return {name: parent / name for name in ("sets", "texts", "baseline")}


def answers(folder: Path, ask: Ask) -> dict[str, str]:
    """What each loader of a run makes of its folder: an answer, or the class of its error."""
    found: dict[str, str] = {}
    for name, load in {"answer": ask, **LOADERS}.items():
        try:
            found[name] = repr(load(folder))
        except ContextualBertError as error:
            assert str(error).strip()
            found[name] = "refused"
    return found


@contextmanager
def at_most(seconds: int) -> Generator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, child in inner for each in paths_of(child, (*path, key)))]


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return content


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def exchange_value(path: Path, chance: random.Random) -> None:
    if path.suffix != ".json":
        flip(path, chance)
        return
    content = json.loads(path.read_text("utf-8"))
    place, value = chance.choice(paths_of(content)), chance.choice(VALUES)
    path.write_text(json.dumps(with_value(content, place, value)), encoding="utf-8")


def remove_key(path: Path, chance: random.Random) -> None:
    if path.suffix != ".json":
        path.unlink()
        return
    content = json.loads(path.read_text("utf-8"))
    *place, last = chance.choice([each for each in paths_of(content) if each] or [("absent",)])
    holder = content
    for key in place:
        holder = holder[key]
    if isinstance(holder, list) or last in holder:
        del holder[last]
    path.write_text(json.dumps(content), encoding="utf-8")


def nest(path: Path, chance: random.Random) -> None:
    path.write_text("[" * chance.choice((10, 5_000, 200_000)), encoding="utf-8")


def lengthen(path: Path, chance: random.Random) -> None:
    path.write_text('{"a": ' + "7" * chance.choice((10, 5_000)) + "}", encoding="utf-8")


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def rename(path: Path, chance: random.Random) -> None:
    path.rename(path.with_name(f"{path.name}{chance.choice(('.bak', '~', '.json'))}"))


def swap(path: Path, chance: random.Random) -> None:
    other = chance.choice([each for each in path.parent.iterdir() if each != path])
    kept = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def make_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def swap_words(path: Path, chance: random.Random) -> None:
    """Two words of the vocabulary change their ids, or have the same one."""
    path = path.with_name("tokenizer.json")
    content = json.loads(path.read_text("utf-8"))
    vocabulary = content["model"]["vocab"]
    first, second = chance.sample(sorted(vocabulary), 2)
    ids = vocabulary[first], vocabulary[second]
    vocabulary[first], vocabulary[second] = ids[1], chance.choice(ids)
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def change_config(path: Path, chance: random.Random) -> None:
    """A field of the model's settings has another value of its type."""
    path = path.with_name("config.json")
    if not path.exists():
        flip(path.with_name("baseline.json"), chance)
        return
    changes = {
        "num_hidden_layers": (1, 3, 900, 10**9),
        "hidden_size": (8, 32, 10**9),
        "vocab_size": (5, 10**9, 10**12),
        "num_attention_heads": (1, 3, 16),
        "conditioning": ("none", "concat", "film", "global_state_update", "no method"),
        "layer_norm_eps": (0.5,),
        "hidden_act": ("relu", "no act"),
    }
    name = chance.choice(sorted(changes))
    content = json.loads(path.read_text("utf-8")) | {name: chance.choice(changes[name])}
    path.write_text(json.dumps(content), encoding="utf-8")


MUTATIONS = (
    flip, cut, exchange_value, exchange_value, remove_key, nest, lengthen, remove, rename, swap, make_folder,
    swap_words, change_config,
)  # fmt: skip


def check_damaged(runs: dict[str, Path], tmp_path: Path, seeds: range) -> None:
    asks: dict[str, Ask] = {"sets": ask_sets, "texts": ask_texts, "baseline": ask_texts}
    expected = {name: answers(folder, asks[name]) for name, folder in runs.items()}
    assert "refused" not in {each for found in expected.values() for each in found.values()}
    num_refused = 0
    for seed in seeds:
        chance = random.Random(seed)
        name = chance.choice(sorted(runs))
        folder = tmp_path / f"{seed}"
        shutil.copytree(runs[name], folder)
        has_manifest = chance.random() < 0.7
        if not has_manifest:
            (folder / MANIFEST_FILE).unlink()
        mutate = chance.choice(MUTATIONS)
        path = chance.choice(sorted(folder.iterdir()))
        mutate(path, chance)
        place = f"seed {seed}: {mutate.__name__} of {path.name} of {name}, manifest: {has_manifest}"
        try:
            with at_most(SECONDS):
                found = answers(folder, asks[name])
        except Exception as error:
            error.add_note(place)
            raise
        if has_manifest and (folder / MANIFEST_FILE).is_file():
            # schema.json and split.json are files of their own, which may be given without a run.
            differing = {key for key in found if found[key] not in ("refused", expected[name][key])}
            assert differing <= {"schema", "history", "report"}, place
        num_refused += found["answer"] == "refused"
        shutil.rmtree(folder)
    assert num_refused > len(seeds) / 4, "of what is damaged"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cost", "parameters"), "many"),
        (("cost", "training_seconds"), [1]),
        (("cost",), None),
        (("test",), {"rows": []}),
        (("test",), [[]]),
    ],
    ids=str,
)
def test_metrics_of_another_type_are_refused(
    runs: dict[str, Path], tmp_path: Path, path: tuple[str, ...], value: Any
) -> None:
    folder = shutil.copytree(runs["sets"], tmp_path / "copy")
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    (folder / "metrics.json").write_text(json.dumps(with_value(metrics, path, value)), encoding="utf-8")
    with pytest.raises(ContextualBertError, match="Train"):
        _ = (LOADERS["scores"](folder), LOADERS["report"](folder))


@pytest.mark.parametrize(
    "state",
    [
        {"stateful_callbacks": {"TrainerControl": []}},
        {"stateful_callbacks": {"TrainerControl": [{"args": {}}]}},
        {"best_global_step": "../.."},
        {"best_global_step": ["x"]},
        {"best_global_step": True},
    ],
    ids=str,
)
def test_a_state_of_another_type_says_nothing(tmp_path: Path, state: dict[str, Any]) -> None:
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    assert not is_trained(tmp_path)
    assert best_weights(tmp_path) == tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    ("name", "file", "path", "value"),
    [
        ("sets", "config.json", ("reserved_token_ids", 2), 10**9),
        ("sets", "config.json", ("reserved_token_ids", 1), "x"),
        ("texts", "tokenizer.json", ("model", "vocab", "word2"), 10**6),
        ("texts", "tokenizer_config.json", ("cls_token",), None),
        ("texts", "tokenizer_config.json", ("sep_token",), None),
        ("baseline", "tokenizer_config.json", ("model_max_length",), ["x"]),
        ("baseline", "baseline.json", ("has_tags",), True),
        ("texts", "tokenizer_config.json", ("model_max_length",), "x"),
    ],
    ids=str,
)
def test_ids_and_tokens_that_are_none_of_the_model_are_refused(
    runs: dict[str, Path], tmp_path: Path, name: str, file: str, path: tuple[Any, ...], value: Any
) -> None:
    folder = shutil.copytree(runs[name], tmp_path / "copy")
    (folder / MANIFEST_FILE).unlink()
    content = json.loads((folder / file).read_text("utf-8"))
    (folder / file).write_text(json.dumps(with_value(content, path, value)), encoding="utf-8")
    with pytest.raises(ContextualBertError, match=r"Copy the folder|train again|cannot be loaded"):
        (ask_sets if name == "sets" else ask_texts)(folder)


@pytest.mark.parametrize("name", ["sets", "texts"])
def test_a_run_that_lost_its_config_is_not_called_a_baseline(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs[name], folder)
    (folder / "config.json").unlink()
    with pytest.raises(ContextualBertError, match=r"config\.json") as caught:
        (ask_sets if name == "sets" else ask_texts)(folder)
    assert "baseline" not in str(caught.value)


def test_a_damaged_run_answers_as_before_or_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    check_damaged(runs, tmp_path, range(60))


@pytest.mark.slow
def test_300_damaged_runs_answer_as_before_or_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    check_damaged(runs, tmp_path, range(1_000, 1_300))
