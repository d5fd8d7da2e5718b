"""The tokenizer and the schema of an export of texts, read from the files of its processor without transformers."""

from pathlib import Path
from typing import Any

from contextual_bert.context import ContextSchema
from contextual_bert.inference.exported.exported_processor import processor_settings
from contextual_bert.inference.exported.exported_tokenizer import ExportedTokenizer
from contextual_bert.models.raw_value_encoder import RawValueEncoder
from contextual_bert.models.truncation import Truncation, check_truncation


class ExportedTextProcessor(RawValueEncoder):
    """Tokenizer and context schema of an export of texts.

    Args:
        tokenizer: of the texts.
        schema: None for a model without a context.
        truncation: what is kept of a text that is too long.
        has_context_as_text: whether a context becomes the ids of its words.

    Relation to its siblings:
        ``ContextualBertProcessor`` wrote the files, and makes tensors of the same arrays.
    """

    max_characters = None  # what reads characters is not exported

    def __init__(
        self,
        tokenizer: ExportedTokenizer,
        schema: ContextSchema | None,
        *,
        truncation: Truncation = "head",
        has_context_as_text: bool = False,
    ) -> None:
        check_truncation(truncation)
        self.tokenizer, self._schema = tokenizer, schema
        self.truncation: Truncation = truncation
        self.has_context_as_text = has_context_as_text

    @classmethod
    def from_pretrained(cls, directory: Path) -> "ExportedTextProcessor":
        """Read the files of the tokenizer, and processor_config.json.

        Raises:
            RunDirectoryError: a file cannot be read.
            ConfigurationError: values are spelt by a rule that this version does not have.
            SchemaError: a faulty schema.
        """
        settings, schema = processor_settings(directory)
        truncation: Any = settings.get("truncation", "head")
        has_words = bool(settings.get("has_context_as_text"))
        tokenizer = ExportedTokenizer.from_pretrained(directory)
        return cls(tokenizer, schema, truncation=truncation, has_context_as_text=has_words)

    @property
    def schema(self) -> ContextSchema | None:
        """The context schema, None for a model without a context."""
        return self._schema
