"""Check settings of masks for text without importing torch: units and shares of tokens."""

from typing import Literal

from contextual_bert.errors import ConfigurationError, Message

Unit = Literal["token", "word", "span"]


def check_rates(rate: float, max_rate: float | None, *, name: str = "rate") -> None:
    """Refuse shares of tokens that cannot be hidden; ``name`` is what the caller's argument is called.

    Raises:
        ConfigurationError: a rate that is no share, a largest one below it or above 1.
    """
    if not 0 < rate < 1:
        raise ConfigurationError(
            "is not allowed: the share of tokens to hide is between 0 and 1", setting=name, value=rate
        )
    if max_rate is not None and not rate <= max_rate <= 1:
        raise ConfigurationError(
            "is not allowed",
            setting=f"max_{name}",
            value=max_rate,
            fix=Message(f"Give a share between {{{name}}} and 1.", **{name: rate}),
        )
