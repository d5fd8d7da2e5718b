"""Names of methods: found, suggested, taken only once."""

import pytest
import torch

from contextual_bert.conditioning import METHODS, ConditioningMethod, InputSlot, StateSlot, get_method, register_method
from contextual_bert.errors import ConfigurationError, UnknownNameError


def test_the_papers_five_with_their_labels() -> None:
    labels = {name: get_method(name).label for name in METHODS}
    papers = {
        "none": "[None]",
        "concat": "[C]",
        "new_position": "[NP]",
        "global_state": "[GS]",
        "global_state_update": "[GSU]",
    }
    assert papers.items() <= labels.items()
    assert all(name == method.name for name, method in METHODS.items())


def test_the_settings_of_a_method_are_known_without_its_class() -> None:
    assert {name: METHODS.settings_of(name) for name in METHODS} == {
        name: method.setting_names() for name, method in METHODS.items()
    }


def test_only_none_takes_no_context() -> None:
    assert [name for name in METHODS if not get_method(name).has_context] == ["none"]


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(
        UnknownNameError, match=r"conditioning='global_stat' is unknown. Did you mean 'global_state'"
    ) as error:
        get_method("global_stat")
    assert "new_position" in str(error.value), "the known names are listed"


def test_a_name_is_taken_once() -> None:
    class Impostor(ConditioningMethod):
        name = "concat"

    with pytest.raises(ConfigurationError, match=r"'concat' is already Concat. Choose another name"):
        register_method(Impostor)
    assert METHODS["concat"] is not Impostor


def test_registering_again_changes_nothing() -> None:
    before = dict(METHODS)
    assert register_method(METHODS["concat"]) is METHODS["concat"]
    assert before == METHODS


def test_a_method_fills_no_slot_unless_it_says_so() -> None:
    method = ConditioningMethod()
    slots = (method.state(None), method.input(None), method.block(None, 0))
    assert slots == (None, None, None)
    assert method.has_context


def test_slots_must_be_written() -> None:
    with pytest.raises(NotImplementedError):
        StateSlot().initial(None)
    with pytest.raises(NotImplementedError):
        InputSlot()(torch.zeros(1), None, None)
