"""Question answering: the piece of a text that answers a question, read in windows."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer

from contextual_bert.data import SequenceDataset
from contextual_bert.inference import EncodedQuestions, ScoredSet, score_answers
from contextual_bert.models import ContextualBertForQuestionAnswering
from contextual_bert.runs.answer_objective import AnswerObjective
from contextual_bert.runs.reporting import true_answers
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe


class QuestionAnsweringTask(TextModelTask):
    """Question answering on prepared questions and texts."""

    model_class = ContextualBertForQuestionAnswering
    learned = "answers"

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> ScoredSet:
        """Rank the ends of the true answer of each window."""
        encoded = cast(EncodedQuestions, self.ready.texts[part])
        return score_answers(model, replace(encoded, dataset=dataset), **settings)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> Trainer:
        """Return a trainer that measures the answers to the questions of the validation part after each epoch."""
        validation = settings["eval_dataset"]
        questions = cast(EncodedQuestions, self.ready.texts.get("validation"))
        asked = replace(questions, dataset=validation) if validation is not None else None
        objective = AnswerObjective(model, settings["train_dataset"], asked)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def own_segments(self, part: str, scored: ScoredSet, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return whether a question has an answer, where some have none."""
        return true_answers(scored.scores)
