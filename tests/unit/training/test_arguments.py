"""Which dtype is the faster one: what the processor's instructions allow and its products show, whatever this machine
has.
"""

import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.training import arguments
from contextual_bert.training.arguments import fast_dtype, seconds_of_product


@pytest.mark.parametrize(
    ("capabilities", "speed", "dtype"),
    [
        ({"avx2": True, "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, None, "float32"),
        ({"avx512_bf16": True}, 1.9, "bfloat16"),
        ({"avx512_bf16": True}, 0.5, "float32"),
        ({"amx_bf16": True, "avx512_bf16": False}, 8.0, "bfloat16"),
        ({"neon": True, "bf16": True}, 2.0, "bfloat16"),
        ({"neon": True, "bf16": False}, None, "float32"),
    ],
)
def test_bfloat16_where_its_products_are_faster(
    capabilities: dict[str, bool], speed: float | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``speed`` is that of products in bfloat16, of float32 1; None where nothing need be timed."""

    def seconds(of: torch.dtype) -> float:
        assert speed is not None
        return 1 / speed if of == torch.bfloat16 else 1.0

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(arguments, "seconds_of_product", seconds)
    assert fast_dtype("cpu") == dtype


def test_the_time_of_a_product_is_taken_once() -> None:
    first = seconds_of_product(torch.float32)
    assert first > 0
    assert seconds_of_product(torch.float32) is first


def test_of_an_unknown_device() -> None:
    with pytest.raises(ConfigurationError, match="device='gpu'"):
        fast_dtype("gpu")
