"""Runs on pairs of sentences: hidden words and the next sentence, under every method, from and to other checkpoints."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import BertConfig, BertForPreTraining, RobertaConfig, RobertaForMaskedLM

from contextual_bert import ContextualBertForMaskedLM, ContextualBertForSequenceClassification
from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.conditioning import METHODS
from contextual_bert.data import DroppedContext, write_table
from contextual_bert.data.sentence_pairs import SentencePairs
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
from contextual_bert.evaluation.metrics import NEXT_SENTENCE
from contextual_bert.models.backbones import BACKBONES
from contextual_bert.runs import TextModelTask, evaluate_run, inspect_table, load_run, prepare, run, study
from contextual_bert.runs.model_factory import arguments_of
from contextual_bert.runs.run_directory import SCORES_FILE, load_history
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, MaskedText, NextSentence, Recipe, task_on_texts

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
TRAINING = {"num_train_epochs": 2, "per_device_train_batch_size": 16, "learning_rate": 3e-3}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    miniature_checkpoint(drawn_anew(BertForPreTraining(BertConfig(vocab_size=23, **SIZES))), folder)
    return folder


def rows_of(number: int = 160) -> dict[str, list[Any]]:
    """All sentences of a text begin with its word: so it can be told whether two are of one text."""
    numbers = np.random.default_rng(0)
    texts = list[list[str]]()
    for row in range(number):
        count = 1 if row % 10 == 0 else int(numbers.integers(2, 5))
        name = f"word{row % 6}"
        texts.append(
            [
                " ".join([name, *(f"word{word}" for word in numbers.integers(6, 17, numbers.integers(2, 9)))])
                for _ in range(count)
            ]
        )
    verdicts = ["good" if row % 2 else "bad" for row in range(number)]
    return {"text": texts, "sex": ["f" if row % 3 else "m" for row in range(number)], "verdict": verdicts}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = rows_of()
    write_table(pa.table({**rows, "text": ["\n".join(each) for each in rows["text"]]}), path)
    return path


@pytest.fixture(scope="module")
def recipe(checkpoint: Path, table: Path) -> Recipe:
    task = NextSentence(text="text", checkpoint=str(checkpoint), max_length=14, mask_rate=0.3)
    settings: dict[str, Any] = {"validation": 0.2, "test": 0.2, "training": TRAINING, "device": "cpu"}
    return Recipe(data=str(table), task=task, conditioning="global_state_update", exclude=("verdict",), **settings)


@pytest.fixture(scope="module")
def ready(recipe: Recipe) -> TextModelTask:
    return cast(TextModelTask, prepare(recipe))


@pytest.fixture(scope="module")
def finished(recipe: Recipe, ready: TextModelTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pairs"
    run(recipe, folder, prepared=ready, is_quiet=True)
    return folder


def settings_of(recipe: Recipe) -> Any:
    return arguments_of(recipe, Path("unused"), has_validation=True)


def test_texts_with_a_sentence_a_line_become_pairs(ready: TextModelTask) -> None:
    texts = rows_of()["text"]
    for part in ("train", "validation", "test"):
        rows = [row for row in ready.split.rows(part).tolist() for _ in texts[row][1:]]
        assert ready.datasets[part].example_ids.tolist() == rows
    told = "\n".join(ready.lines())
    assert "pairs of neighbouring sentences in" in told
    assert "have one sentence or none, and are left out: a pair needs two" in told
    assert "cut to 14 tokens" in told
    assert int(ready.datasets["train"].sizes.max()) == 14


def test_lists_of_sentences_are_the_same(recipe: Recipe, ready: TextModelTask) -> None:
    for texts in (rows_of()["text"], [json.dumps(each) for each in rows_of()["text"]]):
        again = prepare(recipe, source=pa.table({**rows_of(), "text": texts}))
        for part, own in ready.datasets.items():
            assert torch.equal(again.datasets[part].input_ids, own.input_ids)


@pytest.mark.parametrize("method", [*sorted(METHODS), CONTEXT_AS_TEXT])
def test_every_method_learns_both(ready: TextModelTask, recipe: Recipe, method: str) -> None:
    chosen = replace(recipe, conditioning=method, training={**TRAINING, "field_dropout": 0.2})
    if method in ("none", CONTEXT_AS_TEXT):
        chosen = replace(chosen, training=TRAINING)
    if method == CONTEXT_AS_TEXT:  # the words take room
        chosen = replace(chosen, task=replace(chosen.task, max_length=8))
    own = cast(TextModelTask, prepare(chosen)) if method == CONTEXT_AS_TEXT else ready
    model: Any = own.build_model(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer: Any = own.make_trainer(chosen, model, settings_of(chosen), callbacks=[])
    batch = next(iter(trainer.get_train_dataloader()))
    assert set(batch["next_sentence_label"].tolist()) == {0, 1}
    outputs = model.train()(**batch)
    assert outputs.next_sentence_logits.shape == (len(batch["input_ids"]), 2)
    outputs.loss.backward()
    for name in ("cls.seq_relationship.weight", "bert.pooler.dense.weight", "cls.predictions.transform.dense.weight"):
        assert bool(model.get_parameter(name).grad.abs().sum() > 0)
    scored = own.score_dataset(model.eval(), cast(Any, own.dataset(chosen, "test")), "test", batch_size=32)
    assert int(scored.predictions.num_pairs.sum()) == len(own.datasets["test"])  # pyright: ignore
    np.testing.assert_array_equal(
        own.targets("test", scored),
        [
            row[place]
            for example, row in _flat(own.datasets["test"])
            for place in scored.position[scored.example_id == example]
        ],
    )


def _flat(dataset: Any) -> list[tuple[int, list[int]]]:
    """Return row -> all tokens of its pairs, one pair after the other."""
    found: dict[int, list[int]] = {}
    for row, start, end in zip(dataset.example_ids, dataset.offsets[:-1], dataset.offsets[1:], strict=True):
        found.setdefault(int(row), []).extend(dataset.input_ids[start:end].tolist())
    return sorted(found.items())


def test_what_is_trained_on_changes_and_what_is_scored_does_not(ready: TextModelTask, recipe: Recipe) -> None:
    trainer: Any = ready.make_trainer(recipe, ready.build_model(recipe), settings_of(recipe), callbacks=[])
    pairs: Any = trainer.train_dataset
    assert isinstance(pairs, SentencePairs)
    every = range(len(pairs))
    first = pairs.__getitems__(every)
    pairs.set_epoch(1)
    assert not torch.equal(first.next_sentence_label, pairs.__getitems__(every).next_sentence_label)
    dropped = replace(recipe, training={**TRAINING, "context_dropout": 0.5})
    other: Any = ready.make_trainer(dropped, ready.build_model(dropped), settings_of(dropped), callbacks=[])
    assert isinstance(other.train_dataset, DroppedContext)
    other.train_dataset.set_epoch(1)
    assert torch.equal(
        other.train_dataset.__getitems__(every).next_sentence_label, pairs.__getitems__(every).next_sentence_label
    )


def metrics_of(evaluation: Any) -> Any:
    return json.loads(evaluation.to_json())["metrics"]


def test_evaluate_has_both_with_intervals_and_by_segment(finished: Path, table: Path) -> None:
    own = json.loads((finished / "metrics.json").read_text())["test"]["metrics"]
    evaluation = evaluate_run(finished)
    assert metrics_of(evaluation) == own and {NEXT_SENTENCE, "cross_entropy_nats"} <= own.keys()
    report = evaluation.report
    assert report.metrics[NEXT_SENTENCE].low < report.metrics[NEXT_SENTENCE].value < report.metrics[NEXT_SENTENCE].high
    assert "next-sentence accuracy" in evaluation.to_markdown()
    assert any("guessing has 50%" in note for note in report.notes())
    by_sex = [each for each in report.segments if each.feature == "sex"]
    assert len(by_sex) == 2 and all(NEXT_SENTENCE in each.metrics for each in by_sex)
    loaded: Any = load_run(finished, name="x").scores.predictions
    assert 100 * loaded.num_right.sum() / loaded.num_pairs.sum() == pytest.approx(own[NEXT_SENTENCE]["value"])
    sampled = evaluate_run(finished, overrides={"scored_tokens": 3}).report
    assert sampled.num_rows == 3 and 0 <= sampled.metrics[NEXT_SENTENCE].value <= 100
    assert evaluate_run(finished, overrides={"data": str(table)}, part="all").report.num_sets == 144


def test_a_table_that_lacks_the_context_is_named(finished: Path) -> None:
    rows = rows_of()
    source = pa.table({"text": ["\n".join(each) for each in rows["text"]]})
    with pytest.raises(SchemaError, match=f"others: .*lacks the context column 'sex', which {finished} reads.*empty"):
        evaluate_run(finished, source=source, overrides={"data": "others"}, part="all")


def test_each_evaluation_of_a_training_has_the_accuracy(
    recipe: Recipe, ready: TextModelTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of a training, its history and the choice of its epoch have it; a report on the part has the same."""
    chosen = replace(recipe, training={**TRAINING, "metric_for_best_model": "next_sentence_accuracy"})
    for name, each in {"by_words": recipe, "by_sentences": chosen}.items():
        run(each, tmp_path / name, prepared=ready)
        lines = [line for line in capsys.readouterr().err.splitlines() if "validation" in line]
        curve = load_history(tmp_path / name)
        assert curve is not None and len(curve.points) == 2
        accuracies = [point.validation_metrics[NEXT_SENTENCE] for point in curve.points]
        for accuracy in accuracies:
            assert sum(line.count(f"nats, next-sentence accuracy {accuracy:.2f} %") for line in lines) >= 1
        nats = [point.validation_cross_entropy_nats for point in curve.points]
        best = nats.index(min(nats)) if name == "by_words" else accuracies.index(max(accuracies))
        found = metrics_of(evaluate_run(tmp_path / name, part="validation"))
        assert found[NEXT_SENTENCE]["value"] == pytest.approx(accuracies[best])
        assert found["cross_entropy_nats"]["value"] == pytest.approx(nats[best], rel=1e-5)
    with pytest.raises(UnknownNameError):
        replace(recipe, task=MaskedText(text="text", checkpoint="bert"), training=chosen.training)


