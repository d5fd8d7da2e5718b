"""DistilBERT: BERT's blocks under other names, without segments."""

from contextual_bert.models.backbones.backbone import SEGMENTS, Backbone


class DistilBert(Backbone):
    """DistilBERT. Both segments start as zero; the pooler has the activation of its classifier.

    Reference:
        Sanh et al. (2019), "DistilBERT, a distilled version of BERT".
    """

    model_types = ("distilbert",)
    names = (
        (r"^distilbert\.", "bert."),
        (r"\.transformer\.layer\.", ".encoder.layer."),
        (r"\.attention\.q_lin\.", ".attention.self.query."),
        (r"\.attention\.k_lin\.", ".attention.self.key."),
        (r"\.attention\.v_lin\.", ".attention.self.value."),
        (r"\.attention\.out_lin\.", ".attention.output.dense."),
        (r"\.sa_layer_norm\.", ".attention.output.LayerNorm."),
        (r"\.ffn\.lin1\.", ".intermediate.dense."),
        (r"\.ffn\.lin2\.", ".output.dense."),
        (r"\.output_layer_norm\.", ".output.LayerNorm."),
        (r"^vocab_transform\.", "cls.predictions.transform.dense."),
        (r"^vocab_layer_norm\.", "cls.predictions.transform.LayerNorm."),
        (r"^vocab_projector\.weight$", "cls.predictions.decoder.weight"),
        (r"^vocab_projector\.bias$", "cls.predictions.bias"),
        (r"^pre_classifier\.", "bert.pooler.dense."),
    )
    fields = {  # noqa: RUF012
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
    }
    fixed_fields = {"type_vocab_size": 2, "layer_norm_eps": 1e-12, "pooler_act": "relu"}  # noqa: RUF012
    masked_lm_weight = "vocab_transform.weight"
    made = (SEGMENTS,)
