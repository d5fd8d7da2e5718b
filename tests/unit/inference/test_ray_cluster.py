"""Bulk completions on a local Ray cluster: the same folder, restarts and errors as in this process."""

import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from contextual_bert.data import ReadSettings, write_table
from contextual_bert.errors import ConfigurationError, ContextualBertError, DataError
from contextual_bert.inference import (
    BulkSettings,
    CompletionPipeline,
    RayCluster,
    complete_table,
    complete_table_on_ray,
)
from contextual_bert.inference.tables import ray_cluster
from tests.local_ray import local_ray

ray: Any = pytest.importorskip("ray")
SETTINGS = BulkSettings(keep=["who"], constraints={"repeats": True}, top_k=3, batch_size=4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with local_ray(2):
        yield RayCluster(num_workers=2)


@pytest.fixture
def sets(table: pa.Table, names: list[str], tmp_path: Path) -> Path:
    """The table in two chunks whose border lies within a file, with a type that is no plain one."""
    own = pa.array([None, [names[1]]] * 10, pa.list_(pa.string()))
    more = table.append_column("deny", own).set_column(
        0, "who", table.column("who").combine_chunks().dictionary_encode()
    )
    write_table(pa.concat_tables([more.slice(0, 8), more.slice(8)]), tmp_path / "sets.parquet")
    return tmp_path / "sets.parquet"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_the_folder_is_the_same_and_finished_files_are_kept(
    cluster: RayCluster, pipeline: CompletionPipeline, run: Path, sets: Path, tmp_path: Path
) -> None:
    here, there, seen = tmp_path / "here", tmp_path / "there", list[tuple[int, int]]()
    plain = complete_table(pipeline, sets, here, settings=SETTINGS, shard_size=6)
    there.mkdir()
    for name in ("_manifest.json", "part-00002.parquet"):  # as an interrupted run leaves them
        (there / name).write_bytes((here / name).read_bytes())
    (there / ".part-00000.parquet.17.partial").write_bytes(b"half")
    kept = (there / "part-00002.parquet").stat().st_mtime_ns

    def again(**more: Any) -> Any:
        return complete_table_on_ray(run, sets, there, settings=SETTINGS, shard_size=6, cluster=cluster, **more)

    report = again(progress=lambda *done: seen.append(done))
    assert files_of(there) == files_of(here)
    assert (there / "part-00002.parquet").stat().st_mtime_ns == kept
    assert (report.num_shards, report.num_kept, report.num_blanks) == (4, 1, plain.num_blanks)
    assert report.unknown == plain.unknown
    assert report.computed_by.startswith("computed by ")
    assert sorted(seen) == seen
    assert (seen[0], seen[-1], len(seen)) == ((6, 20), (20, 20), 4)

    assert again().num_kept == 4  # and starts no worker
    with pytest.raises(ConfigurationError, match="another keep, constraints, top_k"):
        complete_table_on_ray(run, sets, there, settings=BulkSettings(top_k=2), shard_size=6, cluster=cluster)
    with pytest.raises(ConfigurationError, match=r"connected to Ray already\. Leave the address out"):
        complete_table_on_ray(
            run, sets, tmp_path / "new", settings=SETTINGS, cluster=RayCluster(address="auto"), shard_size=6
        )
    with pytest.raises(ConfigurationError, match="device='cuda' is not there: the Ray cluster has no GPU"):
        complete_table_on_ray(run, sets, tmp_path / "new", settings=SETTINGS, cluster=RayCluster(device="cuda"))
    assert not (tmp_path / "new").exists(), "what cannot start leaves no folder"
    assert ray_cluster.workers_of(RayCluster()) == ("cpu", 2)


@pytest.mark.slow
def test_a_catalogue_is_read_as_said_on_each_worker(
    cluster: RayCluster, run: Path, sets: Path, names: list[str], tmp_path: Path
) -> None:
    shop = tmp_path / "shop.csv"
    shop.write_text("id;price\n" + "".join(f"{name};1.0{n:02},50\n" for n, name in enumerate(names)), encoding="utf-8")
    reading = ReadSettings(delimiter=";", decimal=",")
    settings = replace(SETTINGS, constraints={"max_price": 1003.5}, catalogue_reading=reading)
    pipeline = CompletionPipeline.from_pretrained(run, catalogue=shop, reading=reading)
    complete_table(pipeline, sets, tmp_path / "here", settings=settings, shard_size=6)
    complete_table_on_ray(
        run, sets, tmp_path / "there", settings=settings, catalogue=shop, shard_size=6, cluster=cluster
    )
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    proposed = parquet.read_table(tmp_path / "there" / "part-00000.parquet").column("candidates").to_pylist()
    assert {item for each in proposed for item in each} <= {*names[:4]}
    assert any(proposed)


@pytest.mark.slow
def test_a_faulty_row_is_the_same_error(
    cluster: RayCluster, pipeline: CompletionPipeline, table: pa.Table, run: Path, names: list[str], tmp_path: Path
) -> None:
    denied = pa.array([[names[0]]] * 13 + [[names[0], None]] + [[names[0]]] * 6)
    write_table(table.append_column("deny", denied), tmp_path / "sets.parquet")
    with pytest.raises(DataError) as here:
        complete_table(pipeline, tmp_path / "sets.parquet", tmp_path / "here", settings=SETTINGS, shard_size=6)
    with pytest.raises(DataError) as there:
        complete_table_on_ray(
            run,
            tmp_path / "sets.parquet",
            tmp_path / "there",
            settings=SETTINGS,
            shard_size=6,
            cluster=replace(cluster, num_workers=1),
        )
    assert str(there.value) == str(here.value)
    assert vars(there.value) == vars(here.value)
    assert (there.value.row, there.value.column) == (13, "deny")
    whole = files_of(tmp_path / "here")
    made = files_of(tmp_path / "there")
    assert made["_manifest.json"] == whole["_manifest.json"]
    assert set(made) <= {"_manifest.json", *(f"part-0000{number}.parquet" for number in (0, 1, 3))}
    assert ray.is_initialized(), "a connection of the caller's stays"


def test_without_ray_it_says_what_to_install(
    run: Path, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"needs Ray Data. Install it: pip install 'contextual-bert\[distrib"):
        complete_table_on_ray(run, table, tmp_path / "out", settings=SETTINGS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_workers": 0}, "num_workers=0 is not allowed. Give 1 or more"),
        ({"device": "mps"}, "device='mps' on Ray. Known: auto, cpu, cuda"),
        ({"device": "cud"}, "Did you mean 'cuda'"),
        ({"address": "ray://head:10001"}, "ray_address='ray://head:10001' is the address of a Ray client.*'auto'"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        RayCluster(**fields)


def test_an_address_where_nobody_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConfigurationError, match=f"ray_address='{address}' answers nothing.*ray start --head"):
        ray_cluster.connected(RayCluster(address=address)).__enter__()
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(ConfigurationError, match="ray_address='ray://head:10001' is the address of a Ray client"):
        ray_cluster.connected(RayCluster()).__enter__()


def test_errors_of_ray_itself_become_sentences(tmp_path: Path) -> None:
    died = ray.exceptions.RayActorError(error_msg="It died.\nNo module named 'contextual_bert'")
    with (
        pytest.raises(ConfigurationError, match=r"No module named 'contextual_bert'\. Install the same version"),
        ray_cluster.lost_workers(tmp_path),
    ):
        raise died
    lost = ray.exceptions.RayActorError(error_msg="The node died.\nMuch more.")
    with (
        pytest.raises(ContextualBertError, match=r"lost its workers: The node died\. Finished files in .* are kept"),
        ray_cluster.lost_workers(tmp_path),
    ):
        raise lost
    bug = ray.exceptions.UserCodeException("a bug keeps its traceback")
    with pytest.raises(ray.exceptions.UserCodeException), ray_cluster.lost_workers(tmp_path):
        raise bug
