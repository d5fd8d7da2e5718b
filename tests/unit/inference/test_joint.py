"""Several blanks at once: against brute force, by hand, and against the oracle of the stylist world."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contextual_bert.context import Categorical, ContextSchema, Vocabulary
from contextual_bert.data import Oracle, StylistWorld
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.inference import Catalogue, CompletionPipeline, ConstraintInput, JointSearch
from contextual_bert.inference.joint_search import Blanks, Conditionals, diverse, gibbs
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

SHOP: list[dict[str, Any]] = [
    {"id": "parka", "category": "coat", "price": 120.0},
    {"id": "trench", "category": "coat", "price": 80.5},
    {"id": "beret", "category": "hat", "price": 20.1},
    {"id": "stetson", "category": "hat", "price": 60.2},
    {"id": "tote", "category": "bag", "price": 30.0},
    {"id": "clutch", "category": "bag", "price": None},
    {"id": "boots", "category": "shoes", "price": 90.0},
]
ITEMS = [row["id"] for row in SHOP]
PRICE = {row["id"]: math.inf if row["price"] is None else row["price"] for row in SHOP}
CATEGORY = {row["id"]: row["category"] for row in SHOP}
SCHEMA = ContextSchema(features=(Categorical(name="gender", values=("female", "male")),))


def made(*, has_positions: bool = False) -> CompletionPipeline:
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(
        SCHEMA,
        conditioning="global_state",
        vocab_size=len(ITEMS) + 3,
        initializer_range=0.5,
        has_position_embeddings=has_positions,
        **sizes,
    )
    processor = ContextualBertProcessor.from_items(ITEMS, SCHEMA)
    return CompletionPipeline(
        ContextualBertForMaskedLM(config), processor, catalogue=Catalogue(pa.Table.from_pylist(SHOP), processor.items)
    )


PIPELINE = made()
CONTEXT = {"gender": "female"}


@cache
def log_probabilities(items: tuple[str, ...], position: int) -> dict[str, float]:
    """Of every item at one [MASK] of a set, straight from the model."""
    inputs = PIPELINE.processor(items=[list(items)], context=[CONTEXT])
    with torch.no_grad():
        logits = PIPELINE.model(**inputs).logits
    row = [index for index, item in enumerate(items) if item == "[MASK]"].index(position)
    return dict(zip(ITEMS, logits[row, 3:].double().log_softmax(dim=0).tolist(), strict=True))


def chain(items: Sequence[str], filled: Sequence[str]) -> float:
    """The chain rule by hand: the blanks from left to right, the others masked."""
    current, total = list(items), 0.0
    for item in filled:
        position = current.index("[MASK]")
        total += log_probabilities(tuple(current), position)[item]
        current[position] = item
    return total


def pseudo(items: Sequence[str], whole: Sequence[str]) -> float:
    total = 0.0
    for position, item in enumerate(items):
        if item == "[MASK]":
            others = (*whole[:position], "[MASK]", *whole[position + 1 :])
            total += log_probabilities(others, position)[whole[position]]
    return total


def is_permitted(filled: Sequence[str], query: Mapping[str, Any]) -> bool:
    visible = [item for item in query["items"] if item != "[MASK]"]
    categories = [CATEGORY[item] for item in filled]
    spent = sum(PRICE[item] for item in filled)
    if query.get("budget_includes_visible"):
        spent += sum(PRICE[item] for item in visible)
    seen = {CATEGORY[item] for item in visible}
    return (
        all(item not in query.get("deny", []) for item in filled)
        and all(PRICE[item] <= query.get("max_price", math.inf) for item in filled)
        and spent <= query.get("budget", math.inf) + 1e-6
        and (query.get("repeats", False) or len({*filled, *visible}) == len(filled) + len(set(visible)))
        and (
            "at_most_one_per" not in query or (len(set(categories)) == len(categories) and seen.isdisjoint(categories))
        )
        and all(CATEGORY[filled[each["blank"]]] in each["in"] for each in query.get("where", []))
    )


def brute_force(query: Mapping[str, Any]) -> dict[tuple[str, ...], float]:
    num_blanks = query["items"].count("[MASK]")
    return {
        filled: chain(query["items"], filled)
        for filled in itertools.product(ITEMS, repeat=num_blanks)
        if is_permitted(filled, query)
    }


def greedily_diverse(scores: Mapping[tuple[str, ...], float], *, count: int, diversity: int) -> list[float]:
    chosen: list[tuple[str, ...]] = []
    for filled in sorted(scores, key=scores.__getitem__, reverse=True):
        needed = min(diversity, len(filled))
        if len(chosen) < count and all((Counter(filled) - Counter(other)).total() >= needed for other in chosen):
            chosen.append(filled)
    return [scores[filled] for filled in chosen]


SETS = st.lists(st.sampled_from(["parka", "tote"]), max_size=2, unique=True)
QUERIES = st.builds(
    lambda visible, num_blanks, rest: {"items": [*visible, *["[MASK]"] * num_blanks], "context": CONTEXT, **rest},
    SETS,
    st.integers(1, 3),
    st.fixed_dictionaries(
        {},
        optional={
            "deny": st.lists(st.sampled_from(ITEMS), max_size=3),
            "repeats": st.booleans(),
            "max_price": st.sampled_from([30, 80.5, 90, 200]),
            "budget": st.sampled_from([20, 50.1, 110.3, 160, 230, 400]),
            "at_most_one_per": st.just("category"),
            "where": st.lists(
                st.fixed_dictionaries(
                    {
                        "attribute": st.just("category"),
                        "in": st.lists(st.sampled_from(["coat", "hat", "bag", "shoes"]), min_size=1, max_size=3),
                        "blank": st.just(0),
                    }
                ),
                max_size=1,
            ),
        },
    ),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(query=QUERIES, diversity=st.integers(1, 3), count=st.integers(1, 6))
def test_exact_is_brute_force(query: dict[str, Any], diversity: int, count: int) -> None:
    expected = brute_force(query)
    answer: Any = PIPELINE.complete_jointly(query, num_completions=count, diversity=diversity, method="exact")
    found = answer["completions"]
    scores = greedily_diverse(expected, count=count, diversity=diversity)
    assert [each["log_probability"] for each in found] == pytest.approx(scores, abs=1e-4)
    mass = sum(map(math.exp, expected.values()))
    assert answer["excluded_probability"] == pytest.approx(1 - mass, abs=1e-5)
    assert (answer["reason"] is None) == bool(expected) == bool(found)
    for each in found:
        filled = tuple(each["filled"])
        assert expected[filled] == pytest.approx(each["log_probability"], abs=1e-4)
        assert each["probability"] == pytest.approx(math.exp(expected[filled]) / mass, rel=1e-3)
        assert each["pseudo_log_likelihood"] == pytest.approx(pseudo(query["items"], each["items"]), abs=1e-4)
        price = sum(PRICE[item] for item in filled)
        assert each["price"] == (pytest.approx(price) if math.isfinite(price) else None)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(query=QUERIES, method=st.sampled_from(["beam", "gibbs"]), max_forward_passes=st.sampled_from([18, 40, 100]))
def test_no_method_breaks_a_constraint_or_its_limit(
    query: dict[str, Any], method: Any, max_forward_passes: int
) -> None:
    answer: Any = PIPELINE.complete_jointly(query, method=method, max_forward_passes=max_forward_passes)
    assert (answer["method"], answer["excluded_probability"]) == (method, None)
    assert answer["num_forward_passes"] <= max_forward_passes
    best = max(brute_force(query).values(), default=-math.inf)
    for each in answer["completions"]:
        filled = each["filled"]
        assert is_permitted(filled, query)
        assert each["log_probability"] == pytest.approx(chain(query["items"], filled), abs=1e-4)
        assert each["pseudo_log_likelihood"] == pytest.approx(pseudo(query["items"], each["items"]), abs=1e-4)
        assert each["log_probability"] <= best + 1e-4
        assert each["probability"] is None
    sets = [tuple(sorted(each["filled"])) for each in answer["completions"]]
    assert len(set(sets)) == len(sets)


THREE: dict[str, Any] = {"items": ["tote", "[MASK]", "[MASK]", "[MASK]"], "context": CONTEXT}


def test_a_beam_that_holds_everything_is_exact() -> None:
    exact: Any = PIPELINE.complete_jointly(THREE, num_completions=20)
    beam: Any = PIPELINE.complete_jointly(THREE, num_completions=20, method="beam", max_forward_passes=200)
    assert exact["method"] == "exact"
    for left, right in zip(exact["completions"], beam["completions"], strict=True):
        assert left["items"] == right["items"]
        assert left["log_probability"] == pytest.approx(right["log_probability"], abs=1e-5)


def test_a_beam_of_one_takes_the_best_item_each_time() -> None:
    answer: Any = PIPELINE.complete_jointly(THREE, num_completions=1, method="beam", max_forward_passes=3)
    current = ["tote", "[MASK]", "[MASK]", "[MASK]"]
    while "[MASK]" in current:
        position = current.index("[MASK]")
        scores = {k: v for k, v in log_probabilities(tuple(current), position).items() if k not in current}
        current[position] = max(scores, key=scores.__getitem__)
    assert answer["completions"][0]["items"] == current
    assert answer["num_forward_passes"] == 3


def test_a_beam_holds_each_choice_of_items_once() -> None:
    """With two partial sets, one of two orders of the same items would cost the second place."""
    answer: Any = PIPELINE.complete_jointly(THREE, num_completions=50, method="beam", max_forward_passes=5)
    pairs = {frozenset(each["filled"][:2]) for each in answer["completions"]}
    assert len(pairs) == 2


def test_auto_is_exact_as_long_as_the_forward_passes_suffice() -> None:
    # 6 items are permitted in each blank: 1 + 6 + 36 partial sets at most.
    for limit, method in ((43, "exact"), (42, "beam")):
        answer: Any = PIPELINE.complete_jointly(THREE, max_forward_passes=limit)
        assert (answer["method"], answer["num_forward_passes"] <= limit) == (method, True)
    assert PIPELINE.complete_jointly({"items": []}, max_forward_passes=1)["method"] == "exact"  # pyright: ignore


@pytest.mark.parametrize(("method", "needed"), [("exact", 43), ("beam", 3), ("gibbs", 18)])
def test_too_few_forward_passes_are_an_error(method: Any, needed: int) -> None:
    with pytest.raises(ConfigurationError, match=f"up to {needed} forward passes, more than the {needed - 1} of"):
        PIPELINE.complete_jointly(THREE, method=method, max_forward_passes=needed - 1)
    assert PIPELINE.complete_jointly(THREE, method=method, max_forward_passes=needed)["completions"]  # pyright: ignore


@pytest.mark.parametrize("method", ["exact", "beam", "gibbs"])
def test_answers_depend_neither_on_the_batch_nor_on_other_queries(method: Any) -> None:
    queries = [THREE, {"items": ["boots", "[MASK]", "[MASK]"], "context": {"gender": "male"}}]
    both: Any = PIPELINE.complete_jointly(queries, method=method, batch_size=256, max_forward_passes=200)
    for query, answer in zip(queries, both, strict=True):
        single: Any = PIPELINE.complete_jointly(query, method=method, batch_size=7, max_forward_passes=200)
        assert [each["items"] for each in single["completions"]] == [each["items"] for each in answer["completions"]]


def test_the_context_reaches_the_joint() -> None:
    scores = [
        PIPELINE.complete_jointly({**THREE, "context": {"gender": gender}}, num_completions=1)["completions"][0]  # pyright: ignore
        for gender in ("female", "male")
    ]
    assert abs(scores[0]["log_probability"] - scores[1]["log_probability"]) > 0.01


def test_gibbs_is_repeated_by_its_seed_and_finds_the_best() -> None:
    runs: list[Any] = [
        PIPELINE.complete_jointly(THREE, method="gibbs", seed=seed, max_forward_passes=1500) for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1]
    exact: Any = PIPELINE.complete_jointly(THREE)
    best = exact["completions"][0]["log_probability"]
    assert [each["completions"][0]["log_probability"] for each in runs] == pytest.approx([best] * 3, abs=1e-4)


def test_a_model_with_positions_tells_the_order_apart() -> None:
    pipeline = made(has_positions=True)
    query = {"items": ["[MASK]", "[MASK]", "[MASK]"]}
    beam: Any = pipeline.complete_jointly(query, method="beam", max_forward_passes=201, num_completions=9)
    exact: Any = pipeline.complete_jointly(query, num_completions=9)
    assert [each["items"] for each in beam["completions"]] == [each["items"] for each in exact["completions"]]


def test_locked_items_stay_and_the_others_are_open() -> None:
    query = {"items": ["tote", "boots", "beret"], "locked": ["boots"], "context": CONTEXT, "deny": ["tote"]}
    answer: Any = PIPELINE.complete_jointly(query)
    same: Any = PIPELINE.complete_jointly({**query, "items": ["[MASK]", "boots", "[MASK]"], "locked": None})
    assert answer["items"] == ["[MASK]", "boots", "[MASK]"]
    assert answer["completions"] == same["completions"]
    assert all(each["items"][1] == "boots" for each in answer["completions"])
    assert answer["notes"] == ["Not locked, and so open to be replaced, by themselves too: tote, beret."]
    with pytest.raises(DataError, match=r"query 1, locked\[0\]: 'parka' is not in the set"):
        PIPELINE.complete_jointly({"items": ["tote"], "locked": ["parka"]})


def test_diversity_counts_items_and_not_their_blanks() -> None:
    query = {"items": ["[MASK]", "[MASK]"], "context": CONTEXT}
    for diversity in (1, 2, 5):
        answer: Any = PIPELINE.complete_jointly(query, num_completions=9, diversity=diversity)
        sets = [set(each["filled"]) for each in answer["completions"]]
        assert all(len(a - b) >= min(diversity, 2) for a, b in itertools.combinations(sets, 2))
        assert len(sets) == (9 if diversity == 1 else 3)


def test_why_there_is_no_completion() -> None:
    query = {"items": ["[MASK]", "[MASK]"], "where": {"category": "coat"}, "at_most_one_per": "category"}
    exact: Any = PIPELINE.complete_jointly(query)
    assert exact["completions"] == []
    assert exact["excluded_probability"] == 1
    assert exact["reason"] == (
        "Each of the 2 blanks has items, and no choice for all keeps repeats and at_most_one_per."
    )
    assert exact["notes"] == [exact["reason"]]
    beam: Any = PIPELINE.complete_jointly(query, method="beam")
    assert "there may be one. Raise max_forward_passes" in beam["reason"]
    gibbs_found: Any = PIPELINE.complete_jointly(query, method="gibbs")
    assert gibbs_found["reason"] == beam["reason"]
    alone: Any = PIPELINE.complete_jointly({**query, "max_price": 3})
    assert alone["reason"].startswith("No item is left after max_price: of 7 items, where took 5, max_price took 2")
    assert alone["num_forward_passes"] == 0


def test_what_is_unknown_is_said() -> None:
    answer: Any = PIPELINE.complete_jointly({"items": ["kilt", "[MASK]", "[MASK]"], "context": {"gender": "robot"}})
    assert answer["unknown_items"] == ["kilt"]
    assert answer["unknown_context"] == {"gender": ["robot"]}
    assert answer["completions"][0]["items"][0] == "kilt"


@pytest.mark.parametrize("field", ["num_completions", "diversity", "max_forward_passes", "batch_size"])
def test_settings_that_cannot_work(field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{field}=0 is not allowed. Give a whole number, 1 or more"):
        JointSearch(**{field: 0})  # pyright: ignore[reportArgumentType]


def test_an_unknown_method_and_faulty_queries() -> None:
    with pytest.raises(ConfigurationError, match=r"'beem' is unknown. Did you mean 'beam'"):
        PIPELINE.complete_jointly({}, method="beem")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="query 2, itms: unknown key 'itms'"):
        PIPELINE.complete_jointly([{}, {"itms": []}])
    with pytest.raises(DataError, match="neither a query nor a list"):
        PIPELINE.complete_jointly("tote")  # pyright: ignore[reportArgumentType]


class OracleConditionals:
    """What `Conditionals` gives, from the oracle of a stylist world: one blank, all others filled."""

    def __init__(self, oracle: Oracle, row: pa.Table, places: Sequence[int]) -> None:
        self.oracle, self.row, self.places = oracle, row, places
        self.known: dict[tuple[int, ...], np.ndarray] = {}

    def given(self, filled: Sequence[int], blank: int) -> np.ndarray:
        key = (blank, *(each for number, each in enumerate(filled) if number != blank))
        if key not in self.known:
            items = self.row.column("items")[0].as_py()
            for number, place in enumerate(self.places):
                items[place] = None if number == blank else self.oracle.world.items[filled[number]]
            table = self.row.set_column(1, "items", pa.array([items]))
            self.known[key] = self.oracle.probabilities(table, [self.places[blank]])[0]
        return self.known[key]

    def batches(self, filled: np.ndarray, blank: int) -> Iterator[tuple[slice, torch.Tensor]]:
        found = np.stack([self.given(row, blank) for row in filled.tolist()])
        yield slice(0, len(filled)), torch.from_numpy(found).log()


def test_gibbs_draws_from_the_joint_of_the_stylist_world() -> None:
    """The oracle's conditionals belong to one joint; that of two blanks follows from them (Besag 1974)."""
    world = StylistWorld.generate(120, seed=3)
    oracle, row = Oracle(world), world.sample(40, seed=1).slice(3, 1)
    names = row.column("items")[0].as_py()
    places = [0, len(names) - 1]
    start = [world.items.index(names[place]) for place in places]
    conditionals: Any = OracleConditionals(oracle, row, places)

    # Of the same categories, and not made for somebody else: whatever two of these, the outfit can occur.
    is_alike = [world.articles.category == world.articles.category[index] for index in start]
    first, second = (np.flatnonzero(is_alike[blank] & (conditionals.given(start, blank) > 0)) for blank in (0, 1))
    # Pr(a, b) is proportional to Pr(a | b) Pr(b | a*) / Pr(a* | b) for a fixed a*.
    joint = np.zeros((len(first), len(second)))
    for column, other in enumerate(second):
        alone = conditionals.given([0, int(other)], 0)
        joint[:, column] = alone[first] * conditionals.given([int(first[0]), 0], 1)[other] / alone[first[0]]
    joint /= joint.sum()

    permitted = np.zeros((2, world.num_items), dtype=bool)
    permitted[0, first] = permitted[1, second] = True
    # No id is reserved here, but one stands for an open blank: a name behind the items.
    asked = ConstraintInput(Vocabulary([], reserved=[*world.items, "[MASK]"]), ["[MASK]", "[MASK]"])
    padded = np.concatenate([permitted, np.zeros((2, 1), dtype=bool)], axis=1)
    blanks = Blanks(asked, {}, padded)
    plain = conditionals.batches
    conditionals.batches = lambda filled, blank: (
        (rows, torch.nn.functional.pad(found, (0, 1), value=-torch.inf)) for rows, found in plain(filled, blank)
    )
    chains = np.tile(np.array([start]), (200, 1))
    draws = gibbs(conditionals, blanks, chains, num_sweeps=60, generator=torch.Generator().manual_seed(0))
    counts = np.zeros_like(joint)
    for number, filled in enumerate(draws):
        if number >= 20:
            np.add.at(counts, (np.searchsorted(first, filled[:, 0]), np.searchsorted(second, filled[:, 1])), 1)
    assert 0.5 * np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() > 0.1  # they depend on each other
    assert 0.5 * np.abs(counts / counts.sum() - joint).sum() < 0.05  # total variation


