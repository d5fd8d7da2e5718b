"""A linear-chain conditional random field: labels of a sequence that are read together, not one by one.

It knows emissions and labels, neither words nor what made the emissions. The chain runs over chosen positions only: the
pieces behind the first of a word, [CLS] and [SEP] have no label. It is written here because the packages for it on PyPI
are not maintained: pytorch-crf was last released in 2019, TorchCRF in 2020.
Paper: Lafferty, McCallum and Pereira (2001).
"""

import torch
from torch import Tensor, nn

from contextual_bert.baselines.bag import IGNORED_LABEL
from contextual_bert.errors import ConfigurationError
from contextual_bert.recurrent_reading import in_front


class LinearChainCRF(nn.Module):
    """The log-likelihood of label sequences given emissions, and the most likely sequence.

    Formula:
        s(y) = a_{y_1} + sum_t e_{t, y_t} + sum_{t > 1} T_{y_{t-1}, y_t} + z_{y_n};
        log Pr(y) = s(y) - log sum_y' exp s(y');
        Pr(y_t = k) proportional to exp(alpha_{t, k} + beta_{t, k})

    Symbols:
        e the emissions; a ``start``, T ``transitions``, z ``end``; t counts the positions of the chain, 1 to n, and not
        those of the text. alpha and beta: the logarithms of the sums of exp s over what may stand before a position,
        its own emission included, and behind it.

    Shapes:
        emissions (batch, length, labels); labels (batch, length), -100 where the chain does not pass; log-likelihoods
        (batch,).

    Args:
        num_labels: labels that a position can have.

    Raises:
        ConfigurationError: less than two labels.

    Relation to its siblings:
        Starts with all its weights at 0, where it is a softmax at each position by itself.

    Reference:
        Lafferty et al. (2001), "Conditional Random Fields"; for the forward, the backward and the Viterbi recursion
        Rabiner (1989), "A Tutorial on Hidden Markov Models".

    Example:
        >>> crf = LinearChainCRF(2)
        >>> crf(torch.zeros(1, 3, 2), torch.tensor([[0, -100, 1]])).exp()  # two labels at each of two positions
        tensor([0.2500], grad_fn=<ExpBackward0>)
        >>> crf.decode(torch.tensor([[[0.0, 1.0], [0.0, 9.0], [1.0, 0.0]]]), torch.tensor([[True, False, True]]))
        tensor([[   1, -100,    0]])
    """

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        if num_labels < 2:
            raise ConfigurationError(f"A chain of labels with num_labels={num_labels}", fix="Give 2 or more.")
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    def forward(self, emissions: Tensor, labels: Tensor) -> Tensor:
        """The log-likelihood of each row's labels; 0 for a row without any."""
        places, lengths, is_step = _chain(labels != IGNORED_LABEL)
        emissions = _gathered(emissions, places)
        labels = labels.gather(1, places).masked_fill(~is_step, 0)
        difference = self._score(emissions, labels, is_step, lengths) - self._normaliser(emissions, is_step)
        return difference.masked_fill(lengths == 0, 0.0)

    def _score(self, emissions: Tensor, labels: Tensor, is_step: Tensor, lengths: Tensor) -> Tensor:
        """s of the labels."""
        emitted = emissions.gather(2, labels.unsqueeze(2)).squeeze(2).masked_fill(~is_step, 0.0).sum(dim=1)
        moved = self.transitions.float()[labels[:, :-1], labels[:, 1:]].masked_fill(~is_step[:, 1:], 0.0).sum(dim=1)
        last = labels.gather(1, (lengths.clamp(min=1) - 1).unsqueeze(1)).squeeze(1)
        return self.start.float()[labels[:, 0]] + emitted + moved + self.end.float()[last]

    def _normaliser(self, emissions: Tensor, is_step: Tensor) -> Tensor:
        """The logarithm of the sum over all label sequences."""
        return (self._before(emissions, is_step)[-1] + self.end.float()).logsumexp(dim=1)

    def _before(self, emissions: Tensor, is_step: Tensor) -> list[Tensor]:
        """alpha (batch, labels) of each step, by the forward recursion; behind a chain that of its last step."""
        totals, transitions = [self.start.float() + emissions[:, 0]], self.transitions.float()
        for step in range(1, emissions.shape[1]):
            following = log_product(totals[-1], transitions) + emissions[:, step]
            totals.append(torch.where(is_step[:, step, None], following, totals[-1]))
        return totals

    def _behind(self, emissions: Tensor, is_step: Tensor) -> list[Tensor]:
        """beta (batch, labels) of each step, by the backward recursion; behind a chain that of its last step."""
        totals, transitions = [self.end.float().expand(emissions.shape[0], -1)], self.transitions.float().T
        for step in range(emissions.shape[1] - 1, 0, -1):
            ahead = log_product(emissions[:, step] + totals[-1], transitions)
            totals.append(torch.where(is_step[:, step, None], ahead, totals[-1]))
        return totals[::-1]

    @torch.no_grad()
    def marginals(self, emissions: Tensor, is_in_chain: Tensor) -> Tensor:
        """The log-probability (batch, length, labels) of each label at each position, whatever the labels of the others
        are; 0 where the chain does not pass.

        Example:
            >>> LinearChainCRF(2).marginals(torch.zeros(1, 2, 2), torch.tensor([[True, False]])).exp().tolist()
            [[[0.5, 0.5], [1.0, 1.0]]]
        """
        places, _, is_step = _chain(is_in_chain)
        gathered = _gathered(emissions, places)
        both = zip(self._before(gathered, is_step), self._behind(gathered, is_step), strict=True)
        totals = torch.stack([before + behind for before, behind in both], dim=1)
        found = totals.log_softmax(dim=2).masked_fill(~is_step.unsqueeze(2), 0.0)
        return torch.zeros_like(emissions, dtype=found.dtype).scatter(1, places.unsqueeze(2).expand_as(found), found)

    @torch.no_grad()
    def decode(self, emissions: Tensor, is_in_chain: Tensor) -> Tensor:
        """The most likely labels (batch, length), by the Viterbi recursion; -100 where the chain does not pass."""
        places, _, is_step = _chain(is_in_chain)
        gathered = _gathered(emissions, places)
        best = self.start.float() + gathered[:, 0]
        stay = torch.arange(best.shape[1], device=best.device).expand_as(best)
        origins: list[Tensor] = []
        for step in range(1, gathered.shape[1]):
            reached, origin = (best.unsqueeze(2) + self.transitions.float()).max(dim=1)
            best = torch.where(is_step[:, step, None], reached + gathered[:, step], best)
            origins.append(torch.where(is_step[:, step, None], origin, stay))
        path = [(best + self.end.float()).argmax(dim=1, keepdim=True)]
        for origin in reversed(origins):
            path.append(origin.gather(1, path[-1]))
        labels = torch.cat(path[::-1], dim=1).masked_fill(~is_step, IGNORED_LABEL)
        return torch.full_like(is_in_chain, IGNORED_LABEL, dtype=torch.int64).scatter(1, places, labels)


