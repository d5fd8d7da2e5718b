"""The trainer of hidden words and next sentences: each evaluation has the accuracy of the decision, too."""

from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch.utils.data import DataLoader
from transformers.trainer_utils import EvalLoopOutput

from contextual_bert.data import EveryPosition
from contextual_bert.data.sentence_pairs import SentencePairs
from contextual_bert.evaluation.metrics import NEXT_SENTENCE
from contextual_bert.inference.texts.sentence_scoring import decide_pairs
from contextual_bert.training import ContextualBertTrainer
from contextual_bert.training.objectives import MaskedObjective


class SentenceObjective(MaskedObjective):
    """Hidden tokens of pairs of sentences; ``SentenceTrainer`` adds the accuracy of the decision."""

    label_metrics = (NEXT_SENTENCE,)


class SentenceTrainer(ContextualBertTrainer):
    """Learn hidden tokens and next sentences.

    Formula: the accuracy is that of a report on the same part: over the pairs of the texts of which a token is scored.

    Args:
        *args, **settings: of ``ContextualBertTrainer``; ``eval_dataset`` has the scored tokens.
        decided: pairs of the evaluated part, in the order of ``eval_dataset``; None: nothing is evaluated.

    Relation to its siblings: all others evaluate what they rank alone.
    """

    def __init__(self, *args: Any, decided: SentencePairs | None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.decided = decided

    def evaluation_loop(
        self, dataloader: DataLoader[Any], *args: Any, metric_key_prefix: str = "eval", **settings: Any
    ) -> EvalLoopOutput:
        """Score hidden tokens as Trainer does, then decide about pairs."""
        found = super().evaluation_loop(dataloader, *args, metric_key_prefix=metric_key_prefix, **settings)
        tokens: Any = dataloader.dataset
        if self.decided is None or not isinstance(tokens, EveryPosition) or found.metrics is None:
            return found
        rows = self.decided.dataset.example_ids.numpy()
        is_chosen = np.isin(rows, rows[tokens.set_index.unique().numpy()])
        predictions = decide_pairs(
            self.model,
            self.decided,
            np.flatnonzero(is_chosen),
            rows=rows,
            batch_size=self.args.eval_batch_size,
            dtype=torch.bfloat16 if self.args.bf16 else torch.float32,
            is_shared=dist.is_available() and dist.is_initialized(),
        )
        accuracy = 100 * predictions.num_right.sum() / predictions.num_pairs.sum()
        found.metrics[f"{metric_key_prefix}_{NEXT_SENTENCE}"] = float(accuracy)
        return found
