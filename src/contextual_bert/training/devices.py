"""Devices and number types of training, by the words of recipes and the command line."""

import timeit
from functools import cache, partial

import torch

from contextual_bert.errors import ConfigurationError, Message, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16")


def chosen_device(name: str) -> torch.device:
    """The device of that name; "auto" takes an accelerator if there is one.

    Raises:
        ConfigurationError: no such device, or this machine lacks it.

    Example:
        >>> chosen_device("cpu").type
        'cpu'
    """
    if name not in DEVICES:
        raise ConfigurationError("is unknown", setting="device", value=name, allowed=did_you_mean(name, DEVICES))
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigurationError(
            "is not there: PyTorch finds none on this machine",
            setting="device",
            value=name,
            fix="Give 'cpu' or 'auto'.",
        )
    if name != "auto":
        return torch.device(name)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator if accelerator is not None else torch.device("cpu")


def chosen_dtype(name: str) -> torch.dtype:
    """float32 or bfloat16, by name.

    Raises:
        ConfigurationError: another name.

    Example:
        >>> chosen_dtype("bfloat16")
        torch.bfloat16
    """
    if name not in DTYPES:
        raise ConfigurationError(
            "is unknown", setting="dtype", value=name, allowed=did_you_mean(name, ("auto", *DTYPES))
        )
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def fast_dtype(device: str = "auto") -> str:
    """The faster of the two dtypes to train in.

    A processor without bfloat16 instructions emulates them, see ``emulation_lines``; and one that has them may still
    multiply float32 faster (docs/guides/compare-methods.md), so there both are timed.

    Raises:
        ConfigurationError: see ``chosen_device``.

    Example:
        >>> fast_dtype() in ("float32", "bfloat16")
        True
    """
    if chosen_device(device).type != "cpu":
        return "bfloat16"
    return "bfloat16" if _has_bfloat16() and bfloat16_speed() > 1 else "float32"


def emulation_lines(device: str, dtype: str) -> list[str]:
    """A sentence where a processor is to train in bfloat16 and has no instructions for it.

    A training step of a BERT of MiniLM-L6's sizes took twice as long as in float32 with AVX-512, and 16 times as long
    with AVX2 alone (docs/log.md).

    Example:
        >>> emulation_lines("cpu", "float32")
        []
    """
    if dtype != "bfloat16" or chosen_device(device).type != "cpu" or _has_bfloat16():
        return []
    return [
        Message(
            "this processor has no instructions for bfloat16 and takes 2 to 16 times as long in it as in float32: "
            "better stop here and give {dtype}, or auto, unless the numbers must stand beside others of bfloat16.",
            dtype="float32",
        )
    ]


def _has_bfloat16() -> bool:
    can = torch.cpu.get_capabilities()
    return any(can.get(name) for name in ("amx_bf16", "avx512_bf16", "bf16"))


@cache
def bfloat16_speed() -> float:
    """Return the speed of this processor's matrix products in bfloat16 relative to float32.

    The best of many short trials, in turns, because others may use the processor too.

    Example:
        >>> bfloat16_speed() > 0
        True
    """
    products = [
        partial(torch.mm, torch.ones(256, 384, dtype=dtype), torch.ones(384, 384, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    ]
    seconds = [[timeit.timeit(product, number=1) for product in products] for _ in range(25)]
    in_float32, in_bfloat16 = map(min, zip(*seconds, strict=True))
    return in_float32 / in_bfloat16


def accelerator_name() -> str | None:
    """Return the name of the CUDA device, or None where there is none."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