def test_exact_follows_the_chain_rule_of_a_trained_model(tiny_run: CompletionPipeline) -> None:
    """By hand, from the answers to one blank at a time."""
    query = {"items": ["trousers-0", "[MASK]", "[MASK]"], "context": {"gender": "female"}}
    query["allow"] = ["shirt-0", "shirt-1", "shoes-0", "shoes-1"]
    answer: Any = tiny_run.complete_jointly(query, num_completions=12)
    first: Any = tiny_run({**query, "allow": list(tiny_run.processor.items.values), "repeats": True}, top_k=99)
    alone = {each["item"]: each["probability"] for each in first["slots"][0]["candidates"]}
    for each in answer["completions"]:
        one, other = each["filled"]
        filled = {"items": ["trousers-0", one, "[MASK]"], "context": query["context"], "repeats": True}
        second: Any = tiny_run(filled, top_k=99)
        beside = {found["item"]: found["probability"] for found in second["slots"][0]["candidates"]}
        assert math.exp(each["log_probability"]) == pytest.approx(alone[one] * beside[other], rel=1e-3)
    assert len(answer["completions"]) == 6  # of 4 items 2, in whichever blanks


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> CompletionPipeline:
    import pyarrow.parquet as pq

    from contextual_bert.runs import run
    from contextual_bert.training import Recipe, SetCompletion

    folder = tmp_path_factory.mktemp("tiny")
    pq.write_table(StylistWorld.generate(60).sample(240, seed=1), folder / "outfits.parquet")
    model = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    recipe = Recipe(
        data=str(folder / "outfits.parquet"),
        task=SetCompletion(items="items"),
        customer="customer_id",
        conditioning="global_state",
        model=model,
        training={"num_train_epochs": 1},
        device="cpu",
    )
    run(recipe, folder / "run", is_quiet=True)
    return CompletionPipeline.from_pretrained(folder / "run")


