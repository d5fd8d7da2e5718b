"""Text tasks: a label, a tag for each word, an answer, or hidden words.

Names of columns and settings only. It reads no table and loads no checkpoint.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from contextual_bert import context
from contextual_bert.data.mask_rates import Unit, check_rates
from contextual_bert.errors import ConfigurationError, Message, did_you_mean
from contextual_bert.models.truncation import Truncation
from contextual_bert.options import MAIN, TEXTS, Option

# Each hidden token is a forward pass of its text: of all of them, scoring takes as long as a short training.
SCORED_TOKENS = 2_000


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """The texts of a recipe, and the checkpoint that reads them.

    Args:
        checkpoint: folder of a BERT checkpoint, its name on the Hub, or a run on texts to go on from: weights and
            tokenizer; the baselines take its tokenizer.
        text: column of texts; of lists of words where ``label`` is one of lists of tags.
        label: column to learn: names or whole numbers of classes, or lists of tags; None: hidden tokens are learned.
        pair: column of second texts.
        answer: column to learn: the piece of each text that answers its question, empty where the text has none.
        question: column of questions.
        answer_start: column of the character at which an answer begins, from 0 on; None: where the text has it first.
        max_length: tokens kept of a text, [CLS] and [SEP] included; None: as many as the tokenizer allows.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        is_ordinal: the labels are grades of one scale: numbers, or the words of ``order``.
        order: all labels from the lowest grade to the highest; where there are some, ``is_ordinal`` is True.
        is_from_scratch: take the sizes and the tokenizer of the checkpoint and draw all weights.
        masking: what is hidden where there is no label: "token", "word" or "span".
        mask_rate: share of the tokens that is hidden.
        max_mask_rate: the largest share, where each text has one of its own between the two; for a model that is to
            draw texts from nothing.
        scored_tokens: tokens of each part that are hidden to choose the epoch and for the final numbers, where there is
            no label: a number, or "all". None: ``SCORED_TOKENS``.

    Raises:
        ConfigurationError: settings that do not go together.

    Relation to its siblings:
        ``Recipe.items`` and ``Recipe.policy`` say the same for sets of items.

    Example:
        >>> TextTask(checkpoint="bert-base-uncased", text="review", label="stars", is_ordinal=True).truncation
        'head'
    """

    checkpoint: Annotated[
        str,
        Option(
            "With --text: folder of a BERT checkpoint, its name on the Hub, or a run on texts to go on from.",
            MAIN,
            metavar="BERT",
            is_of_data=True,
        ),
    ]
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
    label: Annotated[
        str | None,
        Option(
            "With --text: labels, or lists of tags; left out, hidden words are learned (masked language model).",
            MAIN,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    pair: Annotated[
        str | None, Option("With --text: column of second texts.", TEXTS, metavar="COLUMN", is_of_data=True)
    ] = None
    answer: Annotated[
        str | None,
        Option(
            "With --question: the piece of the text that answers it, letter by letter; empty where there is none.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    question: Annotated[
        str | None,
        Option(
            "With --text and --answer: questions, each about the text of its row.",
            TEXTS,
            metavar="COLUMN",
            is_of_data=True,
        ),
    ] = None
    answer_start: Annotated[
        str | None,
        Option(
            "With --answer: the character where it begins, from 0 on; left out, where it is first.",
            TEXTS,
            metavar="COLUMN",
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
    truncation: Annotated[
        Truncation, Option("What is kept of longer texts: the beginning, or a quarter and the end.", TEXTS)
    ] = "head"
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
    is_from_scratch: Annotated[
        bool,
        Option("With --text: take the checkpoint's sizes and tokenizer, not its weights.", TEXTS, name="from-scratch"),
    ] = False
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
        for name, known in (("truncation", get_args(Truncation)), ("masking", get_args(Unit))):
            value: Any = getattr(self, name)
            if value not in known:
                raise ConfigurationError("is unknown", setting=name, value=value, allowed=did_you_mean(value, known))
        check_rates(self.mask_rate, self.max_mask_rate, name="mask_rate")
        named = {"text": self.text, "pair": self.pair, "label": self.label}
        named |= {"question": self.question, "answer": self.answer, "answer_start": self.answer_start}
        for name, column in named.items():
            twice = [other for other in named if other != name and named[other] == column]
            if column is not None and twice:
                raise ConfigurationError(
                    Message(f"and {{{twice[0]}}} are one column", **{twice[0]: column}),
                    setting=name,
                    value=column,
                    fix="Give each a column of its own.",
                )
        self._check_order()
        if self.is_ordinal and self.label is None:
            raise ConfigurationError(
                "is for labels, and none is named",
                setting="is_ordinal",
                value=True,
                fix=Message("Name the column with {label}.", label=...),
            )
        self._check_question()
        self._check_scored_tokens()
        if self.label is None and self.pair is not None:
            raise ConfigurationError(
                "needs a label to learn",
                setting="pair",
                value=self.pair,
                fix=Message("Name the column with {label}.", label=...),
            )
        hidden: dict[str, object] = {
            "masking": self.masking,
            "mask_rate": self.mask_rate,
            "max_mask_rate": self.max_mask_rate,
        }
        name, column = ("label", self.label) if self.answer is None else ("answer", self.answer)
        if column is not None and hidden != {"masking": "token", "mask_rate": 0.15, "max_mask_rate": None}:
            raise ConfigurationError(
                Message(
                    "{masking}, {mask_rate} and {max_mask_rate} are for training without a label, and "
                    f"{{{name}}} is set",
                    **hidden,
                    **{name: column},
                ),
                fix="Leave one of the two out.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read, beside the context."""
        named = (self.text, self.label, self.pair, self.question, self.answer, self.answer_start)
        return tuple(column for column in named if column is not None)

    @property
    def second(self) -> str | None:
        """The column of what is read beside the text: of second texts, or of questions."""
        return self.pair or self.question

    @property
    def most_scored(self) -> int | None:
        """Return the largest number of hidden tokens that are scored in a part; None for all."""
        chosen = SCORED_TOKENS if self.scored_tokens is None else self.scored_tokens
        return chosen if isinstance(chosen, int) else None

    def _check_order(self) -> None:
        given: Any = self.order
        if isinstance(given, str) or not all(isinstance(each, str) for each in given):
            raise ConfigurationError(
                "is not allowed",
                setting="order",
                value=given,
                fix="Give the labels as text, in a list, the lowest first.",
            )
        order = tuple(context.canonical(each) for each in given)
        object.__setattr__(self, "order", order)
        if not order:
            return
        twice = [name for number, name in enumerate(order) if name in order[:number]]
        if twice:
            raise ConfigurationError(
                f"names {twice[0]!r} twice", setting="order", value=list(order), fix="Name each label once."
            )
        if len(order) < 2:
            raise ConfigurationError(
                "names one label", setting="order", value=list(order), fix="Name two labels or more, the lowest first."
            )
        if self.label is None:
            raise ConfigurationError(
                "is for labels, and none is named",
                setting="order",
                value=list(order),
                fix=Message("Name the column with {label}.", label=...),
            )
        object.__setattr__(self, "is_ordinal", True)

    def _check_scored_tokens(self) -> None:
        number: Any = self.scored_tokens
        if number is None or number == "all":
            pass
        elif isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="scored_tokens",
                value=number,
                fix="Give a whole number of at least 1, or 'all'.",
            )
        learned = "label" if self.label is not None else "answer"
        if number is not None and getattr(self, learned) is not None:
            raise ConfigurationError(
                Message(f"is for hidden tokens, and {{{learned}}} is learned", **{learned: getattr(self, learned)}),
                setting="scored_tokens",
                value=number,
                fix="Leave one of the two out.",
            )

    def _check_question(self) -> None:
        """Raise ConfigurationError where what is said of questions does not go together."""
        of_questions = {"question": self.question, "answer": self.answer, "answer_start": self.answer_start}
        given = [name for name, column in of_questions.items() if column is not None]
        for needed in ("question", "answer"):
            if given and needed not in given:
                raise ConfigurationError(
                    f"needs a column of {needed}s beside it",
                    setting=given[0],
                    value=of_questions[given[0]],
                    fix=Message(f"Name it with {{{needed}}}.", **{needed: ...}),
                )
        others = {"label": self.label, "pair": self.pair}
        astray = [name for name, column in others.items() if column is not None]
        if given and self.truncation != "head":
            raise ConfigurationError(
                "is not allowed: the text of a question is read in windows, and nothing is cut",
                setting="truncation",
                value=self.truncation,
                fix="Leave it out.",
            )
        if given and astray:
            raise ConfigurationError(
                "is not allowed: answers to questions are learned without",
                setting=astray[0],
                value=others[astray[0]],
                fix="Leave it out, or question and answer.",
            )
