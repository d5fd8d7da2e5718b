"""Graphs of an export: one from a context to its encoding, one from the encoding and a set to the items.

Some modules are put in another form that computes the same with fewer nodes, since at batch 1 the number of nodes is
what a call costs beside the output product. It knows no file, no name of an item and no method.
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertSelfAttention

from contextual_bert.context import ContextEmbedding, ContextEncoder
from contextual_bert.context.forms import FORMS
from contextual_bert.inference.exported.onnx_model import INPUTS, GraphInputs
from contextual_bert.inference.exported.record import OutputMatrix
from contextual_bert.models import ContextState, ContextualBertForMaskedLM, ContextualBertPreTrainedModel
from contextual_bert.models.repeat_scores import AddedLogits

AnyModel = TypeVar("AnyModel", bound=ContextualBertPreTrainedModel)
AT_OUTPUT = "at_output"
HISTORY = "history_"  # how the names of carried histories begin
FORBIDDEN = 3e38  # taken from a logit; below the largest float32, so that no difference of two overflows
MAX_LEAD = 60.0  # nats by which what is forbidden counts above the best permitted item: e^60 items still sum in float32
SHORTLIST = 4  # times top_k: how many items of the int8 product are scored again in float32


class ContextGraph(nn.Module):
    """Module that computes all that depends on the context alone, as input of ``CompletionGraph``; see ``carried``.

    Its input maps the names of ``numbered`` to the tensors of the features.

    Args:
        model: it is copied, not changed.
    """

    def __init__(self, model: ContextualBertPreTrainedModel) -> None:
        super().__init__()
        self.model = lean(model)

    def forward(self, context: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        layout = self.model.config.layout
        named = {feature.name: context[f"feature_{index}"] for index, feature in enumerate(layout)}
        return tuple(carried(self.model, self.model.encode_context(named)).values())


def carried(model: ContextualBertPreTrainedModel, state: ContextState) -> dict[str, Tensor]:
    """Return the tensors that pass from the context graph to the completion graph: context vector, what the output adds
    of it, block states and histories."""
    embedding = state.embedding
    has_input = bert_of(model).conditioning is not None
    vector = {"vector": embedding.vector} if has_input and embedding is not None else {}
    at_output = model.output_context if isinstance(model, ContextualBertForMaskedLM) else None
    if at_output is not None and embedding is not None:
        vector[AT_OUTPUT] = at_output(embedding.vector)
    histories = embedding.histories if embedding is not None else ()
    states = {f"state_{index}": each for index, each in enumerate(state.states)}
    return vector | states | {f"{HISTORY}{index}": each + 0 for index, each in enumerate(histories)}


def state_from(
    model: ContextualBertPreTrainedModel, tensors: Mapping[str, Tensor], *, num_rows: int
) -> ContextState | None:
    """The state that ``carried`` took apart; None for a model without a context."""
    if not tensors:
        return None
    vector, embedding = tensors.get("vector"), None
    if vector is not None:
        sizes = [feature.embedding_size for feature in model.config.layout]
        embedding = ContextEmbedding(vector, vector.split(sizes, dim=-1))
    states = tuple(tensor for name, tensor in tensors.items() if name.startswith("state_"))
    return ContextState(model.config.conditioning, num_rows, embedding, states)


def added_by(model: ContextualBertForMaskedLM, hidden: Tensor, tensors: Mapping[str, Tensor]) -> AddedLogits | None:
    """Return what the histories among the carried tensors add to the logits of a row a set."""
    histories = tuple(tensor for name, tensor in tensors.items() if name.startswith(HISTORY))
    set_of = torch.arange(hidden.shape[0], device=hidden.device)
    return model.repeated(hidden, histories, set_of) if histories else None


class CompletionGraph(nn.Module):
    """The best permitted items of one [MASK] a row.

    Formula:
        log Pr(w | w_-i, c, permitted) = logit_w - log sum over permitted v of exp(logit_v);
        excluded = sum over forbidden items v of Pr(v | w_-i, c) / sum over all items of the same, or over all but
        those that the set shows where ``softmax_over`` is "candidates"

    Shapes:
        input_ids, attention_mask (batch, length) int64; position (batch,) int64, the [MASK] that is asked; permitted
        (batch, vocabulary) bool; state: what ``carried`` names, (batch, ...) each; token_type_ids (batch, length)
        int64, gaps of time, of a model that reads them -> ids, log_probabilities (batch, top_k), excluded (batch,).
        Where fewer than top_k items are permitted, the log-probability of the rest is -inf.

    Args:
        model: it is copied, not changed.
        top_k: proposals a row, at most the vocabulary.
        output_matrix: "int8" reads a quarter of the memory for the output product; the best ``SHORTLIST * top_k`` items
            are then scored again with the float32 matrix, for the normaliser too. Only onnxruntime computes that graph.

    Relation to its siblings:
        ``CompletionPipeline.fill`` does the same eagerly, with several [MASK] a row.
    """

    def __init__(
        self, model: ContextualBertForMaskedLM, *, top_k: int, output_matrix: OutputMatrix = "float32"
    ) -> None:
        super().__init__()
        self.model = lean(model)
        self.top_k = min(top_k, model.config.vocab_size)
        output = self.model.get_output_embeddings()
        self.matrix: nn.Module = Int8Matrix(output.weight.detach()) if output_matrix == "int8" else Float32Matrix()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position: Tensor,
        permitted: Tensor,
        state: Mapping[str, Tensor],
        token_type_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch_size, length = input_ids.shape
        rows = torch.arange(batch_size, device=input_ids.device) * length + position
        context = state_from(self.model, state, num_rows=batch_size)
        mask, bert = attention_mask, self.model.bert
        has_reader = bert.encoder.conditioning is not None and bert.encoder.conditioning.reads_sequence
        if bert.conditioning is None and not has_reader:
            # A mask of four dimensions is taken as it is; made from two it would be fifteen nodes. What padding itself
            # attends to is read by nobody. An input slot, or a state that reads the sequence, takes two dimensions.
            mask = attention_mask[:, None, None, :] > attention_mask[:, None, :, None] - 1
            if self.model.config.predicts_next:
                places = torch.arange(length, device=input_ids.device)
                mask = mask & (places[None, :] <= places[:, None])
        hidden = bert(input_ids, mask, context, token_type_ids, rows=rows).last_hidden_state
        if AT_OUTPUT in state:
            hidden = torch.cat([hidden, state[AT_OUTPUT]], dim=-1)
        added = added_by(self.model, hidden, state)
        hidden, output = self.model.read_by(hidden), self.model.get_output_embeddings()
        logits = self.matrix(hidden, output)
        if added is not None:
            logits = added.to_rows(logits)
        # A product and a sum over the vocabulary are faster than a choice.
        is_permitted = permitted.float()
        best = (logits + (is_permitted - 1) * FORBIDDEN).topk(self.num_drawn, dim=-1)
        ids, values = best.indices, best.values
        if isinstance(self.matrix, Int8Matrix):
            exact = (output.weight[ids] * hidden.unsqueeze(1)).sum(dim=-1) + output.bias[ids]
            if added is not None:
                exact = exact + added.to_rows(torch.zeros_like(logits)).gather(1, ids)
            logits = logits.scatter(1, ids, exact)  # what is proposed counts for the normaliser as it is proposed
            exact = exact + (is_permitted.gather(1, ids) - 1) * FORBIDDEN
            values, order = exact.topk(self.top_k, dim=-1)
            ids = ids.gather(1, order)
        largest = values[:, :1]
        shares = (logits - largest).clamp(max=MAX_LEAD).exp()
        kept = (shares * is_permitted).sum(dim=-1, keepdim=True)
        if self.model.config.softmax_over == "candidates":
            shares = shares.scatter(1, input_ids, 0.0)  # what the set shows was never learned
        num_reserved = len(self.model.config.reserved_token_ids)  # the first ids, which are no items
        real = shares.sum(dim=-1, keepdim=True) - shares[:, :num_reserved].sum(dim=-1, keepdim=True)
        excluded = (1 - kept / real).clamp(min=0)
        log_probabilities = torch.where(permitted.gather(1, ids), values - largest - kept.log(), -torch.inf)
        return ids, log_probabilities, excluded.squeeze(1)

    @property
    def num_drawn(self) -> int:
        """Items taken from the product over the whole vocabulary."""
        factor = SHORTLIST if isinstance(self.matrix, Int8Matrix) else 1
        return min(factor * self.top_k, self.model.config.vocab_size)


class Float32Matrix(nn.Module):
    """The output product as the model does it."""

    def forward(self, hidden: Tensor, output: nn.Linear) -> Tensor:
        return output(hidden)


class Int8Matrix(nn.Module):
    """The output product with 8 bits a weight: W_wj = scale_wb (q_wj - 128), one scale for each block b of a row.

    onnxruntime's MatMulNBits also rounds the input to 8 bits. It is no operator of the ONNX standard, whose
    MatMulInteger saturates on processors without VNNI.
    """

    quantised: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.num_items, self.width = weight.shape
        self.block = min(128, max(32, 1 << (self.width - 1).bit_length()))
        padded = nn.functional.pad(weight.float(), (0, -self.width % self.block))
        blocks = padded.unflatten(1, (-1, self.block))
        scale = blocks.abs().amax(dim=-1) / 127
        quantised = (blocks / scale.clamp(min=1e-30).unsqueeze(-1)).round() + 128
        self.register_buffer("quantised", quantised.to(torch.uint8).contiguous())
        self.register_buffer("scale", scale.flatten().contiguous())

    def forward(self, hidden: Tensor, output: nn.Linear) -> Tensor:
        attributes: dict[str, Any] = {
            "K": self.width,
            "N": self.num_items,
            "bits": 8,
            "block_size": self.block,
            "accuracy_level": 4,
        }
        return torch.onnx.ops.symbolic(
            "com.microsoft::MatMulNBits",
            (hidden, self.quantised, self.scale, None, None, output.bias),
            attributes,
            dtype=torch.float32,
            shape=(hidden.shape[0], self.num_items),
            version=1,
        )


class JoinedSelfAttention(nn.Module):
    """BERT's self-attention with one product for queries, keys and values, and one node for what follows."""

    def __init__(self, attention: BertSelfAttention) -> None:
        super().__init__()
        parts = [attention.query, attention.key, attention.value]
        self.num_heads = attention.num_attention_heads
        self.weight = nn.Parameter(torch.cat([part.weight for part in parts]), requires_grad=False)
        self.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None, **_: Any) -> tuple[Tensor, None]:
        query, key, value = nn.functional.linear(hidden, self.weight, self.bias).chunk(3, dim=-1)
        heads = {"q_num_heads": self.num_heads, "kv_num_heads": self.num_heads}
        return torch.onnx.ops.attention(query, key, value, attention_mask, **heads)[0], None


