import torch

from contextual_bert.item_features import encode_items
from contextual_bert.models.item_changes import NO_ID, change_items
from tests.unit.models.test_item_features import ENCODED, FEATURES, featured

IDS = torch.tensor([[3, 1, 5]])


def rows(*index: int):
    return encode_items(FEATURES, {name: values[list(index)] for name, values in ENCODED.items()})


def test_known_items_keep_their_logits_and_new_ones_are_those_of_their_features() -> None:
    model = featured()
    changed = change_items(model, [0, 1, 2, 3, 4, 5, 6, NO_ID], rows(0, 1, 2, 3, 3))
    with torch.no_grad():
        before, after = model(input_ids=IDS).logits, changed(input_ids=IDS).logits
    torch.testing.assert_close(after[:, :7], before)
    torch.testing.assert_close(after[:, 7], before[:, 6])  # new as well, and with the same features


def test_removed_items_leave_and_the_others_move_up() -> None:
    model = featured()
    changed = change_items(model, [0, 1, 2, 3, 5, 6], rows(0, 2, 3))
    with torch.no_grad():
        before = model(input_ids=torch.tensor([[3, 1, 5]])).logits
        after = changed(input_ids=torch.tensor([[3, 1, 4]])).logits
    torch.testing.assert_close(after, before[:, [0, 1, 2, 3, 5, 6]])


def test_an_item_that_will_be_trained_starts_where_its_features_put_it() -> None:
    model = featured()
    changed = change_items(model, [0, 1, 2, 3, 4, 5, 6], rows(0, 1, 2, 3), learned=torch.tensor([True] * 4))
    assert not changed.bert.embeddings.attributes.is_new.any()
    with torch.no_grad():
        torch.testing.assert_close(changed(input_ids=IDS).logits, model(input_ids=IDS).logits)
    changed.train()(input_ids=torch.tensor([[3, 1]]), labels=torch.tensor([[-100, 6]])).loss.backward()
    assert changed.get_output_embeddings().weight.grad[6].any()


def test_items_with_more_values_than_before_find_a_place() -> None:
    wide = {**ENCODED, "tags": torch.tensor([[4, 5, 3], [5, 0, 0], [1, 0, 0], [4, 3, 0]])}
    items = encode_items(FEATURES, wide)
    changed = change_items(featured(), range(7), items)
    assert changed.config.item_layout.num_places == items.value_ids.shape[1]
    embeddings = changed.bert.embeddings
    assert torch.equal(embeddings.attributes.value_ids[3:], items.value_ids)


def test_the_model_that_was_given_is_not_changed() -> None:
    model = featured()
    with torch.no_grad():
        before = model(input_ids=IDS).logits
        change_items(model, [0, 1, 2, 5, NO_ID], rows(2, 1))
        assert torch.equal(model(input_ids=IDS).logits, before)


def test_a_tied_model_is_changed_as_well() -> None:
    model = featured(tied=True)
    changed = change_items(model, [0, 1, 2, 3, 4, 5, 6, NO_ID], rows(0, 1, 2, 3, 3))
    assert changed.get_output_embeddings().weight is changed.get_input_embeddings().weight
    with torch.no_grad():
        torch.testing.assert_close(changed(input_ids=IDS).logits[:, :7], model(input_ids=IDS).logits)
