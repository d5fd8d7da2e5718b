"""Check settings of masks for text without importing torch: units and shares of tokens."""

from typing import Literal

from contextual_bert.errors import ConfigurationError

Unit = Literal["token", "word", "span"]


def check_rates(rate: float, max_rate: float | None, *, name: str = "rate") -> None:
    """Refuse shares of tokens that cannot be hidden; ``name`` is what the caller's argument is called.

    Raises:
        ConfigurationError: a rate that is no share, a largest one below it or above 1.
    """
    if not 0 < rate < 1:
        raise ConfigurationError(f"{name}={rate}: the share of tokens to hide is between 0 and 1.")
    if max_rate is not None and not rate <= max_rate <= 1:
        raise ConfigurationError(f"max_{name}={max_rate}: give a share between {name}={rate} and 1.")
