"""Contract 8 and the heads: a method on a pretrained BERT, and under every head that BERT has.

Each function takes the name of a registered method and raises AssertionError with the reason. It knows no method.
Paper: section 5, which expects the methods to carry over to text.
"""

import inspect
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from contextual_bert.conditioning import get_method
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForSeq2SeqLM, ContextualBertModel
from contextual_bert.models.auto import MODELS
from contextual_bert.models.backbones import BACKBONES
from contextual_bert.models.plain_bert import plain_bert_config
from contextual_bert.models.pretrained import is_added
from contextual_bert.models.seq2seq_lm import DECODER_CLASSES
from contextual_bert.testing.miniature import (
    batch_rows,
    drawn_anew,
    miniature_batch,
    miniature_config,
    miniature_plain_config,
    miniature_schema,
    miniature_tokenizer,
    relative_difference,
    require,
)

ROUNDING = 1e-5  # float32: the same sums in another order


def check_checkpoint_start(method_name: str, *, all_heads: bool = False) -> None:
    """Contract 8: from a checkpoint only declared weights are new; at first the output is that of transformers' own
    class if the method promises so, and without a slot bit for bit.

    Args:
        method_name: of a registered method.
        all_heads: check every head of every backbone; else every head of BERT, and of the others the first that goes
            with them, for what a head starts with does not depend on the backbone.
    """
    for model_type, backbone in BACKBONES.items():
        going = [each for each in MODELS.values() if each.is_causal in (None, backbone.is_causal)]
        for model_class in going if all_heads or model_type == "bert" else [_with_logits(going)]:
            _check_start(method_name, model_type, model_class, fields_of(model_class)[0])


def _with_logits(heads: list[Any]) -> Any:
    """The first head that is more than the blocks."""
    return next(each for each in heads if each is not ContextualBertModel)


def fields_of(model_class: Any) -> list[dict[str, Any]]:
    """Return the fields of the configs that a head is checked with: of an encoder-decoder, each decoder's."""
    if model_class is not ContextualBertForSeq2SeqLM:
        return [{}]
    return [{"decoder_type": name, "decoder_start_token_id": 1} for name in DECODER_CLASSES]


def _check_start(method_name: str, model_type: str, model_class: Any, fields: dict[str, Any]) -> None:
    name, method = (
        " ".join([method_name, model_type, model_class.__name__, *map(str, fields.values())]),
        get_method(method_name),
    )
    auto_class, is_whole = model_class.checkpoint_class or model_class.auto_class, model_class.checkpoint_class is None
    plain = drawn_anew(auto_class.from_config(miniature_plain_config(model_type), trust_remote_code=False))
    state = method.state(miniature_config(method_name).sizes)
    with tempfile.TemporaryDirectory() as folder:
        miniature_checkpoint(plain, Path(folder))
        schema = miniature_schema() if method.has_context else None
        try:
            model = model_class.from_checkpoint(folder, schema=schema, conditioning=method_name, **fields).eval()
        except ConfigurationError:
            reads_on = BACKBONES[model_type].is_causal and state is not None and state.reads_sequence
            require(reads_on, f"{name}: refused")
            return
    backbone, prefix = BACKBONES[model_type], "" if plain.base_model is not plain else f"{plain.base_model_prefix}."
    of_base = model_class is ContextualBertModel
    given = {
        backbone.name_of(f"{prefix}{key}", model_class.head_parts).removeprefix("bert." if of_base else "")
        for key in plain.state_dict()
    }
    given |= {key.removeprefix("bert.") if of_base else key for key in backbone.made}
    if not is_whole:  # of the encoder alone
        given = {f"bert.{key.removeprefix('bert.')}" for key in given}
    new = {key for key in model.state_dict().keys() - given if not is_added(key, model)}
    require(not new, f"{name}: new weights that contain neither 'conditioning.' nor 'context_encoder.': {new}")
    if is_whole:
        require(not model.has_new_head, f"{name}: the head of the checkpoint was not taken")
    else:
        model = model.get_encoder()
    if not method.keeps_checkpoint and method.has_context:
        return
    batch = {key: value for key, value in miniature_batch().items() if key != "labels"}
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    if backbone.padding_id is not None:
        ids, padding = inputs["input_ids"], backbone.padding_id
        inputs["input_ids"] = torch.where(ids == 0, padding, torch.where(ids == padding, 0, ids))
    expected = _real(_outputs(plain, inputs), inputs)
    for context in (batch["context"], None):
        for ours, theirs in zip(_real(_outputs(model, {**inputs, "context": context}), inputs), expected, strict=False):
            difference = relative_difference(ours, theirs)
            most = 0 if backbone.is_exact and not method.has_context else ROUNDING
            require(
                difference <= most,
                f"{name}: promises the checkpoint's function (keeps_checkpoint), but starts {difference} away",
            )


