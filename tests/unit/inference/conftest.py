"""A miniature pipeline, its run directory, and a table for it: what bulk completions are tested on."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.testing import miniature_model, miniature_processor


@pytest.fixture(scope="session")
def pipeline() -> CompletionPipeline:
    return CompletionPipeline(miniature_model("global_state_update"), miniature_processor())


@pytest.fixture(scope="session")
def run(pipeline: CompletionPipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    pipeline.model.save_pretrained(folder)
    pipeline.processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def names(pipeline: CompletionPipeline) -> list[str]:
    return list(pipeline.processor.items.values)


@pytest.fixture(scope="session")
def table(pipeline: CompletionPipeline, names: list[str]) -> pa.Table:
    """20 sets with 25 blanks; some have items that the model does not know."""
    sets = [[names[0]], [names[1], "[MASK]", "[MASK]"], [], [names[2], "never seen"]] * 5
    schema = pipeline.processor.schema
    assert schema is not None
    columns: dict[str, Any] = {}
    for feature in schema.features:
        if feature.kind == "numerical":
            columns[feature.name] = pa.array([20.0 + row for row in range(len(sets))])
        elif feature.kind == "categorical":
            columns[feature.name] = pa.array([["x", None][row % 2] for row in range(len(sets))])
        elif feature.kind == "multi_categorical":
            columns[feature.name] = pa.array([None] * len(sets), pa.list_(pa.string()))
        else:
            columns[feature.name] = pa.array([None] * len(sets), pa.list_(pa.float64()))
    return pa.table({"who": [f"customer {row}" for row in range(len(sets))], "items": sets, **columns})
