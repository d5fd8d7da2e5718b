"""A sentence encoder that nothing trains: from texts to vectors.

It knows no table of items and keeps nothing. Not in the paper.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from contextual_bert.inference.texts.document_scoring import embed_texts
from contextual_bert.inference.texts.encode_texts import encode_texts
from contextual_bert.models import ContextualBertForSentenceEmbedding, ContextualBertProcessor
from contextual_bert.models.checkpoint_files import check_direction, found_config, sentence_pooling_of
from contextual_bert.models.truncation import Truncation

_BATCH_SIZE = 64


class SentenceEncoder:
    """Vectors of texts by a BERT that stays as it is.

    Formula:
        v = z / |z|;  z the mean of the last block over the text ("mean"), or its first position ("cls")

    Args:
        checkpoint: folder or name on the Hub.
        pooling: "mean" or "cls". None: what sentence-transformers wrote beside the checkpoint, else "mean".
        max_length: tokens that are read of a text; None: as many as the tokenizer allows.
        truncation: what is kept of a longer text.
        device: where to compute.

    Raises:
        CheckpointError: no checkpoint there, or one that reads from left to right.

    Relation to its siblings:
        ``inference.text_vectors`` keeps what was computed.

    Reference:
        Reimers and Gurevych (2019), "Sentence-BERT", section 3.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        *,
        pooling: str | None = None,
        max_length: int | None = None,
        truncation: Truncation | None = None,
        device: torch.device | None = None,
    ) -> None:
        check_direction(found_config(checkpoint, {}), checkpoint, is_causal=False)
        self.pooling = pooling or sentence_pooling_of(checkpoint)
        model: Any = ContextualBertForSentenceEmbedding.from_checkpoint(
            checkpoint, conditioning="none", classifier_pooling=self.pooling
        )
        self.device = device or torch.device("cpu")
        self.model = model.eval().to(self.device)
        self.processor = ContextualBertProcessor.from_checkpoint(checkpoint)
        self.max_length = max_length
        self.truncation: Truncation | None = truncation

    def read(self, texts: Sequence[str], *, progress: Callable[[int, int], None] | None = None) -> NDArray[np.float32]:
        """Return a vector of length 1 of each text: (rows, hidden).

        Args:
            texts: none of them blank.
            progress: called with (texts done, texts in all) after each batch.

        Raises:
            NonFiniteError: the encoder gives no numbers.
        """
        dataset = encode_texts(
            pa.table({"text": pa.array(texts, pa.string())}),
            self.processor,
            text="text",
            max_length=self.max_length,
            truncation=self.truncation,
        ).dataset
        return embed_texts(self.model, dataset, batch_size=_BATCH_SIZE, progress=progress)
