"""Logistic regressions beside label shares: labels that training lacks, and where there is no figure."""

import math
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contextual_bert.errors import DataError
from contextual_bert.evaluation import Study
from contextual_bert.runs import Peers, as_row, prepare, run, study
from contextual_bert.training import Classification, Recipe


def of_parts(path: Path, **labels: str) -> Recipe:
    """A recipe without a checkpoint on texts whose first word is their label; part -> its labels, one letter a row."""
    rows = [
        {"text": f"{label}{label} coat number {number % 3}", "label": label, "sex": "fm"[number % 2], "part": part}
        for part, given in labels.items()
        for number, label in enumerate(given)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    task = Classification(text="text", label="label")
    return Recipe(data=str(path), task=task, split_column="part", conditioning="popularity", device="cpu")


def compared(recipe: Recipe, folder: Path, *names: str) -> Study:
    rows = [as_row(recipe, name) for name in names]
    return study("Small", rows, folder, prepared=prepare(rows[0]), say=lambda _: None)


def nats_of(found: Study) -> dict[str, float]:
    return {row.name: row.metrics["cross_entropy_nats"].mean for row in found.comparison.rows}


def test_one_label_in_training_leaves_logistic_regressions_without_figures(tmp_path: Path) -> None:
    recipe = of_parts(tmp_path / "one.parquet", train="a" * 40, validation="ab" * 10, test="ab" * 10)
    found = compared(recipe, tmp_path / "study", "popularity", "tfidf", "context_popularity", "tfidf_context")
    assert [*nats_of(found)] == ["popularity", "context_popularity"]
    (said,) = [text for text in found.texts if text.startswith("No figures of ")]
    assert said.startswith(
        "No figures of `tfidf`, `tfidf_context`: column 'label': all 40 labels of the training part (100.0%) are 'a'"
    )
    assert any("Training lacks the label of 10 of 20 labels of the test part (50.0%)" in text for text in found.texts)
    told = [line for line in found.data if line.startswith("warning: ")]
    assert any("'label': 'a' is the one label of the training part, of 40 (100.0%)" in line for line in told)
    assert any("has the label b (50.0% of the validation part, 50.0% of the test part)" in line for line in told)
    alone = as_row(recipe, "tfidf")
    for refused in (
        lambda: run(alone, tmp_path / "run", is_quiet=True),
        lambda: compared(recipe, tmp_path / "none_left", "tfidf", "tfidf_context"),
    ):
        with pytest.raises(DataError, match="all 40 labels of the training part") as caught:
            refused()
        assert caught.value.location == (recipe.data, "label")


def test_a_reference_without_figures_is_replaced(tmp_path: Path) -> None:
    recipe = of_parts(tmp_path / "one.parquet", train="a" * 40, validation="ab" * 10, test="ab" * 10)
    rows = [as_row(recipe, name) for name in ("tfidf", "popularity", "context_popularity")]
    peers = Peers(reference="tfidf")
    found = study("Small", rows, tmp_path / "study", prepared=prepare(rows[0]), peers=peers, say=lambda _: None)
    assert found.comparison.reference == "popularity"


def test_texts_without_a_common_word_leave_tfidf_without_figures(tmp_path: Path) -> None:
    recipe = of_parts(tmp_path / "words.parquet", train="ab" * 20, validation="ab" * 10, test="ab" * 10)
    table = pq.read_table(recipe.data)
    texts = [f"unique{number}" for number in range(table.num_rows)]
    pq.write_table(table.set_column(0, "text", pa.array(texts)), recipe.data)
    found = compared(recipe, tmp_path / "study", "popularity", "tfidf")
    assert [*nats_of(found)] == ["popularity"]
    assert any("column 'text': none of the 40 texts of the training part (0.0%)" in text for text in found.texts)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_one_label_in_another_part_is_named_and_scored(tmp_path: Path, part: str) -> None:
    labels = {"train": "ab" * 20, "validation": "ab" * 10, "test": "ab" * 10, part: "b" * 20}
    found = compared(of_parts(tmp_path / "one.parquet", **labels), tmp_path / "study", "popularity", "tfidf")
    assert [*nats_of(found)] == ["popularity", "tfidf"]
    assert any(f"'b' is the one label of the {part} part, of 20 (100.0%)" in line for line in found.data)


@pytest.mark.parametrize("validation", ["abc" * 10, "ab" * 15, "c" * 30])
def test_a_label_that_training_lacks_costs_a_logistic_regression_no_more_than_the_shares(
    tmp_path: Path, validation: str
) -> None:
    """With the label in validation or without it: both leave it a prior that is chosen in one way."""
    recipe = of_parts(tmp_path / "lacks.parquet", train="ab" * 60, validation=validation, test="abc" * 20)
    nats = nats_of(compared(recipe, tmp_path / "study", "popularity", "context_popularity", "tfidf", "tfidf_context"))
    assert nats["tfidf"] <= nats["popularity"] + 0.01
    assert nats["tfidf_context"] <= nats["context_popularity"] + 0.01
    # A third of the test part at half a text of 120, the others found.
    assert nats["popularity"] <= (2 * math.log(2) + math.log(243)) / 3 + 0.01


def test_figures_without_the_labels_that_training_lacks_stand_beside(tmp_path: Path) -> None:
    recipe = of_parts(tmp_path / "lacks.parquet", train="ab" * 60, validation="ab" * 15, test="abc" * 20)
    found = compared(recipe, tmp_path / "study", "popularity", "tfidf")
    (said,) = [text for text in found.texts if text.startswith("Training lacks")]
    assert "20 of 60 labels of the test part (33.3%)" in said
    assert re.search(r"without them: `tfidf` \(baseline\) 0\.0\d\d, `popularity` \(baseline\) 0\.697", said)
