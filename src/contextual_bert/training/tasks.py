"""Tasks of a recipe: what is learned from which columns. One class a kind, told apart by ``kind`` in recipe.json.

A class has the fields that its task reads and no others, so that a pair of settings that means nothing cannot be
written. Names of columns and settings only: it reads no table and loads no checkpoint.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar, Literal

from contextual_bert import evaluation  # it imports numpy when it is used
from contextual_bert.baselines.names import CONTEXT_AS_TEXT, TAG_BASELINES, TEXT_BASELINES
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.models.truncation import SEGMENT_FIELDS, Truncation
from contextual_bert.options import MAIN, TEXTS, Option
from contextual_bert.training.class_weights import read_class_weights
from contextual_bert.training.contrastive_pairs import ContrastiveText
from contextual_bert.training.label_order import checked_order
from contextual_bert.training.language_modelling import BidirectionalText, CausalText, MaskedText, NextSentence
from contextual_bert.training.set_completion import SetCompletion
from contextual_bert.training.target_texts import TextToText
from contextual_bert.training.task_settings import (
    TaskSettings,
    pipeline_code,
)
from contextual_bert.training.text_task import PAIR_OPTION, TextTask, TruncationField

LabelStart = Literal["shares", "random"]
LONGEST_DOCUMENT = 4_096  # tokens, as much as the encoders for long documents of the literature read


@dataclass(frozen=True, kw_only=True)
class LabelTask(TextTask):
    """Base of the tasks with a column of labels.

    Args:
        label: column to learn.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        class_weights: how much each label counts in the loss: ``("balanced",)``, or LABEL=WEIGHT for some; none: all
            alike. See ``class_weights_of``.
        elmo: folder of a language model in both directions, whose vectors recurrent baselines read beside the
            embeddings of their words; a finished run has its weights. None: they read their own embeddings alone.
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
    truncation: TruncationField = "head"
    class_weights: Annotated[
        tuple[str, ...],
        Option(
            "With --label: how much each label counts in training: 'balanced', the rarer the more, or bad=2,good=1; "
            "repeatable or with commas. Probabilities are then those of the weighted labels.",
            TEXTS,
            metavar="balanced|LABEL=WEIGHT",
        ),
    ] = ()
    elmo: Annotated[
        str | None,
        Option(
            "With --label and bilstm, bilstm_crf, bigru or rnn: run of --objective bidirectional, whose vectors, mixed "
            "with learned weights, are read beside the words (ELMo). It stays as it is and is saved within the run.",
            TEXTS,
            metavar="RUN",
            form="path",
            names="language model",
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        read_class_weights(self.class_weights)

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

    A column of lists of labels makes it ``Tagging``: a prepared recipe has that in its place. With ``is_multi_label``
    lists are the labels of whole texts, and the kind of the task is "multi_label". With ``is_regression`` the column
    holds numbers to learn, and the kind is "regression".

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        label: column to learn: names or whole numbers of classes.
        truncation, class_weights, elmo: as for ``LabelTask``.
        pair: column of second texts.
        is_ordinal: the labels are grades of one scale: numbers, or the words of ``order``.
        order: all labels from the lowest grade to the highest; where there are some, ``is_ordinal`` is True.
        is_multi_label: a text may have several labels, or none. Each is decided about.
        is_regression: the labels are numbers. How likely each of some bins of the training numbers is, is learned.
        number_bins: with ``is_regression``: how many bins at most, each with as many training texts; None: by their
            number, see ``usual_bins``.
        separator: with ``is_multi_label``: what stands between labels where a column holds them as text.
        label_start: where a new output layer starts: "shares", those of the labels in the training part, or "random",
            as any other new layer.
        long_documents: texts may be longer than a BERT reads: it reads segments of them, and a Transformer their
            vectors. ``max_length`` is then of a whole text, 4,096 unless it is given.

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
    target: ClassVar[None] = None
    pair: Annotated[str | None, PAIR_OPTION] = None
    is_ordinal: Annotated[
        bool,
        Option(
            "The labels are grades of one scale: numbers, halves too; words need --order. Classes are mostly better.",
            TEXTS,
            name="ordinal",
            is_of_data=True,
        ),
    ] = False
    is_multi_label: Annotated[
        bool,
        Option(
            "A text may have several labels: --label names lists, or text with --separator between labels.",
            TEXTS,
            name="multi-label",
            is_of_data=True,
        ),
    ] = False
    is_regression: Annotated[
        bool,
        Option(
            "--label names numbers: they are learned as a distribution over bins, and answered with an interval.",
            TEXTS,
            name="regression",
            is_of_data=True,
        ),
    ] = False
    number_bins: Annotated[
        int | None,
        Option("With --regression: bins at most, each with as many training texts; by default by their number.", TEXTS),
    ] = None
    separator: Annotated[
        str,
        Option("With --multi-label: what stands between the labels of a cell.", TEXTS, is_of_data=True),
    ] = ","
    order: Annotated[
        tuple[str, ...],
        Option(
            "With --text: the labels are grades of one scale: all of them, the lowest first, as bad,fair,good; "
            "repeatable or with commas.",
            TEXTS,
            metavar="A,B",
            is_of_data=True,
        ),
    ] = ()
    label_start: Annotated[
        LabelStart,
        Option("Where a new layer of labels starts: at their shares in the training part, or drawn at random.", TEXTS),
    ] = "shares"
    long_documents: Annotated[
        bool,
        Option(
            "Read texts that are longer than the checkpoint allows in segments, with a Transformer over their vectors "
            "(ToBERT); --max-length is then of a whole text, 4096 by default.",
            TEXTS,
            is_of_data=True,
        ),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "order", checked_order(self.order))
        if self.pair is not None and self.truncation != "head":
            raise ConfigurationError(
                Message(
                    "is for single texts, and {pair} names second ones: pairs are cut at their ends", pair=self.pair
                ),
                setting="truncation",
                value=self.truncation,
                fix=Message("Give {truncation}.", truncation="head"),
            )
        if self.pair is not None and self.elmo is not None:
            raise ConfigurationError(
                Message("reads single texts, and {pair} names second ones", pair=self.pair),
                setting="elmo",
                value=self.elmo,
                fix="Leave one of them out.",
            )
        if self.pair is not None and self.long_documents:
            raise ConfigurationError(
                Message("is for single texts, and {pair} names second ones", pair=self.pair),
                setting="long_documents",
                value=True,
                fix="Leave one of them out.",
            )
        if self.order:
            object.__setattr__(self, "is_ordinal", True)
        self._check_several()
        self._check_numbers()

    def _check_several(self) -> None:
        """Make it a task of several labels, where they are asked for."""
        if not self.separator:
            raise ConfigurationError(
                "is not allowed", setting="separator", value=self.separator, fix="Give a string such as ',' or ';'."
            )
        if self.separator != "," and not self.is_multi_label:
            raise ConfigurationError(
                "stands between the labels of a text, and here each text has one",
                setting="separator",
                value=self.separator,
                fix=Message("Give {is_multi_label} too, or leave it out.", is_multi_label=True),
            )
        if not self.is_multi_label:
            return
        if self.is_ordinal:
            asked = "order" if self.order else "is_ordinal"
            raise ConfigurationError(
                Message("is for one grade a text, and with {is_multi_label} it may have several", is_multi_label=True),
                setting=asked,
                value=list(self.order) if self.order else True,
                fix="Leave one of the two out.",
            )
        object.__setattr__(self, "kind", "multi_label")

    def _check_numbers(self) -> None:
        """Make it a task of numbers, where they are asked for."""
        if not self.is_regression:
            if self.number_bins is not None:
                raise ConfigurationError(
                    "is for numbers, and these are labels",
                    setting="number_bins",
                    value=self.number_bins,
                    fix=Message("Give {is_regression} too, or leave it out.", is_regression=True),
                )
            return
        if self.number_bins is not None and self.number_bins < 2:
            raise ConfigurationError(
                "is not allowed", setting="number_bins", value=self.number_bins, fix="Give 2 or more."
            )
        asked = next(
            (name for name in ("order", "is_ordinal", "is_multi_label", "class_weights") if getattr(self, name)), None
        )
        if asked is not None:
            value = getattr(self, asked)
            raise ConfigurationError(
                Message("is for labels, and with {is_regression} they are numbers", is_regression=True),
                setting=asked,
                value=list(value) if isinstance(value, tuple) else True,
                fix="Leave one of the two out.",
            )
        object.__setattr__(self, "kind", "regression")

    @property
    def label_lists(self) -> tuple[str, str] | None:
        """Return the column of labels where a text may have several, and what stands between them in a cell."""
        return (self.label, self.separator) if self.is_multi_label else None

    @property
    def tag_columns(self) -> tuple[str, str] | None:
        """Return the columns of texts and labels, which may be tags; None where lists are the labels of a text."""
        return None if self.is_multi_label or self.is_regression else super().tag_columns

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Return the columns of texts and labels. A text may be without a label where it may have several."""
        return self.text_columns if self.is_multi_label else super().complete_columns

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of ranks and of labels."""
        if self.is_multi_label:
            return (*evaluation.RANK_METRICS, *evaluation.MULTI_LABEL_METRICS)
        if self.is_regression:
            return (*evaluation.RANK_METRICS, *evaluation.NUMBER_METRICS)
        return super().metrics

    @property
    def kept_length(self) -> int | None:
        """Return how many tokens of a text are kept; None: as many as the tokenizer allows."""
        return LONGEST_DOCUMENT if self.long_documents and self.max_length is None else self.max_length

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a model, with those of the segments of texts that it reads so."""
        return (*super().model_fields, *SEGMENT_FIELDS)

    @property
    def second(self) -> str | None:
        """Return the column of second texts."""
        return self.pair

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Return the column of labels. Of numbers and grades without an order 1,5 is 1.50 as the decimal mark says."""
        return () if self.is_regression or (self.is_ordinal and not self.order) else (self.label,)

    def as_kind(self, kind: str) -> TaskSettings:
        """Return the task as the data show it: with lists of labels it is tagging.

        Raises:
            ConfigurationError: a setting that tagging does not have.
        """
        if kind != "tagging":
            return self
        if self.long_documents:
            raise ConfigurationError(
                "is for one label a text, and here each word has one",
                setting="long_documents",
                value=True,
                fix="Leave it out: texts of tags are cut at their ends.",
            )
        own = {each.name for each in fields(Tagging) if each.init}
        return Tagging(**{each.name: getattr(self, each.name) for each in fields(self) if each.name in own})


@dataclass(frozen=True, kw_only=True)
class Tagging(LabelTask):
    """Learn a label for each word of a text.

    Args:
        text: column of lists of words.
        checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        label: column of lists of tags, one a word.
        truncation, class_weights, elmo: as for ``LabelTask``.

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
    long_documents: ClassVar[bool] = False
    target: ClassVar[None] = None
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
    elmo: ClassVar[None] = None
    pair: ClassVar[None] = None
    target: ClassVar[None] = None
    truncation: ClassVar[Truncation] = "head"
    long_documents: ClassVar[bool] = False
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


AnyTextTask = (
    Classification
    | Tagging
    | QuestionAnswering
    | MaskedText
    | NextSentence
    | CausalText
    | BidirectionalText
    | TextToText
    | ContrastiveText
)
TEXT_TASKS: tuple[type[AnyTextTask], ...] = (
    Classification,
    Tagging,
    QuestionAnswering,
    MaskedText,
    NextSentence,
    CausalText,
    BidirectionalText,
    TextToText,
    ContrastiveText,
)
# Kind -> its class, as recipe.json names it. ``register_task`` of contextual_bert.runs adds one.
TASK_SETTINGS: dict[str, type[TaskSettings]] = {
    "set_completion": SetCompletion,
    "classification": Classification,
    "multi_label": Classification,
    "regression": Classification,
    "tagging": Tagging,
    "question_answering": QuestionAnswering,
    "masked_text": MaskedText,
    "next_sentence": NextSentence,
    "causal_text": CausalText,
    "bidirectional_text": BidirectionalText,
    "text_to_text": TextToText,
    "contrastive_text": ContrastiveText,
}
