"""The study of what customers wear: its pairs, its rows and its report."""

from pathlib import Path

import pytest

from contextual_bert.data import StylistWorld
from studies.worn_articles import BASELINES, main, rows, worn


def test_a_text_asks_for_the_kind_of_its_document() -> None:
    world = StylistWorld.generate(60)
    table = worn(world, num_pairs=50)
    kinds = {*world.articles.to_table().column("category").to_pylist()}
    for text, document in zip(table.column("text").to_pylist(), table.column("document").to_pylist(), strict=True):
        kind = text.partition(" for ")[0]
        assert kind in kinds and f" {kind} for " in document
    assert "items" not in table.column_names and "customer_id" in table.column_names
    assert table.equals(worn(world, num_pairs=50))


def test_the_control_and_the_baselines_are_among_the_rows() -> None:
    assert {"none", "global_state_update", "global_state_update_shuffled", *BASELINES} == {*rows(Path("a"), epochs=1)}


@pytest.mark.slow
def test_the_study_writes_its_report(tmp_path: Path) -> None:
    main(["--pairs", "300", "--epochs", "1", "--rows", "none,tfidf", "--output", str(tmp_path)])
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "NDCG@10" in report and "tfidf" in report
