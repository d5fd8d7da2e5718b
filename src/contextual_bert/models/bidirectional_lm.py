"""Forward and backward language models side by side, over words that a character CNN reads: the model of ELMo.

It knows words as numbers of characters alone, no tokenizer and no task. Paper: Peters et al. (2018).
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput

from contextual_bert.candidates import MaskedScores, rank_targets
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.masked_lm import IGNORED_LABEL, score_blocks
from contextual_bert.models.word_characters import NUM_CHARACTERS, PADDING, RESERVED_WORDS
from contextual_bert.recurrent_reading import in_front, read_on

_CUTOFFS = (1_000, 5_000, 20_000)  # of the frequencies of words; rarer ones get fewer dimensions


class BidirectionalLMConfig(PreTrainedConfig):
    """Configuration of ``BidirectionalLM``: a small one by default, for some million words and a processor.

    Args:
        vocabulary: words that are predicted, of ``most_frequent_words``.
        character_size: width of the embedding of a character.
        filters: (width, number) of each kind of filter of the character CNN.
        num_highways: highway layers over what the filters found.
        hidden_size: width of a word's vector, and of each direction's state and cell: nothing is projected.
        num_hidden_layers: LSTM layers of each direction.
        dropout: probability of dropping a component of what a layer reads and of the last state, in training.
        max_characters: bytes of a word that are read, its two marks included; the rest of a longer word is cut.
        **settings: of transformers' ``PreTrainedConfig``.

    Raises:
        ConfigurationError: a size that cannot be.

    Reference:
        Peters et al. (2018), section 3.4, has 2,048 filters, two highway layers and two LSTM layers whose cells of
        4,096 are projected to hidden_size=512.

    Example:
        >>> BidirectionalLMConfig(vocabulary=("<unk>", "<s>", "</s>", "a")).hidden_size
        128
    """

    model_type = "bidirectional_lm"

    def __init__(
        self,
        vocabulary: Sequence[str] = RESERVED_WORDS,
        *,
        character_size: int = 16,
        filters: Sequence[Sequence[int]] = ((1, 16), (2, 32), (3, 64), (4, 64), (5, 64)),
        num_highways: int = 1,
        hidden_size: int = 128,
        num_hidden_layers: int = 2,
        dropout: float = 0.1,
        max_characters: int = 50,
        **settings: Any,
    ) -> None:
        sizes = {
            "character_size": (character_size, 1),
            "hidden_size": (hidden_size, 1),
            "num_hidden_layers": (num_hidden_layers, 1),
            "num_highways": (num_highways, 0),
            "max_characters": (max_characters, 3),
        }
        for name, (value, least) in sizes.items():
            if type(value) is not int or value < least:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=value, fix=f"Give a whole number, {least} or more."
                )
        if not _are_filters(filters):
            raise ConfigurationError(
                "is not allowed",
                setting="filters",
                value=filters,
                fix="Give the width and the number of each kind, both 1 or more: [[1, 16], [2, 32]].",
            )
        is_number = isinstance(cast(object, dropout), int | float) and not isinstance(cast(object, dropout), bool)
        if not is_number or not 0 <= dropout < 1:
            raise ConfigurationError(
                "is not allowed", setting="dropout", value=dropout, fix="Give a share, a number from 0 to below 1."
            )
        self.vocabulary = list(vocabulary)
        self.character_size = character_size
        self.filters = [list(each) for each in filters]
        self.num_highways = num_highways
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.dropout = dropout
        self.max_characters = max_characters
        super().__init__(**settings)

    @property
    def own_settings(self) -> dict[str, Any]:
        """Return the arguments that make such a model, without what transformers adds."""
        names = inspect.signature(type(self).__init__).parameters.keys() - {"self", "settings"}
        return {name: getattr(self, name) for name in sorted(names)}


def _are_filters(filters: object) -> bool:
    """Return True for pairs of whole numbers of 1 or more, one pair or more."""
    pairs: Any = filters
    if not isinstance(filters, list | tuple) or not filters:
        return False
    is_pair = [isinstance(each, list | tuple) and len(each) == 2 for each in pairs]
    return all(is_pair) and all(type(number) is int and number >= 1 for each in pairs for number in each)


class CharacterCNN(nn.Module):
    """A vector for each word from its characters.

    Formula:
        y = relu(max over the places of [F_1 * e ; ... ; F_n * e]);
        a highway layer: y <- t * relu(A y + a) + (1 - t) * y, t = sigmoid(B y + b);  x = W y + c

    Symbols:
        e the embeddings of the characters, F_i a kind of filter.

    Shapes:
        characters (..., places); x (..., hidden).

    Args:
        config: says how many filters, highway layers and components.

    Relation to its siblings:
        ``TextCNN`` reads the tokens of a text with filters, not the characters of a word.

    Reference:
        Kim et al. (2016), "Character-Aware Neural Language Models"; Peters et al. (2018), section 3.4.

    Example:
        >>> CharacterCNN(BidirectionalLMConfig())(torch.tensor([[[259, 98, 260]]])).shape
        torch.Size([1, 1, 128])
    """

    def __init__(self, config: BidirectionalLMConfig) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(NUM_CHARACTERS, config.character_size, padding_idx=PADDING)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.character_size, number, kernel_size=width) for width, number in config.filters
        )
        size = sum(number for _, number in config.filters)
        self.highways = nn.ModuleList(nn.Linear(size, 2 * size) for _ in range(config.num_highways))
        for highway in self.highways:
            nn.init.constant_(cast(nn.Linear, highway).bias[size:], -2.0)  # at first it carries what it reads
        self.projection = nn.Linear(size, config.hidden_size)
        self.longest_filter = max(width for width, _ in config.filters)

    def forward(self, characters: Tensor) -> Tensor:
        spelt = characters.reshape(-1, characters.shape[-1])
        if spelt.shape[1] < self.longest_filter:
            spelt = functional.pad(spelt, (0, self.longest_filter - spelt.shape[1]), value=PADDING)
        # A word is often met again: each spelling is computed once.
        spelt, places = spelt.unique(dim=0, return_inverse=True)
        embedded = self.embeddings(spelt).transpose(1, 2)
        found = torch.cat([each(embedded).amax(dim=2) for each in self.filters], dim=1).relu()
        for highway in self.highways:
            changed, gate = highway(found).chunk(2, dim=1)
            gate = gate.sigmoid()
            found = gate * changed.relu() + (1 - gate) * found
        return self.projection(found)[places].view(*characters.shape[:-1], -1)


@dataclass
class BidirectionalLMOutput(ModelOutput):
    """Output of ``BidirectionalLM``.

    Args:
        loss: the mean of both directions' cross-entropies in nats a word, when labels were given.
        hidden_states: one (batch, length, 2 hidden) for the words alone and each layer, forward before backward.
    """

    loss: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class BidirectionalLM(PreTrainedModel):
    """Predict each word from those before it, and from those behind it, by two stacks of LSTMs that share no state.

    Formula:
        loss = - mean_k (log Pr(w_k | w_1 ... w_(k-1)) + log Pr(w_k | w_(k+1) ... w_n)) / 2, Pr(w_k | ...) the softmax
        of the last layer's state f_(k-1), or g_(k+1);  h_0 = [x ; x];  h_j = [f_j ; g_j]

    Symbols:
        x the vectors of ``CharacterCNN``; f_j and g_j the states of layer j, read forward and backward; from the second
        layer on, what a layer reads is added to its state.

    Shapes:
        characters (batch, length, places); attention_mask, labels (batch, length), labels the numbers of the words
        themselves, -100 where nothing is asked: they are shifted here. Padding stands on the right.

    Args:
        config: its vocabulary is what is predicted. Both directions share the character CNN and the softmax, which is
            an adaptive one, as the vocabulary has the most frequent words first.

    Raises:
        ConfigurationError: a vocabulary of reserved words alone; padding that is not on the right.

    Relation to its siblings:
        ``ContextualBertForCausalLM`` reads tokens from left to right by attention. ``BiLSTM`` and ``BiLSTMTagger`` see
        both sides in each layer, so they cannot predict words.

    Reference:
        Peters et al. (2018), "Deep Contextualized Word Representations", section 3.1; for the softmax Grave et al.
        (2017), "Efficient softmax approximation for GPUs".

    Example:
        >>> from contextual_bert.models.word_characters import encode_words, most_frequent_words
        >>> texts = [["a", "red", "hat"], ["a", "hat"]]
        >>> words = most_frequent_words(texts, vocab_size=6)
        >>> model = BidirectionalLM(BidirectionalLMConfig(words, hidden_size=4))
        >>> [states.shape for states in model(**encode_words(texts, vocabulary=words)).hidden_states]
        [torch.Size([2, 5, 8]), torch.Size([2, 5, 8]), torch.Size([2, 5, 8])]
    """

    config_class = BidirectionalLMConfig
    config: BidirectionalLMConfig
    base_model_prefix = "bidirectional_lm"
    main_input_name = "characters"
    _supports_sdpa = True  # it has no attention to compute
    accepts_loss_kwargs = False  # its loss is a mean, which transformers' Trainer divides among accumulated batches

    def __init__(self, config: BidirectionalLMConfig) -> None:
        super().__init__(config)
        num_words = len(config.vocabulary)
        if num_words <= len(RESERVED_WORDS):
            raise ConfigurationError(
                "holds no word to predict", setting="vocabulary", fix="Take it from most_frequent_words."
            )
        self.words = CharacterCNN(config)
        self.forward_layers, self.backward_layers = (
            nn.ModuleList(
                nn.LSTM(config.hidden_size, config.hidden_size, batch_first=True)
                for _ in range(config.num_hidden_layers)
            )
            for _ in range(2)
        )
        self.dropout = nn.Dropout(config.dropout)
        cutoffs = [each for each in _CUTOFFS if each < num_words - 1] or [num_words // 2]
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(config.hidden_size, num_words, cutoffs)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights as their modules draw them."""

    def forward(
        self, characters: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> BidirectionalLMOutput:
        is_real = characters.new_ones(characters.shape[:2]) if attention_mask is None else attention_mask
        is_real = is_real.bool()
        if (is_real[:, 1:] & ~is_real[:, :-1]).any():
            raise ConfigurationError(
                "has a word behind padding", setting="attention_mask", fix="Pad texts on the right."
            )
        words = self.words(characters)
        mirror = _mirrored_places(is_real)[:, :, None].expand_as(words)
        forward = self._states(self.forward_layers, words)
        backward = [each.gather(1, mirror) for each in self._states(self.backward_layers, words.gather(1, mirror))]
        hidden_states = tuple(
            torch.cat(both, dim=2).masked_fill(~is_real[:, :, None], 0.0)
            for both in zip(forward, backward, strict=True)
        )
        loss = None
        if labels is not None:
            labels = labels.masked_fill(~is_real, IGNORED_LABEL)
            following = self._loss(forward[-1][:, :-1], labels[:, 1:])
            # The last word of a text stands before padding, which says nothing of it.
            preceding = labels[:, :-1].masked_fill(~is_real[:, 1:], IGNORED_LABEL)
            loss = (following + self._loss(backward[-1][:, 1:], preceding)) / 2
        return BidirectionalLMOutput(loss=loss, hidden_states=hidden_states)

    @torch.no_grad()
    def score_words(
        self, characters: Tensor, labels: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> MaskedScores:
        """Rank each word among all of the vocabulary, once by the words before it and once by those behind it.

        Returns:
            MaskedScores, (asked,) each, in the order of ``asked_both_ways``.
        """
        last = self(characters, attention_mask).hidden_states[-1]
        forward, backward = last.chunk(2, dim=2)
        # The state that a word is asked of stands before it, or behind it.
        states = torch.cat(
            [functional.pad(forward[:, :-1], (0, 0, 1, 0)), functional.pad(backward[:, 1:], (0, 0, 0, 1))], 1
        )
        targets = asked_both_ways(labels, attention_mask)
        is_asked = targets != IGNORED_LABEL
        states, targets = states[is_asked], targets[is_asked]
        with torch.autocast(states.device.type, enabled=False):
            parts = [
                rank_targets(self.softmax.log_prob(states[block].float()), targets[block], None, reserved=targets[:0])
                for block in score_blocks(len(states), len(self.config.vocabulary))
            ]
        return MaskedScores(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def _states(self, layers: nn.ModuleList, words: Tensor) -> list[Tensor]:
        """The words, and the states of each layer."""
        states = [words]
        for number, layer in enumerate(layers):
            found = read_on(cast(nn.LSTM, layer), self.dropout(states[-1]))[0]
            states.append(found + states[-1] if number else found)
        return states

    def _loss(self, states: Tensor, labels: Tensor) -> Tensor:
        is_asked = labels != IGNORED_LABEL
        if not is_asked.any():
            return states.sum() * 0.0
        with torch.autocast(states.device.type, enabled=False):
            return self.softmax(self.dropout(states[is_asked].float()), labels[is_asked]).loss


class LayerMixture(nn.Module):
    """A learned mixture of the layers of a language model: one vector a word, for any head.

    Formula:
        ELMo_k = gamma sum_j s_j h_(k, j), s = softmax(w)

    Symbols:
        h_(k, j) the state of word k in layer j, 0 the word alone; w and gamma are learned, with all layers alike and
        gamma 1 at first.

    Shapes:
        hidden_states (batch, length, hidden) each; ELMo_k (batch, length, hidden).

    Args:
        num_layers: layers that are mixed, the words alone included.

    Raises:
        ConfigurationError: no layers; another number of hidden states.

    Relation to its siblings:
        The linear probes of ``inspect-model`` look at each layer by itself.

    Reference:
        Peters et al. (2018), equation 1.

    Example:
        >>> LayerMixture(2)([torch.tensor([[[1.0]]]), torch.tensor([[[3.0]]])]).item()
        2.0
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        if num_layers < 1:
            raise ConfigurationError("is not allowed", setting="num_layers", value=num_layers, fix="Give 1 or more.")
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, hidden_states: Sequence[Tensor]) -> Tensor:
        if len(hidden_states) != len(self.weights):
            raise ConfigurationError(
                "is another number than that of the hidden states",
                setting="num_layers",
                value=len(self.weights),
                fix=f"Give {len(hidden_states)}.",
            )
        shares = self.weights.softmax(dim=0)
        return self.scale * sum(share * each for share, each in zip(shares, hidden_states, strict=True))


class ElmoFeatures(nn.Module):
    """Vectors of the words of texts: the mixture of the layers of a language model that stays as it is.

    Shapes:
        characters (batch, length, places), is_real (batch, length), padding on the right; (batch, length, 2 hidden).

    Args:
        model: the language model, whose weights are frozen.

    Relation to its siblings:
        ``LabelModel.read_beside`` makes a baseline read them beside embeddings of its own.

    Reference:
        Peters et al. (2018), section 3.3.

    Example:
        >>> from contextual_bert.models.word_characters import encode_words
        >>> model = BidirectionalLM(BidirectionalLMConfig(("<unk>", "<s>", "</s>", "a"), hidden_size=4))
        >>> batch = encode_words([["red", "hat"]], vocabulary=model.config.vocabulary)
        >>> ElmoFeatures(model)(batch["characters"], batch["attention_mask"].bool()).shape
        torch.Size([1, 4, 8])
    """

    def __init__(self, model: BidirectionalLM) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()
        self.mixture = LayerMixture(model.config.num_hidden_layers + 1)

    @property
    def size(self) -> int:
        """Components of a vector."""
        return 2 * self.model.config.hidden_size

    def train(self, mode: bool = True) -> Self:
        """Leave the language model as it is evaluated: nothing of it is dropped."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(self, characters: Tensor, is_real: Tensor) -> Tensor:
        return self.mixture(self.states(characters, is_real)).masked_fill(~is_real[..., None], 0.0)

    @torch.no_grad()
    def states(self, characters: Tensor, is_real: Tensor) -> list[Tensor]:
        """Return the states of each layer, (batch, length, 2 hidden); behind a text they mean nothing.

        A place without characters goes on the word before it, of whose pieces each has the states of the word.
        """
        is_word = is_real & (characters[..., 0] != PADDING)
        places, lengths = in_front(is_word)
        read = characters.gather(1, places[..., None].expand(-1, -1, characters.shape[2]))
        mask = torch.arange(places.shape[1], device=places.device) < lengths[:, None]
        word_of = (is_word.cumsum(dim=1) - 1).clamp(min=0)[..., None]
        layers = self.model(read, mask.long()).hidden_states
        return [each.gather(1, word_of.expand(-1, -1, each.shape[2])) for each in layers]


def asked_both_ways(labels: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """Return the words that are asked, (batch, 2 length): first of those before each, then of those behind it.

    Args:
        labels: (batch, length), the numbers of the words, ``IGNORED_LABEL`` where nothing is asked.
        attention_mask: (batch, length), 0 for padding.

    Returns:
        The labels twice, the first time without the first word, the second time without the last.

    Example:
        >>> asked_both_ways(torch.tensor([[1, 5, 2]])).tolist()
        [[-100, 5, 2, 1, 5, -100]]
    """
    is_real = torch.ones_like(labels) if attention_mask is None else attention_mask
    is_first = torch.arange(labels.shape[1], device=labels.device) == 0
    is_last = functional.pad(is_real[:, 1:], (0, 1)) == 0
    return torch.cat([labels.masked_fill(each, IGNORED_LABEL) for each in (is_first | (is_real == 0), is_last)], dim=1)


def _mirrored_places(is_real: Tensor) -> Tensor:
    """(batch, length): the place that stands at each place when a text is read from its end; padding stays.

    Example:
        >>> _mirrored_places(torch.tensor([[True, True, True], [True, True, False]])).tolist()
        [[2, 1, 0], [1, 0, 2]]
    """
    places = torch.arange(is_real.shape[1], device=is_real.device).expand_as(is_real)
    return torch.where(is_real, is_real.sum(dim=1, keepdim=True) - 1 - places, places)
