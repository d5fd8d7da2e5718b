"""Starting from a BERT checkpoint: its function is kept, new weights are known, and what is no BERT is refused."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPTNeoConfig,
    Trainer,
    TrainingArguments,
    pipeline,
)

from contextual_bert import TextPipeline
from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector, encode_records
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertModel,
    ContextualBertProcessor,
)
from contextual_bert.models.checkpoint_files import pooling_of
from contextual_bert.testing import miniature_schema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import RECORDS

SCHEMA = miniature_schema()
IDS = torch.tensor([[3, 7, 9, 4], [3, 8, 4, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
CONTEXT = encode_records(SCHEMA, RECORDS[:2]).tensors
SENTENCES = ["The weather is lovely today.", "He drove to the stadium in the old town, and back.", "Don't!"]


def test_a_fine_tuned_checkpoint_brings_its_head(bert: BertForSequenceClassification, checkpoint: Path) -> None:
    model = ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=SCHEMA).eval()
    with torch.no_grad():
        expected = bert(IDS, attention_mask=MASK).logits
        torch.testing.assert_close(model(IDS, MASK, CONTEXT).logits, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(model(IDS, MASK).logits, expected, rtol=0, atol=1e-5)


def test_the_mean_starts_with_the_function_of_the_checkpoint(
    bert: BertForSequenceClassification, checkpoint: Path
) -> None:
    load = partial(ContextualBertForSequenceClassification.from_checkpoint, checkpoint, schema=SCHEMA)
    with torch.no_grad():
        hidden = bert.bert(IDS, attention_mask=MASK).last_hidden_state
        means = torch.stack([hidden[0].mean(dim=0), hidden[1, :3].mean(dim=0)])
        found = load(classifier_pooling="mean").eval()(IDS, MASK, CONTEXT).logits
    torch.testing.assert_close(found, bert.classifier(means), rtol=0, atol=1e-5)


def test_how_a_checkpoint_makes_a_vector_of_a_text(checkpoint: Path, minilm: Path) -> None:
    assert pooling_of(checkpoint) == "cls"
    assert pooling_of(minilm) == "mean"


@pytest.mark.parametrize("content", ["{", "[1]", "7"])
def test_a_pooling_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"1_Pooling/config\.json is no JSON object"):
        pooling_of(tmp_path)


def test_another_number_of_labels_needs_a_new_head(checkpoint: Path) -> None:
    load = partial(ContextualBertForSequenceClassification.from_checkpoint, checkpoint, schema=SCHEMA, num_labels=7)
    with pytest.raises(
        CheckpointError, match=r"classifier\.bias' has the shape \(4,\) and the model's \(7,\).*new head"
    ):
        load()
    assert load(ignore_mismatched_sizes=True)(IDS, MASK, CONTEXT).logits.shape == (2, 7)


def test_the_config_is_that_of_the_checkpoint_and_its_tokenizer(checkpoint: Path) -> None:
    config = ContextualBertForMaskedLM.from_checkpoint(checkpoint, conditioning="none", hidden_dropout_prob=0.3).config
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size, config.type_vocab_size) == (32, 3, 23, 2)
    assert (config.pad_token_id, config.mask_token_id, config.eos_token_id) == (0, 1, 4)
    assert config.reserved_token_ids == [0, 1, 2, 3, 4]
    assert config.has_position_embeddings and config.has_pretrained_start and config.hidden_dropout_prob == 0.3


@pytest.mark.parametrize("method_name", sorted(METHODS))
def test_it_starts_with_the_function_of_a_real_bert(method_name: str, minilm: Path) -> None:
    bert = BertModel.from_pretrained(minilm).eval()
    batch = AutoTokenizer.from_pretrained(minilm)(SENTENCES, return_tensors="pt", padding=True)
    has_context = get_method(method_name).has_context
    schema = SCHEMA if has_context else None
    model = ContextualBertModel.from_checkpoint(minilm, schema=schema, conditioning=method_name).eval()
    context = encode_records(SCHEMA, RECORDS[:3]).tensors if has_context else None
    is_real = batch["attention_mask"].bool()
    with torch.no_grad():
        expected = bert(**batch).last_hidden_state[is_real]
        found = model(batch["input_ids"], batch["attention_mask"], context).last_hidden_state[is_real]
        anonymous = model(batch["input_ids"], batch["attention_mask"]).last_hidden_state[is_real]
    if get_method(method_name).keeps_checkpoint:
        assert float((found - expected).abs().max()) <= 1e-5
    elif method_name == "new_position":
        assert torch.equal(found, anonymous)  # the context is ignored at first
        assert float(torch.cosine_similarity(found, expected).mean()) > 0.98


@pytest.mark.parametrize("method_name", sorted(METHODS.keys() - {"none"}))
def test_the_context_is_learned_from_there(method_name: str, checkpoint: Path) -> None:
    model = ContextualBertForSequenceClassification.from_checkpoint(
        checkpoint, schema=SCHEMA, conditioning=method_name, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(IDS, MASK, CONTEXT, labels=torch.tensor([0, 3])).loss.backward()
        optimizer.step()
    still = [
        name
        for name, weight in model.named_parameters()
        if "conditioning." in name and (weight.grad is None or not bool(weight.grad.any()))
    ]
    assert not still
    other = {feature: tensor.flip(0) for feature, tensor in CONTEXT.items()}
    model.eval()
    assert not torch.equal(model(IDS, MASK, CONTEXT).logits, model(IDS, MASK, other).logits)


@pytest.mark.parametrize("method_name", ["global_state", "global_state_update", "state_flow", "film"])
def test_the_state_tells_contexts_apart_and_does_so_when_its_biases_have_moved(method_name: str, minilm: Path) -> None:
    """As far as a hundred steps of AdamW at 2e-4 move them, and the same for every context."""
    torch.manual_seed(0)
    schema = ContextSchema(features=tuple(Categorical(name=name, values=tuple("abcdefgh")) for name in "xyz"))
    model = ContextualBertModel.from_checkpoint(minilm, schema=schema, conditioning=method_name)
    slot: Any = model.encoder.conditioning
    with torch.no_grad():
        for name, weight in slot.named_parameters():
            if name.endswith("bias"):
                weight.add_(0.02 * torch.randn_like(weight).sign())
        state = slot.initial(model.context_encoder({name: torch.randint(2, 10, (200,)) for name in "xyz"}))
        states = [state]
        if method_name == "global_state_update":
            for layer in range(model.config.num_hidden_layers - 1):
                states.append(slot.transition(layer, states[-1], None, None))
    for each in states:
        assert 0.5 < float(each.square().mean().sqrt()) < 2
        assert float(each.var(dim=0).sum()) > 0.5 * float(each.square().mean(dim=0).sum())


def test_every_kind_of_feature_starts_equally_loud(checkpoint: Path) -> None:
    torch.manual_seed(0)
    sizes = {"embedding_size": 64}
    schema = ContextSchema(
        features=(
            Categorical(name="sex", values=("f", "m"), **sizes),
            Numerical(name="age", edges=(20.0, 40.0), **sizes),
            MultiCategorical(name="brands", values=("a", "b"), **sizes),
            Vector(name="style", size=16, **sizes),
        )
    )
    records = [{"sex": "f", "age": 30, "brands": ["b"], "style": torch.randn(16).tolist()}, {}]
    context = encode_records(schema, records).tensors
    for method_name, scale in (("concat", 1.0), ("multi_attribute", 0.02)):
        model = ContextualBertModel.from_checkpoint(checkpoint, schema=schema, conditioning=method_name)
        for feature in cast(Any, model.context_encoder)(context).features[: 4 if scale == 1 else 3]:
            assert 0.6 * scale < float(feature.detach().std(dim=1).min()) < 1.6 * scale


def test_an_unknown_value_starts_as_the_mean_of_the_known_ones(checkpoint: Path) -> None:
    schema = ContextSchema(
        features=(Categorical(name="sex", values=("f", "m")), MultiCategorical(name="brands", values=("a", "b", "c")))
    )
    records = [{"sex": sex, "brands": [brand]} for sex in "fmx" for brand in "abcx"]
    model = ContextualBertModel.from_checkpoint(checkpoint, schema=schema, conditioning="global_state")
    encoder: Any = model.context_encoder
    sex, brands = (each.detach() for each in encoder(encode_records(schema, records).tensors).features)
    torch.testing.assert_close(sex[8], (sex[0] + sex[4]) / 2)
    torch.testing.assert_close(brands[3], brands[:3].mean(dim=0))


def test_saved_and_loaded_it_stays_what_it_was(checkpoint: Path, tmp_path: Path) -> None:
    model = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=SCHEMA, conditioning="concat").eval()
    model.save_pretrained(tmp_path / "saved")
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(*(each(IDS, MASK, CONTEXT, logits_at="all").logits for each in (model, again)))


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere: no config can be read \(no such folder"):
        ContextualBertModel.from_checkpoint(tmp_path / "nowhere", schema=SCHEMA)
    with pytest.raises(CheckpointError, match=r"no config can be read.*Give the folder of a BERT checkpoint"):
        ContextualBertModel.from_checkpoint(tmp_path, schema=SCHEMA)


def test_another_architecture_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    GPTNeoConfig().save_pretrained(tmp_path / "gpt")
    with pytest.raises(CheckpointError, match=r"its architecture is 'gpt_neo'\. Allowed: bert"):
        ContextualBertModel.from_checkpoint(tmp_path / "gpt", schema=SCHEMA)
    ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA).save_pretrained(tmp_path / "own")
    with pytest.raises(CheckpointError, match=r"'contextual_bert'.*load it with from_pretrained"):
        ContextualBertModel.from_checkpoint(tmp_path / "own", schema=SCHEMA)


@pytest.mark.parametrize("method_name", ["none", "concat", "global_state_update", "film"])
def test_a_run_without_a_context_is_a_checkpoint_like_any_other(
    method_name: str, checkpoint: Path, tmp_path: Path
) -> None:
    """Hidden words of one's own corpus first, without a context; then the same, or a label, with one."""
    torch.manual_seed(0)
    before = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=None, conditioning="none").eval()
    with torch.no_grad():
        for weight in before.parameters():
            weight.add_(0.02 * torch.randn_like(weight))  # as if it had been trained
    before.save_pretrained(tmp_path)
    read = ContextualBertProcessor.from_checkpoint(checkpoint)
    read.tokenizer.model_max_length = 3  # as much as that run read
    read.save_pretrained(tmp_path)
    after = ContextualBertForMaskedLM.from_checkpoint(tmp_path, schema=SCHEMA, conditioning=method_name).eval()
    labelled = ContextualBertForSequenceClassification.from_checkpoint(
        tmp_path, schema=SCHEMA, conditioning=method_name
    )
    with torch.no_grad():
        expected = before(IDS, MASK, logits_at="all").logits
        torch.testing.assert_close(after(IDS, MASK, CONTEXT, logits_at="all").logits, expected, rtol=0, atol=1e-5)
        hidden = [each.base_model(IDS, MASK).last_hidden_state for each in (before, labelled.eval())]
    torch.testing.assert_close(hidden[0], hidden[1], rtol=0, atol=1e-5)
    processor = ContextualBertProcessor.from_checkpoint(tmp_path, SCHEMA)
    again = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    assert processor(text="word1 word2")["input_ids"].tolist() == again(text="word1 word2")["input_ids"].tolist()
    assert processor.tokenizer.model_max_length == before.config.max_position_embeddings


