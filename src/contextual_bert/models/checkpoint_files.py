"""Files of a BERT checkpoint beside its weights: config, tokenizer, pooling.

It reads and refuses, and makes no model. It knows no method.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging
from transformers.utils.hub import cached_file

from contextual_bert.errors import CheckpointError, ConfigurationError, Message, did_you_mean
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models.backbones import BACKBONES, REFUSED, Backbone
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig, check_no_kernel
from contextual_bert.models.token_marks import num_separators
from contextual_bert.models.tokenization import mark_ends, tell_halves
from contextual_bert.places import PathPlace

# Where on the Hub, or in which folder of it, a checkpoint is: it holds for config, weights and tokenizer alike.
HUB_SETTINGS = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
SPECIAL_TOKENS = ("pad_token_id", "mask_token_id", "cls_token_id", "sep_token_id", "unk_token_id")


def found_config(checkpoint: str | Path, hub: Mapping[str, Any]) -> Any:
    """The config of a BERT checkpoint.

    Args:
        checkpoint: folder or name on the Hub.
        hub: HUB_SETTINGS that are not the default.

    Raises:
        CheckpointError: no config there, or one of another architecture.
    """
    if Path(checkpoint).is_file():
        raise CheckpointError("is a file", fix="Give its folder.", place=PathPlace(checkpoint))
    try:
        config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False, **hub)
    except Exception as error:  # transformers checks no type: null, a list or deep brackets end in any class
        is_folder = Path(checkpoint).is_dir()
        reason = first_line(error) if is_folder else "no such folder, and no such name on the Hub can be reached"
        raise CheckpointError(
            f"no config can be read ({reason})",
            fix="Give the folder of a BERT checkpoint, with config.json, model.safetensors and tokenizer, or a "
            "name on the Hub.",
            place=PathPlace(checkpoint, is_subject=False),
        ) from error
    check_no_kernel(getattr(config, "_attn_implementation", None), place=str(checkpoint))
    backbone_of(config, checkpoint).check(config, checkpoint)
    return config


def backbone_of(config: PreTrainedConfig, checkpoint: str | Path) -> Backbone:
    """The backbone of a checkpoint.

    Args:
        config: its config.
        checkpoint: its folder or name, for messages.

    Raises:
        CheckpointError: its architecture is none.
    """
    if is_plain(config):
        return BACKBONES["bert"]
    found = BACKBONES.get(config.model_type)
    if found is None:
        advice = (
            "It is more than a BERT, with a context or new blocks, or it is of sets: load it with from_pretrained."
            if _is_own(config)
            else "Give a checkpoint of one of these."
        )
        reason = f": {REFUSED[config.model_type]}" if config.model_type in REFUSED else ""
        raise CheckpointError(
            f"its architecture is {config.model_type!r}{reason}",
            allowed=f"Allowed: {', '.join(sorted(BACKBONES))}.",
            fix=advice,
            place=PathPlace(checkpoint, is_subject=False),
        )
    return found


def is_left_to_right(config: PreTrainedConfig, checkpoint: str | Path) -> bool:
    """Return True where a model reads from left to right, False where it reads in both directions.

    Args:
        config: of a checkpoint, or of a model of this package.
        checkpoint: its folder or name, for messages.
    """
    if isinstance(config, ContextualBertConfig):
        return config.blocks.is_causal
    return backbone_of(config, checkpoint).is_causal


def check_direction(config: PreTrainedConfig, checkpoint: str | Path, *, is_causal: bool | None) -> None:
    """Raise CheckpointError where a checkpoint reads in another direction than what is to be learned.

    Args:
        config: of the checkpoint.
        checkpoint: its folder or name.
        is_causal: whether it has to read from left to right; None: whatever it does.
    """
    if is_causal is None or is_left_to_right(config, checkpoint) == is_causal:
        return
    known = {name for name, each in BACKBONES.items() if each.is_causal == is_causal}
    ways = {True: "from left to right, to write", False: "in both directions"}
    if is_causal:
        fix = Message("Give one of these, or leave out {objective}.", objective="causal")
    else:
        fix = Message(
            "Give one of these. What reads from left to right is for {objective}, ContextualBertForCausalLM.",
            objective="causal",
        )
    raise CheckpointError(
        f"its architecture is {config.model_type!r}, which reads {ways[not is_causal]}, and here a text is read "
        f"{ways[is_causal]}",
        allowed=f"Allowed: {', '.join(sorted(known))}.",
        fix=fix,
        place=PathPlace(checkpoint, is_subject=False),
    )


def is_plain(config: PreTrainedConfig) -> bool:
    """Return True for a model of this package that is a BERT under BERT's names and reads no context."""
    if not isinstance(config, ContextualBertConfig) or config.conditioning != "none":
        return False
    return config.has_pretrained_start and not config.has_context_as_text and not config.num_extra_layers


