"""Set completion: items of a set are masked and predicted from the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import TrainerCallback

from contextual_bert.baselines import HistoryBaseline, ItemKNN, ItemPopularity
from contextual_bert.baselines.names import SET_BASELINES
from contextual_bert.baselines.purchases import longest_histories
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import ContextSchema, bin_names
from contextual_bert.context.kinds.history import history_items
from contextual_bert.data import DrawnBaskets, SequenceDataset, SetTable, ShuffledContext, Split
from contextual_bert.data.next_items import in_pieces
from contextual_bert.data.time_gaps import check_unit
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.evaluation import EvaluationSettings, Scores, Unscored
from contextual_bert.evaluation.metrics import NEXT_ITEM
from contextual_bert.inference import (
    Catalogue,
    CompletionPipeline,
    encode_sets,
    score,
    score_new_items,
    score_next_items,
    score_whole_sets,
    set_index,
)
from contextual_bert.inference.inspected_queries import InspectedSet
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.inference.saved_files import LARGEST_SET
from contextual_bert.inference.scoring import item_rows
from contextual_bert.inference.whole_rows import ChoiceRows
from contextual_bert.models import RESERVED_ITEMS, ContextualBertProcessor
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.catalogue_reading import catalogue_features, texts_of_run
from contextual_bert.runs.item_start import settle_values, stored_features
from contextual_bert.runs.model_factory import build_model, check_possible, count_counted
from contextual_bert.runs.next_table import item_lines, missing_items
from contextual_bert.runs.run_schema import check_brought
from contextual_bert.runs.sequences import longest_read, positions_of, predicts_next
from contextual_bert.runs.shifts import LEARNED, counts_of, drift_line, single_lines
from contextual_bert.runs.tasks.base import CountedTask, targets_in
from contextual_bert.runs.unscored import unscored_items, unscored_next_items
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.defaults import (
    BAG_LEARNING_RATE,
    LARGEST_EXACT,
    LEARNING_RATE,
    next_item_defaults,
    set_defaults,
    whole_set_defaults,
)
from contextual_bert.training.devices import chosen_device
from contextual_bert.training.objectives import NextItemObjective, Objective, WholeSetObjective
from contextual_bert.training.private_settings import is_private
from contextual_bert.training.private_trainer import PrivateTrainer
from contextual_bert.training.recipe import BEST_METRIC, Recipe

FREQUENCY_FEATURE = "masked item, times in training"
_FREQUENCY_OF_NEXT = f"{NEXT_ITEM}, times in training"
FREQUENCY_EDGES = (10.0, 100.0, 1_000.0)
NEW_ITEM = "0, a new item"  # known by its features


@dataclass(frozen=True, eq=False, kw_only=True)
class SetCompletionTask(CountedTask):
    """Set completion: the sets of one or more runs, and their models.

    Args:
        recipe, split, origin, remarks, selection, leaks, leaking, part_name, item_features: as for ``PreparedData``.
        processor: vocabulary of the training part, and the schema.
        examples: all sets that were kept.
        learned_items: the items that a finished run learned from, where they are in no part of these data.
    """

    counted = (ItemPopularity, ItemKNN, HistoryBaseline)
    name_of_shares = "counted popularity"
    inspected = InspectedSet

    examples: SetTable
    learned_items: pa.Array | None = None

    @classmethod
    def start_of(cls, recipe: Recipe) -> str | None:
        """Return the run that is started from."""
        return recipe.set_task.init_from

    @classmethod
    def known_processor(cls, recipe: Recipe) -> ContextualBertProcessor | None:
        """Return the processor of the run that is started from."""
        start = recipe.set_task.init_from
        if start is None:
            return None
        processor = CompletionPipeline.from_pretrained(start).processor
        check_brought(processor.schema, recipe, run=start)
        return processor

    @classmethod
    def learned_from(
        cls,
        recipe: Recipe,
        known: ContextualBertProcessor | None,
        schema: ContextSchema | None,
        *,
        examples: SetTable,
        split: Split,
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the vocabulary of the training sets; that of the run that is started from, with new items appended."""
        training, start = split.select(examples, "train"), recipe.set_task.init_from
        if known is None or start is None:
            items = sorted({*training.distinct_items(), *items_before(recipe, training, schema)})
            return _with_catalogue(ContextualBertProcessor.from_items(items, schema), recipe)
        told_of = history_items(examples.table, schema.history_columns if schema is not None else (), least=1)
        every = pa.concat_arrays([examples.values.unique().cast(pa.string()), pa.array(told_of, pa.string())])
        are_retired, gone = recipe.set_task.retire_missing_items, missing_items(known, every)
        kept = known.without_items(gone) if are_retired and gone else known
        if not kept.items.values:
            raise DataError(
                f"no set holds an item of {start}: all would be retired",
                file=recipe.data,
                fix=Message("Train without {init_from}, or name the column of its items.", init_from=NAME),
            )
        are_withheld = schema is not None and any(each.shares_items and each.sensitive for each in schema.features)
        how: dict[str, Any] = {"are_retired": are_retired, "are_withheld": are_withheld}
        lines = item_lines(known, training.values, gone, **how, run=start, file=recipe.data)
        items = [*training.distinct_items(), *items_before(recipe, training, schema)]
        own, told = _with_catalogue_of_run(kept.with_items(items), recipe)
        return own, [*lines, *told]

    @classmethod
    def load_model(cls, directory: Path, recipe: Recipe) -> tuple[ContextualBertProcessor, Any]:
        """Return the processor and the model of a finished run on sets."""
        pipeline = CompletionPipeline.from_pretrained(directory, device=chosen_device(recipe.device))
        return pipeline.processor, pipeline.model

    @classmethod
    def known_fields(cls, model: Any, training: SetTable | None) -> dict[str, Any]:
        """Return the items that the run learned from."""
        return {"learned_items": training.values if training is not None else None}

    @cached_property
    def training_ids(self) -> NDArray[np.int64] | None:
        """The ids of all items that were learned from, None where they are not known."""
        if self.learned_items is not None:
            known = self.processor.items.lookup(self.learned_items)
            return known[known >= 0]
        # A copy: workers of a data loader that are spawned take the data set's memory with them.
        return self.datasets["train"].input_ids.numpy().copy() if "train" in self.datasets else None

    @property
    def facts(self) -> dict[str, Any]:
        """Return the size of the largest training set."""
        return {LARGEST_SET: int(self.datasets["train"].sizes.max())}

    @property
    def num_choices(self) -> int:
        """Return the number of ranked items."""
        return len(self.processor.items.values)

    def encoded(self, part: str) -> SequenceDataset | None:
        """The encoded sets of a part, None where it has none."""
        chosen = self.split.select(self.examples, part)
        return encode_sets(chosen, self.processor, file=self.recipe.data) if len(chosen) else None

    @property
    def vocab_size(self) -> int:
        """Return the number of ids of items, reserved ones included."""
        return len(self.processor.items)

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return a sentence on the items that the vocabulary does not know; none where it knows all."""
        if num_unknown == 0:
            return []
        values = self.split.select(self.examples, part).values
        is_known = self.processor.items.lookup(values) >= 0
        new = sorted(set(values.filter(pa.array(~is_known)).to_pylist()))
        listed = ", ".join(new[:5]) + (", ..." if len(new) > 5 else "")
        return [
            f"{num_unknown:,} of {counted(len(values), 'position')} {agreeing('hold', num_unknown)} what the run never "
            f"saw, {counted(len(new), 'item')} in all ({listed}): not ranked, and left out"
        ]

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """The items of a part that were not scored: rare and new ones, those of sets that are left out or cut."""
        name, customers = self.part_name or part, self.customers(part)
        if self.recipe.set_task.hide == "next":
            return unscored_next_items(self.datasets[part], scores, part=name, customers=customers)
        return unscored_items(
            self.examples,
            self.datasets[part],
            scores,
            rows=self.split.rows(part),
            part=name,
            policy=self.recipe.set_task.policy,
            customers=customers,
        )

    def own_lines(self) -> list[str]:
        """Return a sentence where the training part has a single item."""
        (*names,) = self.processor.items.values
        count = int((self.datasets[LEARNED].input_ids >= len(self.processor.items.reserved)).sum())
        one = {LEARNED: {names[0]: count}} if len(names) == 1 else dict[str, Mapping[str, int]]()
        return single_lines(one, column=self.recipe.set_task.items, what="item")

    def drift_lines(self, part: str) -> list[str]:
        """Return a sentence on the items whose share differs most between training and a part."""
        items = self.processor.items
        first = len(items.reserved)
        counts = (counts_of(self.datasets[each].input_ids - first, len(items.values)) for each in ("train", part))
        return drift_line(items.values.__getitem__, *counts, part=part, what="items")

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings by the number of training sets; a bag has a rate of its own."""
        return {**self._default_loss(recipe), **self._training_by_size(recipe), **_best_by_rank(recipe)}

    def _default_loss(self, recipe: Recipe) -> dict[str, Any]:
        """Return a sampled loss where there are very many items, and a model can learn by one."""
        schema = self.processor.schema
        has_histories = schema is not None and any(shape.form == "history" for shape in schema.layout)
        is_bound = "loss" in recipe.training or recipe.conditioning in SET_BASELINES or has_histories
        if is_bound or self.item_features is not None or len(self.processor.items) <= LARGEST_EXACT:
            return {}
        return {"loss": "sampled_softmax"}

    def _training_by_size(self, recipe: Recipe) -> Mapping[str, Any]:
        training = self.datasets["train"]
        if recipe.set_task.hide == "set" and recipe.conditioning not in SET_BASELINES:
            return whole_set_defaults(self.num_learned_rows(recipe), given=recipe.training)
        if predicts_next(recipe):
            return next_item_defaults(self.num_learned_rows(recipe), given=recipe.training)
        sizes, num_items = training.sizes, len(training.input_ids.unique())
        default_rate = BAG_LEARNING_RATE if recipe.conditioning in SET_BASELINES else LEARNING_RATE
        return set_defaults(
            len(sizes),
            median_size=float(np.median(sizes)),
            sightings=float(sizes.sum()) / num_items,
            given=recipe.training,
            default_rate=default_rate,
        )

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a method or baseline cannot be had on these sets."""
        check_possible(recipe, self)

    def build_model(self, recipe: Recipe, *, is_quiet: bool = False) -> nn.Module:
        """Build a new model, that of ``init_from``, or a baseline."""
        return build_model(recipe, self, is_quiet=is_quiet)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """Return the model; values of items' features that no learned item has are then the mean of their feature."""
        settle_values(model)
        return model

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters by the paper's rule."""
        return count_counted(model)

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> ContextualBertTrainer:
        """Return a trainer that masks the sets of the recipe, hides them whole, or asks for what comes next."""
        trainer = PrivateTrainer if is_private(recipe.training) else ContextualBertTrainer
        return trainer(
            model,
            arguments,
            train_dataset=self.learned_sets(recipe),
            eval_dataset=self.dataset(recipe, "validation"),
            processor=self.processor,
            patience=recipe.patience,
            callbacks=[*callbacks],
            objective=self._objective(recipe, model, arguments),
        )

    def _objective(self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments) -> Objective | None:
        """Return what is learned; None for items that are masked."""
        ids = self.processor.tokenizer
        if recipe.set_task.hide == "set":
            return WholeSetObjective(ids)
        if recipe.set_task.hide == "next":
            longest = positions_of(model)
            return NextItemObjective(arguments, ids, reads_before=predicts_next(recipe), longest=longest)
        return None

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """Return the sets of a part, as for ``Task``; without the gaps of time that the recipe does not read."""
        own = super().dataset(recipe, part)
        return own if own is None or recipe.set_task.time_gaps else own.without_segments()

    def learned_sets(self, recipe: Recipe) -> SequenceDataset | None:
        """Return the training sets, long sequences in pieces; and where the recipe says so baskets of histories."""
        own, schema, task = self.dataset(recipe, "train"), self.processor.schema, recipe.set_task
        longest = longest_read(recipe, self.datasets) if own is not None and task.hide == "next" else None
        if longest is not None:
            pieces = in_pieces(self.datasets["train"], longest, asks_all=predicts_next(recipe))
            return ShuffledContext(pieces, seed=recipe.seed) if recipe.is_context_shuffled else pieces
        names = [each.name for each in schema.read_features if each.shares_items] if schema is not None else []
        if own is None or task.hide != "set" or len(names) != 1 or recipe.is_context_shuffled:
            return own  # of two histories the second would show what became of a drawn basket
        order = task.history_baskets or ("past" if self._has_one_row_each() else "off")
        return own if order == "off" else DrawnBaskets(own, history=names[0], order=order, seed=recipe.seed)

    def num_learned_rows(self, recipe: Recipe) -> int:
        """Return the number of training sets, and of the baskets that are learned besides."""
        return len(self.learned_sets(recipe) or ())

    def _has_one_row_each(self) -> bool:
        """Whether no customer has two rows in the training part."""
        customers = self.customers("train")
        return customers is None or len(np.unique(customers)) == len(customers)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Mask every position of every set once, or hide each set whole, and rank the true item."""
        scorer = cast(Any, model)  # each model here has score_masked, and gives logits
        place: dict[str, Any] = {"file": self.recipe.data, "column": self.recipe.set_task.order}
        check_unit(self.examples.times, getattr(model, "config", None), **place)
        if self.recipe.set_task.hide == "items":
            self._check_positions(dataset, positions_of(model))
            return score(scorer, dataset, **settings)
        if not self.hides_sets:
            longest = positions_of(model)
            return score_next_items(scorer, dataset, longest=longest, item_counts=self.item_counts, **settings)
        truth = self.datasets[part]
        return score_whole_sets(scorer, dataset, item_counts=self.item_counts, truth=truth, **settings)

    def new_item_shares(
        self, model: nn.Module, dataset: SequenceDataset, scored: Scores, **settings: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Return what the model gives the items that it knows by their features alone, and whether one is asked for."""
        attributes = stored_features(model)
        if attributes is None or not attributes.is_new.any():
            return None
        hide, is_new = self.recipe.set_task.hide, attributes.is_new.cpu()
        longest = {"longest": positions_of(model)} if hide == "next" else {}
        shares = score_new_items(cast(Any, model), dataset, scored, is_new, hide=hide, **longest, **settings)
        return shares, is_new.numpy()[targets_in(dataset, scored)]

    def choice_rows(self, model: Any, dataset: SequenceDataset) -> ChoiceRows | None:
        """Return the rows in which an item is chosen."""
        hide = self.recipe.set_task.hide
        return item_rows(dataset, hide=hide, longest=positions_of(model) if hide == "next" else None)

    def name_of_choice(self, number: int) -> str:
        """Return the name of an item."""
        return self.processor.items.value_of(number)

    def _check_positions(self, dataset: SequenceDataset, longest: int | None) -> None:
        """Raise DataError for a set with more items than a model of gaps has positions."""
        largest = int(dataset.sizes.max(initial=0))
        if longest is not None and largest > longest:
            raise DataError(
                f"the set has {largest:,} items, and the model reads at most {longest:,}",
                file=self.recipe.data,
                row=int(dataset.example_ids[int(dataset.sizes.argmax())]),
                column=self.recipe.set_task.items,
                fix=Message("Leave it out, or train with {model}.", model={"max_position_embeddings": largest}),
            )

    @property
    def hides_sets(self) -> bool:
        """Whether sets are hidden as a whole."""
        return self.recipe.set_task.hide == "set"

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings: a row of sets that are hidden as a whole is a hidden item, or a next item."""
        own, task = super().settings, self.recipe.set_task
        names = {"set": "hidden item", "next": NEXT_ITEM}
        return replace(own, row_name=names.get(task.hide, own.row_name), set_name=task.row_noun)

    @cached_property
    def item_counts(self) -> NDArray[np.int64] | None:
        """How often the training sets hold each item behind the reserved ids, None where they are not known."""
        training, first = self.training_ids, len(RESERVED_ITEMS)
        return None if training is None else np.bincount(training, minlength=self.vocab_size)[first:].astype(np.int64)

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return how often the masked item is in training."""
        training, dataset = self.training_ids, self.datasets[part]
        if training is None:
            return {}
        feature = _FREQUENCY_OF_NEXT if self.recipe.set_task.hide == "next" else FREQUENCY_FEATURE
        return {feature: item_frequencies(training, dataset, index, scored.position)}

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Count what a baseline counts; of customers with several rows a history is counted once."""
        customers = self.customers("train")
        if not isinstance(model, HistoryBaseline) or customers is None:
            return super().fit(recipe, model)
        training, validation = self.datasets["train"], self.datasets.get("validation")
        rows = longest_histories(training.context[model.history], customers)
        asked = self.observations(validation) if validation is not None else None
        return model.fit(self.observations(training.subset(rows)), asked)

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the items of the sets as classes."""
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        return Observations(dataset.input_ids, rows, dataset.context)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of ids of the vocabulary, and the number of reserved ones."""
        return len(self.processor.items), len(RESERVED_ITEMS)

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the masked items."""
        return targets_in(self.datasets[part], scored)

    def share_losses(self, part: str, scored: Scores, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares; over "candidates" the share of the visible items is no alternative."""
        if softmax_over != "candidates" or self.recipe.set_task.hide != "items":
            return super().share_losses(part, scored, softmax_over=softmax_over)
        shares, dataset = self.log_shares(is_without_visible=True), self.datasets[part]
        own = shares[self.targets(part, scored)]
        of_others = _sums_of_sets(dataset, np.exp(shares))[set_index(dataset, scored.example_id)] - np.exp(own)
        return np.log(np.maximum(1 - of_others, 1e-30)) - own


def _best_by_rank(recipe: Recipe) -> dict[str, Any]:
    """Return by what the best epoch is chosen where the loss ranks items and gives no probabilities."""
    return {BEST_METRIC: "mrr"} if recipe.training.get("loss") == "gbce" and BEST_METRIC not in recipe.training else {}


def items_before(recipe: Recipe, training: SetTable, schema: ContextSchema | None) -> list[str]:
    """Return the items that histories of the training part tell of, sorted; none where there is no history."""
    columns = schema.history_columns if schema is not None else ()
    return history_items(training.table, columns, least=recipe.set_task.policy.min_count)


def _with_catalogue(processor: ContextualBertProcessor, recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Return the processor and, where the recipe names a catalogue, the features of its items; and remarks on them."""
    task = recipe.set_task
    if task.catalogue is None:
        return {"processor": processor}, []
    shop, found, texts, lines = catalogue_features(recipe, processor.items)
    whole = processor.with_items(shop.unknown_items).with_item_schema(found.schema)
    return {"processor": whole, "item_features": encode_catalogue(shop, found.schema, whole.items, texts)}, lines


def _with_catalogue_of_run(processor: ContextualBertProcessor, recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Return the same as ``_with_catalogue`` where a run is gone on from, whose features of items stay as they are.

    Raises:
        ConfigurationError: a catalogue, and a run that knows no features of items, or settings of which there are some.
    """
    task, schema = recipe.set_task, processor.features_of_items
    if task.catalogue is None:
        return {"processor": processor}, []
    if schema is None:
        raise ConfigurationError(
            f"has features of items, and {task.init_from} was trained without",
            setting="catalogue",
            value=task.catalogue,
            fix=Message("Train without {init_from}, or leave the catalogue out.", init_from=NAME),
        )
    for name in ("item_exclude", "item_kinds"):
        if getattr(task, name):
            raise ConfigurationError(
                f"is about which features there are, and {task.init_from} brings them",
                setting=name,
                value=getattr(task, name),
                fix="Leave it out.",
            )
    shop = Catalogue(task.catalogue, processor.items, reading=recipe.reading)
    whole, texts = processor.with_items(shop.unknown_items), texts_of_run(recipe, schema)
    items = encode_catalogue(shop, schema, whole.items, texts)
    return {"processor": whole, "item_features": items}, texts.lines() if texts is not None else []


def _sums_of_sets(dataset: SequenceDataset, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the shares of each set's different items."""
    rows = np.repeat(np.arange(len(dataset)), dataset.sizes)
    pairs = np.unique(np.stack([rows, dataset.input_ids.numpy()]), axis=1)
    return np.bincount(pairs[0], weights=shares[pairs[1]], minlength=len(dataset)).astype(np.float64)


def item_frequencies(
    training: NDArray[np.int64], dataset: SequenceDataset, index: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.str_]:
    """Return bins of the training frequency of the item at each place.

    Args:
        training: the ids of all items of the training sets.
        dataset: the sets that are scored.
        index: which of them each row is of.
        positions: where in it.
    """
    targets = dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + positions]
    counts = np.bincount(training, minlength=int(targets.max(initial=0)) + 1)
    bins = np.array(bin_names(FREQUENCY_EDGES))[np.digitize(counts[targets], FREQUENCY_EDGES)]
    return np.where(counts[targets] == 0, NEW_ITEM, bins)
