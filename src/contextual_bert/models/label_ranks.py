"""Rank of the true label among all, for texts and words as the masked-item head has it for items.

It knows logits and labels only, of a chain of labels what it says of each place, and of an answer where it may stand.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from contextual_bert.candidates import MaskedScores
from contextual_bert.models.masked_lm import IGNORED_LABEL


class LabelChain(Protocol):
    """Labels that are read together, such as ``contextual_bert.baselines.LinearChainCRF``; a model has it as ``crf``.

    Both take the logits (batch, length, labels) and where there is a label (batch, length).
    """

    def marginals(self, emissions: Tensor, is_in_chain: Tensor) -> Tensor:
        """The log-probability (batch, length, labels) of each label at each place."""
        ...

    def decode(self, emissions: Tensor, is_in_chain: Tensor) -> Tensor:
        """The labels (batch, length) that are the most likely ones together."""
        ...


@torch.no_grad()
def rank_labels(logits: Tensor, labels: Tensor) -> MaskedScores:
    """Rank the true label of each row.

    Shapes:
        logits (rows, labels), labels (rows,) from 0 on -> MaskedScores, (rows,) each.

    Args:
        logits: of any scale; log-probabilities are logits, too.
        labels: the true ones.

    Relation to its siblings:
        ``ContextualBertForMaskedLM.score_masked`` does it for items, without holding all logits.

    Example:
        >>> scores = rank_labels(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([1]))
        >>> int(scores.num_better), int(scores.num_tied)
        (1, 2)
    """
    shares = logits.float().log_softmax(dim=-1)
    own = shares.gather(1, labels[:, None])
    return MaskedScores(
        own.squeeze(1), (shares > own).sum(dim=-1), (shares == own).sum(dim=-1), shares.amax(dim=-1).exp()
    )


@torch.no_grad()
def rank_decisions(logits: Tensor, labels: Tensor) -> MaskedScores:
    """Rank the right one of two answers, yes and no, to each of several labels at once.

    Formula:
        log Pr(right) = -log (1 + exp(-s z)), s = 1 where the label is true and -1 where it is not

    Shapes:
        logits z (...), labels (...) of 0 and 1 -> MaskedScores, (...) each.

    Args:
        logits: of the labels; above 0 a label is predicted.
        labels: 1 for each label that is true.

    Relation to its siblings:
        ``rank_labels`` is for one label among all.

    Example:
        >>> scores = rank_decisions(torch.tensor([[2.0, -1.0, 0.0]]), torch.tensor([[1.0, 1.0, 0.0]]))
        >>> scores.num_better.tolist(), scores.num_tied.tolist()
        ([[0, 1, 0]], [[1, 1, 2]])
    """
    logits = logits.float()
    own = torch.where(labels > 0.5, logits, -logits)
    return MaskedScores(nn.functional.logsigmoid(own), (own < 0).long(), 1 + (own == 0).long(), logits.abs().sigmoid())


def label_logits(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """Logits whose softmax is the probability of each label at its place: of a chain of labels the marginal one.

    Shapes:
        logits (batch, ..., labels), labels (batch, ...), -100 where nothing is asked -> as the logits.

    Args:
        model: what gave the logits; its ``crf``, if it has one, is the chain.
        logits: what it gave.
        labels: the true ones; of a chain they say where it passes, and nothing else.

    Relation to its siblings:
        ``best_labels`` says which label is chosen.

    Example:
        >>> label_logits(torch.nn.Identity(), torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
        tensor([[2., 0.]])
    """
    chain: LabelChain | None = getattr(model, "crf", None)
    return logits if chain is None else chain.marginals(logits, labels != IGNORED_LABEL)


def best_labels(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """The label that is chosen at each place: the best one there, of a chain that of the best sequence.

    Shapes:
        logits (batch, ..., labels), labels (batch, ...), -100 where nothing is asked -> as the labels.

    Args:
        model, logits, labels: as for ``label_logits``.

    Example:
        >>> best_labels(torch.nn.Identity(), torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
        tensor([0])
    """
    chain: LabelChain | None = getattr(model, "crf", None)
    return logits.argmax(dim=-1) if chain is None else chain.decode(logits, labels != IGNORED_LABEL)


def span_logits(outputs: Mapping[str, Any], inputs: Mapping[str, Tensor]) -> Tensor:
    """Logits of the first and the last token of an answer, whose softmax is over the places where it may stand.

    These are the tokens of the text behind the question, and [CLS], which is no answer.

    Formula:
        Pr(start = i) = softmax over these places of start_i; of the end alike

    Shapes:
        start_logits, end_logits (batch, length) -> (batch, 2, length), -inf at all other places.

    Args:
        outputs: of a model that answers questions.
        inputs: its ``attention_mask`` and ``token_type_ids``, padded behind.

    Reference:
        Devlin et al. (2019), section 4.2.

    Example:
        >>> logits = {"start_logits": torch.zeros(1, 6), "end_logits": torch.zeros(1, 6)}
        >>> kinds = {"attention_mask": torch.tensor([[1] * 6]), "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1]])}
        >>> (span_logits(logits, kinds)[0, 0] == 0).tolist()
        [True, False, False, True, True, False]
    """
    kinds, is_real = inputs["token_type_ids"], inputs["attention_mask"].bool()
    places = torch.arange(kinds.shape[1], device=kinds.device)
    is_in_text = (kinds == 1) & is_real & (places < is_real.sum(dim=1, keepdim=True) - 1)
    logits = torch.stack([outputs["start_logits"], outputs["end_logits"]], dim=1).float()
    return logits.masked_fill(~(is_in_text | (places == 0))[:, None], -torch.inf)
