"""Options with a fixed list of words: a misspelt one gets a suggestion."""


def checked(value: str, allowed: tuple[str, ...], *, option: str) -> str:
    """The value, if it is allowed.

    Raises:
        ConfigurationError: it is not.
    """
    from contextual_bert.errors import ConfigurationError, did_you_mean

    if value not in allowed:
        raise ConfigurationError("is unknown", setting=option, value=value, allowed=did_you_mean(value, allowed))
    return value


def checked_format(value: str, allowed: tuple[str, ...] = ("table", "markdown", "json")) -> str:
    """The format of the output."""
    return checked(value, allowed, option="--format")


def checked_part(value: str | None) -> str | None:
    """The part of a split, or "all" rows."""
    return value if value is None else checked(value, ("train", "validation", "test", "all"), option="--part")


def number_or_all(value: str | None, *, option: str) -> int | str | None:
    """Return the number that an option gives, or "all".

    Raises:
        ConfigurationError: something else.
    """
    from contextual_bert.errors import ConfigurationError

    if value is None or value == "all":
        return value
    if not value.isascii() or not value.isdigit() or len(value) > 15 or int(value) < 1:
        fix = "Give a whole number of at least 1, or all."
        raise ConfigurationError("is not allowed", setting=option, value=value, fix=fix)
    return int(value)


def amount_of(value: str | None, *, option: str, decimal: str | None) -> float | None:
    """Return the amount that an option gives, None where it gives none.

    Args:
        value: as it was typed.
        option: that it was typed for.
        decimal: the mark before the decimals, as --decimal says; None: a point, and nothing between thousands.

    Raises:
        ConfigurationError: it is no number.
    """
    if value is None:
        return None
    from contextual_bert.context.raw_values import number_of
    from contextual_bert.errors import ConfigurationError, DataError

    try:
        return number_of(value, decimal=decimal if decimal in (".", ",") else None)
    except DataError as error:
        fix = "Give one such as 70.46." if decimal != "," else "Give one such as 70,46, as --decimal ',' says."
        if decimal is None and "," in value:
            fix = "Give one such as 70.46, or --decimal ',' for 70,46."
        raise ConfigurationError("is no number", setting=option, value=value, fix=fix) from error
