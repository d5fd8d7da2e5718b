"""Base of the text baselines: tokens that are read, the context beside a text's vector, logits and loss.

It takes the batches of the BERT heads and gives what they give. It knows no tokenizer and no words, only ids, and not
how a text becomes a vector. The context enters by concatenation alone, as in the models that it is compared with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.bag import IGNORED_LABEL
from contextual_bert.context import ContextEncoder, FeatureLayout
from contextual_bert.errors import ConfigurationError, did_you_mean

CONDITIONINGS = ("none", "concat")


class TextHead(nn.Module):
    """Logits of texts or tokens from their vectors, with the context beside each or without.

    Formula:
        logits = W [h ; c] + b;  without context W h + b

    Symbols:
        h the vector of a text or the state of a token; c the concatenated feature embeddings; W, b ``output``.

    Shapes:
        hidden (batch, hidden) or (batch, length, hidden); logits (batch, labels) or (batch, length, labels).

    Args:
        hidden_size: width of h.
        num_labels: width of the logits; 1 is regression.
        layout: the context's features; read only with "concat".
        conditioning: "none", which has no context encoder at all, or "concat".
        dropout: probability of dropping a component of h.

    Raises:
        ConfigurationError: an unknown conditioning, "concat" without features, no labels.

    Relation to its siblings:
        As the output layer of the BERT heads, which get the context through the blocks below instead.

    Reference:
        The concatenation is that of ``Concat``, Denk and Peleteiro Ramallo (2020), section 3, at the last layer.

    Example:
        >>> TextHead(4, num_labels=3, layout=(), conditioning="none", dropout=0.0)(torch.zeros(2, 4), None).shape
        torch.Size([2, 3])
    """

    def __init__(
        self, hidden_size: int, *, num_labels: int, layout: Sequence[FeatureLayout], conditioning: str, dropout: float
    ) -> None:
        super().__init__()
        if conditioning not in CONDITIONINGS:
            raise ConfigurationError(
                "is unknown to a baseline",
                setting="conditioning",
                value=conditioning,
                allowed=did_you_mean(conditioning, CONDITIONINGS),
            )
        if conditioning == "concat" and not layout:
            raise ConfigurationError(
                "needs features in layout=...; without any, give 'none'", setting="conditioning", value="concat"
            )
        if num_labels < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="num_labels",
                value=num_labels,
                fix="Give 1 for a number, 2 or more for labels.",
            )
        self.context_encoder = ContextEncoder(layout) if conditioning == "concat" else None
        context_size = 0 if self.context_encoder is None else self.context_encoder.context_size
        self.dropout = nn.Dropout(dropout)
        self.output: Any = nn.Linear(hidden_size + context_size, num_labels)  # or another map of these sizes

    def forward(self, hidden: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        """Logits; ``context=None`` is a context of which every feature is missing."""
        return self.output(self.inputs(hidden, context))

    def inputs(self, hidden: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        """[h ; c]: what the output layer reads."""
        hidden = self.dropout(hidden)
        if self.context_encoder is None:
            return hidden
        if context is None:
            context = self.context_encoder.missing(len(hidden), device=hidden.device)
        vector = self.context_encoder(context).vector
        if hidden.dim() == 3:
            vector = vector.unsqueeze(1).expand(-1, hidden.shape[1], -1)
        return torch.cat([hidden, vector], dim=-1)


class LabelModel(nn.Module):
    """Base class of models that label texts or tokens. Subclasses compute ``logits``.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,) or (batch, length), -100 where nothing is asked;
        logits as the labels, one component more.

    Relation to its siblings:
        Takes the batches of ``ContextualBertForSequenceClassification`` and ``ContextualBertForTokenClassification``.
        token_type_ids are ignored: a pair is read as one text.

    Reference:
        docs/protocol.md, "Controls": every model of a table has the same loss.

    Example:
        >>> class Undecided(LabelModel):
        ...     def logits(self, input_ids, is_real, context):
        ...         return torch.zeros(len(input_ids), 2)
        >>> Undecided()(input_ids=torch.tensor([[3, 4]]), labels=torch.tensor([1]))["loss"]
        tensor(0.6931)
    """

    head: TextHead
    accepts_loss_kwargs = True  # transformers' Trainer then hands over the number of labels of the whole batch

    def __init__(self) -> None:
        super().__init__()
        self.elmo: nn.Module | None = None

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        """The logits, given where a text has a token (batch, length).

        A model with ``widen`` takes ``vectors`` (batch, length, size) as well, which stand beside the embeddings.
        """
        raise NotImplementedError

    def read_beside(self, features: nn.Module, *, size: int) -> None:
        """Read the vectors of another model beside the embeddings of the tokens from now on.

        Weights that read both are drawn anew.

        Args:
            features: gives (batch, length, size) for the characters of words and where a text has a token.
            size: components of a vector.

        Raises:
            ConfigurationError: a model that reads no vectors beside its own.

        Reference:
            Peters et al. (2018), section 3.3: [x_k ; ELMo_k].
        """
        self.widen(size)
        self.elmo = features

    def widen(self, size: int) -> None:
        """Make room for so many components beside the embedding of each token.

        Raises:
            ConfigurationError: a model that has none.
        """
        raise ConfigurationError(f"{type(self).__name__} reads no vectors beside the embeddings of its tokens")

    def total_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss, summed over the labels."""
        return summed_loss(logits, labels)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        characters: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Logits and, with labels, the loss; ``characters`` (batch, length, places) are for ``read_beside`` alone."""
        is_real = real_positions(input_ids, attention_mask)
        beside: dict[str, Tensor] = {}
        if self.elmo is not None:
            if characters is None:
                raise ConfigurationError(
                    "is missing: this model reads the characters of words, too",
                    setting="characters",
                    fix="Encode texts with encode_texts and the processor of the model.",
                )
            beside["vectors"] = self.elmo(characters, is_real)
        logits = cast(Any, self).logits(input_ids, is_real, context, **beside)
        if labels is None:
            return {"logits": logits}
        loss = mean_over_labels(self.total_loss(logits, labels), labels, num_items_in_batch)
        return {"loss": loss, "logits": logits}


class WordReader(LabelModel):
    """Base class of models that read the tokens of a text but reserved ones, such as [PAD], [CLS] and [SEP].

    Args:
        reserved_ids: ids that are not read.

    Relation to its siblings:
        ``TextClassifier`` is the one whose text becomes a vector without the context.

    Example:
        >>> WordReader([0]).read_positions(torch.tensor([[3, 0]]), torch.tensor([[True, True]])).tolist()
        [[True, False]]
    """

    reserved_ids: Tensor

    def __init__(self, reserved_ids: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("reserved_ids", id_buffer(reserved_ids), persistent=False)

    def read_positions(self, input_ids: Tensor, is_real: Tensor) -> Tensor:
        """(batch, length): where a token is read."""
        return is_real & ~torch.isin(input_ids, self.reserved_ids)


def id_buffer(ids: Sequence[int]) -> Tensor:
    """Return ids as a tensor, each once, sorted.

    Example:
        >>> id_buffer([2, 1, 2])
        tensor([1, 2])
    """
    return torch.tensor(sorted(set(ids)), dtype=torch.int64)


class TextClassifier(WordReader):
    """A label or a number for a text; how the text becomes a vector is its subclass's affair: ``text_vectors``.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        hidden_size: width of a text's vector.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read, such as those of [PAD], [CLS] and [SEP].
        dropout: probability of dropping a component of the text's vector.

    Relation to its siblings:
        ``BiLSTMTagger`` labels every token.

    Reference:
        Kim (2014) and Joulin et al. (2017) put such a linear layer on a text's vector.

    Example:
        >>> class LengthOfText(TextClassifier):
        ...     def text_vectors(self, input_ids, is_read):
        ...         return is_read.sum(dim=1, keepdim=True).float()
        >>> settings = {"layout": (), "conditioning": "none", "reserved_ids": [0], "dropout": 0.0}
        >>> LengthOfText(1, num_labels=2, **settings)(torch.tensor([[3, 4, 0]]))["logits"].shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout],
        conditioning: str,
        reserved_ids: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__(reserved_ids)
        self.head = TextHead(
            hidden_size, num_labels=num_labels, layout=layout, conditioning=conditioning, dropout=dropout
        )

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        """(batch, hidden): a vector for each text, of the tokens that are read alone; finite where none is."""
        raise NotImplementedError

    def logits(
        self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None, **beside: Tensor
    ) -> Tensor:
        is_read = self.read_positions(input_ids, is_real)
        return self.head(cast(Any, self).text_vectors(input_ids, is_read, **beside), context)


