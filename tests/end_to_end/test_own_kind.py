"""A kind of feature that is defined here goes all the way, as the ones of the library do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    Feature,
    FeatureLayout,
    encode_records,
    encode_table,
    infer_schema,
    record_sentences,
    register_kind,
    table_sentences,
)
from contextual_bert.context.kinds import KINDS, EncodedColumn, Finding, InferenceSettings
from contextual_bert.errors import ConfigurationError, DataError, SchemaError
from contextual_bert.inference import CompletionPipeline, OnnxCompletionPipeline, explain, export_onnx
from contextual_bert.runs import run
from contextual_bert.server import create_app
from contextual_bert.training import Recipe, SetCompletion

MINUTES = 24 * 60
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


class Circle(nn.Module):
    """Maps the place on a circle; the place of a missing time is its centre."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(2, size)

    def forward(self, values: Tensor) -> Tensor:
        return self.projection(values[:, :2] * (1 - values[:, 2:]))

    def for_export(self) -> nn.Module:
        return Circle.of(self.projection)

    @classmethod
    def of(cls, projection: nn.Linear) -> nn.Module:
        module = cls(projection.out_features)
        module.projection = projection
        return module


class TimeOfDay(Feature, frozen=True):
    """The time of a day, such as "14:30", as a place on a circle: 23:59 is near 00:00."""

    form: ClassVar[Literal["vector"]] = "vector"
    reserved: ClassVar[tuple[str, ...]] = ()

    kind: Literal["time_of_day"] = "time_of_day"

    @property
    def layout(self) -> FeatureLayout:
        return FeatureLayout(self.name, self.kind, 0, 2, self.embedding_size or 4)

    @property
    def record_type(self) -> pa.DataType:
        return pa.string()

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        cells = array.drop_null().to_pylist() if pa.types.is_string(array.type) else []
        return bool(cells) and all(_minutes(cell) is not None for cell in cells)

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        return Finding("time_of_day", "times of a day", len(array.unique()), (cls(name=column),))

    @classmethod
    def own_module(cls, layout: FeatureLayout) -> nn.Module:
        return Circle(layout.embedding_size)

    def read_value(self, value: object) -> str:
        if not isinstance(value, str) or _minutes(value) is None:
            raise DataError(f"{value!r} is no time of a day", fix="Give hours and minutes: 14:30.")
        return value

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        values = np.zeros((len(array), 3), np.float32)
        for row, cell in enumerate(array.to_pylist()):
            minutes = _minutes(cell) if cell else None
            if cell and minutes is None:
                raise DataError(f"{cell!r} is no time of a day", file=file, row=row, column=self.column)
            angle = 2 * np.pi * (minutes or 0) / MINUTES
            values[row] = (np.sin(angle), np.cos(angle), 0) if minutes is not None else (0, 0, 1)
        return EncodedColumn(values)

    def names(self, values: NDArray[Any]) -> NDArray[np.str_]:
        is_morning = np.where(values[:, 0] > 0, "before noon", "after noon")
        return np.where(values[:, -1] > 0, "(missing)", is_morning)

    def json_schema(self) -> dict[str, Any]:
        return {"type": ["string", "null"], "pattern": "^[0-9]{2}:[0-9]{2}$", "description": "Hours and minutes."}


def _minutes(cell: str) -> int | None:
    hours, _, minutes = cell.partition(":")
    is_time = len(cell) == 5 and hours.isdecimal() and minutes.isdecimal()
    return int(hours) * 60 + int(minutes) if is_time and int(hours) < 24 and int(minutes) < 60 else None


