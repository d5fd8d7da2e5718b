"""The contracts that every conditioning method keeps, for methods defined elsewhere too.

``check_method("my_method")`` runs them all for a registered method; each ``check_*`` is one of them. They raise
AssertionError and need no test framework. What they do not cover is whether a method is any good: that takes data.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from contextual_bert.conditioning import get_method
from contextual_bert.testing.computation import (
    check_bfloat16,
    check_compile,
    check_gradient_checkpointing,
    check_parameters,
    check_save_and_load,
)
from contextual_bert.testing.generation import check_generation
from contextual_bert.testing.heads import check_checkpoint_start, check_heads
from contextual_bert.testing.outputs import (
    check_attentions,
    check_bert,
    check_context_gradient,
    check_length,
    check_padding,
    check_permutation,
    check_rows,
)
from contextual_bert.testing.training import check_context_through_trainer, check_training

CONTRACTS: Mapping[str, Callable[[str], None]] = MappingProxyType(
    {
        "bert": check_bert,
        "length": check_length,
        "attentions": check_attentions,
        "padding": check_padding,
        "rows": check_rows,
        "permutation": check_permutation,
        "context_gradient": check_context_gradient,
        "context_through_trainer": check_context_through_trainer,
        "save_and_load": check_save_and_load,
        "parameters": check_parameters,
        "gradient_checkpointing": check_gradient_checkpointing,
        "bfloat16": check_bfloat16,
        "compile": check_compile,
        "checkpoint_start": check_checkpoint_start,
        "heads": check_heads,
        "generation": check_generation,
        "training": check_training,
    }
)


def check_method(method_name: str) -> None:
    """Run every contract for a registered method; about fifteen seconds.

    Raises:
        AssertionError: the first contract that does not hold.
        UnknownNameError: no such method; call ``register_method`` first.

    Example:
        >>> sorted(CONTRACTS)[:3]
        ['attentions', 'bert', 'bfloat16']
    """
    get_method(method_name)
    for check in CONTRACTS.values():
        check(method_name)
