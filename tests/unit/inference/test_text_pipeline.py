"""Texts and contexts in, labels out: what the model says, in the query's own words, faults named by row."""

import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import Categorical, ContextSchema, Numerical
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, SchemaError, UnknownNameError
from contextual_bert.inference import CompletionPipeline, TextPipeline
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import add_lora

PROCESSOR = miniature_text_processor()
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
LAYOUT = {"has_position_embeddings": True, "type_vocab_size": 2, "vocab_size": 23}
QUERIES = [
    {"text": "word1 word2 word3", "context": {"sex": "f"}},
    {"text": "word4", "context": {"sex": "x"}},
    {"text": "word5 strange"},
]


def pipeline_of(
    kind: Any = ContextualBertForSequenceClassification, conditioning: str = "global_state", **fields: Any
) -> TextPipeline:
    fields = {"id2label": {0: "low", 1: "middle", 2: "high"}, **fields}
    config = ContextualBertConfig.from_schema(PROCESSOR.schema, conditioning=conditioning, **LAYOUT, **SIZES, **fields)
    return TextPipeline(drawn_anew(kind(config)), PROCESSOR)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
@pytest.mark.parametrize("is_ordinal", [False, True])
def test_labels_are_what_the_model_says(batch_size: int, is_ordinal: bool) -> None:
    pipeline = pipeline_of(is_ordinal=is_ordinal)
    found: Any = pipeline(QUERIES, batch_size=batch_size)
    for query, answer in zip(QUERIES, found, strict=True):
        inputs = PROCESSOR(text=query["text"], context=[query.get("context", {})])
        expected = pipeline.model(**inputs).logits.softmax(dim=-1)[0].tolist()
        assert list(answer["probabilities"]) == ["low", "middle", "high"]
        assert list(answer["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
        assert answer["label"] == ["low", "middle", "high"][expected.index(max(expected))]
    assert [answer["unknown_context"] for answer in found] == [{}, {"sex": ["x"]}, {}]
    single: Any = pipeline(QUERIES[0])
    assert single["label"] == found[0]["label"]
    assert single["probabilities"] == pytest.approx(found[0]["probabilities"], abs=1e-5)


def test_pairs() -> None:
    pipeline = pipeline_of()
    query = {"text": "word1 word2", "pair": "word3", "context": {"sex": "m"}}
    answer: Any = pipeline(query)
    ids = torch.tensor([[3, 6, 7, 4, 8, 4]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1]])
    context = PROCESSOR(text="word1", context=[{"sex": "m"}])["context"]
    expected = pipeline.model(ids, context=context, token_type_ids=segments).logits.softmax(dim=-1)[0].tolist()
    assert list(answer["probabilities"].values()) == pytest.approx(expected, abs=1e-5)


def test_numbers_and_several_labels() -> None:
    number: Any = pipeline_of(id2label={0: "value"})(QUERIES[0])
    assert isinstance(number["label"], float) and number["probabilities"] == {}
    several: Any = pipeline_of(problem_type="multi_label_classification")(QUERIES[0])
    assert several["label"] == [name for name, share in several["probabilities"].items() if share > 0.5]


def test_words_get_tags() -> None:
    pipeline = pipeline_of(ContextualBertForTokenClassification)
    words = [["word1", "odd", "word3"], ["word4"]]
    found: Any = pipeline([{"text": row, "context": {"sex": "f"}} for row in words])
    assert [len(answer["label"]) for answer in found] == [3, 1]
    inputs = PROCESSOR(text="word1 odd word3", context=[{"sex": "f"}])
    expected = pipeline.model(**inputs).logits[0, 1:-1].argmax(dim=-1).tolist()
    assert found[0]["label"] == [["low", "middle", "high"][index] for index in expected]
    assert all(1 / 3 <= share <= 1 for share in found[0]["probabilities"])
    split: Any = pipeline({"text": "word1 odd word3", "context": {"sex": "f"}})
    assert split["label"] == found[0]["label"]


@pytest.mark.parametrize(
    ("truncation", "unread"), [("head", "its end was not read"), ("head_tail", "its middle was not")]
)
def test_what_was_not_read_is_said(truncation: Any, unread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESSOR.tokenizer, "model_max_length", 4)
    settings: Any = {"processor": PROCESSOR, "truncation": truncation}
    pipeline = TextPipeline(pipeline_of().model, **settings)
    long: Any = pipeline([{"text": "word1 word2 word3"}, {"text": "word1 word2"}, {"text": "word1"}])
    assert [len(answer["notes"]) for answer in long] == [1, 0, 0]  # the second one just fits
    assert unread in long[0]["notes"][0]
    tags: Any = TextPipeline(pipeline_of(ContextualBertForTokenClassification).model, **settings)(
        {"text": "word1 word2 word3"}
    )
    assert [tag is None for tag in tags["label"]] == (
        [False, False, True] if truncation == "head" else [False, True, False]
    )
    assert [share is None for share in tags["probabilities"]] == [tag is None for tag in tags["label"]]


@pytest.mark.parametrize("text", ["Sprache", "\u200b", " "])
def test_a_text_of_which_no_word_is_known_is_named(text: str) -> None:
    found: Any = pipeline_of()([{"text": "word1"}, {"text": text}, {"text": f"word1 {text}"}])
    told = ["The tokenizer knows no word of the text, so the answer says nothing of it."]
    assert [answer["notes"] for answer in found] == [[], told, []]


def test_what_was_not_read_of_a_pair_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESSOR.tokenizer, "model_max_length", 6)
    pairs: Any = [{"text": "word1", "pair": "word2 word3"}, {"text": "word1", "pair": "word2 word3 word4"}]
    found: Any = pipeline_of()(pairs)
    assert [answer["notes"] for answer in found] == [
        [],
        ["The text is longer than the model reads: an end of it or of its pair was not read."],
    ]


