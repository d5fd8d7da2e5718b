"""The frozen runs: what each trains, and what is kept of it.

Kept are the metrics of each part, names and shapes of the weights, and the answers to ten queries. Trainings are a few
steps long, so that the rounding of another processor does not grow.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from contextual_bert.conditioning import METHODS
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, PREDICTION_METRICS
from contextual_bert.inference import (
    CompletionPipeline,
    OnnxCompletionPipeline,
    QuestionAnsweringPipeline,
    TextPipeline,
    export_onnx,
)
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.runs import run
from contextual_bert.server import create_app
from contextual_bert.testing import miniature_text_processor
from contextual_bert.training import Recipe, SetCompletion, task_on_texts
from tests.frozen.tables import (
    NUM_ITEMS,
    SCHEMA,
    SIZES,
    question_queries,
    set_queries,
    text_queries,
    write_checkpoint,
    write_questions,
    write_sets,
    write_texts,
)

# All that moves a weight is said here: another default is no change of these runs.
TRAINING: Mapping[str, Any] = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 64,
    "learning_rate": 5e-3,
    "weight_decay": 0.01,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 0.1,
    "adam_epsilon": 1e-6,  # below it a gradient is rounding
}
MASKS: Mapping[str, Any] = {"masks_per_set": 2, "one_mask_epochs": 1}
TASKS: Mapping[str, Mapping[str, Any]] = {
    "label": {"text": "text", "label": "verdict"},
    "grades": {"text": "text", "label": "stars", "is_ordinal": True},
    "tags": {"text": "words", "label": "tags"},
    "hidden_words": {"text": "text", "scored_tokens": "all"},
    "answers": {"text": "passage", "question": "question", "answer": "answer", "answer_start": "start"},
}
SET_BASELINES = ("popularity", "bag_context")
TEXT_BASELINES = (("label", "context_popularity"), ("tags", "bilstm_crf_context"))
SERVED = "global_state_update"

Found = dict[str, Any]


def prepare_inputs(folder: Path) -> None:
    """Write the tables and the checkpoint that all cases read."""
    write_sets(folder / "sets.parquet")
    write_texts(folder / "texts.parquet")
    write_questions(folder / "questions.parquet")
    write_checkpoint(folder / "checkpoint")


def frozen_cases() -> dict[str, Callable[[Path], Found]]:
    """Return name -> function that trains a case on the inputs in a folder and returns what is kept of it."""
    return {
        **{f"sets_{name}": partial(_sets, name) for name in (*METHODS, *SET_BASELINES)},
        "sets_shuffled_context": partial(_sets, "global_state", is_context_shuffled=True),
        **{name: partial(_texts, name, SERVED) for name in TASKS},
        **{f"{name}_{baseline}": partial(_texts, name, baseline) for name, baseline in TEXT_BASELINES},
        "openapi": _openapi,
        "openapi_texts": _openapi_of_texts,
        "onnx": _onnx,
    }


def _sets(conditioning: str, folder: Path, **settings: Any) -> Found:
    """Keep a run on sets: a method's answers, and the metrics of any."""
    output = _set_run(conditioning, folder, **settings)
    is_model = conditioning in METHODS
    answers = {"answers": set_answers(CompletionPipeline.from_pretrained(output), set_queries())} if is_model else {}
    return {"metrics": metrics_of(output), "weights": weights_of(output), **answers}


def _set_run(conditioning: str, folder: Path, *, is_context_shuffled: bool = False) -> Path:
    """Train on the sets, unless another case did, and return the run directory."""
    output = folder / f"{conditioning}{'-shuffled' * is_context_shuffled}"
    recipe = Recipe(
        data=str(folder / "sets.parquet"),
        task=SetCompletion(items="items"),
        customer="customer",
        validation=0.2,
        test=0.2,
        schema=SCHEMA.to_dict(),
        conditioning=conditioning,
        is_context_shuffled=is_context_shuffled,
        model=SIZES if conditioning in METHODS else {},
        training={**TRAINING, **MASKS} if conditioning != "popularity" else {},
        device="cpu",
        seed=1,
    )
    if not output.exists():
        run(recipe, output, is_quiet=True)
    return output


def _texts(name: str, conditioning: str, folder: Path) -> Found:
    """Keep a run on texts."""
    output = folder / f"{name}-{conditioning}"
    task = task_on_texts(checkpoint=str(folder / "checkpoint"), **TASKS[name])
    others = {"words", "tags", "verdict", "stars", "text"} - {*task.columns}
    recipe = Recipe(
        data=str(folder / ("questions.parquet" if name == "answers" else "texts.parquet")),
        task=task,
        customer="reader" if name == "answers" else "writer",
        exclude=() if name == "answers" else tuple(sorted(others)),
        conditioning=conditioning,
        validation=0.2,
        test=0.2,
        training=TRAINING if conditioning != "context_popularity" else {},
        device="cpu",
        seed=1,
    )
    run(recipe, output, is_quiet=True)
    return {"metrics": metrics_of(output), "weights": weights_of(output), "answers": text_answers(name, output)}


