"""Long documents for an encoder with few positions: segments of the tokens, and a Transformer over their vectors.

ToBERT. It knows no method: each segment is read with the context of its document. Not in the papers of this package but
as a row of MA-BERT's table; Pappagari et al. (2019), "Hierarchical Transformers for Long Document Classification".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.modeling_contextual_bert import ContextualBertEncoder

SEGMENTS_AT_ONCE = 64  # that the encoder reads; what it computed for more of them is not kept but computed again
_LONGEST_WAVE = 10_000.0


class Segments(NamedTuple):
    """Segments of documents, those of one behind those of the other.

    Shapes:
        input_ids, attention_mask (segments, width); text, place (segments,): of which document each is, and the how
        many-th of it, counted from 0; num_segments (documents,).
    """

    input_ids: Tensor
    attention_mask: Tensor
    text: Tensor
    place: Tensor
    num_segments: Tensor


def cut_into_segments(
    input_ids: Tensor, attention_mask: Tensor | None, *, length: int, overlap: int, padding_id: int
) -> Segments:
    """Cut documents into segments, each between the first and the last token of its document: [CLS] and [SEP].

    Args:
        input_ids: (documents, longest), [CLS] and [SEP] included.
        attention_mask: 0 where a document is padded at its end; None: nowhere.
        length: most tokens of a segment, [CLS] and [SEP] included.
        overlap: so many tokens at the end of a segment begin the next one.
        padding_id: fills shorter segments.

    Raises:
        ConfigurationError: padding that is not at the end.

    Example:
        >>> found = cut_into_segments(torch.tensor([[1, 5, 6, 7, 2]]), None, length=4, overlap=1, padding_id=0)
        >>> found.input_ids.tolist(), found.num_segments.tolist()
        ([[1, 5, 6, 2], [1, 6, 7, 2]], [2])
    """
    real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    if bool((real[:, 1:] > real[:, :-1]).any()):
        raise ConfigurationError("Documents are cut into segments from their start", fix="Pad them at their end.")
    room, step = length - 2, length - 2 - overlap
    sizes = real.sum(dim=1)
    inner = (sizes - 2).clamp(min=0)
    num_segments = 1 + (inner - room).clamp(min=0).add(step - 1).div(step, rounding_mode="floor")
    text = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), num_segments)
    place = torch.arange(len(text), device=text.device) - (num_segments.cumsum(0) - num_segments)[text]
    own = (inner[text] - place * step).clamp(max=room)
    columns = torch.arange(int(own.max()) + 2, device=text.device)
    source = (place * step).unsqueeze(1) + columns  # [CLS] is column 0 there and here
    ids = input_ids[text.unsqueeze(1), source.clamp(max=input_ids.shape[1] - 1)]
    last = input_ids.gather(1, (sizes - 1).clamp(min=0).unsqueeze(1))[text]
    ids = ids.where(columns <= own.unsqueeze(1), last.where(columns == own.unsqueeze(1) + 1, padding_id))
    ids[:, 0] = input_ids[text, 0]
    return Segments(ids, (columns < own.unsqueeze(1) + 2).to(real.dtype), text, place, num_segments)


class SegmentPositions(nn.Module):
    """Waves of the place of a segment, at a learned loudness: for any number of segments.

    Formula:
        y_i = x_i + g [sin(i w_1) ; ... ; sin(i w_h) ; cos(i w_1) ; ... ; cos(i w_h)], w_j = 10000^(-j / h)

    Shapes:
        (batch, segments, hidden) -> the same.

    Reference:
        Vaswani et al. (2017), "Attention Is All You Need", section 3.5; g is ours, and starts at the scale of BERT's
        positions.

    Example:
        >>> SegmentPositions()(torch.zeros(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(()))
        self.initialise(0.02)

    def initialise(self, scale: float) -> None:
        """Start at so small a loudness."""
        nn.init.constant_(self.scale, scale)

    def forward(self, hidden: Tensor) -> Tensor:
        half = (hidden.shape[2] + 1) // 2
        shares = torch.arange(half, device=hidden.device) / half
        angles = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(1) * _LONGEST_WAVE**-shares
        waves = torch.cat([angles.sin(), angles.cos()], dim=1)[:, : hidden.shape[2]]
        return hidden + self.scale * waves.to(hidden.dtype)


class SegmentTransformer(nn.Module):
    """A vector for each document from those of its segments: blocks as BERT has them, and the mean of what they give.

    Formula:
        d = mean over i of y_i, y = Blocks(x + positions), x the vectors of the segments

    Shapes:
        vectors (segments, hidden) of ``Segments`` -> (documents, hidden).

    Args:
        config: of the model; ``num_segment_layers`` blocks of its sizes.

    Relation to its siblings:
        ``baselines.hierarchical`` makes documents of sentences, by LSTM and attention.

    Reference:
        Pappagari et al. (2019), section 2.2, "ToBERT". There the encoder is fine-tuned on segments first and then stays
        as it is; here all is trained together.
    """

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        same = ("hidden_size", "num_attention_heads", "intermediate_size", "layer_norm_eps", "initializer_range")
        dropouts = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        fields: dict[str, Any] = {name: getattr(config, name) for name in (*same, *dropouts)}
        fields |= {"num_hidden_layers": config.num_segment_layers, "attn_implementation": "sdpa"}
        self.positions = SegmentPositions()
        self.encoder = ContextualBertEncoder(ContextualBertConfig(**fields))

    def forward(self, vectors: Tensor, segments: Segments) -> Tensor:
        longest = int(segments.num_segments.max())
        grid = vectors.new_zeros(len(segments.num_segments), longest, vectors.shape[1])
        grid = grid.index_put((segments.text, segments.place), vectors)
        real = torch.arange(longest, device=vectors.device) < segments.num_segments.unsqueeze(1)
        hidden, _ = self.encoder(self.positions(grid), real.long(), ())
        return (hidden * real.unsqueeze(2)).sum(dim=1) / segments.num_segments.unsqueeze(1)


def read_in_parts(
    read: Callable[[Tensor], Tensor], num_segments: int, *, is_kept: bool, device: torch.device
) -> Tensor:
    """Join what is read of all segments, at most ``SEGMENTS_AT_ONCE`` of them at once, so that memory stays small.

    Args:
        read: gives the vectors of segments with these numbers.
        num_segments: of all documents.
        is_kept: whether gradients are wanted: of more segments than one part has, each part is then computed again.
        device: of the numbers.

    Example:
        >>> read_in_parts(lambda chosen: chosen.float(), 3, is_kept=False, device=torch.device("cpu"))
        tensor([0., 1., 2.])
    """
    parts = torch.arange(num_segments, device=device).split(SEGMENTS_AT_ONCE)
    if len(parts) == 1:
        return read(parts[0])
    if not is_kept:
        return torch.cat([read(part) for part in parts])
    computed_again: list[Any] = [checkpoint(read, part, use_reentrant=False) for part in parts]
    return torch.cat(computed_again)
