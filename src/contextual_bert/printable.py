"""Names and values as a terminal may show them: what would steer it is spelt out.

An item, a column or a file may be called ESC ] 52: printed as it is, the name writes to the clipboard of whoever looks
at it. It imports nothing of the library, so that an error can be printed before the rest is there.
"""

import re
import shlex

# C0 without newline and tab, DEL, C1, line and paragraph separators, embedding and override of the writing direction,
# and halves of surrogate pairs, which are bytes of a file's name that are no text and cannot be printed at all.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_JSON_STEERING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, *, is_one_line: bool = False) -> str:
    r"""Return the text with each character that steers a terminal as its escape sequence of Python.

    Args:
        text: of a person, a file or a table.
        is_one_line: spell newlines out, too, which would begin a line of their own.

    Example:
        >>> print(printable("coat\x1b[2J"))
        coat\x1b[2J
    """
    found = _STEERING.sub(lambda match: _escaped(match[0]), text)
    return found.replace("\n", "\\n") if is_one_line else found


def printable_json(text: str) -> str:
    r"""Return the same JSON without characters that steer a terminal; JSON itself escapes those of C0.

    Example:
        >>> print(printable_json('"coat\x9b2J"'))
        "coat\u009b2J"
    """
    return _JSON_STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable_argument(text: str) -> str:
    r"""Return a part of a command as a shell reads it; what steers a terminal in the quotation of bash and zsh.

    Example:
        >>> print(printable_argument("my table.csv"), printable_argument("a\x1bb.csv"))
        'my table.csv' $'a\x1bb.csv'
    """
    if printable(text, is_one_line=True) == text:
        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(quoted, is_one_line=True)}'"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
