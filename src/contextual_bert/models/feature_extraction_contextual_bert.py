"""The context half of a processor, and the batches that it gives. It knows no tokenizer."""

from typing import Any

from transformers import BatchFeature, FeatureExtractionMixin

from contextual_bert.context import ContextSchema


class ContextualBatch(BatchFeature):
    """A batch whose ``to`` takes the tensors of the context along.

    Example:
        >>> import torch
        >>> batch = ContextualBatch({"input_ids": torch.ones(1, 1), "context": {"sex": torch.zeros(1)}})
        >>> batch.to("meta")["context"]["sex"].device.type
        'meta'
    """

    def to(self, *args: Any, **kwargs: Any) -> "ContextualBatch":
        super().to(*args, **kwargs)
        if "context" in self.data:
            self.data["context"] = BatchFeature(self.data["context"]).to(*args, **kwargs).data
        return self


class ContextFeatureExtractor(FeatureExtractionMixin):
    """The context half of the processor: a ContextSchema in the shape that transformers saves and loads.

    Args:
        context_schema: ``ContextSchema.to_dict()``, or None for a model without a context.

    Example:
        >>> ContextFeatureExtractor().schema is None
        True
    """

    model_input_names = ("context",)

    def __init__(self, context_schema: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.context_schema = context_schema

    @property
    def schema(self) -> ContextSchema | None:
        """The schema as an object."""
        return ContextSchema.from_dict(self.context_schema) if self.context_schema is not None else None