def test_a_text_is_cut_to_the_positions_that_the_model_has() -> None:
    found: Any = pipeline_of(max_position_embeddings=4)([{"text": "word1 word2 word3"}, {"text": "word1 word2"}])
    assert [len(answer["notes"]) for answer in found] == [1, 0]


TABLE = pa.table(
    {
        "text": ["word1", "word2 word3 word4 word5", "", "word1 strange", "word6 word7 word8"],
        "pair": ["word9", "word9 word1", "word2", "word4", ""],
        "sex": ["f", None, "m", "x", "m"],
        "number": [1, 2, 3, 4, 5],
    }
)


def expected_of(pipeline: TextPipeline, row: dict[str, Any]) -> torch.Tensor:
    """The logits of one row by itself."""
    context = {} if row["sex"] is None else {"sex": row["sex"]}
    with torch.no_grad():
        return pipeline.model(**PROCESSOR(text=row["text"], context=[context])).logits[0]


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_table_keeps_its_order(batch_size: int) -> None:
    pipeline, seen = pipeline_of(), list[tuple[int, int]]()
    found, report = pipeline.label_table(
        TABLE, batch_size=batch_size, progress=lambda done, total: seen.append((done, total))
    )
    names = ["low", "middle", "high"]
    columns = ["predicted_label", "probability", *(f"probability_{name}" for name in names)]
    assert found.column_names == [*TABLE.column_names, *columns] and pipeline.columns.names == columns
    assert found.select(TABLE.column_names) == TABLE
    for row in found.to_pylist():
        shares = expected_of(pipeline, row).softmax(dim=-1).tolist()
        assert [row[f"probability_{name}"] for name in names] == pytest.approx(shares, abs=1e-5)
        assert row["predicted_label"] == names[shares.index(max(shares))]
        assert row["probability"] == pytest.approx(max(shares), abs=1e-5)
    assert seen == [(min(done, 5), 5) for done in range(batch_size, 5 + batch_size, batch_size)]
    assert report.num_texts == 5 and report.num_cut == 0 and report.unknown == {"sex": {"x": 1}}


