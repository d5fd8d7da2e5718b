"""The oracle equals a slow enumeration written from the model card, and its probabilities are frequencies."""

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data.oracle import Oracle
from contextual_bert.data.readers import read_table
from contextual_bert.data.world import StylistWorld
from contextual_bert.data.world_tables import (
    CATEGORIES,
    CLOTHING_SIZES,
    COLOURS,
    COUNTRIES,
    OCCASIONS,
    PRICE_TIERS,
    REFUSABLE,
    STYLES,
)
from contextual_bert.errors import ConfigurationError, DataError, SchemaError


@pytest.fixture(scope="module")
def world() -> StylistWorld:
    return StylistWorld.generate(240, seed=3)


@pytest.fixture(scope="module")
def table(world: StylistWorld) -> pa.Table:
    return world.sample(4000, seed=8)


@pytest.fixture(scope="module")
def scores(world: StylistWorld, table: pa.Table) -> dict[str, np.ndarray]:
    return Oracle(world).score_table(table)


def _softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def _item_probabilities(world: StylistWorld, row: dict, style: int, category: int) -> dict[int, float]:
    """Pr(item | category, style, customer), item by item, as docs/concepts/stylist-world.md states it."""
    articles, tendencies = world.articles, world.tendencies
    popularity, affinity, brand, price, size, own_style = tendencies.scales.tolist()
    occasion = OCCASIONS.index(row["occasion"])
    weights: dict[int, float] = {}
    for item in range(world.num_items):
        if articles.category[item] != category:
            continue
        target = ("women", "men", "unisex")[articles.target_group[item]]
        if (row["gender"] == "female" and target == "men") or (row["gender"] == "male" and target == "women"):
            continue
        utility = popularity * articles.popularity[item]
        utility += affinity * float(tendencies.style_vectors[style] @ articles.style_vector[item])
        if COLOURS[articles.colour[item]] in (row["preferred_colours"] or []):
            utility += tendencies.colour_gain[occasion, articles.colour[item]]
        if world.brands[articles.brand[item]] in (row["preferred_brands"] or []):
            utility += brand
        if STYLES[articles.style[item]] in (row["preferred_styles"] or []):
            utility += own_style
        if row["price_preference"] is not None:
            wanted = PRICE_TIERS.index(row["price_preference"]) + tendencies.price_shift[occasion]
            utility -= price * abs(articles.price_tier[item] - wanted)
        if tendencies.size_scope[category] == 1 and row["clothing_size"] is not None:
            utility -= size * abs(articles.size_run[item] - CLOTHING_SIZES.index(row["clothing_size"]))
        if tendencies.size_scope[category] == 2 and row["shoe_size"] is not None:
            utility -= size * abs(articles.size_run[item] - (row["shoe_size"] - 36) / 2)
        weights[item] = math.exp(utility)
    return {item: weight / sum(weights.values()) for item, weight in weights.items()}


def _style_probabilities(world: StylistWorld, row: dict) -> list[float]:
    tendencies, occasion = world.tendencies, OCCASIONS.index(row["occasion"])
    logits: list[float] = []
    for style, name in enumerate(STYLES):
        logit = tendencies.style_bias[style] + tendencies.occasion_style[occasion, style]
        logit += tendencies.country_style[COUNTRIES.index(row["country"]), style]
        if row["gender"] is not None:
            logit += tendencies.gender_style[("female", "male").index(row["gender"]), style]
        if row["age"] is not None:
            age = (row["age"] - 45) / 20
            logit += age * tendencies.age_style[0, style] + (age**2 - 0.5) * tendencies.age_style[1, style]
        if name in (row["preferred_styles"] or []):
            logit += tendencies.preferred_style_gain[occasion]
        logits.append(logit)
    return _softmax(logits)


def _enumerate(world: StylistWorld, row: dict, position: int) -> np.ndarray:
    """Pr(item | others, context) by summing the joint probability over every style, template and article."""
    index = {name: number for number, name in enumerate(world.items)}
    visible = [index[name] for place, name in enumerate(row["items"]) if place != position]
    styles, tendencies = _style_probabilities(world, row), world.tendencies
    joint = np.zeros(world.num_items)
    for template, members in enumerate(tendencies.templates):
        categories = set(np.flatnonzero(members).tolist())
        seen = [int(world.articles.category[item]) for item in visible]
        names = {CATEGORIES[category] for category in categories}
        is_impossible = names & set(row["nogo_types"]) or (row["gender"] == "male" and "dress" in names)
        if is_impossible or not set(seen) < categories or len(categories) != len(seen) + 1:
            continue
        (missing,) = categories - set(seen)
        logit = tendencies.template_bias[template]
        logit += tendencies.occasion_template[OCCASIONS.index(row["occasion"]), template]
        logit += tendencies.country_template[COUNTRIES.index(row["country"]), template]
        for style, style_probability in enumerate(styles):
            likelihood = math.exp(logit) * style_probability
            for item, category in zip(visible, seen, strict=True):
                likelihood *= _item_probabilities(world, row, style, category)[item]
            for item, probability in _item_probabilities(world, row, style, missing).items():
                joint[item] += likelihood * probability
    return joint / joint.sum()


