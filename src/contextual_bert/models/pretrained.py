"""Start from a plain BERT checkpoint: which weights come from it, which are new, and what is refused.

It loads and checks; what makes the start BERT's function is each method's ``start_as_bert``. It knows no method.
"""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging
from transformers.utils.hub import cached_file

from contextual_bert.conditioning import get_method
from contextual_bert.conditioning.method import BlockSlot
from contextual_bert.context import ContextSchema
from contextual_bert.errors import CheckpointError, ConfigurationError, did_you_mean
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig

# Architectures whose weights and computations are those of this package's blocks.
MODEL_TYPES = ("bert",)
CONTEXT_WEIGHTS = ("conditioning.", "context_encoder.")
BERT_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "classifier_dropout",
    "tie_word_embeddings",
)
LABEL_FIELDS = ("id2label", "label2id", "problem_type")
# Where on the Hub, or in which folder of it, a checkpoint is: it holds for config, weights and tokenizer alike.
HUB_SETTINGS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
SPECIAL_TOKENS = ("pad_token_id", "mask_token_id", "cls_token_id", "sep_token_id", "unk_token_id")


def load_bert(
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
        CheckpointError: see ``ContextualBertPreTrainedModel.from_bert``.
    """
    own = {name: value for name, value in settings.items() if name in _fields()}
    loading = {name: value for name, value in settings.items() if name not in own}
    hub = {name: value for name, value in loading.items() if name in HUB_SETTINGS}
    config = bert_config(checkpoint, schema=schema, conditioning=conditioning, hub=hub, **own)
    may_differ = loading.pop("ignore_mismatched_sizes", False)
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # transformers would list every new weight; what is amiss is raised below
    try:
        model, info = model_class.from_pretrained(
            checkpoint, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **loading
        )
    except TypeError as error:
        odd = sorted(name for name in loading if repr(name) in str(error)) or sorted(loading)
        raise ConfigurationError(f"from_bert does not take {odd}. {did_you_mean(odd[0], _fields())}") from error
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{checkpoint}: its weights cannot be loaded: {error}") from error
    finally:
        logging.set_verbosity(verbosity)
    for key, theirs, ours in sorted(info["mismatched_keys"]):
        if not (may_differ and is_new(key, model)):
            raise CheckpointError(
                f"{checkpoint}: its {key!r} has the shape {tuple(theirs)} and the model's {tuple(ours)}. "
                "Give the sizes of the checkpoint, or for a new head ignore_mismatched_sizes=True."
            )
    missing = [key for key in info["missing_keys"] if not is_new(key, model)]
    if missing:
        raise CheckpointError(
            f"{checkpoint}: {len(missing)} weights of BERT are missing, {missing[0]!r} is the first. "
            "Give the folder of a whole BERT checkpoint."
        )
    return model


def is_new(key: str, model: Any) -> bool:
    """Whether a weight of the model is none of the checkpoint's encoder: it is the method's, the context encoder's, the
    head's or that of an extra block.

    Args:
        key: the weight's name.
        model: a model of this package.
    """
    block = re.search(r"encoder\.layer\.(\d+)\.", key)
    is_extra = block is not None and int(block[1]) >= model.config.num_hidden_layers - model.config.num_extra_layers
    return is_extra or _is_of_context(key) or key.startswith(model.head_keys)


def context_weights(model: nn.Module) -> list[nn.Parameter]:
    """The weights that read the context: the context encoder's and the method's, but for those of the method that read
    the sequence alone (``BlockSlot.reads_context``).

    Args:
        model: a model of this package.
    """
    slots = [module for module in model.modules() if isinstance(module, BlockSlot) and not module.reads_context]
    of_sequence = {id(weight) for slot in slots for weight in slot.parameters()}
    named = [weight for name, weight in model.named_parameters() if _is_of_context(name)]
    return [weight for weight in named if id(weight) not in of_sequence]


def _is_of_context(key: str) -> bool:
    return any(part in key for part in CONTEXT_WEIGHTS)


def bert_config(
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
        ConfigurationError: a field with a value that no config takes.
    """
    found = _config(checkpoint, hub)
    has_labels = not fields.keys() & {"num_labels", *LABEL_FIELDS}
    taken = {name: getattr(found, name) for name in (*BERT_FIELDS, *(LABEL_FIELDS if has_labels else ()))}
    num_extra_layers = extra_layers_of(fields, default=get_method(conditioning).num_extra_layers)
    num_layers = fields.get("num_hidden_layers", found.num_hidden_layers)
    if type(num_layers) is not int:
        raise ConfigurationError(f"num_hidden_layers={num_layers!r}: give a whole number.")
    tokens = tokens_of(load_tokenizer(checkpoint, **hub))
    return ContextualBertConfig.from_schema(
        schema,
        **{
            **taken,
            **tokens,
            "has_position_embeddings": True,
            "has_bert_start": True,
            "conditioning": conditioning,
            **fields,
            "num_hidden_layers": num_layers + num_extra_layers,
            "num_extra_layers": num_extra_layers,
        },
    )


def extra_layers_of(fields: Mapping[str, Any], *, default: int) -> int:
    """How many new blocks stand on those of a checkpoint: ``num_extra_layers``, or what is usual.

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
        raise ConfigurationError(f"num_extra_layers={found!r}: give a whole number of new blocks, {least} or more.")
    return found


def pooling_of(checkpoint: str | Path) -> str:
    """How a checkpoint has learned to make one vector of a text: "mean" where sentence-transformers wrote so beside it,
    "cls", as BERT does, where nothing is written.

    Args:
        checkpoint: folder or name on the Hub.

    Raises:
        CheckpointError: what is written there is no JSON object.
    """
    try:
        path = cached_file(str(checkpoint), "1_Pooling/config.json")
    except OSError:
        return "cls"
    if path is None:
        return "cls"
    try:
        modes = dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is no JSON object ({error}); it says how the checkpoint makes one vector of a text. Mend it, or "
            "remove it: a label is then read from the first position."
        ) from error
    return "mean" if modes.get("pooling_mode_mean_tokens") else "cls"


def load_tokenizer(checkpoint: str | Path, **hub: Any) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint, which allows no more tokens than the checkpoint has positions.

    Args:
        checkpoint: folder or name on the Hub.
        **hub: HUB_SETTINGS that are not the default.

    Raises:
        ConfigurationError: another setting.
        CheckpointError: no checkpoint there; it has none, or one without [MASK] and [PAD].
    """
    for name in sorted(hub.keys() - {*HUB_SETTINGS}):
        raise ConfigurationError(f"No setting {name!r} of a checkpoint's place. {did_you_mean(name, HUB_SETTINGS)}")
    config: Any = _config(checkpoint, hub)  # says better what is amiss where nothing is there, or no BERT
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, **hub)
    except (OSError, ValueError, KeyError) as error:
        raise _no_tokenizer(checkpoint, _first_line(error)) from error
    # Without its files transformers makes one that knows no word, and every text would be [UNK] [UNK] [UNK].
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise _no_tokenizer(checkpoint, "no vocabulary")
    lacking = [name for name in ("pad_token", "mask_token", "sep_token") if getattr(tokenizer, name) is None]
    if lacking:
        raise CheckpointError(f"{checkpoint}: its tokenizer has no {', '.join(lacking)}. Give a BERT's tokenizer.")
    # A tokenizer whose files do not say how much may be read allows any length; the model has no such position.
    tokenizer.model_max_length = min(tokenizer.model_max_length, config.max_position_embeddings)
    return tokenizer


