"""The task of making vectors of texts that find the documents that belong to them.

Names of columns and settings only: it reads no table and loads no checkpoint.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from contextual_bert import evaluation  # it imports numpy when it is used
from contextual_bert.baselines.names import RETRIEVAL_BASELINES
from contextual_bert.errors import ConfigurationError
from contextual_bert.options import TEXTS, Option
from contextual_bert.training.language_modelling import (
    ObjectiveField,
    VocabSizeField,
    check_objective,
    check_vocab_size,
)
from contextual_bert.training.task_settings import NEW_FIELDS
from contextual_bert.training.text_task import PAIR_OPTION, TextTask, TruncationField

DEFAULT_TEMPERATURE = 0.05  # as sentence-transformers has it: a cosine of 1 is 20 nats above one of 0


@dataclass(frozen=True, kw_only=True)
class ContrastiveText(TextTask):
    """Learn vectors of texts under a context, each near that of the document that belongs to it.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts. The checkpoint reads the documents,
            too. None: all weights are new, and the tokenizer is trained on the training texts and documents.
        pair: column of the documents, one a text. They are read without a context.
        objective: "contrastive".
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        temperature: what a cosine is divided by.
        vocab_size: tokens of a tokenizer that is trained; 257 makes each byte a token. None: ``DEFAULT_VOCAB_SIZE``.

    Raises:
        ConfigurationError: another objective; a temperature or a size that cannot be; two columns that are one.

    Reference:
        van den Oord et al. (2018); Reimers and Gurevych (2019).

    Example:
        >>> ContrastiveText(text="query", pair="document").text_columns
        ('query', 'document')
    """

    noun: ClassVar[str] = "vectors of texts"
    command: ClassVar[str] = "embed"
    asked: ClassVar[tuple[str, ...]] = ("--text",)
    hub_tag: ClassVar[str] = "sentence-similarity"
    package: ClassVar[str] = "contextual_bert.inference"
    imported: ClassVar[str] = "EmbeddingPipeline"
    needs_checkpoint: ClassVar[bool] = False
    deploys_baselines: ClassVar[bool] = False
    baselines: ClassVar[Collection[str]] = RETRIEVAL_BASELINES
    kind: str = field(default="contrastive_text", init=False)
    label: ClassVar[None] = None
    elmo: ClassVar[None] = None
    phrases: ClassVar[None] = None
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    target: ClassVar[None] = None
    long_documents: ClassVar[bool] = False
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()
    pair: Annotated[str, PAIR_OPTION]
    objective: ObjectiveField = "contrastive"
    truncation: TruncationField = "head"
    temperature: Annotated[
        float,
        Option("With --objective contrastive: what the cosine of a text and a document is divided by.", TEXTS),
    ] = DEFAULT_TEMPERATURE
    vocab_size: VocabSizeField = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_objective(self.objective, "contrastive", instead="MaskedText, CausalText or NextSentence")
        check_vocab_size(self.vocab_size, self.checkpoint)
        if not 0 < self.temperature < math.inf:
            raise ConfigurationError(
                "is not allowed",
                setting="temperature",
                value=self.temperature,
                fix="Give a number above 0, such as 0.05.",
            )

    @property
    def alone(self) -> tuple[str, str]:
        """Return the column of documents."""
        return self.pair, "document"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks, and NDCG."""
        return (*super().metrics, *map(evaluation.metric_key, ("recall@10", "ndcg@10")))

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a model from a checkpoint, and without one all sizes."""
        return (*super().model_fields, *(() if self.checkpoint is not None else NEW_FIELDS))

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return f"finds `{self.pair}` for `{self.text}` by vectors"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that makes vectors of texts and of documents."""
        context = ", [{...}]" if has_context else ""
        return "\n".join(
            [
                'pipeline = EmbeddingPipeline.from_pretrained("path/to/this/folder")',
                f'scores = pipeline.encode(["..."]{context}) @ pipeline.encode(["a document", "another"]).T',
            ]
        )