@pytest.mark.slow
def test_it_can_be_learned_whether_a_sentence_follows(recipe: Recipe, table: Path, tmp_path: Path) -> None:
    """Each text is about one of six things, of which each has two words: five of six others are about another."""
    numbers, rows = np.random.default_rng(0), rows_of(240)
    texts = [
        ["word" + " word".join(map(str, 2 * (row % 6) + numbers.integers(5, 7, size=5))) for _ in range(4)]
        for row in range(240)
    ]
    source = pa.table({**rows, "text": ["\n".join(each) for each in texts]})
    longer = replace(
        recipe,
        conditioning="none",
        training={"num_train_epochs": 25, "per_device_train_batch_size": 32, "learning_rate": 1e-2},
        model={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    )
    report = run(longer, tmp_path / "run", table=source, is_quiet=True)
    assert report is not None and report.metrics[NEXT_SENTENCE].value > 75


def test_a_run_is_resumed_with_the_same_pairs(
    recipe: Recipe, ready: TextModelTask, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextual_bert.training.objectives import MaskedObjective

    own, calls = MaskedObjective.summarise, list[int]()

    def stops(self: MaskedObjective, prediction: Any) -> dict[str, float]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return own(self, prediction)

    monkeypatch.setattr(MaskedObjective, "summarise", stops)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    monkeypatch.undo()
    run(recipe, tmp_path / "run", prepared=prepare(recipe), is_quiet=True, is_resumed=True)
    first, second = ((each / SCORES_FILE).read_bytes() for each in (finished, tmp_path / "run"))
    assert first == second


def test_contexts_of_others_and_a_comparison(recipe: Recipe, ready: TextModelTask, tmp_path: Path) -> None:
    shuffled = replace(recipe, is_context_shuffled=True, is_control=True, name="shuffled")
    report = run(shuffled, tmp_path / "shuffled", is_quiet=True)
    assert report is not None and NEXT_SENTENCE in report.metrics
    short = [replace(each, training={**TRAINING, "num_train_epochs": 1}) for each in (recipe, shuffled)]
    found = study("Pairs", short, tmp_path / "study", prepared=ready)
    assert found.comparison.main == "cross_entropy_nats"
    assert all(NEXT_SENTENCE in row.metrics for row in found.comparison.rows)
    assert "next-sentence accuracy" in found.comparison.to_markdown()
    assert [each.feature for each in found.comparison.groups] == ["sex", "sex"]


def test_the_heads_come_from_a_checkpoint_and_go_on_to_a_fine_tuning(
    finished: Path, recipe: Recipe, checkpoint: Path, table: Path, tmp_path: Path
) -> None:
    plain = BertForPreTraining.from_pretrained(checkpoint)
    start: Any = ContextualBertForMaskedLM.from_checkpoint(checkpoint, conditioning="none", has_next_sentence_head=True)
    for name, weight in plain.state_dict().items():
        assert torch.equal(start.state_dict()[name], weight), name
    assert not any("next sentences" in line for line in prepare(recipe).lines())
    trained: Any = ContextualBertForMaskedLM.from_pretrained(finished)
    assert trained.config.has_next_sentence_head
    pooler = trained.bert.pooler.dense.weight
    assert not torch.equal(pooler, plain.bert.pooler.dense.weight)
    task = Classification(text="text", label="verdict", checkpoint=str(finished), max_length=14)
    tuning = replace(recipe, task=task, exclude=(), schema=None)
    own = cast(TextModelTask, prepare(tuning))
    model: Any = own.build_model(tuning)
    assert isinstance(model, ContextualBertForSequenceClassification)
    assert torch.equal(model.bert.pooler.dense.weight, pooler)
    assert not any("pooler" in line for line in own.lines())
    # A run of none is a BERT: its pooler goes to any method.
    run(replace(recipe, conditioning="none"), tmp_path / "none", is_quiet=True)
    of_none: Any = ContextualBertForMaskedLM.from_pretrained(tmp_path / "none")
    film = replace(tuning, task=replace(task, checkpoint=str(tmp_path / "none")), conditioning="film")
    labelled: Any = cast(TextModelTask, prepare(film)).build_model(film)
    assert torch.equal(labelled.bert.pooler.dense.weight, of_none.bert.pooler.dense.weight)
    bert = BertForPreTraining.from_pretrained(tmp_path / "none")  # under BERT's names
    assert torch.equal(bert.cls.seq_relationship.weight, of_none.cls.seq_relationship.weight)


def test_going_on_to_and_from_hidden_words_alone(finished: Path, recipe: Recipe, tmp_path: Path) -> None:
    words = MaskedText(text="text", checkpoint=str(finished), max_length=14)
    after: Any = cast(TextModelTask, prepare(replace(recipe, task=words, exclude=(), schema=None))).build_model(
        replace(recipe, task=words, exclude=(), schema=None)
    )
    trained: Any = ContextualBertForMaskedLM.from_pretrained(finished)
    assert torch.equal(after.cls.seq_relationship.weight, trained.cls.seq_relationship.weight)
    first = replace(recipe, task=MaskedText(text="text", checkpoint=cast(Any, recipe.task).checkpoint, max_length=14))
    run(first, tmp_path / "words", is_quiet=True)
    then = replace(recipe, task=replace(recipe.task, checkpoint=str(tmp_path / "words")), exclude=(), schema=None)
    ready = cast(TextModelTask, prepare(then))
    assert any("cls.seq_relationship.* and bert.pooler.* start at random" in line for line in ready.lines())
    model: Any = ready.build_model(then)
    hidden: Any = ContextualBertForMaskedLM.from_pretrained(tmp_path / "words")
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, hidden.bert.embeddings.word_embeddings.weight)
    assert model.config.has_next_sentence_head


def test_from_scratch_and_from_roberta(recipe: Recipe, tmp_path: Path) -> None:
    scratch = replace(recipe, task=replace(recipe.task, is_from_scratch=True))
    assert run(scratch, tmp_path / "scratch", is_quiet=True) is not None
    sizes = {**SIZES, "max_position_embeddings": 18}
    padding = BACKBONES["roberta"].padding_id or 0
    roberta = RobertaForMaskedLM(RobertaConfig(vocab_size=23, pad_token_id=padding, type_vocab_size=1, **sizes))
    miniature_checkpoint(drawn_anew(roberta), tmp_path / "roberta")
    report = run(
        replace(recipe, task=replace(recipe.task, checkpoint=str(tmp_path / "roberta"))),
        tmp_path / "run",
        is_quiet=True,
    )
    assert report is not None and NEXT_SENTENCE in report.metrics


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["one sentence"] * 30, "no text has a second sentence"),
        (["one\ntwo", *["one sentence"] * 29], "has a second sentence"),
        ([[None, "b"]] * 30, "a sentence of the list is missing"),
        ([[1, 2]] * 30, "the column is of type"),
    ],
)
def test_texts_without_pairs(recipe: Recipe, tmp_path: Path, texts: Any, message: str) -> None:
    source = pa.table({"text": pa.array(texts), "sex": ["f", "m"] * 15})
    faulty = replace(recipe, exclude=())
    with pytest.raises(DataError, match=message) as caught:
        run(faulty, tmp_path / "run", table=source, is_quiet=True)
    assert caught.value.column == "text" and caught.value.fix
    assert not (tmp_path / "run").exists()


