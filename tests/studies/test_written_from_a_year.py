"""studies/written_from_a_year.py: on addresses of two times, whose words are planted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import studies.written_from_a_year
from contextual_bert.data import SequenceDataset

EARLY, LATE = ("ship", "wool", "fleet", "king"), ("jet", "web", "phone", "chip")


def addresses(folder: Path) -> Path:
    """100 addresses of 30 words, half of 1800 and half of 2010."""
    draws = np.random.default_rng(0)
    years = [1800 if number < 50 else 2010 for number in range(100)]
    texts = [" ".join(draws.choice(EARLY if year == 1800 else LATE, size=30)) for year in years]
    (folder / "sotu").mkdir()
    pq.write_table(pa.table({"year": years, "text": texts}), folder / "sotu" / "sotu.parquet")
    return folder


def test_each_address_is_dealt_the_year_of_another() -> None:
    years = torch.tensor([3, 3, 4, 5, 5, 6])
    windows = SequenceDataset(
        torch.arange(12),
        torch.arange(0, 13, 2),
        context={"year": years},
        example_ids=torch.tensor([7, 7, 2, 9, 9, 1]),
    )
    for seed in range(5):
        others = studies.written_from_a_year.dealt(windows, seed=seed)["year"]
        assert not (others == years).any() and others[0] == others[1] and others[3] == others[4]
        assert sorted(others[[0, 2, 3, 5]].tolist()) == [3, 4, 5, 6]


@pytest.mark.slow
def test_a_year_that_says_the_words_gains_most_at_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--width", "32", "--blocks", "1", "--vocab-size", "300", "--epochs", "60", "--num-samples", "2"]
    studies.written_from_a_year.main([str(addresses(tmp_path)), "--output", str(tmp_path / "runs"), *small])
    told = capsys.readouterr().out
    assert "trained with the years of others" in told and "1800, guidance 1" in told and "2010, guidance 2" in told
    lines = [line.split("|") for line in told.splitlines() if " to " in line and line.startswith("|")]
    gain = {cells[1].split()[0]: float(cells[3].split()[0]) for cells in lines[:-1]}
    assert gain["1"] > 0.1 > abs(gain["16"])
