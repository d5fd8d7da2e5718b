"""What every baseline for text keeps to: padding, rows, context, losses of parts of a batch, learning."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.baselines import (
    UPNN,
    BiGRU,
    BiGRUTagger,
    BiLSTM,
    BiLSTMTagger,
    HierarchicalLSTM,
    LastStateRNN,
    NgramBag,
    TextCNN,
)
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.testing.miniature import batch_rows, miniature_batch, miniature_schema

VOCABULARY = ("[PAD]", "[CLS]", "[SEP]", *(f"word{number}" for number in range(7)), "##s", "##ing")
SIZE = len(VOCABULARY)
SENTENCES = ["!" if token in ("word2", "word5") else token for token in VOCABULARY]

CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "ngrams": lambda **fields: NgramBag(VOCABULARY, hidden_size=12, num_buckets=60, **fields),
    "cnn": lambda **fields: TextCNN(SIZE, hidden_size=12, num_filters=4, **fields),
    "bilstm": lambda **fields: BiLSTM(SIZE, hidden_size=6, num_layers=2, **fields),
    "bigru": lambda **fields: BiGRU(SIZE, hidden_size=6, num_layers=2, **fields),
    "rnn": lambda **fields: LastStateRNN(SIZE, hidden_size=12, **fields),
    "nsc": lambda **fields: HierarchicalLSTM(SENTENCES, hidden_size=6, **fields),
    "nsc_la": lambda **fields: HierarchicalLSTM(SENTENCES, hidden_size=6, pooling="attention", **fields),
    "upnn": lambda **fields: UPNN(SENTENCES, hidden_size=12, **fields),
}
TAGGERS: dict[str, Callable[..., Any]] = {
    "tagger": lambda **fields: BiLSTMTagger(SIZE, hidden_size=6, **fields),
    "bigru_tagger": lambda **fields: BiGRUTagger(SIZE, hidden_size=6, **fields),
    "crf": lambda **fields: BiLSTMTagger(SIZE, hidden_size=6, has_crf=True, **fields),
}
ALL = {**CLASSIFIERS, **TAGGERS}
INPUTS = torch.tensor([[1, 3, 4, 10, 5, 6, 2], [1, 7, 2, 0, 0, 0, 0], [1, 3, 9, 2, 0, 0, 0], [1, 8, 11, 8, 4, 2, 0]])


def model_for(name: str, *, has_context: bool = False, seed: int = 0, **fields: Any) -> Any:
    settings: dict[str, Any] = {"num_labels": 3, "dropout": 0.0}
    if has_context:
        settings |= {"layout": miniature_schema().layout, "conditioning": "concat"}
    if name in CLASSIFIERS:
        settings["reserved_ids"] = (0, 1, 2)
    model = ALL[name](**(settings | fields))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return model.eval()


def batch_for(name: str, *, has_context: bool = False) -> dict[str, Any]:
    batch: dict[str, Any] = {"input_ids": INPUTS, "attention_mask": (INPUTS != 0).long()}
    if has_context:
        batch["context"] = miniature_batch()["context"]
    if name in CLASSIFIERS:
        batch["labels"] = torch.tensor([2, -100, 0, 1])
    else:
        batch["labels"] = torch.where((INPUTS > 2) & (INPUTS < 10), INPUTS % 3, -100)
    return batch


def real(logits: Tensor, mask: Tensor) -> Tensor:
    """Of tokens: the logits of the real ones. Of texts: all."""
    return logits[mask.bool()] if logits.dim() == 3 else logits


@pytest.mark.parametrize("name", ALL)
def test_padding_changes_nothing(name: str) -> None:
    model, batch = model_for(name), batch_for(name)
    mask, output = batch["attention_mask"], model(**batch)
    expected = real(output["logits"], mask)
    for row in range(len(INPUTS)):
        length = int(mask[row].sum())
        alone = model(input_ids=INPUTS[row : row + 1, :length])["logits"]
        torch.testing.assert_close(
            alone[0], real(output["logits"][row : row + 1], mask[row : row + 1]).view_as(alone[0])
        )
    other_padding = model(**batch | {"input_ids": INPUTS.masked_fill(mask == 0, 7)})["logits"]
    torch.testing.assert_close(real(other_padding, mask), expected)
    longer = {key: nn.functional.pad(batch[key], (0, 9), value=0) for key in ("input_ids", "attention_mask")}
    torch.testing.assert_close(real(model(**longer)["logits"], longer["attention_mask"]), expected)
    left = {key: nn.functional.pad(batch[key], (9, 0), value=0) for key in ("input_ids", "attention_mask")}
    torch.testing.assert_close(real(model(**left)["logits"], left["attention_mask"]), expected)


@pytest.mark.parametrize("name", ALL)
def test_rows_do_not_influence_each_other(name: str) -> None:
    model, batch = model_for(name), batch_for(name)
    expected = model(**batch)["logits"]
    changed = INPUTS.clone()
    changed[0, 3] = 8
    found = model(**batch | {"input_ids": changed})["logits"]
    torch.testing.assert_close(found[1:], expected[1:])
    assert not torch.allclose(found[0], expected[0])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_reserved_ids_are_not_read(name: str) -> None:
    model, batch = model_for(name), batch_for(name)
    expected = model(**batch)["logits"]
    table = (
        model.rows if name == "ngrams" else model.states.embeddings if name in ("bilstm", "bigru") else model.embeddings
    )
    with torch.no_grad():
        table.weight[:3] = 1e3
    torch.testing.assert_close(model(**batch)["logits"], expected)
    torch.testing.assert_close(
        model(input_ids=INPUTS)["logits"], expected
    )  # without a mask, [PAD] is reserved all the same


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_text_without_tokens_has_finite_logits_and_gradients(name: str) -> None:
    model = model_for(name)
    empty = torch.tensor([[1, 2, 0, 0, 0, 0, 0], [1, 3, 2, 0, 0, 0, 0]])
    output = model(input_ids=empty, labels=torch.tensor([0, 1]))
    output["loss"].backward()
    assert output["logits"].isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    torch.testing.assert_close(model(input_ids=empty[:1, :2])["logits"], output["logits"][:1])


@pytest.mark.parametrize("name", ALL)
def test_the_context_reaches_its_own_row_only(name: str) -> None:
    model, batch = model_for(name, has_context=True), batch_for(name, has_context=True)
    expected = model(**batch)["logits"]
    for feature, values in batch["context"].items():
        others = values.clone()
        others[0] = values[1]
        found = model(**batch | {"context": batch["context"] | {feature: others}})["logits"]
        assert not torch.allclose(found[0], expected[0]), feature
        torch.testing.assert_close(found[1:], expected[1:])


@pytest.mark.parametrize("name", ALL)
def test_every_weight_and_every_feature_has_a_gradient(name: str) -> None:
    model = model_for(name, has_context=True)
    model(**batch_for(name, has_context=True))["loss"].backward()
    assert len(model.head.context_encoder.features) == 4
    assert [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@pytest.mark.parametrize("name", ALL)
def test_no_context_is_a_missing_one_and_none_reads_none(name: str) -> None:
    model, batch = model_for(name, has_context=True), batch_for(name, has_context=True)
    missing = model.head.context_encoder.missing(len(INPUTS))
    expected = model(**batch | {"context": missing})["logits"]
    torch.testing.assert_close(model(**batch | {"context": None})["logits"], expected)
    assert not torch.allclose(model(**batch)["logits"], expected)
    plain = model_for(name, layout=miniature_schema().layout)
    assert not [key for key in plain.state_dict() if "context" in key]
    assert torch.equal(plain(**batch)["logits"], plain(**batch | {"context": None})["logits"])


@pytest.mark.parametrize("name", ALL)
def test_the_loss_does_not_depend_on_the_split_of_a_batch(name: str) -> None:
    model, batch = model_for(name, has_context=True), batch_for(name, has_context=True)
    count = int((batch["labels"] != -100).sum())
    parts = [model(**batch_rows(batch, rows), num_items_in_batch=count)["loss"] for rows in ([0], [1, 2], [3])]
    torch.testing.assert_close(sum(parts), model(**batch)["loss"])
    assert model(**batch | {"labels": torch.full_like(batch["labels"], -100)})["loss"] == 0


@pytest.mark.parametrize(
    "name", ["ngrams", "cnn", "bilstm", "bigru", "rnn", "nsc_la", "upnn", "tagger", "bigru_tagger"]
)
def test_the_loss_is_the_mean_over_the_labels_given(name: str) -> None:
    model, batch = model_for(name), batch_for(name)
    output, labels = model(**batch), batch["labels"]
    asked = labels != -100
    expected = -output["logits"].log_softmax(-1)[asked].gather(1, labels[asked].unsqueeze(1)).mean()
    torch.testing.assert_close(output["loss"], expected)
    number = model_for(name, num_labels=1)
    targets = labels.float() / 2
    targets[~asked] = -100
    output = number(**batch | {"labels": targets})
    torch.testing.assert_close(output["loss"], (output["logits"].squeeze(-1) - targets)[asked].square().mean())


def toy_problem(seed: int, *, is_for_tokens: bool) -> dict[str, Any]:
    """The label counts two things: is word1 there, and the sex of who asks."""
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(3, SIZE, (256, 6), generator=generator)
    sex = torch.randint(2, 4, (256,), generator=generator)
    has_word = input_ids == 4
    labels = has_word + sex[:, None] - 2 if is_for_tokens else has_word.any(dim=1) + sex - 2
    return {"input_ids": input_ids, "context": {"sex": sex}, "labels": labels}


@pytest.mark.parametrize("name", ALL)
def test_it_learns_from_the_text_and_the_context(name: str) -> None:
    known, new = (toy_problem(seed, is_for_tokens=name in TAGGERS) for seed in (0, 1))
    torch.manual_seed(0)
    model = ALL[name](num_labels=3, layout=miniature_schema().layout[:1], conditioning="concat", dropout=0.1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        optimiser.zero_grad()
        model(**known)["loss"].backward()
        optimiser.step()
    model.eval()
    with_context, without = (model(**new | {"context": context})["logits"] for context in (new["context"], None))
    # The context alone is right for 51% of the texts and 89% of the tokens, the words alone for about half of either.
    assert (with_context.argmax(dim=-1) == new["labels"]).float().mean() > (0.97 if name in TAGGERS else 0.85)
    assert (without.argmax(dim=-1) == new["labels"]).float().mean() < 0.7


@pytest.mark.parametrize("name", ALL)
def test_components_are_dropped_in_training_only(name: str) -> None:
    model, batch = model_for(name, dropout=0.5), batch_for(name)
    torch.manual_seed(0)
    assert torch.equal(model(**batch)["logits"], model_for(name)(**batch)["logits"])
    assert torch.equal(model(**batch)["logits"], model(**batch)["logits"])
    model.train()
    assert not torch.allclose(model(**batch)["logits"], model(**batch)["logits"])


@pytest.mark.parametrize("name", ALL)
def test_settings_that_cannot_work_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"conditioning='conat' is unknown to a baseline.*Did you mean 'concat'"
    ):
        model_for(name, conditioning="conat")
    with pytest.raises(ConfigurationError, match="needs features in layout"):
        model_for(name, conditioning="concat")
    with pytest.raises(ConfigurationError, match="num_labels=0"):
        model_for(name, num_labels=0)


@pytest.mark.parametrize(
    "name", ["ngrams", "cnn", "bilstm", "bigru", "rnn", "nsc_la", "upnn", "tagger", "bigru_tagger"]
)
def test_numbers_as_labels_need_one_logit(name: str) -> None:
    batch = batch_for(name)
    with pytest.raises(ConfigurationError, match=r"torch.float32 with num_labels=3"):
        model_for(name)(**batch | {"labels": batch["labels"].float()})


@pytest.mark.parametrize("name", ALL)
def test_weights_go_into_another_model(name: str) -> None:
    model, other = model_for(name, has_context=True), model_for(name, has_context=True, seed=1)
    batch = batch_for(name, has_context=True)
    assert not torch.allclose(model(**batch)["logits"], other(**batch)["logits"])
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(**batch)["logits"], other(**batch)["logits"])


@pytest.mark.parametrize("name", ALL)
def test_bfloat16_autocast_stays_near_float32(name: str) -> None:
    model, batch = model_for(name, has_context=True), batch_for(name, has_context=True)
    expected = model(**batch)["loss"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch)["loss"]
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ALL)
def test_half_weights_answer(name: str) -> None:
    model, batch = model_for(name, has_context=True).eval(), batch_for(name, has_context=True)
    expected = model(**batch)["logits"]
    assert expected.dtype == torch.float32
    torch.testing.assert_close(model.bfloat16()(**batch)["logits"].float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ALL)
def test_it_takes_the_batches_of_a_text_dataset(name: str) -> None:
    token_ids, offsets = torch.tensor([1, 3, 2, 4, 2, 1, 5, 2, 6, 2]), torch.tensor([0, 5, 10])
    labels = torch.tensor([0, 1]) if name in CLASSIFIERS else token_ids % 3
    halves = torch.tensor([0, 0, 0, 1, 1] * 2)
    texts = SequenceDataset(token_ids, offsets, context={}, labels=labels, token_type_ids=halves)
    model = model_for(name)
    output = model(**texts.__getitems__([1, 0]).inputs())
    assert set(output) == {"loss", "logits"}
    assert set(model(**texts.__getitems__([0]).inputs() | {"labels": None})) == {"logits"}
    assert model.accepts_loss_kwargs
