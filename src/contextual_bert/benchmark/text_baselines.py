"""What is compared with on texts: the baselines' models, and a context in words for the one that reads it so.

It trains nothing. How a baseline works is its own file's matter, in ``baselines``.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from torch import Tensor, nn

from contextual_bert.baselines import BiLSTM, BiLSTMTagger, ConcatText, ConcatWord, LabelShares, NgramBag, TextCNN
from contextual_bert.baselines.text import LabelModel
from contextual_bert.benchmark.building import has_context
from contextual_bert.benchmark.checks import CONTEXT_AS_TEXT, TAG_BASELINES, TEXT_BASELINES
from contextual_bert.benchmark.text_preparation import TextPreparation
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.texts.context_words import context_words
from contextual_bert.models import ContextualBertModel
from contextual_bert.models.pretrained import extra_layers_of
from contextual_bert.models.sequence_classification import OrdinalClassifier, vector_of_text
from contextual_bert.training.recipe import Recipe

EXTRA_LAYERS = 6  # of BERT Concat (word), as in MA-BERT


def baselines_of(head: str) -> list[str]:
    """The baselines that can learn what a head learns.

    Example:
        >>> baselines_of("tags")
        ['bilstm', 'bilstm_context', 'bilstm_crf', 'bilstm_crf_context', 'bert_context_as_text']
    """
    of_texts = [each for each in TEXT_BASELINES if "_crf" not in each]  # a chain needs words with a label each
    return {"classification": of_texts, "tags": [*TAG_BASELINES, CONTEXT_AS_TEXT], "masked_lm": [CONTEXT_AS_TEXT]}[head]


def baseline_on_texts(recipe: Recipe, ready: TextPreparation) -> LabelModel:
    """The model of a baseline that is none of BERT's own heads.

    Raises:
        ConfigurationError: it cannot learn these labels.
    """
    model = _baseline(recipe, ready)
    if ready.task.is_ordinal:  # the head of the models that it is compared with
        model.head.output = OrdinalClassifier(model.head.output.in_features, len(ready.labels))
    return model


def words_of(ready: TextPreparation) -> dict[str, dict[str, Tensor]]:
    """Part -> its context in words, as ``context_words`` gives them."""
    schema, tokenizer = ready.processor.schema, ready.processor.tokenizer
    rows = {part: ready.table.take(pa.array(ready.split.rows(part))) for part in ready.datasets}
    return {part: context_words(table, schema, tokenizer) for part, table in rows.items()} if schema else {}


def check_room(words: Mapping[str, Mapping[str, Tensor]], ready: TextPreparation, *, num_positions: int) -> None:
    """Raise ConfigurationError unless a text and its context in words are read whole."""
    for part, columns in words.items():
        num_words = 1 + sum(values.shape[1] for values in columns.values())  # and [SEP]
        length = int(ready.datasets[part].sizes.max())
        if length + num_words > num_positions:
            raise ConfigurationError(
                f"{CONTEXT_AS_TEXT!r}: as text the context of the {part} part has up to {num_words} tokens, its texts "
                f"have up to {length}, and {ready.task.checkpoint} reads {num_positions}. Give a smaller max_length "
                "(--max-length), or leave a column out with exclude (--exclude)."
            )


def _baseline(recipe: Recipe, ready: TextPreparation) -> LabelModel:
    tokenizer: Any = ready.processor.tokenizer
    schema, name = ready.processor.schema, recipe.conditioning
    has_crf = "_crf" in name
    possible = baselines_of(ready.head)
    if name not in possible:
        allowed = ", ".join(possible)
        raise ConfigurationError(f"The baseline {name!r} cannot learn these labels. Allowed: {allowed}.")
    layout = schema.layout if schema is not None and has_context(recipe) else ()
    labels: dict[str, Any] = {"num_labels": len(ready.labels), "layout": layout}
    reader: dict[str, Any] = {
        **labels,
        "conditioning": "concat" if layout else "none",
        "reserved_ids": tokenizer.all_special_ids,
    }
    if name.endswith("popularity"):
        return LabelShares(**labels, conditioning=reader["conditioning"])
    if name.startswith("ngrams"):
        return NgramBag(tokenizer.convert_ids_to_tokens(range(len(tokenizer))), **reader)
    if name.startswith("cnn"):
        return TextCNN(len(tokenizer), **reader)
    if name.startswith("bilstm") and ready.head == "tags":
        return BiLSTMTagger(len(tokenizer), **labels, conditioning=reader["conditioning"], has_crf=has_crf)
    if name.startswith("bilstm"):
        return BiLSTM(len(tokenizer), **reader)
    bert = ContextualBertModel.from_bert(ready.task.checkpoint, schema=None, conditioning="none")
    pooling = partial(vector_of_text, pooling=ready.pooling)
    if name == "bert_concat_text":
        return ConcatText(LastHidden(bert), pooling, hidden_size=bert.config.hidden_size, **labels)
    return ConcatWord(
        LastHidden(bert),
        pooling,
        hidden_size=bert.config.hidden_size,
        num_layers=extra_layers_of(recipe.model, default=EXTRA_LAYERS),
        num_heads=bert.config.num_attention_heads,
        intermediate_size=bert.config.intermediate_size,
        **labels,
    )


class LastHidden(nn.Module):
    """A model's last hidden states, as the baselines on a frozen BERT take them."""

    def __init__(self, model: ContextualBertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask).last_hidden_state
