"""Of several reasons why something cannot be asked for, the one is given that mending another would not remove."""

from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.capabilities import missing_capabilities
from contextual_bert.testing import miniature_model, miniature_processor


class WithoutLogits(CompletionPipeline):
    no_logits = "There are no logits."


def test_what_has_no_logits_says_so_before_it_says_how_to_train() -> None:
    model = miniature_model("concat")  # without context_dropout
    reasons = [
        missing_capabilities(kind(model, miniature_processor()))["guidance"]
        for kind in (CompletionPipeline, WithoutLogits)
    ]
    assert reasons[0] is not None
    assert "context_dropout" in reasons[0]
    assert reasons[1] == "There are no logits."
