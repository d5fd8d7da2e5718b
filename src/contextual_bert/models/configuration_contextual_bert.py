"""The settings of a model: BERT's, and how the context enters. Knows no data; the paper's setting is one classmethod.

Paper: Denk and Peleteiro Ramallo (2020), section 4 (sizes), Table 1 (parameter counts).
"""

import difflib
import math
from dataclasses import asdict
from typing import Any, Self, get_args

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from contextual_bert.conditioning import ConditioningMethod, Sizes, get_method, methods_of_setting
from contextual_bert.context import ContextSchema, FeatureLayout
from contextual_bert.errors import NAME, CheckpointError, ConfigurationError, Message, did_you_mean
from contextual_bert.item_features import ItemLayout
from contextual_bert.item_loss import ItemLoss
from contextual_bert.models.backbones import Blocks, get_blocks
from contextual_bert.models.positions import POSITION_EMBEDDINGS
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.time_units import TIME_UNITS

PAPER_CONTEXT_SIZE = 736
POOLINGS = ("cls", "first", "mean")
BLOCKS = ("bert", "mpnet", "modernbert", "gpt2", "bilstm", "bigru", "lstm", "gru")
DECODERS = ("transformer", "gru_bahdanau", "gru_luong", "gru")
POOLER_ACTIVATIONS = ("tanh", "relu", "gelu")
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "embedding_size",
    "num_decoder_layers",
    "num_separators",
    "segment_length",
    "num_segment_layers",
)
# No such model was ever trained. What is larger is a slip, or damage, and would be built for hours.
LARGEST = {
    "hidden_size": 1_000_000,
    "num_hidden_layers": 1_000,
    "num_attention_heads": 100_000,
    "intermediate_size": 10_000_000,
    "max_position_embeddings": 100_000_000,
    "vocab_size": 1_000_000_000,
    "type_vocab_size": 1_000_000,
    "num_extra_layers": 1_000,
    "num_decoder_layers": 1_000,
    "embedding_size": 1_000_000,
    "num_separators": 10,
    "num_segment_layers": 1_000,
}
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")


