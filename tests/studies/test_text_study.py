"""The contextual NLP benchmark: raw files in the form that they are published in, and the published ones themselves."""

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

from contextual_bert import conditioning
from contextual_bert.baselines.names import LOGISTIC
from contextual_bert.data import table_digest
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.manifest import write_manifest
from contextual_bert.runs import evaluate_run
from contextual_bert.runs.registry import check_kind
from contextual_bert.runs.text_baselines import LogisticBaseline, SentenceVectors
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, Recipe
from studies import addresses, crossner, popquorn, popquorn_readers
from studies.crossner import DOMAINS, FILES, SINGLE
from studies.text_grid import FIELD_DROPOUT, LORA, METHODS, RowSettings, text_rows
from studies.text_study import (
    TextBenchmark,
    TextSize,
    TextStudyData,
    prepare_text_study,
    run_text_study,
)

TEXT_TASKS = {each.TASK.card.name: each.TASK for each in (popquorn, popquorn_readers, crossner, addresses)}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
NUMBERS = np.random.default_rng(0)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=60, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder)
    return str(folder)


def words(count: int) -> list[str]:
    return [f"word{number}" for number in NUMBERS.integers(0, 18, size=count)]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for name in ("popquorn", "crossner", "sotu"):
        (folder / name).mkdir()
    readers = [(f"{number % 3}", number) for number in range(20)]
    comments = [(number, " ".join(words(5))) for number in range(40)]
    ratings = [(reader, sex, *comment) for sex, reader in readers for comment in comments if NUMBERS.random() < 0.6]
    sexes = [sex for _, sex, *_ in ratings]
    popquorn = {
        "instance_id": [comment for _, _, comment, _ in ratings],
        "user_id": [reader for reader, *_ in ratings],
        "text": [text for *_, text in ratings],
        "offensiveness": NUMBERS.integers(1, 6, size=len(ratings)).astype(float),
        **dict.fromkeys(("gender", "race", "age", "occupation", "education"), sexes),
    }
    pq.write_table(pa.table(popquorn), folder / "popquorn" / "offensiveness.parquet")
    for domain in DOMAINS:
        for name, count in (("train", 12), ("dev", 6), ("test", 8)):
            rows = [{"domain": domain, "tokens": words(6), "tags": entity(domain)} for _ in range(count)]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / "crossner" / f"{domain}.{name}.jsonl").write_text(lines, encoding="utf-8")
    addresses = {
        "year": [1790 + 5 * number for number in range(30)],
        "president": [f"president {number // 10}" for number in range(30)],
        "party": ["a" if number < 15 else "b" for number in range(30)],
        "sotu_type": ["speech", "written"] * 15,
        "text": [" ".join(words(240)) for _ in range(30)],
    }
    pq.write_table(pa.table(addresses), folder / "sotu" / "sotu.parquet")
    return folder


def entity(domain: str) -> list[str]:
    tags = ["O"] * 6
    start = int(NUMBERS.integers(0, 5))
    tags[start : start + 2] = [f"B-{domain}", f"I-{domain}"]
    return tags


def study_of(
    name: str, source: Path, folder: Path, checkpoint: str, *, rows: dict[str, int], epochs: int | None = None
) -> TextStudyData:
    own = {"num_train_epochs": 1, "per_device_train_batch_size": 32}
    training = {**own, "learning_rate": 1e-4, "new_weights_learning_rate": 1e-3}
    size = TextSize(seeds=rows, training=training, baseline_training=own, max_length=48)
    task = replace(TEXT_TASKS[name], sizes={"tiny": size})
    digest = table_digest(task.read(source, folder.parent))
    task = replace(task, card=replace(task.card, data_digest=digest))
    return prepare_text_study(task, source, folder, checkpoint=checkpoint, size="tiny", epochs=epochs, device="cpu")


def test_offensiveness_is_split_by_comment_or_by_reader(source: Path, tmp_path: Path, checkpoint: str) -> None:
    by_text = study_of("offensiveness", source, tmp_path / "a", checkpoint, rows={}).prepared
    by_reader = study_of("offensiveness-readers", source, tmp_path / "b", checkpoint, rows={}).prepared
    assert by_text.labels == by_reader.labels == ("1", "2", "3", "4", "5")
    assert by_text.processor.schema is not None
    assert by_reader.processor.schema is not None
    assert set(by_text.processor.schema.names) - set(by_reader.processor.schema.names) == {"user_id"}
    for ready, shared, apart in ((by_text, "user_id", "instance_id"), (by_reader, "instance_id", "user_id")):
        parts = [ready.examples.table.take(pa.array(ready.split.rows(part))) for part in ("train", "test")]
        values = {name: [set(part.column(name).to_pylist()) for part in parts] for name in (shared, apart)}
        assert values[shared][0] & values[shared][1]
        assert not values[apart][0] & values[apart][1]


