"""Nouns and verbs beside counts: 1 row has, 2 rows have, 1,200 companies are."""

__all__ = ["agreeing", "counted", "plural"]

_SINGULAR = {"are": "is", "were": "was", "have": "has", "do": "does"}


def counted(number: int | float, noun: str) -> str:
    """Return a number and its noun, in the singular where the number is 1.

    Args:
        number: how many there are.
        noun: of one of them. Its last word gets the ending.

    Example:
        >>> counted(1, "row"), counted(0, "row"), counted(1200, "unknown item"), counted(0.5, "epoch")
        ('1 row', '0 rows', '1,200 unknown items', '0.5 epochs')
    """
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else plural(noun)}"


def plural(name: str) -> str:
    """Return the plural of a noun, or of the name of a column.

    Example:
        >>> plural("customer"), plural("address"), plural("company"), plural("users")
        ('customers', 'addresses', 'companies', 'users')
    """
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    if name.endswith("s") and not name.endswith("ss"):
        return name
    has_hiss = name.endswith(("ss", "x", "ch", "sh")) and not name.endswith("epoch")
    return f"{name}es" if has_hiss else f"{name}s"


def agreeing(verb: str, number: int) -> str:
    """Return a verb in the form that goes with so many: of 1 "has", of others "have".

    Args:
        verb: in the plural, such as "are" or "stand".
        number: how many do it. Of "1 of 12 rows" it is the 1.

    Example:
        >>> [f"{counted(number, 'row')} {agreeing('have', number)}" for number in (0, 1, 2)]
        ['0 rows have', '1 row has', '2 rows have']
    """
    return verb if number != 1 else _SINGULAR.get(verb, f"{verb}s")
