"""What somebody had before gets a score of its own, in one softmax; whole sets are learned from one [MASK]."""

from typing import Any

import pytest
import torch

from contextual_bert.context import Categorical, ContextSchema, History
from contextual_bert.data import SequenceDataset
from contextual_bert.inference import score_whole_sets
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

NAMES = [f"p{number}" for number in range(12)]
METHODS = ("concat", "new_position", "global_state", "global_state_update", "state_flow", "film")
RECORDS: list[dict[str, Any]] = [
    {"before": [["p1", "p2"], ["p1"]], "sex": "f"},
    {"before": [["p7"]], "sex": "m"},
    {"before": [], "sex": "m"},
    {"sex": "f"},
]


def processor() -> ContextualBertProcessor:
    features = (History(name="before"), Categorical(name="sex", values=("f", "m")))
    return ContextualBertProcessor.from_items(NAMES, ContextSchema(features=features))


def model(conditioning: str = "global_state_update", **fields: Any) -> ContextualBertForMaskedLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(
        processor().schema, vocab_size=15, conditioning=conditioning, softmax_over="candidates", **sizes, **fields
    )
    made = ContextualBertForMaskedLM(config).eval()
    with torch.no_grad():
        for weights in made.repeats.parameters():
            weights.normal_(std=0.5)
    return made


def batch(records: list[dict[str, Any]] = RECORDS) -> dict[str, Any]:
    return dict(processor()(items=[["p3", "[MASK]"]] * len(records), context=records))


@pytest.mark.parametrize("conditioning", METHODS)
def test_a_method_learns_from_histories_and_holds_them_in_its_state(conditioning: str) -> None:
    made, inputs = model(conditioning), batch()
    state = made.encode_context(inputs["context"])
    given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    direct = made(**inputs).logits
    torch.testing.assert_close(made(**given, context=state).logits, direct)
    one = made.encode_context({name: values[:1] for name, values in inputs["context"].items()})
    torch.testing.assert_close(made(**given, context=one).logits[0], direct[0])
    labels = torch.where(inputs["input_ids"] == 1, 5, -100)
    made.train()(**inputs, labels=labels).loss.backward()
    assert made.repeats[0].score[0].weight.grad.abs().sum() > 0
    assert made.bert.embeddings.word_embeddings.weight.grad[4].abs().sum() > 0  # p1, of which only a history tells


def test_the_score_goes_to_items_of_the_history_alone() -> None:
    made, inputs = model(), batch()
    logits = made(**inputs).logits
    made.repeats = torch.nn.ModuleList()
    changed = (logits - made(**inputs).logits).abs() > 1e-6
    had = [{4, 5}, {10}, set(), set()]
    assert [set(row.nonzero().flatten().tolist()) for row in changed] == had


def test_padding_and_the_order_of_older_interactions_say_nothing() -> None:
    made, inputs = model(), batch()
    wide = {**inputs, "context": dict(inputs["context"])}
    wide["context"]["before"] = torch.nn.functional.pad(inputs["context"]["before"], (0, 0, 0, 4))
    torch.testing.assert_close(made(**wide).logits, made(**inputs).logits)


def test_two_customers_beside_each_other_get_what_each_gets_alone() -> None:
    made, inputs = model(), batch()
    together = made(**inputs).logits
    for row, record in enumerate(RECORDS):
        torch.testing.assert_close(made(**batch([record])).logits[0], together[row])


def test_the_loss_of_a_whole_set_is_the_mean_over_its_items_then_over_sets() -> None:
    made, context = model(), batch()["context"]
    labels = torch.tensor([[3, 4], [5, -100], [8, 9], [14, 3]])
    input_ids = torch.ones(4, 1, dtype=torch.long)
    logits = made(input_ids=input_ids, context=context).logits
    logits[:, :3] = -torch.inf
    shares = logits.log_softmax(dim=1)
    expected = -torch.stack(
        [shares[row, [each for each in labels[row].tolist() if each >= 0]].mean() for row in range(4)]
    )
    found = made(input_ids=input_ids, context=context, labels=labels)
    torch.testing.assert_close(found.loss, expected.mean())


def test_whole_sets_are_scored_as_by_hand() -> None:
    made, context = model(), batch()["context"]
    sets = SequenceDataset([3, 4, 5, 8, 9, 14, 3], [0, 2, 3, 5, 7], context=context, example_ids=[7, 3, 9, 1])
    scores = score_whole_sets(made, sets, batch_size=3)
    logits = made(input_ids=torch.ones(4, 1, dtype=torch.long), context=context).logits[:, 3:].detach()
    shares = logits.log_softmax(dim=1)
    rows = {7: (0, [3, 4]), 3: (1, [5]), 9: (2, [8, 9]), 1: (3, [14, 3])}
    for place, (example, position) in enumerate(zip(scores.example_id, scores.position, strict=True)):
        row, items = rows[int(example)]
        own = shares[row, items[int(position)] - 3]
        assert scores.log_probability[place] == pytest.approx(float(own), abs=1e-5)
        assert scores.num_better[place] == int((shares[row] > own).sum())
    assert len(scores) == 7


def test_a_history_without_items_is_refused() -> None:
    from contextual_bert.context import ContextEncoder
    from contextual_bert.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="no vectors of items"):
        ContextEncoder([History(name="before").layout])
