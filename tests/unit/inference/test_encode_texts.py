"""A table with text to batches: the tokenizer's own encoding, cut as asked and counted; labels are never guessed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.inference import encode_texts
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.testing import miniature_text_processor

TEXTS = ["word0 word1 word2 word3 word4", "word5", "nobody knows word6", "word1 word1 word1 word1 word1 word1"]
PAIRS = ["word7 word8", "word9 word9 word9 word9 word9 word9 word9", "word2", "word3 word3 word3 word3 word3 word3"]
TABLE = pa.table(
    {"text": TEXTS, "pair": PAIRS, "stars": [5, 1, 5, 3], "price": [0.5, 1.5, 2.0, 3.0], "sex": ["f", "m", None, "x"]}
)
WORDS = pa.table(
    {
        "words": [["word1", "word2word", "word3"], ["word4"]],
        "tags": [["B-x", "I-x", "O"], ["O"]],
        "sex": ["f", "m"],
    }
)


@pytest.fixture
def processor() -> ContextualBertProcessor:
    return miniature_text_processor()


@pytest.mark.parametrize("max_length", [None, 4, 5])
def test_it_is_what_the_tokenizer_gives(processor: ContextualBertProcessor, max_length: int | None) -> None:
    encoded = encode_texts(TABLE, processor, text="text", label="stars", max_length=max_length)
    expected = processor(text=TEXTS, max_length=max_length, context=[{"sex": "f"}, {"sex": "m"}, {}, {"sex": "x"}])
    batch = encoded.dataset.__getitems__(range(4)).inputs()
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])
    assert torch.equal(batch["context"]["sex"], expected["context"]["sex"])
    assert batch["labels"].tolist() == [2, 0, 2, 1] and encoded.labels == ("1", "3", "5")
    is_cut = [max_length is not None and len(processor(text=text)["input_ids"][0]) > max_length for text in TEXTS]
    assert encoded.is_cut.tolist() == is_cut
    assert encoded.report.num_cut == sum(is_cut) == {None: 0, 4: 3, 5: 2}[max_length]
    assert encoded.report.unknown == {"sex": {"x": 1}}
    assert ("cut to" if encoded.report.num_cut else "none of them cut") in encoded.report.lines()[0]
    assert "never seen in training" in encoded.report.lines()[1]


@pytest.mark.parametrize("max_length", [6, 8, 9, 12, 40])
def test_pairs_are_cut_as_the_tokenizer_cuts_them(minilm: Path, max_length: int) -> None:
    schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
    processor = ContextualBertProcessor.from_checkpoint(minilm, schema)
    table = pa.table({"text": ["a b c d e f g h", "a", "a b c", "a b c d e f"], "pair": PAIRS, "sex": ["f"] * 4})
    encoded = encode_texts(table, processor, text="text", pair="pair", max_length=max_length)
    expected = processor(text=table["text"].to_pylist(), text_pair=PAIRS, max_length=max_length)
    batch = encoded.dataset.__getitems__(range(4)).inputs()
    lengths = expected["attention_mask"].sum(dim=1)
    assert encoded.dataset.sizes.tolist() == lengths.tolist()
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["token_type_ids"], expected["token_type_ids"])
    whole = processor(text=table["text"].to_pylist(), text_pair=PAIRS)["attention_mask"].sum(dim=1)
    assert encoded.is_cut.tolist() == (whole > lengths).tolist()


def test_the_head_and_the_tail_of_a_long_text(processor: ContextualBertProcessor) -> None:
    table = pa.table({"text": [" ".join(f"word{number}" for number in range(10)), "word1 word2"], "sex": ["f", "m"]})
    encoded = encode_texts(table, processor, text="text", max_length=10, truncation="head_tail")
    assert processor.tokenizer.decode(encoded.dataset[0]["input_ids"]).split() == [
        "[CLS]", "word0", "word1", *(f"word{number}" for number in range(4, 10)), "[SEP]",
    ]  # fmt: skip
    assert encoded.dataset.sizes.tolist() == [10, 4] and encoded.report.num_cut == 1


def test_words_behind_the_cut_are_counted(processor: ContextualBertProcessor) -> None:
    words = [["word1"] * 6, ["word2"] * 3, []]
    table = pa.table({"words": words, "tags": [["B-x"] * len(row) for row in words], "sex": ["f", "m", "f"]})
    encoded = encode_texts(table, processor, text="words", label="tags", max_length=6)
    assert (encoded.report.num_cut, encoded.report.num_unread_words) == (1, 2)
    assert encoded.report.lines() == [
        "3 texts, 1 of them cut to 6 tokens, 2 words behind the cut",
        "1 empty text: nothing to read there",
    ]
    assert encoded.report.fault == ""
    assert encode_texts(table.slice(2), processor, text="words").report.fault == "each text is empty"
    assert int((encoded.dataset.labels >= 0).sum()) == 9 - 2
    whole = encode_texts(table, processor, text="words", label="tags")
    assert whole.report.num_unread_words == 0
    assert encode_texts(table.slice(0, 0), processor, text="words").report.num_unread_words == 0


def test_the_first_piece_of_a_word_has_its_tag(minilm: Path) -> None:
    schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
    processor = ContextualBertProcessor.from_checkpoint(minilm, schema)
    words = [["Dethklok", "tuned", "down", "\u200b"], ["Berlin"]]
    table = pa.table({"words": words, "tags": [["B-x", "O", "O", "O"], ["B-y"]], "sex": ["f", "m"]})
    encoded = encode_texts(table, processor, text="words", label="tags")
    tokenized = processor.tokenizer([row[:3] for row in words], is_split_into_words=True)
    first = encoded.dataset[0]
    assert encoded.labels == ("B-x", "B-y", "O")
    ids = first["input_ids"].tolist()
    assert ids[:-2] == tokenized["input_ids"][0][:-1] and ids[-2:] == [100, 102]  # the lost word is [UNK]
    starts = [place for place, word in enumerate(tokenized.word_ids(0)) if word == 0]
    assert len(starts) > 1
    assert first["labels"][starts].tolist() == [0] + [-100] * (len(starts) - 1)
    assert first["labels"][[0, -1]].tolist() == [-100, -100]
    word_numbers = encoded.word_starts[: len(ids)].tolist()
    assert [word for word in word_numbers if word >= 0] == [0, 1, 2, 3]
    assert encoded.word_starts[len(ids) :].tolist() == [-1, 4, -1]
    batch = encoded.dataset.__getitems__([0, 1]).inputs()
    assert batch["labels"][1].tolist() == [-100, 1, -100] + [-100] * (len(ids) - 3)


@pytest.mark.parametrize(
    ("labels", "column", "ids"),
    [
        (["1.0", "2.0", "beta"], [1.0, 2.0, 1.0], [0, 1, 0]),
        (["1", "2"], ["1.0", "2.00", "2"], [0, 1, 1]),
        (["FALSE", "TRUE", "n/a"], [True, False, True], [1, 0, 1]),
        (["false", "true"], ["TRUE", "False", "true"], [1, 0, 1]),
    ],
)
def test_a_label_is_the_same_whatever_else_its_file_has(
    processor: ContextualBertProcessor, labels: list[str], column: list[Any], ids: list[int]
) -> None:
    table = pa.table({"text": TEXTS[:3], "words": [["word1"]] * 3, "tags": [[label] for label in column]})
    table = table.append_column("label", pa.array(column)).append_column("sex", pa.array(["f"] * 3))
    encoded = encode_texts(table, processor, text="text", label="label", labels=labels)
    assert encoded.dataset.labels is not None and encoded.dataset.labels.tolist() == ids
    tagged = encode_texts(table, processor, text="words", label="tags", labels=labels).dataset.labels
    assert tagged is not None and tagged[tagged >= 0].tolist() == ids


def test_a_label_of_two_readings_is_not_guessed(processor: ContextualBertProcessor) -> None:
    table = pa.table({"text": TEXTS[:2], "label": ["1", "1.00"], "sex": ["f", "m"]})
    with pytest.raises(DataError, match=r"row 2, column 'label': the label '1\.00' is not among '1', '1\.0'"):
        encode_texts(table, processor, text="text", label="label", labels=["1", "1.0"])


def test_numbers_are_numbers(processor: ContextualBertProcessor) -> None:
    encoded = encode_texts(TABLE, processor, text="text", label="price")
    assert encoded.labels == () and encoded.dataset[3]["labels"].item() == 3.0
    whole = encode_texts(TABLE, processor, text="text", label="stars", labels=())
    assert whole.dataset[0]["labels"].dtype == torch.float32 and whole.labels == ()
    # Whole numbers that a missing value has made fractions are the classes that they were.
    fractions = TABLE.append_column("grade", TABLE["stars"].cast(pa.float64()))
    classes = encode_texts(fractions, processor, text="text", label="grade", labels=("1", "3", "5"))
    assert classes.dataset.labels is not None
    assert classes.dataset.labels.tolist() == [2, 0, 2, 1]


def test_rows_one_by_one_make_the_same_batch(processor: ContextualBertProcessor) -> None:
    for table, columns in (
        (TABLE, {"text": "text", "label": "stars"}),
        (TABLE, {"text": "text", "pair": "pair"}),
        (WORDS, {"text": "words", "label": "tags"}),
    ):
        dataset = encode_texts(table, processor, **columns).dataset
        whole = next(iter(DataLoader(dataset, batch_size=4, collate_fn=dataset.collate_fn)))
        single = dataset.collate_fn([dataset[row] for row in range(len(dataset))])
        assert single.keys() == whole.keys()
        assert all(torch.equal(single[name], whole[name]) for name in whole if name != "context")
        assert torch.equal(single["context"]["sex"], whole["context"]["sex"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": "txt"}, "no column 'txt'.*Did you mean 'text'"),
        ({"text": "stars"}, "column 'stars': the column is of type int64. Give a column of text"),
        ({"text": "text", "label": "stars", "labels": ["1", "5"]}, "row 4, column 'stars': the label 3 is not among"),
        ({"text": "text", "label": "words"}, "Tags need a text column of lists of words"),
        ({"text": "words", "label": "stars"}, "column 'stars': the column is of type int64. Give lists"),
        ({"text": "words", "label": "short"}, "row 2, column 'short': 1 tags for 2 words. Give one tag a word"),
        ({"text": "hole"}, "row 3, column 'hole': the cell is missing"),
        ({"text": "words", "label": "torn"}, "row 2, column 'torn': tag 1 of 2 is missing, counted from 0. Fill it in"),
        ({"text": "gap", "label": "tags"}, "row 3, column 'gap': word 1 of 3 is missing, counted from 0. Fill it in"),
        ({"text": "numbers", "label": "tags"}, "column 'numbers': the column is of type list<.*int64>. Give a column"),
        ({"text": "text", "label": "sex", "labels": ()}, "column 'sex': .* missing"),
        ({"text": "text", "label": "pair", "labels": ()}, "column 'pair': the column is of type string. Give numbers"),
        ({"text": "text", "label": "price", "labels": ["0.5"]}, "row 2, column 'price': the label 1.5 is not among"),
        ({"text": "text", "label": "lost"}, "row 2, column 'lost': the cell is missing"),
    ],
)  # fmt: skip
def test_faults_are_named(columns: dict[str, Any], message: str, processor: ContextualBertProcessor) -> None:
    more = {
        "words": [["a"], ["b", "c"], ["d"], ["e"]],
        "short": [["O"], ["O"], ["O"], ["O"]],
        "torn": [["O"], ["O", None], ["O"], ["O"]],
        "hole": ["a", "b", None, "d"],
        "lost": ["a", None, "b", "c"],
        "gap": [["a"], [], ["d", None, "e"], ["f", None]],
        "numbers": [[1], [2], [3], [4]],
        "tags": [["O"], [], ["O", "O", "O"], ["O", "O"]],
    }
    table = pa.table({**TABLE.to_pydict(), **more})
    with pytest.raises((DataError, UnknownNameError), match=message):
        encode_texts(table, processor, **columns)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 2}, "max_length=2 leaves no room"),
        ({"max_length": 4, "pair": "text"}, "max_length=4 leaves no room for two texts"),
        ({"max_length": 8.0}, "max_length=8.0 is not allowed. Give a whole number, 1 or more"),
        ({"labels": "xy"}, "labels=.xy. is not allowed. Give the name of each label once, in a list"),
        ({"labels": ("x", "x")}, "Give the name of each label once"),
        ({"max_length": 17}, "max_length=17 is not allowed: this tokenizer allows 16 tokens"),
        ({"truncation": "tail"}, "truncation='tail' is not allowed. Give 'head' or 'head_tail'"),
        ({"pair": "pair", "truncation": "head_tail"}, "Give no words and no 'head_tail'"),
    ],
)
def test_settings_that_do_not_go_together(
    settings: dict[str, Any], message: str, processor: ContextualBertProcessor
) -> None:
    tokenizer: Any = processor.tokenizer
    tokenizer.model_max_length = 16
    with pytest.raises(ConfigurationError, match=message):
        encode_texts(TABLE, processor, text="text", **settings)


def test_parts_that_do_not_fit(processor: ContextualBertProcessor) -> None:
    from contextual_bert.data import SequenceDataset

    ids = torch.tensor([2, 5, 3])
    with pytest.raises(ConfigurationError, match="offsets must go from 0 to the number of ids, 3"):
        SequenceDataset(ids, torch.tensor([0, 2]), context={})
    with pytest.raises(ConfigurationError, match="'sex' has 2 rows for 1 sequences"):
        SequenceDataset(ids, torch.tensor([0, 3]), context={"sex": torch.tensor([1, 2])})
    dataset = SequenceDataset(ids, torch.tensor([0, 3]), context={})
    with pytest.raises(IndexError, match="sequence 1 of 1"):
        dataset[1]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.bool_()])
def test_a_text_may_have_several_labels(kind: pa.DataType, processor: ContextualBertProcessor) -> None:
    rows = [[1, 0, 1], [0, 0, 0]]
    table = pa.table({"text": TEXTS[:2], "sex": ["f", "m"], "topics": pa.array(rows, pa.list_(pa.int64()))})
    table = table.set_column(2, "topics", table.column("topics").cast(pa.list_(kind)))
    encoded = encode_texts(table, processor, text="text", label="topics", labels=("art", "war", "sea"))
    assert encoded.dataset.labels is not None
    assert (encoded.dataset.labels.tolist(), encoded.labels) == (rows, ("art", "war", "sea"))
    assert encode_texts(table, processor, text="text", label="topics").labels == ()


@pytest.mark.parametrize("cell", [[1, 0], [1, 2, 0], [1, None, 0]])
def test_a_row_that_says_not_which_labels_it_has_is_named(cell: list[Any], processor: ContextualBertProcessor) -> None:
    table = pa.table({"text": TEXTS[:2], "sex": ["f", "m"], "topics": [[1, 0, 1], cell]})
    with pytest.raises(DataError, match=r"row 2, column 'topics'.*says not which labels.*Give 3 numbers"):
        encode_texts(table, processor, text="text", label="topics")


def test_a_label_is_one_however_it_is_spelt(processor: ContextualBertProcessor) -> None:
    for column, labels in (([5, 1], [1, 5]), ([5.0, 1.0], ("1", "5")), (["5", "1"], (1.0, 5.0))):
        table = pa.table({"text": TEXTS[:2], "sex": ["f", "m"], "stars": column})
        encoded = encode_texts(table, processor, text="text", label="stars", labels=labels)  # pyright: ignore
        assert encoded.dataset.labels is not None
        assert (encoded.dataset.labels.tolist(), encoded.labels) == ([1, 0], ("1", "5"))


def test_other_tables_are_read(processor: ContextualBertProcessor) -> None:
    expected = encode_texts(TABLE, processor, text="text", label="stars").dataset
    categories = TABLE.set_column(0, "text", TABLE.column("text").dictionary_encode())
    for table in (categories, Dataset.from_dict(TABLE.to_pydict()), TABLE.to_pandas()):
        found = encode_texts(table, processor, text="text", label="stars").dataset
        assert torch.equal(found.input_ids, expected.input_ids)
    with pytest.raises(DataError, match="a list is not a table"):
        encode_texts(TABLE.to_pylist(), processor, text="text")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "printed", [str, lambda cell: str(cell).replace("'", '"'), lambda cell: " ".join(str(cell).split(","))]
)
def test_words_and_tags_are_read_from_printed_lists(printed) -> None:
    lists = {"words": [["word1", "word2"], ["word3"]], "tags": [["B", "O"], ["O"]], "sex": ["f", "m"]}
    cells = {**lists, **{name: [printed(cell) for cell in lists[name]] for name in ("words", "tags")}}
    processor = miniature_text_processor()
    expected = encode_texts(pa.table(lists), processor, text="words", label="tags")
    found = encode_texts(pa.table(cells), processor, text="words", label="tags")
    assert found.labels == expected.labels == ("B", "O")
    assert torch.equal(found.dataset.input_ids, expected.dataset.input_ids)
    texts = pa.table({"words": ["['word1']", "['word2']"], "tags": ["a", "b"], "sex": ["f", "m"]})
    assert (
        encode_texts(texts, processor, text="words", label="tags").word_starts is None
    )  # texts, whatever they look like
