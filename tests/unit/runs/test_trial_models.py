"""Wrong fields of a model are found before a table is read, for every kind of task."""

from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, BertForPreTraining

from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.places import SettingPlace
from contextual_bert.runs import run
from contextual_bert.runs.run_directory import METRICS_FILE
from contextual_bert.runs.trial_models import check_model_fields
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import (
    BidirectionalText,
    CausalText,
    Classification,
    MaskedText,
    NextSentence,
    QuestionAnswering,
    Recipe,
    SetCompletion,
    Tagging,
)
from contextual_bert.training.tasks import TextToText

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
ABSENT = "there-is-no-such-table.csv"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    miniature_checkpoint(drawn_anew(BertForPreTraining(BertConfig(vocab_size=23, **SIZES))), folder)
    return str(folder)


def task_of(kind: str, checkpoint: str) -> Any:
    bert: dict[str, Any] = {"text": "text", "checkpoint": checkpoint}
    return {
        "sets": SetCompletion(items="items"),
        "sequences": SetCompletion(items="items", order="at", hide="next"),
        "labels": Classification(label="label", **bert),
        "new labels": Classification(label="label", is_from_scratch=True, **bert),
        "segments": Classification(label="label", long_documents=True, **bert),
        "tags": Tagging(label="label", **bert),
        "answers": QuestionAnswering(question="question", answer="answer", **bert),
        "hidden words": MaskedText(**bert),
        "next sentences": NextSentence(**bert),
        "causal": CausalText(text="text"),
        "both ways": BidirectionalText(text="text"),
        "targets": TextToText(text="text", target="target"),
        "targets of a BERT": TextToText(target="target", **bert),
    }[kind]


def recipe_of(kind: str, checkpoint: str, model: dict[str, Any], **settings: Any) -> Recipe:
    task = task_of(kind, checkpoint)
    usual: dict[str, Any] = {"conditioning": "global_state_update" if task.reads_context else "none", "device": "cpu"}
    return Recipe(data=ABSENT, task=task, model=model, **{**usual, **settings})


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("sets", {"hidden_size": "wide"}),
        ("sets", {"backbone": "gru"}),
        ("sets", {"hidden_act": "rlu"}),
        ("sequences", {"backbone": "bigru"}),
        ("sequences", {"layer_norm_eps": "x"}),
        ("labels", {"num_hidden_layers": 3}),
        ("labels", {"classifier_pooling": "men"}),
        ("new labels", {"backbone": "lstm"}),
        ("labels", {"segment_overlap": 3}),
        ("new labels", {"num_segment_layers": 1}),
        ("segments", {"segment_length": 17}),
        ("segments", {"segment_overlap": 14}),
        ("tags", {"hidden_dropout_prob": 1}),
        ("answers", {"num_extra_layers": -1}),
        ("hidden words", {"num_hidden_layers": 0}),
        ("next sentences", {"attention_probs_dropout_prob": "x"}),
        ("causal", {"backbone": "bigru"}),
        ("causal", {"hidden_size": 33}),
        ("both ways", {"filters": 3}),
        ("both ways", {"filters": [[1, 16], [2]]}),
        ("both ways", {"dropout": "x"}),
        ("both ways", {"num_highways": -1}),
        ("targets", {"decoder_type": "lstm"}),
        ("targets", {"position_embedding": "fixed"}),
        ("targets", {"max_position_embeddings": -3}),
        ("targets of a BERT", {"num_decoder_layers": 0}),
    ],
)
def test_a_wrong_field_is_named_before_the_table_is_read(
    kind: str, model: dict[str, Any], checkpoint: str, tmp_path: Path
) -> None:
    (name,) = model
    with pytest.raises(ConfigurationError) as found:
        run(recipe_of(kind, checkpoint, model), tmp_path / "run")
    assert isinstance(found.value.place, SettingPlace) and found.value.place.name == name
    assert found.value.value == model[name]
    assert found.value.fix or found.value.allowed
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("sets", {"hidden_size": 64, "hidden_dropout_prob": 0}),
        ("sequences", {"backbone": "gru", "hidden_act": "relu"}),
        ("sequences", {"predicts_next": False, "backbone": "bilstm"}),
        ("labels", {"num_hidden_layers": 1, "num_extra_layers": 2, "classifier_pooling": "first"}),
        ("new labels", {"backbone": "bigru", "hidden_size": 24}),
        ("segments", {"segment_length": 16, "segment_overlap": 3, "num_segment_layers": 1}),
        ("tags", {"hidden_dropout_prob": 0.1}),
        ("answers", {"initializer_range": 0.5}),
        ("hidden words", {"num_extra_layers": 1}),
        ("next sentences", {"attention_probs_dropout_prob": 0}),
        ("causal", {"backbone": "lstm", "hidden_size": 12, "num_hidden_layers": 1}),
        ("both ways", {"filters": [[1, 4], [2, 8]], "dropout": 0, "hidden_size": 8}),
        ("targets", {"decoder_type": "transformer", "backbone": "bigru", "position_embedding": "sinusoidal"}),
        ("targets of a BERT", {"num_decoder_layers": 1}),
    ],
)
def test_fields_that_a_model_can_have_pass(kind: str, model: dict[str, Any], checkpoint: str, tmp_path: Path) -> None:
    check_model_fields(recipe_of(kind, checkpoint, model))
    with pytest.raises(ContextualBertError, match=ABSENT):
        run(recipe_of(kind, checkpoint, model), tmp_path / "run")


def test_what_no_part_of_a_model_reads_is_refused(checkpoint: str) -> None:
    fixed = {"backbone": "bigru", "decoder_type": "gru_luong", "position_embedding": "sinusoidal"}
    with pytest.raises(ConfigurationError, match="there is no table"):
        check_model_fields(recipe_of("targets", checkpoint, fixed))
    check_model_fields(recipe_of("targets", checkpoint, {**fixed, "backbone": "bert"}))
    gaps = SetCompletion(items="items", order="at", hide="next", time_gaps=True)
    settings: dict[str, Any] = {"data": ABSENT, "task": gaps, "conditioning": "none"}
    check_model_fields(Recipe(**settings, model={"hidden_size": 16}))
    with pytest.raises(ConfigurationError, match="reads no time between the items"):
        check_model_fields(Recipe(**settings, model={"backbone": "gru"}))


@pytest.mark.parametrize("method", ["none", "multi_attribute", "bert_context_as_text", "bert_concat_word"])
def test_rows_with_a_bert_are_tried_too(method: str, checkpoint: str) -> None:
    check_model_fields(recipe_of("labels", checkpoint, {"num_extra_layers": 1}, conditioning=method))
    with pytest.raises(ConfigurationError, match="num_extra_layers"):
        check_model_fields(recipe_of("labels", checkpoint, {"num_extra_layers": "x"}, conditioning=method))


def test_what_a_run_has_cannot_change(tmp_path: Path) -> None:
    ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **SIZES)).save_pretrained(tmp_path)
    (tmp_path / METRICS_FILE).write_text("{}")
    task = SetCompletion(items="items", init_from=str(tmp_path))
    settings: dict[str, Any] = {"data": ABSENT, "task": task, "conditioning": "none"}
    check_model_fields(Recipe(**settings, model={"hidden_size": 16}))
    with pytest.raises(ConfigurationError, match="cannot change in a run that starts from"):
        check_model_fields(Recipe(**settings, model={"hidden_size": 32}))