def own_config(checkpoint: str | Path) -> ContextualBertConfig | None:
    """The config of a model of texts of this package, None where there is none, or another.

    Args:
        checkpoint: folder or name on the Hub.
    """
    if Path(checkpoint).is_file():
        return None
    try:
        config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    except Exception:
        return None  # who starts from it says what is amiss
    return config if isinstance(config, ContextualBertConfig) and config.has_position_embeddings else None


def loading_failure(error: Exception) -> str:
    """Return the reason that transformers gives for a folder. Its advice to trust code of the folder is left out.

    Example:
        >>> loading_failure(ValueError("Please pass the argument `trust_remote_code=True`."))
        'It asks to run code of its own (auto_map), which is never done. Remove auto_map from its files.'
    """
    if "trust_remote_code" in str(error):
        return "It asks to run code of its own (auto_map), which is never done. Remove auto_map from its files."
    return str(error)


def first_line(error: Exception) -> str:
    """The same in a line.

    Example:
        >>> first_line(ValueError("It has no model_type. Should it?"))
        'It has no model_type. Should it?'
    """
    return loading_failure(error).strip().split("\n")[0].rstrip(".")


@contextmanager
def weights_read(checkpoint: str | Path) -> Generator[None]:
    """Load weights without transformers' list of new ones: what is amiss is raised by who loads them.

    Raises:
        CheckpointError: weights that cannot be read.
    """
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"its weights cannot be loaded: {first_line(error)}",
            fix="Copy model.safetensors of the checkpoint into the folder again.",
            place=PathPlace(checkpoint, is_subject=False),
        ) from error
    finally:
        logging.set_verbosity(verbosity)


def weight_shapes(
    checkpoint: str | Path, head_parts: Mapping[str, str] | None = None
) -> dict[str, tuple[int, ...]] | None:
    """Return the shape of each weight of a checkpoint by its name, or None where they are not stored as safetensors.

    Args:
        checkpoint: folder or name on the Hub.
        head_parts: of the model that it is loaded into: the names are then those of this package. None: its own.

    Raises:
        CheckpointError: a file of weights that is damaged.
    """
    index = _file_of(checkpoint, "model.safetensors.index.json")
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index is not None else ()
        files = [_file_of(checkpoint, name) for name in sorted(shards) or ["model.safetensors"]]
        found: dict[str, tuple[int, ...]] = {}
        for path in files:
            if path is None:
                return None
            with safe_open(path, framework="np") as weights:
                found |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(
            f"its weights cannot be read: {first_line(error)}",
            fix="Copy model.safetensors of the checkpoint into the folder again.",
            place=PathPlace(checkpoint, is_subject=False),
        ) from error
    if head_parts is None or own_config(checkpoint) is not None:
        return found
    backbone = backbone_of(found_config(checkpoint, {}), checkpoint)
    return {backbone.name_of(name, head_parts): shape for name, shape in found.items()}


def has_masked_lm_head(checkpoint: str | Path) -> bool:
    """Return True where a checkpoint has the weights of a head for hidden tokens, beside the tied decoder.

    Args:
        checkpoint: folder or name on the Hub.

    Raises:
        CheckpointError: weights that cannot be read.
    """
    weight = backbone_of(found_config(checkpoint, {}), checkpoint).masked_lm_weight
    shapes = weight_shapes(checkpoint)
    if shapes is not None:
        return weight in shapes
    with weights_read(checkpoint):  # of another format: transformers knows them all
        loaded: Any = AutoModelForMaskedLM.from_pretrained(
            checkpoint, output_loading_info=True, trust_remote_code=False
        )
    return weight not in loaded[1]["missing_keys"]


def label_names_of(checkpoint: str | Path) -> tuple[str, ...]:
    """Return the names of the labels of a checkpoint in the order of their ids.

    Args:
        checkpoint: folder or name on the Hub.
    """
    names: Any = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False).id2label
    return tuple(names[number] for number in sorted(names))


