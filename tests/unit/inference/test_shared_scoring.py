"""Processes that share a scoring: together they run each row once, and each gets the scores of one process."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Scores
from contextual_bert.inference import score, score_answers, score_labels
from contextual_bert.inference.texts.encode_questions import encode_questions
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertForQuestionAnswering
from contextual_bert.testing import miniature_text_processor

Scoring = Callable[..., Scores]
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "initializer_range": 0.5,
}


class FromFirstToken(torch.nn.Module):
    """Logits that the first token of a text decides."""

    def forward(self, input_ids: torch.Tensor, **inputs: Any) -> dict[str, torch.Tensor]:
        first = input_ids[:, :1].double()
        return {"logits": torch.cat([first.sin(), first.cos(), 0 * first], dim=1)}


def masked_items() -> Scoring:
    torch.manual_seed(0)
    model: Any = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=20, **SIZES)).eval()
    sets = SequenceDataset(torch.randint(5, 20, (23,)), torch.tensor([0, 4, 9, 12, 20, 23]), context={})
    return lambda **settings: score(model, sets, batch_size=3, **settings)


def labels() -> Scoring:
    offsets = torch.tensor([0, 2, 3, 7, 9, 10, 14, 15])
    texts = SequenceDataset(torch.arange(15), offsets, context={}, labels=torch.tensor([0, 1, 2, 0, 1, -100, 1]))
    return lambda **settings: score_labels(FromFirstToken(), texts, names=("a", "b", "c"), batch_size=2, **settings)


def answers() -> Scoring:
    processor = miniature_text_processor()
    words = ["word1 word2 word3", "word4", "word2 word2", "word3 word1 word4 word2", "word1"]
    answered = ["word2", "word4", None, "word1", "word1"]
    table = pa.table({"q": ["word1"] * 5, "t": words, "a": answered, "sex": ["f", "m", None, "m", "f"]})
    questions = encode_questions(table, processor, question="q", text="t", answer="a", max_length=8)
    torch.manual_seed(0)
    layout = {"has_position_embeddings": True, "type_vocab_size": 2, "vocab_size": 23}
    config = ContextualBertConfig.from_schema(processor.schema, conditioning="global_state", **layout, **SIZES)
    model: Any = ContextualBertForQuestionAnswering(config).eval()
    return lambda **settings: score_answers(model, questions, batch_size=2, **settings)


@pytest.mark.parametrize("num_processes", [2, 5])
@pytest.mark.parametrize("make", [masked_items, labels, answers])
def test_each_process_gets_what_one_alone_gets(
    make: Callable[[], Scoring], num_processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring, sent = make(), dict[int, Any]()
    alone = scoring()
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: num_processes)

    def run(process: int, gather: Callable[[list[Any], Any], None]) -> Scores:
        monkeypatch.setattr("torch.distributed.get_rank", lambda: process)
        monkeypatch.setattr("torch.distributed.all_gather_object", gather)
        return scoring(is_shared=True)

    def keep(process: int) -> Callable[[list[Any], Any], None]:
        def gather(into: list[Any], own: Any) -> None:
            sent[process] = own
            raise InterruptedError  # the others have not run yet

        return gather

    for process in range(num_processes):
        with pytest.raises(InterruptedError):
            run(process, keep(process))
    shares = [0 if each is None else len(each) for each in sent.values()]
    assert max(shares) < sum(shares), "no process runs all"

    def fill(into: list[Any], own: Any) -> None:
        into[:] = [sent[process] for process in range(num_processes)]

    together = run(0, fill)
    assert together.num_unknown_targets == alone.num_unknown_targets
    for name, column in alone.as_arrays().items():
        np.testing.assert_array_equal(together.as_arrays()[name], column)
    if alone.predictions is None:
        assert together.predictions is None
        return
    found: Any = together.predictions
    for name, column in alone.predictions.as_arrays().items():
        np.testing.assert_array_equal(found.as_arrays()[name], column)