@pytest.mark.parametrize("settings", [{"has_context_as_text": True}, {"num_extra_layers": 1}])
def test_a_model_that_is_more_than_a_bert_is_no_checkpoint(
    settings: dict[str, Any], checkpoint: Path, tmp_path: Path
) -> None:
    model = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=SCHEMA, conditioning="none", **settings)
    model.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"'contextual_bert'.*load it with from_pretrained"):
        ContextualBertForMaskedLM.from_checkpoint(tmp_path, schema=SCHEMA)


def test_a_tokenizer_is_needed(checkpoint: Path) -> None:
    settings = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    del settings["sep_token"]
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(CheckpointError, match="its tokenizer has no sep_token"):
        ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (checkpoint / name).unlink()
    for load in (ContextualBertModel.from_checkpoint, ContextualBertProcessor.from_checkpoint):
        with pytest.raises(CheckpointError, match="no tokenizer can be read"):
            load(checkpoint, schema=SCHEMA)


def test_weights_that_are_missing_or_do_not_fit(checkpoint: Path) -> None:
    weights = load_file(checkpoint / "model.safetensors")
    lost = "bert.encoder.layer.1.output.dense.weight"
    kept = {name: tensor for name, tensor in weights.items() if name != lost}
    save_file(kept, checkpoint / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"1 weight is missing, '.*layer\.1\.output\.dense\.weight'"):
        ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA)
    save_file({**weights, lost: torch.zeros(5, 5)}, checkpoint / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"dense\.weight' has the shape \(5, 5\) and the model's \(32, 48\)"):
        ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA)
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="its weights cannot be loaded"):
        ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_lables": 3}, r"from_checkpoint does not take \['num_lables'\]. Did you mean 'num_labels'"),
        ({"attn_implementation": "eager", "colour": 3}, r"from_checkpoint does not take \['colour'\]. Known: "),
        ({"schema": None}, "needs a context, and context_features is empty"),
        ({"schema": "schema.json"}, r"schema='schema.json' is a str. Give a ContextSchema: ContextSchema.load\("),
        ({"schema": {"features": []}}, "is a dict. Give a ContextSchema"),
        ({"num_hidden_layers": 9}, "num_hidden_layers=9 is more than the 3 of .*Give no more; new blocks .* num_extra"),
        ({"is_ordinal": True, "num_labels": 3}, "ContextualBertModel does not read is_ordinal"),
        ({"attribute_start": "paper"}, "attribute_start is for conditioning='multi_attribute', and it is"),
        ({"has_attribute_values": False, "conditioning": "film"}, "has_attribute_values is for .*, and it is 'film'"),
        ({"field_dropout": 0.3}, "field_dropout=0.3 says how a model was trained.*ContextualTrainingArguments"),
        ({"problem_type": "multi_label"}, "problem_type='multi_label' is unknown. Known: multi_label_classification"),
        ({"num_labels": 0}, "num_labels=0 is not allowed. Give a whole number of labels, 1 or more"),
        ({"num_labels": "3"}, "num_labels='3' is not allowed. Give a whole number"),
        ({"num_labels": True}, "num_labels=True is not allowed. Give a whole number"),
        ({"id2label": ["a", "b"]}, r"id2label is a list. Give a mapping: dict\(enumerate\(names\)\)"),
        ({"num_labels": 2, "id2label": {0: "a", 1: "b", 2: "c"}}, "num_labels=2 does not fit the 3 labels"),
        ({"num_labels": 3, "label2id": {"a": 0, "b": 1}}, "num_labels=3 does not fit the 2 labels"),
        ({"id2label": {0: 1, 1: 5}}, r"labels are \{0: 1, 1: 5\}. Give each id from 0 on a name, as text"),
        ({"id2label": {1: "a", 2: "b"}}, "Give each id from 0 on a name"),
        ({"id2label": {0: "a", 1: "a"}}, "each name once"),
        ({"label2id": {"a": 0, "b": 0}}, "Give each id from 0 on a name|each name once"),
        ({"id2label": {0: "a", 1: "b"}, "label2id": {"x": 0, "y": 1}}, "and label2id=.* says otherwise"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], message: str, checkpoint: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ContextualBertModel.from_checkpoint(checkpoint, **{"schema": SCHEMA, **settings})


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_weights_are_trained_in_full_precision_whatever_they_are_stored_in(
    stored: torch.dtype, checkpoint: Path, bert: BertForSequenceClassification
) -> None:
    miniature_checkpoint(cast(Any, bert.to(stored)), checkpoint)
    model = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=SCHEMA, tie_word_embeddings=False)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_a_problem_type_leaves_the_labels_of_the_checkpoint(checkpoint: Path) -> None:
    several = "multi_label_classification"
    model = ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=SCHEMA, problem_type=several)
    plain = ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=SCHEMA)
    assert (model.config.problem_type, model.config.id2label) == (several, plain.config.id2label)
    assert torch.equal(model.classifier.weight, plain.classifier.weight)