def _file_of(checkpoint: str | Path, name: str) -> Path | None:
    try:
        path = cached_file(
            str(checkpoint),
            name,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:
        return None
    return Path(path) if path is not None else None


def pooling_of(checkpoint: str | Path) -> str:
    """Return the pooling that a checkpoint was trained with: "mean" if sentence-transformers wrote so, else "cls". A
    model of this package says so in its config.

    Args:
        checkpoint: folder or name on the Hub.

    Raises:
        CheckpointError: what is written there is no JSON object.
    """
    if (own := own_config(checkpoint)) is not None:
        return own.classifier_pooling
    return _written_pooling(checkpoint) or getattr(found_config(checkpoint, {}), "classifier_pooling", "cls")


def sentence_pooling_of(checkpoint: str | Path) -> str:
    """Return the pooling of a sentence encoder: what sentence-transformers wrote, else "mean".

    Args:
        checkpoint: folder or name on the Hub.

    Raises:
        CheckpointError: what is written there is no JSON object.
    """
    return _written_pooling(checkpoint) or "mean"


def _written_pooling(checkpoint: str | Path) -> str | None:
    """Return the pooling that sentence-transformers wrote beside a checkpoint, None where it wrote none."""
    path = _file_of(checkpoint, "1_Pooling/config.json")
    if path is None:
        return None
    try:
        modes = dict(json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"is no JSON object ({error}); it says how the checkpoint makes one vector of a text",
            fix="Mend it, or remove it: a label is then read from the first position.",
            place=PathPlace(path),
        ) from error
    # Since version 6 one key says it, where others each said yes or no.
    is_mean = modes.get("pooling_mode") == "mean" or modes.get("pooling_mode_mean_tokens")
    return "mean" if is_mean else "cls"


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
        raise ConfigurationError(
            f"No setting {name!r} of a checkpoint's place", allowed=did_you_mean(name, HUB_SETTINGS)
        )
    config = found_config(checkpoint, hub)  # says better what is amiss where nothing is there, or no BERT
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False, **hub)
    except Exception as error:  # tokenizers has no class of its own
        raise _no_tokenizer(checkpoint, first_line(error)) from error
    # Without its files transformers makes one that knows no word, and every text would be [UNK] [UNK] [UNK].
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise _no_tokenizer(checkpoint, "no vocabulary")
    is_causal = is_left_to_right(config, checkpoint)
    needed = ("eos_token",) if is_causal else ("pad_token", "mask_token", "sep_token")
    lacking = [name for name in needed if getattr(tokenizer, name) is None]
    if lacking:
        raise CheckpointError(
            f"its tokenizer has no {', '.join(lacking)}",
            fix=f"Give the tokenizer that it was trained with, a {'GPT-2' if is_causal else 'BERT'}'s.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    last = max(tokenizer.get_vocab().values())
    if last >= len(tokenizer):
        raise CheckpointError(
            f"its tokenizer has {len(tokenizer):,} tokens, and the last is number "
            f"{last + 1:,}: a token is in two lines of vocab.txt, or numbers are left out",
            fix="Give each token a line of its own.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    (mark_ends if is_causal else tell_halves)(tokenizer)
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"its tokenizer has {len(tokenizer):,} tokens and its model embeddings for {config.vocab_size:,}",
            fix="Extend these too (resize_token_embeddings), and save both.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    _check_same_model(tokenizer, config, checkpoint, is_causal=is_causal)
    # A tokenizer whose files do not say how much may be read allows any length; the model has no such position. That of
    # a run allows what the run read.
    longest = backbone_of(config, checkpoint).config_fields(config)["max_position_embeddings"]
    tokenizer.model_max_length = longest if _is_own(config) else min(tokenizer.model_max_length, longest)
    return tokenizer


def _check_same_model(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, checkpoint: str | Path, *, is_causal: bool
) -> None:
    """Raise CheckpointError where the tokenizer is that of another model, as far as the config shows it."""
    fix = "Copy the files of its own tokenizer into the folder."
    if 2 * len(tokenizer) < config.vocab_size:  # some matrices have a few rows more, for speed
        raise CheckpointError(
            f"its tokenizer has {len(tokenizer):,} tokens and its model embeddings for {config.vocab_size:,}",
            fix=f"{fix} If a shorter vocabulary is meant, cut the embeddings (resize_token_embeddings), and save both.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    name = "eos_token" if is_causal else "pad_token"
    theirs, own = getattr(config, f"{name}_id", None), getattr(tokenizer, f"{name}_id")
    # Beyond the vocabulary stands the default of transformers, for a config that names none.
    if theirs is not None and theirs != own and theirs < config.vocab_size:
        raise CheckpointError(
            f"its tokenizer has {getattr(tokenizer, name)!r} as token {own} and its config has {theirs} for it "
            f"({name}_id)",
            fix=fix,
            place=PathPlace(checkpoint, is_subject=False),
        )


def tokens_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the config fields of a tokenizer: ids of [PAD], [MASK] and [SEP], and ids that are never an answer."""
    ids = [getattr(tokenizer, name, None) for name in SPECIAL_TOKENS]
    return {
        "pad_token_id": tokenizer.pad_token_id,
        **({"mask_token_id": tokenizer.mask_token_id} if tokenizer.mask_token_id is not None else {}),
        **({"bos_token_id": tokenizer.bos_token_id} if tokenizer.bos_token_id is not None else {}),
        "eos_token_id": tokenizer.sep_token_id,
        "num_separators": num_separators(tokenizer),
        "reserved_token_ids": sorted({number for number in ids if number is not None}),
    }


def _no_tokenizer(checkpoint: str | Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"no tokenizer can be read ({reason}). Copy tokenizer.json, or vocab.txt and "
        "tokenizer_config.json, of the checkpoint into the folder.",
        place=PathPlace(checkpoint, is_subject=False),
    )


def _is_own(config: PreTrainedConfig) -> bool:
    return config.model_type == ContextualBertConfig.model_type
