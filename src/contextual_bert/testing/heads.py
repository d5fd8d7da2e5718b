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
from transformers import BertModel, PreTrainedModel

from contextual_bert.conditioning import get_method
from contextual_bert.models import ContextualBertModel
from contextual_bert.models.auto import MODELS
from contextual_bert.models.pretrained import is_added
from contextual_bert.testing.miniature import (
    drawn_anew,
    miniature_batch,
    miniature_config,
    miniature_schema,
    miniature_tokenizer,
    plain_bert_config,
    relative_difference,
    require,
    rows_of,
)

ROUNDING = 1e-5  # float32: the same sums in another order


def check_bert_start(method_name: str) -> None:
    """Contract 8: from a BERT checkpoint only declared weights are new; at first the output is BERT's if promised."""
    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    fields: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2}
    bert = drawn_anew(BertModel(plain_bert_config(miniature_config("none", **fields)), add_pooling_layer=False))
    with tempfile.TemporaryDirectory() as folder:
        miniature_checkpoint(bert, Path(folder))
        schema = miniature_schema() if get_method(method_name).has_context else None
        model = ContextualBertModel.from_bert(folder, schema=schema, conditioning=method_name).eval()
    taken, given = model.state_dict(), bert.state_dict()
    new = {key for key in taken.keys() - given.keys() if not is_added(key, model)}
    require(not new, f"{method_name}: new weights that contain neither 'conditioning.' nor 'context_encoder.': {new}")
    if not get_method(method_name).keeps_bert:
        return
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    is_real = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = bert(**inputs).last_hidden_state[is_real]
        for context in (batch["context"], None):
            difference = relative_difference(model(**inputs, context=context).last_hidden_state[is_real], expected)
            require(
                difference <= ROUNDING,
                f"{method_name}: promises to keep BERT's function (keeps_bert), but starts {difference} away from it",
            )


def check_heads(method_name: str) -> None:
    """Every head: BERT's own with its names, fed by `context`, which reaches its own row alone; saved and loaded."""
    for auto_class, model_class in MODELS.items():
        name = f"{method_name}, {model_class.__name__}"
        fields: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2}
        model: Any = drawn_anew(model_class(miniature_config(method_name, **fields)))
        require(
            "context" in inspect.signature(model.forward).parameters,
            f"{name}: forward does not name `context`: a Trainer would drop it",
        )
        batch = {key: value for key, value in miniature_batch().items() if key != "labels"}
        found = _outputs(model, batch)
        if not get_method(method_name).has_context:
            bert = auto_class.from_config(plain_bert_config(model.config), trust_remote_code=False).eval()
            lacking = bert.load_state_dict(model.state_dict(), strict=False)
            absent = [key for key in lacking.missing_keys if not key.startswith("pooler.")]
            require(not absent and not lacking.unexpected_keys, f"{name}: its weights are not those of BERT's head")
            inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
            for ours, theirs in zip(found, _outputs(bert, inputs), strict=False):
                difference = relative_difference(ours, theirs)
                require(difference <= ROUNDING, f"{name}: its outputs are {difference} away from those of BERT's head")
        other = _outputs(model, {**batch, "context": rows_of(batch, [1, 1, 2, 3])["context"]})
        for before, after in zip(found, other, strict=True):
            is_alone = relative_difference(after[1:], before[1:]) <= ROUNDING
            require(is_alone, f"{name}: another context in row 0 changes other rows")
        changes = not torch.equal(found[0][0], other[0][0])
        require(
            changes == get_method(method_name).has_context, f"{name}: whether a context changes its own row: {changes}"
        )
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            loaded = auto_class.from_pretrained(folder, trust_remote_code=False)
        require(type(loaded) is model_class, f"{name}: loaded as {type(loaded).__name__}")
        same = all(torch.equal(*pair) for pair in zip(found, _outputs(loaded.eval(), batch), strict=True))
        require(same, f"{name}: the loaded model gives other outputs")


def miniature_checkpoint(bert: PreTrainedModel, folder: Path) -> None:
    """Save a BERT and a tokenizer for a few words as a checkpoint that ``from_bert`` reads."""
    bert.save_pretrained(folder)
    miniature_tokenizer(bert.config.vocab_size).save_pretrained(folder)


@torch.no_grad()
def _outputs(model: Any, batch: dict[str, Any]) -> list[Tensor]:
    """Return the outputs of the head, a row a row of the batch. State and pooled vector belong to the model."""
    named = {"logits_at": "all"} if "logits_at" in inspect.signature(model.forward).parameters else {}
    outputs = model(**batch, **named)
    return [outputs[key] for key in outputs if key not in ("state", "pooler_output")]
