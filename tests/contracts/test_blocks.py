"""Every method in blocks that are not BERT's: the contracts that do not compare with BERT or with a set."""

from typing import Any

import pytest

from contextual_bert.conditioning import METHODS
from contextual_bert.testing import CONTRACTS
from contextual_bert.testing.miniature import blocks_of

# "bert" and "heads" of `none` compare with BERT's own class, "permutation" holds where nothing knows positions;
# "checkpoint_start" goes through all architectures by itself, "compile" takes half a minute a method.
HOLDING = [name for name in CONTRACTS if name not in ("bert", "heads", "permutation", "checkpoint_start", "compile")]


PAIRS = [(contract, method) for contract in [*HOLDING, "heads"] for method in METHODS]
BLOCKS = ("modernbert", "mpnet")
# Trainings take a second each: blocks that are much like others have them among the slow tests.
TRAINED, ALIKE = ("training", "context_through_trainer"), ("mpnet", "bigru")


def of_blocks(contract: str, method_name: str, blocks: str) -> Any:
    """The parameters of a contract of a method in some blocks."""
    is_slow = contract in TRAINED and blocks in ALIKE
    return pytest.param(contract, method_name, blocks, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(
    ("contract", "method_name", "model_type"),
    [of_blocks(*pair, blocks) for pair in PAIRS if pair != ("heads", "none") for blocks in BLOCKS],
)
def test_a_contract_holds_in_other_blocks(contract: str, method_name: str, model_type: str) -> None:
    with blocks_of(model_type):
        CONTRACTS[contract](method_name)


# Nothing of theirs attends: `multi_attribute`, which conditions attention, is refused.
@pytest.mark.parametrize(
    ("contract", "method_name", "blocks"),
    [
        of_blocks(contract, method_name, blocks)
        for contract, method_name in PAIRS
        if method_name != "multi_attribute"
        and contract not in ("attentions", "generation")
        and (contract, method_name) != ("heads", "none")
        for blocks in ("bilstm", "bigru")
    ],
)
def test_a_contract_holds_in_recurrent_blocks(contract: str, method_name: str, blocks: str) -> None:
    with blocks_of(blocks):
        CONTRACTS[contract](method_name)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", BLOCKS)
def test_other_blocks_are_compiled(model_type: str) -> None:
    with blocks_of(model_type):
        CONTRACTS["compile"]("global_state_update")
