"""The stylist world draws what its model card says: seeded, within its hard rules, with the stated probabilities."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import world_sampling
from contextual_bert.data.world import StylistWorld
from contextual_bert.data.world_customers import CONTEXT_TYPES, MEANINGLESS_COLUMNS, Customers
from contextual_bert.data.world_preferences import Preferences
from contextual_bert.data.world_sampling import ArticleSampler, draw_outfits
from contextual_bert.data.world_tables import BASICS, CATEGORIES, NO_SIZE, OCCASIONS, REFUSABLE
from contextual_bert.errors import ConfigurationError, DataError


@pytest.fixture(scope="module")
def world() -> StylistWorld:
    return StylistWorld.generate(240, seed=3)


@pytest.fixture(scope="module")
def table(world: StylistWorld) -> pa.Table:
    return world.sample(6000, seed=5)


def _category(item: str) -> str:
    return item.rsplit("-", 1)[0]


def test_the_same_seed_gives_the_same_world_and_table(world: StylistWorld, table: pa.Table) -> None:
    again = StylistWorld.generate(240, seed=3)
    assert again.sample(6000, seed=5).equals(table)


def test_other_seeds_give_other_worlds_tables_and_customers(world: StylistWorld, table: pa.Table) -> None:
    other = world.sample(6000, seed=6)
    assert not other["items"].equals(table["items"])
    assert set(other["customer_id"].to_pylist()).isdisjoint(table["customer_id"].to_pylist())
    assert not np.array_equal(StylistWorld.generate(240, seed=4).articles.colour, world.articles.colour)


def test_a_sampled_world_is_not_changed_by_sampling_more(world: StylistWorld) -> None:
    assert world.sample(40, seed=1).equals(world.sample(40, seed=1))


def test_the_columns_and_their_types(table: pa.Table) -> None:
    assert table.column_names == ["customer_id", "items", *CONTEXT_TYPES]
    assert table["items"].type == pa.list_(pa.string())
    for name, kind in CONTEXT_TYPES.items():
        assert table[name].type == kind, name


def test_sets_have_4_to_8_items_of_different_categories_and_5_on_average(table: pa.Table) -> None:
    outfits = table["items"].to_pylist()
    sizes = np.array([len(items) for items in outfits])
    assert sizes.min() == 4
    assert sizes.max() == 8
    assert 4.6 < sizes.mean() < 5.5
    assert all(len({_category(item) for item in items}) == len(items) for items in outfits)


def test_the_order_within_a_set_says_nothing(table: pa.Table) -> None:
    firsts = [int(_category(items[0]) == "shoes") for items in table["items"].to_pylist()]
    expected = np.mean([1 / len(items) for items in table["items"].to_pylist()])  # every template has shoes
    assert abs(np.mean(firsts) - expected) < 4 * np.sqrt(expected / len(firsts))


def test_what_a_customer_refuses_never_occurs(table: pa.Table) -> None:
    refusals = 0
    for items, refused in zip(table["items"].to_pylist(), table["nogo_types"].to_pylist(), strict=True):
        refusals += bool(refused)
        assert not {_category(item) for item in items} & set(refused)
    assert refusals > 1000


def test_the_target_group_is_respected(world: StylistWorld, table: pa.Table) -> None:
    group = dict(zip(world.items, world.articles.to_table()["target_group"].to_pylist(), strict=True))
    worn = {"female": set(), "male": set(), None: set()}
    for items, gender in zip(table["items"].to_pylist(), table["gender"].to_pylist(), strict=True):
        worn[gender] |= {group[item] for item in items}
    assert worn == {"female": {"women", "unisex"}, "male": {"men", "unisex"}, None: {"women", "men", "unisex"}}


def test_customers_come_back_and_only_their_occasion_changes(table: pa.Table) -> None:
    people: dict[str, list[dict[str, object]]] = {}
    for row in table.drop_columns(["items"]).to_pylist():
        people.setdefault(row["customer_id"], []).append(row)
    assert len(people) == 2000
    returning = [rows for rows in people.values() if len(rows) > 1]
    assert len(returning) > 1000
    for rows in returning:
        assert all({**row, "occasion": 0} == {**rows[0], "occasion": 0} for row in rows)
    assert any(len({row["occasion"] for row in rows}) > 1 for rows in returning)


def test_some_values_are_missing_where_a_customer_has_no_preference(table: pa.Table) -> None:
    for name in set(CONTEXT_TYPES) - {"occasion", "country", "nogo_types", "newsletter", "account_age_days"}:
        assert 0.03 < table[name].null_count / table.num_rows < 0.5, name


def test_the_table_read_back_is_what_was_drawn(world: StylistWorld) -> None:
    generator = np.random.default_rng(0)
    drawn = Customers.draw(300, num_brands=len(world.brands), has_nogos=True, generator=generator)
    read = Customers.from_table(pa.table(drawn.to_columns(world.brands, generator)), world.brands)
    for name, values in vars(drawn).items():
        np.testing.assert_array_equal(getattr(read, name), values, err_msg=name)


@pytest.mark.parametrize("rounds", [160, 0], ids=["by rejection", "from the full list"])
@pytest.mark.parametrize("interactions", [True, False])
def test_articles_are_drawn_with_the_stated_probabilities(
    rounds: int, interactions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world_sampling, "REJECTION_ROUNDS", rounds)
    world = StylistWorld.generate(96, seed=1, interactions=interactions)
    row = next(
        r for r in world.sample(200, seed=0).to_pylist() if r["preferred_brands"] and r["shoe_size"] and r["age"]
    )
    one = pa.Table.from_pylist([row], schema=world.sample(1, seed=0).schema)
    customers = Customers.from_table(one, world.brands).take(np.zeros(20_000, dtype=np.int64))
    sampler = ArticleSampler(world.articles, world.tendencies, world.weights)
    generator = np.random.default_rng(2)
    _, items = draw_outfits(sampler, customers, world.has_articles, generator)
    counts = np.bincount(items, minlength=world.num_items)
    preference = Preferences.of(customers.take(np.array([0])), world.tendencies)
    weight = world.weights * preference.dense(slice(None), world.articles, slice(None), world.tendencies.size_scope)
    style = np.exp(world.tendencies.style_log_probabilities(customers.take(np.array([0]))))[0]
    starts = world.articles.starts
    for start, stop in itertools.pairwise(starts):
        total = counts[start:stop].sum()
        if total == 0:
            continue
        share = style @ (weight[:, start:stop] / weight[:, start:stop].sum(axis=1, keepdims=True))
        assert (counts[start:stop][share == 0] == 0).all()
        expected = share[share > 0] * total
        # Pearson's chi-square has as many degrees of freedom as cells less one; six deviations above is a fault.
        chi_square = ((counts[start:stop][share > 0] - expected) ** 2 / expected).sum()
        freedom = len(expected) - 1
        assert chi_square < freedom + 6 * np.sqrt(2 * max(freedom, 1))


def test_styles_and_templates_are_probabilities(world: StylistWorld, table: pa.Table) -> None:
    customers = Customers.from_table(table.slice(0, 500), world.brands)
    style = np.exp(world.tendencies.style_log_probabilities(customers))
    template = np.exp(world.tendencies.template_log_probabilities(customers, world.has_articles))
    np.testing.assert_allclose(style.sum(axis=1), 1.0)
    np.testing.assert_allclose(template.sum(axis=1), 1.0)
    assert (template[:, 0] > 0).all(), "the basics must be possible for everybody"


def test_the_interactions_are_there(world: StylistWorld) -> None:
    gain, scope = world.tendencies.colour_gain, world.tendencies.size_scope
    work, party = OCCASIONS.index("work"), OCCASIONS.index("party")
    assert (np.sign(gain[work]) != np.sign(gain[party])).any()
    assert scope[CATEGORIES.index("bag")] == NO_SIZE
    assert len(set(scope.tolist())) == 3


def test_the_additive_variant_has_none() -> None:
    world = StylistWorld.generate(240, seed=3, interactions=False)
    table = world.sample(300, seed=1)
    customers = Customers.from_table(table, world.brands)
    style = world.tendencies.style_log_probabilities(customers)
    template = world.tendencies.template_log_probabilities(customers, world.has_articles)
    assert np.ptp(style, axis=0).max() == 0
    assert np.ptp(template, axis=0).max() == 0
    assert np.ptp(world.tendencies.colour_gain) == 0
    assert set(map(len, table["nogo_types"].to_pylist())) == {0}


def test_meaningless_columns_leave_no_trace(world: StylistWorld, table: pa.Table) -> None:
    changed = table.drop_columns(list(MEANINGLESS_COLUMNS))
    for name, values in vars(Customers.from_table(table, world.brands)).items():
        np.testing.assert_array_equal(getattr(Customers.from_table(changed, world.brands), name), values)


@pytest.mark.parametrize("num_items", [48, 100, 5000])
def test_every_category_offers_everybody_something(num_items: int) -> None:
    world = StylistWorld.generate(num_items, seed=0)
    assert len(world.items) == len(set(world.items)) == num_items
    assert len(world.brands) == min(200, max(8, num_items // 25))
    offered = dict(zip(CATEGORIES, world.has_articles.T.tolist(), strict=True))
    assert offered.pop("dress") == [True, False, True]
    assert all(all(values) for values in offered.values())
    assert set(BASICS).isdisjoint(REFUSABLE)


def test_a_saved_world_draws_the_same_outfits(world: StylistWorld, table: pa.Table, tmp_path: Path) -> None:
    world.save(tmp_path / "world")
    loaded = StylistWorld.load(tmp_path / "world")
    assert loaded.sample(6000, seed=5).equals(table)
    assert sorted(p.name for p in (tmp_path / "world").iterdir()) == [
        "articles.parquet",
        "world.json",
        "world.safetensors",
    ]


def test_a_broken_world_is_named(world: StylistWorld, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"world\.json: is missing\. Write a world there"):
        StylistWorld.load(tmp_path)
    world.save(tmp_path)
    (tmp_path / "world.safetensors").write_bytes((tmp_path / "world.safetensors").read_bytes()[:-8])
    with pytest.raises(DataError, match="changed or half written"):
        StylistWorld.load(tmp_path)
    (tmp_path / "world.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match="has format 99"):
        StylistWorld.load(tmp_path)
    (tmp_path / "world.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        StylistWorld.load(tmp_path)


def test_a_failing_save_leaves_no_temporary_file(
    world: StylistWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("contextual_bert.data.world.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        world.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: StylistWorld.generate(10), "num_items=10 is too small.*at least 48"),
        (lambda w: StylistWorld.generate(100, seed=-1), "seed=-1 is negative"),
        (lambda w: w.sample(0, seed=0), "num_outfits=0 draws nothing"),
        (lambda w: w.sample(5, seed=-2), "seed=-2 is negative"),
        (lambda w: w.sample(5, seed=0, num_customers=6), "num_customers=6 does not fit num_outfits=5.*1 to 5"),
        (lambda w: w.sample(5, seed=0, num_customers=0), "num_customers=0 does not fit"),
    ],
)
def test_bad_arguments_are_explained(world: StylistWorld, call: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(world)  # pyright: ignore[reportCallIssue]
