"""Which dtype is the faster one: what the processor's instructions allow and its products show, whatever this machine
has.
"""

import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.training import arguments
from contextual_bert.training.arguments import bfloat16_speed, fast_dtype


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

    def measured() -> float:
        assert speed is not None
        return speed

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(arguments, "bfloat16_speed", measured)
    assert fast_dtype("cpu") == dtype


def test_the_speed_is_measured_once() -> None:
    first = bfloat16_speed()
    assert 0 < first < 100
    assert bfloat16_speed() is first


def test_of_an_unknown_device() -> None:
    with pytest.raises(ConfigurationError, match="device='gpu'"):
        fast_dtype("gpu")
