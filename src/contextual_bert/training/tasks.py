"""Tasks of a recipe: what is learned from which columns. One class a kind, told apart by ``kind`` in recipe.json.

A class has the fields that its task reads and no others, so that a pair of settings that means nothing cannot be
written. Names of columns and settings only: it reads no table and loads no checkpoint.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from contextual_bert import evaluation  # it imports numpy when it is used
from contextual_bert.baselines.names import CONTEXT_AS_TEXT, TAG_BASELINES, TEXT_BASELINES
from contextual_bert.data.mask_rates import Unit, check_rates
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.models.truncation import Truncation
from contextual_bert.options import MAIN, TEXTS, Option, check_declared
from contextual_bert.training.label_order import checked_order
from contextual_bert.training.set_completion import SetCompletion
from contextual_bert.training.task_settings import (
    ALL_FIELDS,
    NEW_FIELDS,
    TEXT_FIELDS,
    TaskSettings,
    pipeline_code,
)

# Each hidden token is a forward pass of its text: of all of them, scoring takes as long as a short training.
SCORED_TOKENS = 2_000


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
    reads_checkpoint: ClassVar[bool] = True
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
            "With --text: folder of a checkpoint (BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, ELECTRA, ModernBERT), "
            "its name on the Hub, or a run on texts to go on from. Baselines such as tfidf, ngrams and popularity go "
            "without.",
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
                "is missing: a BERT is needed, and none is named",
                setting="checkpoint",
                fix="Give its folder, its name on the Hub, or a run on texts to go on from.",
            )
        return self.checkpoint

    @property
    def second(self) -> str | None:
        """The column of what is read beside the text: of second texts, or of questions."""
        return None

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Return the columns of texts. Answers are read whatever they look like, and keep their type."""
        return tuple(name for name in (self.text, self.second) if name is not None)

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
        if "masks_per_set" in training:
            raise ConfigurationError(
                "is for sets of items",
                setting="masks_per_set",
                fix=Message("For texts, {mask_rate} says what share of the tokens is hidden.", mask_rate=NAME),
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


# Fields of tasks on texts that name columns. A class without one of them says so.
COLUMN_FIELDS = ("text", "label", "pair", "question", "answer", "answer_start")
_TruncationField = Annotated[
    Truncation, Option("What is kept of longer texts: the beginning, or a quarter and the end.", TEXTS)
]


@dataclass(frozen=True, kw_only=True)
class LabelTask(TextTask):
    """Base of the tasks with a column of labels.

    Args:
        label: column to learn.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
    """

    command: ClassVar[str] = "predict"
    asked: ClassVar[tuple[str, ...]] = ("--text",)
    imported: ClassVar[str] = "TextPipeline"

    label: Annotated[
        str,
        Option(
            "With --text: labels, or lists of tags; left out, hidden words are learned (masked language model).",
            MAIN,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ]
    truncation: _TruncationField = "head"

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Return the column of labels."""
        return (self.label,)

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Return the columns of texts and labels."""
        return (*self.text_columns, self.label)

    @property
    def tag_columns(self) -> tuple[str, str] | None:
        """Return the columns of texts and labels."""
        return self.text, self.label

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks and of labels."""
        return (*super().metrics, *evaluation.LABEL_METRICS)

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return f"finds `{self.label}` from `{self.text}`"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that labels a text."""
        pair = ', "pair": "..."' if self.second is not None else ""
        return pipeline_code(self, '"text": "..."' + pair, has_context=has_context)


@dataclass(frozen=True, kw_only=True)
class Classification(LabelTask):
    """Learn a label, or a grade, for each text, or pair of texts.

    A column of lists of labels makes it ``Tagging``: a prepared recipe has that in its place.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        label: column to learn: names or whole numbers of classes.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        pair: column of second texts.
        is_ordinal: the labels are grades of one scale: numbers, or the words of ``order``.
        order: all labels from the lowest grade to the highest; where there are some, ``is_ordinal`` is True.

    Raises:
        ConfigurationError: settings that do not go together.

    Example:
        >>> Classification(text="review", label="stars", checkpoint="bert-base-uncased", is_ordinal=True).truncation
        'head'
    """

    noun: ClassVar[str] = "labels of texts"
    baselines: ClassVar[Collection[str]] = TEXT_BASELINES
    hub_tag: ClassVar[str] = "text-classification"
    kind: str = field(default="classification", init=False)
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    pair: Annotated[
        str | None, Option("With --text: column of second texts.", TEXTS, metavar="COLUMN", is_of_data=True)
    ] = None
    is_ordinal: Annotated[
        bool,
        Option(
            "The labels are grades of one scale: numbers, halves too; words need --order. Classes are mostly better.",
            TEXTS,
            name="ordinal",
            is_of_data=True,
        ),
    ] = False
    order: Annotated[
        tuple[str, ...],
        Option(
            "The labels are grades of one scale: all of them, the lowest first, as bad,fair,good; repeatable or with "
            "commas.",
            TEXTS,
            metavar="A,B",
            is_of_data=True,
        ),
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "order", checked_order(self.order))
        if self.order:
            object.__setattr__(self, "is_ordinal", True)

    @property
    def second(self) -> str | None:
        """Return the column of second texts."""
        return self.pair

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Return the column of labels. Grades without an order are numbers: 1,5 and 1.50 as the decimal mark says."""
        return () if self.is_ordinal and not self.order else (self.label,)

    def as_kind(self, kind: str) -> TaskSettings:
        """Return the task as the data show it: with lists of labels it is tagging.

        Raises:
            ConfigurationError: a setting that tagging does not have.
        """
        if kind != "tagging":
            return self
        own = {each.name for each in fields(Tagging) if each.init}
        return Tagging(**{each.name: getattr(self, each.name) for each in fields(self) if each.name in own})


@dataclass(frozen=True, kw_only=True)
class Tagging(LabelTask):
    """Learn a label for each word of a text.

    Args:
        text: column of lists of words.
        checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        label: column of lists of tags, one a word.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".

    Example:
        >>> Tagging(text="tokens", label="tags", checkpoint="bert-base-cased").columns
        ('tokens', 'tags')
    """

    noun: ClassVar[str] = "tags of words"
    baselines: ClassVar[Collection[str]] = (*TAG_BASELINES, CONTEXT_AS_TEXT)
    hub_tag: ClassVar[str] = "token-classification"
    kind: str = field(default="tagging", init=False)
    pair: ClassVar[None] = None
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, kw_only=True)
class QuestionAnswering(TextTask):
    """Learn the piece of a text that answers a question. Longer texts are read in windows, and nothing is cut.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        question: column of questions.
        answer: column to learn: the piece of each text that answers its question, empty where the text has none.
        answer_start: column of the character at which an answer begins, from 0 on; None: where the text has it first.

    Example:
        >>> task = QuestionAnswering(text="menu", question="asked", answer="found", checkpoint="bert-base-uncased")
        >>> task.text_columns
        ('menu', 'asked')
    """

    noun: ClassVar[str] = "answers to questions"
    hub_tag: ClassVar[str] = "question-answering"
    command: ClassVar[str] = "predict"
    asked: ClassVar[tuple[str, ...]] = ("--question", "--text")
    imported: ClassVar[str] = "QuestionAnsweringPipeline"
    kind: str = field(default="question_answering", init=False)
    label: ClassVar[None] = None
    pair: ClassVar[None] = None
    truncation: ClassVar[Truncation] = "head"
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()
    question: Annotated[
        str,
        Option(
            "With --text and --answer: questions, each about the text of its row.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ]
    answer: Annotated[
        str,
        Option(
            "With --question: the piece of the text that answers it, letter by letter; empty where there is none.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ]
    answer_start: Annotated[
        str | None,
        Option(
            "With --answer: the character where it begins, from 0 on; left out, where it is first.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bert  # noqa: B018  (no baseline without a BERT finds answers)

    @property
    def second(self) -> str | None:
        """Return the column of questions."""
        return self.question

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks and of answers."""
        return (*super().metrics, *evaluation.ANSWER_METRICS)

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return f"answers `{self.question}` with a piece of `{self.text}`"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that asks a question."""
        return pipeline_code(self, '"question": "...", "text": "..."', has_context=has_context)


@dataclass(frozen=True, kw_only=True)
class MaskedText(TextTask):
    """Learn the hidden tokens of a text from the others.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        masking: what is hidden: "token", "word" or "span".
        mask_rate: share of the tokens that is hidden.
        max_mask_rate: the largest share, where each text has one of its own between the two; for a model that is to
            draw texts from nothing.
        scored_tokens: tokens of each part that are hidden to choose the epoch and for the final numbers: a number, or
            "all". None: ``SCORED_TOKENS``.

    Raises:
        ConfigurationError: a share or a number that cannot be.

    Example:
        >>> MaskedText(text="menu", checkpoint="bert-base-uncased").most_scored
        2000
    """

    noun: ClassVar[str] = "hidden words of texts"
    command: ClassVar[str] = "sample"
    imported: ClassVar[str] = "ContextualBertForMaskedLM, ContextualBertProcessor, sample_texts"
    kind: str = field(default="masked_text", init=False)
    label: ClassVar[None] = None
    pair: ClassVar[None] = None
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()
    truncation: _TruncationField = "head"
    masking: Annotated[Unit, Option("With --text and no --label: what is hidden.", TEXTS)] = "token"
    mask_rate: Annotated[float, Option("With --text and no --label: share of tokens hidden.", TEXTS)] = 0.15
    max_mask_rate: Annotated[
        float | None,
        Option(
            "Each text hides a share of its own, between --mask-rate and this: 1 for a run that sample draws from.",
            TEXTS,
            metavar="SHARE",
        ),
    ] = None
    scored_tokens: Annotated[
        int | Literal["all"] | None,
        Option(
            "With --text and no --label: hidden tokens scored of each part, drawn by a hash (default 2000).",
            TEXTS,
            metavar="NUMBER|all",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bert  # noqa: B018  (no baseline without a BERT finds hidden words)
        check_rates(self.mask_rate, self.max_mask_rate, name="mask_rate")
        number: Any = self.scored_tokens
        if number is not None and number != "all" and (type(number) is not int or number < 1):
            raise ConfigurationError(
                "is not allowed",
                setting="scored_tokens",
                value=number,
                fix="Give a whole number of at least 1, or 'all'.",
            )

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return "fills hidden words"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that draws texts."""
        context = ", context={...}" if has_context else ""
        return "\n".join(
            [
                'model = ContextualBertForMaskedLM.from_pretrained("path/to/this/folder")',
                'processor = ContextualBertProcessor.from_pretrained("path/to/this/folder")',
                f"sample_texts(model, processor{context})",
            ]
        )

    @property
    def most_scored(self) -> int | None:
        """Return the largest number of hidden tokens that are scored in a part; None for all."""
        chosen = SCORED_TOKENS if self.scored_tokens is None else self.scored_tokens
        return chosen if isinstance(chosen, int) else None


AnyTextTask = Classification | Tagging | QuestionAnswering | MaskedText
TEXT_TASKS: tuple[type[AnyTextTask], ...] = (Classification, Tagging, QuestionAnswering, MaskedText)
# Kind -> its class, as recipe.json names it. ``register_task`` of contextual_bert.runs adds one.
TASK_SETTINGS: dict[str, type[TaskSettings]] = {
    "set_completion": SetCompletion,
    "classification": Classification,
    "tagging": Tagging,
    "question_answering": QuestionAnswering,
    "masked_text": MaskedText,
}
