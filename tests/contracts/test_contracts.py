"""The contracts of `contextual_bert.testing` for every registered method, and what it costs to add one.

Nobody can forget a new method: the tests run over METHODS. Methods defined in this file, one for each point of a block
and one whose state reads the sequence, pass the same contracts with no other file changed; broken ones do not.
"""

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.conditioning import METHODS, Attend, BlockSlot, InputSlot, Sizes, StateSlot, register_method
from contextual_bert.conditioning.global_state import GlobalState, GlobalStateSlot, ReadState
from contextual_bert.conditioning.new_position import NewPosition, NewPositionInput
from contextual_bert.context import ContextEmbedding
from contextual_bert.errors import UnknownNameError
from contextual_bert.testing import CONTRACTS, check_checkpoint_start, check_compile, check_method
from contextual_bert.testing.computation import check_parameters

# What compiles takes seconds a method.
EACH_CONTRACT = [pytest.param(name, marks=pytest.mark.slow) if name == "compile" else name for name in CONTRACTS]


@pytest.mark.parametrize("method_name", sorted(METHODS))
@pytest.mark.parametrize("contract", EACH_CONTRACT)
def test_registered_method(method_name: str, contract: str) -> None:
    CONTRACTS[contract](method_name)


@pytest.mark.slow
@pytest.mark.parametrize("method_name", sorted(METHODS))
def test_every_head_starts_from_every_architecture(method_name: str) -> None:
    check_checkpoint_start(method_name, all_heads=True)


@pytest.mark.slow
@pytest.mark.parametrize("method_name", ["none", "global_state_update"])  # half a minute each: two models suffice
def test_inductor(method_name: str) -> None:
    check_compile(method_name, backend="inductor")


class ScaledAttention(BlockSlot):
    """Self-attention whose queries, keys and values are scaled by the state, as in MA-BERT."""

    point = "attend"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.num_heads = sizes.num_heads
        self.projections = nn.ModuleList(nn.Linear(sizes.hidden_size, sizes.hidden_size) for _ in range(3))

    def forward(self, hidden: Tensor, attend: Attend, state: Tensor) -> Tensor:
        query, key, value = (
            (projection(hidden) * (1 + state.unsqueeze(1))).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection in self.projections
        )
        return attend(query, key, value)


class Attend(GlobalState):
    name = "test_attend"
    keeps_checkpoint = False

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return ScaledAttention(sizes)


class ClosedGate(nn.Linear):
    """Starts at zero: the block is BERT's at first."""

    def initialise(self, standard_deviation: float) -> None:
        nn.init.zeros_(self.weight)


class GatedRead(BlockSlot):
    point = "read"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate = ClosedGate(sizes.hidden_size, sizes.hidden_size)

    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return hidden + self.gate(state).unsqueeze(1)


class Read(GlobalState):
    name = "test_read"

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return GatedRead(sizes)


class Film(BlockSlot):
    point = "modulate"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.scale_and_shift = nn.ModuleList(nn.Linear(sizes.hidden_size, 2 * sizes.hidden_size) for _ in range(2))

    def forward(self, hidden: Tensor, state: Tensor, sublayer: int) -> Tensor:
        scale, shift = self.scale_and_shift[sublayer](state).unsqueeze(1).chunk(2, dim=-1)
        return hidden * (1 + scale) + shift


class Modulate(GlobalState):
    name = "test_modulate"
    keeps_checkpoint = False

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return Film(sizes)


