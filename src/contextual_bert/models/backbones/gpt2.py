"""GPT-2: a model that reads from left to right, and writes on."""

from typing import Any

from contextual_bert.errors import CheckpointError
from contextual_bert.models.backbones.backbone import Backbone
from contextual_bert.places import PathPlace

SETTINGS = ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn")


class Gpt2(Backbone):
    """GPT-2. Each token sees those before it alone: the next one is predicted.

    Reference:
        Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
    """

    model_types = ("gpt2",)
    is_causal = True
    names = (
        (r"^transformer\.wte\.", "bert.embeddings.word_embeddings."),
        (r"^transformer\.wpe\.", "bert.embeddings.position_embeddings."),
        (r"^transformer\.h\.", "bert.encoder.layer."),
        (r"^transformer\.ln_f\.", "bert.encoder.final_norm."),
    )
    fields = {  # noqa: RUF012
        "hidden_size": "hidden_size",
        "num_hidden_layers": "num_hidden_layers",
        "num_attention_heads": "num_attention_heads",
        "hidden_act": "activation_function",
        "hidden_dropout_prob": "resid_pdrop",
        "attention_probs_dropout_prob": "attn_pdrop",
        "layer_norm_eps": "layer_norm_epsilon",
    }
    fixed_fields = {"backbone": "gpt2", "type_vocab_size": 0}  # noqa: RUF012

    def check(self, config: Any, checkpoint: object) -> None:
        if config.add_cross_attention:
            raise CheckpointError(
                "its blocks attend to what an encoder read (add_cross_attention)",
                fix="Give one that reads its own text alone.",
                place=PathPlace(str(checkpoint), is_subject=False),
            )

    def config_fields(self, config: Any) -> dict[str, Any]:
        settings = {name: getattr(config, name) for name in SETTINGS} | {"embedding_dropout": config.embd_pdrop}
        inner = config.n_inner if config.n_inner is not None else 4 * config.hidden_size
        return super().config_fields(config) | {"intermediate_size": inner, "backbone_settings": settings}
