"""The masked-item head: it fills masked positions, and ranks the true item among all in constant memory.

Logits are computed only where a mask is. The loss is made without the table of all logits, see `masked_loss.py`, and
for very many items over drawn ones, see `losses`. Under `torch.compile` it is transformers' loss. No method is known
here. Paper: sections 3 and 4.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM
from transformers.loss.loss_utils import ForMaskedLMLoss
from transformers.models.bert.modeling_bert import BertOnlyMLMHead
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.candidates import MaskedScores, SoftmaxOver, exclude, excluded_ids, rank_targets
from contextual_bert.context.forms import different_items
from contextual_bert.errors import ConfigurationError
from contextual_bert.item_features import ItemAttributes, ItemEncoder
from contextual_bert.models.backbones import get_blocks
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_as_text import text_encoder
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.losses.sampled_loss import SampledLoss
from contextual_bert.models.masked_loss import BarredItems, can_be_fused, masked_cross_entropy
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModelOutput,
    ContextualBertPreTrainedModel,
)
from contextual_bert.models.output_context import OutputContext
from contextual_bert.models.repeat_scores import AddedLogits, RepeatScores, repeated_items

IGNORED_LABEL = -100
MAX_SCORE_ELEMENTS = 2**24  # logits held at once while ranking: 64 MiB in float32


@dataclass
class ContextualMaskedLMOutput(ModelOutput):
    """Output of the masked-item head.

    Args:
        loss: cross-entropy in nats over the masked positions, when labels were given.
        logits: (masked, vocabulary), the masked positions row after row; (batch, length, vocabulary) with
            ``logits_at='all'``. While training on labels there may be none, unless ``logits_at`` asks for them.
        state: as in ContextualBertModelOutput.
        hidden_states: one (batch, length, hidden) for the input and each block, when asked for.
        attentions: one (batch, heads, length, length) for each block with BERT's self-attention, when asked for; with
            a prepended position it is shown.
        next_sentence_logits: (batch, 2), that the second half of a pair follows the first and that it is of another
            text; None without ``has_next_sentence_head``.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    state: Tensor | None = None
    next_sentence_logits: Tensor | None = None


