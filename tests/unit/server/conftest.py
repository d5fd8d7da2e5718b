"""A small model with a catalogue, pipelines that can be held up, and clients of an app in this process."""

import json
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import playwright
import pyarrow as pa
import pytest
import torch
from fastapi import FastAPI

from contextual_bert import server
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical
from contextual_bert.evaluation.answer_calibration import AnswerCalibration, CoverageFloor
from contextual_bert.inference import (
    Catalogue,
    CompletionPipeline,
    FillMaskPipeline,
    QuestionAnsweringPipeline,
    TextPipeline,
)
from contextual_bert.inference.applied_calibration import AppliedCalibration
from contextual_bert.inference.texts.text_writing import TextToTextPipeline
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSeq2SeqLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.server import create_app
from contextual_bert.testing.miniature import drawn_anew, miniature_tokenizer

ITEMS = ("coat", "hat", "bag", "belt", "shoes", "17", "scarf", "tie")
SCHEMA = ContextSchema(
    features=(
        Categorical(name="gender", values=("female", "male")),
        Numerical(name="age", edges=(30, 60)),
        MultiCategorical(name="brands", values=("acme", "hooli")),
        Categorical(name="month", values=tuple(str(number) for number in range(1, 13)), source="date", part="month"),
    )
)
SHOP = pa.table(
    {
        "id": [*ITEMS[:7], "kilt"],
        "category": ["coat", "hat", "bag", "belt", "shoes", None, "scarf", "skirt"],
        "price": [90.0, 20.0, 60.0, 15.0, 80.0, 5.0, None, 40.0],
        "in_stock": [True, True, False, True, True, True, True, True],
    }
)
KEY = "a-key-that-nobody-guesses"
READING = 'import { readFileSync } from "node:fs";\nconst given = JSON.parse(readFileSync(0, "utf-8"));\n'


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_pipeline(
    seed: int = 0, *, has_catalogue: bool = True, schema: ContextSchema = SCHEMA, **fields: Any
) -> CompletionPipeline:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "conditioning": "global_state_update",
        "vocab_size": len(ITEMS) + 3,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "initializer_range": 0.5,
        "context_dropout": 0.1,
        "field_dropout": 0.2,
    }
    config = ContextualBertConfig.from_schema(schema, **{**sizes, **fields})
    processor = ContextualBertProcessor.from_items(ITEMS, schema)
    catalogue = Catalogue(SHOP, processor.items) if has_catalogue else None
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor, catalogue=catalogue)


TEXT_SCHEMA = ContextSchema(
    features=(
        Categorical(name="guest", values=("student", "family")),
        Numerical(name="age", edges=(30, 60)),
        MultiCategorical(name="tastes", values=("vegan", "spicy")),
        Categorical(name="month", values=tuple(str(number) for number in range(1, 13)), source="date", part="month"),
    )
)
HEADS = ("label", "grades", "labels", "number", "tags", "answer", "text", "pairs", "words")


def make_text_pipeline(head: str = "label", *, schema: ContextSchema | None = None, **fields: Any) -> Any:
    """A small pipeline for texts, whose model reads 20 tokens."""
    torch.manual_seed(0)
    processor = ContextualBertProcessor(
        ContextFeatureExtractor((schema or TEXT_SCHEMA).to_dict()), miniature_tokenizer()
    )
    sizes: dict[str, Any] = {
        "conditioning": "global_state",
        "vocab_size": 23,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "has_position_embeddings": True,
        "type_vocab_size": 2,
        "max_position_embeddings": 20,
        "id2label": {0: "low", 1: "middle", 2: "high"},
        "context_dropout": 0.1,
    }
    own: dict[str, dict[str, Any]] = {
        "grades": {"is_ordinal": True},
        "labels": {"problem_type": "multi_label_classification"},
        "number": {"id2label": {0: "value"}},
        "text": {"decoder_type": "gru", "decoder_start_token_id": 3, "eos_token_id": 4},
        "words": {"reserved_token_ids": [0, 1, 2, 3, 4]},
    }
    kinds: dict[str, Any] = {
        "tags": ContextualBertForTokenClassification,
        "answer": ContextualBertForQuestionAnswering,
        "text": ContextualBertForSeq2SeqLM,
        "words": ContextualBertForMaskedLM,
    }
    config = ContextualBertConfig.from_schema(schema or TEXT_SCHEMA, **{**sizes, **own.get(head, {}), **fields})
    model = drawn_anew(kinds.get(head, ContextualBertForSequenceClassification)(config))
    if head == "answer":
        return QuestionAnsweringPipeline(model, processor, max_answer_tokens=3)
    if head == "text":
        return TextToTextPipeline(model, processor, max_new_tokens=3)
    if head == "words":
        return FillMaskPipeline(model, processor, top_k=3)
    return TextPipeline(model, processor, pair="required" if head == "pairs" else "none")


