"""Each method against its formula, written out with plain products and sums."""

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.conditioning import FeedForward, Sizes, StateSlot, get_method
from contextual_bert.context import ContextEmbedding

BATCH, LENGTH, HIDDEN, CONTEXT, INNER, LAYERS, EPSILON = 3, 5, 8, 6, 10, 4, 1e-12
SIZES = Sizes(
    hidden_size=HIDDEN,
    context_size=CONTEXT,
    feature_sizes=(4, 2),
    intermediate_size=INNER,
    num_layers=LAYERS,
    num_heads=2,
    dropout=0.0,
    layer_norm_eps=EPSILON,
)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_drawn_weights(module: nn.Module | None) -> nn.Module:
    assert module is not None
    with torch.no_grad():
        for number, weight in enumerate(module.parameters()):
            weight.copy_(draw(*weight.shape, seed=100 + number))
    return module


@pytest.fixture
def context() -> ContextEmbedding:
    vector = draw(BATCH, CONTEXT, seed=1)
    return ContextEmbedding(vector=vector, features=(vector[:, :4], vector[:, 4:]))


@pytest.fixture
def hidden() -> Tensor:
    return draw(BATCH, LENGTH, HIDDEN, seed=2)


def normalise(values: Tensor) -> Tensor:
    mean = values.mean(-1, keepdim=True)
    return (values - mean) / ((values - mean).pow(2).mean(-1, keepdim=True) + EPSILON).sqrt()


def fnn(x: Tensor, module: nn.Sequential) -> Tensor:
    first, last = module[0], module[2]
    return (x @ first.weight.T + first.bias).clamp(min=0) @ last.weight.T + last.bias


def test_feed_forward_is_the_papers() -> None:
    module = with_drawn_weights(FeedForward(6, 4, 2))
    x = draw(3, 6, seed=3)
    torch.testing.assert_close(module(x), fnn(x, module))


def test_none_fills_no_slot() -> None:
    method = get_method("none")
    assert (method.state(SIZES), method.input(SIZES), method.block(SIZES, 0)) == (None, None, None)


def test_concat_equals_the_unsplit_product(context: ContextEmbedding, hidden: Tensor) -> None:
    slot = with_drawn_weights(get_method("concat").input(SIZES))
    joined = torch.cat([hidden, context.vector[:, None].expand(-1, LENGTH, -1)], dim=-1)
    unsplit = torch.cat([slot.items.weight, slot.context.weight], dim=1)
    inner = (joined @ unsplit.T + slot.context.bias).clamp(min=0)
    embeddings, mask = slot(hidden, None, context)
    torch.testing.assert_close(embeddings, inner @ slot.output.weight.T + slot.output.bias)
    assert mask is None


def test_concat_leaves_the_mask(context: ContextEmbedding, hidden: Tensor) -> None:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    assert with_drawn_weights(get_method("concat").input(SIZES))(hidden, mask, context)[1] is mask


@pytest.mark.parametrize("dtype", [torch.long, torch.bool])
def test_new_position_prepends_the_mapped_context(
    context: ContextEmbedding, hidden: Tensor, dtype: torch.dtype
) -> None:
    slot = with_drawn_weights(get_method("new_position").input(SIZES))
    mask = (torch.arange(LENGTH) < torch.tensor([[2], [5], [1]])).to(dtype)
    embeddings, longer = slot(hidden, mask, context)
    torch.testing.assert_close(embeddings[:, 0], context.vector @ slot.context.weight.T + slot.context.bias)
    assert torch.equal(embeddings[:, 1:], hidden)
    assert torch.equal(longer, torch.cat([torch.ones(BATCH, 1, dtype=dtype), mask], dim=1))
    assert slot(hidden, None, context)[1] is None


def test_global_state_is_fnn_of_the_context_and_does_not_change(context: ContextEmbedding, hidden: Tensor) -> None:
    slot = with_drawn_weights(get_method("global_state").state(SIZES))
    assert isinstance(slot, StateSlot)
    state = slot.initial(context)
    torch.testing.assert_close(state, fnn(context.vector, slot.context))
    assert slot.transition(0, state, hidden, None) is state


@pytest.mark.parametrize("method_name", ["global_state", "global_state_update"])
def test_the_read_adds_the_value_and_normalises(method_name: str, hidden: Tensor) -> None:
    block = with_drawn_weights(get_method(method_name).block(SIZES, 0))
    state = draw(BATCH, HIDDEN, seed=4)
    value = state @ block.value.weight.T + block.value.bias
    torch.testing.assert_close(block(hidden, state), normalise(value[:, None] + hidden))
    assert block.point == "read"


def test_the_read_is_attention_over_a_single_vector(hidden: Tensor) -> None:
    block = with_drawn_weights(get_method("global_state").block(SIZES, 0))
    state = draw(BATCH, HIDDEN, seed=4)
    query, key = draw(BATCH, LENGTH, HIDDEN, seed=5), draw(BATCH, 1, HIDDEN, seed=6)
    attended = nn.functional.scaled_dot_product_attention(query, key, block.value(state)[:, None])
    torch.testing.assert_close(block(hidden, state), normalise(attended + hidden))