def tokens_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """What the config keeps of a tokenizer: the ids of [PAD], [MASK] and [SEP], and those that are never an answer."""
    ids = [getattr(tokenizer, name, None) for name in SPECIAL_TOKENS]
    return {
        "pad_token_id": tokenizer.pad_token_id,
        "mask_token_id": tokenizer.mask_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "reserved_token_ids": sorted({number for number in ids if number is not None}),
    }


def _no_tokenizer(checkpoint: str | Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint}: no tokenizer can be read ({reason}). Copy tokenizer.json, or vocab.txt and "
        "tokenizer_config.json, of the checkpoint into the folder."
    )


def _config(checkpoint: str | Path, hub: Mapping[str, Any]) -> PreTrainedConfig:
    try:
        config = AutoConfig.from_pretrained(checkpoint, **hub)
    except (OSError, ValueError) as error:
        is_folder = Path(checkpoint).is_dir()
        reason = _first_line(error) if is_folder else "no such folder, and no such name on the Hub can be reached"
        raise CheckpointError(
            f"{checkpoint}: no config can be read ({reason}). Give the folder of a BERT checkpoint, with "
            "config.json, model.safetensors and tokenizer, or a name on the Hub."
        ) from error
    if config.model_type not in MODEL_TYPES:
        advice = "It has a context already: load it with from_pretrained." if _is_own(config) else "Give a BERT."
        raise CheckpointError(
            f"{checkpoint}: its architecture is {config.model_type!r}. Allowed: {', '.join(MODEL_TYPES)}. {advice}"
        )
    return config


def _is_own(config: PreTrainedConfig) -> bool:
    return config.model_type == ContextualBertConfig.model_type


def _fields() -> set[str]:
    return {*inspect.get_annotations(ContextualBertConfig), *BERT_FIELDS, *LABEL_FIELDS, "num_labels"}


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