def embedded_beside(embeddings: nn.Embedding, input_ids: Tensor, vectors: Tensor | None, *, places: Tensor) -> Tensor:
    """Return the embeddings of the tokens at some places, with the vectors that stand beside them, if there are some.

    Shapes:
        input_ids (batch, length), vectors (batch, length, size), places (batch, read) -> (batch, read, embedding +
        size).

    Example:
        >>> places = torch.tensor([[1]])
        >>> embedded_beside(nn.Embedding(9, 2), torch.tensor([[3, 4]]), torch.zeros(1, 2, 5), places=places).shape
        torch.Size([1, 1, 7])
    """
    embedded = embeddings(input_ids.gather(1, places))
    if vectors is None:
        return embedded
    return torch.cat([embedded, vectors.gather(1, places[..., None].expand(-1, -1, vectors.shape[2]))], dim=2)


def real_positions(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """(batch, length): where a text has a token; everywhere without a mask."""
    return torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()


def summed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum over all labels but -100: squared errors where there is one logit, else cross-entropies.

    Labels of the shape of the logits are 1 for each label that a text has, and 0 for the others.
    """
    logits = logits.float()
    if logits.shape[-1] == 1:
        is_asked = labels != IGNORED_LABEL
        return functional.mse_loss(logits.view_as(labels)[is_asked], labels[is_asked].float(), reduction="sum")
    if labels.is_floating_point() and labels.shape == logits.shape:
        return functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    if labels.is_floating_point():
        raise ConfigurationError(
            f"Labels of type {labels.dtype} with num_labels={logits.shape[-1]}",
            fix="Give num_labels=1 to predict a number, or labels as int64.",
        )
    return functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="sum"
    )


def mean_over_labels(total: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
    """The sum over the labels of the whole batch, however it is split; over those of this part if they are not told."""
    count = (labels != IGNORED_LABEL).sum().clamp(min=1) if num_items_in_batch is None else num_items_in_batch
    return total / count
