"""The objective of question answering: ends of answers are ranked, and the answers that are given are measured.

After each epoch the validation part has exact match and F1 as the final report has them, so the best epoch can be
chosen by them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import EvalPrediction

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.answer_predictions import AnswerPredictions
from contextual_bert.evaluation.metrics import ANSWER_METRICS
from contextual_bert.inference import EncodedQuestions
from contextual_bert.inference.texts.answer_scoring import measured_answers
from contextual_bert.inference.texts.answer_spans import MAX_ANSWER_TOKENS, best_spans, bounds_of
from contextual_bert.inference.texts.question_windows import NO_ANSWER
from contextual_bert.models import rank_labels, span_logits
from contextual_bert.nouns import counted
from contextual_bert.training.objectives import SPANS, LabelObjective


class AnswerObjective(LabelObjective):
    """Predict where the answer to a question begins and ends, and measure the answers of the validation part.

    Args:
        model: answers questions.
        dataset: windows that are learned from.
        validation: the questions of the validation part; None where there are none.
    """

    def __init__(self, model: nn.Module, dataset: SequenceDataset, validation: EncodedQuestions | None) -> None:
        super().__init__(model, dataset, names=())
        self.validation = validation
        self.label_metrics = ANSWER_METRICS if validation is not None else ()

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank both ends in each window; add the likeliest span, its probability and that of no answer."""
        labels = torch.stack([inputs.pop(name) for name in SPANS], dim=1)
        shares = span_logits(forward(**inputs), inputs).log_softmax(dim=-1)
        columns = [each.view(labels.shape) for each in rank_labels(shares.flatten(0, 1), labels.flatten())]
        shares = shares.cpu()
        ends = shares.float().numpy()
        spans = best_spans(ends[:, 0], ends[:, 1], max_tokens=MAX_ANSWER_TOKENS)
        first, last, best = map(torch.from_numpy, spans)
        none = shares[:, :, NO_ANSWER].sum(dim=1)
        found = torch.stack([first, last], dim=1), torch.stack([best, none], dim=1).double().exp()
        return (*columns, *(each.to(labels.device) for each in found)), labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of the ranks, and exact match and F1 of the questions.

        Raises:
            ConfigurationError: windows of other questions than those of the validation part.
        """
        found = super().summarise(prediction)
        if self.validation is None:
            return found
        order = self.validation.dataset.by_length()
        ends, shares = (np.asarray(column) for column in prediction.predictions[4:])
        if len(ends) != len(order):
            raise ConfigurationError(
                f"the validation part has {counted(len(order), 'window')}, and the scores are of {len(ends):,}",
                fix="Score other questions with score_answers.",
            )
        spans = np.empty((len(order), 4))
        first, last = ends.astype(np.int64).T
        starts, characters = self.validation.dataset.offsets[order].numpy(), self.validation.characters
        bounds = np.stack(bounds_of(characters, starts + first, starts + last), axis=1)
        spans[order.numpy()] = np.concatenate([shares, bounds], axis=1)
        rows: AnswerPredictions = measured_answers(self.validation, spans)
        means = rows.metrics(rows.columns().mean(axis=0))
        return {**found, **{key: float(value) for key, value in means.items()}}
