"""UPNN: who writes, and about what, changes the meaning of each word before a network of filters reads them.

Without a context it is the CNN that its paper compares it with. Its paper gives each author and each product a matrix;
here a matrix is made from the vector of a feature of the context, so that numbers and unknown values have one, too.
Paper: Tang, Qin and Liu (2015), "Learning Semantic Representations of Users and Products for Document Level Sentiment
Classification", a row of MA-BERT's table.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.label_model import TextHead, WordReader, id_buffer
from contextual_bert.baselines.sentence_splitting import Sentences, sentence_ends, split_sentences
from contextual_bert.context import FeatureLayout

FILTER_WIDTHS = (1, 2, 3)  # words; Tang et al. (2015), section 4.1
RANK = 3  # of a matrix beside its diagonal; section 4.1


class WordMatrix(nn.Module):
    """The vectors of words, changed by a matrix that a feature of the context makes.

    Formula:
        x' = tanh(M x);  M = diag(1 + G e) + sum over r of (A_r e)(B_r e)^T

    Shapes:
        words (sentences, words, size), feature (sentences, feature) -> (sentences, words, size).

    Args:
        size: of the words' vectors.
        feature_size: width of e.

    Reference:
        Tang et al. (2015), equation 1, and section 4.1 for the matrix of low rank.

    Example:
        >>> WordMatrix(4, 2)(torch.zeros(1, 3, 4), torch.ones(1, 2)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, size: int, feature_size: int) -> None:
        super().__init__()
        self.diagonal = nn.Linear(feature_size, size, bias=False)
        self.left = nn.Linear(feature_size, RANK * size, bias=False)
        self.right = nn.Linear(feature_size, RANK * size, bias=False)

    def forward(self, words: Tensor, feature: Tensor) -> Tensor:
        left, right = (each(feature).view(len(words), RANK, -1) for each in (self.left, self.right))
        scaled = words * (1 + self.diagonal(feature)).unsqueeze(1)
        return (scaled + words @ right.transpose(1, 2) @ left).tanh()


class UPNN(WordReader):
    """A text's label from the mean of its sentences, each read by filters over one, two and three words.

    Formula:
        p_i = [M_1 x_i ; ... ; M_k x_i] (``WordMatrix``), without context x_i;  s = mean over widths of tanh(mean over
        places of W p + b);  logits = V [mean of s ; c] + b'

    Symbols:
        x_i the vector of word i; k features of the context; c all of them.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocabulary: the token of each id, reserved ones included; a run of ``sentence_ends`` ends a sentence.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none", or "concat" for the matrices and the context beside the text's vector.
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the words' vectors and of the text's.
        dropout: probability of dropping a component of a word's vector and of the text's.

    Raises:
        ConfigurationError: as ``TextHead``.

    Relation to its siblings:
        ``TextCNN`` takes the largest answer of each filter, this their mean, sentence by sentence.

    Example:
        >>> model = UPNN(["[PAD]", "so", "good", "."], num_labels=2, hidden_size=4)
        >>> model(input_ids=torch.tensor([[1, 2, 3, 2]]))["logits"].shape
        torch.Size([1, 2])
    """

    sentence_ends: Tensor

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(reserved_ids)
        self.register_buffer("sentence_ends", id_buffer(sentence_ends(vocabulary)), persistent=False)
        self.head = TextHead(
            hidden_size, num_labels=num_labels, layout=layout, conditioning=conditioning, dropout=dropout
        )
        self.embeddings = nn.Embedding(len(vocabulary), hidden_size)
        self.dropout = nn.Dropout(dropout)
        sizes = [each.embedding_size for each in layout] if conditioning == "concat" else []
        self.matrices = nn.ModuleList(WordMatrix(hidden_size, size) for size in sizes)
        width = hidden_size * max(1, len(sizes))
        self.filters = nn.ModuleList(nn.Conv1d(width, hidden_size, each) for each in FILTER_WIDTHS)

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        sentences = split_sentences(input_ids, self.read_positions(input_ids, is_real), self.sentence_ends)
        words = self.dropout(self.embeddings(sentences.words))
        encoder = self.head.context_encoder
        if encoder is not None:
            context = context or encoder.missing(len(input_ids), device=input_ids.device)
            features = encoder(context).features
            pairs = zip(self.matrices, features, strict=True)
            words = torch.cat([matrix(words, feature[sentences.text]) for matrix, feature in pairs], dim=2)
        vectors = self._read(words, sentences)
        total = vectors.new_zeros(len(input_ids), vectors.shape[1]).index_add(0, sentences.text, vectors)
        return self.head(total / sentences.num_sentences[:, None], context)

    def _read(self, words: Tensor, sentences: Sentences) -> Tensor:
        """Return a vector for each sentence; into one shorter than a filter that fits once, with zeros behind."""
        places = torch.arange(words.shape[1], device=words.device)
        words = (words * (places < sentences.num_words[:, None]).unsqueeze(2)).transpose(1, 2)
        found: list[Tensor] = []
        for width, convolution in zip(FILTER_WIDTHS, self.filters, strict=True):
            fits = (places <= (sentences.num_words - width)[:, None]) | (places == 0)
            answers = convolution(functional.pad(words, (0, width - 1))) * fits.unsqueeze(1)
            found.append((answers.sum(dim=2) / fits.sum(dim=1, keepdim=True)).tanh())
        return torch.stack(found).mean(dim=0)