def test_a_row_that_is_told_less_of_unseen_readers(source: Path, tmp_path: Path, checkpoint: str) -> None:
    assert FIELD_DROPOUT in TEXT_TASKS["offensiveness-readers"].sizes["small"].seeds
    data = study_of("offensiveness-readers", source, tmp_path, checkpoint, rows={FIELD_DROPOUT: 1})
    (row,) = data.rows().values()
    plain = data.rows(["global_state_update"])["global_state_update"]
    assert row.training == {**plain.training, "field_dropout": 0.5}
    assert replace(row, name=None, training=plain.training) == plain


def test_a_row_may_have_settings_of_its_own(source: Path, tmp_path: Path, checkpoint: str) -> None:
    own: RowSettings = {"training": {"context_learning_rate": 0.01}, "model": {"num_extra_layers": 2}}
    data = study_of(
        "offensiveness", source, tmp_path, checkpoint, rows={"global_state_update": 1, "multi_attribute": 1}
    )
    other = replace(data, size=replace(data.size, row_settings={"multi_attribute": own}))
    plain, changed = data.rows(), other.rows()
    assert changed["global_state_update"] == plain["global_state_update"]
    before, after = plain["multi_attribute"], changed["multi_attribute"]
    assert after.training == {**before.training, "context_learning_rate": 0.01}
    assert after.model == {**before.model, "num_extra_layers": 2}
    assert replace(after, training=before.training, model=before.model) == before


@pytest.mark.parametrize("task", ["offensiveness", "offensiveness-readers"])
def test_new_blocks_are_one_in_small_and_as_in_the_paper_in_full(
    source: Path, tmp_path: Path, checkpoint: str, task: str
) -> None:
    data = study_of(task, source, tmp_path, checkpoint, rows={})
    named = ("multi_attribute", "attention_bias", "bert_concat_word", "global_state_update")
    for size, num_blocks in (("small", 1), ("full", 6)):
        rows = replace(data, size=TEXT_TASKS[task].sizes[size]).rows(named)  # by reader not all are rows of small
        work = data.prepared
        for name in ("multi_attribute", "attention_bias"):
            model: Any = work.build_model(rows[name])
            assert model.config.num_extra_layers == num_blocks
            assert model.config.value_of("has_attribute_values") == (name == "multi_attribute")
        model = work.build_model(rows["bert_concat_word"])
        assert len(model.encoder.layers) == num_blocks
        assert "num_extra_layers" not in rows["global_state_update"].model


@pytest.mark.parametrize("task", ["entities", "offensiveness"])
@pytest.mark.parametrize("size", ["small", "full"])
def test_what_new_blocks_alone_give_and_what_a_context_of_others(
    source: Path, tmp_path: Path, checkpoint: str, task: str, size: str
) -> None:
    data = study_of(task, source, tmp_path, checkpoint, rows={})
    names = ("multi_attribute", "multi_attribute_shuffled", "none_new_blocks", "none")
    data = replace(data, size=replace(TEXT_TASKS[task].sizes[size], max_length=16))
    told, others, alone, plain = data.rows(names).values()
    assert others == replace(told, is_context_shuffled=True)
    assert alone.model["num_extra_layers"] == (1 if size == "small" else 6)
    assert replace(alone, name=None, model={}, is_control=False) == plain
    work = data.prepared
    sizes = [work.count(work.build_model(row)) for row in (told, others, alone, plain)]
    assert sizes[0] == sizes[1] and min(sizes[:3]) > sizes[3]


@pytest.mark.parametrize("size", ["small", "full"])
def test_rows_that_would_not_leave_their_start_have_rates_of_their_own(
    source: Path, tmp_path: Path, checkpoint: str, size: str
) -> None:
    data = study_of("offensiveness", source, tmp_path, checkpoint, rows={})
    training = {
        name: row.training for name, row in replace(data, size=TEXT_TASKS["offensiveness"].sizes[size]).rows().items()
    }
    own = {name for name, found in training.items() if "context_learning_rate" in found}
    assert own == {"multi_attribute", "attention_bias"}
    assert training["bert_concat_text"]["learning_rate"] > training["bert_concat_word"]["learning_rate"]