def test_a_table_of_pairs() -> None:
    pipeline = pipeline_of()
    for row in pipeline.label_table(TABLE.slice(0, 4), pair="pair", batch_size=3).table.to_pylist():
        inputs = PROCESSOR(text=row["text"], text_pair=row["pair"], context=[{"sex": row["sex"]} if row["sex"] else {}])
        segments = torch.zeros_like(inputs["input_ids"])
        segments[0, 2 + len(row["text"].split()) :] = 1
        inputs["token_type_ids"] = segments
        shares = pipeline.model(**inputs).logits[0].softmax(dim=-1)
        assert row["probability"] == pytest.approx(float(shares.detach().max()), abs=1e-5)


def test_a_table_of_numbers_and_one_of_several_labels() -> None:
    pipeline = pipeline_of(id2label={0: "value"})
    rows = pipeline.label_table(TABLE).table
    assert rows.column_names == [*TABLE.column_names, "predicted_label"]
    expected = [float(expected_of(pipeline, row)) for row in TABLE.to_pylist()]
    assert rows["predicted_label"].to_pylist() == pytest.approx(expected, abs=1e-5)
    numbers = pipeline_of(problem_type="regression").label_table(TABLE).table["predicted_label"].to_pylist()
    assert [len(each) for each in numbers] == [3] * 5
    pipeline = pipeline_of(problem_type="multi_label_classification")
    for row in pipeline.label_table(TABLE, batch_size=2).table.to_pylist():
        shares = dict(zip(["low", "middle", "high"], expected_of(pipeline, row).sigmoid().tolist(), strict=True))
        given = [name for name, share in shares.items() if share > 0.5]
        assert row["predicted_label"] == given
        assert row["probability"] == pytest.approx([shares[name] for name in given], abs=1e-5)
        assert row["probability_high"] == pytest.approx(shares["high"], abs=1e-5)


@pytest.mark.parametrize("has_lists", [False, True])
def test_a_table_of_words(has_lists: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESSOR.tokenizer, "model_max_length", 5)
    pipeline = pipeline_of(ContextualBertForTokenClassification)
    words = [text.split() for text in TABLE["text"].to_pylist()]
    texts = pa.array(words) if has_lists else pa.array([f"  {text} " for text in TABLE["text"].to_pylist()])
    found, report = pipeline.label_table(TABLE.set_column(0, "text", texts), batch_size=2)
    assert found.column_names == [*TABLE.column_names, "predicted_label", "probability"]
    assert found["text"].to_pylist() == texts.to_pylist() and report.num_cut == 1
    for row, given in zip(found.to_pylist(), words, strict=True):
        best = expected_of(pipeline, {**row, "text": " ".join(given[:3])})[1:-1].softmax(dim=-1).max(dim=-1)
        unread = [None] * (len(given) - 3)
        assert row["predicted_label"] == [["low", "middle", "high"][tag] for tag in best.indices.tolist()] + unread
        assert row["probability"][:3] == pytest.approx(best.values.tolist(), abs=1e-5)
        assert row["probability"][3:] == unread


def test_a_table_without_rows() -> None:
    for kind in (ContextualBertForSequenceClassification, ContextualBertForTokenClassification):
        found = pipeline_of(kind).label_table(TABLE.slice(0, 0)).table
        assert found.num_rows == 0 and "predicted_label" in found.column_names
    assert pipeline_of()([]) == []


def test_a_model_without_a_context_needs_no_columns() -> None:
    pipeline = pipeline_of(conditioning="none")
    assert pipeline.label_table(TABLE.drop_columns(["sex"])).table.num_rows == 5
    with pytest.raises(SchemaError, match=r"no column of the context \('sex'\)"):
        pipeline_of().label_table(TABLE.drop_columns(["sex"]))


def test_a_feature_that_a_table_lacks_is_missing_as_in_a_query() -> None:
    schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")), Numerical(name="age", edges=(30.0,))))
    processor = ContextualBertProcessor(ContextFeatureExtractor(schema.to_dict()), PROCESSOR.tokenizer)
    config = ContextualBertConfig.from_schema(
        schema, conditioning="global_state", **LAYOUT, **SIZES, id2label={0: "low", 1: "high"}
    )
    pipeline = TextPipeline(drawn_anew(ContextualBertForSequenceClassification(config)), processor)
    table = pa.table({"text": ["word1 word2", "word3"], "sex": ["f", "m"]})
    found = pipeline.label_table(table)
    assert "lacks context columns, which are missing in each row: 'age'" in " ".join(found.report.lines())
    assert found.table.column_names[:3] == ["text", "sex", "predicted_label"]
    answers: Any = pipeline([{"text": row["text"], "context": {"sex": row["sex"]}} for row in table.to_pylist()])
    assert found.table["probability_low"].to_pylist() == pytest.approx(
        [answer["probabilities"]["low"] for answer in answers], abs=1e-6
    )


