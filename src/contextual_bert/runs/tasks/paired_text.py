"""What the tasks share that learn from two texts a row, each encoded by itself, with all weights new where no
checkpoint is named.

It knows no objective.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split, TextTable
from contextual_bert.data.checked_columns import text_column
from contextual_bert.errors import DataError
from contextual_bert.inference import EncodedTexts, encode_texts
from contextual_bert.models import ContextFeatureExtractor, ContextualBertProcessor
from contextual_bert.nouns import counted
from contextual_bert.runs.tasks.token_model import TokenModelTask
from contextual_bert.training.recipe import Recipe

# Of an encoder all of whose weights are new.
SMALL_ENCODER: Mapping[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0,
}
# Of what starts from nothing.
NEW_ENCODER_TRAINING: Mapping[str, Any] = {
    "learning_rate": 2e-3,
    "lr_scheduler_type": "cosine",
    "per_device_train_batch_size": 64,
}
PADDING = "<|padding|>"


class PairedTextTask(TokenModelTask):
    """A task with a second text a row, which is encoded by itself and without a context."""

    new_fields = SMALL_ENCODER

    @classmethod
    def check_second(cls, recipe: Recipe, examples: TextTable, name: str, *, noun: str, advice: str) -> None:
        """Raise DataError where a cell of the column of second texts is no text, or has nothing in it.

        Args:
            recipe: names the table.
            examples: all texts.
            name: of the column.
            noun: what a cell of it is.
            advice: why none may be empty.
        """
        column = text_column(examples.table.column(name), name)
        is_empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
        row = pc.index(is_empty, True).as_py()
        if row >= 0:
            number = pc.sum(is_empty).as_py()
            raise DataError(
                f"the {noun} is empty ({counted(number, 'such row')})",
                file=recipe.data,
                row=row,
                column=name,
                fix=f"{advice}: fill it in, or leave the row out of the table.",
            )

    @classmethod
    def first_processor(
        cls, recipe: Recipe, split: Split, texts: TextTable, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor with the tokenizer of the checkpoint; without one, one that both training texts teach."""
        task = recipe.text_task
        if task.checkpoint is not None:
            return super().first_processor(recipe, split, texts, schema)
        training = split.select(texts, "train").table
        first, second = (training.column(name).cast(pa.string()).to_pylist() for name in task.text_columns)
        both = pa.chunked_array([[f"{one}\n{other}" for one, other in zip(first, second, strict=True)]])
        processor = cls.taught_processor(recipe, split, training, both, schema)
        tokenizer: Any = processor.tokenizer
        tokenizer.add_special_tokens({"pad_token": PADDING})  # an encoder learns the end of a text, and no padding
        tokenizer.padding_side = "right"
        tokenizer.init_kwargs["padding_side"] = "right"
        return processor

    def encode_alone(self, table: pa.Table, name: str) -> EncodedTexts:
        """Encode a column of texts without a context.

        Args:
            table: has the column.
            name: of the column.
        """
        alone = ContextualBertProcessor(ContextFeatureExtractor(), self._tokenizer)
        task = self.recipe.text_task
        how: dict[str, Any] = {"max_length": task.max_length, "truncation": task.truncation}
        return encode_texts(table, alone, text=name, **how)