def calibrated(pipeline: Any) -> Any:
    """The pipeline with prediction sets, larger for students, that hold the true one 9 times in 10."""
    floors = (CoverageFloor(0.9, -2.0, {"guest": {"student": -0.5}}),)
    pipeline.calibrate_by(
        AppliedCalibration(AnswerCalibration("validation", 900, 90, 500, "", 1.7, None, {}, floors), 0.9)
    )
    return pipeline


class HeldPipeline:
    """A pipeline that waits until ``gate`` is set, and remembers what it computed.

    Whole sets and explanations wait for ``study_gate``.
    """

    def __init__(self, pipeline: CompletionPipeline) -> None:
        self.inner, self.gate, self.is_computing = pipeline, threading.Event(), threading.Event()
        self.study_gate, self.is_studying = threading.Event(), threading.Event()
        self.computed: list[list[Any]] = []
        self.studied: list[Any] = []
        self.num_studying, self.most_studying = 0, 0

    @property
    def processor(self) -> ContextualBertProcessor:
        return self.inner.processor

    @property
    def catalogue(self) -> Catalogue | None:
        return self.inner.catalogue

    @property
    def model(self) -> Any:
        return self.inner.model

    @property
    def verdicts(self) -> Any:
        return self.inner.verdicts

    @property
    def is_new(self) -> Any:
        return self.inner.is_new

    @property
    def no_logits(self) -> str | None:
        return self.inner.no_logits

    @property
    def max_top_k(self) -> int | None:
        return self.inner.max_top_k

    def notes(self) -> list[str]:
        return self.inner.notes()

    def permitted(self, request: Any, *, row: int) -> Any:
        return self.inner.permitted(request, row=row)

    def complete_jointly(self, query: Any, **how: Any) -> Any:
        self.num_studying += 1
        self.most_studying = max(self.most_studying, self.num_studying)
        self.studied.append(query.given["items"])
        self.is_studying.set()
        assert self.study_gate.wait(30)
        found = self.inner.complete_jointly(query, **how)
        self.num_studying -= 1
        return found

    def logits(self, inputs: Any, *, guidance: Any = 1.0) -> Any:
        self.is_studying.set()
        assert self.study_gate.wait(30)
        return self.inner.logits(inputs, guidance=guidance)

    def answer(self, *given: Any) -> Any:
        return self.inner.answer(*given)

    def __call__(self, queries: Any, *, top_k: int, batch_size: int) -> Any:
        self.is_computing.set()
        assert self.gate.wait(30)
        self.computed.append([query["items"] if isinstance(query, dict) else query.given["items"] for query in queries])
        return self.inner(queries, top_k=top_k, batch_size=batch_size)


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a started app."""
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"Content-Type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers) as client:
            yield client


def same(left: Any, right: Any) -> bool:
    """Whether two answers say the same; a probability depends on its batch by rounding alone."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    return left == (pytest.approx(right, rel=1e-3, abs=1e-6) if isinstance(right, float) else right)


def in_node(folder: Path, script: str, given: Any) -> Any:
    """What a script beside the page's own modules writes as JSON; ``given`` is its standard input."""
    shutil.copytree(Path(server.__file__).parent / "static", folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "script.js").write_text(READING + script, encoding="utf-8")
    node = Path(playwright.__file__).parent / "driver" / "node"
    settings: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": 60}
    return json.loads(subprocess.run([node, "script.js"], cwd=folder, input=json.dumps(given), **settings).stdout)


class Tools:
    """What the tests of this folder share."""

    key, items, app, served, same = KEY, ITEMS, staticmethod(create_app), staticmethod(served), staticmethod(same)
    make_pipeline, held, in_node = staticmethod(make_pipeline), HeldPipeline, staticmethod(in_node)
    heads, make_text_pipeline = HEADS, staticmethod(make_text_pipeline)
    calibrated = staticmethod(calibrated)


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools


@pytest.fixture(scope="session")
def pipeline() -> CompletionPipeline:
    return make_pipeline()


@pytest.fixture
def held() -> HeldPipeline:
    return HeldPipeline(make_pipeline())


@pytest.fixture(scope="session")
def metric() -> Callable[[str, str], float]:
    """The value of a line of /metrics."""

    def value(text: str, name: str) -> float:
        found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"contextual_bert_{name} ")]
        assert len(found) == 1, name
        return float(found[0])

    return value
