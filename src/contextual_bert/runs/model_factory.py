"""From a recipe to a model and its training arguments. Trains nothing and reads no table."""

import math
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.activations import ACT2FN

from contextual_bert.baselines import (
    TIFUKNN,
    UPCF,
    BagOfItems,
    GPTopFreq,
    GTopFreq,
    HistoryBaseline,
    ItemKNN,
    ItemPopularity,
    PTopFreq,
)
from contextual_bert.baselines.names import (
    BASELINES,
    FITTED_BASELINES,
    HISTORY_BASELINES,
    ITEM_KNN,
    POPULARITY,
    SET_BASELINES,
)
from contextual_bert.conditioning import get_method
from contextual_bert.context import ContextSchema
from contextual_bert.data import SetTable, cooccurrence_vectors
from contextual_bert.data.time_gaps import ItemTimes
from contextual_bert.errors import NAME, ConfigurationError, ContextualBertError, Message, did_you_mean, joined
from contextual_bert.inference.saved_files import check_files
from contextual_bert.item_features import ItemLayout
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
    count_parameters,
)
from contextual_bert.models.item_changes import NO_ID, change_items, kept_features
from contextual_bert.nouns import counted
from contextual_bert.places import SettingPlace
from contextual_bert.runs.item_start import give_features, start_with_features
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.registry import check_kind
from contextual_bert.runs.sequences import check_order, order_fields
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.training import ContextualTrainingArguments, checked_arguments
from contextual_bert.training.defaults import FEWEST_STEPS_OF_TEXTS, steps_of_epoch
from contextual_bert.training.devices import chosen_device
from contextual_bert.training.private_settings import is_private
from contextual_bert.training.progress import counting
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.setting_checks import DEFAULT_MODEL

_Model = TypeVar("_Model", bound=nn.Module)
EPOCHS = "num_train_epochs"
# Up to how many items or tokens two plain products are faster on a processor than the fused kernel (docs/log.md).
_LONGEST_PLAIN: Mapping[str, int] = {"float32": 32, "bfloat16": 192}


_OF_HISTORIES: Mapping[str, type[HistoryBaseline]] = {
    "g_top_freq": GTopFreq,
    "p_top_freq": PTopFreq,
    "gp_top_freq": GPTopFreq,
    "tifu_knn": TIFUKNN,
    "up_cf": UPCF,
}
_COUNTED = (ItemKNN, ItemPopularity, HistoryBaseline)  # without vectors of items


def arguments_of(
    recipe: Recipe, checkpoints: Path, *, has_validation: bool, defaults: Mapping[str, Any] | None = None
) -> ContextualTrainingArguments:
    """The training arguments of a recipe; without a validation part the last weights are kept, not the best.

    Args:
        recipe: its own settings come last.
        checkpoints: where checkpoints go.
        has_validation: whether there is a validation part.
        defaults: settings that the data ask for.

    Raises:
        ConfigurationError: settings that need a validation part where there is none.
    """
    settings = {"disable_tqdm": True, **(defaults or {}), **recipe.training}
    if not has_validation:
        if recipe.patience is not None:
            raise ConfigurationError(
                "needs a validation part",
                setting="patience",
                value=recipe.patience,
                fix="Give --validation, or leave it out.",
            )
        settings |= {"eval_strategy": "no", "load_best_model_at_end": False}
    return checked_arguments(checkpoints, settings, device=recipe.device, dtype=recipe.dtype, seed=recipe.seed)


def rows_of_step(arguments: ContextualTrainingArguments) -> int:
    """Return how many rows an optimizer step reads, of all devices and accumulated batches."""
    return arguments.train_batch_size * arguments.world_size * arguments.gradient_accumulation_steps


