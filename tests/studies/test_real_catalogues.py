from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from studies import real_catalogues

DAY = 86_400


def write_films(folder: Path, *, num_users: int = 40) -> Path:
    rows = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    for user in range(num_users):
        rows += [f"{user}\t{(user + film) % 30}\t{5 - film % 3}\t{DAY * (film // 8) + film}" for film in range(16)]
    (folder / "ml-100k.inter").write_text("\n".join(rows) + "\n", encoding="utf-8")
    users = ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token"]
    users += [f"{user}\t{20 + user}\t{'MF'[user % 2]}\tother\t85711" for user in range(num_users)]
    (folder / "ml-100k.user").write_text("\n".join(users) + "\n", encoding="utf-8")
    films = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"]
    films += [
        f'{film}\tThe "{film}"\t{1990 + film % 5 if film else "V"}\tAction Drama' for film in range(33)
    ]  # three are not liked
    (folder / "ml-100k.item").write_text("\n".join(films) + "\n", encoding="utf-8")
    return folder


def test_sets_are_films_that_a_person_liked_on_one_day(tmp_path: Path) -> None:
    sets, films = real_catalogues.films(write_films(tmp_path))
    first = sets.slice(0, 2).to_pylist()
    assert [each["items"] for each in first] == [["0", "1", "3", "4", "6", "7"], ["9", "10", "12", "13", "15"]]
    assert (first[0]["age"], first[0]["gender"]) == (20, "M")
    assert films["year"].to_pylist()[:2] == [None, 1991]
    assert films["genres"].to_pylist()[0] == ["Action", "Drama"]


def test_sets_are_what_a_customer_bought_on_a_day_of_november(tmp_path: Path) -> None:
    names = "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,SALES_PRICE"
    rows = [",".join(f'"{name}"' for name in names.split(","))]
    for customer in range(12):
        for day, product, amount in (("11/1/2000", "01", 1), ("11/1/2000", "02", 2), ("11/2/2000", "01", 1)):
            rows.append(f'"{day}","{customer:03}","45-49","115","11{product}","{product}","{amount}","9","60"')
    rows += ['"11/1/2000","001","45-49","115","1103","03","1","9","60"', rows[1].replace("11/1/", "12/1/")]
    (tmp_path / "ta_feng.csv").write_text("\ufeff" + "\n".join(rows) + "\n", encoding="utf-8")
    sets, products = real_catalogues.groceries(tmp_path / "ta_feng.csv")
    assert sets["items"].to_pylist() == [["01", "02"]] * 12  # one item alone is no set, and 03 has one buyer
    assert products.sort_by("id").to_pylist() == [
        {"id": "01", "subclass": "1101", "price": 60.0},
        {"id": "02", "subclass": "1102", "price": 30.0},
    ]


def test_rows_differ_in_features_and_in_what_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    cold = real_catalogues.write_real_data("ml-100k", write_films(tmp_path), folder)
    assert cold.cold_items
    sets = parquet.read_table(folder / "sets.parquet")["items"].to_pylist()
    assert {*parquet.read_table(folder / "items.parquet")["id"].to_pylist()} == {item for each in sets for item in each}
    rows = real_catalogues.real_rows("ml-100k", folder, epochs=1)
    assert all(name == recipe.name for name, recipe in rows.items())
    assert rows["ids"].set_task.catalogue is None
    assert rows["features"].split == rows["ids"].split != rows["features_cold"].split
    assert rows["item_knn_features_cold"].conditioning == "item_knn"
    asked = real_catalogues.Asked.of(str(folder / "sets.parquet"), cold, cold.cold_items, owner="customer_id")
    table = parquet.read_table(folder / "sets.parquet").take(cold.rows("test").tolist())
    assert len(asked.is_new) == sum(len(each) for each in table["items"].to_pylist()) == len(asked.owners)
    assert 0 < asked.is_new.mean() < 1


def test_no_row_is_named_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        real_catalogues.main(["ml-1m", str(tmp_path)])
