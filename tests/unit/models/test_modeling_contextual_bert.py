"""The path of a batch: where logits are made, what is refused, what transformers' users expect of a model."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune
from transformers import AutoModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from contextual_bert.conditioning import METHODS
from contextual_bert.conditioning.multi_attribute import MultiAttributeAttention
from contextual_bert.errors import ConfigurationError, SchemaError
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertForMaskedLM,
    ContextualBertModel,
)
from contextual_bert.testing import (
    miniature_batch,
    miniature_config,
    miniature_model,
    miniature_processor,
    miniature_schema,
)

VOCABULARY = 23
ALL_METHODS = pytest.mark.parametrize("method_name", sorted(METHODS))


@pytest.fixture
def batch() -> dict[str, Any]:
    return miniature_batch()


def decoder_shapes(model: ContextualBertForMaskedLM) -> list[tuple[int, ...]]:
    """The shapes of all that the output matrix makes, filled while the model runs."""
    shapes: list[tuple[int, ...]] = []
    model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, output: shapes.append(tuple(output.shape))
    )
    return shapes


@ALL_METHODS
@pytest.mark.parametrize("has_labels", [True, False])
def test_logits_are_made_at_masked_rows_only(method_name: str, has_labels: bool, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    shapes = decoder_shapes(model)
    if not has_labels:
        del batch["labels"]
    assert tuple(model(**batch).logits.shape) == (4, VOCABULARY)
    assert shapes == [(4, VOCABULARY)], "no (batch, length, vocabulary) tensor"


@ALL_METHODS
def test_a_config_may_ask_for_tuples(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    expected = model(**batch).to_tuple()
    model.config.return_dict = False
    found = model(**batch)
    assert isinstance(found, tuple)
    assert torch.equal(found[1], expected[1])


@ALL_METHODS
def test_a_mask_of_additions_is_that_of_positions_or_refused(method_name: str, batch: dict[str, Any]) -> None:
    """What transformers make of a mask (batch, 1, 1, length) may be given itself, where no method reads positions."""
    model = miniature_model(method_name)
    model.set_attn_implementation("eager")
    real = batch["attention_mask"]
    added = (1 - real[:, None, None].float()) * torch.finfo(torch.float32).min
    if method_name in ("new_position", "state_flow"):
        with pytest.raises(ConfigurationError, match=rf"\(4, 1, 1, 5\): conditioning='{method_name}' takes"):
            model(**{**batch, "attention_mask": added})
        return
    torch.testing.assert_close(model(**{**batch, "attention_mask": added}).logits, model(**batch).logits)


def test_labels_decide_where_there_are_labels(batch: dict[str, Any]) -> None:
    batch["labels"][0] = torch.tensor([5, 6, IGNORED_LABEL, IGNORED_LABEL, 7])
    model = miniature_model("global_state")
    logits = model(**batch).logits
    everywhere = model(**batch, logits_at="all").logits
    torch.testing.assert_close(logits, everywhere[batch["labels"] != IGNORED_LABEL])
    assert len(logits) == 6


def test_all_logits_on_request(batch: dict[str, Any]) -> None:
    model = miniature_model("concat")
    shapes = decoder_shapes(model)
    outputs = model(**batch, logits_at="all")
    assert tuple(outputs.logits.shape) == (4, 5, VOCABULARY)
    assert shapes == [(4, 5, VOCABULARY)]
    torch.testing.assert_close(outputs.loss, model(**batch).loss)


def test_logits_at_the_positions_that_a_mask_names(batch: dict[str, Any]) -> None:
    model = miniature_model("global_state")
    wanted = torch.zeros_like(batch["input_ids"], dtype=torch.bool)
    wanted[0, 1] = wanted[-1, 0] = True
    found = model(**{**batch, "labels": None}, logits_at=wanted).logits
    assert torch.allclose(found, model(**{**batch, "labels": None}, logits_at="all").logits[wanted], atol=1e-6)
    with pytest.raises(ConfigurationError, match="Leave out either them or logits_at"):
        model(**{**batch, "labels": batch["input_ids"]}, logits_at=wanted)


def test_another_word_for_logits_at_is_refused(batch: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"logits_at='every' is not allowed. Give 'masked' or 'all'"):
        miniature_model("none")(**batch, logits_at="every")


def test_nothing_masked_gives_no_logits() -> None:
    assert tuple(miniature_model("none")(torch.tensor([[3, 4]])).logits.shape) == (0, VOCABULARY)


def test_another_mask_id() -> None:
    logits = miniature_model("none", mask_token_id=5)(torch.tensor([[3, 5, 5, 1]])).logits
    assert tuple(logits.shape) == (2, VOCABULARY)


def test_the_loss_is_the_mean_cross_entropy_in_nats(batch: dict[str, Any]) -> None:
    outputs = miniature_model("global_state_update")(**batch)
    answers = batch["labels"][batch["labels"] != IGNORED_LABEL]
    expected = -outputs.logits.log_softmax(dim=-1)[torch.arange(4), answers].mean()
    torch.testing.assert_close(outputs.loss, expected)


def test_the_loss_does_not_depend_on_accumulation(batch: dict[str, Any]) -> None:
    batch["labels"][0] = batch["input_ids"][0]  # unequal parts: 5 labels in the first row, 1 in each other
    model = miniature_model("concat")
    whole = model(**batch, num_items_in_batch=torch.tensor(8)).loss
    torch.testing.assert_close(whole, model(**batch).loss)
    parts = [
        model(
            **{name: batch[name][rows] for name in ("input_ids", "attention_mask", "labels")},
            context={feature: tensor[rows] for feature, tensor in batch["context"].items()},
            num_items_in_batch=8,
        ).loss
        for rows in (slice(0, 1), slice(1, 4))
    ]
    torch.testing.assert_close(sum(parts), whole)


@ALL_METHODS
def test_with_positions_the_order_counts(method_name: str) -> None:
    batch = miniature_batch()
    inputs = {"context": batch["context"], "logits_at": "all"}
    order = torch.tensor([1, 0, 2, 3, 4])
    for has_positions, changes in ((True, True), (False, False)):
        model = miniature_model(method_name, has_position_embeddings=has_positions)
        straight = model(batch["input_ids"], **inputs).logits
        permuted = model(batch["input_ids"][:, order], **inputs).logits
        assert (not torch.allclose(permuted, straight[:, order], atol=1e-4)) == changes


def test_position_ids_are_used_where_there_are_positions() -> None:
    model = miniature_model("none", has_position_embeddings=True)
    ids = torch.tensor([[3, 1, 4]])
    counted = model(ids, position_ids=torch.arange(3)[None]).logits
    assert torch.equal(model(ids).logits, counted)
    assert not torch.equal(model(ids, position_ids=torch.tensor([[2, 1, 0]])).logits, counted)


def test_segments_are_used_where_there_are_segments() -> None:
    model = miniature_model("none", type_vocab_size=2)
    ids = torch.tensor([[3, 1, 4]])
    assert torch.equal(model(ids).logits, model(ids, token_type_ids=torch.zeros_like(ids)).logits)
    assert not torch.equal(model(ids).logits, model(ids, token_type_ids=torch.ones_like(ids)).logits)


@pytest.mark.parametrize("name", ["token_type_ids", "position_ids"])
def test_ids_that_would_be_ignored_are_refused(name: str) -> None:
    ids = torch.tensor([[3, 1]])
    with pytest.raises(ConfigurationError, match=rf"{name} was given, and this model has no embeddings for it"):
        miniature_model("none")(ids, **{name: ids})


@ALL_METHODS
def test_inputs_embeds_in_place_of_ids(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    embedded = model.get_input_embeddings()(batch["input_ids"])
    ids = batch.pop("input_ids")
    torch.testing.assert_close(model(inputs_embeds=embedded, **batch).logits, model(ids, **batch).logits)
    del batch["labels"]
    with pytest.raises(ConfigurationError, match="say where to predict"):
        model(inputs_embeds=embedded, **batch)
    with pytest.raises(ConfigurationError, match="either input_ids or inputs_embeds"):
        model.bert(ids, inputs_embeds=embedded, context=batch["context"])


@ALL_METHODS
def test_hidden_states_have_the_inputs_length(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    outputs = model(**batch, output_hidden_states=True)
    assert [tuple(states.shape) for states in outputs.hidden_states] == [(4, 5, 32)] * 4
    del batch["labels"]
    assert torch.equal(outputs.hidden_states[-1], model.bert(**batch).last_hidden_state)
    assert model(**batch).hidden_states is None


@ALL_METHODS
def test_the_last_block_computes_only_the_rows_asked_for(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    del batch["labels"]
    seen: list[tuple[int, ...]] = []
    last: Any = model.bert.encoder.layer[-1]
    last.intermediate.register_forward_hook(lambda module, inputs, output: seen.append(tuple(inputs[0].shape)))
    everything = model.bert(**batch).last_hidden_state
    for rows in (torch.tensor([0, 3, 4, 17, 19]), torch.tensor([], dtype=torch.long)):
        found = model.bert(**batch, rows=rows).last_hidden_state
        torch.testing.assert_close(found, everything.flatten(0, 1)[rows], rtol=1e-4, atol=1e-5)
        recorded = model.bert(**batch, rows=rows, output_hidden_states=True)
        torch.testing.assert_close(recorded.last_hidden_state, found, rtol=1e-4, atol=1e-5)
        assert recorded.hidden_states[-1].shape == everything.shape
    whole = (4, 6 if method_name == "new_position" else 5, 32)
    assert seen == [whole, (5, 1, 32), whole, (0, 1, 32), whole]


@ALL_METHODS
def test_attentions_with_the_eager_implementation(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    expected = model(**batch).logits
    with pytest.raises(ConfigurationError, match="gives no weights of attention") as refused:
        model(**batch, output_attentions=True)
    assert refused.value.location == ("attn_implementation",) and refused.value.value == "sdpa"
    model.set_attn_implementation("eager")
    outputs = model(**batch, output_attentions=True)
    length = 6 if method_name == "new_position" else 5
    attends = isinstance(model.bert.encoder.layer[0].conditioning, MultiAttributeAttention)
    heads = 4 * len(miniature_schema().features) if attends else 4  # a group of heads for each feature
    assert [tuple(weights.shape) for weights in outputs.attentions] == [(4, heads, length, length)] * 3
    torch.testing.assert_close(outputs.attentions[0].sum(dim=-1), torch.ones(4, heads, length))
    torch.testing.assert_close(outputs.logits, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture
def padded_attention() -> Iterator[str]:
    """An ``attn_implementation`` whose mask has the form of flash attention's, (batch, length)."""
    calls = 0

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, scaling: float, **_: Any
    ) -> tuple[Tensor, None]:
        nonlocal calls
        calls += 1
        scores = (query @ key.transpose(2, 3) * scaling).masked_fill(~mask[:, None, None].bool(), -torch.inf)
        return (scores.softmax(dim=-1) @ value).transpose(1, 2), None

    name = "padded"
    ALL_ATTENTION_FUNCTIONS.register(name, attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"])
    yield name
    assert calls == 3, "a block attends in another way than it was told"
    del ALL_ATTENTION_FUNCTIONS._global_mapping[name], ALL_MASK_ATTENTION_FUNCTIONS._global_mapping[name]


@ALL_METHODS
def test_every_attention_computes_the_same(method_name: str, padded_attention: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    expected = model(**batch).logits
    for attention in ("eager", padded_attention):
        model.set_attn_implementation(attention)
        torch.testing.assert_close(model(**batch).logits, expected, rtol=1e-4, atol=1e-4)
    assert not batch["attention_mask"].all()  # else the mask's form would not matter


def test_state_is_given_out(batch: dict[str, Any]) -> None:
    model = miniature_model("global_state")
    expected = model.bert.encoder.conditioning.initial(model.bert.embed_context(batch["context"], batch_size=4))
    torch.testing.assert_close(model(**batch).state, expected)
    assert miniature_model("new_position")(**batch).state is None


def test_a_tuple_on_request(batch: dict[str, Any]) -> None:
    model = miniature_model("global_state")
    outputs = model(**batch)
    loss, logits, state = model(**batch, return_dict=False)
    assert all(torch.equal(*pair) for pair in ((loss, outputs.loss), (logits, outputs.logits), (state, outputs.state)))
    assert torch.equal(model.bert(batch["input_ids"], context=batch["context"], return_dict=False)[1], state)


@pytest.mark.parametrize("method_name", sorted(METHODS.keys() - {"none"}))
def test_no_context_is_a_missing_one(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    missing = miniature_processor()(items=[["item-0"]] * 4)["context"]
    expected = model(**(batch | {"context": missing})).logits
    assert torch.equal(model(**(batch | {"context": None})).logits, expected)
    assert not torch.equal(model(**batch).logits, expected)


def test_training_without_a_context_is_said(batch: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="takes a context, and a batch came without"):
        miniature_model("film").train()(**(batch | {"context": None}))


@pytest.mark.parametrize("method_name", sorted(METHODS.keys() - {"none"}))
def test_a_context_fits_the_batch(method_name: str, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name)
    two_rows = {feature: tensor[:2] for feature, tensor in batch["context"].items()}
    with pytest.raises(ConfigurationError, match=r"context has 2 rows and input_ids 4\."):
        model(**(batch | {"context": two_rows}))
    one_feature = {"sex": batch["context"]["sex"]}
    with pytest.raises(SchemaError, match="lacks the feature 'age'"):
        model(**(batch | {"context": one_feature}))


@pytest.mark.parametrize("is_tied", [True, False])
@ALL_METHODS
def test_every_weight_is_trained(method_name: str, is_tied: bool, batch: dict[str, Any]) -> None:
    model = miniature_model(method_name, tie_word_embeddings=is_tied)
    model(**batch).loss.backward()
    dead = [name for name, weight in model.named_parameters() if weight.grad is None or not bool(weight.grad.any())]
    assert dead == []
    matrix, embeddings = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    assert (matrix is embeddings) == is_tied


@pytest.mark.parametrize("is_tied", [True, False])
def test_tied_or_not_it_comes_back(is_tied: bool, batch: dict[str, Any], tmp_path: Path) -> None:
    model = miniature_model("global_state", tie_word_embeddings=is_tied)
    with torch.no_grad():
        model.get_output_embeddings().bias.copy_(torch.arange(VOCABULARY) / 10)
    model.save_pretrained(tmp_path)
    loaded, information = ContextualBertForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(information[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(loaded.eval()(**batch).logits, model(**batch).logits)
    assert (loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight) == is_tied


@pytest.mark.parametrize("is_tied", [True, False])
def test_resizing_keeps_ties_and_old_items(is_tied: bool, batch: dict[str, Any]) -> None:
    model = miniature_model("new_position", tie_word_embeddings=is_tied)
    with torch.no_grad():
        before = model(**batch).logits
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.resize_token_embeddings(VOCABULARY + 4, mean_resizing=False)
    outputs = model.eval()(**batch)
    assert tuple(outputs.logits.shape) == (4, VOCABULARY + 4)
    assert model.config.vocab_size == VOCABULARY + 4
    torch.testing.assert_close(outputs.logits[:, :VOCABULARY], before)
    decoder = model.get_output_embeddings()
    assert (decoder.weight is model.get_input_embeddings().weight) == is_tied
    head_bias = model.cls.predictions.bias
    assert head_bias is decoder.bias if is_tied else head_bias is None
    outputs.loss.backward()
    assert decoder.bias.grad is not None
    assert bool(decoder.bias.grad[-4:].all()), "the new items take part"
    assert len(model.score_masked(**batch).num_better) == 4


def test_a_padding_items_embedding_is_not_trained(batch: dict[str, Any]) -> None:
    model = miniature_model("none", tie_word_embeddings=False)
    model(**batch).loss.backward()
    gradient = model.get_input_embeddings().weight.grad
    assert gradient is not None
    assert not bool(gradient[0].any())


def test_gradient_checkpointing_computes_the_blocks_twice(
    batch: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = miniature_model("global_state").train()
    calls: list[int] = []
    model.bert.encoder.layer[0].intermediate.register_forward_hook(lambda *_: calls.append(1))
    model.gradient_checkpointing_enable()
    model(**batch).loss.backward()
    assert len(calls) == 2
    assert "incompatible with gradient checkpointing" not in caplog.text


def test_the_encoder_alone_loads_from_a_model_with_a_head(batch: dict[str, Any], tmp_path: Path) -> None:
    model = miniature_model("global_state_update")
    model.save_pretrained(tmp_path)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "context")}
    for loaded in (ContextualBertModel.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)):
        assert torch.equal(loaded.eval()(**inputs).last_hidden_state, model.bert(**inputs).last_hidden_state)


def test_dropout_is_off_in_eval_mode_only(batch: dict[str, Any]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ContextualBertForMaskedLM(miniature_config("global_state", hidden_dropout_prob=0.5))
        still = [model.eval()(**batch).logits for _ in range(2)]
        moving = [model.train()(**batch, logits_at="masked").logits for _ in range(2)]
    assert torch.equal(*still)
    assert not torch.equal(*moving)


def test_the_head_is_dense_gelu_matrix(batch: dict[str, Any]) -> None:
    model = miniature_model("none", has_head_layer_norm=False)
    rows: list[Tensor] = []
    model.cls.register_forward_pre_hook(lambda module, inputs: rows.append(inputs[0]))
    logits = model(**batch).logits
    dense, decoder = model.cls.predictions.transform.dense, model.get_output_embeddings()
    expected = nn.functional.gelu(rows[0] @ dense.weight.T + dense.bias) @ decoder.weight.T + decoder.bias
    torch.testing.assert_close(logits, expected)


def test_a_hook_on_the_head_is_called_in_training_too(batch: dict[str, Any]) -> None:
    """Logits that are adjusted by a hook have the loss of the adjusted ones, which the loss without logits has not."""
    model = miniature_model("global_state", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    prior = torch.linspace(0, 5, VOCABULARY)
    plain = model.train()(**batch).loss
    handle = model.cls.register_forward_hook(lambda module, inputs, output: output + prior)
    training, evaluation = model.train()(**batch).loss, model.eval()(**batch).loss
    torch.testing.assert_close(training, evaluation)
    assert abs(float(training.detach() - plain.detach())) > 0.1
    handle.remove()
    torch.testing.assert_close(model.train()(**batch).loss, plain)
    prune.l1_unstructured(model.get_output_embeddings(), "weight", amount=0.5)
    for _ in range(2):
        model.train()(**batch).loss.backward()


def test_the_first_two_outputs_are_those_of_bert() -> None:
    """``model(...)[1]`` is what the pooler makes of the text, and not the state of the customer."""
    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    model = ContextualBertModel(miniature_config("global_state_update"), has_pooler=True).eval()
    outputs = model(**batch)
    assert outputs.state is not None
    assert torch.equal(outputs[0], outputs.last_hidden_state)
    assert torch.equal(outputs[1], outputs.pooler_output)
    assert torch.equal(outputs[2], outputs.state)
    masked = miniature_model("global_state_update")(**batch, output_hidden_states=True)
    assert masked[1] is masked.hidden_states


def test_a_third_argument_that_is_no_context_is_refused() -> None:
    """As BERT takes it, it would be token_type_ids."""
    batch = miniature_batch()
    for method_name in ("none", "film"):
        with pytest.raises(ConfigurationError, match="comes the context, and not token_type_ids"):
            miniature_model(method_name)(batch["input_ids"], batch["attention_mask"], torch.zeros(4, 5))


def test_weights_that_are_elsewhere_or_packed_are_not_looked_at(tmp_path: Path) -> None:
    """On disk, or quantised: modules are called, and what they hold is their own affair."""
    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    model = miniature_model("global_state_update")
    expected = model(**batch).logits
    model.save_pretrained(tmp_path / "model")
    on_disk = ContextualBertForMaskedLM.from_pretrained(
        tmp_path / "model", device_map={"": "disk"}, offload_folder=str(tmp_path / "offload")
    )
    with torch.no_grad():
        torch.testing.assert_close(on_disk.eval()(**batch).logits, expected)
        nothing = {name: value for name, value in batch.items() if name != "context"}
        torch.testing.assert_close(on_disk(**nothing).logits, model(**nothing).logits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    torch.testing.assert_close(packed(**batch).logits, expected, rtol=0, atol=0.3)


def test_a_context_is_missing_though_no_weight_says_where(batch: dict[str, Any]) -> None:
    """A replica of DataParallel has no parameters of its own."""
    encoder = ContextualBertModel(miniature_config("film")).context_encoder
    assert encoder is not None
    for module in encoder.modules():
        module._parameters.clear()
    assert {value.device.type for value in encoder.missing(2, device=torch.device("meta")).values()} == {"meta"}


@pytest.mark.parametrize("training", [True, False])
def test_a_subclass_of_another_name_has_the_same_loss(training: bool, batch: dict[str, Any]) -> None:
    """transformers takes the loss from the name of the class, and with an unknown one that of a causal model."""

    class Wardrobe(ContextualBertForMaskedLM):
        pass

    model = miniature_model("global_state", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    renamed = Wardrobe(model.config)
    renamed.load_state_dict(model.state_dict())
    torch.testing.assert_close(renamed.train(training)(**batch).loss, model.train(training)(**batch).loss)
