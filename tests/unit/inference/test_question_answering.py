"""Questions, texts and contexts in, pieces of the texts out: what the model says, in windows that lose nothing."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import Trainer, TrainingArguments

from contextual_bert import QuestionAnsweringPipeline, encode_questions
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, SchemaError, UnknownNameError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.inference.texts.answer_spans import best_spans
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments

PROCESSOR = miniature_text_processor()
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
LAYOUT = {"has_position_embeddings": True, "type_vocab_size": 2, "vocab_size": 23}
GENERATOR = np.random.default_rng(0)
TEXTS = [" ".join(f"word{number}" for number in GENERATOR.integers(0, 18, size)) for size in (3, 40, 12, 25, 1)]
QUESTIONS = ["word1", "word2 word3", "word4", "word5 word6 word7", "word8"]
ANSWERS = [
    " ".join(text.split()[first:last])
    for text, first, last in zip(TEXTS, (1, 30, 0, 3, 0), (2, 33, 12, 3, 1), strict=True)
]
TABLE = pa.table(
    {"question": QUESTIONS, "text": TEXTS, "answer": ANSWERS, "sex": ["f", "m", "f", None, "x"]},
)


def model_of(conditioning: str = "global_state", **fields: Any) -> ContextualBertForQuestionAnswering:
    config = ContextualBertConfig.from_schema(PROCESSOR.schema, conditioning=conditioning, **LAYOUT, **SIZES, **fields)
    return drawn_anew(ContextualBertForQuestionAnswering(config))


@pytest.mark.parametrize("max_length", [None, 16, 12])
def test_spans_are_the_answers_letter_by_letter(max_length: int | None) -> None:
    encoded = encode_questions(TABLE, PROCESSOR, answer="answer", max_length=max_length)
    dataset, seen = encoded.dataset, set[int]()
    assert dataset.spans is not None
    for window, row in enumerate(dataset.example_ids.tolist()):
        places = slice(*dataset.offsets[window : window + 2].tolist())
        characters, (first, last) = encoded.characters[places], dataset.spans[window].tolist()
        words = [TEXTS[row][start:end] for start, end in characters if start >= 0]
        assert PROCESSOR.tokenizer.decode(dataset.input_ids[places]).endswith(" ".join([*words, "[SEP]"]))
        if first:
            seen.add(row)
            assert TEXTS[row][characters[first, 0] : characters[last, 1]] == ANSWERS[row]
        else:
            assert f" {ANSWERS[row]} " not in f" {' '.join(words)} " or not ANSWERS[row]
    report = encoded.report
    assert (report.num_questions, report.num_unanswered) == (5, 1)
    is_lost = max_length == 12  # twelve words fit into no window
    assert seen == ({0, 1, 4} if is_lost else {0, 1, 2, 4})
    assert report.num_lost == int(is_lost)
    assert (report.num_windows == 5) == (max_length is None)
    assert report.lines()[-1] == "context 'sex': 1 row has values never seen in training, or too rarely"


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_answers_are_what_the_model_says(batch_size: int) -> None:
    model, limit = model_of(max_position_embeddings=16), 4
    pipeline = QuestionAnsweringPipeline(model, PROCESSOR, max_answer_tokens=limit)
    queries = [
        {"question": row["question"], "text": row["text"], "context": {"sex": row["sex"]}} for row in TABLE.to_pylist()
    ]
    found = cast(Any, pipeline(queries, batch_size=batch_size))
    encoded = encode_questions(TABLE, PROCESSOR, max_length=16)
    expected: dict[int, list[tuple[float, int, int, float]]] = {}
    for window, row in enumerate(encoded.dataset.example_ids.tolist()):
        inputs = encoded.dataset.__getitems__([window]).inputs()
        with torch.no_grad():
            outputs = model(**inputs)
        characters = encoded.characters[slice(*encoded.dataset.offsets[window : window + 2].tolist())]
        allowed = [0, *np.flatnonzero(characters[:, 0] >= 0).tolist()]
        start, end = (dict(zip(allowed, logits[0, allowed].softmax(0).tolist(), strict=True)) for logits in outputs[:2])
        spans = [(start[i] * end[j], i, j) for i in allowed[1:] for j in allowed[1:] if i <= j < i + limit]
        probability, first, last = max(spans)
        bounds = int(characters[first, 0]), int(characters[last, 1])
        expected.setdefault(row, []).append((probability, *bounds, start[0] * end[0]))
    assert len(expected) == len(found) == 5
    for row, answer in enumerate(found):
        probability, first, last, _ = max(expected[row])
        assert (answer["start"], answer["end"], answer["answer"]) == (first, last, TEXTS[row][first:last])
        assert answer["probability"] == pytest.approx(probability, rel=1e-4)
        assert answer["no_answer_probability"] == pytest.approx(min(each[3] for each in expected[row]), rel=1e-4)
    assert found[4]["unknown_context"] == {"sex": ["x"]}
    single = cast(Any, pipeline(queries[1]))
    assert (single["answer"], single["start"]) == (found[1]["answer"], found[1]["start"])


def test_a_span_is_no_longer_than_it_may_be() -> None:
    start, end = torch.tensor([[[0.0, 0.9, 0.05, 0.05]], [[0.0, 0.05, 0.05, 0.9]]]).log().numpy()
    assert [each.item() for each in best_spans(start, end, max_tokens=3)[:2]] == [1, 3]
    first, last, best = best_spans(start, end, max_tokens=2)
    assert (first.item(), last.item()) in ((1, 1), (1, 2), (2, 3), (3, 3))
    assert np.exp(best.item()) == pytest.approx(0.045)


def test_who_asks_decides_what_the_answer_is(tmp_path: Path) -> None:
    """Of each text she wants the first word, and he the last one."""
    generator = np.random.default_rng(1)
    rows: dict[str, list[Any]] = {name: [] for name in ("question", "text", "answer", "answer_start", "sex")}
    for _ in range(600):
        words, sex = [f"word{number}" for number in generator.integers(0, 18, 4)], str(generator.choice(["f", "m"]))
        text = " ".join(words)
        first = 0 if sex == "f" else len(text) - len(words[-1])
        values = ("word1", text, words[0 if sex == "f" else -1], first, sex)
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    train = encode_questions(pa.table(rows).slice(0, 500), PROCESSOR, answer="answer", answer_start="answer_start")
    assert train.report.lines() == ["500 questions in 500 windows"]
    torch.manual_seed(0)
    model = ContextualBertForQuestionAnswering(model_of("global_state_update").config)
    arguments = TrainingArguments(
        str(tmp_path / "training"),
        num_train_epochs=8,
        per_device_train_batch_size=16,
        learning_rate=5e-3,
        remove_unused_columns=False,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    data: Any = train.dataset
    Trainer(model, arguments, train_dataset=data, data_collator=data.collate_fn).train()
    model.save_pretrained(tmp_path / "run")
    PROCESSOR.save_pretrained(tmp_path / "run")
    pipeline = QuestionAnsweringPipeline.from_pretrained(tmp_path / "run")
    tested = pa.table(rows).slice(500).to_pylist()
    queries = [{"question": "word1", "text": row["text"], "context": {"sex": row["sex"]}} for row in tested]
    found = cast(Any, pipeline(queries))
    is_right = [answer["start"] == row["answer_start"] for answer, row in zip(found, tested, strict=True)]
    assert np.mean(is_right) > 0.95
    with pytest.raises(RunDirectoryError, match=r"holds ContextualBertForQuestionAnswering for texts; .*QuestionAns"):
        CompletionPipeline.from_pretrained(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": ["x", "", "", "", ""]}, "row 1, column 'answer': the answer 'x' is not in its text"),
        ({"answer_start": [1, 0, 0, 0, 0]}, "row 1, column 'answer': .* is not at character 1 of its text"),
        ({"answer_start": [-3, 0, 0, 0, 0]}, "row 1, column 'answer': .* is not at character -3 of its text"),
        ({"answer_start": ["1", "0", "0", "0", "0"]}, "column 'answer_start': the column is of type string"),
        ({"answer_start": [0.5, 0, 0, 0, 0]}, "column 'answer_start': the column is of type double and not of whole"),
        ({"text": [1, 2, 3, 4, 5]}, "column 'text': the column is of type int64"),
        ({"question": ["word1", None, "word1", "word1", "word1"]}, "row 2, column 'question'"),
        (
            {"question": [*QUESTIONS[:4], " ".join(["word1"] * 21)]},
            "row 5, column 'question': the question has 21 tokens",
        ),
    ],
)
def test_faults_of_tables_are_named(change: dict[str, Any], message: str) -> None:
    table = TABLE
    for name, values in change.items():
        table = table.drop([name]) if name in table.column_names else table
        table = table.append_column(name, pa.array(values))
    start = "answer_start" if "answer_start" in change else None
    with pytest.raises(DataError, match=message):
        encode_questions(table, PROCESSOR, answer="answer", answer_start=start, max_length=24)


def test_a_table_without_answers_or_rows() -> None:
    assert encode_questions(TABLE, PROCESSOR).dataset.spans is None
    none = pa.table({**TABLE.to_pydict(), "answer": pa.nulls(5)})
    assert encode_questions(none, PROCESSOR, answer="answer").report.lines()[1] == "5 questions have no answer"
    empty = encode_questions(TABLE.slice(0, 0), PROCESSOR, answer="answer")
    assert (len(empty.dataset), empty.report.num_windows) == (0, 0)
    with pytest.raises(UnknownNameError, match="'reply'"):
        encode_questions(TABLE, PROCESSOR, answer="reply")
    for faulty in (4, 0, "16", True):
        with pytest.raises(ConfigurationError, match=f"max_length={faulty!r}"):
            encode_questions(TABLE, PROCESSOR, max_length=faulty)  # pyright: ignore[reportArgumentType]
    short = miniature_text_processor()
    short.tokenizer.model_max_length = 20
    with pytest.raises(ConfigurationError, match="max_length=21 is not allowed: this tokenizer allows 20"):
        encode_questions(TABLE, short, max_length=21)


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"question": "word1"}, DataError, "query 2, text: None is no text"),
        ({"question": " ", "text": "word1"}, DataError, "query 2, question: ' ' is no text"),
        ({"question": "a\ud800", "text": "word1"}, DataError, "query 2, question: .*half of a character"),
        (
            {"question": "word1", "txt": "word1"},
            UnknownNameError,
            "query 2, txt: unknown key.*Did you mean 'text'",
        ),
        ({"question": "word1", "text": "word2", "context": 3}, DataError, "query 2, context: 3 is not a record"),
        ({"question": "word1", "text": "word2", "context": {"sexx": 3}}, UnknownNameError, "Did you mean 'sex'"),
    ],
)
def test_faults_of_queries_are_named(query: Any, error: type[Exception], message: str) -> None:
    pipeline = QuestionAnsweringPipeline(model_of(), PROCESSOR)
    with pytest.raises(error, match=message):
        pipeline([{"question": "word1", "text": "word2"}, query])


@pytest.mark.parametrize("answer", ["cafe\u0301", "\u2764\ufe0f", "\u092c\u091a\u094d\u091a\u0947", "caf\u00e9", "4"])
def test_accents_that_stand_by_themselves_belong_to_their_letter(answer: str, minilm: Path) -> None:
    """A BERT's tokenizer drops them, so its tokens end before they do."""
    processor = ContextualBertProcessor.from_checkpoint(minilm)
    text = f"I have {answer} here"
    table = pa.table({"question": ["what"], "text": [text], "answer": [answer]})
    encoded = encode_questions(table, processor, answer="answer")
    assert encoded.report.num_lost == 0
    assert encoded.dataset.spans is not None
    first, last = encoded.dataset.spans[0].tolist()
    model = ContextualBertForQuestionAnswering.from_checkpoint(minilm, conditioning="none", num_hidden_layers=1)

    def certain(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        found = torch.full_like(output, -1e6)
        found[:, first, 0] = found[:, last, 1] = 1e6
        return found

    model.qa_outputs.register_forward_hook(certain)
    found = cast(Any, QuestionAnsweringPipeline(model, processor)({"question": "what", "text": text}))
    assert (found["answer"], found["probability"]) == (answer, 1)
    assert processor.tokenizer.backend_tokenizer.truncation is None


def test_columns_come_as_tables_have_them() -> None:
    """Categories, numbers with a fraction where some are missing, answers that a file has as numbers."""
    rows: dict[str, Any] = {
        "question": pa.array(["word1"] * 3).dictionary_encode(),
        "text": pa.array(["word2 word3", "a 4 b 14", "word4"]).dictionary_encode(),
        "answer": pa.array(["word3", "4", None]).dictionary_encode(),
        "answer_start": [6.0, 2.0, None],
    }
    table = pa.table(rows).append_column("sex", pa.array(["f"] * 3))
    expected = encode_questions(table, PROCESSOR, answer="answer", answer_start="answer_start").dataset.spans
    assert expected is not None
    assert expected.tolist() == [[4, 4], [4, 4], [0, 0]]
    numbers = table.slice(1, 1).set_column(2, "answer", pa.array([4]))
    found = encode_questions(numbers, PROCESSOR, answer="answer").dataset.spans
    assert found is not None
    assert found.tolist() == [[4, 4]]


def test_an_answer_is_looked_for_as_whole_words() -> None:
    rows = {"question": ["q"] * 3, "text": ["This is it", "phone", "a phone for one"], "answer": ["is", "one", "one"]}
    encoded = encode_questions(pa.table({**rows, "sex": ["f"] * 3}), PROCESSOR, answer="answer")
    dataset = encoded.dataset
    assert dataset.spans is not None
    places = dataset.offsets[:-1] + dataset.spans[:, 0]
    assert encoded.characters[places.numpy(), 0].tolist() == [5, 0, 12]


def test_a_long_question_moves_on_by_half_of_what_is_left() -> None:
    questions = ["word1", " ".join(["word1"] * 40), "word2"]
    table = pa.table({"question": questions, "text": [" ".join(["word3"] * 300)] * 3, "sex": ["f"] * 3})
    rows = encode_questions(table, PROCESSOR, max_length=64).dataset.example_ids
    counts = rows.bincount().tolist()
    assert counts[0] == counts[2] < 8
    assert counts[1] < 40, "of 21 tokens 11 are new in each window"
    assert rows.tolist() == sorted(rows.tolist())


def test_what_is_not_to_be_learned_is_not_trained_on(tmp_path: Path) -> None:
    questions = encode_questions(TABLE, PROCESSOR).dataset
    arguments = ContextualTrainingArguments(str(tmp_path), use_cpu=True)
    with pytest.raises(ConfigurationError, match="have no labels, and no answers"):
        ContextualBertTrainer(cast(Any, model_of()), arguments, train_dataset=questions)


def test_what_does_not_go_together_is_refused() -> None:
    model: Any = model_of()
    other: Any = ContextualBertForMaskedLM(model.config)
    with pytest.raises(ConfigurationError, match="ContextualBertForMaskedLM answers no questions"):
        QuestionAnsweringPipeline(other, PROCESSOR)
    one_segment: Any = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=23, **SIZES))
    with pytest.raises(ConfigurationError, match="the model needs type_vocab_size=2"):
        QuestionAnsweringPipeline(one_segment, PROCESSOR)
    with pytest.raises(ConfigurationError, match="is for sets of items"):
        QuestionAnsweringPipeline(model, miniature_processor())
    for faulty in (0, "3", True):
        with pytest.raises(ConfigurationError, match=f"max_answer_tokens={faulty!r}"):
            QuestionAnsweringPipeline(model, PROCESSOR, max_answer_tokens=faulty)  # pyright: ignore[reportArgumentType]
    pipeline = QuestionAnsweringPipeline(model, PROCESSOR)
    with pytest.raises(ConfigurationError, match="batch_size=0"):
        pipeline([{"question": "word1", "text": "word2"}], batch_size=0)
    with pytest.raises(DataError, match="neither a query nor a list"):
        pipeline("word1")  # pyright: ignore[reportArgumentType]
    assert pipeline([]) == []
    plain = QuestionAnsweringPipeline(model_of("none"), PROCESSOR)
    answer = cast(Any, plain({"question": "word1", "text": "word2", "context": {"sex": "f"}}))
    assert answer["notes"] == ["The context was not used: this model was trained with conditioning='none'."]


