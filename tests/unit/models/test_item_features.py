import copy

import pytest
import torch

from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError
from contextual_bert.item_features import ItemAttributes, ItemEncoder, ItemLayout, encode_items
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
)

COLOUR = FeatureLayout("colour", "categorical", 5, 0, 8)
TAGS = FeatureLayout("tags", "multi_categorical", 6, 0, 8)
PICTURE = FeatureLayout("picture", "vector", 0, 3, 8)
FEATURES = (COLOUR, TAGS, PICTURE)
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
SIZES |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Four items: the second lacks its picture, the third has no tag that is known, the last is one that training lacks.
ENCODED = {
    "colour": torch.tensor([2, 3, 0, 4]),
    "tags": torch.tensor([[4, 5], [5, 0], [1, 0], [4, 0]]),
    "picture": torch.tensor([[1.0, 2, 3, 0], [0, 0, 0, 1], [0, -1, 1, 0], [2, 0, 0, 0]]),
}
IS_NEW = torch.tensor([False, False, False, True])


def featured(*, encoder: str = "sum", dropout: float = 0.0, tied: bool = False) -> ContextualBertForMaskedLM:
    torch.manual_seed(0)
    items = encode_items(FEATURES, ENCODED)
    layout = ItemLayout(FEATURES, num_places=items.value_ids.shape[1], encoder=encoder, dropout=dropout)
    config = ContextualBertConfig(
        vocab_size=7, item_features=layout.to_dict(), tie_word_embeddings=tied, softmax_over="candidates", **SIZES
    )
    model = ContextualBertForMaskedLM(config).eval()
    model.bert.embeddings.attributes.fill(items, is_new=IS_NEW)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    return model


def counted_features(encoder: ItemEncoder, item: int) -> torch.Tensor:
    """What the features add to one item, by hand."""
    values, starts = encoder.values.weight, encoder.layout.starts
    total = values[starts[0] + int(ENCODED["colour"][item])].clone()
    tags = [int(tag) for tag in ENCODED["tags"][item] if tag != 0]
    total += sum(values[starts[1] + tag] for tag in tags) / len(tags)
    picture = ENCODED["picture"][item]
    total += values[starts[2]] if picture[-1] else encoder.projections[0].weight @ picture[:-1]
    return total + encoder.network(total) if encoder.network is not None else total


@pytest.mark.parametrize("encoder", ["sum", "mlp"])
def test_vectors_are_those_of_the_formula(encoder: str) -> None:
    embeddings = featured(encoder=encoder).bert.embeddings
    own, made = embeddings.word_embeddings.weight, embeddings.item_encoder
    table = made(own, embeddings.attributes)
    for item in range(3):
        torch.testing.assert_close(table[3 + item], own[3 + item] + counted_features(made, item))
    torch.testing.assert_close(table[6], made.new.weight[0] + counted_features(made, 3))


def test_reserved_ids_have_no_features() -> None:
    embeddings = featured().bert.embeddings
    table = embeddings.item_encoder(embeddings.word_embeddings.weight, embeddings.attributes)
    torch.testing.assert_close(table[:3], embeddings.word_embeddings.weight[:3])


def test_gradients_of_the_values_are_those_of_the_dense_product() -> None:
    embeddings = featured().bert.embeddings
    attributes, encoder = embeddings.attributes, embeddings.item_encoder
    factors = torch.randn(7, 8)
    (encoder(embeddings.word_embeddings.weight, attributes) * factors).sum().backward()
    dense = attributes.dense()
    expected = dense.T @ factors
    torch.testing.assert_close(encoder.values.weight.grad, expected[: encoder.layout.num_values])
    torch.testing.assert_close(encoder.new.weight.grad[0], factors[6])  # of the new item
    own = embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(own[:6], factors[:6])
    assert not own[6].any()
    torch.testing.assert_close(encoder.projections[0].weight.grad, expected[encoder.layout.num_values :].T)


@pytest.mark.parametrize("tied", [False, True])
def test_a_copy_without_features_computes_the_same(tied: bool) -> None:
    model = featured(tied=tied)
    plain = model.without_item_features()
    ids = torch.tensor([[3, 1, 6], [5, 4, 1]])
    assert plain.config.item_features is None
    with torch.no_grad():
        torch.testing.assert_close(plain(input_ids=ids).logits, model(input_ids=ids).logits)


