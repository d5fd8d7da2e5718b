"""studies/texts_of_a_year.py: on addresses of two times, whose words are planted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForMaskedLM

import studies.texts_of_a_year
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
YEARS = (1800, 2000)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty addresses of 240 words: word0 to word7 before 1900, word8 to word15 later."""
    draws = np.random.default_rng(0)
    years = [1800 + number % 10 if number < 20 else 2000 + number % 10 for number in range(40)]
    words = [draws.integers(8, size=240) + 8 * (year > 1900) for year in years]
    texts = [" ".join(f"word{number}" for number in each) for each in words]
    same = {name: ["x"] * 40 for name in ("president", "party", "sotu_type")}
    (tmp_path / "sotu").mkdir()
    pq.write_table(pa.table({"year": years, "text": texts, **same}), tmp_path / "sotu" / "sotu.parquet")
    bert = BertForMaskedLM(BertConfig(vocab_size=23, max_position_embeddings=66, **SIZES))
    miniature_checkpoint(drawn_anew(bert), tmp_path / "bert")
    return tmp_path


@pytest.mark.slow
def test_what_is_drawn_is_of_the_year_that_was_asked_for(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = studies.texts_of_a_year
    monkeypatch.setattr(recipe, "YEARS", YEARS)
    rates = {"learning_rate": 3e-3, "new_weights_learning_rate": 1e-2, "context_dropout": 0.1}
    monkeypatch.setattr(recipe, "TRAINING", {"num_train_epochs": 15, "per_device_train_batch_size": 16, **rates})
    options = ["--runs", str(data / "runs"), "--output", str(data / "out"), "--num-samples", "20", "--sweeps", "2"]
    recipe.main([str(data), "--checkpoint", str(data / "bert"), *options])
    found: Any = json.loads((data / "out" / "results.json").read_text(encoding="utf-8"))
    trained = json.loads((data / "runs" / "model" / "recipe.json").read_text(encoding="utf-8"))["recipe"]
    assert [feature["name"] for feature in trained["schema"]["features"]] == ["year"]
    assert found["later"]["real"] == 1
    assert found["later"]["1"] > 0.9
    drawn = {(each["year"], each["guidance"]): each for each in found["drawn"]}
    assert set(drawn) == {(year, weight) for year in YEARS for weight in recipe.GUIDANCE}
    for year in YEARS:
        assert len(drawn[year, 1]["texts"]) == 20
        assert abs(drawn[year, 1]["guessed"]["value"] - year) < 60
    report = (data / "out" / "report.md").read_text(encoding="utf-8")
    assert f"{drawn[1800, 1]['guessed']['value']:.0f} [" in report
    assert drawn[2000, 4]["texts"][0] in report


def test_pairs_in_the_right_order() -> None:
    share_later = studies.texts_of_a_year.share_later
    assert share_later(np.array([3.0, 1.0]), np.array([1.0, 2.0])) == pytest.approx(2.5 / 4)
