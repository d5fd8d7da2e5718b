"""What answers say of fields that are not given, and of values that share a vector."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert import CompletionPipeline, ContextSchema, ContextualBertConfig
from contextual_bert.context import Categorical, encode_records
from contextual_bert.context.encoding import is_missing, rarely_missing
from contextual_bert.inference.context_notes import ContextNotes, table_lines
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.runs import run
from contextual_bert.testing import miniature_model, miniature_processor
from contextual_bert.training import Recipe, SetCompletion

RECIPE = Recipe(
    data="shop",
    task=SetCompletion(items="items"),
    conditioning="global_state",
    model={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    training={"num_train_epochs": 1},
)
NOT_GIVEN = "Not given: {}. Hardly any training row lacked "


@pytest.fixture(scope="module")
def shop() -> pa.Table:
    generator = np.random.default_rng(0)
    users = [*["often"] * 100, *[f"rare {each}" for each in range(150) for _ in range(2)]]
    return pa.table(
        {
            "items": [[f"i{each}" for each in generator.choice(5, 2, replace=False)] for _ in users],
            "user": users,
            "sex": [("f", "m")[each % 2] for each in range(len(users))],
            "age": pa.array([each % 50 if each % 3 else None for each in range(len(users))], pa.int64()),
        }
    )


def pipeline_of(shop: pa.Table, folder: Path, **training: float) -> CompletionPipeline:
    run(Recipe(**{**vars(RECIPE), "training": {**RECIPE.training, **training}}), folder, table=shop, is_quiet=True)
    return CompletionPipeline.from_pretrained(folder)


@pytest.fixture(scope="module")
def pipeline(shop: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> CompletionPipeline:
    return pipeline_of(shop, tmp_path_factory.mktemp("runs") / "plain")


def test_the_answer_says_which_fields_were_never_lacking_in_training(pipeline: CompletionPipeline) -> None:
    assert pipeline.model.config.rarely_missing == ["user", "sex"]
    query = {"items": ["i1"], "context": {"user": "often"}}
    assert any(note.startswith(NOT_GIVEN.format("sex")) for note in pipeline(query)["notes"])
    assert any(note.startswith(NOT_GIVEN.format("sex")) for note in pipeline.complete_jointly(query)["notes"])
    whole = {"items": ["i1"], "context": {"user": "often", "sex": "f"}}
    assert pipeline(whole)["notes"] == []


def test_queries_of_one_call_have_notes_of_their_own(pipeline: CompletionPipeline) -> None:
    contexts = [{"user": "often", "sex": "f"}, {"sex": "f"}, {}]
    answers = pipeline([{"items": ["i1"], "context": each} for each in contexts], batch_size=2)
    starts = [[note.partition(". ")[0] for note in answer["notes"]] for answer in answers]
    assert starts == [[], ["Not given: user"], ["Not given: user, sex"]]


def test_a_training_with_field_dropout_has_learned_it(shop: pa.Table, tmp_path: Path) -> None:
    learned = pipeline_of(shop, tmp_path / "run", field_dropout=0.1)
    assert learned({"items": ["i1"], "context": {}})["notes"] == []


def test_context_dropout_alone_teaches_the_whole_context_only() -> None:
    processor = miniature_processor()
    model = miniature_model("global_state", rarely_missing=["sex"], context_dropout=0.1)
    notes = ContextNotes(processor.encode_context([{}, {"age": 30}], num_rows=2), processor.schema, model)
    assert notes.of(0) == []
    assert notes.of(1)[0].startswith(NOT_GIVEN.format("sex"))


def test_a_run_that_does_not_know_says_nothing() -> None:
    processor = miniature_processor()
    notes = ContextNotes(processor.encode_context([{}], num_rows=1), processor.schema, miniature_model("global_state"))
    assert notes.of(0) == []


def test_a_report_on_a_table_counts_the_rows(pipeline: CompletionPipeline) -> None:
    context = pipeline.processor.encode_context([{"user": "often"}, {"user": "new", "sex": "f"}, {}], num_rows=3)
    assert context is not None
    lines = table_lines(context, pipeline.model)
    assert any(line.startswith("context 'sex': 2 rows lack it") for line in lines)
    assert any(line.startswith("context 'user': 1 row lacks it") for line in lines)


def test_a_rare_value_shares_a_vector_and_the_answer_says_so(pipeline: CompletionPipeline) -> None:
    answer = pipeline({"items": ["i1"], "context": {"user": "rare 3", "sex": "f"}})
    assert answer["unknown_context"] == {}
    assert [note.partition(". ")[0] for note in answer["notes"]] == ["Shared: user"]
    others = [pipeline({"items": ["i1"], "context": {"user": f"rare {each}", "sex": "f"}}) for each in range(8)]
    assert len({str(each["slots"]) for each in others}) > 1


def test_missing_rows_are_told_by_the_shape() -> None:
    vectors = np.array([[0.5, 0.0], [0.0, 1.0]])
    assert is_missing(vectors).tolist() == [False, True]
    assert rarely_missing({"photo": vectors}, fewest=2) == ["photo"]
    assert rarely_missing({"photo": vectors}, fewest=1) == []


def test_the_attribute_vectors_of_ma_bert_know_buckets() -> None:
    schema = ContextSchema(features=(Categorical(name="user", values=("often",), num_buckets=16),))
    config = ContextualBertConfig.from_schema(
        schema,
        conditioning="multi_attribute",
        vocab_size=20,
        hidden_size=8,
        num_attention_heads=2,
        num_hidden_layers=2,
        num_extra_layers=1,
        intermediate_size=8,
        has_position_embeddings=True,
        num_labels=2,
    )
    model = ContextualBertForSequenceClassification(config).eval()
    context = encode_records(schema, [{"user": name} for name in ("often", "rare 1", "rare 2", "rare 3")]).tensors
    logits = model(input_ids=torch.full((4, 3), 5), context=context).logits
    assert torch.isfinite(logits).all()
    assert len({*logits[:, 0].tolist()}) == len({*context["user"].tolist()})
