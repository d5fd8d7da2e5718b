"""Notes on new items, and answers that are cut to fewer proposals."""

from typing import Any

from contextual_bert.inference.completion_answers import new_candidates, new_item_notes, shortened


def answer(*names: str, new: tuple[str, ...] = ()) -> Any:
    candidates = [{"item": name, "probability": 0.1} | ({"is_new": True} if name in new else {}) for name in names]
    slots: Any = [{"position": 0, "candidates": candidates}]
    return {"items": ["[MASK]"], "slots": slots, "notes": ["another", *new_item_notes(new_candidates(slots))]}


def test_a_shortened_answer_is_that_of_fewer_proposals() -> None:
    whole = answer("coat", "hat", "bag", "belt", new=("hat", "belt"))
    assert whole["notes"] == ["another", "Proposed, new and known by features alone: hat, belt."]
    assert shortened(whole, 3) == answer("coat", "hat", "bag", new=("hat",))
    assert shortened(whole, 1) == answer("coat")
    assert shortened(answer("coat", "hat"), 1) == answer("coat")


def test_a_note_names_few_items_once() -> None:
    assert new_item_notes([]) == []
    (note,) = new_item_notes([*"abcdef", "a"], of_the_set=True)
    assert note == "In the set, new and known by features alone: a, b, c, d, e, ..."
