"""Capabilities of a pipeline beside single completions, with the reason for each that is missing.

The reasons are those with which the others refuse, or with which they say that nothing changed. Paper: not there.
"""

from contextual_bert.inference.explain.explanation import why_no_explanation
from contextual_bert.inference.guidance import why_no_guidance
from contextual_bert.inference.pipeline import CompletionPipeline


def missing_capabilities(pipeline: CompletionPipeline) -> dict[str, str | None]:
    """Return each further capability with the reason why this pipeline lacks it; None where it has it.

    Example:
        >>> from contextual_bert.testing import miniature_model, miniature_processor
        >>> pipeline = CompletionPipeline(miniature_model("concat", field_dropout=0.2), miniature_processor())
        >>> [name for name, reason in missing_capabilities(pipeline).items() if reason is None]
        ['complete_jointly', 'explain', 'context']
    """
    config = pipeline.model.config
    no_context = f"This model was trained with conditioning={config.conditioning!r} and reads no context."
    return {
        "complete_jointly": pipeline.no_logits,
        "explain": why_no_explanation(pipeline),
        "guidance": pipeline.no_logits or why_no_guidance(pipeline.model),
        "context": no_context if not config.layout else None,
    }
