"""Start from a plain BERT checkpoint: which weights come from it, which are new, and what is refused.

It loads and checks; what makes the start BERT's function is each method's ``start_as_checkpoint``. It knows no method.
"""

import inspect
import re
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from contextual_bert.conditioning import get_method, methods_of_setting
from contextual_bert.conditioning.method import BlockSlot
from contextual_bert.context import ContextSchema
from contextual_bert.errors import NAME, CheckpointError, ConfigurationError, Message, did_you_mean
from contextual_bert.models.backbones.backbone import COMMON_FIELDS, Backbone
from contextual_bert.models.backbones.bert import BERT_FIELDS
from contextual_bert.models.checkpoint_files import (
    HUB_SETTINGS,
    backbone_of,
    check_direction,
    found_config,
    load_tokenizer,
    tokens_of,
    weights_read,
)
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.truncation import SEGMENT_FIELDS
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import PathPlace

CONTEXT_WEIGHTS = ("conditioning.", "context_encoder.", "output_context.")
HEAD_KEY = "classifier."  # how the names of the weights of the layer that gives labels start
OUTPUT_MATRIX = "cls.predictions.decoder.weight"
# Of a model of this package that is a plain one itself.
OWN_FIELDS = ("embedding_size", "pooler_act", "backbone", "backbone_settings")
LABEL_FIELDS = ("id2label", "label2id", "problem_type")
HEAD_FIELDS = (
    "is_ordinal",
    "number_bins",
    "class_weights",
    "classifier_pooling",
    "similarity_temperature",
    "has_next_sentence_head",
    *SEGMENT_FIELDS,
)
DROPOUTS = ("context_dropout", "field_dropout")