@pytest.mark.parametrize(
    "settings", [{"id2label": {"1": "good", "0": "bad"}}, {"label2id": {"good": 1, "bad": 0}, "num_labels": 2}]
)
def test_names_of_labels_are_told_either_way(settings: dict[str, Any], checkpoint: Path, tmp_path: Path) -> None:
    model = ContextualBertForSequenceClassification.from_checkpoint(
        checkpoint, schema=SCHEMA, ignore_mismatched_sizes=True, **settings
    )
    model.save_pretrained(tmp_path)
    for config in (model.config, ContextualBertForSequenceClassification.from_pretrained(tmp_path).config):
        assert (config.id2label, config.label2id) == ({0: "bad", 1: "good"}, {"bad": 0, "good": 1})


def test_a_bert_is_not_loaded_as_what_this_package_saved(checkpoint: Path) -> None:
    """It would be read as a model of sets: without positions."""
    for load in (ContextualBertForSequenceClassification, ContextualBertForMaskedLM, ContextualBertConfig):
        with pytest.raises(CheckpointError, match=r"model_type='bert'.*started from with from_checkpoint"):
            load.from_pretrained(checkpoint)


def test_a_number_of_labels_may_come_from_numpy(checkpoint: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"num_labels": np.int64(3), "ignore_mismatched_sizes": True}
    model = ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=SCHEMA, **settings)
    model.save_pretrained(tmp_path)
    assert ContextualBertForSequenceClassification.from_pretrained(tmp_path).config.num_labels == 3


