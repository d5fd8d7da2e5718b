"""What inspect finds in a table of texts: lengths, labels, features of the training part, and what is to be mended."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.data import ReadSettings
from contextual_bert.errors import CheckpointError, DataError, UnknownNameError
from contextual_bert.runs import inspect_table, make_split, prepare
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, MaskedText, Recipe, TextToText

ROWS = 200
TASK = Classification(checkpoint="nowhere", text="text", label="verdict")
RECIPE = Recipe(data="reviews.parquet", task=TASK)
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(bert, folder)
    return str(folder)


def table(**columns: Any) -> pa.Table:
    """Every fourth text has three words, the others one; every fifth verdict is good."""
    own: dict[str, Any] = {
        "text": [f"word{row} yes yes" if row % 4 == 0 else f"word{row}" for row in range(ROWS)],
        "verdict": ["good" if row % 5 == 0 else "bad" for row in range(ROWS)],
        "sex": ["f", "m", "m"] * 66 + ["f", "f"],
    }
    return pa.table({**own, **columns})


def inspected(recipe: Recipe = RECIPE, **columns: Any) -> Any:
    return inspect_table(recipe, source=table(**columns), has_tokens=False)


def labelled(**changes: Any) -> Recipe:
    return replace(RECIPE, task=replace(TASK, **changes))


def test_texts_labels_and_features_are_described() -> None:
    found = inspected()
    assert found.reading == (
        "200 rows, 200 different texts in 'text'",
        "words a text: 1 to 3, half of them have 1 or fewer, 95% have 3 or fewer",
        "2 labels: bad (80.0%), good (20.0%)",
    )
    assert found.faults == ()
    assert found.schema is not None
    assert found.schema.names == ("sex",)
    assert found.num_rows == len(make_split(RECIPE, table()).rows("train"))
    assert {note.column: note.kind for note in found.notes} == {"text": None, "verdict": None, "sex": "categorical"}
    assert "training part" in found.basis[0]


def test_features_come_from_the_training_part_alone() -> None:
    training = make_split(RECIPE, table(city=["x"] * ROWS)).rows("train")
    is_training = np.isin(np.arange(ROWS), training)
    found = inspected(city=np.where(is_training, np.where(np.arange(ROWS) % 2, "Oslo", "Bergen"), "Moss"))
    assert found.schema is not None
    assert dict(zip(found.schema.names, found.schema.features, strict=True))["city"].values == ("Bergen", "Oslo")


def test_tokens_are_counted_as_train_cuts_them(checkpoint: str, tmp_path: Path) -> None:
    recipe = labelled(checkpoint=checkpoint, max_length=4)
    source = table()
    lines = inspect_table(recipe, source=source).reading
    lengths = [len(text.split()) + 2 for text in source.column("text").to_pylist()]
    num_cut = sum(length > 4 for length in lengths)
    said = "3 to 5, half of them have 3 or fewer, 95% have 5 or fewer"
    assert lines[2] == f"tokens a text, [CLS] and [SEP] included: {said}"
    assert lines[3] == f"{num_cut} of 200 texts ({num_cut / 200:.1%}) are longer than 4 tokens and cut"
    texts = prepare(recipe, source=source).texts.values()
    assert sum(each.report.num_cut for each in texts) == num_cut
    wide = inspect_table(labelled(checkpoint=checkpoint, max_length=5), source=source)
    assert "no text is longer than 5 tokens" in wide.reading
    twice = source.append_column("second", source.column("text"))
    pairs = inspect_table(labelled(checkpoint=checkpoint, pair="second"), source=twice)
    assert any(line.startswith("tokens a text, [CLS] and [SEP] included: 5 to 9,") for line in pairs.reading)
    assert not any("reads at most" in fault for fault in pairs.faults)
    beyond = inspect_table(labelled(checkpoint=checkpoint, max_length=1000), source=source)
    assert any(fault.endswith("tokens: with max_length=1000 train stops there") for fault in beyond.faults)
    with pytest.raises(CheckpointError, match="nowhere"):
        inspect_table(labelled(checkpoint=str(tmp_path / "nowhere")), source=source)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": [None, "a", " "] + ["b"] * 197}, "error: 1 missing cell in 'text' (the first in row 1): train"),
        ({"text": ["a", "a", " "] + ["b"] * 197}, "warning: 1 empty cell in 'text' (the first in row 3): there"),
        ({"verdict": ["x", None, None] + ["y"] * 197}, "error: 2 missing cells in 'verdict' (the first in row 2)"),
        ({"verdict": [0.3] * ROWS}, "error: reviews.parquet, row 1, column 'verdict': the label 0.3 is no"),
        ({"verdict": [float("nan"), None] + [1.0, 2.0] * 99}, "error: 2 missing cells in 'verdict' (the first in"),
        ({"verdict": ["x"] * ROWS}, "error: reviews.parquet, column 'verdict': only the label ['x'] occurs"),
        (
            {"verdict": ["", "x"] * 100},
            "warning: 100 empty cells in 'verdict' (the first in row 1): empty is a label",
        ),
        (
            {"verdict": [{"a": row % 2} for row in range(ROWS)]},
            "error: reviews.parquet, column 'verdict': the column is",
        ),
        ({"verdict": [f"label {row}" for row in range(ROWS)]}, "warning: hardly a label occurs twice"),
    ],
)
def test_what_is_to_be_mended_is_counted(columns: dict[str, Any], words: str) -> None:
    faults = inspected(**columns).faults
    assert [fault for fault in faults if fault.startswith(words)], faults


def test_long_targets_are_counted_too(checkpoint: str) -> None:
    task = TextToText(checkpoint=checkpoint, text="verdict", target="text", max_length=4)
    found = inspect_table(Recipe(data="reviews.parquet", task=task), source=table())
    assert "no text is longer than 4 tokens" in found.reading
    assert "50 of 200 targets (25.0%) are longer than 4 tokens and cut" in found.reading


def test_truth_values_are_labels_and_tags() -> None:
    found = inspected(verdict=[row % 5 == 0 for row in range(ROWS)])
    assert found.reading[2] == "2 labels: false (80.0%), true (20.0%)"
    assert found.faults == ()
    words = {"text": [["a", "b"]] * ROWS, "verdict": [[True, row % 2 == 0] for row in range(ROWS)]}
    assert inspected(**words).reading[2] == "2 tags of 400 words: true (75.0%), false (25.0%)"


@pytest.mark.parametrize(
    "values",
    [
        (datetime(2020, 1, 2), datetime(2020, 1, 1, 5)),
        (datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)),
        (Decimal("0.00"), Decimal("1.50")),
    ],
)
def test_labels_of_every_kind_are_counted_under_their_names(values: tuple[Any, Any]) -> None:
    verdicts = [values[row % 5 == 0] for row in range(ROWS)]
    (line,) = inspected(verdict=verdicts).reading[2:]
    assert line.startswith("2 labels: ")
    assert sorted(re.findall(r"\((.*?)%\)", line)) == ["20.0", "80.0"]


def test_a_label_that_training_lacks_is_named() -> None:
    test = int(make_split(RECIPE, table()).rows("test")[0])
    verdicts = ["so-so" if row == test else "good" if row % 2 else "bad" for row in range(ROWS)]
    # The split is by row and does not depend on what is in the columns.
    assert int(make_split(RECIPE, table(verdict=verdicts)).rows("test")[0]) == test
    assert (
        "warning: no row of the training part has the label so-so (4.8% of the test part): it cannot be learned"
        in inspected(verdict=verdicts).faults
    )


@pytest.mark.parametrize(
    ("values", "ordinal", "words"),
    [
        ([1, 2, 10], True, None),
        ([1, 2, 10], False, None),  # classes are no worse, see docs/decisions/026
        ([1, 1.5, 2], False, None),
        ([1, 1.4, 2], False, "or is_ordinal where they are grades of one scale"),
        ([1, 1.5, 2], True, None),
        (["1", "2", "10"], True, None),
        (
            ["low", "mid", "top"],
            True,
            "the labels low, mid, top are no numbers, and as grades of one scale they need an order",
        ),
        (["low", "mid", "top"], False, None),
        (["1", "01", "2"], True, "the labels '01' and '1' are one number, and two grades of a scale"),
    ],
)
def test_grades_need_an_order(values: list[Any], ordinal: bool, words: str | None) -> None:
    found = inspected(labelled(is_ordinal=ordinal), verdict=[values[row % 3] for row in range(ROWS)])
    said = [line for line in (*found.reading[2:], *found.faults) if "ordinal" in line]
    assert [words in line for line in said] == ([True] if words else [])


def test_words_are_listed_in_their_order() -> None:
    values = ["good", "bad", "fair", "good"]
    task = labelled(order=("bad", "fair", "good", "best"))
    found = inspected(task, verdict=[values[row % 4] for row in range(ROWS)])
    expected = "4 grades, the lowest first: bad (25.0%), fair (25.0%), good (50.0%), best (0.0%)"
    assert found.reading[2] == expected
    assert [fault for fault in found.faults if "best" in fault] == [
        "warning: no row of the training part has the label best: it cannot be learned"
    ]
    found = inspected(labelled(order=("bad", "good")), verdict=[values[row % 4] for row in range(ROWS)])
    assert any(f.startswith("error: ") and "row 3" in f and "'fair' is not in the order" in f for f in found.faults)


def test_grades_are_listed_by_size() -> None:
    found = inspected(verdict=[[10, 2, 10, 1][row % 4] for row in range(ROWS)])
    assert found.reading[2] == "3 labels: 1 (25.0%), 2 (25.0%), 10 (50.0%)"


def test_tags_and_entities_are_counted() -> None:
    words = [["Ada", "Lovelace", "wrote"]] * (ROWS - 1) + [["on", "time"]]
    tags = [["B-PER", "I-PER", "O"]] * (ROWS - 1) + [["O", "B-DATE"]]
    found = inspected(text=words, verdict=tags)
    assert found.reading[1].startswith("words a text: 2 to 3")
    assert found.reading[2].startswith("4 tags of 599 words: ")
    assert "B-PER (33.2%)" in found.reading[2]
    assert found.reading[3] == "200 entities: PER 199, DATE 1"
    short = [["B-PER", "I-PER", "O"]] * (ROWS - 1) + [["O"]]
    faults = inspected(text=words, verdict=short).faults
    assert "error: 1 row with another number of tags than words (the first in row 200): train stops there" in faults
    with pytest.raises(DataError, match=r"column 'verdict'.*Tags are lists, a tag a word"):
        inspected(verdict=tags)


def test_hidden_words_need_no_label() -> None:
    found = inspect_table(replace(RECIPE, task=MaskedText(checkpoint="x")), source=table(), has_tokens=False)
    assert found.reading[-1] == "no --label: hidden words are learned (masked language model)"
    assert found.schema is not None
    assert found.schema.names == ("verdict", "sex")


def test_leaks_are_looked_for_among_the_columns_of_the_context() -> None:
    copy = ["+" if row % 5 == 0 else "-" for row in range(ROWS)]
    fault, left_out = inspected(copy=copy).faults
    assert fault.startswith("leak: the column 'copy' tells the label")
    assert left_out.startswith("left out of the context as leaks: 'copy'")
    assert inspected(replace(RECIPE, exclude=("copy",)), copy=copy).faults == ()
    ignored = inspect_table(RECIPE, overrides={"copy": "ignore"}, source=table(copy=copy), has_tokens=False)
    assert ignored.faults == ()
    same = inspected(text=["always the same"] * ROWS).faults
    assert [fault.partition(":")[0] for fault in same] == ["leak", "leak"]
    assert all("word for word" in fault for fault in same)


def test_a_table_too_small_to_split_is_inspected_whole() -> None:
    found = inspect_table(RECIPE, source=table().slice(0, 1), has_tokens=False)
    assert "cannot be split" in found.basis[0]
    assert found.num_rows == 1


def test_what_cannot_be_inspected() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'verdict'"):
        inspected(labelled(label="verdcit"))
    with pytest.raises(DataError, match=r"reviews.parquet, column 'text': the column is of type int64"):
        inspected(text=list(range(ROWS)))
    row = int(make_split(RECIPE, table()).rows("train")[-1])
    ages = np.arange(float(ROWS))
    ages[row] = np.inf
    with pytest.raises(DataError, match=rf"reviews.parquet, row {row + 1}, column 'age': inf"):
        inspected(age=ages)


@pytest.mark.parametrize("read", [prepare, lambda recipe, source: inspect_table(recipe, source=source)])
def test_a_faulty_value_is_named_by_the_row_of_the_file(read: Any, checkpoint: str) -> None:
    recipe = labelled(checkpoint=checkpoint)
    row = int(make_split(recipe, table()).rows("train")[-1])
    ages = np.arange(float(ROWS))
    ages[row] = np.inf
    with pytest.raises(DataError, match=rf"reviews.parquet, row {row + 1}, column 'age': inf"):
        read(recipe, source=table(age=ages))


def test_grades_are_read_with_the_decimal_mark(tmp_path: Path) -> None:
    path = tmp_path / "stars.csv"
    rows = [f"so it goes {row};{('1,5', '2,0', '2', '3,50')[row % 4]}" for row in range(200)]
    path.write_text("\n".join(["text;stars", *rows]) + "\n", encoding="utf-8")
    task = Classification(checkpoint="x", label="stars", is_ordinal=True)
    recipe = Recipe(data=str(path), task=task, reading=ReadSettings(decimal=","))
    found = inspect_table(recipe, has_tokens=False)
    assert any(line.startswith("3 grades, the lowest first: 1.5 (25.0%), 2 (50.0%), 3.5") for line in found.reading)
    named = replace(recipe, task=replace(task, is_ordinal=False))
    told = " ".join(inspect_table(named, has_tokens=False).reading)
    assert "4 labels: " in told
