"""Cells of text files: the spellings of whole numbers, numbers, truth values, dates and times.

`data.csv_tables` types whole columns by these patterns, and `vocabulary.normal_form` reads a single value by them, so
that both mean the same. What is spelt otherwise is text: codes with leading zeros ("010101"), "+1" and "1,000".
"""

INTEGER = r"^-?(0|[1-9][0-9]*)$"
FLOAT = r"^-?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI]nf(inity)?)$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"
ZONED = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?([zZ]|[+-][0-9]{2}:?[0-9]{2})$"
BOOLEAN = r"^([tT]rue|TRUE|[fF]alse|FALSE)$"
