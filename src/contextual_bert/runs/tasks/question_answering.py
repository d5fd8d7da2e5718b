"""Question answering: the piece of a text that answers a question, read in windows."""

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer

from contextual_bert.data import SequenceDataset
from contextual_bert.data.answers import strings_of
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedQuestions, encode_questions, score_answers
from contextual_bert.inference.inspected_queries import InspectedAnswer
from contextual_bert.models import ContextualBertForQuestionAnswering
from contextual_bert.runs.answer_objective import AnswerObjective
from contextual_bert.runs.reporting import true_answers
from contextual_bert.runs.shifts import single_lines
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import QuestionAnswering

NO_ANSWER = "(none)"


class QuestionAnsweringTask(TextModelTask):
    """Question answering on prepared questions and texts."""

    model_class = ContextualBertForQuestionAnswering
    learned = "answers"
    inspected = InspectedAnswer
    evaluated_as = EvaluationSettings(ks=(1,), row_name="answer end", set_name="question", choice_name="place")

    @property
    def has_field_gains(self) -> bool:
        """Return False. An answer is a place in its text: no share of it is known beside the text."""
        return False

    @property
    def num_choices(self) -> int:
        """Return the places of the longest window."""
        return max(int(windows.sizes.max()) for windows in self.datasets.values())

    def own_lines(self) -> list[str]:
        """Return sentences on what was cut, on parts with a single answer, and on where the weights start."""
        name = str(self.recipe.text_task.answer)
        answers = strings_of(self.examples.table, name, complete=False)
        counts = {
            part: Counter((answers[row] or "").strip() or NO_ANSWER for row in self.split.rows(part))
            for part in self.datasets
        }
        return [*super().own_lines(), *single_lines(counts, column=name, what="answer")]

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """The customer of each window of a part, None where the table names none."""
        return self.customers_of(self.datasets[part].example_ids.numpy())

    def encode_rows(self, table: pa.Table) -> EncodedQuestions:
        """Encode the questions of a table, with their texts in windows."""
        task = cast(QuestionAnswering, self.recipe.task)
        return encode_questions(
            table,
            self.processor,
            question=task.question,
            text=task.text,
            answer=task.answer,
            answer_start=task.answer_start,
            max_length=task.max_length,
        )

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank the ends of the true answer of each window."""
        encoded = cast(EncodedQuestions, self.texts[part])
        return score_answers(model, replace(encoded, dataset=dataset), **settings)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> Trainer:
        """Return a trainer that measures the answers to the questions of the validation part after each epoch."""
        validation = settings["eval_dataset"]
        questions = cast(EncodedQuestions, self.texts.get("validation"))
        asked = replace(questions, dataset=validation) if validation is not None else None
        objective = AnswerObjective(model, settings["train_dataset"], asked)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return whether a question has an answer, where some have none."""
        return true_answers(scored)