def test_rows_whose_bert_only_gets_low_rank_changes(source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows={f"{name}_lora": 1 for name in LORA})
    rows, plain = data.rows(), data.rows(LORA)
    for name in LORA:
        row = rows[f"{name}_lora"]
        assert row.trained_weights == "lora"
        assert row.training["learning_rate"] == pytest.approx(10 * plain[name].training["learning_rate"])
        assert replace(row, name=None, trained_weights="all", training=plain[name].training) == plain[name]
    found = run_text_study(data, tmp_path / "runs", rows=list(rows), num_seeds=1, say=lambda _: None)
    assert [(row.name, row.role) for row in found.comparison.rows] == [(name, "method") for name in rows]
    assert found.comparison.reference == "none_lora"


def test_a_study_has_the_bar_and_resumes(
    source: Path, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"none": 2, "global_state_update": 1, "bert_concat_text": 1, "context_popularity": 1}
    rows |= dict.fromkeys(LOGISTIC, 1)
    data = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows=rows)
    said: list[str] = []
    found = run_text_study(data, tmp_path / "runs", num_seeds=2, say=said.append)
    seeds = {row.name: (len(row.seeds), row.role) for row in found.comparison.rows}
    assert seeds == {
        "none": (2, "method"),
        "global_state_update": (1, "method"),
        "bert_concat_text": (1, "control"),
        "context_popularity": (1, "baseline"),
        "tfidf": (1, "baseline"),
        "tfidf_context": (1, "baseline"),
        "embeddings": (1, "baseline"),
        "embeddings_context": (1, "baseline"),
    }
    assert "root_mean_squared_error" in found.comparison.rows[0].metrics
    monkeypatch.setattr("contextual_bert.runs.sweep.run", lambda *_, **__: pytest.fail("trained again"))
    again = run_text_study(data, tmp_path / "runs", num_seeds=2, say=said.append)
    for old, new in zip(found.comparison.rows, again.comparison.rows, strict=True):
        assert old == new
    assert replace(found.comparison, rows=()) == replace(again.comparison, rows=())
    assert found.about == tuple(data.task.card.lines()[1:])
    page = found.to_markdown()
    assert "## Task" in page
    assert "Context: gender, race, age, occupation, education, user_id" in page
    assert f"LAW-XVII; hash {str(data.task.card.data_digest)[:16]}" in page


def test_the_bar_says_what_it_costs(source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows={"none": 1})
    ready = data.prepared
    costs: dict[str, int] = {}
    for name in LOGISTIC:
        model = LogisticBaseline(ready, name)
        model.fit(ready)
        costs[name] = model.num_weights
    bert = BertModel.from_pretrained(checkpoint, add_pooling_layer=False).num_parameters()
    grades, readers = len(ready.labels), ready.examples.table.select(["gender", "user_id"]).to_pydict()
    assert costs["embeddings"] == bert + grades * (SIZES["hidden_size"] + 1)
    # Five columns of one sort and the reader: a component a value, one for missing and one for a value never seen.
    values = sum(len({*readers[name]}) + 2 for name in (*["gender"] * 5, "user_id"))
    assert costs["embeddings_context"] == costs["embeddings"] + grades * values
    assert costs["tfidf_context"] == costs["tfidf"] + grades * values


def test_a_vector_of_a_text_is_what_the_checkpoint_was_trained_for(
    source: Path, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows={"none": 1}).prepared
    bert, tokenizer = BertModel.from_pretrained(checkpoint).eval(), AutoTokenizer.from_pretrained(checkpoint)
    texts = ["word1 word2", "word3", "word1 word2", " ".join(f"word{number}" for number in range(9))]
    for pooling in ("cls", "mean"):
        own = replace(ready, recipe=replace(ready.recipe, model={"classifier_pooling": pooling}))
        vectors = SentenceVectors(own)
        found = vectors.fit(texts).transform(texts)
        for text, vector in zip(texts, found, strict=True):
            with torch.no_grad():
                hidden = bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            read = hidden.mean(dim=0) if pooling == "mean" else hidden[0]
            assert vector == pytest.approx((read / read.norm()).numpy(), abs=1e-5)
        with monkeypatch.context() as patched:
            patched.setattr(SentenceVectors, "_read", lambda *_: pytest.fail("read again"))
            assert np.array_equal(vectors.transform(texts[::-1]), found[::-1])


