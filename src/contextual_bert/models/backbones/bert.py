"""BERT: the architecture whose names are this package's own."""

from typing import Any

from contextual_bert.errors import CheckpointError
from contextual_bert.models.backbones.backbone import Backbone

BERT_FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "layer_norm_eps",
    "classifier_dropout",
)


class Bert(Backbone):
    """BERT, and what was pretrained as one: its weights are loaded under their own names.

    Reference:
        Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding".
    """

    model_types = ("bert",)
    fields = {name: name for name in BERT_FIELDS}  # noqa: RUF012
    masked_lm_weight = "cls.predictions.transform.dense.weight"

    def check(self, config: Any, checkpoint: object) -> None:
        places = getattr(config, "position_embedding_type", None) or "absolute"
        if places != "absolute":
            raise CheckpointError(
                f"{checkpoint}: its position_embedding_type is {places!r}, and what it learned of positions "
                "cannot be taken over",
                fix="Give one with absolute positions.",
            )