def test_words_are_filled_by_the_pipeline_of_transformers(checkpoint: Path) -> None:
    model = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=SCHEMA).eval()
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    found: Any = pipeline("fill-mask", model=cast(Any, model), tokenizer=processor.tokenizer)("word1 [MASK] word2")
    with torch.no_grad():
        logits = model(**processor(text="word1 [MASK] word2")).logits
    assert logits.shape == (1, 5, model.config.vocab_size)
    assert found[0]["token"] == int(logits[0, 2].argmax())


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_loading_settings_reach_from_pretrained(name: str, checkpoint: Path) -> None:
    model = ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA, **{name: torch.bfloat16})
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


def test_the_processor_has_the_tokenizer_of_the_checkpoint(minilm: Path) -> None:
    processor = ContextualBertProcessor.from_checkpoint(minilm, SCHEMA)
    batch = processor(text=SENTENCES, context=[{"sex": "f"}, {}, {}])
    expected = AutoTokenizer.from_pretrained(minilm)(SENTENCES, return_tensors="pt", padding=True)
    assert all(torch.equal(batch[name], expected[name]) for name in expected)
    assert batch["context"]["sex"].tolist() == [2, 0, 0]


def test_a_checkpoint_in_a_folder_of_another(checkpoint: Path, bert: BertForSequenceClassification) -> None:
    bert.config.layer_norm_eps = 1e-3
    miniature_checkpoint(bert, checkpoint / "sub")
    model = ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA, subfolder="sub")
    assert model.config.layer_norm_eps == 1e-3
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (checkpoint / name).unlink()
    own = ContextualBertModel.from_checkpoint(checkpoint, schema=SCHEMA, subfolder="sub", local_files_only=True)
    assert own.config.to_dict() == model.config.to_dict()
    assert ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA, subfolder="sub").is_for_text
    with pytest.raises(ConfigurationError, match=r"No setting 'subfolders' of a checkpoint's place. Did you mean 'sub"):
        ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA, subfolders="sub")


