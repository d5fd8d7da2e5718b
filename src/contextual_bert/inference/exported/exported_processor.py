"""The vocabulary and the schema of an export, read from the files of its processor without transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from contextual_bert.context import ContextSchema, Vocabulary, check_rule
from contextual_bert.errors import RunDirectoryError
from contextual_bert.json_text import read_json_object
from contextual_bert.models.raw_value_encoder import RawValueEncoder
from contextual_bert.models.reserved_items import RESERVED_ITEMS
from contextual_bert.places import PathPlace

_FIX = "Export the run again."


class ExportedProcessor(RawValueEncoder):
    """Vocabulary and context schema of an export.

    Args:
        items: the item vocabulary.
        schema: None for a model without a context.
        removed_items: names that are never proposed.

    Relation to its siblings:
        ``ContextualBertProcessor`` wrote the files, and makes tensors of the same arrays.
    """

    has_context_as_text = False  # of sets never

    def __init__(self, items: Vocabulary, schema: ContextSchema | None, *, removed_items: Sequence[str] = ()) -> None:
        self._items, self.removed_items = items, removed_items
        self._schema = schema.for_items(items) if schema is not None else None

    @classmethod
    def from_pretrained(cls, directory: Path) -> "ExportedProcessor":
        """Read tokenizer.json and processor_config.json.

        Raises:
            RunDirectoryError: a file cannot be read, or is no processor of sets.
            ConfigurationError: values are spelt by a rule that this version does not have.
            SchemaError: a faulty schema.
        """
        path = directory / "tokenizer.json"
        model: Any = read_json_object(path, fix=_FIX).get("model")
        vocabulary: Any = cast("dict[str, Any]", model).get("vocab") if isinstance(model, dict) else None
        if not isinstance(vocabulary, dict):
            raise RunDirectoryError("has no vocabulary of items", fix=_FIX, place=PathPlace(path))
        ids = cast("dict[str, int]", vocabulary)
        names = sorted(ids, key=ids.__getitem__)
        if [ids[name] for name in names] != [*range(len(names))] or (*names[: len(RESERVED_ITEMS)],) != RESERVED_ITEMS:
            raise RunDirectoryError(
                "has no vocabulary of items: its ids are those of another model", fix=_FIX, place=PathPlace(path)
            )
        settings, schema = processor_settings(directory)
        removed: Any = settings.get("removed_items") or ()
        vocabulary = Vocabulary(names[len(RESERVED_ITEMS) :], reserved=RESERVED_ITEMS)
        return cls(vocabulary, schema, removed_items=tuple(map(str, removed)))

    @property
    def schema(self) -> ContextSchema | None:
        """The context schema, None for a model without a context."""
        return self._schema

    @property
    def items(self) -> Vocabulary:
        """The item vocabulary, reserved ids included."""
        return self._items


def processor_settings(directory: Path) -> tuple[dict[str, Any], ContextSchema | None]:
    """Return what processor_config.json says, and the context schema in it.

    Raises:
        RunDirectoryError: the file cannot be read, or is of no processor.
        ConfigurationError: values are spelt by a rule that this version does not have.
        SchemaError: a faulty schema.
    """
    path = directory / "processor_config.json"
    settings = read_json_object(path, fix=_FIX)
    check_rule(str(settings.get("value_spelling")))
    extractor: Any = settings.get("feature_extractor")
    if not isinstance(extractor, dict):
        raise RunDirectoryError("has no feature_extractor", fix=_FIX, place=PathPlace(path))
    content: Any = cast("dict[str, Any]", extractor).get("context_schema")
    return settings, ContextSchema.from_dict(content) if content is not None else None
