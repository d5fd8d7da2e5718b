"""Tasks that learn the texts themselves: hidden tokens, or from left to right.

Names of columns and settings only: it reads no table and loads no checkpoint.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from contextual_bert import evaluation  # it imports numpy when it is used
from contextual_bert.data.mask_rates import Unit, check_rates
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.models.truncation import Truncation
from contextual_bert.options import TEXTS, Option
from contextual_bert.training.task_settings import NEW_FIELDS, WORD_FIELDS
from contextual_bert.training.text_task import TextTask, TruncationField

# Each hidden token is a forward pass of its text: of all of them, scoring takes as long as a short training.
SCORED_TOKENS = 2_000
VocabSizeField = Annotated[
    int | None,
    Option(
        "With --objective causal or contrastive, or --target, and no --checkpoint: tokens of the tokenizer that is "
        "trained on the texts (default 8000). 257: each byte is one. With --objective bidirectional: words that are "
        "predicted.",
        TEXTS,
        minimum=257,
        has_default=False,
    ),
]
ObjectiveField = Annotated[
    Literal["masked", "causal", "next_sentence", "bidirectional", "contrastive"],
    Option(
        "With --text and no --label: learn hidden words; each word from those before it, to write texts; hidden "
        "words and which sentence follows, of texts with a sentence a line; each word from those before it and from "
        "those behind it, for --elmo; or vectors that find the documents of --pair (default masked).",
        TEXTS,
        has_default=False,
        is_of_data=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class LanguageModelling(TextTask):
    """Base of the tasks without a label: the texts themselves are learned.

    Attributes:
        example_arguments: of the function that writes texts, between the processor and the context.
    """

    example_arguments: ClassVar[str] = ""
    label: ClassVar[None] = None
    elmo: ClassVar[None] = None
    pair: ClassVar[None] = None
    question: ClassVar[None] = None
    answer: ClassVar[None] = None
    answer_start: ClassVar[None] = None
    long_documents: ClassVar[bool] = False
    target: ClassVar[None] = None
    is_ordinal: ClassVar[bool] = False
    order: ClassVar[tuple[str, ...]] = ()

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that loads a finished model and writes texts."""
        model, processor, function = self.imported.split(", ")
        context = ", context={...}" if has_context else ""
        return "\n".join(
            [
                f'model = {model}.from_pretrained("path/to/this/folder")',
                f'processor = {processor}.from_pretrained("path/to/this/folder")',
                f"{function}(model, processor{self.example_arguments}{context})",
            ]
        )


@dataclass(frozen=True, kw_only=True)
class HiddenWords(LanguageModelling):
    """Base of the tasks that learn hidden tokens.

    Args:
        masking: what is hidden: "token", "word" or "span".
        mask_rate: share of the tokens that is hidden.
        max_mask_rate: the largest share, where each text has one of its own between the two; for a model that is to
            draw texts from nothing.
        scored_tokens: tokens of each part that are hidden to choose the epoch and for the final numbers: a number, or
            "all". None: ``SCORED_TOKENS``.

    Raises:
        ConfigurationError: a share or a number that cannot be.
    """

    command: ClassVar[str] = "sample"
    other_commands: ClassVar[tuple[str, ...]] = ("predict",)
    imported: ClassVar[str] = "ContextualBertForMaskedLM, ContextualBertProcessor, sample_texts"
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

    @property
    def most_scored(self) -> int | None:
        """Return the largest number of hidden tokens that are scored in a part; None for all."""
        chosen = SCORED_TOKENS if self.scored_tokens is None else self.scored_tokens
        return chosen if isinstance(chosen, int) else None


@dataclass(frozen=True, kw_only=True)
class MaskedText(HiddenWords):
    """Learn the hidden tokens of a text from the others.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts.
        masking, mask_rate, max_mask_rate, scored_tokens: as for ``HiddenWords``.
        truncation: what is kept of a longer text: "head", or the first quarter and the end, "head_tail".
        phrases: column of phrases, which are hidden as a whole: lists of pairs of characters [start, end), as lists or
            as text such as "[[0, 5], [9, 20]]". None: there are none.

    Raises:
        ConfigurationError: a share or a number that cannot be.

    Example:
        >>> MaskedText(text="menu", checkpoint="bert-base-uncased").most_scored
        2000
    """

    noun: ClassVar[str] = "hidden words of texts"
    kind: str = field(default="masked_text", init=False)
    truncation: TruncationField = "head"
    phrases: Annotated[
        str | None,
        Option(
            "With --text and no --label: phrases to hide as a whole, as [[0, 5], [9, 20]]: characters [start, end) "
            "of the text.",
            TEXTS,
            metavar="COLUMN",
            has_default=False,
            is_of_data=True,
        ),
    ] = None

    @property
    def phrase_column(self) -> str | None:
        """Return ``phrases``."""
        return self.phrases

    @property
    def unscored_fields(self) -> Mapping[str, Any]:
        """Return no phrases: tokens are scored one at a time, so a table that is evaluated need not have them."""
        return {"phrases": None}


