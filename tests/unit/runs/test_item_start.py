import torch

from contextual_bert.runs.item_start import settle_values, start_with_features
from contextual_bert.runs.model_factory import count_counted
from tests.unit.baselines.test_bag import featured_bag
from tests.unit.models.test_item_features import FEATURES, featured

IDS = torch.tensor([[3, 1, 5]])


def test_moving_to_the_features_leaves_the_vectors_of_learned_items_as_they_are() -> None:
    model = featured(encoder="mlp")
    own = model.get_input_embeddings().weight.detach().clone()
    start_with_features(model)
    embeddings = model.bert.embeddings
    with torch.no_grad():
        table = embeddings.item_encoder(embeddings.word_embeddings.weight, embeddings.attributes)
    torch.testing.assert_close(table[:6], own[:6])
    assert float(embeddings.word_embeddings.weight[3:6].detach().norm()) < float(own[3:6].norm())


def test_a_new_item_starts_near_items_with_its_features() -> None:
    model = featured()
    with torch.no_grad():
        model.get_input_embeddings().weight[3:6] = torch.eye(8)[:3] * 10
    start_with_features(model)
    embeddings = model.bert.embeddings
    with torch.no_grad():
        table = embeddings.item_encoder(embeddings.word_embeddings.weight, embeddings.attributes)
    likeness = torch.nn.functional.cosine_similarity(table[6:], table[3:6])
    assert int(likeness.argmax()) == 0  # it shares a tag, and nearly the picture, with the first


def test_values_that_no_learned_item_has_are_the_mean_of_their_feature() -> None:
    model = featured()
    encoder, starts = model.output_encoder, model.output_encoder.layout.starts
    before = encoder.values.weight.detach().clone()
    settle_values(model)
    after = encoder.values.weight.detach()
    colours = before[starts[0] : starts[1]]
    known = [0, 2, 3]  # of the learned items; 4 is that of the new one, 1 is unknown
    torch.testing.assert_close(after[[starts[0] + 1, starts[0] + 4]], colours[known].mean(dim=0).expand(2, -1))
    torch.testing.assert_close(after[[starts[0] + value for value in known]], colours[known])


def test_features_of_a_bag_are_not_counted_as_its_own_vectors_are_not() -> None:
    assert count_counted(featured_bag()) == 8 * 8 + 8


def test_a_model_without_features_is_left_alone() -> None:
    plain = featured().without_item_features()
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    start_with_features(plain)
    settle_values(plain)
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())


def test_layout_of_the_example_has_all_forms() -> None:
    assert {feature.form for feature in FEATURES} == {"id", "id_list", "vector"}


def test_a_bag_starts_as_a_model_does() -> None:
    bag = featured_bag()
    own = [bag.items.weight.detach().clone(), bag.output.weight.detach().clone()]
    start_with_features(bag)
    with torch.no_grad():
        tables = [bag.item_table(), bag.output_matrix()[0]]
    for table, before, weight in zip(tables, own, (bag.items.weight, bag.output.weight), strict=True):
        torch.testing.assert_close(table[:6], before[:6])
        assert float(weight.detach()[3:6].norm()) < float(before[3:6].norm())