def test_rows_are_run_by_name(source: Path, tmp_path: Path, checkpoint: str) -> None:
    every = {"none": 1, "popularity": 1, **dict.fromkeys(LOGISTIC, 1)}
    data = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows=every)
    for rows in (["none"], ["none", "tfidf_context"], ["none", "embeddings_context"], []):
        named = run_text_study(data, tmp_path / "runs", rows=rows, num_seeds=1, say=lambda _: None)
        assert sorted(row.name for row in named.comparison.rows) == sorted(rows or every)
    against = run_text_study(
        data, tmp_path / "runs", rows=["none", "tfidf"], num_seeds=1, reference="tfidf", say=lambda _: None
    )
    assert against.comparison.reference == "tfidf"
    with pytest.raises(UnknownNameError, match="Did you mean 'none'"):
        data.rows(["nome"])


def test_epochs_are_of_what_starts_from_the_checkpoint(source: Path, tmp_path: Path, checkpoint: str) -> None:
    rows = {"none": 1, "bert_concat_text": 1, "ngrams": 1}
    data = study_of("offensiveness", source, tmp_path / "data", checkpoint, rows=rows, epochs=7)
    epochs = {name: row.training["num_train_epochs"] for name, row in data.rows().items()}
    assert epochs == {"none": 7, "bert_concat_text": 7, "ngrams": 1}
    with pytest.raises(ConfigurationError, match=r"epochs=0 is not allowed. Give 1 or more"):
        study_of("offensiveness", source, tmp_path / "data", checkpoint, rows=rows, epochs=0)