def has_hooks(module: nn.Module) -> bool:
    """Return True if a hook runs before or after the module's forward or backward pass."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in names)


class ContextualBertForMaskedLM(ContextualBertPreTrainedModel):
    """Fills masked positions, given the other items and the context.

    Formula:
        Pr(M = w | w_-i, c) = softmax(W h_i + b)_w;  h_i = GELU(D x_i(N) + d), and + U c with ``has_context_at_output``

        and with ``has_next_sentence_head``: Pr(the second half follows | c) = softmax(V z)_0;  z = tanh(P x_1(N) + p)

    Symbols:
        The softmax of loss and scores goes over what ``config.softmax_over`` says; ``logits`` are given of all ids. V
        is ``cls.seq_relationship``, P and p are ``bert.pooler``. ``next_sentence_label`` (batch,) is 0 where the second
        half follows and 1 where it is of another text; the loss is then the sum of both means.

    Shapes:
        input_ids (batch, length); labels (batch, length) with -100 where nothing is asked; logits (masked, vocabulary)
        with the masked positions row after row, or (batch, length, vocabulary) with ``logits_at='all'``, and of a model
        that started from a checkpoint (``has_pretrained_start``) wherever ``logits_at`` is not given, but for labels
        while it is trained. A ``logits_at`` (batch, length) of truth values says itself of which positions there are
        logits.

    Args:
        config: ContextualBertConfig; ``tie_word_embeddings`` decides whether W is the matrix of the item embeddings.

    Relation to its siblings:
        The keys of the state are those of BertForMaskedLM, with ``has_next_sentence_head`` those of BertForPreTraining;
        new ones contain ``conditioning.`` or ``context_encoder.``.

    Reference:
        Denk and Peleteiro Ramallo (2020), sections 3 and 4; Devlin et al. (2019), section 3.1.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).logits.shape
        torch.Size([1, 9])
    """

    _tied_weights_keys = {  # noqa: RUF012  (HF reads a plain dict)
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    head_keys = ("cls.", "bert.pooler.")
    head_fields = ("has_next_sentence_head",)
    head_parts = {"head": "cls.predictions.transform"}  # noqa: RUF012
    is_causal = False
    is_for_items = True
    auto_class = AutoModelForMaskedLM

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        self.loss_type = "ForMaskedLM"  # transformers takes it from the name of the class, and a subclass has another
        self.bert = text_encoder(config, has_pooler=config.has_next_sentence_head)
        self.cls = BertOnlyMLMHead(config)
        if config.has_next_sentence_head:
            self.cls.seq_relationship = nn.Linear(config.hidden_size, 2)
        head: Any = self.cls.predictions
        if config.embedding_size is not None:
            head.transform.dense = nn.Linear(config.hidden_size, config.embedding_size)
            head.transform.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
            head.decoder = nn.Linear(config.embedding_size, config.vocab_size)
        transform = get_blocks(config.backbone).masked_lm_transform(config)
        if transform is not None:
            head.transform = transform
        if not config.has_head_layer_norm:
            head.transform.LayerNorm = nn.Identity()
        if not config.tie_word_embeddings:
            head.bias = None
        layout, size = config.item_layout, config.embedding_size or config.hidden_size
        is_tied = config.tie_word_embeddings
        self.output_encoder = ItemEncoder(layout, size) if layout is not None and not is_tied else None
        self.new_item_bias = nn.Embedding(1, 1) if layout is not None else None
        histories = [shape for shape in config.layout if shape.form == "history"]
        self.repeats = nn.ModuleList(RepeatScores(size) for _ in histories if config.method.has_context)
        self.output_context = OutputContext(config.context_size, size) if config.has_context_at_output else None
        self.sampled_loss: SampledLoss | None = None
        self.trained_last = object()
        self.post_init()

    def train(self, mode: bool = True) -> Self:
        """Switch between training and inference, as in torch.

        ``trained_last`` is another object then: what was made of the weights before may be out of date. A version of
        a tensor does not say so, for fused optimisers count none.
        """
        self.trained_last = object()
        return super().train(mode)

    def set_sampled_loss(self, sampled: SampledLoss | None, *, is_sparse: bool = True) -> None:
        """Let a training compare its targets with drawn items; None: with all, exactly. It is not saved.

        Args:
            sampled: the loss.
            is_sparse: whether the item matrices have sparse gradients, see ``training.row_updates``.
        """
        self.sampled_loss = sampled
        self.config.item_loss = "cross_entropy" if sampled is None else sampled.name
        for matrix in (self.get_input_embeddings(), self.get_output_embeddings()):
            cast(Any, matrix).sparse = sampled is not None and is_sparse

    def get_output_embeddings(self) -> nn.Linear:
        return self.cls.predictions.decoder

    def resize_token_embeddings(self, *arguments: Any, **settings: Any) -> nn.Embedding:
        """Change the number of ids as transformers does; items with features are changed by ``change_items``.

        Raises:
            ConfigurationError: the items have features, which new ids would lack.
        """
        if self.config.item_features is not None and (arguments or settings.get("new_num_tokens") is not None):
            raise ConfigurationError(
                "The items of this model have features, and new ids would have none", fix="Use change_items."
            )
        return super().resize_token_embeddings(*arguments, **settings)

    @torch.no_grad()
    def without_item_features(self) -> "ContextualBertForMaskedLM":
        """Return a copy that computes the same, with the features of the items in its matrices; it is not trained on.

        Without features the model itself, unchanged.
        """
        if self.config.item_features is None:
            return self
        config = copy.deepcopy(self.config)
        config.item_features = None
        plain: Any = type(self)(config)
        plain.to(device=self.device, dtype=self.dtype).train(self.training)
        found = {key: value for key, value in self.state_dict().items() if key in plain.state_dict()}
        plain.load_state_dict(found)
        weight, bias = self.output_matrix()
        plain.get_input_embeddings().weight.copy_(self.input_matrix())
        plain.get_output_embeddings().weight.copy_(weight)
        plain.get_output_embeddings().bias.copy_(bias)
        return plain

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.cls.predictions.decoder = new_embeddings
        if self.config.tie_word_embeddings:
            self.cls.predictions.bias = new_embeddings.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        logits_at: Literal["masked", "all"] | Tensor | None = None,
        **kwargs: Any,
    ) -> ContextualMaskedLMOutput:
        num_items_in_batch, earlier_ids = (kwargs.pop(name, None) for name in ("num_items_in_batch", "earlier_ids"))
        next_sentence_label = kwargs.pop("next_sentence_label", None)
        is_mask = isinstance(logits_at, Tensor)
        if not is_mask and logits_at not in ("masked", "all", None):
            raise ConfigurationError(
                "is not allowed", setting="logits_at", value=logits_at, fix="Give 'masked' or 'all'."
            )
        if is_mask and labels is not None:
            raise ConfigurationError(
                "labels say themselves where to predict", fix="Leave out either them or logits_at."
            )
        # A model of texts answers as BERT does, everywhere: pipelines of transformers count on it, and its Trainer cuts
        # what is predicted to as many rows as there are examples.
        is_bert = self.config.has_pretrained_start and (labels is None or not self.training)
        is_everywhere = not is_mask and (logits_at == "all" or (logits_at is None and is_bert))
        is_whole = has_whole_sets(input_ids, labels)
        if is_mask:
            rows = logits_at.flatten().nonzero(as_tuple=True)[0]
        else:
            rows = self.masked_rows(input_ids, labels) if not is_everywhere or is_whole else None
        is_without_own = self.drawn_without_own()
        if is_without_own is not None and inputs_embeds is None:
            inputs_embeds = self.bert.embeddings.embed_items(cast(Tensor, input_ids), is_without_own)
        num_sets, length = cast(Tensor, input_ids if inputs_embeds is None else inputs_embeds).shape[:2]
        firsts = torch.arange(num_sets, device=self.device) * length
        reads_pairs = self.config.has_next_sentence_head
        outputs = self.bert(
            input_ids if inputs_embeds is None else None,
            attention_mask,
            context,
            token_type_ids,
            position_ids,
            inputs_embeds,
            torch.cat([rows, firsts]) if reads_pairs and rows is not None else rows,
            return_dict=True,
            **kwargs,
        )
        next_sentence_logits = self.next_sentence_of(outputs, rows) if reads_pairs else None
        every = rows if rows is not None else torch.arange(num_sets * length, device=self.device)
        scored = self.with_context(outputs, every // length)
        flat = scored if rows is not None else scored.flatten(0, 1)
        added = self.added_logits(flat, context, every // length, num_sets=num_sets)
        targets = labels.flatten()[rows] if labels is not None and rows is not None and not is_whole else labels
        logits = loss = None
        if self.sampled_loss is not None and self.training and targets is not None and logits_at is None:
            asked = cast(Tensor, labels)[rows] if is_whole else targets.unsqueeze(1)
            excluded = self.excluded(input_ids, cast(Tensor, rows), earlier_ids)
            losses = self.sampled_loss(self.read_by(scored), self.get_output_embeddings(), asked, excluded)
            num_items = len(targets) if num_items_in_batch is None else num_items_in_batch
            loss = mean_of_sets(losses, asked, num_items_in_batch) if is_whole else losses.sum() / num_items
        elif is_whole:
            logits = self.logits_of(scored, is_without_own, added)
            targets = cast(Tensor, labels)[cast(Tensor, rows)]
            left = exclude(logits.float(), self.excluded(input_ids, cast(Tensor, rows)))
            loss = whole_set_loss(left, targets, num_items_in_batch)
        elif targets is not None and logits_at is None and added is None and self.has_fused_loss(scored):
            num_items = len(targets) if num_items_in_batch is None else num_items_in_batch
            weight, bias = self.output_matrix(is_without_own)
            excluded = self.excluded(input_ids, cast(Tensor, rows))
            barred = self.barred(earlier_ids, every // length)
            loss = masked_cross_entropy(
                self.read_by(scored), weight, bias, targets, num_items, excluded=excluded, barred=barred
            )
        else:
            logits = self.logits_of(scored, is_without_own, added)
            if targets is not None:
                cross_entropy: Any = self.loss_function
                loss = cross_entropy(
                    logits=self.among_candidates(logits, targets, input_ids, rows, earlier_ids),
                    labels=targets,
                    vocab_size=logits.shape[-1],
                    num_items_in_batch=num_items_in_batch,
                )
        if next_sentence_label is not None and next_sentence_logits is not None:
            others = nn.functional.cross_entropy(next_sentence_logits.float(), next_sentence_label)
            if labels is not None and num_items_in_batch is not None:  # of all batches of the step
                others = others * (labels != IGNORED_LABEL).sum() / num_items_in_batch
            loss = others if loss is None else loss + others
        return ContextualMaskedLMOutput(
            loss=loss,
            logits=logits,
            state=outputs.state,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            next_sentence_logits=next_sentence_logits,
        )

    def next_sentence_of(self, outputs: ContextualBertModelOutput, rows: Tensor | None) -> Tensor:
        """Return the logits (batch, 2) of the next-sentence decision.

        Args:
            outputs: of the encoder; its hidden states are left with ``rows`` alone.
            rows: the flattened positions that were asked for before the first position of each pair; None: all were.
        """
        hidden, head = cast(Tensor, outputs.last_hidden_state), cast(Any, self.cls)
        if rows is not None:
            outputs.last_hidden_state = cast(Any, hidden[: len(rows)])
        first = hidden[:, :1] if rows is None else hidden[len(rows) :].unsqueeze(1)
        return head.seq_relationship(cast(Any, self.bert.pooler)(first))

    @torch.no_grad()
    def score_next_sentence(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the logits (batch, 2) that each second half follows the first, and that it is of another text."""
        firsts = torch.arange(len(input_ids), device=input_ids.device) * input_ids.shape[1]
        outputs = self.bert(input_ids, attention_mask, context, token_type_ids, rows=firsts)
        return self.next_sentence_of(outputs, firsts[:0])

    def drawn_without_own(self) -> Tensor | None:
        """Return which items have no vector of their own in this step of a training; None where all is as it is."""
        attributes = self.bert.embeddings.attributes
        return attributes.drawn_without_own() if self.training and attributes is not None else None

    def input_matrix(self) -> Tensor:
        """Return the vectors that stand for the items of a set: where items have features, with what these add."""
        embeddings: Any = self.bert.embeddings
        own: Tensor = embeddings.word_embeddings.weight
        return own if embeddings.attributes is None else embeddings.item_encoder(own, embeddings.attributes)

    def output_matrix(self, is_without_own: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return W and b: where items have features, with what these add; in training a new item is never an answer.

        Args:
            is_without_own: items whose own vector and bias are left out; None: those that training has not seen.
        """
        decoder, embeddings = self.get_output_embeddings(), self.bert.embeddings
        attributes: ItemAttributes | None = embeddings.attributes
        if attributes is None or self.new_item_bias is None:
            return decoder.weight, decoder.bias
        encoder = cast(ItemEncoder, self.output_encoder or embeddings.item_encoder)
        return encoder.output_of(decoder, self.new_item_bias.weight[0], attributes, is_without_own)

    def item_encoders(self) -> list[tuple[ItemEncoder, Tensor]]:
        """Return what makes the vectors of items with features, each with the own vectors; none without features."""
        first: ItemEncoder | None = self.bert.embeddings.item_encoder
        found = [(first, self.get_input_embeddings()), (self.output_encoder, self.get_output_embeddings())]
        return [(encoder, cast(Tensor, own.weight)) for encoder, own in found if encoder is not None]

    def logits_of(
        self, hidden: Tensor, is_without_own: Tensor | None = None, added: AddedLogits | None = None
    ) -> Tensor:
        """Return the logits of all ids: (..., hidden) -> (..., vocabulary).

        Args:
            hidden: what the head reads: (..., hidden), and what ``with_context`` puts behind it.
            is_without_own: as for ``output_matrix``.
            added: what ``added_logits`` gives; rows as those of ``hidden``, flattened.
        """
        if self.new_item_bias is None and self.output_context is None:
            logits = self.cls(hidden)
        else:
            logits = nn.functional.linear(self.read_by(hidden), *self.output_matrix(is_without_own))
        return logits if added is None else added.to_rows(logits.flatten(0, -2)).view_as(logits)

    def with_context(self, outputs: ContextualBertModelOutput, set_of: Tensor) -> Tensor:
        """Return what the head reads: the last hidden states, and with ``has_context_at_output`` U c behind each.

        Args:
            outputs: of the model.
            set_of: (rows,), which set of the batch each row of the flattened hidden states is of.
        """
        hidden = cast(Tensor, outputs.last_hidden_state)
        if self.output_context is None:
            return hidden
        added = self.output_context(cast(Tensor, outputs.context_vector))[set_of]
        return torch.cat([hidden, added.view(*hidden.shape[:-1], -1)], dim=-1)

    def read_by(self, hidden: Tensor) -> Tensor:
        """Return what the output matrix reads: (..., hidden [+ size]) of ``with_context`` -> (..., size)."""
        head: Any = self.cls.predictions
        if self.output_context is None:
            return head.transform(hidden)
        width = self.config.hidden_size
        return head.transform(hidden[..., :width]) + hidden[..., width:]

    def added_logits(
        self, hidden: Tensor, context: Context | ContextState | None, set_of: Tensor, *, num_sets: int
    ) -> AddedLogits | None:
        """Return what histories add to the logits of their items; None where there is no history.

        Args:
            hidden: (rows, hidden) of the rows that logits are wanted of.
            context: of the batch.
            set_of: (rows,), which set of the batch each row is of.
            num_sets: in the batch.
        """
        if not self.repeats or context is None:
            return None
        if isinstance(context, ContextState):
            context = context.for_sets(num_sets, conditioning=self.config.conditioning)
            histories = context.embedding.histories if context.embedding is not None else ()
        else:
            histories = tuple(context[shape.name] for shape in self.config.layout if shape.form == "history")
        return self.repeated(hidden, histories, set_of)

    def repeated(self, hidden: Tensor, histories: Sequence[Tensor], set_of: Tensor) -> AddedLogits:
        """Return what these histories, (batch, width, 4) each, add: as ``added_logits``."""
        read, (_, bias) = self.read_by(hidden), self.output_matrix()
        found: list[AddedLogits] = []
        for module, history in zip(self.repeats, histories, strict=True):
            own = history[set_of]
            items = repeated_items(different_items(own))
            found.append(AddedLogits(items, module(read, own, self.bert.embeddings.embed_items(items), bias[items])))
        return AddedLogits(*(torch.cat(parts, dim=1) for parts in zip(*found, strict=True)))

    def excluded(self, input_ids: Tensor | None, rows: Tensor, earlier_ids: Tensor | None = None) -> Tensor | None:
        """Return the ids (masked, n) that ``config.softmax_over`` leaves out at these masked positions, or None."""
        over = cast(SoftmaxOver, self.config.softmax_over)
        found = excluded_ids(
            over,
            input_ids,
            rows,
            reserved=self.config.reserved_token_ids,
            reads_before=self.config.predicts_next,
        )
        if found is None or over != "candidates" or input_ids is None or earlier_ids is None:
            return found
        return torch.cat([found, earlier_ids[rows // input_ids.shape[1]]], dim=1)

    def among_candidates(
        self,
        logits: Tensor,
        targets: Tensor,
        input_ids: Tensor | None,
        rows: Tensor | None,
        earlier_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of the loss: minus infinity at what ``config.softmax_over`` leaves out."""
        if self.config.softmax_over == "vocabulary":
            return logits
        flat, of_rows = logits.flatten(0, -2), targets.flatten().clamp(min=0)
        every = rows if rows is not None else torch.arange(len(flat), device=flat.device)
        if (barred := self.barred(earlier_ids, every // cast(Tensor, input_ids).shape[1])) is not None:
            own = flat.gather(1, of_rows[:, None])
            flat = flat.masked_fill(barred.is_barred[barred.set_of], -torch.inf).scatter(1, of_rows[:, None], own)
        return exclude(flat, self.excluded(input_ids, every), of_rows).view_as(logits)

    def barred(self, earlier_ids: Tensor | None, set_of: Tensor) -> BarredItems | None:
        """Return the items that the softmax of all rows of a set leaves out: those before a piece of a sequence.

        Args:
            earlier_ids: (batch, n), padded.
            set_of: (rows,), which set of the batch each row is of.
        """
        if earlier_ids is None or self.config.softmax_over != "candidates":
            return None
        size = (len(earlier_ids), self.config.vocab_size)
        is_barred = torch.zeros(size, dtype=torch.bool, device=earlier_ids.device).scatter_(1, earlier_ids, True)
        return BarredItems(is_barred, set_of)

    def has_fused_loss(self, hidden: Tensor) -> bool:
        """Return True if the loss is computed without a table of logits: in training, unless it is compiled."""
        # An adapter around the output layer, a hook, or a loss function of the user's own must not be passed over.
        is_usual = (
            type(self.cls.predictions.decoder) is nn.Linear
            and cast(object, self.loss_function) is ForMaskedLMLoss
            and not any(has_hooks(module) for module in self.cls.modules())
        )
        return self.training and can_be_fused(hidden.device.type) and is_usual

    def masked_rows(self, input_ids: Tensor | None, labels: Tensor | None) -> Tensor:
        """Indices into the flattened (batch * length) of the positions asked for: with a label, else holding [MASK].

        Of whole sets: the sets that have a label.
        """
        if labels is not None and has_whole_sets(input_ids, labels):
            return (labels != IGNORED_LABEL).any(dim=1).nonzero(as_tuple=True)[0]
        if labels is not None:
            asked = labels != IGNORED_LABEL
        elif input_ids is not None:
            asked = input_ids == self.config.mask_token_id
        else:
            raise ConfigurationError("With inputs_embeds, say where to predict", fix="Give labels, or logits_at='all'.")
        return asked.flatten().nonzero(as_tuple=True)[0]

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        labels: Tensor | None = None,
        earlier_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each masked position against the whole vocabulary, in constant memory.

        The softmax goes over what ``config.softmax_over`` says. Reserved ids are no rivals; a true item that is itself
        reserved ([UNK]) ties with itself. Each block holds whole rows of at most ``MAX_SCORE_ELEMENTS`` logits, so the
        true item and its rivals come from the same product and a tie is exact. ``earlier_ids`` (batch, n), padded, are
        items of long sequences that stand before those of input_ids: where none of these is a rival, they are none.

        Returns:
            MaskedScores, (masked,) each, the masked positions row after row.
        """
        if labels is None:
            raise ConfigurationError("Scoring needs labels: the true item at each masked position, -100 elsewhere.")
        rows = self.masked_rows(input_ids, labels)
        outputs = self.bert(input_ids, attention_mask, context, token_type_ids, rows=rows)
        hidden = self.with_context(outputs, rows // input_ids.shape[1])
        if has_whole_sets(input_ids, labels):  # one row an item that is asked for
            of_rows = labels[rows]
            place, _ = (of_rows != IGNORED_LABEL).nonzero(as_tuple=True)
            targets, rows, hidden = of_rows[of_rows != IGNORED_LABEL], rows[place], hidden[place]
        else:
            targets = labels.flatten()[rows]
        set_of = rows // input_ids.shape[1]
        added = self.added_logits(hidden, context, set_of, num_sets=len(input_ids))
        blocks = self.logit_blocks(hidden, added)
        reserved = torch.as_tensor(self.config.reserved_token_ids, dtype=torch.long, device=rows.device)
        excluded = self.excluded(input_ids, rows, earlier_ids)
        parts: list[MaskedScores] = []
        for start, logits in blocks:
            block = slice(start, start + logits.shape[0])
            of_block = excluded[block] if excluded is not None else None
            parts.append(rank_targets(logits, targets[block], of_block, reserved=reserved))
        return MaskedScores(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def logit_blocks(self, hidden: Tensor, added: AddedLogits | None = None) -> Iterator[tuple[int, Tensor]]:
        """(first row, float32 logits) of blocks of ``hidden`` (rows, hidden), each at most ``MAX_SCORE_ELEMENTS``."""
        for block in score_blocks(len(hidden), self.config.vocab_size):
            of_block = added.rows(block) if added is not None else None
            yield block.start, self.logits_of(hidden[block], added=of_block).float()


def has_whole_sets(input_ids: Tensor | None, labels: Tensor | None) -> bool:
    """Return True if the labels are all items of sets of which one [MASK] alone is read.

    Example:
        >>> has_whole_sets(torch.tensor([[1]]), torch.tensor([[5, 6]]))
        True
    """
    return input_ids is not None and labels is not None and labels.shape != input_ids.shape


def whole_set_loss(logits: Tensor, targets: Tensor, num_items: Tensor | int | None = None) -> Tensor:
    """Return the mean cross-entropy of the items of whole sets, in nats; each set counts as one.

    Formula: mean_s mean_(i in s) -log softmax(l_s)_i

    Shapes: logits (sets, vocabulary), targets (sets, n) padded with -100 -> ().

    Args:
        logits: of each set.
        targets: its items.
        num_items: items of all batches of the step, where a step has several.
    """
    own = logits.log_softmax(dim=1).gather(1, targets.clamp(min=0)).masked_fill(targets == IGNORED_LABEL, 0.0)
    return mean_of_sets(-own, targets, num_items)


def mean_of_sets(losses: Tensor, targets: Tensor, num_items: Tensor | int | None = None) -> Tensor:
    """Return the mean over sets of the mean loss of their items: (sets, n), padded with zeros -> ()."""
    is_asked = targets != IGNORED_LABEL
    means = losses.sum(dim=1) / is_asked.sum(dim=1).clamp(min=1)
    share = 1.0 if num_items is None else is_asked.sum() / num_items  # of this batch in the step
    return means.mean() * share


def score_blocks(num_rows: int, vocab_size: int) -> Iterator[slice]:
    """Rows of which ``MAX_SCORE_ELEMENTS`` logits are held at once; an empty slice where there are none.

    Example:
        >>> [*score_blocks(3, vocab_size=2**23)]
        [slice(0, 2, None), slice(2, 4, None)]
    """
    size = max(1, MAX_SCORE_ELEMENTS // vocab_size)
    return (slice(start, start + size) for start in range(0, max(1, num_rows), size))