def test_inspect_counts_pairs(recipe: Recipe) -> None:
    looked = inspect_table(recipe)
    told = "\n".join(looked.reading)
    assert "pairs of neighbouring sentences in 144 texts" in told and "16 texts have one sentence or none" in told
    assert "which sentence follows" in told and not looked.faults
    alone = inspect_table(replace(recipe, exclude=()), source=pa.table({"text": ["a", "b"] * 9, "sex": ["f", "m"] * 9}))
    assert any("fewer than two texts have a second sentence" in fault for fault in alone.faults)


def test_a_pair_has_room_for_two_tokens(recipe: Recipe) -> None:
    short = prepare(replace(recipe, task=replace(cast(Any, recipe.task), max_length=4)))
    with pytest.raises(ConfigurationError, match=r"max_length=4 leaves no room.*Give 5 or more"):
        short.check(short.recipe)


def test_settings_that_do_not_go_together(recipe: Recipe) -> None:
    chosen = task_on_texts(text="text", objective="next_sentence", checkpoint="bert", masking="span")
    assert (chosen.kind, cast(Any, chosen).masking) == ("next_sentence", "span")
    for settings, message in (
        ({"label": "verdict"}, "objective='next_sentence' is for the texts themselves"),
        ({"phrases": "names"}, "phrases='names' is for whole texts, and objective='next_sentence' is learned"),
        ({"truncation": "head_tail"}, "truncation='head_tail' is for whole texts"),
        ({"vocab_size": 300}, "vocab_size=300 is for a tokenizer that is trained"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            task_on_texts(text="text", objective="next_sentence", checkpoint="bert", **settings)
    with pytest.raises(ConfigurationError, match="Take MaskedText or CausalText"):
        NextSentence(text="text", checkpoint="bert", objective="causal")
    with pytest.raises(ConfigurationError, match="checkpoint"):
        NextSentence(text="text")
    with pytest.raises(ConfigurationError, match="has_next_sentence_head"):
        ContextualBertForSequenceClassification.from_checkpoint(
            cast(Any, recipe.task).checkpoint, conditioning="none", has_next_sentence_head=True
        )
