"""Names of the training arguments, read from source files, as importing them takes seconds."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def trainer_fields() -> frozenset[str]:
    """Return the names of the fields of ``ContextualTrainingArguments``, those of transformers' Trainer included.

    Example:
        >>> {"weight_decay", "context_dropout"} <= trainer_fields()
        True
    """
    package = find_spec("transformers")
    theirs = Path(package.origin).with_name("training_args.py") if package and package.origin else None
    own = Path(__file__).with_name("arguments.py")
    found = [*_fields(own, "ContextualTrainingArguments")]
    return frozenset([*found, *(_fields(theirs, "TrainingArguments") if theirs is not None else ())])


def _fields(path: Path, class_name: str) -> Iterator[str]:
    """Yield the names that a class of a file annotates."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id