class Example(NamedTuple):
    """Inputs of a CompletionGraph, with the context itself in place of its state."""

    input_ids: Tensor
    attention_mask: Tensor
    position: Tensor
    permitted: Tensor
    context: dict[str, Tensor]
    token_type_ids: Tensor | None = None

    @property
    def graph_inputs(self) -> GraphInputs:
        """The same as arrays, without the context."""
        gaps = self.token_type_ids.numpy() if self.token_type_ids is not None else None
        return GraphInputs(*(getattr(self, name).numpy() for name in INPUTS), token_type_ids=gaps)


def example(model: ContextualBertForMaskedLM, *, batch_size: int, length: int, seed: int = 0) -> Example:
    """Random sets, contexts and permitted items; the blank, the padding and the numbers of values differ by row.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **sizes))
        >>> example(model, batch_size=2, length=5).input_ids.shape
        torch.Size([2, 5])
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    config = model.config
    sizes = draw(1, length + 1, batch_size)
    sizes[0] = length
    is_real = torch.arange(length) < sizes.unsqueeze(1)
    position = (torch.rand(batch_size, generator=generator) * sizes).long()
    ids = draw(min(3, config.vocab_size - 1), config.vocab_size, batch_size, length).masked_fill(~is_real, 0)
    ids[torch.arange(batch_size), position] = config.mask_token_id
    permitted = torch.rand(batch_size, config.vocab_size, generator=generator) < 0.7
    permitted[:, list(config.reserved_token_ids)] = False
    context: dict[str, Tensor] = {}
    for feature in config.layout:
        context[feature.name] = FORMS[feature.form].random(feature, batch_size, generator=generator)
    gaps = None
    if config.time_gaps is not None:
        gaps = draw(0, config.type_vocab_size, batch_size, length).masked_fill(~is_real, 0)
    return Example(ids, is_real.long(), position, permitted, context, gaps)


def bert_of(model: ContextualBertPreTrainedModel) -> Any:
    """Return the encoder of a model with a head."""
    return cast(Any, model).bert


def lean(model: AnyModel) -> AnyModel:
    """A copy on the CPU, in float32, whose modules make few nodes.

    The modules of features have numbers for names: torch.export writes the name of a module into Python code.
    """
    bare = model.without_item_features() if isinstance(model, ContextualBertForMaskedLM) else model
    copied: Any = copy.deepcopy(bare).cpu().float().eval().requires_grad_(False)
    encoder = bert_of(copied).context_encoder
    if isinstance(encoder, ContextEncoder):
        modules = [
            getattr(module, "for_export", lambda module=module: module)() for module in encoder.features.values()
        ]
        encoder.features = nn.ModuleDict({f"feature_{index}": module for index, module in enumerate(modules)})
    for layer in bert_of(copied).encoder.layer:
        attention: Any = getattr(layer, "attention", None)
        if isinstance(getattr(attention, "self", None), BertSelfAttention):
            attention.self = JoinedSelfAttention(attention.self)
    return copied
