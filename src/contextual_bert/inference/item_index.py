"""An index of the output matrix: items of high logits without a product with every row.

faiss keeps the rows, 2 bits a number, in lists of near ones. A search reads the lists whose centres score best; where
not every item is permitted, it reads all. It knows arrays, and imports no torch. Not in the papers.
Reference: Jegou et al. (2011), "Product Quantization for Nearest Neighbor Search"; Andre et al. (2015), "Cache locality
is not enough"; Douze et al. (2024), "The Faiss library"; docs/decisions/062.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.exported.onnx_model import check_installed
from contextual_bert.inference.output_rows import Floats, Ids, OutputRows
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.manifest import model_digests
from contextual_bert.places import PathPlace

SHORTLIST = 1024  # ids that a search gives
RECALL, MEASURED_TOP_K = 0.99, 10
INDEX_FOLDER, INDEX_FILE, INDEX_RECORD_FILE = "index", "items.faiss", "index.json"
FORMAT = "contextual-bert index 1"
REBUILD = "Make it anew: contextual-bert index RUN."
_ROWS_PER_LIST, _ROUNDS = 64, 8  # of k-means
_BITS, _NUMBERS = 4, 2  # of a code, and numbers of a row that one stands for
_SHARES = (1.0, 0.3, 0.1)  # of permitted items, drawn at random, that the recall is measured with


@dataclass(frozen=True)
class IndexRecord:
    """What ``index.json`` says.

    Args:
        files: name of a file of the model -> its SHA-256, as ``model_digests`` gives them.
        num_items: rows that the index holds.
        first_id: the id of the first one.
        num_scanned: how many rows the lists of one search hold, where every item is permitted.
        recall: share of permitted items -> how many of the ten best were found, of ``num_states`` searches.
        milliseconds: of one search and of one product with all rows, medians.
    """

    files: Mapping[str, str]
    num_items: int
    first_id: int
    num_scanned: int
    recall: Mapping[str, float]
    num_states: int
    milliseconds: Mapping[str, float]
    format: str = FORMAT


class ItemIndex:
    """Lists of near rows of an output matrix.

    Args:
        lists: faiss' index, whose ids count from 0.
        record: what it was made from, and how it is searched.

    Example:
        >>> rows = OutputRows(np.eye(300, 8, dtype=np.float32), np.zeros(300, np.float32))
        >>> index = ItemIndex.build(rows, first_id=2, states=np.eye(4, 8, dtype=np.float32), files={})
        >>> int(index.search(np.eye(1, 8, 5, dtype=np.float32)[0])[0])
        5
    """

    def __init__(self, lists: Any, record: IndexRecord) -> None:
        self.lists, self.record = lists, record

    @classmethod
    def build(
        cls,
        rows: OutputRows,
        *,
        first_id: int,
        states: Floats,
        files: Mapping[str, str],
        recall: float = RECALL,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Sort the rows into lists, and find how many rows a search has to read.

        Args:
            rows: of all ids, reserved ones first.
            first_id: of the first item; what is before it is not searched.
            states: (n, size): what the model asks for in earnest, to measure the recall with.
            files: of the model.
            recall: how many of the ten best are to be found, in the mean.
            progress: called with a sentence at each step.

        Raises:
            ConfigurationError: faiss is not installed.
        """
        faiss = _faiss()
        own = rows.extended(slice(first_id, None), multiple=_NUMBERS)
        num_items, size = own.shape
        num_lists = max(1, min(num_items // 64, int(0.5 * num_items**0.5)))
        progress(f"sorting {num_items:,} items into {num_lists:,} lists")
        means = faiss.Kmeans(
            size, num_lists, niter=_ROUNDS, seed=0, max_points_per_centroid=_ROWS_PER_LIST, min_points_per_centroid=1
        )
        means.train(own)
        near = faiss.IndexFlatL2(size)
        near.add(means.centroids)
        lists: Any = faiss.IndexIVFPQFastScan(
            near, size, num_lists, size // _NUMBERS, _BITS, faiss.METRIC_INNER_PRODUCT
        )
        lists.by_residual = False  # a code is of the row itself, so that it stands for the same in every list
        lists.pq.cp.min_points_per_centroid = 1
        lists.train(own)
        lists.add(own)
        record = IndexRecord(files, num_items, first_id, num_items, {}, len(states), {})
        progress(f"measuring on {len(states):,} sets")
        return cls(lists, record)._tuned(rows, states, recall)

    def _tuned(self, rows: OutputRows, states: Floats, recall: float) -> Self:
        """Return the index with the smallest ``num_scanned`` that finds enough, and what was measured with it."""
        first, num_items = self.record.first_id, self.record.num_items
        generator = np.random.default_rng(0)
        masks: list[NDArray[np.bool_] | None] = []
        for share in _SHARES:
            mask = generator.random(first + num_items) < share
            mask[:first] = False
            masks.append(None if share == 1 else mask)
        whole, best = [], [[] for _ in masks]
        for state in states:
            start = time.perf_counter()
            logits = rows.scores(state)
            whole.append(time.perf_counter() - start)
            logits[:first] = -np.inf
            for found, mask in zip(best, masks, strict=True):
                permitted = logits if mask is None else np.where(mask, logits, -np.inf)
                found.append(np.argpartition(-permitted, MEASURED_TOP_K - 1)[:MEASURED_TOP_K])
        num_scanned, found, seconds = SHORTLIST, 0.0, 0.0
        while True:
            tried = type(self)(self.lists, replace(self.record, num_scanned=num_scanned))
            found, seconds = tried._recall(rows, states, best[0], None)
            if found >= recall or num_scanned >= num_items:
                break
            # To read most is not much faster than to read all.
            num_scanned = 2 * num_scanned if 4 * num_scanned < num_items else num_items
        recalls = {f"{_SHARES[0]:g}": found}
        for share, ids, mask in zip(_SHARES[1:], best[1:], masks[1:], strict=True):
            recalls[f"{share:g}"] = tried._recall(rows, states, ids, mask)[0]
        times = {"search": 1e3 * seconds, "product": 1e3 * float(np.median(whole))}
        return type(self)(self.lists, replace(tried.record, recall=recalls, milliseconds=times))

    def _recall(
        self, rows: OutputRows, states: Floats, best: list[Ids], mask: NDArray[np.bool_] | None
    ) -> tuple[float, float]:
        """Return how many of the best ids are found, and the seconds of one search, the median."""
        hits, seconds = 0, []
        for state, wanted in zip(states, best, strict=True):
            start = time.perf_counter()
            ids = self.search(state, mask)
            scores = rows.scores(state, ids)
            ids = ids[np.argsort(-scores)[: len(wanted)]]
            seconds.append(time.perf_counter() - start)
            hits += len(np.intersect1d(ids, wanted))
        return hits / sum(map(len, best)), float(np.median(seconds))

    @cached_property
    def _centres(self) -> Floats:
        """(lists, size + 1, or one more)."""
        return self.lists.quantizer.reconstruct_n(0, self.lists.nlist)

    @cached_property
    def _sizes(self) -> Ids:
        """How many rows each list holds."""
        return np.array([self.lists.invlists.list_size(number) for number in range(self.lists.nlist)])

    def _lists_for(self, query: Floats) -> Ids:
        """Return the lists to read, best centre first: those that together hold as many rows as a search reads."""
        order = np.argsort(-(self._centres @ query))
        held = np.cumsum(self._sizes[order])
        return order[: 1 + int(np.searchsorted(held, self.record.num_scanned))]

    def search(self, state: Floats, permitted: NDArray[np.bool_] | None = None, *, num: int = SHORTLIST) -> Ids:
        """Return ids of items with high logits, not in order: at most ``num``, and fewer where fewer are permitted.

        Shapes:
            state (size,); permitted (vocabulary,) -> (n,).

        Args:
            state: what the output matrix reads.
            permitted: which ids may be found; None for all.
            num: ids.
        """
        faiss = _faiss()
        query = np.zeros((1, self.lists.d), np.float32)
        query[0, : len(state)], query[0, len(state)] = state, 1
        # What is permitted may lie anywhere: then all lists are read, and few rows of them are compared.
        is_whole = permitted is not None or self.record.num_scanned >= self.record.num_items
        chosen_lists = np.arange(self.lists.nlist) if is_whole else self._lists_for(query[0])
        lists = np.ascontiguousarray(chosen_lists[None])
        own = slice(self.record.first_id, self.record.first_id + self.record.num_items)
        bits = np.packbits(permitted[own], bitorder="little") if permitted is not None else None
        chosen = faiss.IDSelectorBitmap(bits) if bits is not None else None
        settings = faiss.SearchParametersIVF(sel=chosen, nprobe=lists.shape[1])
        # The scores of the centres are not read. faiss' own wrapper in Python takes no settings here.
        scores, ids = np.empty((1, num), np.float32), np.empty((1, num), np.int64)
        arrays = (query, lists, np.zeros(lists.shape, np.float32), scores, ids)
        asked, *rest = (faiss.swig_ptr(each) for each in arrays)
        self.lists.search_preassigned_c(1, asked, num, *rest, False, settings)
        return ids[ids >= 0] + self.record.first_id

    def save(self, folder: Path) -> None:
        """Write the two files into a folder that is there."""
        faiss = _faiss()
        faiss.write_index(self.lists, str(folder / INDEX_FILE))
        (folder / INDEX_RECORD_FILE).write_text(json_text(asdict(self.record), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the index of a folder.

        Raises:
            RunDirectoryError: a file is missing or damaged.
            ConfigurationError: faiss is not installed.
        """
        faiss = _faiss()
        folder = Path(folder)
        path = folder / INDEX_RECORD_FILE
        given = read_json_object(path, fix=REBUILD)
        try:
            record = TypeAdapter(IndexRecord).validate_python(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise RunDirectoryError(
                f"is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}", fix=REBUILD, place=PathPlace(path)
            ) from None
        path = folder / INDEX_FILE
        try:
            lists: Any = faiss.read_index(str(path))
        except Exception as error:  # faiss raises RuntimeError, of the length of its own source
            raise RunDirectoryError("is missing or damaged", fix=REBUILD, place=PathPlace(path)) from error
        if lists.ntotal != record.num_items:
            raise RunDirectoryError(
                f"holds {lists.ntotal:,} items, and {INDEX_RECORD_FILE} says {record.num_items:,}",
                fix=REBUILD,
                place=PathPlace(path),
            )
        return cls(lists, record)


@cache
def _faiss() -> Any:
    check_installed("faiss", extra="index")
    import faiss  # noqa: PLC0415  (an optional extra)

    return faiss


def index_of(run: Path) -> tuple[ItemIndex | None, list[str]]:
    """Return the index in the folder of a run, and notes: on one that is older than its weights, or without faiss.

    Raises:
        RunDirectoryError: the index is damaged.
    """
    folder = run / INDEX_FOLDER
    if not (folder / INDEX_RECORD_FILE).is_file():
        return None, []
    exact = "All items are ranked, which takes longer."
    if find_spec("faiss") is None:
        return None, [f"{folder} is not used: it needs faiss. Run: pip install 'contextual-bert[index]'. {exact}"]
    index = ItemIndex.load(folder)
    if dict(index.record.files) != model_digests(run):
        return None, [f"{folder} is not used: it is of other weights. Run: contextual-bert index {run}. {exact}"]
    return index, [
        f"{folder} ranks the items: of the ten best it found {index.record.recall['1']:.1%} when it was made, and the "
        "probabilities are estimates. --exact ranks all items."
    ]