def test_a_silenced_feature_is_named_where_a_table_gives_it_and_not_where_it_lacks() -> None:
    both = (Categorical(name="sex", values=("f", "m")), Numerical(name="age", edges=(30.0,)))
    schema = ContextSchema(features=both).with_silenced(["age"])
    processor = ContextualBertProcessor(ContextFeatureExtractor(schema.to_dict()), PROCESSOR.tokenizer)
    config = ContextualBertConfig.from_schema(
        schema, conditioning="global_state", **LAYOUT, **SIZES, id2label={0: "low", 1: "high"}
    )
    pipeline = TextPipeline(drawn_anew(ContextualBertForSequenceClassification(config)), processor)
    table = pa.table({"text": ["word1 word2", "word3"], "sex": ["f", "m"], "age": [20, None]})
    given, lacking = pipeline.label_table(table), pipeline.label_table(table.drop_columns(["age"]))
    assert "context, not read: age. The training part did not show that it helps." in given.report.lines()
    assert "age" not in " ".join(lacking.report.lines())
    assert given.table["probability_low"].equals(lacking.table["probability_low"])
    answer: Any = pipeline({"text": "word3", "context": {"sex": "m", "age": 20}})
    assert "Not read: age. The training part did not show that it helps." in answer["notes"]
    with pytest.raises(SchemaError, match=r"no column of the context \('sex'\)"):
        pipeline.label_table(table.drop_columns(["sex"]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": "txt"}, "no column 'txt'.*Did you mean 'text'"),
        ({"pair": "pairs"}, "no column 'pairs'.*Did you mean 'pair'"),
        ({"text": "number"}, "column 'number': the column is of type int64. Give a column of text"),
        ({"text": "words"}, "column 'words': the column is of type list.*Give a column of text"),
        ({"text": "hole"}, "row 2, column 'hole': the cell is missing"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_faults_of_tables_are_named(columns: dict[str, Any], message: str) -> None:
    more = {"words": [["a"]] * 5, "hole": ["a", None, "b", "c", "d"]}
    with pytest.raises((DataError, UnknownNameError, ConfigurationError), match=message):
        pipeline_of().label_table(pa.table({**TABLE.to_pydict(), **more}), **columns)


@pytest.mark.parametrize("name", ["predicted_label", "probability", "probability_high"])
def test_no_column_is_replaced(name: str) -> None:
    with pytest.raises(DataError, match=f"column '{name}': the table has this column.*Rename it"):
        pipeline_of().label_table(TABLE.append_column(name, pa.array(["x"] * 5)))


def test_a_context_that_is_not_used_is_said() -> None:
    answer: Any = pipeline_of(conditioning="none")(QUERIES[0])
    assert "The context was not used" in answer["notes"][0]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"text": 3}, DataError, "query 2, text: 3 is no text"),
        ({"text": ""}, DataError, "query 2, text: '' is no text"),
        ({"text": ["word1"]}, DataError, "query 2, text.*is no text"),
        ({"txt": "word1"}, UnknownNameError, "query 2, txt: unknown key 'txt'. Did you mean 'text'"),
        ("word1", DataError, "query 2: 'word1' is not a query"),
        ({"text": "word1", "context": 5}, DataError, "query 2, context: 5 is not a record"),
        ({"text": "word1", "pair": "word2"}, DataError, "query 1, pair: None is no second text"),
        ({"text": "a\ud800b"}, DataError, r"query 2, text: .*ud800.*half of a character. Give both"),
        ({"text": "word1", "pair": "\udc00"}, DataError, "query 2, pair: .*half of a character"),
        ({"text": "word1", "context": {"sex": "\ud800"}}, DataError, "query 2, context.sex: .*half of a character"),
        ({"text": "word1", "context": {"sexx": "f"}}, UnknownNameError, "Did you mean 'sex'"),
    ],
)
def test_faults_are_named(query: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pipeline_of()([QUERIES[0], query])


@pytest.mark.parametrize("queries", ["word1", 7])
def test_what_is_no_query(queries: Any) -> None:
    with pytest.raises(DataError, match="neither a query nor a list"):
        pipeline_of()(queries)
    assert len(cast(Any, pipeline_of()(QUERIES, batch_size=np.int64(2)))) == 3  # pyright: ignore[reportArgumentType]
    for size in (0, 2.5, "3", True):
        with pytest.raises(ConfigurationError, match=f"batch_size={size!r} is not allowed. Give a whole number"):
            pipeline_of()(QUERIES, batch_size=size)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrap", [add_lora, lambda model: torch.compile(model, backend="eager")])
def test_a_model_with_low_rank_changes_or_compiled_labels_words_too(wrap: Any) -> None:
    plain = pipeline_of(ContextualBertForTokenClassification)
    wrapped = TextPipeline(wrap(copy.deepcopy(plain.model)), PROCESSOR)
    query = {"text": ["word1", "word2"], "context": {"sex": "m"}}
    assert cast(Any, wrapped(query))["label"] == cast(Any, plain(query))["label"]


@pytest.mark.parametrize("names", [{0: "a", 1: "a"}, {0: "a", 2: "b"}])
def test_a_config_whose_labels_cannot_be_told_apart_is_refused(names: dict[int, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"in the config of the model. Give each id from 0 on a name"):
        pipeline_of(id2label=names)


@pytest.mark.parametrize("kind", [ContextualBertForSequenceClassification, ContextualBertForTokenClassification])
def test_from_the_folder_it_was_saved_in(kind: Any, tmp_path: Path) -> None:
    pipeline = pipeline_of(kind)
    pipeline.model.save_pretrained(tmp_path)
    PROCESSOR.save_pretrained(tmp_path)
    query = {"text": "word1 word2", "context": {"sex": "m"}}
    assert TextPipeline.from_pretrained(tmp_path)(query) == pipeline(query)


def test_folders_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="cannot be loaded: there is no such folder"):
        TextPipeline.from_pretrained(tmp_path / "nowhere")
    model = ContextualBertForMaskedLM(ContextualBertConfig(**LAYOUT, **SIZES))
    model.save_pretrained(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"cannot be loaded.*Save model and processor there"):
        TextPipeline.from_pretrained(tmp_path)
    PROCESSOR.save_pretrained(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"holds ContextualBertForMaskedLM for texts; .*contextual-bert sample"):
        TextPipeline.from_pretrained(tmp_path)
    said = r"holds ContextualBertForMaskedLM for texts; what is needed is \S+ for sets of items.*contextual-bert sample"
    with pytest.raises(RunDirectoryError, match=said):
        CompletionPipeline.from_pretrained(tmp_path)
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(RunDirectoryError, match=r"reviews\.csv is a file\. Name the folder of a run"):
        TextPipeline.from_pretrained(tmp_path / "reviews.csv")
    miniature_processor().save_pretrained(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"for sets of items; .*contextual-bert complete"):
        TextPipeline.from_pretrained(tmp_path)


def test_parts_that_do_not_belong_together() -> None:
    model: Any = pipeline_of().model
    with pytest.raises(ConfigurationError, match=r"truncation='tail' is not allowed. Give 'head' or 'head_tail'"):
        TextPipeline(model, PROCESSOR, truncation="tail")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="is for sets of items"):
        TextPipeline(model, miniature_processor())
    for head in (ContextualBertForMaskedLM, ContextualBertForQuestionAnswering):
        other: Any = head(ContextualBertConfig(**LAYOUT, **SIZES))
        with pytest.raises(ConfigurationError, match=f"{head.__name__} gives no labels. Give one of Contextual"):
            TextPipeline(other, PROCESSOR)
    without = ContextualBertProcessor(type(PROCESSOR.feature_extractor)(), PROCESSOR.tokenizer)
    with pytest.raises(ConfigurationError, match="disagree on: sex"):
        TextPipeline(model, without)