class FlowingState(GlobalStateSlot):
    """The state of the next block also attends to what this block put out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.value = nn.Linear(sizes.hidden_size, sizes.hidden_size)

    def transition(self, layer: int, state: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        visible = mask.bool()[:, None] if mask is not None else None
        query = state.unsqueeze(1)
        read = nn.functional.scaled_dot_product_attention(query, hidden, self.value(hidden), attn_mask=visible)
        return state + read.squeeze(1)


class Flow(GlobalState):
    name = "test_flow"

    def state(self, sizes: Sizes) -> StateSlot:
        return FlowingState(sizes)


EXTENSIONS = {method.name: method for method in (Attend, Read, Modulate, Flow)}


@pytest.fixture
def extension(request: pytest.FixtureRequest) -> Iterator[str]:
    method = register_method(request.param)
    yield method.name
    del METHODS[method.name]


@pytest.mark.parametrize("extension", EXTENSIONS.values(), ids=EXTENSIONS, indirect=True)
@pytest.mark.parametrize("contract", EACH_CONTRACT)
def test_method_defined_here(extension: str, contract: str) -> None:
    CONTRACTS[contract](extension)


def test_check_method_runs_every_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []
    recorders = {name: lambda method, name=name: seen.append((name, method)) for name in CONTRACTS}
    monkeypatch.setattr("contextual_bert.testing.contracts.CONTRACTS", recorders)
    check_method("none")
    assert seen == [(name, "none") for name in CONTRACTS]


def test_check_method_wants_a_registered_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'global_state'"):
        check_method("globl_state")


class MixesRows(ReadState):
    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden, state + state.mean(dim=0))


class MixesRowsInTraining(ReadState):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.batch = nn.BatchNorm1d(sizes.hidden_size)

    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden, self.batch(state))


class CountsPositions(ReadState):
    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden.cumsum(dim=1), state)


class ReadsPadding(ReadState):
    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden, state + hidden.mean(dim=1))


class HasDeadWeights(ReadState):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.query = nn.Linear(sizes.hidden_size, sizes.hidden_size)


class IgnoresState(ReadState):
    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden, torch.zeros_like(state))


SCALES = itertools.count(1)


class ForgetsToStart(ReadState):
    def start_as_checkpoint(self, attention_norm: nn.LayerNorm) -> None:
        """Leaves its random weights."""


class CannotBeLoaded(ReadState):
    """Its scale is in no state_dict."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.scale = next(SCALES)

    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return super().forward(hidden, state * self.scale)


@pytest.mark.parametrize(
    ("read", "contract", "message"),
    [
        (MixesRows, "rows", "context in row 0 changes other rows"),
        (MixesRowsInTraining, "rows", "training=True"),
        (CountsPositions, "permutation", "order of the items"),
        (ReadsPadding, "padding", "ids behind the end"),
        (HasDeadWeights, "context_gradient", "no gradient reaches.*query"),
        (IgnoresState, "rows", "another context changes: False"),
        (IgnoresState, "context_gradient", "no gradient reaches the feature 'sex'"),
        (IgnoresState, "context_through_trainer", "Does the context reach the model"),
        (CannotBeLoaded, "save_and_load", "gives other logits"),
        (CannotBeLoaded, "heads", "the loaded model gives other outputs"),
        (MixesRows, "heads", "another context in row 0 changes other rows"),
        (ForgetsToStart, "checkpoint_start", r"promises the checkpoint's function \(keeps_checkpoint\)"),
    ],
)
def test_a_broken_block_is_caught(read: type[ReadState], contract: str, message: str) -> None:
    class Broken(GlobalState):
        name = "test_broken"

        def block(self, sizes: Sizes, layer: int) -> BlockSlot:
            return read(sizes)

    _fails(Broken, contract, message)


class ReadsOneFeature(GlobalStateSlot):
    def initial(self, context: ContextEmbedding) -> Tensor:
        first = torch.zeros_like(context.vector)
        first[:, : context.features[0].shape[1]] = context.features[0]
        return super().initial(context._replace(vector=first))


def test_an_ignored_feature_is_caught() -> None:
    class Broken(GlobalState):
        name = "test_broken"

        def state(self, sizes: Sizes) -> StateSlot:
            return ReadsOneFeature(sizes)

    _fails(Broken, "context_gradient", "no gradient reaches the feature 'age'")


class KeepsItsPosition(NewPositionInput):
    num_added_positions = 0


def test_a_position_that_stays_is_caught() -> None:
    class Broken(NewPosition):
        name = "test_broken"

        def input(self, sizes: Sizes) -> InputSlot:
            return KeepsItsPosition(sizes)

    _fails(Broken, "length", r"\(4, 6, 32\) for input_ids \(4, 5\)")


def test_a_wrong_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(GlobalState):
        name = "concat"

    monkeypatch.setitem(METHODS, "concat", Broken)
    with pytest.raises(AssertionError, match="723328 parameters, Table 1 says 673664"):
        check_parameters("concat")


def _fails(method: type[GlobalState] | type[NewPosition], contract: str, message: str) -> None:
    register_method(method)
    try:
        with pytest.raises(AssertionError, match=message):
            CONTRACTS[contract](method.name)
    finally:
        del METHODS[method.name]
