"""It is trained, how do I predict? Texts and contexts in, labels and their probabilities out.

The folder that a model and its processor were saved in is all that is needed. It knows no training.
"""

from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.saved_files import PairUse, trained_pairs
from contextual_bert.inference.scoring import check_finite, to_device
from contextual_bert.inference.text_baseline import TextBaseline
from contextual_bert.inference.texts.base_text_pipeline import BaseTextPipeline
from contextual_bert.inference.texts.encode_texts import spelt_tokens
from contextual_bert.inference.texts.text_layout import Layout
from contextual_bert.inference.texts.text_rows import TextBatch
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
    best_labels,
    label_logits,
)
from contextual_bert.models.truncation import Truncation

TextModel = ContextualBertForSequenceClassification | ContextualBertForTokenClassification | TextBaseline


class TextPipeline(BaseTextPipeline):
    """Labels texts, or the words of texts.

    Args:
        model: the trained model, or a trained baseline.
        processor: its processor.
        device: where to run; default: where the model is.
        truncation: what is kept of a text that is too long, its "head" or "head_tail"; None: as in training, which the
            processor knows.
        pair: whether queries have a second text.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``CompletionPipeline`` fills blanks in sets.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> pipeline = TextPipeline(ContextualBertForSequenceClassification(config), miniature_text_processor())
        >>> sorted(pipeline({"text": "word1 word2"})["probabilities"])
        ['bad', 'good']
    """

    def __init__(
        self,
        model: TextModel,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        truncation: Truncation | None = None,
        pair: PairUse = "optional",
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, get_args(TextModel)):
            wanted = ", ".join(each.__name__ for each in get_args(TextModel))
            raise ConfigurationError(f"{type(bare).__name__} gives no labels", fix=f"Give one of {wanted}.")
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items", fix="Give that of the text model.")
        place: Any = device if device is not None else model.device
        is_tagger = isinstance(bare, ContextualBertForTokenClassification)
        has_tags = bare.config.has_tags if isinstance(bare, TextBaseline) else is_tagger
        super().__init__(model.to(place).eval(), processor, has_tags=has_tags, truncation=truncation, pair=pair)

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, device: str | torch.device | None = None, truncation: Truncation | None = None
    ) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that labels nothing.
        """
        model, processor = load_text_model(directory, *get_args(TextModel))
        pipeline = cls(model, processor, device=device, truncation=truncation, pair=trained_pairs(directory))
        pipeline.verdicts = FieldVerdicts.from_run(directory)
        return pipeline

    def logits(self, batch: TextBatch) -> NDArray[np.float32]:
        inputs = tensors_of(batch)
        if batch.spelt is not None:
            places, is_real = torch.from_numpy(batch.places), torch.from_numpy(batch.is_real)
            inputs["characters"] = batch.spelt.characters(places, is_real)
        with torch.inference_mode():
            logits = self.model(**to_device(inputs, self.model.device)).logits.float()
            check_finite(logits, self.model)
        return logits.cpu().numpy()

    def read_tags(self, logits: NDArray[np.float32], is_start: NDArray[np.bool_]) -> NDArray[np.float32]:
        asked = torch.where(torch.from_numpy(is_start), 0, IGNORED_LABEL)
        return read_tags(
            self.model, torch.from_numpy(logits).to(self.model.device), asked.to(self.model.device)
        ).numpy()

    def spelt(self, layout: Layout) -> Any:
        most = self.processor.max_characters
        return spelt_tokens(layout, most) if most is not None else None


def tensors_of(batch: TextBatch) -> dict[str, Any]:
    """Return what ``forward`` takes of a batch, without the characters of its words."""
    found: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if batch.token_type_ids is not None:
        found["token_type_ids"] = batch.token_type_ids
    found = {name: torch.from_numpy(values) for name, values in found.items()}
    context = {name: torch.from_numpy(values) for name, values in batch.context.items()}
    return {**found, "context": context} if context else found


def read_tags(model: Any, logits: Tensor, asked: Tensor) -> Tensor:
    """The tag of each token and the probability of that tag, (batch, length, 2).

    Args:
        model: what gave the logits; its labels may be a chain.
        logits: (batch, length, labels).
        asked: (batch, length), -100 where no word begins: there a chain does not pass, and the tag means nothing.

    Example:
        >>> read_tags(torch.nn.Identity(), torch.tensor([[[0.0, 0.0], [0.0, 9.0]]]), torch.tensor([[0, 0]]))[0, 1, 0]
        tensor(1.)
    """
    best = best_labels(model, logits, asked).clamp(min=0)
    shares = label_logits(model, logits, asked).softmax(dim=-1).gather(-1, best.unsqueeze(-1)).squeeze(-1)
    return torch.stack([best.to(shares.dtype), shares], dim=-1).cpu()
