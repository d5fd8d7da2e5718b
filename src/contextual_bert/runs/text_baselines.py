"""Baselines on texts: their models, logistic regressions, and the context as words for the one that reads it so.

Logistic regressions are the bar that every model has to clear. They have the models' split and context, and the
strength of the regularisation is chosen on the same validation part. ``tfidf`` reads the words of the whole text,
also where the models' is cut; ``embeddings`` a vector of what the models read, by the checkpoint as it is, which
nothing trains. Seeds change nothing. How a baseline works is its own file's matter, in ``baselines``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines import ConcatText, ConcatWord, FastText, LogisticClassifier
from contextual_bert.baselines.fasttext import HierarchicalSoftmax
from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.baselines.logistic import INVERSE_STRENGTHS, LabelledPart, has_common_word
from contextual_bert.baselines.names import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    FITTED_BASELINES,
    LOGISTIC,
    WHOLE_TEXTS,
)
from contextual_bert.baselines.shares import PRIORS, UNSEEN_LABEL, best_prior
from contextual_bert.context import FeatureLayout
from contextual_bert.context.encoding import rarely_missing
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.evaluation import LabelPredictions, NumberPredictions, Scores
from contextual_bert.inference.elmo import load_elmo
from contextual_bert.inference.encode import naming
from contextual_bert.inference.text_baseline import TextBaselineConfig, give_ordinal_head, label_model
from contextual_bert.inference.texts.sentence_encoder import SentenceEncoder
from contextual_bert.models import IGNORED_LABEL, ContextualBertModel, ContextualBertProcessor, rank_labels
from contextual_bert.models.bidirectional_lm import ElmoFeatures
from contextual_bert.models.label_heads import start_at_shares
from contextual_bert.models.pretrained import extra_layers_of
from contextual_bert.models.sequence_classification import vector_of_text
from contextual_bert.nouns import counted
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import check_learns, reads_characters, reads_elmo
from contextual_bert.runs.text_data import TextData
from contextual_bert.training.devices import chosen_device
from contextual_bert.training.progress import counting
from contextual_bert.training.recipe import Recipe

DEFAULT_STRENGTH = 10.0  # where no validation part can choose one
_BATCH_SIZE = 64

EXTRA_LAYERS = 6  # of BERT Concat (word), as in MA-BERT


class SentenceVectors:
    """Vectors of texts by a BERT that stays as it is, in the place of a vectoriser of scikit-learn.

    Shapes:
        texts (rows,) -> (rows, hidden) float32, of length 1.

    Args:
        ready: whose checkpoint it is, and how its texts are cut. A text that was met before is not read again.

    Attributes:
        num_parameters: of the checkpoint that reads; 0 before it has read anything.

    Reference:
        Reimers and Gurevych (2019), "Sentence-BERT", section 3.
    """

    def __init__(self, ready: TextData) -> None:
        self.task, self.pooling = ready.recipe.text_task, ready.pooling
        self.device = chosen_device(ready.recipe.device)
        self.known: dict[str, NDArray[np.float32]] = {}
        self.num_parameters = 0

    def fit(self, texts: Sequence[str]) -> Self:
        """Nothing is learned."""
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row a text."""
        new = sorted({*texts} - {*self.known})
        if new:
            self.known.update(zip(new, self._read(new), strict=True))
        return np.stack([self.known[text] for text in texts])

    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoder = SentenceEncoder(
            self.task.bert,
            pooling=self.pooling,
            max_length=self.task.max_length,
            truncation=cast(Any, self.task.truncation),
            device=self.device,
        )
        self.num_parameters = encoder.model.num_parameters()
        with counting("vectors of texts") as progress:
            return encoder.read(texts, progress=progress)


