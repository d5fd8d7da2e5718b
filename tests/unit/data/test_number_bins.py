"""Bins of numbers: equal counts, a place for any number, and from shares of bins back to a number and an interval."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data.number_bins import NumberBins, numbers_to_learn, with_bin_names
from contextual_bert.errors import ConfigurationError, DataError


@pytest.mark.parametrize("most", [2, 7, 30])
def test_bins_have_as_many_numbers_each_and_their_mean(most: int) -> None:
    numbers = np.random.default_rng(0).lognormal(size=900)
    bins = NumberBins.of(numbers, most=most)
    placed = bins.place(numbers)
    sizes = np.bincount(placed)
    assert len(bins) == most == len(set(bins.names))
    assert sizes.max() - sizes.min() <= 1
    assert [numbers[placed == each].mean() for each in range(most)] == pytest.approx(list(bins.mean))
    assert [numbers[placed == each].min() for each in range(most)] == list(bins.low)
    assert [numbers[placed == each].max() for each in range(most)] == list(bins.high)


def test_few_numbers_that_repeat_are_bins_of_their_own() -> None:
    bins = NumberBins.of(np.array([3.0, 1.0, 3.0, 2.5, 1.0]), most=50)
    assert bins.names == ("1", "2.5", "3")
    assert bins.low == bins.mean == bins.high == (1.0, 2.5, 3.0)
    assert bins.read(np.eye(3)).tolist() == [[1.0] * 3, [2.5] * 3, [3.0] * 3]


def test_any_number_has_the_nearest_bin() -> None:
    bins = NumberBins(low=(0.0, 10.0), high=(4.0, 20.0), mean=(2.0, 14.0))
    assert bins.place(np.array([-1e9, 4.0, 6.9, 7.1, 12.0, 1e9])).tolist() == [0, 0, 0, 1, 1, 1]


def test_an_interval_holds_nine_in_ten_of_what_the_shares_say() -> None:
    generator = np.random.default_rng(1)
    numbers = generator.gamma(2.0, size=40_000)
    bins = NumberBins.of(numbers, most=60)
    shares = np.bincount(bins.place(numbers), minlength=60)[None] / len(numbers)
    mean, low, high = bins.read(shares)[0]
    assert mean == pytest.approx(numbers.mean())
    assert [low, high] == pytest.approx(np.quantile(numbers, [0.05, 0.95]).tolist(), rel=0.01)
    scaled = bins.read(7 * shares)[0]
    assert scaled.tolist() == pytest.approx([mean, low, high], rel=1e-3)  # an end may be that of the next bin


def test_a_config_has_the_bins_and_faulty_ones_are_named() -> None:
    bins = NumberBins.of(np.arange(10.0), most=3)
    names: dict[int, str] = dict(enumerate(bins.names))
    config = SimpleNamespace(number_bins=bins.as_lists(), id2label=names)
    assert NumberBins.of_config(config) == bins
    assert NumberBins.of_config(SimpleNamespace(number_bins=None, id2label=names)) is None
    faulty: list[Any] = [bins.as_lists()[:2], bins.as_lists()[::-1], [[0.0, 1.0]] * 3, [[0.0, np.inf, 1.0]] * 3, []]
    for each in faulty:
        with pytest.raises(ConfigurationError, match="number_bins"):
            NumberBins.of_config(SimpleNamespace(number_bins=each, id2label=names))


@pytest.mark.parametrize(
    ("column", "row", "words"),
    [
        (pa.array([1.5, float("inf")]), 1, "no finite number"),
        (pa.array(["1.5", "two"]), 1, "'two' is no number"),
        (pa.array(["1,5", "2"]), 0, "'1,5' is no number"),
        (pa.array([True, False]), None, "of type bool"),
        (pa.array([[1.0], [2.0]]), None, "of type list"),
        (pa.array([1.0, None]), 1, "missing"),
    ],
    ids=["infinite", "word", "comma", "truth", "list", "missing"],
)
def test_what_is_no_number_is_named(column: pa.Array, row: int | None, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        numbers_to_learn(pa.table({"price": column}), "price")
    assert (caught.value.row, caught.value.column) == (row, "price")


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.float32(), pa.decimal128(30, 2), pa.string()])
def test_numbers_of_any_type_are_read(kind: pa.DataType) -> None:
    table = pa.table({"price": pa.array([7, 2]).cast(kind)})
    assert numbers_to_learn(table, "price").tolist() == [7.0, 2.0]
    bins = NumberBins.of(np.array([2.0, 7.0]), most=2)
    assert with_bin_names(table, label="price", bins=bins)["price"].to_pylist() == ["7", "2"]