@pytest.mark.parametrize("interactions", [True, False])
def test_the_oracle_equals_enumeration(interactions: bool) -> None:
    world = StylistWorld.generate(60, seed=2, interactions=interactions)
    table = world.sample(6, seed=4)
    scores = Oracle(world).score_table(table)
    for number, row in enumerate(table.to_pylist()):
        if interactions or number == 0:  # in the additive variant the formula of the items is what differs
            position = number % len(row["items"])
            expected = _enumerate(world, row, position)
            one = Oracle(world).probabilities(table.slice(number, 1), [position])[0]
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-15)
            target = expected[world.items.index(row["items"][position])]
            place = np.flatnonzero((scores["example_id"] == number) & (scores["position"] == position))[0]
            assert scores["log_probability"][place] == pytest.approx(math.log(target), rel=1e-9)
            assert scores["num_better"][place] == (expected > target * (1 + 1e-9)).sum()
            assert scores["confidence"][place] == pytest.approx(expected.max(), rel=1e-9)


def test_probabilities_are_probabilities(world: StylistWorld, table: pa.Table) -> None:
    probability = Oracle(world).probabilities(table.slice(0, 200), np.arange(200) % 4)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (probability >= 0).all()


def test_no_probability_for_what_is_excluded(world: StylistWorld, table: pa.Table) -> None:
    probability = Oracle(world).probabilities(table.slice(0, 300), np.zeros(300, dtype=np.int64))
    category = np.array(CATEGORIES)[world.articles.category]
    for row, values in zip(table.slice(0, 300).to_pylist(), probability, strict=True):
        visible = {item.rsplit("-", 1)[0] for item in row["items"][1:]}
        assert not values[np.isin(category, list(visible | set(row["nogo_types"])))].any()
        if row["gender"] == "male":
            assert not values[world.articles.target_group == 0].any()


def test_scores_cover_every_position_once_in_order(table: pa.Table, scores: dict[str, np.ndarray]) -> None:
    sizes = [len(items) for items in table["items"].to_pylist()]
    assert scores["example_id"].tolist() == [row for row, size in enumerate(sizes) for _ in range(size)]
    assert scores["position"].tolist() == [place for size in sizes for place in range(size)]
    kinds = {name: values.dtype.kind for name, values in scores.items()}
    whole = dict.fromkeys(("example_id", "position", "num_better", "num_tied"), "i")
    assert kinds == {**whole, "log_probability": "f", "confidence": "f"}
    assert (scores["num_tied"] >= 1).all()


def test_scores_and_probabilities_agree(world: StylistWorld, table: pa.Table, scores: dict[str, np.ndarray]) -> None:
    part = table.slice(0, 50)
    probability = Oracle(world).probabilities(part, np.full(50, 2))
    of_target = [
        values[world.items.index(row["items"][2])] for row, values in zip(part.to_pylist(), probability, strict=True)
    ]
    chosen = (scores["example_id"] < 50) & (scores["position"] == 2)
    np.testing.assert_allclose(np.exp(scores["log_probability"][chosen]), of_target)


def test_the_oracle_is_calibrated(scores: dict[str, np.ndarray]) -> None:
    """The top item is right as often as it says: a z-score in each of ten bins, and over all."""
    confidence, is_right = scores["confidence"], scores["num_better"] == 0
    for rows in np.array_split(np.argsort(confidence), 10):
        deviation = np.sqrt((confidence[rows] * (1 - confidence[rows])).sum())
        # Positions of one outfit are dependent, so that the z-scores spread somewhat more than one.
        assert abs((is_right[rows] - confidence[rows]).sum()) < 5 * deviation
    assert abs((is_right - confidence).mean()) < 0.01


def test_the_mean_log_probability_is_the_entropy(world: StylistWorld, table: pa.Table) -> None:
    oracle, places = Oracle(world), np.zeros(table.num_rows, dtype=np.int64)
    scores = oracle.score_table(table)
    surprise = -scores["log_probability"][scores["position"] == 0] - oracle.entropies(table, places)
    assert abs(surprise.mean()) < 4 * surprise.std() / math.sqrt(len(surprise))


def test_another_customers_context_is_worse(
    world: StylistWorld, table: pa.Table, scores: dict[str, np.ndarray]
) -> None:
    """Exclusions aside, the context matters: without colours, brands, styles and price the oracle loses clearly."""
    names = ["preferred_colours", "preferred_brands", "preferred_styles", "price_preference"]
    blank = table
    for name in names:
        column = pa.nulls(table.num_rows, table[name].type)
        blank = blank.set_column(blank.column_names.index(name), name, column)
    worse = Oracle(world).score_table(blank)
    assert (scores["log_probability"] - worse["log_probability"]).mean() > 0.3