class LogisticBaseline(nn.Module):
    """A logistic regression as a row of a comparison on texts. It has no weights of torch, and none are kept.

    Args:
        ready: the data, with one label a text.
        name: of ``LOGISTIC``.

    Relation to its siblings:
        ``LogisticClassifier`` does the work. ``LabelShares`` does not read the text.
    """

    def __init__(self, ready: TextData, name: str) -> None:
        super().__init__()
        self.name = name
        reads, schema = LOGISTIC[name], ready.processor.schema
        self.columns = schema.read_columns if schema is not None and "context" in reads else ()
        self.vectors = SentenceVectors(ready) if name.startswith("embeddings") else None
        self.counts = ready.label_counts.numpy()
        self.has_choice = "validation" in ready.datasets and bool(self.counts[_labels(ready, "validation")].any())
        strengths = INVERSE_STRENGTHS if self.has_choice else (DEFAULT_STRENGTH,)
        num_labels = len(ready.labels)
        self.model = LogisticClassifier(num_labels=num_labels, inverse_strengths=strengths, vectorizer=self.vectors)
        self.prior_count = 0.0

    @property
    def num_weights(self) -> int:
        """Return the number of weights, those of the checkpoint that reads included."""
        return self.model.num_weights + (self.vectors.num_parameters if self.vectors is not None else 0)

    def fit(self, ready: TextData) -> dict[str, Any]:
        """Fit to convergence; return the inverse strength of the regularisation, chosen on the validation part.

        Where training lacks a label, return the prior count of each label, too, chosen in the same way.

        Raises:
            DataError: all texts have one label; no word is in two texts.
        """
        fault = unfit(ready, self.name)
        if fault is not None:
            raise fault
        texts, labels, context = self._part(ready, "train")
        validation = self._part(ready, "validation") if self.has_choice else None
        with naming(ready.recipe.data):
            self.model.fit(texts, labels, context, validation=validation)
        chosen = {"inverse_strength": self.model.inverse_strength}
        if self.counts.all():
            return chosen
        self.prior_count = self._best_prior(ready)
        return {**chosen, "prior_count": self.prior_count}

    def score(self, ready: TextData, part: str) -> Scores:
        """Return the scores of a part."""
        texts, labels, context = self._part(ready, part)
        shares = self._mixed(self.model.log_probabilities(texts, context), self.prior_count)
        true, rows = np.asarray(labels), _rows(ready, part)
        place = np.zeros(len(rows), dtype=np.int64)
        ranks = rank_labels(torch.from_numpy(shares), torch.from_numpy(true))
        predictions: Any = LabelPredictions(
            rows,
            place,
            predicted=shares.argmax(axis=1),
            true=true,
            names=ready.labels,
            is_ordinal=ready.recipe.text_task.is_ordinal,
        )
        if ready.bins is not None:
            predictions = NumberPredictions(rows, *ready.bins.read(np.exp(shares)).T, true=ready.numbers[rows])
        return Scores(rows, place, *(column.numpy() for column in ranks), predictions=predictions)

    def _mixed(self, log_probabilities: NDArray[np.float64], prior: float) -> NDArray[np.float64]:
        """Return (N p + a) / (N + a V) in logarithms: what ``LabelShares`` says where p is n / N."""
        num_rows = self.counts.sum()
        if not prior:
            return log_probabilities
        return np.logaddexp(np.log(num_rows) + log_probabilities, np.log(prior)) - np.log(
            num_rows + prior * len(self.counts)
        )

    def _best_prior(self, ready: TextData) -> float:
        """Return the prior count with the least cross-entropy of the validation, as ``LabelShares`` choose theirs."""
        if "validation" not in ready.datasets:
            return UNSEEN_LABEL
        texts, labels, context = self._part(ready, "validation")
        targets = np.asarray(labels)
        own = self.model.log_probabilities(texts, context)[np.arange(len(targets)), targets]
        least = UNSEEN_LABEL if self.counts[targets].all() else PRIORS[0]
        return best_prior(lambda prior: -float(self._mixed(own, prior).mean()), least=least)

    def _part(self, ready: TextData, part: str) -> LabelledPart:
        table = ready.examples.table.take(pa.array(_rows(ready, part)))
        texts = table.column(ready.recipe.text_task.text).to_pylist()
        return texts, _labels(ready, part), table.select([*self.columns]) if self.columns else None


def unfit(ready: TextData, name: str) -> DataError | None:
    """Return why a logistic regression cannot be fitted on these texts; None where it can.

    Args:
        ready: the data, with one label a text.
        name: of ``LOGISTIC``.
    """
    seen, task, file = np.flatnonzero(ready.label_counts.numpy()), ready.recipe.text_task, ready.recipe.data
    rows = _rows(ready, "train")
    if len(seen) < 2:
        return DataError(
            f"all {counted(len(rows), 'label')} of the training part (100.0%) are {ready.labels[seen[0]]!r}, and "
            "a logistic regression needs two labels",
            file=file,
            column=task.label,
            fix="Split so that the training part has two labels or more.",
        )
    texts = ready.examples.table.column(task.text).take(pa.array(rows)).to_pylist()
    if name.startswith("tfidf") and not has_common_word(texts):
        return DataError(
            f"none of the {counted(len(rows), 'text')} of the training part (0.0%) shares a word with another, and "
            "TF-IDF reads words of two texts or more",
            file=file,
            column=task.text,
            fix="Give more texts, or take a baseline that does not read words.",
        )
    return None


def _labels(ready: TextData, part: str) -> NDArray[np.int64]:
    """Return the labels of a part, of the rows that have one."""
    labels: Any = ready.datasets[part].labels
    return labels[labels != IGNORED_LABEL].numpy()


def _rows(ready: TextData, part: str) -> NDArray[np.int64]:
    """Return the rows of the table that a part has a label for."""
    dataset = ready.datasets[part]
    return dataset.example_ids[dataset.labels != IGNORED_LABEL].numpy()


def check_baseline(recipe: Recipe, ready: TextData) -> None:
    """Raise ConfigurationError for a baseline that cannot learn what these texts have."""
    check_learns(recipe.conditioning, ready.head)
    if recipe.text_task.long_documents and recipe.conditioning.startswith(("bert_", "embeddings")):
        raise ConfigurationError(
            f"is not allowed: the baseline {recipe.conditioning!r} reads with a BERT what its positions allow",
            setting="long_documents",
            value=True,
            fix=Message("Leave it out, and {truncation} says what is kept of longer texts.", truncation=NAME),
        )


