"""Every method in blocks that are not BERT's: the contracts that do not compare with BERT or with a set."""

import pytest

from contextual_bert.conditioning import METHODS
from contextual_bert.testing import CONTRACTS
from contextual_bert.testing.miniature import blocks_of

# "bert" and "heads" of `none` compare with BERT's own class, "permutation" holds where nothing knows positions;
# "checkpoint_start" goes through all architectures by itself, "compile" takes half a minute a method.
HOLDING = [name for name in CONTRACTS if name not in ("bert", "heads", "permutation", "checkpoint_start", "compile")]


PAIRS = [(contract, method) for contract in [*HOLDING, "heads"] for method in METHODS]
BLOCKS = ("modernbert", "mpnet")


@pytest.mark.parametrize("model_type", BLOCKS)
@pytest.mark.parametrize(("contract", "method_name"), [pair for pair in PAIRS if pair != ("heads", "none")])
def test_a_contract_holds_in_other_blocks(contract: str, method_name: str, model_type: str) -> None:
    with blocks_of(model_type):
        CONTRACTS[contract](method_name)


# Nothing of theirs attends: `multi_attribute`, which conditions attention, is refused.
@pytest.mark.parametrize("blocks", ["bilstm", "bigru"])
@pytest.mark.parametrize("method_name", [name for name in METHODS if name != "multi_attribute"])
@pytest.mark.parametrize("contract", [name for name in [*HOLDING, "heads"] if name not in ("attentions", "generation")])
def test_a_contract_holds_in_recurrent_blocks(contract: str, method_name: str, blocks: str) -> None:
    if (contract, method_name) == ("heads", "none"):
        return
    with blocks_of(blocks):
        CONTRACTS[contract](method_name)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", BLOCKS)
def test_other_blocks_are_compiled(model_type: str) -> None:
    with blocks_of(model_type):
        CONTRACTS["compile"]("global_state_update")
