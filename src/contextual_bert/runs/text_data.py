"""Prepared texts: the encoded texts of each part, their labels, and the pooling of the checkpoint that reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, TextTable
from contextual_bert.data.label_lists import with_label_marks
from contextual_bert.data.number_bins import NumberBins, numbers_to_learn, with_bin_names
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, DataError, did_you_mean
from contextual_bert.inference import EncodedQuestions, EncodedTexts, encode_texts, placed
from contextual_bert.inference.elmo import elmo_config
from contextual_bert.models import IGNORED_LABEL
from contextual_bert.models.checkpoint_files import pooling_of
from contextual_bert.models.configuration_contextual_bert import POOLINGS
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.shifts import LEARNED


@dataclass(frozen=True, eq=False, kw_only=True)
class TextData(PreparedData):
    """The texts of one or more runs, encoded.

    Args:
        recipe, split, origin, remarks, selection, leaks, leaking, part_name: as for ``PreparedData``.
        processor: the checkpoint's tokenizer, or one of the words of the training texts, and the schema.
        examples: all texts.
        labels: names of the labels in the order of their ids; none where there are none.
        bins: of the numbers that are learned, whose names are the labels; None where labels are.
    """

    examples: TextTable
    labels: tuple[str, ...] = ()
    bins: NumberBins | None = None

    @cached_property
    def texts(self) -> dict[str, EncodedTexts | EncodedQuestions]:
        """Part -> its texts, or questions, encoded, with what became of them; parts without a row are left out."""
        rows = {part: self.split.rows(part) for part in PARTS}
        return {part: self._encoded_rows(found) for part, found in rows.items() if len(found)}

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number of each row of the table, those of no part too, where ``bins`` are there."""
        return numbers_to_learn(self.examples.table, str(self.recipe.text_task.label))

    def encoded(self, part: str) -> SequenceDataset | None:
        """Return the encoded texts of a part, None where it has none."""
        return self.texts[part].dataset if part in self.texts else None

    def encoding_lines(self, part: str) -> list[str]:
        """Return sentences on the texts that were cut, and on tokens that the checkpoint does not know."""
        return replace(self.texts[part].report, outside={}).lines(has_taught=part == LEARNED)

    def check_readable(self, part: str) -> None:
        """Raise DataError where there is nothing to read in the texts of a part, or no answer to its questions."""
        if part in self.texts and (fault := self.texts[part].report.fault):
            raise DataError(
                f"in the {part} part {fault}",
                file=self.recipe.data,
                column=self.recipe.text_task.answer or self.recipe.text_task.text,
                fix="Name another column, leave these rows out, or split the table in another way.",
            )

    def _encoded_rows(self, rows: NDArray[np.int64]) -> EncodedTexts | EncodedQuestions:
        """Return the texts of these rows, which are their example ids."""
        table = self.examples.table.take(pa.array(rows))
        try:
            encoded = self.encode_rows(table)
        except DataError as error:
            raise placed(error, rows, file=self.recipe.data) from error
        encoded.dataset.example_ids = torch.from_numpy(rows)[encoded.dataset.example_ids]
        return replace(encoded, report=encoded.report.at(rows))

    def encode_rows(self, table: pa.Table) -> EncodedTexts | EncodedQuestions:
        """Encode the texts of a table."""
        task = self.recipe.text_task
        if self.has_several_labels:
            table = with_label_marks(table, label=str(task.label), names=self.labels)
        elif self.bins is not None:
            table = with_bin_names(table, label=str(task.label), bins=self.bins)
        return encode_texts(
            table,
            self.processor,
            text=task.text,
            pair=task.pair,
            label=task.label,
            labels=self.labels if task.label is not None else None,
            max_length=task.kept_length,
            truncation=cast(Any, task.truncation),
        )

    @cached_property
    def elmo_settings(self) -> dict[str, Any]:
        """Return the settings of the language model that is read beside the words, which the recipe names."""
        return elmo_config(str(self.recipe.text_task.elmo)).own_settings

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens."""
        return len(self.processor.tokenizer)

    def with_schema(self, schema: ContextSchema, *, selection: Sequence[str] = ()) -> Self:
        """The same texts with another schema; nothing is tokenized again."""
        chosen = super().with_schema(schema, selection=selection)
        texts = cast(dict[str, EncodedTexts], self.texts)  # of questions nothing is chosen
        vars(chosen)["texts"] = {part: each.with_schema(schema) for part, each in texts.items()}
        return chosen

    @cached_property
    def pooling(self) -> str:
        """Return the pooling of a text: the recipe's, else that of the checkpoint's training.

        Raises:
            ConfigurationError: the recipe says something else.
        """
        if "classifier_pooling" in self.recipe.model:
            chosen = self.recipe.model["classifier_pooling"]
            if chosen not in POOLINGS:
                raise ConfigurationError(
                    "is unknown", setting="classifier_pooling", value=chosen, allowed=did_you_mean(chosen, POOLINGS)
                )
            return chosen
        task = self.recipe.text_task
        return "cls" if task.is_from_scratch or task.checkpoint is None else pooling_of(task.checkpoint)

    @property
    def has_several_labels(self) -> bool:
        """Return whether a text may have several labels at once."""
        return self.recipe.task.label_lists is not None

    @property
    def num_labelled_texts(self) -> int | None:
        """Return the number of training texts where each may have several labels; None where it has one."""
        return len(self.texts["train"].dataset) if self.has_several_labels else None

    @property
    def label_counts(self) -> Tensor:
        """Return how often each label occurs in the training part, (labels,), in the order of the ids."""
        labels: Any = self.texts["train"].dataset.labels
        if self.has_several_labels:
            return labels.sum(dim=0).long()
        return torch.bincount(labels[labels != IGNORED_LABEL], minlength=len(self.labels))