def log_product(scores: Tensor, matrix: Tensor) -> Tensor:
    """log sum over i of exp(scores_i + matrix_(i, j)), as a product of matrices: no (batch, m, n) sums are held.

    What is 88 below the largest summand counts as nothing.

    Shapes:
        scores (batch, m), matrix (m, n) -> (batch, n), all float32.

    Example:
        >>> log_product(torch.zeros(1, 2), torch.zeros(2, 3)).exp()
        tensor([[2., 2., 2.]])
    """
    with torch.autocast(scores.device.type, enabled=False):  # which would take bfloat16 for a product
        largest, top = scores.detach().amax(dim=1, keepdim=True), matrix.detach().amax(dim=0)
        summed = (scores - largest).exp() @ (matrix - top).exp()
        return summed.clamp(min=torch.finfo(summed.dtype).tiny).log() + largest + top


def _chain(is_in_chain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The places of each row's chain in front of the rest, how many they are, and which of them are the chain's."""
    places, lengths = in_front(is_in_chain)
    return places, lengths, torch.arange(places.shape[1], device=places.device) < lengths[:, None]


def _gathered(emissions: Tensor, places: Tensor) -> Tensor:
    """The emissions at the places, as float32: sums over a chain are too long for half precision."""
    return emissions.float().gather(1, places.unsqueeze(2).expand(-1, -1, emissions.shape[2]))
