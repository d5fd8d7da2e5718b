"""Codes that look like numbers keep their spelling from the file to the answer, in each command."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.context import ContextSchema, Vocabulary, encode_records, encode_table
from contextual_bert.data import read_table, split_by_row, table_digest
from contextual_bert.errors import DataError
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.runs import prepare
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.runs.label_names import label_names
from contextual_bert.training import Recipe, SetCompletion

VERSIONS = ("10.1", "10.10", "9.2", "9.20")


def write_csv(path: Path, *, repeats: int = 20) -> Path:
    codes = [(n, version, f"{n}.{version.partition('.')[2]}") for n in range(repeats) for version in VERSIONS]
    rows = [f'"coat-{n % 3},hat-{n % 2}",{version},{who}' for n, version, who in codes]
    path.write_text("\n".join(["items,version,who", *rows]) + "\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "days.csv")


def schema_of(path: Path) -> ContextSchema:
    recipe = Recipe(data=str(path), task=SetCompletion(items="items"), customer="who", split_by="row")
    found = inspect_table(recipe, overrides={"version": "categorical"}).schema
    assert found is not None
    return found


def test_an_overridden_column_keeps_all_of_its_values_in_inspect_and_train(path: Path) -> None:
    schema = schema_of(path)
    assert schema.feature("version").vocabulary.values == VERSIONS
    recipe = Recipe(
        data=str(path), task=SetCompletion(items="items"), customer="who", split_by="row", schema=schema.to_dict()
    )
    ready = prepare(recipe)
    assert {*ready.datasets["train"].context["version"].tolist()} == {2, 3, 4, 5}
    assert {"7.1", "7.10", "7.2", "7.20"} <= {*ready.examples.table["who"].to_pylist()}


def test_the_same_values_of_a_table_and_of_a_record_get_the_same_ids(path: Path) -> None:
    schema = schema_of(path)
    table = read_table(path, code_columns=schema.code_columns)
    ids = encode_table(schema, table).tensors["version"].tolist()[:4]
    assert ids == encode_records(schema, [{"version": version} for version in VERSIONS]).tensors["version"].tolist()
    assert len({*ids}) == 4


@pytest.mark.parametrize("told", ["3", 3, 3.0])
def test_a_run_of_whole_numbers_knows_them_however_they_are_told(tmp_path: Path, told: object) -> None:
    table = pa.table({"items": [["a", "b"]] * 40, "floor": [3, 4] * 20})
    parquet.write_table(table, tmp_path / "a.parquet")
    recipe = Recipe(data=str(tmp_path / "a.parquet"), task=SetCompletion(items="items"))
    schema = inspect_table(recipe, overrides={"floor": "categorical"}).schema
    assert schema is not None
    assert encode_records(schema, [{"floor": told}]).tensors["floor"].tolist() == [2]
    (tmp_path / "b.csv").write_text(f"floor\n{told}\n4\n")
    read = read_table(tmp_path / "b.csv", code_columns=schema.code_columns)
    assert encode_table(schema, read).tensors["floor"].tolist() == [2, 3]


def test_a_split_fits_the_table_whatever_was_read_as_text(path: Path) -> None:
    plain, spelt = read_table(path), read_table(path, code_columns=("version", "who"))
    assert plain.schema.field("version").type == pa.float64()
    assert spelt.schema.field("version").type == pa.string()
    assert table_digest(plain) == table_digest(spelt) == table_digest(read_table(path, text_columns=("who",)))
    split_by_row(plain, validation=0.1, test=0.1).check(spelt)


def test_numbers_that_are_written_as_numbers_are_keep_their_type(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,half,flag,marked\n1,0.5,true,7\n12,2.5,false,NA\n")
    table = read_table(tmp_path / "a.csv", code_columns=("id", "half", "flag", "marked"))
    assert table.schema.types == [pa.int64(), pa.float64(), pa.bool_(), pa.int64()]


def test_a_missing_mark_among_codes_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("code\n1.10\nNA\n")
    assert read_table(tmp_path / "a.csv", code_columns=("code",))["code"].to_pylist() == ["1.10", None]


def test_customers_of_two_spellings_are_two(path: Path) -> None:
    table = read_table(path, code_columns=("who",))
    assert len(table["who"].unique()) == 80


def test_items_of_one_a_row_are_spelt_as_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("items,age\n" + "".join(f"{each},3\n" for each in VERSIONS * 10))
    ready = prepare(Recipe(data=str(tmp_path / "a.csv"), task=SetCompletion(items="items")))
    assert ready.processor.items.values == tuple(sorted(VERSIONS))


def test_the_names_and_codes_of_a_catalogue_are_spelt_as_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(
        "id,price,version,weight\n" + "".join(f"{each},9.50,{each},{n}.50\n" for n, each in enumerate(VERSIONS))
    )
    catalogue = Catalogue(tmp_path / "shop.csv", Vocabulary(VERSIONS))
    assert (catalogue.unlisted_items, catalogue.unknown_items) == ((), ())
    assert catalogue.prices.tolist() == [9.5] * 4
    version, weight = catalogue.attribute("version"), catalogue.attribute("weight")
    assert version.has_one_of(["10.10"]).tolist() == [False, True, False, False]
    assert version.numbers is not None
    assert version.numbers.tolist() == [10.1, 10.1, 9.2, 9.2]
    assert weight.has_one_of(["1.5"]).tolist() == [False, True, False, False]


def test_the_column_of_names_is_found_by_its_spelling(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("code,other\n1.10,1.1\n1.20,1.3\n")
    assert Catalogue(tmp_path / "shop.csv", Vocabulary(["1.10", "1.20"])).id_column == "code"


def test_labels_that_are_codes_are_classes_and_numbers_with_a_fraction_are_none() -> None:
    assert label_names(pa.chunked_array([[*VERSIONS]]), "a.csv", "label") == tuple(sorted(VERSIONS))
    with pytest.raises(DataError, match=r"the label 1\.50 is no whole number"):
        label_names(pa.chunked_array([["1.50", "2.25"]]), "a.csv", "label")