@pytest.mark.parametrize("method_name", ["none", "global_state", "multi_attribute"])
def test_new_blocks_on_the_first_of_a_checkpoint_are_new(
    method_name: str, bert: BertForSequenceClassification, checkpoint: Path
) -> None:
    """They have the names of the checkpoint's own later blocks, and nothing of them."""
    schema = SCHEMA if method_name != "none" else None
    fields = {"conditioning": method_name, "num_hidden_layers": 1, "num_extra_layers": 1}
    model = ContextualBertModel.from_checkpoint(checkpoint, schema=schema, **fields)
    own, theirs = dict(model.encoder.layer[1].named_parameters()), dict(bert.bert.encoder.layer[1].named_parameters())
    shared = [name for name in theirs if name in own and own[name].shape == theirs[name].shape]
    assert len(shared) > 5
    assert not any(torch.equal(own[name], theirs[name]) for name in shared)
    assert float(own["output.dense.weight"].detach().std()) == pytest.approx(model.config.initializer_range, rel=0.2)
    first = model.encoder.layer[0].output.dense.weight
    assert torch.equal(first, bert.bert.encoder.layer[0].output.dense.weight)


@pytest.mark.parametrize("has_head", [True, False])
def test_an_output_of_its_own_starts_as_the_tied_one(has_head: bool, checkpoint: Path, tmp_path: Path) -> None:
    theirs = BertForMaskedLM.from_pretrained(checkpoint)
    with torch.no_grad():
        theirs.cls.predictions.bias.copy_(torch.arange(len(theirs.cls.predictions.bias)))
    shutil.copytree(checkpoint, tmp_path / "tied")
    (theirs if has_head else theirs.bert).save_pretrained(tmp_path / "tied")
    model = ContextualBertForMaskedLM.from_checkpoint(tmp_path / "tied", conditioning="none", tie_word_embeddings=False)
    decoder, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    assert decoder.weight is not embeddings.weight
    assert torch.equal(decoder.weight, embeddings.weight)
    assert decoder.bias.tolist() == (list(range(len(decoder.bias))) if has_head else [0] * len(decoder.bias))
    model.save_pretrained(tmp_path / "own")
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path / "own").get_output_embeddings()
    assert torch.equal(again.bias, decoder.bias)


