"""A recurrent network of gated units that reads a text in both directions: an LSTM without a cell beside its state.

Paper: Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
Translation".
"""

from torch import nn

from contextual_bert.baselines.bilstm import BiLSTM, BiLSTMTagger


class BiGRU(BiLSTM):
    """``BiLSTM`` with gated recurrent units.

    Example:
        >>> import torch
        >>> BiGRU(9, num_labels=2, hidden_size=4)(input_ids=torch.tensor([[3, 4], [5, 6]]))["logits"].shape
        torch.Size([2, 2])
    """

    kind = nn.GRU


class BiGRUTagger(BiLSTMTagger):
    """``BiLSTMTagger`` with gated recurrent units.

    Example:
        >>> import torch
        >>> BiGRUTagger(9, num_labels=5, hidden_size=4)(input_ids=torch.tensor([[3, 4, 1]]))["logits"].shape
        torch.Size([1, 3, 5])
    """

    kind = nn.GRU