def baseline_on_texts(recipe: Recipe, ready: TextData) -> LabelModel | LogisticBaseline:
    """The model of a baseline that is none of BERT's own heads."""
    if recipe.conditioning in LOGISTIC:
        return LogisticBaseline(ready, recipe.conditioning)
    if recipe.conditioning in BERTLESS_BASELINES:
        model = label_model(config_of(recipe, ready), ready.processor.tokenizer)
        if isinstance(model.elmo, ElmoFeatures):
            model.elmo.model.load_state_dict(load_elmo(str(ready.recipe.text_task.elmo)).state_dict())
    else:
        model = _on_frozen_bert(recipe, ready)
        if ready.recipe.text_task.is_ordinal:
            give_ordinal_head(model)
    at_shares = getattr(ready.recipe.task, "label_start", "shares") == "shares"
    if isinstance(model, FastText) and isinstance(model.head.output, HierarchicalSoftmax):
        model.head.output.grow(ready.label_counts, at_shares=at_shares)
    elif ready.head in WHOLE_TEXTS and at_shares and recipe.conditioning not in FITTED_BASELINES:
        start_at_shares(model.head.output, ready.label_counts, num_texts=ready.num_labelled_texts)
    return model


def config_of(recipe: Recipe, ready: TextData) -> TextBaselineConfig:
    """Return the configuration of a baseline that can be deployed."""
    context = {name: values.numpy() for name, values in ready.datasets["train"].context.items()}
    return TextBaselineConfig(
        name=recipe.conditioning,
        labels=ready.labels,
        layout=_layout_of(recipe, ready),
        has_tags=ready.head == "tagging",
        is_multi_label=ready.head == "multi_label",
        number_bins=ready.bins.as_lists() if ready.bins is not None else None,
        is_ordinal=ready.recipe.text_task.is_ordinal,
        rarely_missing=tuple(rarely_missing(context)),
        elmo=ready.elmo_settings if reads_elmo(recipe) else None,
        **{name: recipe.training[name] for name in ("context_dropout", "field_dropout") if name in recipe.training},
    )


def processor_of(recipe: Recipe, processor: ContextualBertProcessor) -> ContextualBertProcessor:
    """The processor that is saved with a run: it gives a context, and the words, as the run's model reads them."""
    if processor.max_characters is not None and not reads_characters(recipe):
        processor = processor.with_characters(None)
    return processor.with_context_as("text") if recipe.conditioning == CONTEXT_AS_TEXT else processor


def contexts_as_text(ready: TextData) -> dict[str, dict[str, Tensor]]:
    """Part -> its context in words."""
    processor = ready.processor.with_context_as("text")
    table, datasets = ready.examples.table, ready.datasets
    rows = {part: table.take(pa.array(texts.example_ids.numpy())) for part, texts in datasets.items()}
    encoded = {part: processor.encode_columns(table) for part, table in rows.items()}
    return {part: context.tensors for part, context in encoded.items() if context is not None}


def check_room(words: Mapping[str, Mapping[str, Tensor]], ready: TextData, *, num_positions: int) -> None:
    """Raise ConfigurationError unless a text and its context in words are read whole."""
    for part, columns in words.items():
        num_words = 1 + sum(values.shape[1] for values in columns.values())  # and [SEP]
        length = int(ready.datasets[part].sizes.max())
        if length + num_words > num_positions:
            raise ConfigurationError(
                f"{CONTEXT_AS_TEXT!r}: as text the context of the {part} part has up to {num_words} tokens, "
                f"its texts have up to {length}, and {ready.recipe.text_task.bert} reads {num_positions}",
                fix=Message("Give a smaller {max_length}, or leave a column out with exclude.", max_length=NAME),
            )


def _layout_of(recipe: Recipe, ready: TextData) -> tuple[FeatureLayout, ...]:
    """The features of the context that a baseline reads."""
    schema = ready.processor.schema
    return schema.layout if schema is not None and has_context(recipe) else ()


def _on_frozen_bert(recipe: Recipe, ready: TextData) -> LabelModel:
    """MA-BERT's controls BERT Concat (text) and BERT Concat (word)."""
    bert = ContextualBertModel.from_checkpoint(ready.recipe.text_task.bert, schema=None, conditioning="none")
    parts = LastHidden(bert), partial(vector_of_text, pooling=ready.pooling)
    sizes: dict[str, Any] = {
        "hidden_size": bert.config.hidden_size,
        "num_labels": len(ready.labels),
        "layout": _layout_of(recipe, ready),
    }
    if recipe.conditioning == "bert_concat_text":
        return ConcatText(*parts, **sizes)
    return ConcatWord(
        *parts,
        **sizes,
        num_layers=extra_layers_of(recipe.model, default=EXTRA_LAYERS),
        num_heads=bert.config.num_attention_heads,
        intermediate_size=bert.config.intermediate_size,
    )


class LastHidden(nn.Module):
    """A model's last hidden states, as the baselines on a frozen BERT take them."""

    def __init__(self, model: ContextualBertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask).last_hidden_state