def training_lines(recipe: Recipe, ready: PreparedData, *, defaults: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the steps of a run and its settings; nothing of a baseline that no step trains.

    Args:
        recipe: of the run.
        ready: its data.
        defaults: settings that the data ask for.
    """
    chosen = arguments_of(recipe, Path(), has_validation="validation" in ready.datasets, defaults=defaults)
    return lines_on_steps(recipe, chosen, num_rows=ready.num_learned_rows(recipe))


def lines_on_steps(recipe: Recipe, chosen: ContextualTrainingArguments, *, num_rows: int) -> list[str]:
    """Return what ``training_lines`` says, of arguments that were chosen already.

    Args:
        recipe: of the run.
        chosen: its training arguments.
        num_rows: training rows.
    """
    if recipe.conditioning in FITTED_BASELINES:
        return []
    batch_size = rows_of_step(chosen)
    settings = (
        f"{counted(batch_size, 'row')} a step, learning rate {chosen.learning_rate:.2g}, "
        f"weight decay {chosen.weight_decay:.2g}{_on_loss(chosen)}"
    )
    if recipe.conditioning in ("fasttext", "fasttext_context"):
        settings += ", and for the rows of words AdaGrad without decay, whatever optim says"
    if chosen.max_steps > 0:
        line = f"training: {counted(chosen.max_steps, 'step')}, as max_steps says; {settings}"
        return [line, *popularity_lines(recipe)]
    epochs, own = chosen.num_train_epochs, steps_of_epoch(num_rows, batch_size)
    steps = math.ceil(epochs * own)
    line = (
        f"training: {counted(epochs, 'epoch')} of {counted(own, 'step')}, {counted(steps, 'step')} in all; {settings}"
    )
    if own == 1 and "per_device_train_batch_size" in recipe.training:
        line += f". A step reads all {num_rows:,} training rows: a smaller batch takes more steps"
    if EPOCHS in recipe.training and steps < FEWEST_STEPS_OF_TEXTS:
        advice = Message(
            ". Few steps teach little: without {num_train_epochs} small tables get more", **{EPOCHS: _short(epochs)}
        )
        line = joined(line, advice)
    return [line, *popularity_lines(recipe)]


def _on_loss(chosen: ContextualTrainingArguments) -> str:
    """What is said of a loss that draws items."""
    if chosen.loss == "cross_entropy":
        return ""
    return f", {chosen.loss} over {counted(chosen.num_drawn, 'drawn item')} and those of the step"


def popularity_lines(recipe: Recipe) -> list[str]:
    """Return a sentence on a trained model that reads nothing of a row; nothing of other models."""
    is_blind = recipe.task.has_items and recipe.set_task.hide == "set" and not has_context(recipe)
    if not is_blind or recipe.conditioning in FITTED_BASELINES:
        return []
    return [
        Message(
            "{hide} hides whole sets and {conditioning} reads no context: all that can be learned is how popular each "
            "item is. Give a history or another context, and a method that reads it.",
            hide="set",
            conditioning=recipe.conditioning,
        )
    ]


def _short(number: float) -> float:
    """Return a number as people write it: 3 for 3.0."""
    return int(number) if float(number).is_integer() else number


def build_model(recipe: Recipe, ready: PreparedData, *, is_quiet: bool = False) -> nn.Module:
    """The model of a recipe: new, from ``init_from``, or a baseline.

    Raises:
        UnknownNameError: neither a method nor a baseline has that name.
    """
    check_possible(recipe, ready)
    if recipe.task.run_to_start_from is not None:
        return started_from(recipe, ready)
    model = new_model(recipe, ready)
    reads_counts = recipe.item_vectors != "random" and not is_private(recipe.training)
    if reads_counts and not isinstance(model, _COUNTED):
        start_with_cooccurrence(model, recipe, ready, is_quiet=is_quiet)
        start_with_features(model)
    return model


def check_possible(recipe: Recipe, ready: PreparedData) -> None:
    """Raise ConfigurationError where a method or baseline cannot be had on these sets."""
    check_kind(recipe)
    check_context(recipe, ready.processor.schema)
    check_order(recipe, ready.datasets)


def check_context(recipe: Recipe, schema: ContextSchema | None) -> None:
    """Raise ConfigurationError where a method or baseline needs a context and the schema has no feature for one."""
    if has_context(recipe) and (schema is None or not schema.features):
        other = Message("Take {conditioning} or a baseline without context.", conditioning="none")
        raise ConfigurationError(
            f"needs a context, and no column of {recipe.data} became a feature of one: contextual-bert "
            "inspect says why",
            setting="conditioning",
            value=recipe.conditioning,
            fix=other
            if recipe.preset is None
            else Message("Give a table with one, or leave {preset} out.", preset=...),
        )
    forms = [feature.form for feature in schema.layout] if schema is not None else []
    learned = recipe.set_task.history_baskets if recipe.task.has_items else None
    if learned not in (None, "off") and forms.count("history") != 1:
        # Of two histories the second would show what became of a basket that is drawn from the first.
        raise ConfigurationError(
            f"is about the baskets of one history, and {forms.count('history') or 'no'} columns of {recipe.data} are a "
            "history: contextual-bert inspect says why",
            setting="history_baskets",
            value=learned,
            fix="Leave it out, or give the schema one feature of the kind 'history'.",
        )
    if recipe.conditioning in HISTORY_BASELINES and forms.count("history") != 1:
        raise ConfigurationError(
            f"counts what customers bought before, and {forms.count('history') or 'no'} columns of {recipe.data} are a "
            "history: contextual-bert inspect says why",
            setting="conditioning",
            value=recipe.conditioning,
            fix=(
                Message("Leave out all but one with {exclude}, or take another baseline.", exclude=NAME)
                if forms.count("history")
                else 'Give each row its baskets in one column, such as [["a", "b"], ["c"]], or take another baseline.'
            ),
        )


def new_model(
    recipe: Recipe, ready: PreparedData
) -> ContextualBertForMaskedLM | BagOfItems | ItemKNN | ItemPopularity | HistoryBaseline:
    """The model of a recipe with random weights."""
    name, schema, vocab_size = recipe.conditioning, ready.processor.schema, len(ready.processor.items)
    if name in SET_BASELINES:
        layout = schema.layout if has_context(recipe) and schema is not None else ()
        over = recipe.model.get("softmax_over", loss_candidates(ready))
        if name in POPULARITY:
            return ItemPopularity(vocab_size, layout=layout, softmax_over=over)
        if name in HISTORY_BASELINES:
            return _OF_HISTORIES[name](vocab_size, layout=layout, softmax_over=over)
        features = item_layout_of(recipe, ready)
        if name == ITEM_KNN:
            return with_features(ItemKNN(vocab_size, softmax_over=over, item_layout=features), ready)
        return with_features(BagOfItems(vocab_size, layout=layout, softmax_over=over, item_layout=features), ready)
    sizes = {**DEFAULT_MODEL, **recipe.model}
    fields = {
        "initializer_range": initial_scale(sizes["hidden_size"]),
        "attn_implementation": attention_for(recipe, ready),
        "softmax_over": loss_candidates(ready),
        **order_fields(recipe, ready.datasets, item_times_of(ready)),
        **sizes,
    }
    fields |= {"conditioning": name, "vocab_size": vocab_size}
    layout = item_layout_of(recipe, ready)
    fields |= {"item_features": layout.to_dict()} if layout is not None else {}
    with model_settings_in_words(recipe):
        return with_features(ContextualBertForMaskedLM(ContextualBertConfig.from_schema(schema, **fields)), ready)


def item_times_of(ready: PreparedData) -> ItemTimes | None:
    """Return the times of the items of prepared sets; None where the gaps between them are not read."""
    return ready.examples.times if isinstance(ready.examples, SetTable) else None


def item_layout_of(recipe: Recipe, ready: PreparedData) -> ItemLayout | None:
    """Return the layout of the items' features, None where they have none."""
    schema, items, task = ready.processor.features_of_items, ready.item_features, recipe.set_task
    if schema is None or items is None:
        return None
    return ItemLayout(
        schema.layout, num_places=items.value_ids.shape[1], encoder=task.item_encoder, dropout=task.item_dropout
    )


def with_features(model: _Model, ready: PreparedData) -> _Model:
    """Return the model that was built for the features of the items, with these stored in it."""
    if ready.item_features is not None:
        give_features(model, ready.item_features, learned_items(ready))
    return model


def learned_items(ready: PreparedData) -> Tensor:
    """Return which items behind the reserved ids the training part has: (items,)."""
    found = torch.zeros(ready.vocab_size, dtype=torch.bool)
    found[ready.datasets["train"].input_ids] = True
    return found[len(ready.processor.items.reserved) :]


@contextmanager
def model_settings_in_words(recipe: Recipe) -> Generator[None]:
    """Turn errors of a config or model into errors that name the fields of the recipe.

    Raises:
        ConfigurationError: a config or a model was refused.
    """
    try:
        yield
    except ContextualBertError:
        raise
    except (StrictDataclassError, ValueError, TypeError, KeyError) as error:
        if not recipe.model:
            raise
        _refuse_type(recipe.model, str(error))
        if isinstance(error, KeyError) and recipe.model.get("hidden_act") in error.args:
            raise ConfigurationError(
                "is unknown",
                place=SettingPlace("hidden_act", of="model"),
                value=error.args[0],
                allowed=did_you_mean(str(error.args[0]), sorted(ACT2FN)),
            ) from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigurationError(f"does not work: {reason}", setting="model", value=dict(recipe.model)) from error


def _refuse_type(model: Mapping[str, Any], told: str) -> None:
    """Raise ConfigurationError where transformers tells that a field has a value of another type."""
    found = re.search(r"error for field '(\w+)'", told)
    if found is None or found[1] not in model:
        return
    fields: Any = ContextualBertConfig.__dataclass_fields__
    kind = str(fields[found[1]].type) if found[1] in fields else ""
    words = {"bool": "true or false", "str": "a name", "float": "a number with a point, such as 0.02"}
    wanted = next((each for name, each in words.items() if name in kind), "a whole number")
    raise ConfigurationError(
        "is of another type", place=SettingPlace(found[1], of="model"), value=model[found[1]], fix=f"Give {wanted}."
    )


def attention_for(recipe: Recipe, ready: PreparedData) -> str:
    """The faster attention to train with: on a processor two plain products, except for what is long.

    For a handful of items the fused kernel's fixed cost exceeds the attention itself.
    """
    is_short = int(ready.datasets["train"].sizes.max()) <= _LONGEST_PLAIN[recipe.dtype]
    return "eager" if is_short and chosen_device(recipe.device).type == "cpu" else "sdpa"


def loss_candidates(ready: PreparedData) -> SoftmaxOver:
    """Return the candidates of the loss. Visible items are among them if a training set holds an item twice."""
    training = ready.datasets["train"]
    rows = np.repeat(np.arange(len(training)), training.sizes)
    pairs = rows * ready.vocab_size + training.input_ids.numpy()
    return "candidates" if len(np.unique(pairs)) == len(pairs) else "items"


def has_context(recipe: Recipe) -> bool:
    """Return True if the method or baseline reads a context."""
    name = recipe.conditioning
    return "context" in BASELINES[name] if name in BASELINES else get_method(name).has_context


def initial_scale(hidden_size: object) -> float:
    """Standard deviation of the first weights: what BERT's 0.02 is for its own width (docs/decisions/006)."""
    return hidden_size**-0.5 if isinstance(hidden_size, int) and hidden_size > 0 else 0.02


@torch.no_grad()
def start_with_cooccurrence(
    model: ContextualBertForMaskedLM | BagOfItems, recipe: Recipe, ready: PreparedData, *, is_quiet: bool = False
) -> None:
    """Give the items that share training sets their first vectors, at the scale of the random ones (decision 010)."""
    if isinstance(model, ContextualBertForMaskedLM):
        items, output = model.bert.embeddings.word_embeddings, model.cls.predictions.decoder
    else:
        items, output = model.items, model.output
    vocab_size, size = items.weight.shape
    with counting("first vectors of the items", is_quiet=is_quiet, seconds_before=2, unit="round") as progress:
        first, last = cooccurrence_vectors(
            ready.datasets["train"],
            vocab_size=vocab_size,
            size=size,
            seed=recipe.seed,
            has_context=has_context(recipe) and not recipe.is_context_shuffled,
            progress=progress,
        )
    copy_at_scale(last, output.weight)
    copy_at_scale(first, items.weight)  # after the output, for a tied matrix is the input's


def copy_at_scale(vectors: NDArray[np.float64], weight: Tensor) -> None:
    """Copy the rows that are not zero, scaled as a whole to the standard deviation of what they replace."""
    rows = np.flatnonzero(vectors.any(axis=1))
    if len(rows):
        scaled = vectors[rows] * (float(weight.std()) / vectors[rows].std())
        weight[torch.from_numpy(rows)] = torch.from_numpy(scaled).to(weight)


def started_from(recipe: Recipe, ready: PreparedData) -> ContextualBertForMaskedLM:
    """The model of the run ``init_from``, with rows for the items that were appended to its vocabulary.

    Rows of items that were retired go, and the rows behind them move up.
    """
    start, attention = str(recipe.task.run_to_start_from), attention_for(recipe, ready)
    check_files(start)
    model = ContextualBertForMaskedLM.from_pretrained(start, attn_implementation=attention)
    if recipe.conditioning != model.config.conditioning:
        raise ConfigurationError(
            f"differs from {model.config.conditioning!r}, with which {start} was trained",
            setting="conditioning",
            value=recipe.conditioning,
            fix=Message("Give the same, or start without {init_from}.", init_from=NAME),
        )
    kept: dict[str, Any] = {"has_position_embeddings": False, "predicts_next": False, "time_gaps": None}
    own = order_fields(recipe, ready.datasets, item_times_of(ready))
    kept |= {name: value for name, value in own.items() if name in kept}
    has_order = recipe.set_task.order or model.config.predicts_next or model.config.time_gaps
    wanted = {**kept, **recipe.model} if has_order else recipe.model
    differing = [field for field, value in wanted.items() if model.config.value_of(field) != value]
    if differing == ["time_gaps"]:
        reads = {None: "without time gaps", "seconds": "with gaps of dates or timestamps", "numbers": "of numbers"}
        raise ConfigurationError(
            f"was trained {reads[model.config.time_gaps]}, and this run would be {reads[kept['time_gaps']]}",
            setting="init_from",
            value=start,
            fix=Message(
                "Give {order} and {time_gaps} as it was trained, or start without it.", order=..., time_gaps=...
            ),
        )
    if differing and differing[0] not in recipe.model:  # it follows from the order
        reads = "tells what comes next" if model.config.predicts_next else "reads items in their order"
        raise ConfigurationError(
            f"is a run that {reads if model.config.has_position_embeddings else 'reads sets without an order'}",
            setting="init_from",
            value=start,
            fix=Message("Give {order} and {hide} as it was trained, or start without it.", order=..., hide=...),
        )
    check_same_fields(recipe, model.config, start=start)
    if model.config.item_features is not None:
        return _with_items_of(recipe, ready, model, start=start)
    if recipe.set_task.retire_missing_items:
        known = ContextualBertProcessor.from_pretrained(start).items
        ids = [known.id_of_value(item) for item in ready.processor.items.values]
        keep_rows(model, [*range(len(known.reserved)), *(number for number in ids if number is not None)])
    if len(ready.processor.items) > model.config.vocab_size:
        model.resize_token_embeddings(len(ready.processor.items))
    return model


def check_same_fields(recipe: Recipe, config: ContextualBertConfig, *, start: str) -> None:
    """Raise ConfigurationError where a recipe gives a field another value than the run has that it starts from.

    Args:
        recipe: of the new run.
        config: of the model that is started from.
        start: its run.
    """
    differing = [name for name, value in recipe.model.items() if config.value_of(name) != value]
    if differing:
        raise ConfigurationError(
            f"cannot change in a run that starts from {start}",
            setting=differing[0],
            value=recipe.model[differing[0]],
            fix="Leave it out.",
        )


def _with_items_of(
    recipe: Recipe, ready: PreparedData, model: ContextualBertForMaskedLM, *, start: str
) -> ContextualBertForMaskedLM:
    """Return the model of a run whose items have features, with the items of these data.

    Items of the training part get vectors of their own, which start where the features put them.

    Raises:
        ConfigurationError: the recipe asks for another encoder of the features.
    """
    known, layout = ContextualBertProcessor.from_pretrained(start).items, model.config.item_layout
    task = recipe.set_task
    if task.catalogue is not None and layout is not None:
        if task.item_encoder != layout.encoder:
            raise ConfigurationError(
                f"cannot change in a run that starts from {start}, which has {layout.encoder!r}",
                setting="item_encoder",
                value=task.item_encoder,
                fix="Give the same.",
            )
        model.config.item_features = {**layout.to_dict(), "dropout": task.item_dropout}
    names = ready.processor.items.values
    ids = [NO_ID if (number := known.id_of_value(name)) is None else number for name in names]
    former = [*range(len(known.reserved)), *ids]
    items = ready.item_features if ready.item_features is not None else kept_features(model, ids)
    return change_items(model, former, items, learned=learned_items(ready))


def keep_rows(model: ContextualBertForMaskedLM, ids: Sequence[int]) -> None:
    """Keep the items of these ids alone, in this order: their vectors, output rows and biases."""
    index = torch.as_tensor(ids)
    output, vectors = model.get_output_embeddings(), cast(nn.Embedding, model.get_input_embeddings())
    weights = {id(each): each for each in (vectors.weight, output.weight, output.bias)}
    with torch.no_grad():
        for weight in weights.values():  # a tied matrix once
            weight[: len(ids)] = weight[index]
    model.resize_token_embeddings(len(ids))


def count_counted(model: nn.Module) -> int:
    """Parameters by the paper's rule: without item embeddings, context encoder and output matrix; a bag likewise."""
    if isinstance(model, ContextualBertForMaskedLM):
        return count_parameters(model).counted
    of_items = ("items.", "item_encoder.", "output.", "output_encoder.", "new_item_bias.", "shares.")
    left_out = (*of_items, "context_encoder.")
    return sum(parameter.numel() for name, parameter in model.named_parameters() if not name.startswith(left_out))