def test_the_base_model_reads_the_features_too() -> None:
    model = featured()
    plain, ids = model.without_item_features(), torch.tensor([[3, 6, 5]])
    with torch.no_grad():
        hidden, expected = (each.bert(input_ids=ids).last_hidden_state for each in (model, plain))
    torch.testing.assert_close(hidden, expected)


def test_vectors_are_made_once_and_anew_when_a_weight_changes() -> None:
    model = featured()
    embeddings = model.bert.embeddings
    own, encoder, attributes = embeddings.word_embeddings.weight, embeddings.item_encoder, embeddings.attributes
    with torch.no_grad():
        first = encoder(own, attributes)
        assert encoder(own, attributes) is first
        encoder.values.weight.add_(1.0)
        second = encoder(own, attributes)
        assert second is not first and not torch.equal(second, first)
        model.load_state_dict(copy.deepcopy(model.state_dict()))
        assert encoder(own, attributes) is not second
        attributes.is_new.fill_(False)
        torch.testing.assert_close(encoder(own, attributes)[6], own[6] + counted_features(encoder, 3))


def test_a_copied_model_makes_vectors_of_its_own() -> None:
    model = featured()
    ids = torch.tensor([[3, 1]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        copied = copy.deepcopy(model)
        copied.bert.embeddings.item_encoder.values.weight.add_(1.0)
        assert not torch.equal(copied(input_ids=ids).logits, before)
        assert torch.equal(model(input_ids=ids).logits, before)


def test_training_never_answers_with_a_new_item() -> None:
    model = featured().train()
    batch = {"input_ids": torch.tensor([[3, 1]]), "labels": torch.tensor([[-100, 4]])}
    loss = model(**batch).loss
    logits = model(input_ids=batch["input_ids"], logits_at="masked").logits
    assert logits[0, 6] == -torch.inf
    expected = -logits[0, [4, 5]].log_softmax(dim=0)[0]
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert not model.bert.embeddings.word_embeddings.weight.grad[6].any()
    assert not model.get_output_embeddings().weight.grad[6].any()
    assert model.get_output_embeddings().bias.grad[6] == 0


def test_the_loss_without_logits_is_that_with_logits() -> None:
    model = featured(dropout=0.5).train()
    batch = {"input_ids": torch.tensor([[3, 1], [1, 5]]), "labels": torch.tensor([[-100, 4], [3, -100]])}
    losses, gradients = [], []
    for settings in ({}, {"logits_at": "masked"}):
        torch.manual_seed(3)
        model.zero_grad()
        loss = model(**batch, **settings).loss
        loss.backward()
        losses.append(loss.detach())
        gradients.append(model.output_encoder.values.weight.grad.clone())
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)


def test_an_item_without_its_own_vector_is_a_new_item() -> None:
    model = featured(dropout=0.99)
    attributes: ItemAttributes = model.bert.embeddings.attributes
    torch.manual_seed(1)
    drawn = attributes.drawn_without_own()
    assert not drawn[:3].any()
    assert drawn[3:].all()
    weight, bias = model.output_matrix(drawn)
    for item in range(4):
        expected = model.output_encoder.new.weight[0] + counted_features(model.output_encoder, item)
        torch.testing.assert_close(weight[3 + item], expected)
    assert bias[3] == model.new_item_bias.weight[0, 0]


def test_features_are_saved_with_the_model(tmp_path) -> None:
    model = featured(encoder="mlp")
    model.save_pretrained(tmp_path)
    loaded, found = ContextualBertForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"] and not found["mismatched_keys"]
    ids = torch.tensor([[6, 1, 3]])
    with torch.no_grad():
        torch.testing.assert_close(loaded.eval()(input_ids=ids).logits, model(input_ids=ids).logits)


def test_bfloat16_training_makes_the_vectors_in_float32() -> None:
    model = featured().train()
    with torch.autocast("cpu", torch.bfloat16):
        assert model.output_matrix(model.drawn_without_own())[0].dtype == torch.float32
        model(input_ids=torch.tensor([[3, 1]]), labels=torch.tensor([[-100, 4]])).loss.backward()
    assert model.output_encoder.values.weight.grad.isfinite().all()


@pytest.mark.parametrize("setting", [{"encoder": "mean"}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_a_layout_that_cannot_be_is_refused(setting: dict) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ItemLayout(FEATURES, num_places=4, **setting)
    assert caught.value.place.name == f"item_{next(iter(setting))}"


def test_ids_are_not_added_without_features() -> None:
    with pytest.raises(ConfigurationError, match="change_items"):
        featured().resize_token_embeddings(9)