def test_a_budget_prunes_what_the_cheapest_others_would_break() -> None:
    budget, query = 131, {"items": ["[MASK]"] * 3, "budget": 131, "context": CONTEXT}
    answer: Any = PIPELINE.complete_jointly(query, method="exact")
    cheapest = min(PRICE.values())
    first = [item for item in ITEMS if PRICE[item] + 2 * cheapest <= budget]
    pairs = [
        (one, other)
        for one in first
        for other in ITEMS
        if one != other and PRICE[one] + PRICE[other] + cheapest <= budget
    ]
    assert answer["num_forward_passes"] == 1 + len(first) + len(pairs)
    alone = [pair for pair in itertools.permutations(first, 2) if sum(PRICE[item] for item in pair) <= budget]
    assert len(pairs) < len(alone)


def test_conditionals_of_any_blank() -> None:
    """With positions, or all blanks of a set would be alike."""
    pipeline, items = made(has_positions=True), ["[MASK]", "tote", "[MASK]", "[MASK]"]
    inputs: Any = pipeline.processor(items=[items], context=[CONTEXT])
    conditionals = Conditionals(pipeline.logits, inputs, mask_id=1, reserved=range(3), batch_size=2)
    names = ("parka", "beret", "boots")
    filled = np.array([[ITEMS.index(item) + 3, 1, 1] for item in names])
    found = conditionals.of(filled, 2, np.array([ITEMS.index("clutch") + 3] * 3))
    whole = pipeline.processor(items=[[item, *items[1:]] for item in names], context=[CONTEXT] * 3)
    with torch.no_grad():
        logits = pipeline.model(**whole, logits_at="all").logits[:, 3, 3:]
    expected = logits.double().log_softmax(dim=-1)[:, ITEMS.index("clutch")].tolist()
    assert found == pytest.approx(expected, abs=1e-4)
    assert conditionals.num_forward_passes == 3