@strict
class ContextualBertConfig(BertConfig):
    """Configuration of a contextual BERT: the fields of BertConfig and those below.

    Args:
        conditioning: name of the conditioning method, see ``contextual_bert.conditioning.METHODS``.
        context_features: what the context encoder must know of each feature, as ``ContextSchema.layout`` says it;
            empty for ``none``.
        has_context_as_text: whether the context is read as words before the text, which needs no method.
        has_context_at_output: whether the masked-item head adds a linear map of the context to what it scores the items
            with, beside what the method does; needs a method with a context.
        has_position_embeddings: False for sets, whose order means nothing; True for sequences.
        predicts_next: whether a position reads the items before it alone, and so tells which item comes next, as in
            SASRec; False: it reads those on both sides. Blocks of "bert" and the masked-item head can do this.
        time_gaps: what the gaps of time between items count, which ``token_type_ids`` then are: "seconds" of dates and
            timestamps, or "numbers" of a column of numbers; None: none are read. With ``predicts_next`` the items are
            moved one place back and the gaps are not: a position reads the item before it, and how long after that the
            item comes that is asked for. That is known when it is asked: it is now minus the last time.
        has_head_layer_norm: whether the head keeps BERT's LayerNorm; False in the paper's setting.
        has_next_sentence_head: whether the masked-item head also tells, through BERT's pooler, if the second half of a
            pair follows the first.
        mask_token_id: id of [MASK]; without labels, logits are given where the input has it.
        reserved_token_ids: ids that are never an answer ([PAD], [MASK], [UNK]): left out of every ranking.
        softmax_over: what loss, scores and probabilities go over: "vocabulary", all ids, as in the paper; "items", all
            but ``reserved_token_ids``; "candidates", all but these and the items that the set shows.
        type_vocab_size: number of segment embeddings, or of bins of ``time_gaps``; 0 for sets, which have neither.
        backbone: what its blocks are: "bert", "mpnet", "modernbert", recurrent ones, "bilstm" or "bigru",
            or, from left to right, "gpt2", "lstm" or "gru".
        backbone_settings: fields of that architecture that BertConfig has not; ``from_checkpoint`` sets both.
        embedding_size: width of the embeddings where it is not that of the blocks: a layer maps them to it, and the
            masked-item head back. None: that of the blocks.
        pooler_act: activation of the pooler: "tanh", as in BERT, "relu" or "gelu".
        position_embedding: what a table of positions is: "learned", or "sinusoidal", fixed sines and cosines (Vaswani
            et al., 2017), of the encoder and of a Transformer decoder.
        decoder_type: of an encoder-decoder, what writes: "transformer", "gru_bahdanau", "gru_luong", or "gru", without
            attention; None: there is no decoder.
        num_decoder_layers: blocks or layers of the decoder; None: as many as the encoder has.
        decoder_start_token_id: id of the token before each target.
        num_separators: how many [SEP] stand between two texts, or the words of a context and a text.
        has_pretrained_start: whether the method's modules are laid out so that the model can start as a checkpoint;
            ``from_checkpoint`` sets it.
        num_extra_layers: how many of the blocks, the last ones, are new on top of a checkpoint; ``from_checkpoint``
            sets it.
        conditioning_settings: settings of the method's own, see its ``settings_class``. They may also be given by
            their names: ``ContextualBertConfig(conditioning="multi_attribute", attribute_start="paper")``.
        use_cache: whether a text is written with the keys and values of the tokens before; None: where the backbone
            reads from left to right.
        item_loss: the loss by which masked items were learned last, a name of ``item_loss.ItemLoss``; the trainers set
            it. What "gbce" learned ranks items, and its softmax is no probability of theirs.
        item_features: the layout of the items' features, as ``ItemLayout.to_dict`` gives it; None: items are numbers.
        is_ordinal: for sequence classification, whether the labels are grades of one scale, 0 the lowest.
        number_bins: for sequence classification, where the labels are bins of numbers: the least, the largest and the
            mean number of each, see ``NumberBins``.
        class_weights: of sequence and token classification, how much each label counts in the loss; where a text may
            have several, how much the texts that have it do. None: all alike. It changes no logits.
        classifier_pooling: for sequence classification, what a text is to its head: "cls", what BERT's pooler makes of
            the first position; "first", that position of the last block as it is, as in MA-BERT's paper; "mean", the
            mean of the last block over the text, as in sentence-transformers. For sentence vectors all but "mean" are
            the first position.
        similarity_temperature: for sentence vectors, what the cosine of a text and a document is divided by.
        segment_length: for sequence classification, most tokens of a segment, [CLS] and [SEP] included, where a text
            that may be longer than the positions is read in segments; None: texts are read whole.
        segment_overlap: how many tokens of a segment begin the next one.
        num_segment_layers: blocks over the vectors of the segments.
        context_dropout: how often the whole context was left out while this model was trained last; the trainers set
            it.
        field_dropout: how often each single field was; likewise.
        rarely_missing: features that hardly any example of that training lacked, so that their state ``missing`` was
            not learned unless by a dropout; the trainers set it. None: not known.

    Raises:
        UnknownNameError: ``conditioning`` is not registered.
        ConfigurationError: a key that looks like a misspelt field; a size below one; a dropout that is no share; a
            method that takes a context without features; a decoder.

    Example:
        >>> ContextualBertConfig(vocab_size=50).conditioning
        'none'
    """

    model_type = "contextual_bert"
    keys_to_ignore_at_inference = ["state"]  # noqa: RUF012  (Trainer adds a list to it)

    conditioning: str = "none"
    conditioning_settings: dict[str, Any] | None = None
    context_features: list[dict[str, Any]] | None = None
    has_context_as_text: bool = False
    has_context_at_output: bool = False
    has_position_embeddings: bool = False
    predicts_next: bool = False
    time_gaps: str | None = None
    has_head_layer_norm: bool = True
    has_next_sentence_head: bool = False
    mask_token_id: int = 1
    reserved_token_ids: list[int] | tuple[int, ...] = (0, 1, 2)
    softmax_over: str = "vocabulary"
    type_vocab_size: int = 0
    backbone: str = "bert"
    backbone_settings: dict[str, Any] | None = None
    embedding_size: int | None = None
    pooler_act: str = "tanh"
    position_embedding: str = "learned"
    decoder_type: str | None = None
    num_decoder_layers: int | None = None
    decoder_start_token_id: int | None = None
    num_separators: int = 1
    has_pretrained_start: bool = False
    num_extra_layers: int = 0
    is_ordinal: bool = False
    number_bins: list[list[float]] | None = None
    class_weights: list[float] | None = None
    classifier_pooling: str = "cls"
    similarity_temperature: float = 0.05
    segment_length: int | None = None
    segment_overlap: int = 0
    num_segment_layers: int = 2
    context_dropout: float = 0.0
    field_dropout: float = 0.0
    rarely_missing: list[str] | tuple[str, ...] | None = None
    item_loss: str = "cross_entropy"
    use_cache: Any = None
    item_features: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        self._take_settings(kwargs)
        known = {*type(self).__dataclass_fields__, *get_method(self.conditioning).setting_names()}
        for key in kwargs:
            is_misspelt = not hasattr(type(self), key) and difflib.get_close_matches(key, known, n=1, cutoff=0.8)
            if is_misspelt:
                raise ConfigurationError(
                    f"{type(self).__name__} has no field {key!r}", allowed=did_you_mean(key, known)
                )
        self._check_numbers()
        super().__post_init__(**kwargs)
        self._check()
        self.is_encoder_decoder = self.decoder_type is not None
        if self.use_cache is None:  # what sees both sides has nothing to cache, and a True warns when checkpointing
            self.use_cache = self.blocks.is_causal

    def _take_settings(self, kwargs: dict[str, Any]) -> None:
        """Move the settings of the method that are given by their names to ``conditioning_settings``."""
        own = get_method(self.conditioning).setting_names()
        for name in (*kwargs,):
            methods = methods_of_setting(name)
            if methods and name not in own:
                are = " or ".join(f"conditioning={method!r}" for method in methods)
                raise ConfigurationError(f"{name} is for {are}, and it is {self.conditioning!r}", fix="Leave it out.")
        given = {**(self.conditioning_settings or {}), **{name: kwargs.pop(name) for name in own if name in kwargs}}
        get_method(self.conditioning, given)
        self.conditioning_settings = given or None
        width = self.feature_width
        if width is not None and self.context_features:
            self.context_features = [{**feature, "embedding_size": width} for feature in self.context_features]

    def _check_numbers(self) -> None:
        # Before BERT's own checks, which divide by some of these. Of another type they are refused there.
        for name in SIZES:
            value: Any = getattr(self, name)
            if isinstance(value, int) and value < 1:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=value, fix="Give a whole number of at least 1."
                )
        for name, largest in LARGEST.items():
            value = getattr(self, name)
            if isinstance(value, int) and value > largest:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=value, fix=f"Give a whole number of at most {largest:,}."
                )
        for name in DROPOUTS:
            value = getattr(self, name)
            if isinstance(value, int | float) and not 0 <= value < 1:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=value, fix="Give a share, a number from 0 to below 1."
                )

    def _check(self) -> None:
        # Not a `validate_...` method: transformers would wrap our error in one of its own.
        method = get_method(self.conditioning)
        if method.has_context and not self.context_features:
            raise ConfigurationError(
                "needs a context, and context_features is empty",
                setting="conditioning",
                value=self.conditioning,
                fix=Message(
                    "Make the config with ContextualBertConfig.from_schema(schema, ...), or take {conditioning}.",
                    conditioning="none",
                ),
            )
        if self.has_context_at_output and not method.has_context:
            raise ConfigurationError(
                Message(
                    "adds the context to the output, and {conditioning} reads none", conditioning=self.conditioning
                ),
                setting="has_context_at_output",
                value=True,
                fix="Take a method with a context, or leave it out.",
            )
        choices = {
            "classifier_pooling": POOLINGS,
            "item_loss": get_args(ItemLoss),
            "softmax_over": get_args(SoftmaxOver),
            "pooler_act": POOLER_ACTIVATIONS,
            "backbone": BLOCKS,
            "position_embedding": POSITION_EMBEDDINGS,
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                raise ConfigurationError("is unknown", setting=name, value=value, allowed=did_you_mean(value, known))
        optional = {"problem_type": PROBLEM_TYPES, "time_gaps": TIME_UNITS, "decoder_type": DECODERS}
        for name, known in optional.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                allowed = did_you_mean(str(value), known)
                raise ConfigurationError("is unknown", setting=name, value=value, allowed=allowed)
        if self.has_context_as_text and (method.has_context or not self.has_position_embeddings):
            raise ConfigurationError(
                Message(
                    "puts the context before a text, as words: it goes with {conditioning} and "
                    "{has_position_embeddings}",
                    conditioning="none",
                    has_position_embeddings=True,
                ),
                setting="has_context_as_text",
                value=True,
            )
        if not 0 < self.similarity_temperature < math.inf:
            raise ConfigurationError(
                "is not allowed",
                setting="similarity_temperature",
                value=self.similarity_temperature,
                fix="Give a number above 0, such as 0.05.",
            )
        self._check_segments()
        self._check_blocks()
        if self.hidden_size % self.num_attention_heads:
            raise ConfigurationError(
                f"is not a multiple of the number of attention heads ({self.num_attention_heads})",
                setting="hidden_size",
                value=self.hidden_size,
                fix="Give widths that the heads divide.",
            )
        if not 0 <= self.num_extra_layers <= self.num_hidden_layers:
            raise ConfigurationError(
                Message("of {num_hidden_layers}: they are the last of these", num_hidden_layers=self.num_hidden_layers),
                setting="num_extra_layers",
                value=self.num_extra_layers,
            )
        if self.is_decoder or self.add_cross_attention:
            raise ConfigurationError(
                "A masked model reads in both directions", fix="Leave is_decoder and add_cross_attention False."
            )

    def _check_segments(self) -> None:
        length, overlap = self.segment_length, self.segment_overlap
        if length is None:
            for name, usual in (("segment_overlap", 0), ("num_segment_layers", 2)):
                if getattr(self, name) != usual:
                    raise ConfigurationError(
                        "is for texts that are read in segments",
                        setting=name,
                        value=getattr(self, name),
                        fix=Message("Give {segment_length}, too, or leave it out.", segment_length=NAME),
                    )
            return
        most = self.max_position_embeddings if self.has_position_embeddings else length
        if not 3 <= length <= most:
            raise ConfigurationError(
                "is not allowed: a segment has [CLS], [SEP] and something between them",
                setting="segment_length",
                value=length,
                fix=f"Give a whole number from 3 to {max(3, most):,}, the positions of the model.",
            )
        if not 0 <= overlap < length - 2:
            raise ConfigurationError(
                f"is not allowed: of {length} tokens {length - 2} are between [CLS] and [SEP], and each segment has to "
                "show a new one",
                setting="segment_overlap",
                value=overlap,
                fix=f"Give a whole number from 0 to {length - 3}.",
            )
        if self.has_context_as_text:
            raise ConfigurationError(
                "is for a context that a method reads, and here it is words before the text",
                setting="segment_length",
                value=length,
                fix="Leave it out.",
            )

    def _check_blocks(self) -> None:
        blocks = self.blocks
        if self.time_gaps is not None and (
            self.backbone != "bert" or not self.has_position_embeddings or not self.type_vocab_size
        ):
            raise ConfigurationError(
                Message(
                    "is read of sequences of items, as one embedding a bin: it goes with {backbone}, "
                    "{has_position_embeddings} and a {type_vocab_size} above 0",
                    backbone="bert",
                    has_position_embeddings=True,
                    type_vocab_size=NAME,
                ),
                setting="time_gaps",
                value=self.time_gaps,
            )
        if self.position_embedding != "learned" and not (self.has_position_table or self.decoder_type == "transformer"):
            reads = "a set has no positions"
            if self.has_position_embeddings:
                reads = f"blocks of {self.backbone!r} know positions by themselves"
            raise ConfigurationError(
                f"says what a table of positions is, and {reads}: there is no table",
                setting="position_embedding",
                value=self.position_embedding,
                fix="Leave it out.",
            )
        if self.predicts_next and not self.has_position_embeddings:
            raise ConfigurationError(
                Message(
                    "reads items in their order: it goes with {has_position_embeddings}", has_position_embeddings=True
                ),
                setting="predicts_next",
                value=True,
            )
        if self.predicts_next and not blocks.can_hide_later:
            raise ConfigurationError(
                Message("cannot hide what follows, as {predicts_next} asks", predicts_next=True),
                setting="backbone",
                value=self.backbone,
                allowed=did_you_mean(self.backbone, [name for name in BLOCKS if get_blocks(name).can_hide_later]),
            )
        if blocks.needs_settings and (self.backbone_settings is None or not self.has_position_embeddings):
            raise ConfigurationError(
                Message(
                    "goes with {has_position_embeddings} and the backbone_settings of a checkpoint",
                    has_position_embeddings=True,
                ),
                setting="backbone",
                value=self.backbone,
                fix="Take a checkpoint's: from_checkpoint, or is_from_scratch for its sizes alone.",
            )
        if not blocks.is_causal and blocks.has_attention:
            return
        if not self.has_position_embeddings:
            raise ConfigurationError(
                f"reads {'from left to right' if blocks.is_causal else 'in order'}, and a set has no order",
                setting="backbone",
                value=self.backbone,
                fix=Message("Give {has_position_embeddings}.", has_position_embeddings=True),
            )
        if self.has_context_as_text and blocks.is_causal:
            raise ConfigurationError(
                Message("does not go with {backbone}", backbone=self.backbone),
                setting="has_context_as_text",
                value=True,
                fix="Write the words of the context at the beginning of each text.",
            )

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The config of a saved one.

        Raises:
            CheckpointError: it is of another architecture, whose weights would be read as if they were for sets.
        """
        theirs = config_dict.get("model_type", cls.model_type)
        if theirs != cls.model_type:
            raise CheckpointError(
                f"The config is of model_type={theirs!r}, not {cls.model_type!r}: from_pretrained loads what "
                "this package saved",
                fix=Message(
                    "A BERT checkpoint is started from with from_checkpoint(checkpoint, {schema}, {conditioning}).",
                    schema=...,
                    conditioning=...,
                ),
            )
        check_no_kernel(config_dict.get("attn_implementation"), place="config.json")
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def from_schema(cls, schema: ContextSchema | None, **fields: Any) -> Self:
        """A config whose context encoder fits ``schema``; ``conditioning='none'`` takes no features along.

        Example:
            >>> from contextual_bert.context import Categorical
            >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
            >>> config = ContextualBertConfig.from_schema(schema, vocab_size=50, conditioning="global_state")
            >>> config.context_size == schema.context_size
            True
        """
        has_context = get_method(fields.get("conditioning", "none")).has_context
        layout = schema.layout if schema is not None and has_context else ()
        return cls(context_features=[asdict(feature) for feature in layout], **fields)

    @classmethod
    def paper(cls, conditioning: str, *, schema: ContextSchema, vocab_size: int, **fields: Any) -> Self:
        """The setting of the paper: hidden size 128, 4 blocks, 8 heads, sets of items, a context of 736 components.

        The feature sizes of ``schema`` are scaled so that they sum to 736. The feed-forward width of 256 and the head
        without a LayerNorm are inferred from Table 1's parameter counts, which this config reproduces exactly.

        Args:
            conditioning: one of the five methods of the paper, or any registered one.
            schema: the customer features.
            vocab_size: items, with the reserved ids.
            **fields: overrides of single fields.

        Example:
            >>> from contextual_bert.context import Categorical
            >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
            >>> config = ContextualBertConfig.paper("global_state", schema=schema, vocab_size=30_003)
            >>> config.hidden_size, config.context_size
            (128, 736)
        """
        setting: dict[str, Any] = {
            "hidden_size": 128,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "intermediate_size": 256,
            "has_head_layer_norm": False,
        }
        return cls.from_schema(
            schema.with_context_size(PAPER_CONTEXT_SIZE),
            conditioning=conditioning,
            vocab_size=vocab_size,
            **(setting | fields),
        )

    @property
    def layout(self) -> tuple[FeatureLayout, ...]:
        """Return the layout of each feature, from which the context encoder is built."""
        return tuple(FeatureLayout(**feature) for feature in self.context_features or ())

    @property
    def feature_width(self) -> int | None:
        """Return the width of each feature's embedding where the method sets it; None where the schema does."""
        return self.method.feature_width(self.hidden_size)

    @property
    def item_layout(self) -> ItemLayout | None:
        """Return the layout of the items' features, None where they have none."""
        return ItemLayout.from_dict(self.item_features) if self.item_features is not None else None

    @property
    def has_position_table(self) -> bool:
        """Return True if the embeddings know positions; ModernBERT's blocks rotate by them instead."""
        return self.has_position_embeddings and self.blocks.has_position_table

    @property
    def is_left_to_right(self) -> bool:
        """Return True if no position sees what follows it."""
        return self.predicts_next or self.blocks.is_causal

    @property
    def blocks(self) -> Blocks:
        """What the blocks of this backbone are like."""
        return get_blocks(self.backbone)

    @property
    def reads_context(self) -> bool:
        """Return True if the context changes the output."""
        return bool(self.context_features) or self.has_context_as_text

    @property
    def context_size(self) -> int:
        """Width of the concatenated feature embeddings (d_context), 0 without a context."""
        return sum(feature.embedding_size for feature in self.layout)

    @property
    def num_weights(self) -> int:
        """Return a lower bound of the number of weights: embeddings, blocks, context features.

        Example:
            >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
            >>> ContextualBertConfig(vocab_size=50, **sizes).num_weights
            912
        """
        has_table = self.has_position_embeddings and self.position_embedding == "learned"
        hidden, positions = self.hidden_size, self.max_position_embeddings if has_table else 0
        block = 4 * hidden**2 + 2 * hidden * self.intermediate_size
        features = sum((each.num_embeddings + each.vector_size) * each.embedding_size for each in self.layout)
        return (
            (self.vocab_size + positions) * (self.embedding_size or hidden) + self.num_hidden_layers * block + features
        )

    def value_of(self, name: str) -> Any:
        """Return the value of a field, or of a setting of the method's own; None where there is none.

        Example:
            >>> ContextualBertConfig(vocab_size=50).value_of("conditioning")
            'none'
        """
        return getattr(self, name, getattr(self.method.settings, name, None))

    @property
    def method(self) -> ConditioningMethod:
        """The conditioning method with its settings."""
        return get_method(self.conditioning, self.conditioning_settings)

    @property
    def sizes(self) -> Sizes:
        """Return the sizes that a conditioning method may know."""
        return Sizes(
            hidden_size=self.hidden_size,
            context_size=self.context_size,
            feature_sizes=tuple(feature.embedding_size for feature in self.layout),
            intermediate_size=self.intermediate_size,
            num_layers=self.num_hidden_layers,
            num_heads=self.num_attention_heads,
            dropout=self.hidden_dropout_prob,
            layer_norm_eps=self.layer_norm_eps,
            num_extra_layers=self.num_extra_layers,
            has_pretrained_start=self.has_pretrained_start,
            has_prenorm=self.blocks.has_prenorm,
        )


def check_no_kernel(attn_implementation: object, *, place: str) -> None:
    """Raise CheckpointError where a config names a kernel of the Hub, which is code, as its attention.

    Example:
        >>> check_no_kernel("sdpa", place="config.json")
    """
    if isinstance(attn_implementation, str) and "/" in attn_implementation:
        raise CheckpointError(
            f"{place}: its attn_implementation is {attn_implementation!r:.80}, code from the Hub, which is never run",
            fix="Remove it from config.json.",
        )
