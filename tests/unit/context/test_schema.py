import json

import pytest

from contextual_bert.context import (
    Categorical,
    ContextSchema,
    FeatureLayout,
    MultiCategorical,
    Numerical,
    Vector,
    default_embedding_size,
)
from contextual_bert.errors import ConfigurationError, SchemaError, UnknownNameError


def test_json_round_trip_keeps_everything_and_the_digest(schema, tmp_path):
    sized = schema.with_embedding_sizes({"age": 16})
    path = tmp_path / "schema.json"
    sized.save(path)
    for again in (ContextSchema.load(path), ContextSchema.from_json(sized.to_json())):
        assert again == sized
        assert again.digest == sized.digest
        assert again.layout == sized.layout
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.json"]
    assert sized.digest != schema.digest


def test_the_digest_is_the_same_on_every_machine_and_in_every_version():
    schema = ContextSchema(
        features=(Categorical(name="sex", values=("f", "m")), Numerical(name="age", edges=(30, 60.5), embedding_size=4))
    )
    assert schema.digest == "05c117ee59967d64"


def test_names_columns_and_sizes(schema):
    assert schema.names == ("state", "age", "brands", "photo", "date_year", "date_month", "date_weekday")
    assert schema.columns == ("state", "age", "brands", "photo", "date")
    assert schema.context_size == sum(shape.embedding_size for shape in schema.layout)
    assert [shape.num_embeddings for shape in schema.layout] == [4, 4, 7, 0, 4, 14, 9]
    assert schema.layout[3] == FeatureLayout("photo", "vector", 0, 2, 2)


def test_default_embedding_sizes_grow_with_the_states_and_are_bounded():
    sizes = [default_embedding_size(number) for number in (2, 4, 10, 100, 1000, 10**6)]
    assert sizes == [2, 3, 6, 21, 64, 64]
    assert Vector(name="photo", size=512).layout.embedding_size == 64


def test_explicit_embedding_sizes(schema):
    changed = schema.with_embedding_sizes({"age": 16, "photo": 5})
    sizes = dict(zip(changed.names, (shape.embedding_size for shape in changed.layout), strict=True))
    assert (sizes["age"], sizes["photo"]) == (16, 5)
    assert sizes["state"] == schema.layout[0].embedding_size
    with pytest.raises(UnknownNameError, match="Did you mean 'age'"):
        schema.with_embedding_sizes({"agee": 16})
    with pytest.raises(SchemaError, match="embedding_size"):
        schema.with_embedding_sizes({"age": 0})


@pytest.mark.parametrize("context_size", [7, 8, 100, 736, 5001])
def test_the_context_has_exactly_the_size_asked_for(schema, context_size):
    sized = schema.with_context_size(context_size)
    assert sized.context_size == context_size
    assert min(shape.embedding_size for shape in sized.layout) >= 1
    assert sized == schema.with_context_size(context_size)


def test_sizes_stay_in_proportion():
    schema = ContextSchema(
        features=(
            Numerical(name="a", edges=(), embedding_size=10),
            Numerical(name="b", edges=(), embedding_size=20),
            Numerical(name="c", edges=(), embedding_size=10),
        )
    )
    assert [shape.embedding_size for shape in schema.with_context_size(736).layout] == [184, 368, 184]


def test_a_context_cannot_be_narrower_than_its_features(schema):
    with pytest.raises(ConfigurationError, match="7 or more"):
        schema.with_context_size(6)
    with pytest.raises(ConfigurationError, match="0 features"):
        ContextSchema(features=()).with_context_size(736)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numerical(name="age", edges=(30, 30)), r"feature 'age': the edges must rise strictly, but 30.0"),
        (lambda: Numerical(name="age", edges=(30, float("inf"))), "finite"),
        (lambda: Categorical(name="sex", values=("f", "f")), "'f' occurs twice"),
        (lambda: Categorical(name="sex", values=("[unknown]",)), "occurs twice"),
        (lambda: Categorical(name="sex", values=()), "feature 'sex': values is empty"),
        (
            lambda: Categorical(name="sex", values=("f",), num_buckets=0),
            "num_buckets: 0 is not allowed. Give 1 or more",
        ),
        (lambda: Categorical(name="sex", values=("f",), buckets=(0,)), "num_buckets says of how many"),
        (lambda: Categorical(name="sex", values=("f",), num_buckets=4, buckets=(1, 4)), "rise strictly"),
        (lambda: Categorical(name="sex", valeus=("f",)), "feature 'sex': unknown key 'valeus'. Did you mean 'values'"),
        (lambda: Categorical(name="user.sex", values=("f",)), "contains a dot"),
        (lambda: Categorical(name="month", values=("1",), part="month"), "needs source="),
        (lambda: Vector(name="photo", size=0), "size: 0 is not allowed. Give 1 or more"),
        (lambda: MultiCategorical(name="", values=("a",)), "name: '' is not allowed. Give one that is not empty"),
        (
            lambda: ContextSchema(features=(Numerical(name="a", edges=()), Numerical(name="a", edges=(1,)))),
            "the feature name 'a' occurs twice",
        ),
    ],
)
def test_a_faulty_description_is_an_error_when_it_is_made(make, message):
    with pytest.raises(SchemaError, match=message):
        make()


def test_descriptions_are_frozen(schema):
    with pytest.raises(ValueError, match="frozen"):
        schema.features[0].name = "other"


def test_equal_values_make_equal_categories():
    floors = Categorical(name="floor", values=(1, 2.0, "3"))
    assert floors.values == ("1", "2", "3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(fetures=[]), "unknown key 'fetures'. Did you mean 'features'"),
        (lambda values: values.update(version=2), "version"),
        (lambda values: values["features"][0].update(kind="categorial"), "unknown kind 'categorial'. Did you mean"),
        (lambda values: values["features"][0].update(kind=["categorical"]), "unknown kind"),
        (lambda values: values["features"][1].update(egdes=[]), "unknown key 'egdes'. Did you mean 'edges'"),
        (lambda values: values["features"][1].pop("edges"), "edges: it is missing"),
        (lambda values: values.pop("features"), "list under 'features'"),
    ],
)
def test_a_faulty_file_is_an_error_that_names_the_file_and_the_key(schema, tmp_path, change, message):
    values = schema.to_dict()
    change(values)
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(values))
    with pytest.raises(SchemaError, match=message) as caught:
        ContextSchema.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_an_editor_marked_as_utf_8_is_read(schema, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(schema.to_json(), encoding="utf-8-sig")
    assert ContextSchema.load(path) == schema


def test_a_missing_or_broken_file_is_an_error(tmp_path):
    with pytest.raises(SchemaError, match=r"nowhere.json: there is no such file"):
        ContextSchema.load(tmp_path / "nowhere.json")
    (tmp_path / "broken.json").write_text('{"features": [')
    with pytest.raises(SchemaError, match=r"broken.json: not JSON"):
        ContextSchema.load(tmp_path / "broken.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(SchemaError, match="an object with a list under 'features'"):
        ContextSchema.load(tmp_path / "list.json")


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(schema, tmp_path, monkeypatch):
    path = tmp_path / "schema.json"
    schema.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> str:
        raise OSError("No space left on device")

    monkeypatch.setattr(ContextSchema, "to_json", fail)
    with pytest.raises(OSError, match="No space left"):
        schema.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.json"]