def load_checkpoint(
    model_class: Any, checkpoint: str | Path, *, schema: ContextSchema | None, conditioning: str, **settings: Any
) -> Any:
    """A model of ``model_class`` with the weights of a BERT checkpoint; new weights are as the class initialises them.

    Args:
        model_class: one of the classes of this package.
        checkpoint: folder or name on the Hub.
        schema: the features of the context.
        conditioning: name of the method.
        **settings: fields of the config; anything else goes to ``from_pretrained``.

    Raises:
        CheckpointError, ConfigurationError: see ``ContextualBertPreTrainedModel.from_checkpoint``.
    """
    hub = {name: value for name, value in settings.items() if name in HUB_SETTINGS}
    theirs = found_config(checkpoint, hub)
    check_direction(theirs, checkpoint, is_causal=model_class.is_causal)
    own = {name: value for name, value in settings.items() if name in _fields() or methods_of_setting(name)}
    loading = {name: value for name, value in settings.items() if name not in own}
    config = started_config(model_class, checkpoint, schema=schema, conditioning=conditioning, hub=hub, **own)
    num_own = config.num_hidden_layers - config.num_extra_layers
    backbone, num_theirs = backbone_of(theirs, checkpoint), theirs.num_hidden_layers
    former = loading.pop("torch_dtype", None)  # the name of dtype in transformers 4
    loading.setdefault("dtype", former if former is not None else torch.float32)  # a checkpoint may be stored in half
    may_differ = loading.pop("ignore_mismatched_sizes", False)
    try:
        with weights_read(checkpoint):
            where: dict[str, Any] = {"pretrained_model_name_or_path": checkpoint}
            if backbone.names:
                dtype = loading["dtype"]
                weights = converted_weights(model_class, checkpoint, backbone, dtype=dtype, **hub)
                where = {"pretrained_model_name_or_path": None, "state_dict": weights}
                loading = {name: value for name, value in loading.items() if name not in hub}
            model, info = model_class.from_pretrained(
                **where, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **loading
            )
    except TypeError as error:
        odd = sorted(name for name in loading if repr(name) in str(error)) or sorted(loading)
        raise ConfigurationError(
            f"from_checkpoint does not take {odd}", allowed=did_you_mean(odd[0], _fields())
        ) from error
    for key, theirs, ours in sorted(info["mismatched_keys"]):
        if not (may_differ and is_added(key, model)) and not _is_of_extra_block(key, model):
            raise CheckpointError(
                f"its {key!r} has the shape {tuple(theirs)} and the model's {tuple(ours)}",
                fix="Give the sizes of the checkpoint, or for a new head ignore_mismatched_sizes=True.",
                place=PathPlace(checkpoint, is_subject=False),
            )
    missing = [key for key in info["missing_keys"] if not is_added(key, model)]
    if missing:
        raise CheckpointError(
            f"{counted(len(missing), 'weight')} {agreeing('are', len(missing))} missing, {missing[0]!r} is the first",
            fix="Give the folder of a whole checkpoint.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    if num_theirs > num_own:
        _draw_extra_blocks(model)
    if OUTPUT_MATRIX in info["missing_keys"] and not config.tie_word_embeddings:
        # The checkpoint's output matrix is that of its embeddings: the model's own starts where it is.
        plain: Any = AutoModelForMaskedLM.from_pretrained(checkpoint, trust_remote_code=False, **hub)
        model.get_output_embeddings().load_state_dict(plain.get_output_embeddings().state_dict())
    drawn = {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}
    model.has_new_head = any(key.startswith(HEAD_KEY) for key in drawn)
    # It is no model of that checkpoint: peft would look there for the config that an adapter is saved with.
    model.name_or_path = model.config.name_or_path = ""
    return model


def started_config(
    model_class: Any,
    checkpoint: str | Path,
    *,
    schema: ContextSchema | None,
    conditioning: str,
    hub: Mapping[str, Any] = MappingProxyType({}),
    **fields: Any,
) -> ContextualBertConfig:
    """The config of a model that starts from the weights of a BERT checkpoint; no weight is read.

    Args:
        model_class: one of the classes of this package.
        checkpoint, schema, conditioning, hub, **fields: as for ``checkpoint_config``.

    Raises:
        CheckpointError: the checkpoint has one segment, and the head needs two.
        ConfigurationError: more blocks than the checkpoint has; a field that this head does not read; a dropout of the
            training.
    """
    config = checkpoint_config(checkpoint, schema=schema, conditioning=conditioning, hub=hub, **fields)
    num_own = config.num_hidden_layers - config.num_extra_layers
    num_theirs = found_config(checkpoint, hub).num_hidden_layers
    if num_own > num_theirs:
        raise ConfigurationError(
            f"is more than the {num_theirs} of {checkpoint}",
            setting="num_hidden_layers",
            value=num_own,
            fix=Message("Give no more; new blocks on top of them are {num_extra_layers}.", num_extra_layers=NAME),
        )
    unread = [name for name in fields if name in HEAD_FIELDS and name not in model_class.head_fields]
    if unread:
        raise ConfigurationError(f"{model_class.__name__} does not read {', '.join(unread)}", fix="Leave it out.")
    dropped = [name for name in DROPOUTS if fields.get(name)]
    if dropped:
        raise ConfigurationError(
            "says how a model was trained, and a model drops nothing itself",
            setting=dropped[0],
            value=fields[dropped[0]],
            fix="Give it to ContextualTrainingArguments, and train with this package's trainers.",
        )
    if config.type_vocab_size < model_class.num_segments:
        raise CheckpointError(
            f"it has type_vocab_size={config.type_vocab_size}, and {model_class.__name__} "
            "tells a question from its text by it",
            fix="Give a BERT with two segments.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    return config


def converted_weights(
    model_class: Any, checkpoint: str | Path, backbone: Backbone, **loading: Any
) -> dict[str, Tensor]:
    """The weights of a checkpoint of another architecture by their names here: those that its files have.

    Args:
        model_class: one of the classes of this package; the checkpoint is read by transformers' class of that head.
        checkpoint: folder or name on the Hub.
        backbone: the checkpoint's.
        **loading: for ``from_pretrained``.
    """
    plain, info = (model_class.checkpoint_class or model_class.auto_class).from_pretrained(
        checkpoint, output_loading_info=True, trust_remote_code=False, **loading
    )
    prefix = "" if plain.base_model is not plain else f"{plain.base_model_prefix}."
    weights = {f"{prefix}{name}": w for name, w in plain.state_dict().items() if name not in info["missing_keys"]}
    return backbone.weights(weights, plain.config, model_class.head_parts)


def _draw_extra_blocks(model: Any) -> None:
    """New blocks are new where the model takes the checkpoint's first blocks alone: its later ones have their names."""
    config = model.config
    for block in model.base_model.encoder.layer[config.num_hidden_layers - config.num_extra_layers :]:
        draw_anew(block, model)


@torch.no_grad()
def draw_anew(part: nn.Module, model: Any) -> None:
    """Draw the weights of a part of a model as the model's class draws new ones."""
    for weight in part.parameters():
        cast(Any, weight)._is_hf_initialized = False
    part.apply(model._init_weights)


def is_added(key: str, model: Any) -> bool:
    """Return True if no checkpoint has a weight of this name: it belongs to the method, the context encoder, the head
    or an extra block.

    Args:
        key: the weight's name.
        model: a model of this package.
    """
    return _is_of_extra_block(key, model) or _is_of_context(key) or key.startswith(model.head_keys)


def new_weights(model: Any) -> dict[str, nn.Parameter]:
    """Name -> weight, of those that no BERT has: what ``is_added``, but where the method has taken a weight of BERT's
    over (``BlockSlot.taken_over``).

    Args:
        model: a model of this package.
    """
    slots = [(name, slot) for name, slot in model.named_modules() if isinstance(slot, BlockSlot)]
    own = [(name, slot) for name, slot in slots if not _is_of_extra_block(f"{name}.", model)]
    taken = {id(weight) for _, slot in own for part in slot.taken_over for weight in getattr(slot, part).parameters()}
    named = model.named_parameters()
    return {name: weight for name, weight in named if is_added(name, model) and id(weight) not in taken}


def context_weights(model: nn.Module) -> list[nn.Parameter]:
    """The new weights that read the context: the context encoder's and the method's, but for those of the method that
    read the sequence alone (``BlockSlot.reads_context``).

    Args:
        model: a model of this package.
    """
    slots = [module for module in model.modules() if isinstance(module, BlockSlot) and not module.reads_context]
    of_sequence = {id(weight) for slot in slots for weight in slot.parameters()}
    named = [weight for name, weight in new_weights(model).items() if _is_of_context(name)]
    return [weight for weight in named if id(weight) not in of_sequence]


def _is_of_extra_block(key: str, model: Any) -> bool:
    block = re.search(r"encoder\.layer\.(\d+)\.", key)
    return block is not None and int(block[1]) >= model.config.num_hidden_layers - model.config.num_extra_layers


def _is_of_context(key: str) -> bool:
    return any(part in key for part in CONTEXT_WEIGHTS)


def checkpoint_config(
    checkpoint: str | Path,
    *,
    schema: ContextSchema | None,
    conditioning: str,
    hub: Mapping[str, Any] = MappingProxyType({}),
    **fields: Any,
) -> ContextualBertConfig:
    """The config of a BERT checkpoint with a context: BERT's sizes, positions and segments, its tokenizer's ids.

    Args:
        checkpoint: folder or name on the Hub.
        schema: the features of the context.
        conditioning: name of the method.
        hub: HUB_SETTINGS that are not the default.
        **fields: of the config.

    Raises:
        CheckpointError: no config there, one of another architecture, no tokenizer.
        ConfigurationError: a schema that is none; a field with a value that no config takes.
    """
    given = cast(object, schema)
    if given is not None and not isinstance(given, ContextSchema):
        raise ConfigurationError(
            f"schema={given!r:.60} is a {type(given).__name__}",
            fix='Give a ContextSchema: ContextSchema.load("schema.json"), ContextSchema.from_dict({...}) or '
            "infer_schema(table).schema.",
        )
    found = found_config(checkpoint, hub)
    fields |= label_fields(fields)
    has_labels = not fields.keys() & {"num_labels", "id2label", "label2id"}
    is_own = isinstance(found, ContextualBertConfig)
    copied = (*(LABEL_FIELDS if has_labels else ()), *(OWN_FIELDS if is_own else ()))
    taken = backbone_of(found, checkpoint).config_fields(found) | {name: getattr(found, name) for name in copied}
    num_extra_layers = extra_layers_of(fields, default=get_method(conditioning).num_extra_layers)
    num_layers = fields.get("num_hidden_layers", found.num_hidden_layers)
    if type(num_layers) is not int:
        raise ConfigurationError(
            "is not allowed", setting="num_hidden_layers", value=num_layers, fix="Give a whole number."
        )
    tokens = tokens_of(load_tokenizer(checkpoint, **hub))
    return ContextualBertConfig.from_schema(
        schema,
        **{
            **taken,
            **tokens,
            "has_position_embeddings": True,
            "has_pretrained_start": True,
            "conditioning": conditioning,
            **fields,
            "num_hidden_layers": num_layers + num_extra_layers,
            "num_extra_layers": num_extra_layers,
        },
    )


def label_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config fields that describe the labels: names by id and ids by name, or their number.

    Raises:
        ConfigurationError: a number or names that no config takes, or that contradict each other.

    Example:
        >>> label_fields({"label2id": {"bad": 0, "good": 1}})["id2label"]
        {0: 'bad', 1: 'good'}
    """
    number, names, ids = (fields.get(field) for field in ("num_labels", "id2label", "label2id"))
    if number is not None and (type(number) is bool or not isinstance(number, Integral) or number < 1):
        raise ConfigurationError(
            "is not allowed", setting="num_labels", value=number, fix="Give a whole number of labels, 1 or more."
        )
    for field, given in (("id2label", names), ("label2id", ids)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(
                f"{field} is a {type(given).__name__}", fix="Give a mapping: dict(enumerate(names))."
            )
    if names is None and ids is None:
        return {} if number is None else {"num_labels": int(number)}
    found: dict[Any, Any] = {key: name for name, key in ids.items()} if ids is not None else {}
    if names is not None:
        found = {int(key): name for key, name in names.items()}
    if sorted(found) != [*range(len(found))] or not all(isinstance(name, str) for name in found.values()):
        raise ConfigurationError(f"The labels are {found}", fix="Give each id from 0 on a name, as text.")
    inverse = {name: key for key, name in sorted(found.items())}
    if len(inverse) != len(found) or (ids is not None and dict(ids) != inverse):
        said = f", and label2id={ids} says otherwise" if ids is not None else ""
        raise ConfigurationError(f"The labels are {found}{said}", fix="Give each id one name, and each name once.")
    if number is not None and number != len(found):
        raise ConfigurationError(
            f"does not fit the {len(found)} labels that are named",
            setting="num_labels",
            value=number,
            fix="Give one of them.",
        )
    return {"id2label": {key: name for name, key in inverse.items()}, "label2id": inverse}


def extra_layers_of(fields: Mapping[str, Any], *, default: int) -> int:
    """Return the number of new blocks on top of a checkpoint: ``num_extra_layers``, or the default.

    Args:
        fields: of a config.
        default: what is usual. A model that usually has some cannot do without.

    Raises:
        ConfigurationError: no whole number, or too small.

    Example:
        >>> extra_layers_of({}, default=6), extra_layers_of({"num_extra_layers": 1}, default=6)
        (6, 1)
    """
    found, least = fields.get("num_extra_layers", default), min(default, 1)
    if type(found) is not int or found < least:
        raise ConfigurationError(
            "is not allowed",
            setting="num_extra_layers",
            value=found,
            fix=f"Give a whole number of new blocks, {least} or more.",
        )
    return found


def _fields() -> set[str]:
    return {*inspect.get_annotations(ContextualBertConfig), *COMMON_FIELDS, *BERT_FIELDS, *LABEL_FIELDS, "num_labels"}
