"""ModernBERT: pre-norm blocks with rotary positions, attention that is local in most of them, gated feed-forward."""

from collections.abc import Mapping
from typing import Any

from contextual_bert.errors import CheckpointError
from contextual_bert.models.backbones.backbone import SEGMENTS, Backbone
from contextual_bert.places import PathPlace

# Fields of its own that its blocks and heads read; `backbone_settings` of a config here holds them.
SETTINGS = (
    "norm_bias",
    "attention_bias",
    "layer_types",
    "rope_parameters",
    "local_attention",
    "embedding_dropout",
    "mlp_bias",
    "decoder_bias",
    "classifier_bias",
    "classifier_activation",
)


class ModernBert(Backbone):
    """ModernBERT. Its embeddings know no positions: the blocks rotate queries and keys by theirs.

    Reference:
        Warner et al. (2024), "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder".
    """

    model_types = ("modernbert",)
    names = (
        (r"^model\.embeddings\.tok_embeddings\.", "bert.embeddings.word_embeddings."),
        (r"^model\.embeddings\.norm\.", "bert.embeddings.LayerNorm."),
        (r"^model\.layers\.", "bert.encoder.layer."),
        (r"^model\.final_norm\.", "bert.encoder.final_norm."),
        (r"^decoder\.weight$", "cls.predictions.decoder.weight"),
        (r"^decoder\.bias$", "cls.predictions.bias"),
    )
    fields = {  # noqa: RUF012
        "hidden_size": "hidden_size",
        "num_hidden_layers": "num_hidden_layers",
        "num_attention_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "hidden_act": "hidden_activation",
        "hidden_dropout_prob": "mlp_dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "layer_norm_eps": "norm_eps",
        "classifier_dropout": "classifier_dropout",
        "classifier_pooling": "classifier_pooling",
    }
    fixed_fields = {"backbone": "modernbert", "type_vocab_size": 2}  # noqa: RUF012
    made = (SEGMENTS,)
    masked_lm_weight = "head.dense.weight"

    def name_of(self, weight: str, head: Mapping[str, str]) -> str:
        found = super().name_of(weight, head)
        first, _, rest = found.partition(".")
        return f"{head.get(first, first)}.{rest}"

    def check(self, config: Any, checkpoint: object) -> None:
        scaled = [kind for kind, of_kind in config.rope_parameters.items() if of_kind["rope_type"] != "default"]
        if scaled:
            raise CheckpointError(
                f"its rope_parameters of {scaled[0]} are of type {config.rope_parameters[scaled[0]]['rope_type']!r}",
                allowed="Allowed: default.",
                fix="Give a checkpoint whose positions are rotated as they are.",
                place=PathPlace(str(checkpoint), is_subject=False),
            )

    def config_fields(self, config: Any) -> dict[str, Any]:
        return super().config_fields(config) | {
            "backbone_settings": {name: getattr(config, name) for name in SETTINGS},
        }