def test_a_table_gets_its_answers_in_the_order_of_its_rows_and_says_what_it_lacks() -> None:
    schema = ContextSchema(features=(*PROCESSOR.schema.features, Categorical(name="place", values=("bar", "inn"))))
    processor = ContextualBertProcessor(ContextFeatureExtractor(schema.to_dict()), PROCESSOR.tokenizer)
    config = ContextualBertConfig.from_schema(schema, conditioning="global_state", **LAYOUT, **SIZES)
    model = drawn_anew(ContextualBertForQuestionAnswering(config))
    pipeline = QuestionAnsweringPipeline(model, processor)
    found = pipeline.answer_table(TABLE, question="question", text="text", batch_size=2)
    queries = [
        {"question": row["question"], "text": row["text"], "context": {"sex": row["sex"]}} for row in TABLE.to_pylist()
    ]
    one_by_one = cast(Any, pipeline(queries))
    assert found.table.column("predicted_answer").to_pylist() == [each["answer"] for each in one_by_one]
    assert found.table.select(TABLE.column_names).equals(TABLE)
    assert any("lacks context columns, which are missing in each row: 'place'" in line for line in found.report.lines())
    turned = pipeline.answer_table(TABLE.take(pa.array([4, 0])), question="question", text="text")
    answers = found.table.column("predicted_answer").to_pylist()
    assert turned.table.column("predicted_answer").to_pylist() == [answers[4], answers[0]]
    with pytest.raises(SchemaError, match="no column of the context"):
        pipeline.answer_table(TABLE.drop_columns(["sex"]), question="question", text="text")
    taken = TABLE.append_column("probability", pa.nulls(5))
    with pytest.raises(DataError, match="'probability'"):
        pipeline.answer_table(taken, question="question", text="text")
