"""What the tasks share that predict the tokens of a text one after another: a tokenizer that training texts may teach.

It knows no objective.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from contextual_bert.context import ContextSchema
from contextual_bert.data import Split
from contextual_bert.models import ContextFeatureExtractor, ContextualBertConfig, ContextualBertProcessor
from contextual_bert.models.checkpoint_files import tokens_of
from contextual_bert.nouns import counted
from contextual_bert.runs.run_schema import customers_in
from contextual_bert.runs.tasks.base import CountedTask
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.runs.text_starts import customers_of_texts
from contextual_bert.runs.trained_tokenizer import DEFAULT_LENGTH, DEFAULT_VOCAB_SIZE, trained_tokenizer
from contextual_bert.training.recipe import Recipe


class TokenModelTask(CountedTask, TextModelTask):
    """A task whose choices are the tokens of the checkpoint's tokenizer, or of one that the training texts teach.

    Attributes:
        new_fields: of the config of a model without a checkpoint.
    """

    num_sampled = 100
    new_fields: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def taught_processor(
        cls, recipe: Recipe, split: Split, training: pa.Table, texts: pa.ChunkedArray, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor whose tokenizer the training texts teach.

        Args:
            recipe: without a checkpoint.
            split: of the table.
            training: its rows of the training part.
            texts: what teaches, of these rows.
            schema: the features of the context.
        """
        task = recipe.text_task
        tokenizer = trained_tokenizer(
            texts,
            vocab_size=getattr(task, "vocab_size", None) or DEFAULT_VOCAB_SIZE,
            min_customers=recipe.min_customers,
            customers=customers_of_texts(recipe, training, split),
            max_length=recipe.model.get("max_position_embeddings", task.max_length or DEFAULT_LENGTH),
        )
        extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
        return ContextualBertProcessor(extractor, tokenizer)

    @property
    def has_field_gains(self) -> bool:
        """Return False. Millions of tokens that follow each other are no sample of shares."""
        return False

    def vocabulary_lines(self) -> list[str]:
        """Return a sentence on the tokenizer that the training texts have taught."""
        if self.recipe.text_task.checkpoint is not None:
            return super().vocabulary_lines()
        fewest = self.recipe.min_customers
        has_customers = customers_in(self.recipe, self.examples.table, self.split) is not None
        owners = counted(fewest, "customer" if has_customers else "training text")
        return [
            f"no checkpoint: all weights are new, and the tokenizer has {len(self._tokenizer):,} tokens, pieces of the "
            f"words of at least {owners}"
        ]

    def new_config(self, **fields: Any) -> ContextualBertConfig:
        """Return the config of a model without a checkpoint."""
        tokenizer = self._tokenizer
        return ContextualBertConfig.from_schema(
            self.processor.schema,
            **{
                **self.new_fields,
                **tokens_of(tokenizer),
                "vocab_size": len(tokenizer),
                "max_position_embeddings": tokenizer.model_max_length,
                "has_position_embeddings": True,
                **fields,
            },
        )

    @property
    def num_choices(self) -> int:
        """Return the number of ranked tokens."""
        return len(self._tokenizer)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of tokens; none is reserved."""
        return len(self._tokenizer), 0

    @cached_property
    def _tokenizer(self) -> Any:
        return self.processor.tokenizer