@dataclass(frozen=True, kw_only=True)
class NextSentence(HiddenWords):
    """Learn hidden tokens of pairs of sentences, and whether the second of a pair follows the first, as BERT does.

    Each text is a document of several sentences, or paragraphs: one a line, or a list of them.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts; the length is that of a pair.
        masking, mask_rate, max_mask_rate, scored_tokens: as for ``HiddenWords``.
        objective: "next_sentence".

    Raises:
        ConfigurationError: another objective; a share or a number that cannot be.

    Example:
        >>> NextSentence(text="speech", checkpoint="bert-base-uncased").kind
        'next_sentence'
    """

    noun: ClassVar[str] = "hidden words, and which sentence follows"
    kind: str = field(default="next_sentence", init=False)
    truncation: ClassVar[Truncation] = "head"
    objective: ObjectiveField = "next_sentence"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_objective(self.objective, "next_sentence", instead="MaskedText or CausalText")

    @property
    def reads_pairs(self) -> bool:
        """Return True."""
        return True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of hidden tokens, and the accuracy of the decision."""
        return (*super().metrics, evaluation.metric_key("next_sentence_accuracy"))

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return "fills hidden words, and tells whether a sentence follows another"


@dataclass(frozen=True, kw_only=True)
class CausalText(LanguageModelling):
    """Learn to write: each token of a text from those before it.

    Args:
        text, checkpoint, max_length, is_from_scratch: as for all tasks on texts; the checkpoint is of an architecture
            that reads from left to right, GPT-2's. None: all weights are new, and the tokenizer is trained on the
            training texts. Longer texts than the model reads are read in windows.
        objective: "causal".
        vocab_size: tokens of a tokenizer that is trained. None: ``DEFAULT_VOCAB_SIZE``.

    Raises:
        ConfigurationError: another objective; a size that cannot be.

    Example:
        >>> CausalText(text="speech").kind
        'causal_text'
    """

    noun: ClassVar[str] = "what follows in texts"
    command: ClassVar[str] = "generate"
    asked: ClassVar[tuple[str, ...]] = ("--prompt",)
    hub_tag: ClassVar[str] = "text-generation"
    imported: ClassVar[str] = "ContextualBertForCausalLM, ContextualBertProcessor, generate_texts"
    example_arguments: ClassVar[str] = ', prompt="..."'
    needs_checkpoint: ClassVar[bool] = False
    baselines: ClassVar[Collection[str]] = ()
    kind: str = field(default="causal_text", init=False)
    truncation: ClassVar[Truncation] = "head"
    objective: ObjectiveField = "causal"
    vocab_size: VocabSizeField = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_objective(self.objective, "causal", instead="MaskedText or NextSentence")
        check_vocab_size(self.vocab_size, self.checkpoint)

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a model from a checkpoint, and without one all sizes."""
        named = super().model_fields
        return named if self.checkpoint is not None else (*named, *NEW_FIELDS, "tie_word_embeddings")

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return "writes texts"


@dataclass(frozen=True, kw_only=True)
class BidirectionalText(LanguageModelling):
    """Learn each word of a text from those before it, and from those behind it: the language model of ELMo.

    Words are whole, and read by their characters. All weights are new, and no context is read.

    Args:
        text: column of texts, or of lists of words.
        max_length: words of a window, its start and its end included; longer texts are read in several.
        objective: "bidirectional".
        vocab_size: words that are predicted, reserved ones included; all others are one. None: ``DEFAULT_VOCAB_SIZE``.

    Raises:
        ConfigurationError: another objective; a checkpoint.

    Reference:
        Peters et al. (2018), "Deep Contextualized Word Representations", section 3.1.

    Example:
        >>> BidirectionalText(text="speech").kind
        'bidirectional_text'
    """

    noun: ClassVar[str] = "words from both sides"
    command: ClassVar[str] = "train ... --elmo"
    imported: ClassVar[str] = "BidirectionalLM"
    needs_checkpoint: ClassVar[bool] = False
    reads_context: ClassVar[bool] = False
    reads_characters: ClassVar[bool] = True
    baselines: ClassVar[Collection[str]] = ()
    kind: str = field(default="bidirectional_text", init=False)
    truncation: ClassVar[Truncation] = "head"
    objective: ObjectiveField = "bidirectional"
    vocab_size: VocabSizeField = None

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            raise ConfigurationError(
                Message("is not allowed with {objective}: all weights are new", objective="bidirectional"),
                setting="checkpoint",
                value=self.checkpoint,
                fix="Leave it out.",
            )
        super().__post_init__()
        check_objective(self.objective, "bidirectional", instead="MaskedText, CausalText or NextSentence")

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of ``BidirectionalLMConfig`` but the vocabulary."""
        return (*WORD_FIELDS, "dropout", "hidden_size", "num_hidden_layers")

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return "each word of a text gets vectors from those before it and from those behind it"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that loads a finished model and reads words."""
        return "\n".join(
            [
                "from contextual_bert.models.word_characters import encode_words",
                "",
                'model = BidirectionalLM.from_pretrained("path/to/this/folder").eval()',
                'words = encode_words([["...", "..."]], vocabulary=model.config.vocabulary)',
                "layers = model(**words).hidden_states",
            ]
        )


def check_vocab_size(vocab_size: int | None, checkpoint: str | None) -> None:
    """Raise ConfigurationError for a size of a trained tokenizer beside a checkpoint, which brings one.

    Example:
        >>> check_vocab_size(300, None)
    """
    if vocab_size is not None and checkpoint is not None:
        raise ConfigurationError(
            Message("is for a tokenizer that is trained, and {checkpoint} brings one", checkpoint=checkpoint),
            setting="vocab_size",
            value=vocab_size,
            fix="Leave one of them out.",
        )


def check_objective(given: str, own: str, *, instead: str) -> None:
    """Raise ConfigurationError for another objective than a task's own.

    Args:
        given: the objective.
        own: of the task.
        instead: the tasks that learn others.

    Example:
        >>> check_objective("causal", "causal", instead="MaskedText")
    """
    if given != own:
        raise ConfigurationError(
            "is not what this task learns", setting="objective", value=given, fix=f"Take {instead}."
        )