def test_the_reads_layer_norm_has_no_parameters() -> None:
    block = get_method("global_state").block(SIZES, 0)
    assert block is not None
    assert sorted(name for name, _ in block.named_parameters()) == ["value.bias", "value.weight"]


def test_dropout_of_the_read_is_drawn_once_a_row() -> None:
    sizes = Sizes(**(vars(SIZES) | {"dropout": 0.5}))
    block = with_drawn_weights(get_method("global_state").block(sizes, 0)).train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        read = block(torch.zeros(4, LENGTH, HIDDEN), draw(1, HIDDEN, seed=4).expand(4, HIDDEN))
    assert all(torch.equal(position, row[0]) for row in read for position in row)
    assert len({tuple(row[0].tolist()) for row in read}) > 1


def test_the_update_is_residual_and_normalised(context: ContextEmbedding, hidden: Tensor) -> None:
    slot = with_drawn_weights(get_method("global_state_update").state(SIZES))
    state = slot.initial(context)
    torch.testing.assert_close(state, fnn(context.vector, slot.context))
    for layer in range(LAYERS - 1):
        update = slot.update[layer]
        expected = normalise(state + fnn(state, update.feed_forward)) * update.normalisation.weight
        following = slot.transition(layer, state, hidden, None)
        torch.testing.assert_close(following, expected + update.normalisation.bias)
        state = following


def test_updates_share_no_weights_and_stand_between_blocks() -> None:
    slot = get_method("global_state_update").state(SIZES)
    assert slot is not None
    assert len(slot.update) == LAYERS - 1
    assert len({id(weight) for update in slot.update for weight in update.parameters()}) == (LAYERS - 1) * 6
    assert slot.update[0].feed_forward[0].out_features == INNER


def test_the_context_part_of_concat_is_computed_once_a_row(context: ContextEmbedding, hidden: Tensor) -> None:
    slot = with_drawn_weights(get_method("concat").input(SIZES))
    shapes: list[torch.Size] = []
    slot.context.register_forward_hook(lambda module, inputs, output: shapes.append(output.shape))
    slot(hidden, None, context)
    assert shapes == [(BATCH, HIDDEN)]


@pytest.mark.parametrize("method_name", ["global_state", "global_state_update"])
def test_the_value_is_computed_once_a_row(method_name: str, hidden: Tensor) -> None:
    block = with_drawn_weights(get_method(method_name).block(SIZES, 0))
    shapes: list[torch.Size] = []
    block.value.register_forward_hook(lambda module, inputs, output: shapes.append(output.shape))
    block(hidden, draw(BATCH, HIDDEN, seed=4))
    assert shapes == [(BATCH, HIDDEN)]


def test_the_flowing_state_attends_to_the_sequence_before_its_update(context: ContextEmbedding, hidden: Tensor) -> None:
    slot = with_drawn_weights(get_method("state_flow").state(SIZES))
    state, reading = slot.initial(context), slot.reading[0]
    visible = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0]]).bool()
    attended: list[Tensor] = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        query, key, value = (
            (x @ layer.weight.T + layer.bias)[..., part]
            for x, layer in ((state, reading.query), (hidden, reading.key), (hidden, reading.value))
        )
        scores = torch.einsum("bd,bld->bl", query, key) / 2
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        attended.append(torch.einsum("bl,bld->bd", weights, value))
    u = state + torch.cat(attended, dim=-1) @ reading.output.weight.T + reading.output.bias
    update = slot.update[0]
    expected = normalise(u + fnn(u, update.feed_forward)) * update.normalisation.weight + update.normalisation.bias
    for mask in (visible, visible.long()):
        torch.testing.assert_close(slot.transition(0, state, hidden, mask), expected)


def test_state_flow_without_its_reading_is_global_state_update(context: ContextEmbedding, hidden: Tensor) -> None:
    flowing = with_drawn_weights(get_method("state_flow").state(SIZES))
    updated = get_method("global_state_update").state(SIZES)
    assert updated is not None
    weights = {name: weight for name, weight in flowing.state_dict().items() if not name.startswith("reading.")}
    updated.load_state_dict(weights)
    state = flowing.initial(context)
    assert torch.equal(state, updated.initial(context))
    assert not torch.allclose(flowing.transition(0, state, hidden, None), updated.transition(0, state, hidden, None))
    for reading in flowing.reading:
        nn.init.zeros_(reading.output.weight)
        nn.init.zeros_(reading.output.bias)
    for layer in range(LAYERS - 1):
        following = flowing.transition(layer, state, hidden, None)
        assert torch.equal(following, updated.transition(layer, state, hidden, None))
        state = following


@pytest.mark.parametrize("sublayer", [0, 1])
def test_film_scales_and_shifts_each_position(hidden: Tensor, sublayer: int) -> None:
    block = with_drawn_weights(get_method("film").block(SIZES, 0))
    state = draw(BATCH, HIDDEN, seed=4)
    maps = block.modulation[sublayer]
    both = state @ maps.weight.T + maps.bias
    expected = hidden * (1 + both[:, None, :HIDDEN]) + both[:, None, HIDDEN:]
    torch.testing.assert_close(block(hidden, state, sublayer), expected)
    assert block.point == "modulate"