@pytest.fixture(scope="module", autouse=True)
def _known() -> Iterator[None]:
    register_kind(TimeOfDay)
    yield
    del KINDS["time_of_day"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Baskets with an item of any time and one of the morning or the evening, with a column of times."""
    draw = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {"items": [], "time": [], "sex": []}
    for row in range(240):
        hour = int(draw.integers(6, 22))
        first = 0 if hour < 12 else 5
        rows["items"].append([f"any-{draw.integers(5)}", f"item-{first + draw.integers(5)}"])
        rows["time"].append(f"{hour:02d}:{row % 60:02d}" if row % 20 else None)
        rows["sex"].append(str(draw.choice(["f", "m"])))
    return pa.table(rows)


@pytest.fixture(scope="module")
def directory(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own-kind")
    pq.write_table(table, folder / "sets.parquet")
    recipe = Recipe(
        data=str(folder / "sets.parquet"),
        task=SetCompletion(items="items"),
        conditioning="global_state",
        validation=0.2,
        test=0.2,
        model=SIZES,
        training={
            "num_train_epochs": 20,
            "per_device_train_batch_size": 16,
            "learning_rate": 1e-2,
            "field_dropout": 0.1,
        },
        device="cpu",
    )
    run(recipe, folder / "run", is_quiet=True)
    return folder / "run"


def test_it_is_inferred_and_its_schema_travels_as_json(table: pa.Table) -> None:
    found = infer_schema(table, exclude=["items"])
    assert found.schema.feature("time") == TimeOfDay(name="time")
    assert [note.kind for note in found.notes] == [None, "time_of_day", "categorical"]
    assert ContextSchema.from_json(found.schema.to_json()) == found.schema
    asked = infer_schema(
        table.append_column("note", table["time"]), exclude=["items"], overrides={"note": "time_of_day"}
    )
    assert isinstance(asked.schema.feature("note"), TimeOfDay)


def test_a_record_and_a_row_of_a_table_are_encoded_alike() -> None:
    schema = ContextSchema(features=(TimeOfDay(name="time"), TimeOfDay(name="secret", sensitive=True)))
    cells = ["06:00", None, "23:59"]
    of_table = encode_table(schema, pa.table({"time": pa.array(cells), "secret": pa.array(cells)}))
    of_records = encode_records(schema, [{"time": each, "secret": each} for each in cells])
    for name, tensor in of_table.tensors.items():
        assert torch.equal(tensor, of_records.tensors[name])
    assert of_table.tensors["time"][0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    with pytest.raises(DataError, match="row 2, column 'time': '25:00' is no time of a day"):
        encode_table(schema, pa.table({"time": ["06:00", "25:00"], "secret": ["06:00", "06:00"]}))
    with pytest.raises(DataError, match=r"\(withheld\)") as caught:
        encode_records(schema, [{"secret": "25:00"}])
    assert "25:00" not in str(caught.value)


def test_it_is_said_in_words() -> None:
    schema = ContextSchema(features=(TimeOfDay(name="time_of_day"),))
    said = table_sentences(schema, pa.table({"time_of_day": pa.array(["06:00", None])}))["time_of_day"].to_pylist()
    assert said == ["time of day: 06:00.", None]
    assert record_sentences(schema, [{"time_of_day": "06:00"}])["time_of_day"].to_pylist() == said[:1]


def test_a_run_learns_from_it_reports_on_it_and_answers(directory: Path) -> None:
    pipeline: Any = CompletionPipeline.from_pretrained(directory)
    assert [*pipeline.model.bert.context_encoder.features] == ["time", "sex"]
    assert isinstance(pipeline.model.bert.context_encoder.features["time"], Circle)
    for time, first in (("07:00", 0), ("20:00", 5)):
        [slot] = pipeline({"items": ["any-1", "[MASK]"], "context": {"time": time}})["slots"]
        right = {f"item-{first + number}" for number in range(5)}
        assert sum(each["probability"] for each in slot["candidates"] if each["item"] in right) > 0.7
    found = explain(pipeline, {"items": ["[MASK]"], "context": {"time": "07:00", "sex": "f"}})
    assert {field.field: field.value for field in found.fields}["time"] == "before noon"
    with pytest.raises(DataError, match="is no time of a day"):
        pipeline({"items": ["[MASK]"], "context": {"time": "7 o'clock"}})
    segments = json.loads((directory / "metrics.json").read_text())["validation"]["segments"]
    assert {"before noon", "after noon"} <= {each["value"] for each in segments if each["feature"] == "time"}


def test_clients_see_its_schema(directory: Path) -> None:
    client = TestClient(create_app(CompletionPipeline.from_pretrained(directory)))
    context = client.get("/openapi.json").json()["components"]["schemas"]["Context"]
    assert context["properties"]["time"]["pattern"] == "^[0-9]{2}:[0-9]{2}$"
    [described, _] = client.get("/v1/schema").json()["features"]
    assert (described["kind"], described["reads"], described["values"]) == ("time_of_day", "time", None)


@pytest.mark.slow
def test_an_export_answers_as_its_run(directory: Path, tmp_path: Path) -> None:
    query = {"items": ["item-1", "[MASK]"], "context": {"time": "07:00"}}
    export_onnx(directory, tmp_path / "exported")
    exported: Any = OnnxCompletionPipeline.from_pretrained(tmp_path / "exported")(query)
    own: Any = CompletionPipeline.from_pretrained(directory)(query)
    pairs = zip(exported["slots"][0]["candidates"], own["slots"][0]["candidates"], strict=True)
    assert all(one["probability"] == pytest.approx(other["probability"], abs=1e-5) for one, other in pairs)


def test_a_kind_has_a_name_of_its_own() -> None:
    class Nameless(Feature, frozen=True):
        pass

    class Impostor(TimeOfDay, frozen=True):
        kind: Literal["categorical"] = "categorical"  # pyright: ignore[reportIncompatibleVariableOverride]

    with pytest.raises(ConfigurationError, match="Nameless has no kind"):
        register_kind(Nameless)
    with pytest.raises(ConfigurationError, match="already Categorical"):
        register_kind(Impostor)
    assert register_kind(Categorical) is Categorical
    with pytest.raises(SchemaError, match=r"unknown kind 'time_of_dya'. Did you mean 'time_of_day'"):
        ContextSchema.from_dict({"features": [{"kind": "time_of_dya", "name": "time"}]})
