"""The study of numbers that are read out: what a number is called where, and its report."""

from pathlib import Path

import pytest

from studies.numbers_read_out import COUNTRIES, RANGES, main, pairs, read_out


@pytest.mark.parametrize(
    ("digits", "country", "words"),
    [
        ("7", "GB", "seven"),
        ("00", "US", "zero zero"),
        ("00", "GB", "double oh"),
        ("5555", "GB", "triple five five"),
        ("1001", "GB", "one double oh one"),
        ("222222", "GB", "triple two triple two"),
    ],
)
def test_a_number_is_read_as_its_country_does(digits: str, country: str, words: str) -> None:
    assert read_out(digits, country) == words


def test_numbers_of_each_length_are_as_frequent() -> None:
    table = pairs(num_pairs=400)
    lengths = [len(each) for each in table.column("number").to_pylist()]
    assert sorted(set(lengths)) == [*range(1, 41)] and {lengths.count(each) for each in lengths} == {10}
    assert {*table.column("country").to_pylist()} == {*COUNTRIES}
    words = zip(table.column("number").to_pylist(), table.column("country").to_pylist(), strict=True)
    assert table.column("words").to_pylist() == [read_out(*each) for each in words]


@pytest.mark.slow
def test_the_study_writes_its_table_and_its_picture(tmp_path: Path) -> None:
    main(["--pairs", "400", "--epochs", "1", "--rows", "gru_luong,gru", "--output", str(tmp_path)])
    table = (tmp_path / "lengths.md").read_text(encoding="utf-8")
    assert all(f"| {row} |" in table for row in ("gru_luong", "gru"))
    assert all((f"{first} to {last} digits" if first != last else f"{last} digits") in table for first, last in RANGES)
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert "exact text match" in (tmp_path / "report.md").read_text(encoding="utf-8").lower()
