"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT's blocks, positions counted from the padding's id on, one segment."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from contextual_bert.models.backbones.backbone import POSITIONS, SEGMENTS, refuse_activation
from contextual_bert.models.backbones.bert import Bert


class Roberta(Bert):
    """RoBERTa and its relatives.

    The rows of positions that no token can have are dropped; the second segment starts as the first, so that a pair is
    told by its separators alone until training tells more.

    Reference:
        Liu et al. (2019), "RoBERTa: A Robustly Optimized BERT Pretraining Approach"; Conneau et al. (2020),
        "Unsupervised Cross-lingual Representation Learning at Scale"; Martin et al. (2020), "CamemBERT".
    """

    model_types = ("roberta", "xlm-roberta", "camembert")
    names = (
        (r"^roberta\.", "bert."),
        (r"^lm_head\.dense\.", "cls.predictions.transform.dense."),
        (r"^lm_head\.layer_norm\.", "cls.predictions.transform.LayerNorm."),
        (r"^lm_head\.", "cls.predictions."),
        (r"^classifier\.dense\.", "bert.pooler.dense."),
        (r"^classifier\.out_proj\.", "classifier."),
    )
    fixed_fields = {"type_vocab_size": 2}  # noqa: RUF012
    masked_lm_weight = "lm_head.dense.weight"

    def check(self, config: Any, checkpoint: object) -> None:
        super().check(config, checkpoint)
        refuse_activation(config.hidden_act, head="gelu", checkpoint=checkpoint)

    def config_fields(self, config: Any) -> dict[str, Any]:
        found = super().config_fields(config)
        return found | {"max_position_embeddings": config.max_position_embeddings - first_position(config)}

    def weights(self, weights: Mapping[str, Tensor], config: Any, head: Mapping[str, str]) -> dict[str, Tensor]:
        found = super().weights(weights, config, head)
        if POSITIONS in found:
            found[POSITIONS] = found[POSITIONS][first_position(config) :]
        if SEGMENTS in found:
            found[SEGMENTS] = found[SEGMENTS][:1].repeat(2, 1)
        return found


def first_position(config: Any) -> int:
    """Return the row of the position embeddings that the first token of a text has.

    Args:
        config: of a RoBERTa.

    Example:
        >>> from transformers import RobertaConfig
        >>> first_position(RobertaConfig(pad_token_id=1))
        2
    """
    return config.pad_token_id + 1