def metrics_of(directory: Path) -> Found:
    """Return part -> metrics, with their intervals, of all rows, of segments and of labels; the parameters."""
    content = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    found: Found = {"parameters": content["cost"]["parameters"]}
    for part in ("validation", "test"):
        report = content[part]
        found[part] = {
            "num_rows": report["num_rows"],
            **{
                f"labels: {key}" if key in PREDICTION_METRICS else key: _estimate(each)
                for key, each in report["metrics"].items()
            },
            **{
                f"{each['feature']}={each['value']}": _estimate(each["metrics"][CROSS_ENTROPY])
                for each in report["segments"]
            },
        }
    return found


def _estimate(found: Mapping[str, Any] | None) -> list[float] | None:
    return None if found is None else [found["value"], found["low"], found["high"]]


def weights_of(directory: Path) -> dict[str, list[int]]:
    """Return the name of each weight and its shape, nothing where weights are not kept."""
    path = directory / "model.safetensors"
    weights = load_file(path) if path.exists() else {}
    return {name: list(weights[name].shape) for name in sorted(weights)}


def set_answers(pipeline: CompletionPipeline, queries: Sequence[Mapping[str, Any]]) -> list[list[dict[str, float]]]:
    """Return query -> blank -> item -> probability: a mapping, for equal ones have no order."""
    answers: Any = pipeline(queries, top_k=NUM_ITEMS)
    return [
        [{each["item"]: each["probability"] for each in slot["candidates"]} for slot in answer["slots"]]
        for answer in answers
    ]


def text_answers(name: str, directory: Path) -> list[Any]:
    """Return the answers to ten queries: labels with probabilities, answers, or probabilities of hidden words."""
    if name == "answers":
        found: Any = QuestionAnsweringPipeline.from_pretrained(directory)(question_queries())
        return [{key: value for key, value in each.items() if key != "notes"} for each in found]
    if name == "hidden_words":
        return _hidden_words(directory)
    pipeline = TextPipeline.from_pretrained(directory)
    return [dict(each) for each in pipeline(text_queries(has_words=name == "tags"))]  # pyright: ignore


@torch.no_grad()
def _hidden_words(directory: Path) -> list[list[float]]:
    """Return the probabilities of all words for the first word of each text, which is hidden."""
    model = ContextualBertForMaskedLM.from_pretrained(directory, attn_implementation="eager").eval()
    processor = ContextualBertProcessor.from_pretrained(directory)
    found: list[list[float]] = []
    for query in text_queries():
        text = " ".join(["[MASK]", *query["text"].split()[1:]])
        batch = processor(text=[text], context=[query["context"]])
        logits = model(**batch, logits_at="all").logits[0, 1]  # behind [CLS]
        found.append(logits.softmax(dim=-1).tolist())
    return found


def _openapi(folder: Path) -> Found:
    """Keep the server's description of a model."""
    return _digest_of(CompletionPipeline.from_pretrained(_set_run(SERVED, folder)))


def _openapi_of_texts(_: Path) -> Found:
    """Keep the server's description of models for texts: of a label, of tags, of answers."""
    processor = miniature_text_processor()
    config = ContextualBertConfig.from_schema(
        processor.schema, conditioning="global_state", vocab_size=23, type_vocab_size=2, **SIZES
    )
    return {
        "label": _digest_of(TextPipeline(ContextualBertForSequenceClassification(config), processor)),
        "tags": _digest_of(TextPipeline(ContextualBertForTokenClassification(config), processor, pair="none")),
        "answers": _digest_of(QuestionAnsweringPipeline(ContextualBertForQuestionAnswering(config), processor)),
    }


def _digest_of(pipeline: Any) -> Found:
    """Return the digest of a document, and the names in it for a difference that reads well."""
    document = create_app(pipeline).openapi()
    text = json.dumps(document, sort_keys=True, ensure_ascii=True)
    return {
        "sha256": sha256(text.encode()).hexdigest(),
        "paths": {path: sorted(operations) for path, operations in sorted(document["paths"].items())},
        "components": {
            name: sorted(schema.get("properties", {}))
            for name, schema in sorted(document["components"]["schemas"].items())
        },
    }


def _onnx(folder: Path) -> Found:
    """Keep the answers of an exported model."""
    output = folder / "exported"
    export_onnx(CompletionPipeline.from_pretrained(_set_run(SERVED, folder)), output, top_k=NUM_ITEMS)
    plain = [query for query in set_queries() if "guidance" not in query]
    return {"answers": set_answers(OnnxCompletionPipeline(output), plain)}
