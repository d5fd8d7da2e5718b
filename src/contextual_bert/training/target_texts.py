"""The task of writing one text from another.

Names of columns and settings only: it reads no table and loads no checkpoint.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from contextual_bert import evaluation  # it imports numpy when it is used
from contextual_bert.models.truncation import Truncation
from contextual_bert.options import TEXTS, Option
from contextual_bert.training.language_modelling import VocabSizeField, check_vocab_size
from contextual_bert.training.task_settings import NEW_FIELDS, pipeline_code
from contextual_bert.training.text_task import TextTask

DECODER_FIELDS = ("decoder_type", "num_decoder_layers", "position_embedding", "tie_word_embeddings")


@dataclass(frozen=True, kw_only=True)
class TextToText(TextTask):
    """Learn to write a text from another one: an encoder reads it under the context, and a decoder writes.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts; the checkpoint is of the encoder.
            None: all weights are new, and the tokenizer is trained on the training texts.
        target: column of the texts that are written.
        vocab_size: tokens of a tokenizer that is trained; 257 makes each byte a token. None: ``DEFAULT_VOCAB_SIZE``.

    Raises:
        ConfigurationError: a size that cannot be; two columns that are one.

    Example:
        >>> TextToText(text="date", target="words").text_columns
        ('date', 'words')
    """

    noun: ClassVar[str] = "texts written from others"
    command: ClassVar[str] = "predict"
    asked: ClassVar[tuple[str, ...]] = ("--text",)
    hub_tag: ClassVar[str] = "translation"
    imported: ClassVar[str] = "TextToTextPipeline"
    needs_checkpoint: ClassVar[bool] = False
    baselines: ClassVar[Collection[str]] = ()
    kind: str = field(default="text_to_text", init=False)
    truncation: ClassVar[Truncation] = "head"
    label: ClassVar[None] = None
    elmo: ClassVar[None] = None
    pair: ClassVar[None] = None
    phrases: ClassVar[None] = None
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    long_documents: ClassVar[bool] = False
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()
    target: Annotated[
        str,
        Option(
            "With --text: the texts to be written from it, such as translations.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ]
    vocab_size: VocabSizeField = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_vocab_size(self.vocab_size, self.checkpoint)

    @property
    def alone(self) -> tuple[str, str]:
        """Return the column of targets."""
        return self.target, "target"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks and of whole texts."""
        return (*super().metrics, *evaluation.TEXT_METRICS)

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of encoder and decoder, and without a checkpoint all sizes."""
        sizes = () if self.checkpoint is not None else NEW_FIELDS
        return tuple(dict.fromkeys((*super().model_fields, *sizes, *DECODER_FIELDS)))

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return f"writes `{self.target}` from `{self.text}`"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that has a text written."""
        return pipeline_code(self, '"text": "..."', has_context=has_context)
