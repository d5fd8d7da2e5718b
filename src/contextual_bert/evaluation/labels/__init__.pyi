from .answers import AnsweredRows
from .rows import LabelledRows, has_grades, has_tags

__all__ = ["AnsweredRows", "LabelledRows", "has_grades", "has_tags"]
