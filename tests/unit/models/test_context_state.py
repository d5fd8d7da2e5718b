"""The state of a customer, computed once: the same logits for many sets, without a second look at the context."""

from typing import Any

import pytest
import torch

from contextual_bert.conditioning import METHODS, StateSlot, get_method
from contextual_bert.conditioning.global_state import GlobalStateSlot
from contextual_bert.conditioning.state_flow import FlowingStateSlot
from contextual_bert.errors import ConfigurationError, SchemaError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.queries import read_request
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing.miniature import ITEMS, RECORDS, SETS, drawn_anew, miniature_config, miniature_schema

WITH_CONTEXT = sorted(name for name in METHODS if get_method(name).has_context)


def model_of(method_name: str) -> ContextualBertForMaskedLM:
    return drawn_anew(ContextualBertForMaskedLM(miniature_config(method_name))).eval()


def processor() -> ContextualBertProcessor:
    return ContextualBertProcessor.from_items(ITEMS, miniature_schema())


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("the context is read again")


@pytest.mark.parametrize("method_name", WITH_CONTEXT)
def test_the_state_of_one_customer_serves_many_sets(method_name: str) -> None:
    model, sets = model_of(method_name), processor()(items=SETS, context=[RECORDS[0]] * len(SETS))
    one = processor()(items=SETS[:1], context=[RECORDS[0]])["context"]
    with torch.no_grad():
        expected = model(**sets).logits
        state = model.encode_context(one)
        model.bert.context_encoder.register_forward_pre_hook(refuse)
        if model.bert.encoder.conditioning is not None:
            model.bert.encoder.conditioning.initial = refuse
            if method_name != "state_flow":
                model.bert.encoder.conditioning.transition = refuse
        found = model(input_ids=sets["input_ids"], attention_mask=sets["attention_mask"], context=state).logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method_name", WITH_CONTEXT)
def test_several_customers_have_a_set_each(method_name: str) -> None:
    model, batch = model_of(method_name), processor()(items=SETS, context=RECORDS)
    with torch.no_grad():
        expected = model(**batch).logits
        batch["context"] = model.encode_context(batch["context"])
        torch.testing.assert_close(model(**batch).logits, expected, rtol=1e-5, atol=1e-5)


def test_a_state_that_reads_the_set_is_kept_only_up_to_the_first_block() -> None:
    context = processor()(items=SETS, context=RECORDS)["context"]
    num_states = {name: len(model_of(name).encode_context(context).states) for name in WITH_CONTEXT}
    assert num_states == {
        "concat": 0, "new_position": 0, "state_flow": 1, "global_state": 3, "global_state_update": 3, "film": 3,
        "multi_attribute": 3,
    }  # fmt: skip


def test_a_transition_of_its_own_is_taken_to_read_the_sequence() -> None:
    class Silent(GlobalStateSlot):
        def transition(self, layer: int, state: Any, hidden: Any, mask: Any) -> Any:
            return state

    class Promising(Silent):
        reads_sequence = False

        transition = Silent.transition

    assert [slot.reads_sequence for slot in (StateSlot, GlobalStateSlot, Silent, Promising, FlowingStateSlot)] == [
        False, False, True, False, True,
    ]  # fmt: skip


def test_fill_takes_a_state_in_place_of_a_context() -> None:
    pipeline = CompletionPipeline(model_of("global_state_update"), processor())
    context = pipeline.processor.encode_context([RECORDS[1]], num_rows=1)
    assert context is not None
    requests = [read_request({"items": list(items), "repeats": True}, row=0) for items in SETS[:2]]
    permitted = [pipeline.permitted(request, row=0) for request in requests]
    state = pipeline.model.encode_context(context.tensors)
    both = list(pipeline.fill(SETS[:2], state, permitted, top_k=3))
    for items, slots, each_permitted in zip(SETS[:2], both, permitted, strict=True):
        (alone,) = pipeline.fill([items], context.tensors, [each_permitted], top_k=3)
        assert [each["item"] for each in slots[0]["candidates"]] == [each["item"] for each in alone[0]["candidates"]]
    with pytest.raises(ConfigurationError, match="Give the context itself"):
        list(pipeline.fill(SETS[:2], state, permitted, top_k=3, guidance=2.0))


def test_without_a_context_there_is_nothing_to_keep() -> None:
    model, batch = model_of("none"), processor()(items=SETS, context=RECORDS)
    state = model.encode_context(batch["context"])
    assert state.embedding is None
    assert torch.equal(model(input_ids=batch["input_ids"], context=state).logits, model(batch["input_ids"]).logits)


def test_faults_are_named() -> None:
    model, batch = model_of("film"), processor()(items=SETS, context=RECORDS)
    with pytest.raises(ConfigurationError, match="context has 4 rows and input_ids 2"):
        model(input_ids=batch["input_ids"][:2], context=model.encode_context(batch["context"]))
    with pytest.raises(ConfigurationError, match="made with conditioning='global_state', and the model has 'film'"):
        model(input_ids=batch["input_ids"], context=model_of("global_state").encode_context(batch["context"]))
    with pytest.raises(SchemaError, match="lacks the feature"):
        model.encode_context({})
