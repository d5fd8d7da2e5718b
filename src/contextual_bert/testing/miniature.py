"""A model, a batch and a schema small enough for a contract to take milliseconds.

All weights are drawn anew from a generator, those that a method starts at zero too: a contract must hold anywhere, not
only where training begins. It knows no contract. Paper: section 4, in miniature.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import BertProcessing
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
)
from contextual_bert.models.backbones import BACKBONES

ITEMS = tuple(f"item-{number}" for number in range(20))
SETS = (  # of different lengths; the masked item of each is ANSWERS'
    ("item-0", "[MASK]", "item-2", "item-3", "item-4"),
    ("item-5", "item-6", "[MASK]"),
    ("[MASK]", "item-8", "item-9", "item-10"),
    ("item-3", "item-1", "[MASK]", "item-7", "item-19"),
)
ANSWERS = ("item-1", "item-7", "item-11", "item-0")
RECORDS: tuple[dict[str, Any], ...] = (
    {"sex": "f", "age": 12, "brands": ["a", "b"], "style": [0.5, -1.0]},
    {"sex": "m", "age": 45, "brands": ["c"], "style": [1.5, 0.25]},
    {"sex": "nobody knows", "age": 70, "brands": []},  # unknown, empty, missing
    {"age": 33, "brands": ["b", "c", "a"], "style": [-0.75, 2.0]},
)
_MODEL_TYPE: ContextVar[str] = ContextVar("_MODEL_TYPE", default="bert")
Model = TypeVar("Model", bound=PreTrainedModel)
WEIGHT_SCALE = 0.2  # about 1 / sqrt(hidden): neither fades nor explodes from block to block


def miniature_schema() -> ContextSchema:
    """One context feature of each kind."""
    return ContextSchema(
        features=(
            Categorical(name="sex", values=("f", "m")),
            Numerical(name="age", edges=(20.0, 40.0, 60.0)),
            MultiCategorical(name="brands", values=("a", "b", "c")),
            Vector(name="style", size=2, embedding_size=4),
        )
    )


@contextmanager
def blocks_of(model_type: str) -> Generator[None]:
    """Let the contracts build their models of the blocks of another architecture."""
    token = _MODEL_TYPE.set(model_type)
    try:
        yield
    finally:
        _MODEL_TYPE.reset(token)


def miniature_config(method_name: str, **fields: Any) -> ContextualBertConfig:
    """Three blocks of width 32 without dropout; ``fields`` override."""
    sizes: dict[str, Any] = {
        "vocab_size": len(ITEMS) + 3,  # the reserved ids
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    model_type = _MODEL_TYPE.get()
    if model_type not in BACKBONES:  # no architecture of transformers
        sizes |= {"backbone": model_type, "has_position_embeddings": True}
    elif model_type != "bert":
        found = BACKBONES[model_type].config_fields(miniature_plain_config(model_type))
        sizes |= {name: found[name] for name in ("backbone", "backbone_settings")} | {"has_position_embeddings": True}
    return ContextualBertConfig.from_schema(miniature_schema(), conditioning=method_name, **(sizes | fields))


def miniature_model(method_name: str, *, seed: int = 0, **fields: Any) -> ContextualBertForMaskedLM:
    """A model in ``eval()`` mode, every weight drawn at random."""
    return drawn_anew(ContextualBertForMaskedLM(miniature_config(method_name, **fields)), seed=seed)


def drawn_anew(model: Model, *, seed: int = 0) -> Model:
    """The model in ``eval()`` mode, every weight drawn at random, around 1 for the scales of LayerNorms."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator) * WEIGHT_SCALE
            weight.copy_(1 + noise if name.endswith("LayerNorm.weight") else noise)
    return model.eval()


def miniature_processor() -> ContextualBertProcessor:
    """Knows ITEMS and ``miniature_schema``."""
    return ContextualBertProcessor.from_items(ITEMS, miniature_schema())


def miniature_plain_config(model_type: str) -> PreTrainedConfig:
    """The config of another architecture in the sizes of ``miniature_config``."""
    fields: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    named = BACKBONES[model_type].fields
    sizes = {named[name]: value for name, value in fields.items() if name in named}
    if model_type == "gpt2":
        sizes |= {"n_inner": fields["intermediate_size"], "embd_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
    return AutoConfig.for_model(
        model_type, vocab_size=len(ITEMS) + 3, pad_token_id=BACKBONES[model_type].padding_id or 0, **sizes
    )


def miniature_tokenizer(vocab_size: int = 23, *, padding_id: int = 0) -> PreTrainedTokenizerFast:
    """A tokenizer for text: BERT's special tokens, then word0, word1, and so on; it puts [CLS] and [SEP] around. For a
    model that writes, these are the beginning and the end of a text."""
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "MASK", "UNK", "CLS", "SEP")}
    names = [name for name in special.values() if name != "[PAD]"]
    names.insert(padding_id, "[PAD]")
    words = [*names, *(f"word{number}" for number in range(vocab_size - len(special)))]
    ids = {word: number for number, word in enumerate(words)}
    backend: Any = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="[CLS]", eos_token="[SEP]", **special)


def miniature_text_processor() -> ContextualBertProcessor:
    """For text: knows a few words, and one feature."""
    schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
    return ContextualBertProcessor(ContextFeatureExtractor(schema.to_dict()), miniature_tokenizer())


def miniature_batch() -> dict[str, Any]:
    """Four sets with one [MASK] each, padded, with their contexts and labels: what ``forward`` takes."""
    processor = miniature_processor()
    batch = dict(processor(items=SETS, context=RECORDS))
    answers = torch.tensor([processor.items.id_of(answer) for answer in ANSWERS])
    is_masked = batch["input_ids"] == processor.items.id_of("[MASK]")
    batch["labels"] = torch.where(is_masked, answers[:, None], IGNORED_LABEL)
    return batch


def batch_rows(batch: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """These rows of a batch, context included."""
    return {
        name: {feature: tensor[rows] for feature, tensor in value.items()} if isinstance(value, dict) else value[rows]
        for name, value in batch.items()
    }


def require(holds: bool, text: str) -> None:
    """Raise AssertionError with ``text`` unless ``holds``; unlike ``assert`` it also works under ``python -O``."""
    if not holds:
        raise AssertionError(text)


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """max |found - expected| / max |expected|; infinite where the shapes differ or something is not a number."""
    if found.shape != expected.shape or not bool(found.isfinite().all()):
        return float("inf")
    scale = float(expected.abs().max())
    return float((found.float() - expected.float()).abs().max()) / (scale or 1.0)