def test_the_model_is_asked_for_the_one_blank_that_is_filled() -> None:
    pipeline, num_rows = made(), []
    inputs: Any = pipeline.processor(items=[["[MASK]", "tote", "[MASK]", "[MASK]"]], context=[CONTEXT])

    def counted(given: Mapping[str, Any]) -> torch.Tensor:
        num_rows.append(len(logits := pipeline.logits(given)))
        return logits

    conditionals = Conditionals(counted, inputs, mask_id=1, reserved=range(3), batch_size=2)
    found = [each for _, each in conditionals.batches(np.full((3, 3), 1), 1)]
    assert num_rows == [2, 1]
    assert torch.cat(found).exp().sum(dim=1).tolist() == pytest.approx([1, 1, 1])
    guided = pipeline.logits({**inputs, "logits_at": inputs["input_ids"] == 1}, guidance=2.0)
    assert torch.equal(guided, pipeline.logits(inputs, guidance=2.0))


class Independent:
    """Conditionals of blanks that do not depend on each other."""

    def __init__(self, probabilities: Sequence[Sequence[float]]) -> None:
        self.logs = torch.tensor(probabilities).double().log()

    def batches(self, filled: np.ndarray, blank: int) -> Iterator[tuple[slice, torch.Tensor]]:
        yield slice(0, len(filled)), self.logs[blank].repeat(len(filled), 1)


def test_enough_is_kept_for_completions_that_differ() -> None:
    """After (4, 0) each first item goes best with 0 and with 4, which are taken; the third best has to be there."""
    conditionals: Any = Independent([[0.11, 0.1, 0.16, 0.17, 0.46, 0.0], [0.4, 0.2, 0.08, 0.02, 0.3, 0.0]])
    asked = ConstraintInput(Vocabulary([], reserved=["a", "b", "c", "d", "e", "[MASK]"]), ["[MASK]", "[MASK]"])
    blanks = Blanks(asked, {}, np.array([[True] * 5 + [False]] * 2))
    found = JointSearch(num_completions=2)._found(conditionals, blanks, "exact", has_order=False)
    best = diverse(found, count=2, min_different=2)
    assert found.filled[best].tolist() == [[4, 0], [3, 1]]
    assert np.exp(found.scores[best]).tolist() == pytest.approx([0.46 * 0.4, 0.17 * 0.2])
