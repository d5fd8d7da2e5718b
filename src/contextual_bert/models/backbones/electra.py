"""ELECTRA: BERT's blocks, and embeddings of a width of their own that a layer maps to the blocks'."""

from typing import Any

from contextual_bert.models.backbones.backbone import refuse_activation
from contextual_bert.models.backbones.bert import Bert


class Electra(Bert):
    """ELECTRA, its discriminators and its generators; only these have a head for hidden tokens.

    Reference:
        Clark et al. (2020), "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators".
    """

    model_types = ("electra",)
    names = (
        (r"^electra\.embeddings_project\.", "bert.embeddings.projection."),
        (r"^electra\.", "bert."),
        (r"^generator_predictions\.", "cls.predictions.transform."),
        (r"^generator_lm_head\.weight$", "cls.predictions.decoder.weight"),
        (r"^generator_lm_head\.bias$", "cls.predictions.bias"),
        (r"^classifier\.dense\.", "bert.pooler.dense."),
        (r"^classifier\.out_proj\.", "classifier."),
    )
    fixed_fields = {"pooler_act": "gelu"}  # noqa: RUF012
    masked_lm_weight = "generator_predictions.dense.weight"

    def check(self, config: Any, checkpoint: object) -> None:
        super().check(config, checkpoint)
        refuse_activation(config.hidden_act, head="gelu", checkpoint=checkpoint)

    def config_fields(self, config: Any) -> dict[str, Any]:
        found = super().config_fields(config)
        is_projected = config.embedding_size != config.hidden_size
        return found | ({"embedding_size": config.embedding_size} if is_projected else {})
