"""BERT as a fixed extractor of features, the context put beside them: two of MA-BERT's controls.

It takes the features as a module and knows no checkpoint. Paper: MA-BERT, section 4, "BERT Concat (text)" and "BERT
Concat (word)"; the third, "BERT Attention (bias)", is the method itself with ``has_attribute_values=False``.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from contextual_bert.baselines.label_model import LabelModel, TextClassifier, TextHead
from contextual_bert.context import ContextEncoder, FeatureLayout

DROPOUT = 0.1  # BERT's: of a text's vector, and in new layers


class Frozen(nn.Module):
    """A module that is never trained nor in training mode, and whose weights are not counted among the trained ones.

    Args:
        module: gives (batch, length, hidden) for (input_ids, attention_mask).

    Example:
        >>> frozen = Frozen(nn.Linear(2, 2)).train()
        >>> frozen.module.training, any(weight.requires_grad for weight in frozen.parameters())
        (False, False)
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "Frozen":
        super().train(mode)
        self.module.eval()
        return self

    @torch.no_grad()
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.module(input_ids, attention_mask)


class ConcatText(TextClassifier):
    """A text's label from its vector in a frozen BERT and the context beside it.

    Formula:
        logits = W [p(t) ; c] + b

    Symbols:
        t the features of the tokens; p the pooling, in the paper that of [CLS]; c the concatenated feature embeddings.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        features: gives (batch, length, hidden) for (input_ids, attention_mask).
        pooling: gives (batch, hidden) for (batch, length, hidden) and attention_mask.
        hidden_size: of the features.
        num_labels: labels, or 1 for regression.
        layout: the context's features.

    Relation to its siblings:
        ``ConcatWord`` puts the context beside every token and goes on from there.

    Reference:
        MA-BERT, section 4.2, "BERT Concat (text)".

    Example:
        >>> from contextual_bert.context import Categorical, ContextSchema
        >>> layout = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),)).layout
        >>> class Features(nn.Module):
        ...     def forward(self, input_ids, attention_mask):
        ...         return torch.zeros(*input_ids.shape, 4)
        >>> first = lambda hidden, attention_mask: hidden[:, 0]
        >>> model = ConcatText(Features(), first, hidden_size=4, num_labels=2, layout=layout)
        >>> model(torch.tensor([[2, 3]]))["logits"].shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        features: nn.Module,
        pooling: Callable[[Tensor, Tensor], Tensor],
        *,
        hidden_size: int,
        num_labels: int,
        layout: Sequence[FeatureLayout],
    ) -> None:
        super().__init__(
            hidden_size, num_labels=num_labels, layout=layout, conditioning="concat", reserved_ids=(), dropout=DROPOUT
        )
        self.features = Frozen(features)
        self.pooling = pooling

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        return self.pooling(self.features(input_ids, is_read.long()), is_read)


class ConcatWord(LabelModel):
    """A text's label from new encoder layers on a frozen BERT, the context put into every token between the two.

    Formula:
        x_i = W [t_i ; c] + b;  logits = V p(E(x)) + d, E encoder layers

    Symbols:
        t_i the feature of token i; c the concatenated feature embeddings; p the pooling, in the paper that of [CLS].

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        features: gives (batch, length, hidden) for (input_ids, attention_mask).
        pooling: gives (batch, hidden) for (batch, length, hidden) and attention_mask.
        hidden_size: of the features and the new layers.
        num_labels: labels, or 1 for regression.
        layout: the context's features.
        num_layers: new layers; MA-BERT's baseline has six.
        num_heads: of each.
        intermediate_size: inner width of each.

    Relation to its siblings:
        As large as ``multi_attribute`` with one attribute on a frozen BERT, which scales attention by the context.

    Reference:
        MA-BERT, section 4.2, "BERT Concat (word)".

    Example:
        >>> from contextual_bert.context import Categorical, ContextSchema
        >>> layout = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),)).layout
        >>> class Features(nn.Module):
        ...     def forward(self, input_ids, attention_mask):
        ...         return torch.zeros(*input_ids.shape, 4)
        >>> sizes = {"hidden_size": 4, "num_layers": 1, "num_heads": 2, "intermediate_size": 8}
        >>> first = lambda hidden, attention_mask: hidden[:, 0]
        >>> ConcatWord(Features(), first, num_labels=2, layout=layout, **sizes)(torch.tensor([[2, 3]]))["logits"].shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        features: nn.Module,
        pooling: Callable[[Tensor, Tensor], Tensor],
        *,
        hidden_size: int,
        num_labels: int,
        layout: Sequence[FeatureLayout],
        num_layers: int,
        num_heads: int,
        intermediate_size: int,
    ) -> None:
        super().__init__()
        self.features = Frozen(features)
        self.pooling = pooling
        self.context_encoder = ContextEncoder(layout)
        self.entry = nn.Linear(hidden_size + self.context_encoder.context_size, hidden_size)
        layers = [
            nn.TransformerEncoderLayer(
                hidden_size, num_heads, intermediate_size, DROPOUT, activation="gelu", batch_first=True
            )
            for _ in range(num_layers)
        ]
        self.encoder = nn.TransformerEncoder(layers[0], num_layers, enable_nested_tensor=False)
        self.encoder.layers = nn.ModuleList(layers)  # each with a start of its own, not copies of the first
        self.head = TextHead(hidden_size, num_labels=num_labels, layout=(), conditioning="none", dropout=DROPOUT)

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        tokens = self.features(input_ids, is_real.long())
        if context is None:
            context = self.context_encoder.missing(len(input_ids), device=input_ids.device)
        vector = self.context_encoder(context).vector
        beside = vector.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        hidden = self.encoder(self.entry(torch.cat([tokens, beside], dim=-1)), src_key_padding_mask=~is_real)
        return self.head(self.pooling(hidden, is_real), None)
