"""Which dtype is the faster one: that of the processor's instructions, whatever this machine has."""

import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.training.arguments import fast_dtype


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"avx2": True, "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, "float32"),
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True, "avx512_bf16": False}, "bfloat16"),
        ({"neon": True, "bf16": True}, "bfloat16"),
        ({"neon": True, "bf16": False}, "float32"),
    ],
)
def test_bfloat16_where_it_is_not_emulated(
    capabilities: dict[str, bool], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert fast_dtype("cpu") == dtype


def test_of_an_unknown_device() -> None:
    with pytest.raises(ConfigurationError, match="device='gpu'"):
        fast_dtype("gpu")