def changed_config(checkpoint: Path, **fields: Any) -> Path:
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    (checkpoint / "config.json").write_text(json.dumps({**config, **fields}), "utf-8")
    return checkpoint


def test_positions_that_cannot_be_taken_over_are_refused(checkpoint: Path) -> None:
    """transformers 5 reads such weights no more, and the model would compute something else."""
    changed_config(checkpoint, position_embedding_type="relative_key")
    for load in (ContextualBertModel.from_checkpoint, ContextualBertProcessor.from_checkpoint):
        with pytest.raises(CheckpointError, match="position_embedding_type is 'relative_key'"):
            load(checkpoint, schema=SCHEMA)


def test_a_tokenizer_larger_than_the_matrix_is_refused(checkpoint: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.add_tokens(["gourmet"])
    tokenizer.save_pretrained(checkpoint)
    for load in (ContextualBertModel.from_checkpoint, ContextualBertProcessor.from_checkpoint):
        with pytest.raises(CheckpointError, match=r"its tokenizer has 24 tokens and its model embeddings for 23"):
            load(checkpoint, schema=SCHEMA)


def test_questions_need_two_segments(bert: BertForSequenceClassification, tmp_path: Path) -> None:
    config = type(bert.config)(**{**bert.config.to_dict(), "type_vocab_size": 1})
    miniature_checkpoint(BertForSequenceClassification(config), tmp_path / "single")
    with pytest.raises(CheckpointError, match=r"type_vocab_size=1, and ContextualBertForQuestionAnswering tells"):
        ContextualBertForQuestionAnswering.from_checkpoint(tmp_path / "single", schema=SCHEMA)
    model = ContextualBertForSequenceClassification.from_checkpoint(tmp_path / "single", schema=SCHEMA)
    processor = ContextualBertProcessor.from_checkpoint(tmp_path / "single", SCHEMA)
    with pytest.raises(ConfigurationError, match=r"one segment \(type_vocab_size=1\), and a pair of texts two"):
        TextPipeline(model, processor)({"text": "word1", "pair": "word2"})


@pytest.mark.parametrize("batch_size", [3, 4, 5])
def test_what_a_plain_trainer_predicts_of_hidden_words_is_whole(
    checkpoint: Path, batch_size: int, tmp_path: Path
) -> None:
    """As of BERT: a row an example, so that what is gathered is cut to the examples and to nothing else."""
    model = ContextualBertForMaskedLM.from_checkpoint(checkpoint, schema=SCHEMA)
    ids = torch.arange(5, 15).view(5, 2)
    labels = ids.clone()
    rows = [{"input_ids": ids[row], "labels": labels[row]} for row in range(5)]
    arguments = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=batch_size, remove_unused_columns=False, report_to=[], use_cpu=True
    )
    found = Trainer(model, arguments).predict(cast(Any, rows))
    shares: Any = found.predictions
    logits = shares[0] if isinstance(shares, tuple) else shares
    assert logits.shape == (5, 2, 23)
    with torch.no_grad():
        expected = model.eval()(input_ids=ids, labels=labels, logits_at="all").logits
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_a_word_in_two_lines_of_a_vocabulary_is_refused(checkpoint: Path) -> None:
    words = AutoTokenizer.from_pretrained(checkpoint).get_vocab()
    lines = sorted(words, key=words.__getitem__)
    (checkpoint / "tokenizer.json").unlink()
    settings = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "BertTokenizer"}))
    (checkpoint / "vocab.txt").write_text("\n".join([*lines[:-1], lines[-2]]) + "\n")
    for load in (ContextualBertModel.from_checkpoint, ContextualBertProcessor.from_checkpoint):
        with pytest.raises(CheckpointError, match=r"a token is in two lines of vocab.txt"):
            load(checkpoint, schema=SCHEMA)