def test_blocks_and_example_ids_do_not_change_the_numbers(world: StylistWorld, table: pa.Table) -> None:
    part, calls = table.slice(0, 30), []
    whole = Oracle(world).score_table(part)
    ids = np.arange(30)[::-1] + 100
    blocked = Oracle(world).score_table(
        part, example_ids=ids, block_elements=1, progress=lambda done, total: calls.append((done, total))
    )
    np.testing.assert_allclose(blocked["log_probability"], whole["log_probability"], rtol=1e-10)
    np.testing.assert_array_equal(blocked["num_better"], whole["num_better"])
    np.testing.assert_array_equal(blocked["example_id"], ids[whole["example_id"]])
    assert calls[-1] == (30, 30)
    assert len(calls) == 30


def test_a_table_from_csv_scores_the_same(world: StylistWorld, table: pa.Table, tmp_path: Path) -> None:
    part = table.slice(0, 50)
    path = tmp_path / "outfits.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, part.column_names)
        writer.writeheader()
        for row in part.to_pylist():
            writer.writerow({name: ", ".join(cell) if isinstance(cell, list) else cell for name, cell in row.items()})
    expected, found = Oracle(world).score_table(part), Oracle(world).score_table(read_table(path))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_what_stands_at_the_masked_position_is_not_looked_at(world: StylistWorld, table: pa.Table) -> None:
    row = table.slice(0, 1).to_pylist()[0]
    answers = []
    for word in (row["items"][1], "[MASK]", None):
        items = [word if place == 1 else item for place, item in enumerate(row["items"])]
        asked = pa.Table.from_pylist([{**row, "items": items}], schema=table.schema)
        answers.append(Oracle(world).probabilities(asked, [1])[0])
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def _with(table: pa.Table, **values: object) -> pa.Table:
    row = {**table.slice(0, 1).to_pylist()[0], **values}
    return pa.Table.from_pylist([table.slice(1, 1).to_pylist()[0], row], schema=table.schema)


def test_faulty_tables_are_named_with_their_place(world: StylistWorld, table: pa.Table) -> None:
    oracle = Oracle(world)
    items = table["items"][0].as_py()  # they go to row 1 of a table of two
    with pytest.raises(DataError, match=r"row 2, column 'items': 'coat-9999' is not an item of this world"):
        oracle.score_table(_with(table, items=["coat-9999", *items[1:]]))
    with pytest.raises(DataError, match=r"row 2, column 'items': has no items"):
        oracle.score_table(_with(table, items=[]))
    with pytest.raises(DataError, match=r"row 2, column 'preferred_colours': 'blak' is not.*Did you mean 'black'"):
        oracle.score_table(_with(table, preferred_colours=["red", "blak"]))
    with pytest.raises(DataError, match=r"row 2, column 'occasion': is empty.*everyday"):
        oracle.score_table(_with(table, occasion=None))
    with pytest.raises(DataError, match=r"row 2, column 'nogo_types': 'shoes' is not.*Known: bag, belt"):
        oracle.score_table(_with(table, nogo_types=["shoes"]))
    refused = list({item.rsplit("-", 1)[0] for item in items} & set(REFUSABLE))
    with pytest.raises(DataError, match=r"row 2, column 'items': .* cannot occur in this world"):
        oracle.score_table(_with(table, nogo_types=refused))
    with pytest.raises(DataError, match=r"row 2, column 'items': .* cannot occur in this world"):
        oracle.score_table(_with(table, items=items[:2]))
    with pytest.raises(DataError, match=r"row 2, column 'items': .* cannot occur in this world"):
        oracle.score_table(_with(table, items=[*items, items[0]]))
    with pytest.raises(SchemaError, match="no column 'occasion'"):
        oracle.score_table(table.drop_columns(["occasion"]))
    with pytest.raises(SchemaError, match="no column 'items'"):
        oracle.score_table(table.drop_columns(["items"]))


def test_two_items_of_a_category_are_not_taken_for_one_of_the_next(world: StylistWorld, table: pa.Table) -> None:
    for row in table.to_pylist():
        names = {item.rsplit("-", 1)[0]: item for item in row["items"]}
        if "shirt" in names and "tshirt" not in names and row["gender"] is None:
            names.pop("shirt")
            break
    else:
        pytest.fail("no outfit to double a category in")
    items = ["tshirt-0", "tshirt-1", *names.values()]
    doubled = pa.Table.from_pylist([{**row, "items": items}], schema=table.schema)
    with pytest.raises(DataError, match="cannot occur"):
        Oracle(world).probabilities(doubled, [len(items) - 1])


def test_bad_arguments_are_explained(world: StylistWorld, table: pa.Table) -> None:
    oracle, part = Oracle(world), table.slice(0, 2)
    with pytest.raises(ConfigurationError, match="block_elements=0 holds nothing"):
        oracle.score_table(part, block_elements=0)
    with pytest.raises(ConfigurationError, match="3 example_ids for a table of 2 rows"):
        oracle.score_table(part, example_ids=np.arange(3))
    for positions in ([0], [0, 9], [-1, 0]):
        with pytest.raises(ConfigurationError, match="each of the 2 rows"):
            oracle.probabilities(part, positions)
