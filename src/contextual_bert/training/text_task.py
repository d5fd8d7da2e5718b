"""Base of the tasks on texts: the column, and the checkpoint that reads it.

Names of columns and settings only: it reads no table and loads no checkpoint.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.models.truncation import Truncation
from contextual_bert.options import MAIN, TEXTS, Option, check_declared
from contextual_bert.training.task_settings import ALL_FIELDS, NEW_FIELDS, TEXT_FIELDS, TaskSettings


@dataclass(frozen=True, kw_only=True)
class TextTask(TaskSettings):
    """Base of the tasks on texts: the column, and the checkpoint that reads it.

    Args:
        text: column of texts; of lists of words where tags are learned.
        checkpoint: folder of a checkpoint of BERT's family (``models.backbones``), its name on the Hub, or a run on
            texts to go on from: weights and tokenizer; the baselines take its tokenizer. None is for baselines without
            a BERT: their tokens are then the frequent words of the training texts.
        max_length: tokens kept of a text, [CLS] and [SEP] included; None: as many as the tokenizer allows.
        is_from_scratch: take the sizes and the tokenizer of the checkpoint and draw all weights.
    """

    has_items: ClassVar[bool] = False
    needs_checkpoint: ClassVar[bool] = True
    baselines: ClassVar[Collection[str]] = (CONTEXT_AS_TEXT,)

    text: Annotated[
        str,
        Option(
            "Column of texts, in place of --items; of lists of words where tags are learned.",
            MAIN,
            metavar="COLUMN",
            has_default=False,
            is_of_data=True,
        ),
    ] = "text"
    checkpoint: Annotated[
        str | None,
        Option(
            "With --text: folder of a checkpoint (BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, ModernBERT; "
            "GPT-2 with --objective causal), its name on the Hub, or a run on texts to go on from. Baselines such as "
            "tfidf, ngrams and popularity go without, and --objective causal and contrastive may.",
            MAIN,
            metavar="BERT",
            names="checkpoint",
            is_of_data=True,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        Option(
            "With --text: tokens kept of a text; default: what the checkpoint allows.",
            TEXTS,
            minimum=3,
            is_of_data=True,
        ),
    ] = None
    is_from_scratch: Annotated[
        bool,
        Option("With --text: take the checkpoint's sizes and tokenizer, not its weights.", TEXTS, name="from-scratch"),
    ] = False

    def __post_init__(self) -> None:
        check_declared(self)
        if self.is_from_scratch and self.checkpoint is None:
            raise ConfigurationError(
                "takes the sizes and the tokenizer of a checkpoint, and none is named",
                setting="is_from_scratch",
                value=True,
                fix=Message("Name it with {checkpoint}, or leave it out.", checkpoint=...),
            )
        named = {name: getattr(self, name, None) for name in COLUMN_FIELDS}
        named = {name: column for name, column in named.items() if column is not None}
        for name, column in named.items():
            twice = [other for other in named if other != name and named[other] == column]
            if twice:
                raise ConfigurationError(
                    Message(f"and {{{twice[0]}}} are one column", **{twice[0]: column}),
                    setting=name,
                    value=column,
                    fix="Give each a column of its own.",
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read or learned, beside the context."""
        named = (getattr(self, name, None) for name in COLUMN_FIELDS)
        return tuple(column for column in named if column is not None)

    @property
    def bert(self) -> str:
        """Return ``checkpoint``, for what cannot do without.

        Raises:
            ConfigurationError: none is named.
        """
        if self.checkpoint is None:
            raise ConfigurationError(
                f"is missing: only a BERT learns {self.noun}, and none is named",
                setting="checkpoint",
                fix="Give its folder, its name on the Hub, or a run on texts to go on from. Baselines that need none "
                "learn labels.",
            )
        return self.checkpoint

    @property
    def second(self) -> str | None:
        """The column of what is read beside the text: of second texts, or of questions."""
        return None

    @property
    def alone(self) -> tuple[str, str] | None:
        """The column of second texts that are encoded by themselves, and what one is called; None without such."""
        return None

    @property
    def reads_pairs(self) -> bool:
        """Return True where two texts are read as one, the second in segment 1."""
        return self.second is not None

    @property
    def phrase_column(self) -> str | None:
        """Return the column of phrases that are hidden as a whole; None where nothing is hidden, or by words alone."""
        return None

    @property
    def kept_length(self) -> int | None:
        """Return how many tokens of a text are kept; None: as many as the tokenizer allows."""
        return self.max_length

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Return the columns of texts. Answers are read whatever they look like, and keep their type."""
        beside = self.alone[0] if self.alone is not None else None
        return tuple(name for name in (self.text, self.second, beside) if name is not None)

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Return the columns of texts."""
        return self.text_columns

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a model from a checkpoint, which decides its sizes unless all weights are drawn."""
        return (*ALL_FIELDS, *TEXT_FIELDS, *(NEW_FIELDS if self.is_from_scratch else ()))

    @property
    def checkpoint_to_read(self) -> str | None:
        """Return ``checkpoint``."""
        return self.checkpoint

    @property
    def checkpoint_to_start_from(self) -> str | None:
        """Return ``checkpoint``, unless all weights are drawn."""
        return None if self.is_from_scratch else self.checkpoint

    def check_recipe(
        self, *, customer: str | None, item_vectors: str | None, training: Mapping[str, Any], trained_weights: str
    ) -> None:
        """Raise ConfigurationError for a setting of a recipe that texts do not read."""
        if item_vectors is not None:
            raise ConfigurationError(
                "is for sets of items, and this is a table of texts",
                setting="item_vectors",
                value=item_vectors,
                fix="Leave it out.",
            )
        for name in ("loss", "num_negatives"):
            if name in training:
                raise ConfigurationError(
                    "is for sets of items", setting=name, value=training[name], fix="Leave it out."
                )
        if "masks_per_set" in training:
            raise ConfigurationError(
                "is for sets of items",
                setting="masks_per_set",
                fix=Message("For texts, {mask_rate} says what share of the tokens is hidden.", mask_rate=NAME),
            )
        if training.get("item_weight_decay") is not None:
            raise ConfigurationError(
                "is for the own vectors of items that have features, and this is a table of texts",
                setting="item_weight_decay",
                value=training["item_weight_decay"],
                fix="Leave it out.",
            )
        if trained_weights != "all" and self.checkpoint is None and not self.needs_checkpoint:
            raise ConfigurationError(
                "leaves a checkpoint's weights as they are, and there is none",
                setting="trained_weights",
                value=trained_weights,
                fix="Leave it out.",
            )
        if trained_weights != "all" and self.is_from_scratch:
            raise ConfigurationError(
                Message(
                    "leaves a checkpoint's weights as they are, and with {is_from_scratch} there are none",
                    is_from_scratch=NAME,
                ),
                setting="trained_weights",
                value=trained_weights,
                fix="Leave one of them out.",
            )


PAIR_OPTION = Option(
    "With --text: column of second texts; with --objective contrastive, of the documents that belong to the texts.",
    TEXTS,
    metavar="COLUMN",
    is_of_data=True,
)
# Fields of tasks on texts that name columns. A class without one of them says so.
COLUMN_FIELDS = ("text", "label", "pair", "question", "answer", "answer_start", "phrases", "target")
TruncationField = Annotated[
    Truncation, Option("What is kept of longer texts: the beginning, or a quarter and the end.", TEXTS)
]
