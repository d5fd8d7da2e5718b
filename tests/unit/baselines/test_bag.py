"""The bag of items: order does not matter, reserved ids are not seen, and it learns."""

import pytest
import torch

from contextual_bert.baselines import BagOfItems
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError
from contextual_bert.item_features import ItemLayout, encode_items
from tests.unit.models.test_item_features import ENCODED, FEATURES, IS_NEW, counted_features

SCHEMA = ContextSchema(features=(Categorical(name="gender", values=("female", "male")),))
CONTEXT = {"gender": torch.tensor([2, 3])}
INPUTS = torch.tensor([[3, 4, 1, 0], [5, 6, 7, 1]])
LABELS = torch.tensor([[-100, -100, 8, -100], [-100, -100, -100, 9]])


def bag_for(*, has_context: bool = False) -> BagOfItems:
    torch.manual_seed(0)
    bag = BagOfItems(12, layout=SCHEMA.layout if has_context else (), hidden_size=8).eval()
    with torch.no_grad():
        bag.items.weight.mul_(50)
    return bag


def test_the_order_of_the_items_does_not_matter() -> None:
    bag = bag_for()
    logits = bag(INPUTS)["logits"]
    torch.testing.assert_close(bag(INPUTS.flip(1))["logits"], logits)
    assert not torch.allclose(logits[0], logits[1])


def test_reserved_ids_are_not_seen() -> None:
    bag = bag_for()
    expected = bag(INPUTS)["logits"]
    with torch.no_grad():
        bag.items.weight[:3] = 1e6
    torch.testing.assert_close(bag(INPUTS)["logits"], expected)


def test_it_is_the_formula() -> None:
    bag = bag_for(has_context=True)
    items, context = bag.items.weight, bag.context_encoder(CONTEXT).vector  # pyright: ignore[reportOptionalCall]
    mean = torch.stack([items[[3, 4]].mean(0), items[[5, 6, 7]].mean(0)])
    hidden = bag.hidden(mean) + bag.context(context)  # pyright: ignore[reportOptionalCall]
    expected = torch.log_softmax(bag.output(hidden.relu()), dim=-1)
    output = bag(INPUTS, context=CONTEXT, labels=LABELS)
    torch.testing.assert_close(output["loss"], -(expected[0, 8] + expected[1, 9]) / 2)
    by_four = bag(INPUTS, context=CONTEXT, labels=LABELS, num_items_in_batch=4)["loss"]
    torch.testing.assert_close(by_four, output["loss"] / 2)


def test_a_set_without_visible_items_is_scored_from_the_context() -> None:
    bag = bag_for(has_context=True)
    only_mask = torch.tensor([[1], [1]])
    logits = bag(only_mask, context=CONTEXT)["logits"]
    assert torch.isfinite(logits).all()
    assert not torch.allclose(logits[0], logits[1])


def test_scores_leave_reserved_ids_out() -> None:
    bag = bag_for()
    logits = bag(INPUTS, labels=LABELS)["logits"]
    log_probability, num_better, num_tied, confidence = bag.score_masked(INPUTS, labels=LABELS)
    torch.testing.assert_close(log_probability, logits.log_softmax(-1)[[0, 1], [8, 9]])
    assert num_better.tolist() == [int((logits[i, 3:] > logits[i, j]).sum()) for i, j in ((0, 8), (1, 9))]
    assert num_tied.tolist() == [1, 1]
    torch.testing.assert_close(confidence, logits.softmax(-1)[:, 3:].amax(-1))


def test_missing_inputs() -> None:
    with pytest.raises(ConfigurationError, match="Scoring needs labels"):
        bag_for().score_masked(INPUTS)
    with pytest.raises(ConfigurationError, match="built with a context, and none came"):
        bag_for(has_context=True)(INPUTS)


