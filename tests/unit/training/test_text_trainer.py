"""The Trainer of labelled texts: what it computes where, beside what the runs on texts show of it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.data import TextDataset
from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
from contextual_bert.training import TextTrainer, training_arguments

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 2,
}


def test_evaluation_reads_texts_of_one_length_together(tmp_path: Path) -> None:
    """Padding is not paid for, every text is read once, and what is found is that of the texts one by one."""
    lengths = torch.tensor([2, 9, 3, 8] * 10)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    ids = torch.randint(3, 23, (int(offsets[-1]),), generator=torch.Generator().manual_seed(0))
    texts = TextDataset(ids, offsets, context={}, labels=torch.arange(40) % 2)
    torch.manual_seed(0)
    model = ContextualBertForSequenceClassification(
        ContextualBertConfig(vocab_size=23, conditioning="none", initializer_range=0.5, **SIZES)
    )

    def trainer(batch_size: int, **more: Any) -> TextTrainer:
        settings: dict[str, Any] = {"per_device_eval_batch_size": batch_size, "report_to": [], **more}
        return TextTrainer(model, training_arguments(tmp_path, device="cpu", **settings), eval_dataset=texts)

    batches = list(trainer(10).get_eval_dataloader())
    assert [batch["input_ids"].shape[1] for batch in batches] == [2, 3, 8, 9]
    assert all(bool(batch["attention_mask"].all()) for batch in batches)
    assert sum(int(batch["input_ids"].sum()) for batch in batches) == int(ids.sum())
    together, alone = trainer(10).evaluate(), trainer(1).evaluate()
    for name in ("eval_loss", "eval_recall_at_1_percent"):
        assert together[name] == pytest.approx(alone[name], rel=1e-5)
    # What training leaves out, a last batch that is not full, is read here: 40 texts in batches of 16.
    assert sum(len(batch["labels"]) for batch in trainer(16, dataloader_drop_last=True).get_eval_dataloader()) == 40
