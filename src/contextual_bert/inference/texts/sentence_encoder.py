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
from torch.nn import functional

from contextual_bert.inference.scoring import check_finite, to_device
from contextual_bert.inference.texts.encode_texts import encode_texts
from contextual_bert.models import ContextualBertModel, ContextualBertProcessor
from contextual_bert.models.checkpoint_files import check_direction, found_config, sentence_pooling_of
from contextual_bert.models.sequence_classification import vector_of_text
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
        model: Any = ContextualBertModel.from_checkpoint(checkpoint, conditioning="none")
        self.device = device or torch.device("cpu")
        self.model = model.eval().to(self.device)
        self.processor = ContextualBertProcessor.from_checkpoint(checkpoint)
        self.pooling = pooling or sentence_pooling_of(checkpoint)
        self.max_length = max_length
        self.truncation: Truncation | None = truncation

    @torch.no_grad()
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
        found = np.empty((len(texts), self.model.config.hidden_size), dtype=np.float32)
        order = dataset.by_length()  # texts of one length beside each other, so that none is padded much
        for start in range(0, len(order), _BATCH_SIZE):
            chosen = order[start : start + _BATCH_SIZE]
            inputs = to_device(dataset.__getitems__(chosen).inputs(), self.device)
            hidden = self.model(**inputs).last_hidden_state
            vectors = functional.normalize(
                vector_of_text(hidden, inputs["attention_mask"], pooling=self.pooling), dim=-1
            )
            check_finite(vectors, self.model)
            found[chosen.numpy()] = vectors.cpu().numpy()
            if progress is not None:
                progress(start + len(chosen), len(order))
        return found