def test_it_learns() -> None:
    bag = bag_for(has_context=True).train()
    optimiser = torch.optim.Adam(bag.parameters(), lr=0.05)
    losses: list[float] = []
    for _ in range(40):
        loss = bag(INPUTS, context=CONTEXT, labels=LABELS)["loss"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 4
    assert bag.context_encoder is not None
    assert all(parameter.grad is not None for parameter in bag.context_encoder.parameters())


def test_candidates_alone_share_the_mass() -> None:
    bag = bag_for()
    bag.softmax_over = "candidates"
    logits = bag(INPUTS)["logits"]
    logits[:, :3] = -torch.inf
    logits[0, [3, 4]] = logits[1, [5, 6, 7]] = -torch.inf
    expected = logits.log_softmax(-1)[[0, 1], [8, 9]]
    torch.testing.assert_close(bag.score_masked(INPUTS, labels=LABELS)[0], expected)
    torch.testing.assert_close(bag(INPUTS, labels=LABELS)["loss"], -expected.mean())


def test_the_context_starts_as_loud_as_the_items() -> None:
    torch.manual_seed(0)
    many = ContextSchema(features=(Categorical(name="shop", values=tuple(f"shop-{n}" for n in range(500))),))
    bag = BagOfItems(500, layout=many.layout)
    assert bag.context_encoder is not None
    [vectors] = [module for module in bag.context_encoder.modules() if isinstance(module, torch.nn.Embedding)]
    assert float(vectors.weight.std()) == pytest.approx(float(bag.items.weight.std()), rel=0.05)


FEATURED_INPUTS = torch.tensor([[3, 4, 1, 0], [5, 6, 1, 0]])  # 6 is the item that training lacks


def featured_bag(*, dropout: float = 0.0) -> BagOfItems:
    """A bag of the four items of ``ENCODED``."""
    torch.manual_seed(0)
    items = encode_items(FEATURES, ENCODED)
    layout = ItemLayout(FEATURES, num_places=items.value_ids.shape[1], dropout=dropout)
    bag = BagOfItems(7, layout=(), hidden_size=8, dropout=0.0, softmax_over="items", item_layout=layout).eval()
    assert bag.attributes is not None
    bag.attributes.fill(items, is_new=IS_NEW)
    with torch.no_grad():
        for weight in bag.parameters():
            weight.normal_(std=0.5)
    return bag


def test_features_are_in_the_vectors_of_input_and_output() -> None:
    bag = featured_bag()
    first, last, attributes = bag.item_encoder, bag.output_encoder, bag.attributes
    assert first is not None and last is not None and attributes is not None and bag.new_item_bias is not None
    items, output, bias = bag.items.weight.clone(), bag.output.weight.clone(), bag.output.bias.clone()
    with torch.no_grad():
        for encoder, own in ((first, items), (last, output)):
            own[6] = encoder.new.weight[0]
            for item in range(4):
                own[3 + item] += counted_features(encoder, item)
        bias[6] = bag.new_item_bias.weight[0, 0]
        mean = torch.stack([items[[3, 4]].mean(0), items[[5, 6]].mean(0)])
        expected = bag.hidden(mean).relu() @ output.T + bias
        torch.testing.assert_close(bag(FEATURED_INPUTS)["logits"], expected)


def test_a_new_item_is_no_answer_in_training_and_one_afterwards() -> None:
    bag = featured_bag().train()
    labels = torch.tensor([[-100, -100, 5, -100], [-100, -100, 3, -100]])
    output = bag(FEATURED_INPUTS, labels=labels)
    assert (output["logits"][:, 6] == -torch.inf).all()
    torch.testing.assert_close(output["loss"], -output["logits"][:, 3:6].log_softmax(-1)[[0, 1], [2, 0]].mean())
    output["loss"].backward()
    grads = [weight.grad for weight in (bag.items.weight, bag.output.weight, bag.output.bias)]
    assert all(grad is not None and not grad[6].any() for grad in grads)
    assert bag.eval()(FEATURED_INPUTS)["logits"][:, 6].isfinite().all()
    asked = torch.tensor([[-100, -100, 6, -100], [-100] * 4])
    assert bag.score_masked(FEATURED_INPUTS, labels=asked).log_probability.isfinite().all()


def test_a_training_step_leaves_items_without_their_own_vectors() -> None:
    bag = featured_bag(dropout=0.99).train()
    torch.manual_seed(1)  # all four items are drawn
    before = bag(FEATURED_INPUTS)["logits"]
    with torch.no_grad():
        for own in (bag.items.weight, bag.output.weight):
            own[3:] += 1.0
        bag.output.bias[3:] += 1.0
    torch.manual_seed(1)
    torch.testing.assert_close(bag(FEATURED_INPUTS)["logits"], before)
    assert not torch.allclose(bag.eval()(FEATURED_INPUTS)["logits"], before)
