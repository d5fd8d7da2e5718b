"""studies/what_the_year_tells.py: on addresses of two times, whose words are planted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import studies.what_the_year_tells

EARLY, LATE = ("ship", "wool", "fleet", "king"), ("jet", "web", "phone", "chip")


def addresses(folder: Path, *, is_said_by_every_word: bool) -> Path:
    """200 addresses, half of 1800 and half of 2000, of 240 words; if not by every word, every other one says it."""
    draws = np.random.default_rng(0)
    years = [1800 + number % 10 if number < 100 else 2000 + number % 10 for number in range(200)]
    texts: list[str] = []
    for year in years:
        words = [str(word) for word in draws.choice(EARLY if year < 1900 else LATE, size=240)]
        if not is_said_by_every_word:
            words[::2] = ["same"] * 120
        texts.append(" ".join(words))
    same = {name: ["x"] * 200 for name in ("president", "party", "sotu_type")}
    (folder / "sotu").mkdir()
    pq.write_table(pa.table({"year": years, "text": texts, **same}), folder / "sotu" / "sotu.parquet")
    return folder


@pytest.mark.parametrize("is_said_by_every_word", [True, False])
def test_what_the_passage_says_itself_is_not_the_years(tmp_path: Path, *, is_said_by_every_word: bool) -> None:
    recipe = studies.what_the_year_tells
    found, error = recipe.measure(addresses(tmp_path, is_said_by_every_word=is_said_by_every_word))
    no_time, by_guess, by_year, over_guess = (interval.value for _, interval in found)
    assert no_time == pytest.approx(np.log(8), abs=0.02)
    assert 0.5 < by_year < np.log(2)  # a tenth of the mixture is of any time
    assert over_guess == pytest.approx(by_year - by_guess, abs=1e-9)
    assert over_guess == pytest.approx(0 if is_said_by_every_word else by_year, abs=0.03)
    assert (error < 20) == is_said_by_every_word


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    studies.what_the_year_tells.main([str(addresses(tmp_path, is_said_by_every_word=True))])
    assert "| the year, gain over the guess |" in capsys.readouterr().out


def test_a_longer_passage_tells_its_time_where_few_words_say_it(tmp_path: Path) -> None:
    folder = addresses(tmp_path, is_said_by_every_word=True)
    table = pq.read_table(folder / "sotu" / "sotu.parquet")
    # One word to read and one to score in 24, never in one passage of 8.
    texts = [
        " ".join(word if place % 24 in (0, 13) else "same" for place, word in enumerate(text.split()))
        for text in table["text"].to_pylist()
    ]
    pq.write_table(
        table.set_column(table.schema.get_field_index("text"), "text", [texts]), folder / "sotu" / "sotu.parquet"
    )
    measured = [studies.what_the_year_tells.measure(folder, num_words=number)[0] for number in (8, 120)]
    gains = [interval.value for found in measured for name, interval in found if name.endswith("over the guess")]
    assert gains[1] < 0.5 * gains[0]


def test_each_length_of_passages_has_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(addresses(tmp_path, is_said_by_every_word=True))
    studies.what_the_year_tells.main([folder, "--words", "20", "60"])
    told = capsys.readouterr().out
    assert "in passages of 20" in told and "in passages of 60" in told
