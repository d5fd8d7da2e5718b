"""A convolutional network over the words of a text, and the strongest answer of each filter.

Phrases of up to five tokens are seen, where they stand is not. It knows no tokenizer and no trained word vectors.
Paper: Kim (2014).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.label_model import TextClassifier
from contextual_bert.context import FeatureLayout
from contextual_bert.recurrent_reading import in_front

FILTER_WIDTHS = (3, 4, 5)  # tokens; Kim (2014), section 3.1


class TextCNN(TextClassifier):
    """A text's label from the largest answers of filters over three, four and five neighbouring tokens.

    Formula:
        h_f = max over i of ReLU(sum_{j < k} w_{f, j} x_{i + j} + b_f);  logits = W [h ; c] + b

    Symbols:
        x token embeddings; f a filter of width k; i a place where the filter fits into the text. Into a text shorter
        than k it fits once, with zeros behind the text.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocab_size: ids, reserved ones included.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the token embeddings.
        num_filters: filters of each width; h is three times as wide.
        dropout: probability of dropping a component of h.

    Raises:
        ConfigurationError: as ``TextHead``.

    Relation to its siblings:
        ``NgramBag`` adds up what it finds, this takes the strongest; ``BiLSTM`` reads further than five tokens.

    Reference:
        Kim (2014), "Convolutional Neural Networks for Sentence Classification", the variant CNN-rand: embeddings start
        at random, one channel. Its constraint on the norm of W is left out.

    Example:
        >>> TextCNN(9, num_labels=2)(input_ids=torch.tensor([[3, 4], [5, 6]]))["logits"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        num_filters: int = 100,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(
            num_filters * len(FILTER_WIDTHS),
            num_labels=num_labels,
            layout=layout,
            conditioning=conditioning,
            reserved_ids=reserved_ids,
            dropout=dropout,
        )
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        nn.init.uniform_(self.embeddings.weight, -0.25, 0.25)  # as Kim's words without a trained vector
        self.filters = nn.ModuleList(nn.Conv1d(hidden_size, num_filters, width) for width in FILTER_WIDTHS)

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        places, lengths = in_front(is_read)
        starts = torch.arange(places.shape[1], device=places.device)
        embedded = self.embeddings(input_ids.gather(1, places)) * (starts < lengths[:, None]).unsqueeze(2)
        answers: list[Tensor] = []
        for width, convolution in zip(FILTER_WIDTHS, self.filters, strict=True):
            found = convolution(functional.pad(embedded.transpose(1, 2), (0, width - 1))).relu()
            fits = (starts <= (lengths - width)[:, None]) | (starts == 0)
            # No answer is below 0, so what does not fit cannot win.
            answers.append(found.masked_fill(~fits.unsqueeze(1), 0.0).amax(dim=2))
        return torch.cat(answers, dim=1)
