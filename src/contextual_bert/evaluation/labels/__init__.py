"""Labels of texts and words: what was predicted and is true, its metrics, its report, several methods side by side.

Here are the rows alone; what is made of them is exported by the package above, on which it rests.
"""

from contextual_bert.evaluation.labels.answers import AnsweredRows
from contextual_bert.evaluation.labels.rows import LabelledRows, has_grades, has_tags

__all__ = ["AnsweredRows", "LabelledRows", "has_grades", "has_tags"]