@pytest.mark.parametrize("name", TEXT_TASKS)
def test_the_card_names_the_context(name: str, source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of(name, source, tmp_path / "data", checkpoint, rows={})
    assert data.prepared.processor.schema is not None
    assert set(data.task.card.context) == set(data.prepared.processor.schema.names)


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_full_has_every_method(task: str) -> None:
    assert list(METHODS) == list(conditioning.METHODS)[: len(METHODS)]
    assert set(METHODS) <= TEXT_TASKS[task].sizes["full"].seeds.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("cells_of_one")
def test_single_domain_models_are_joined(source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of("entities", source, tmp_path / "data", checkpoint, rows={"none": 3, SINGLE: 3})
    ready = data.prepared
    sizes = {part: len(ready.split.rows(part)) for part in FILES}
    assert sizes == {"train": 60, "validation": 30, "test": 40}
    found = run_text_study(data, tmp_path / "runs", num_seeds=1, say=lambda _: None)
    assert [(row.name, row.seeds) for row in found.comparison.rows] == [("none", (0,)), (SINGLE, (0,))]
    one, joined = (row.cost for row in found.comparison.rows)
    assert joined.parameters == 5 * (one.parameters or 0) > 0
    alone = [
        json.loads((tmp_path / "runs" / f"{SINGLE}_{name}" / "seed-0" / "metrics.json").read_text()) for name in DOMAINS
    ]
    assert joined.training_seconds == pytest.approx(sum(each["cost"]["training_seconds"] for each in alone))
    assert "entity_f1_percent" in found.comparison.rows[1].metrics
    groups = [group for group in found.comparison.groups if group.feature == "domain"]
    assert {group.value: group.num_rows for group in groups} == dict.fromkeys(DOMAINS, 48)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"none", *(f"{SINGLE}_{name}" for name in DOMAINS)}


def test_the_rows_that_a_message_offers_are_those_that_the_task_can_have(
    source: Path, tmp_path: Path, checkpoint: str
) -> None:
    data = study_of("entities", source, tmp_path / "data", checkpoint, rows={"none": 3, SINGLE: 3})
    with pytest.raises(UnknownNameError, match="Did you mean 'single_domain'") as caught:
        data.chosen(["none", "single_domains"])
    offered = str(caught.value).split("Known: ")[1].rstrip(".").split(", ")
    assert {"bilstm_crf", "multi_attribute", "none_new_blocks"} < {*offered}
    assert not {"ngrams", "cnn", "popularity", "bert_concat_word"} & {*offered}
    with pytest.raises(UnknownNameError, match="No row 'ngrams'"):
        data.chosen(["ngrams"])


def test_addresses_become_passages(source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of("addresses", source, tmp_path / "data", checkpoint, rows={"none": 1})
    table = data.prepared.examples.table
    assert table.num_rows == 30 * 6
    address, split = np.array(table.column("address").to_pylist()), data.prepared.split
    assert {part: {*Counter(address[split.rows(part)].tolist()).values()} for part in PARTS} == {
        "train": {6},
        "validation": {1},  # the first of six
        "test": {1},
    }
    assert {len(text.split()) for text in table.column("text").to_pylist()} == {40}
    assert data.prepared.processor.schema is not None
    assert set(data.prepared.processor.schema.names) == {"year", "president", "party", "form"}
    found = run_text_study(data, tmp_path / "runs", say=lambda _: None)
    assert found.comparison.classes == ()
    assert found.comparison.settings.row_name == "hidden token"
    nats = found.comparison.rows[0].metrics["cross_entropy_nats"].mean
    assert f"lower is better: none {np.exp(nats):.2f}." in found.to_markdown()
    evaluated = evaluate_run(tmp_path / "runs" / "none" / "seed-0")
    assert f"(Salazar et al. 2020), lower is better: {np.exp(nats):.2f}." in evaluated.to_markdown()


@pytest.mark.slow
def test_rows_may_start_from_one_run_without_a_context(source: Path, tmp_path: Path, checkpoint: str) -> None:
    data = study_of("addresses", source, tmp_path / "data", checkpoint, rows={"none": 2, "global_state_update": 1})
    data = replace(data, size=replace(data.size, start={"num_train_epochs": 2, "learning_rate": 1e-3}))
    runs = tmp_path / "runs"
    with pytest.raises(UnknownNameError, match="No row 'nine'"):
        run_text_study(data, runs, rows=["nine"], say=lambda _: None)
    assert not runs.exists()
    found = run_text_study(data, runs, num_seeds=2, say=lambda _: None)
    assert any(
        "every row starts from one model without a context (start, seed 0), trained for 2 epochs" in line
        for line in found.about
    )
    assert [row.name for row in found.comparison.rows] == ["none", "global_state_update"]
    start = Recipe.load(runs / "start" / "seed-0")
    assert (start.conditioning, start.training["num_train_epochs"]) == ("none", 2)
    assert start.text_task.checkpoint == checkpoint
    for run, seed in (("none", 0), ("none", 1), ("global_state_update", 0)):
        recipe = Recipe.load(runs / run / f"seed-{seed}")
        assert recipe.text_task == replace(start.text_task, checkpoint=str(runs / "start" / "seed-0"))
    rows = data.starting_from(runs / "start" / "seed-0")
    ours = rows.prepared.build_model(rows.rows()["none"]).state_dict()
    theirs = load_file(runs / "start" / "seed-0" / "model.safetensors")
    assert len(theirs) > 20
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())
    # Rows of another training of the start are not mixed with these.
    scores = runs / "start" / "seed-0" / "test_scores.safetensors"
    kept = load_file(scores)
    save_file({**kept, "confidence": kept["confidence"] / 2}, scores)
    write_manifest(scores.parent)
    with pytest.raises(ConfigurationError, match=r"none.seed-0 .*it started from other weights"):
        run_text_study(data, runs, num_seeds=2, is_report_only=True, say=lambda _: None)
    save_file(kept, scores)
    write_manifest(scores.parent)
    other = shutil.copytree(checkpoint, tmp_path / "other")
    theirs = replace(data.prepared.recipe, task=replace(data.prepared.recipe.text_task, checkpoint=str(other)))
    with pytest.raises(ConfigurationError, match=r"start.seed-0 holds a run with other settings \(task.checkpoint"):
        of_other = replace(data, prepared=replace(data.prepared, recipe=theirs))
        run_text_study(of_other, runs, num_seeds=2, is_report_only=True, say=lambda _: None)
    # Of a study that was moved, or whose weights were not kept, the report can still be made.
    (runs / "start" / "seed-0" / "model.safetensors").unlink()
    runs = runs.rename(tmp_path / "moved")
    again = run_text_study(data, runs, num_seeds=2, say=lambda _: None)
    assert again.comparison.rows == found.comparison.rows
    with pytest.raises(ConfigurationError, match=r"film starts from .*start.seed-0, whose weights were not kept"):
        run_text_study(data, runs, rows=["none", "film"], num_seeds=1, say=lambda _: None)
    shutil.rmtree(runs / "start")
    again = run_text_study(data, runs, num_seeds=2, is_report_only=True, say=lambda _: None)
    assert again.comparison.rows == found.comparison.rows
    assert not (runs / "start").exists()


@pytest.mark.parametrize("size", ["small", "full"])
def test_a_new_block_on_what_has_been_learned_has_a_rate_of_its_own(
    source: Path, tmp_path: Path, checkpoint: str, size: str
) -> None:
    data = study_of("addresses", source, tmp_path, checkpoint, rows={})
    data = replace(data, size=replace(TEXT_TASKS["addresses"].sizes[size], max_length=16))
    rows = data.rows()
    fast = {name for name, row in rows.items() if "new_weights_learning_rate" in row.training}
    assert fast == {"multi_attribute", "multi_attribute_shuffled", "none_new_blocks"}
    assert rows["multi_attribute_shuffled"] == replace(rows["multi_attribute"], is_context_shuffled=True)
    alone, told = rows["none_new_blocks"], rows["multi_attribute"]
    own = told.training.keys() - alone.training.keys()
    assert own == {"context_learning_rate"}
    assert all(told.training[name] == value for name, value in alone.training.items())
    for row in rows.values():
        check_kind(row)


def test_epochs_that_are_asked_for_are_those_of_the_start_too(source: Path, tmp_path: Path, checkpoint: str) -> None:
    task = TEXT_TASKS["addresses"]
    task = replace(task, card=replace(task.card, data_digest=table_digest(task.read(source, tmp_path))))
    data = prepare_text_study(task, source, tmp_path / "data", checkpoint=checkpoint, epochs=3, device="cpu")
    assert data.start is not None
    assert {each.training["num_train_epochs"] for each in (data.start, *data.rows().values())} == {3}


def test_passages_of_a_long_address_reach_its_end(tmp_path: Path) -> None:
    (tmp_path / "sotu").mkdir()
    long, short = (" ".join(str(number) for number in range(40 * count)) for count in (79, 3))
    columns = {"president": ["a"] * 60, "party": ["b"] * 60, "sotu_type": ["speech"] * 60, "year": [*range(1900, 1960)]}
    table = pa.table({"text": [long, short] * 30, **columns})
    pq.write_table(table, tmp_path / "sotu" / "sotu.parquet")
    read = TEXT_TASKS["addresses"].read(tmp_path, tmp_path)
    places = [int(text.split()[0]) // 40 for text in read.column("text").to_pylist()[:43]]
    assert places[40:] == [0, 1, 2]
    assert len({*places[:40]}) == 40
    assert {*np.diff(places[:40])} == {1, 2}
    assert places[39] == 77


def test_other_files_than_those_of_the_card_are_refused(source: Path, tmp_path: Path, checkpoint: str) -> None:
    with pytest.raises(DataError, match="that of the task"):
        prepare_text_study(TEXT_TASKS["addresses"], source, tmp_path / "data", checkpoint=checkpoint)


@pytest.mark.parametrize("task", TEXT_TASKS.values(), ids=list(TEXT_TASKS))
def test_the_published_files_are_known(task: TextBenchmark, tmp_path: Path) -> None:
    folder = os.environ.get("CONTEXTUAL_BERT_DATA")
    if folder is None:
        pytest.skip("CONTEXTUAL_BERT_DATA names no folder of data sets")
    table: Any = task.read(Path(folder), tmp_path)
    assert table_digest(table) == task.card.data_digest


def test_every_row_of_every_size_is_a_recipe() -> None:
    recipe = Recipe(
        data="t.csv", task=Classification(checkpoint="bert", label="grade"), training={"learning_rate": 1e-4}
    )
    known = {*text_rows(recipe, {})}
    for task in TEXT_TASKS.values():
        for size in task.sizes.values():
            assert {"none", "global_state_update", "global_state_update_shuffled"} <= set(size.seeds)
            assert set(size.seeds) <= known | set(task.extra_rows)
            assert set(size.row_settings) <= known
    small = TEXT_TASKS["offensiveness"].sizes["small"].seeds
    assert {"multi_attribute", "attention_bias", "bert_concat_word", "bert_concat_text"} <= set(small)