def _real(outputs: list[Tensor], inputs: dict[str, Tensor]) -> list[Tensor]:
    """The outputs at the positions that a text has: of padding each architecture makes something else."""
    is_real = inputs["attention_mask"].bool()
    return [each[is_real] if each.shape[:2] == is_real.shape else each for each in outputs]


def check_heads(method_name: str) -> None:
    """Every head: BERT's own with its names, fed by `context`, which reaches its own row alone; saved and loaded."""
    for model_class in MODELS.values():
        if not model_class.is_causal:  # see check_generation
            for fields in fields_of(model_class):
                _check_head(method_name, model_class, fields)


def _check_head(method_name: str, model_class: Any, own: dict[str, Any]) -> None:
    name = " ".join([method_name, model_class.__name__, *map(str, own.values())])
    auto_class, is_whole = model_class.auto_class, model_class.checkpoint_class is None
    fields: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2, **own}
    model: Any = drawn_anew(model_class(miniature_config(method_name, **fields)))
    require(
        "context" in inspect.signature(model.forward).parameters,
        f"{name}: forward does not name `context`: a Trainer would drop it",
    )
    batch = {key: value for key, value in miniature_batch().items() if key != "labels"}
    if not is_whole:
        batch["decoder_input_ids"] = batch["input_ids"].flip(1)
    found = _outputs(model, batch)
    if not get_method(method_name).has_context and is_whole:
        bert = auto_class.from_config(plain_bert_config(model.config), trust_remote_code=False).eval()
        lacking = bert.load_state_dict(model.state_dict(), strict=False)
        absent = [key for key in lacking.missing_keys if not key.startswith("pooler.")]
        require(not absent and not lacking.unexpected_keys, f"{name}: its weights are not those of BERT's head")
        inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
        for ours, theirs in zip(found, _outputs(bert, inputs), strict=False):
            difference = relative_difference(ours, theirs)
            require(difference <= ROUNDING, f"{name}: its outputs are {difference} away from those of BERT's head")
    other = _outputs(model, {**batch, "context": batch_rows(batch, [1, 1, 2, 3])["context"]})
    for before, after in zip(found, other, strict=True):
        is_alone = relative_difference(after[1:], before[1:]) <= ROUNDING
        require(is_alone, f"{name}: another context in row 0 changes other rows")
    changes = not torch.equal(found[0][0], other[0][0])
    require(changes == get_method(method_name).has_context, f"{name}: whether a context changes its own row: {changes}")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = auto_class.from_pretrained(folder, trust_remote_code=False)
    require(type(loaded) is model_class, f"{name}: loaded as {type(loaded).__name__}")
    same = all(torch.equal(*pair) for pair in zip(found, _outputs(loaded.eval(), batch), strict=True))
    require(same, f"{name}: the loaded model gives other outputs")


def miniature_checkpoint(bert: PreTrainedModel, folder: Path) -> None:
    """Save a BERT and a tokenizer for a few words as a checkpoint that ``from_checkpoint`` reads."""
    bert.save_pretrained(folder)
    backbone = BACKBONES.get(bert.config.model_type)
    padding_id = backbone.padding_id if backbone is not None else None
    miniature_tokenizer(bert.config.vocab_size, padding_id=padding_id or 0).save_pretrained(folder)


@torch.no_grad()
def _outputs(model: Any, batch: dict[str, Any]) -> list[Tensor]:
    """Return the outputs of the head, a row a row of the batch. State and pooled vector belong to the model."""
    named = {"logits_at": "all"} if "logits_at" in inspect.signature(model.forward).parameters else {}
    outputs = model(**batch, **named)
    return [outputs[key] for key in outputs if key not in ("state", "pooler_output", "past_key_values")]
