"""A BERT that reads the context as words, from a checkpoint to an answer: what one would write by hand, everywhere."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from transformers import AutoModel, BertConfig, BertForMaskedLM, BertForSequenceClassification

from contextual_bert import QuestionAnsweringPipeline, TextPipeline, TextSampling, encode_texts, sample_texts
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.inference import load_text_model
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing.miniature import drawn_anew, miniature_tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 24,
    "vocab_size": 23,
}
# Names and values that the miniature tokenizer knows; "word9" is no value of the schema.
SCHEMA = ContextSchema(
    features=(Categorical(name="word1", values=("word2", "word3")), Categorical(name="word4", values=("word5",)))
)
KNOWN = {"word1": "word2", "word4": "word5"}
SAID = "word1 [UNK] word2 [UNK] word4 [UNK] word5 [UNK]"  # with a colon and a full stop, which it does not know


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    drawn_anew(BertForMaskedLM(BertConfig(**SIZES))).save_pretrained(folder)
    miniature_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def processor(checkpoint: Path) -> ContextualBertProcessor:
    return ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA, has_context_as_text=True)


def model_of(model_class: Any, checkpoint: Path, **fields: Any) -> Any:
    settings = {"schema": SCHEMA, "conditioning": "none", "has_context_as_text": True}
    return model_class.from_checkpoint(checkpoint, **settings, **fields).eval()


@torch.no_grad()
def test_hidden_words_are_those_of_bert_by_hand(checkpoint: Path, processor: ContextualBertProcessor) -> None:
    model = model_of(ContextualBertForMaskedLM, checkpoint)
    bert = BertForMaskedLM.from_pretrained(checkpoint).eval()
    inputs = processor(text=["word7 [MASK]", "[MASK]"], context=[KNOWN, {"word1": "word9"}])
    found = model(**inputs, logits_at="masked").logits
    for row, text in enumerate((f"{SAID} [SEP] word7 [MASK]", "word1 [UNK] word9 [UNK] [SEP] [MASK]")):
        inputs = processor.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        is_masked = inputs["input_ids"] == processor.tokenizer.mask_token_id
        torch.testing.assert_close(found[row], bert(**inputs).logits[is_masked][0])


@torch.no_grad()
def test_labels_are_those_of_bert_by_hand(checkpoint: Path, processor: ContextualBertProcessor, tmp_path: Path) -> None:
    """With the pooler, from a query, a table and a folder."""
    theirs = drawn_anew(BertForSequenceClassification(BertConfig(**SIZES, num_labels=3)))
    theirs.save_pretrained(tmp_path / "theirs")
    processor.tokenizer.save_pretrained(tmp_path / "theirs")
    model = model_of(ContextualBertForSequenceClassification, tmp_path / "theirs", num_labels=3)
    model.save_pretrained(tmp_path / "own")
    processor.save_pretrained(tmp_path / "own")
    queries = [{"text": "word7 word8", "context": KNOWN}, {"text": "word6"}]
    expected = [
        theirs(**processor.tokenizer(text, return_tensors="pt", return_token_type_ids=False)).logits.softmax(dim=-1)[0]
        for text in (f"{SAID} [SEP] word7 word8", "[SEP] word6")
    ]
    pipeline = TextPipeline.from_pretrained(tmp_path / "own")
    for answers in (pipeline(queries), TextPipeline(model, processor)(queries)):
        shares = torch.tensor([[*answer["probabilities"].values()] for answer in answers])
        torch.testing.assert_close(shares, torch.stack(expected))
        assert [answer["notes"] for answer in answers] == [[], []]
    table = pa.table({"text": ["word7 word8", "word6"], "word1": ["word2", None], "word4": ["word5", None]})
    shares = pipeline.label_table(table).table.select([f"probability_LABEL_{number}" for number in range(3)])
    torch.testing.assert_close(torch.tensor([[*row.values()] for row in shares.to_pylist()]), torch.stack(expected))
    # The data set that a trainer is given is the same.
    dataset = encode_texts(table, processor, text="text").dataset
    torch.testing.assert_close(
        model(**dataset.__getitems__(torch.arange(2)).inputs()).logits.softmax(dim=-1), torch.stack(expected)
    )


def test_a_value_that_no_schema_knows_is_read(checkpoint: Path, processor: ContextualBertProcessor) -> None:
    pipeline = TextPipeline(model_of(ContextualBertForTokenClassification, checkpoint, num_labels=3), processor)
    contexts: list[dict[str, Any]] = [{"word1": "word9"}, {"word1": "word2"}, {}]
    answers = pipeline([{"text": ["word7", "word8"], "context": context} for context in contexts])
    assert len({tuple(answer["probabilities"]) for answer in answers}) == 3
    assert [answer["unknown_context"] for answer in answers] == [{}, {}, {}]
    with pytest.raises(UnknownNameError, match="no feature 'word6'"):
        pipeline({"text": ["word7"], "context": {"word6": "word2"}})


def test_a_long_text_makes_room_for_the_words(checkpoint: Path, processor: ContextualBertProcessor) -> None:
    """24 positions: [CLS], 8 words, [SEP], 13 tokens, [SEP]."""
    pipeline = TextPipeline(model_of(ContextualBertForSequenceClassification, checkpoint), processor)
    fits, cut = pipeline([{"text": " ".join(["word7"] * size), "context": KNOWN} for size in (13, 14)])
    assert (fits["notes"], fits["probabilities"]) == ([], cut["probabilities"])
    assert "its end was not read" in cut["notes"][0]
    # Nobody's text is cut for the words of another row, and rows that are long in different columns fit.
    long = " ".join(["word2"] * 10)
    others: list[dict[str, Any]] = [{"context": {"word1": long}}, {"context": {"word4": long}}, {"context": KNOWN}]
    text = {"text": " ".join(["word7"] * 13)}
    together = pipeline([{**text, **each} for each in others])
    alone = [pipeline({**text, **each}) for each in others]
    assert [bool(answer["notes"]) for answer in together] == [True, True, False]
    for one, other in zip(together, alone, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"])
    table = pa.table({"text": [text["text"]] * 2, "word1": [long, "word2"], "word4": [None, "word5"]})
    assert pipeline.label_table(table).report.num_cut == 1
    with pytest.raises(DataError, match=r"query 2.*in words the context has 22 tokens, and the model reads 24"):
        pipeline([{"text": "word7"}, {"text": "word7", "context": {"word1": " ".join(["word2"] * 19)}}])
    model = model_of(ContextualBertForSequenceClassification, checkpoint)
    with pytest.raises(ConfigurationError, match=r"A text has 25 tokens with the words.* reads 24"):
        model(**processor(text=" ".join(["word7"] * 14), context=[KNOWN]))


def test_samples_and_answers_hear_the_context(checkpoint: Path, processor: ContextualBertProcessor) -> None:
    model = model_of(ContextualBertForMaskedLM, checkpoint)
    model.config.context_dropout = 0.1
    others = {"word1": "word3"}
    drawn = [sample_texts(model, processor, context=each, num_samples=50) for each in (KNOWN, others, None)]
    assert len({tuple(texts) for texts in drawn}) == 3
    guided = sample_texts(model, processor, context=KNOWN, num_samples=50, sampling=TextSampling(guidance=3))
    assert guided != drawn[0]
    with pytest.raises(ConfigurationError, match=r"is 17 tokens.*the model reads 15. Ask for 13"):
        sample_texts(model, processor, context=KNOWN, prompt=15)
    questions = QuestionAnsweringPipeline(
        model_of(ContextualBertForQuestionAnswering, checkpoint), processor, max_answer_tokens=2
    )
    asked = {"question": "word7", "text": " ".join(f"word{number % 18}" for number in range(40))}
    found = questions([{**asked, "context": each} for each in (KNOWN, others)])
    assert found[0]["probability"] != found[1]["probability"]


def test_a_model_and_a_processor_of_two_minds_are_refused(
    checkpoint: Path, processor: ContextualBertProcessor, tmp_path: Path
) -> None:
    words = model_of(ContextualBertForSequenceClassification, checkpoint)
    values = ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=SCHEMA, conditioning="concat")
    of_values = processor.with_context_as("values")
    for model, other, read in ((words, of_values, "words"), (values, processor, "values")):
        with pytest.raises(ConfigurationError, match=f"The model reads the {read} of a context"):
            TextPipeline(model, other)
    words.save_pretrained(tmp_path)
    of_values.save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="has_context_as_text"):
        load_text_model(tmp_path, ContextualBertForSequenceClassification)


@pytest.mark.parametrize(
    "fields", [{"has_position_embeddings": False}, {"has_position_embeddings": True, "conditioning": "concat"}]
)
def test_what_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="has_context_as_text=True puts the context before a text"):
        ContextualBertConfig.from_schema(SCHEMA, has_context_as_text=True, **SIZES, **fields)
    with pytest.raises(ConfigurationError, match="these are items"):
        items = ContextualBertProcessor.from_items(["coat"], SCHEMA)
        items.with_context_as("text")


def test_what_would_pass_over_the_words_is_refused(
    checkpoint: Path, processor: ContextualBertProcessor, tmp_path: Path
) -> None:
    model = model_of(ContextualBertForSequenceClassification, checkpoint)
    model.save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="by itself would pass over the context"):
        AutoModel.from_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="is read with each text"):
        model.encode_context(processor(text="word1", context=[KNOWN])["context"])


def test_a_part_of_a_date_is_no_sentence(checkpoint: Path) -> None:
    schema = ContextSchema(features=(Categorical(name="date_month", source="date", part="month", values=("3",)),))
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, schema, has_context_as_text=True)
    with pytest.raises(DataError, match="part of a date, which is said whole"):
        processor(text="word1", context=[{"date_month": 3}])


def test_training_without_the_context_is_warned_about(checkpoint: Path, processor: ContextualBertProcessor) -> None:
    model = model_of(ContextualBertForSequenceClassification, checkpoint)
    inputs = processor.tokenizer("word7", return_tensors="pt", return_token_type_ids=False)
    with pytest.warns(UserWarning, match="has_context_as_text=True takes a context, and a batch came without"):
        model.train()(**inputs)


def test_a_question_has_the_room_that_its_own_context_leaves(
    checkpoint: Path, processor: ContextualBertProcessor
) -> None:
    model = model_of(ContextualBertForQuestionAnswering, checkpoint)
    pipeline = QuestionAnsweringPipeline(model, processor, max_answer_tokens=3)
    short = {"question": "word1 word2 word3", "text": " ".join(f"word{4 + n % 9}" for n in range(25)), "context": KNOWN}
    long = {"question": "word1", "text": "word7", "context": {"word1": " ".join(["word2"] * 14)}}
    together = pipeline([short, long, short])
    for one, query in zip(together, (short, long, short), strict=True):
        alone: Any = pipeline(query)
        assert (one["start"], one["end"]) == (alone["start"], alone["end"])
        assert one["probability"] == pytest.approx(alone["probability"])
