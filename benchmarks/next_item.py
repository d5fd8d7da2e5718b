"""Next-item recommendation with RecTools: its SASRec and BERT4Rec on sequences of MovieLens 100k, a peer of ours.

    python benchmarks/next_item.py FOLDER --source ML-100K                  # writes FOLDER/last.parquet, time.parquet
    python benchmarks/next_item.py FOLDER --table last --models sasrec,bert4rec --output RESULT.json

RecTools stands in a virtual environment of its own; benchmarks/README.md says how it is installed.

Tables have the columns user, items, age, gender, occupation and part. Rows of part train are learned. In rows of the
parts validation and test the last item is the target, and the items before it are known. Each evaluated row is given to
RecTools as a user of its own. All films of the training part are ranked, without those that are known; a target that
is not in the training part counts as missed. Rows with nothing known are left out and counted.

Settings are chosen one after the other: a change is kept where NDCG@10 of the validation part rises, with one seed.
The epoch is chosen on the validation part as well, in each training. The chosen settings are trained with three seeds.
Each finished training is kept in FOLDER and not done again.
"""

import argparse
import importlib.util
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

K = 10
SHARES = (0.8, 0.1)  # of the ratings, in the order of time: train and validation; the others are test
ABOUT = ("age", "gender", "occupation")
TABLES = ("last", "time")
MOST = 3  # settings that are tried for a model on a table
EVERY, PATIENCE, LONGEST = 5, 3, 150  # epochs between evaluations; evaluations without a gain; epochs at most
CHOSEN_ROWS = 2_500  # of the validation part, evenly spaced: enough to choose an epoch by
SEEDS = (0, 1, 2)
START: Mapping[str, Any] = {
    "session_max_len": 50,
    "whole_rows": False,
    "n_blocks": 2,
    "n_heads": 2,
    "n_factors": 64,
    "dropout_rate": 0.2,
    "loss": "softmax",
    "lr": 1e-3,
    "batch_size": 32,
}
CHANGES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    name: (
        {"session_max_len": 100, "whole_rows": True},
        {"dropout_rate": 0.5},
        {"n_factors": 128},
        other,
        {"session_max_len": 200},
    )
    for name, other in (
        ("sasrec", {"loss": "gBCE", "n_negatives": 256, "gbce_t": 0.75}),
        ("bert4rec", {"mask_prob": 0.3}),
    )
}
MODELS = ("popular", *CHANGES)


def read_tabs(path: Path) -> pa.Table:
    """Read a file of recbole, whose header has types behind the names."""
    names = [each.split(":")[0] for each in path.read_text(encoding="utf-8").split("\n", 1)[0].split("\t")]
    kinds = {"timestamp": pa.float64(), "age": pa.int64()}
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=names, skip_rows=1),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(column_types={name: kinds.get(name, pa.string()) for name in names}),
    )


def write_sequences(source: Path, folder: Path) -> None:
    """Write the sequences of MovieLens 100k as ``last.parquet`` and ``time.parquet``.

    Args:
        source: Folder with ``ml-100k.inter`` and ``ml-100k.user``, as recbole ships them. Every rating is an
            interaction. Ratings of the same second keep the order of the file.
        folder: Folder to write to. ``last`` leaves out the last two items of each user, one for validation and one for
            test. ``time`` has two borders in time: 80% of the ratings are train, 10% validation, 10% test. Each rating
            of the last two parts is a row.
    """
    ratings, users = (read_tabs(source / f"ml-100k.{name}") for name in ("inter", "user"))
    ratings = ratings.append_column("place", pa.array(range(ratings.num_rows)))
    ratings = ratings.sort_by([("timestamp", "ascending"), ("place", "ascending")])
    times = ratings["timestamp"].to_pylist()
    first, second = (times[round(share * len(times))] for share in (SHARES[0], sum(SHARES)))
    rated: dict[str, list[tuple[float, str]]] = {}
    for user, item, moment in zip(ratings["user_id"].to_pylist(), ratings["item_id"].to_pylist(), times, strict=True):
        rated.setdefault(user, []).append((moment, item))
    last: list[tuple[str, list[str], str]] = []
    by_time: list[tuple[str, list[str], str]] = []
    for user in sorted(rated, key=int):
        items = [item for _, item in rated[user]]
        last += [(user, items[:-2], "train"), (user, items[:-1], "validation"), (user, items, "test")]
        early = [item for moment, item in rated[user] if moment < first]
        by_time += [(user, early, "train")] if early else []
        by_time += [
            (user, items[: place + 1], "validation" if moment < second else "test")
            for place, (moment, _) in enumerate(rated[user])
            if moment >= first
        ]
    about = {row["user_id"]: row for row in users.to_pylist()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(TABLES, (last, by_time), strict=True):
        columns = {
            "user": [user for user, _, _ in rows],
            "items": [items for _, items, _ in rows],
            **{each: [about[user][each] for user, _, _ in rows] for each in ABOUT},
            "part": [part for _, _, part in rows],
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


@dataclass(frozen=True)
class Sequences:
    """Rows of a table by part."""

    train: list[list[str]]
    validation: list[list[str]]
    test: list[list[str]]
    alone: Mapping[str, int]  # evaluated part -> rows that were left out, for they have nothing before the target

    @classmethod
    def read(cls, path: Path) -> "Sequences":
        """Read a table that ``write_sequences`` wrote."""
        rows: dict[str, list[list[str]]] = {"train": [], "validation": [], "test": []}
        table = pq.read_table(path, columns=["items", "part"])
        for items, part in zip(table["items"].to_pylist(), table["part"].to_pylist(), strict=True):
            rows[part].append(items)
        evaluated = {part: [each for each in rows[part] if len(each) > 1] for part in ("validation", "test")}
        alone = {part: len(rows[part]) - len(evaluated[part]) for part in evaluated}
        return cls(rows["train"], evaluated["validation"], evaluated["test"], alone)

    def described(self) -> dict[str, Any]:
        """Return counts of rows, films, and targets that cannot be found."""
        films = {item for row in self.train for item in row}
        parts = {"validation": self.validation, "test": self.test}
        return {
            "train_rows": len(self.train),
            "train_items": sum(len(row) for row in self.train),
            "films": len(films),
            **{
                part: {
                    "rows": len(rows),
                    "rows_with_nothing_known": self.alone[part],
                    "targets_not_in_train": sum(row[-1] not in films for row in rows),
                }
                for part, rows in parts.items()
            },
        }


def metrics_of(ranks: np.ndarray) -> dict[str, float]:
    """Return the means over rows.

    Args:
        ranks: Ranks of the targets from 1 on; 0 where the target is not among the first ``K``. Shape ``(rows,)``.
    """
    hit = ranks > 0
    found = np.where(hit, ranks, 1)
    return {
        f"ndcg@{K}": float(np.mean(hit / np.log2(found + 1))),
        f"recall@{K}": float(np.mean(hit)),
        f"mrr@{K}": float(np.mean(hit / found)),
    }


def popular_ranks(train: Iterable[Sequence[str]], rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the ranks of the targets by how often a film occurs in training. Of equal ones the first seen leads."""
    counts: dict[str, int] = {}
    for row in train:
        for item in row:
            counts[item] = counts.get(item, 0) + 1
    ordered = sorted(counts, key=lambda item: -counts[item])
    places = {item: place for place, item in enumerate(ordered)}
    ranks = np.zeros(len(rows), dtype=np.int64)
    for number, (*known, target) in enumerate(rows):
        if (place := places.get(target)) is not None:
            rank = 1 + place - sum(places.get(item, place) < place for item in set(known))
            ranks[number] = rank if rank <= K else 0
    return ranks


def pieces_of(rows: Iterable[Sequence[str]], length: int, overlap: int) -> list[Sequence[str]]:
    """Return the rows cut into pieces, from the end on.

    Args:
        rows: Training rows.
        length: Items that a piece predicts.
        overlap: Items that a piece has in addition, which the piece before it has too.
    """
    found: list[Sequence[str]] = []
    for row in rows:
        for end in range(len(row), overlap, -length):
            found.append(row[max(0, end - length - overlap) : end])
    return found


def dataset_of(rows: Sequence[Sequence[str]]) -> Any:
    """Return a RecTools dataset in which each row is a user of its own, named by its number."""
    import pandas as pd
    from rectools.dataset import Dataset

    lengths = [len(row) for row in rows]
    places = np.concatenate([np.arange(length) for length in lengths])
    frame = pd.DataFrame({"user_id": np.repeat(np.arange(len(rows)), lengths), "item_id": np.concatenate(rows)})
    frame["weight"] = 1.0
    frame["datetime"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(places, unit="s")
    return Dataset.construct(frame)


def at_targets() -> Any:
    """Return RecTools' training module with its losses computed at positions that have a target only.

    The losses have the same values. RecTools' module computes logits at padding and unmasked positions too, and its
    softmax runs over an inner dimension: both cost most of the seconds of an epoch on a CPU.
    """
    import torch
    from rectools.models.nn.transformers.lightning import TransformerLightningModule

    class AtTargets(TransformerLightningModule):
        def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
            there = batch["y"] != 0
            y, w = batch["y"][there], batch["yw"][there]
            items = self.torch_model.item_model.get_all_embeddings()
            sessions = self.torch_model.encode_sessions(batch, items)[there]
            logits = self.torch_model.similarity_module(sessions, items) / self.logits_t
            if self._requires_negatives:
                candidates = torch.cat([y.unsqueeze(1), batch["negatives"][there]], dim=1)
                loss = self.loss_calculator(logits.gather(1, candidates)[None], y[None], w[None])
            else:
                losses = w * torch.nn.functional.cross_entropy(logits, y, reduction="none")
                loss = losses.sum() / (losses > 0).sum()
            self.log(self.train_loss_name, loss, on_step=False, on_epoch=True)
            return loss

    return AtTargets


def model_of(name: str, settings: Mapping[str, Any], *, stock: bool = False) -> Any:
    """Return a RecTools model that is not fitted; ``stock`` is without ``at_targets``."""
    from rectools.models import BERT4RecModel, SASRecModel

    given = {key: value for key, value in settings.items() if key != "whole_rows"}
    if not stock:
        given["lightning_module_type"] = at_targets()
    return {"sasrec": SASRecModel, "bert4rec": BERT4RecModel}[name](**given, deterministic=True)


def fitted_rows(name: str, settings: Mapping[str, Any], train: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the training rows, cut into pieces if ``whole_rows`` is set: RecTools reads the end of a row only."""
    if not settings["whole_rows"]:
        return train
    return pieces_of(train, settings["session_max_len"], int(name == "sasrec"))


def ranks_of(model: Any, dataset: Any, targets: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the ranks that a fitted model gives to targets.

    Args:
        model: RecTools model.
        dataset: Known parts of the rows, from ``dataset_of``.
        targets: Targets of all rows of ``dataset``. Shape ``(rows,)``.
        numbers: Rows that are asked for. Shape ``(asked,)``.
    """
    found = model.recommend(numbers, dataset, K, filter_viewed=True, on_unsupported_targets="ignore")
    hits = found[found["item_id"].to_numpy() == targets[found["user_id"].to_numpy()]]
    ranks = np.zeros(len(targets), dtype=np.int64)
    ranks[hits["user_id"].to_numpy()] = hits["rank"].to_numpy()
    return ranks[numbers]


class Bench:
    """Trains one model on one table, and keeps what is done in a file beside the table."""

    def __init__(self, name: str, sequences: Sequences, path: Path, *, longest: int) -> None:
        self.name, self.sequences, self.path, self.longest = name, sequences, path, longest
        self.known = {
            part: (dataset_of([row[:-1] for row in rows]), np.array([row[-1] for row in rows]))
            for part, rows in (("validation", sequences.validation), ("test", sequences.test))
        }

    def kept(self) -> list[dict[str, Any]]:
        """Return the trainings that were done before."""
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()] if self.path.exists() else []

    def trial(self, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Return figures of a training and ranks of its test rows; read from the file if it was done before."""
        asked = {"settings": dict(settings), "seed": seed, "longest": self.longest}
        for done in self.kept():
            if {key: done[key] for key in asked} == asked:
                return done
        done = {**asked, **self._trained(settings, seed)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done) + "\n")
        figures = {**done["validation"], "epoch": done["epoch"], "seconds": round(done["fit_seconds"])}
        print(self.name, settings, seed, figures, file=sys.stderr, flush=True)
        return done

    def _trained(self, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Train with early stopping and return the figures of the best epoch."""
        from pytorch_lightning import seed_everything

        seed_everything(seed, verbose=False)
        model = model_of(self.name, settings)
        train = dataset_of(fitted_rows(self.name, settings, self.sequences.train))
        every = {part: np.arange(len(targets)) for part, (_, targets) in self.known.items()}
        chosen = every["validation"][:: max(1, len(every["validation"]) // CHOSEN_ROWS)]
        best, epoch, weights, curve = -1.0, 0, {}, []
        wall = processor = 0.0
        for done in range(EVERY, self.longest + 1, EVERY):
            starts = time.perf_counter(), time.process_time()
            model.fit_partial(train, EVERY, EVERY)
            wall, processor = wall + time.perf_counter() - starts[0], processor + time.process_time() - starts[1]
            value = metrics_of(ranks_of(model, *self.known["validation"], chosen))[f"ndcg@{K}"]
            curve.append(value)
            if value > best:
                best, epoch = value, done
                weights = {key: value.clone() for key, value in model.torch_model.state_dict().items()}
            elif done - epoch >= PATIENCE * EVERY:
                break
        model.torch_model.load_state_dict(weights)
        ranks = {part: ranks_of(model, *self.known[part], every[part]) for part in every}
        return {
            "epoch": epoch,
            "epochs": EVERY * len(curve),
            "curve": curve,
            "fit_seconds": wall,
            "seconds_per_epoch": wall / (EVERY * len(curve)),
            "processor_seconds_per_epoch": processor / (EVERY * len(curve)),
            "films_known": len(model.data_preparator.get_known_item_ids()),
            **{part: metrics_of(each) for part, each in ranks.items()},
            "test_ranks": ranks["test"].tolist(),
        }

    def tuned(self, seed: int, most: int) -> dict[str, Any]:
        """Try settings and return the best of all that were ever tried on this table with the seed.

        A change stays if the validation part gains. A longer session is tried if the last lengthening stayed.

        Args:
            seed: Seed of all trainings.
            most: Settings to try at most.
        """
        best = self.trial(START, seed)
        num_tried = 1
        for change in CHANGES[self.name]:
            if num_tried == most:
                break
            if change.get("session_max_len", 0) > 2 * best["settings"]["session_max_len"]:
                continue
            tried = self.trial({**best["settings"], **change}, seed)
            best = max(best, tried, key=lambda each: each["validation"][f"ndcg@{K}"])
            num_tried += 1
        tried = [each for each in self.kept() if (each["seed"], each["longest"]) == (seed, self.longest)]
        return max(tried, key=lambda each: each["validation"][f"ndcg@{K}"])["settings"]

    def stock_seconds(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return the seconds of one epoch with RecTools' own training module, after one that is not counted."""
        model = model_of(self.name, settings, stock=True)
        train = dataset_of(fitted_rows(self.name, settings, self.sequences.train))
        model.fit_partial(train, 1, 1)
        starts = time.perf_counter(), time.process_time()
        model.fit_partial(train, 1, 1)
        return {"seconds": time.perf_counter() - starts[0], "processor_seconds": time.process_time() - starts[1]}


def summary_of(bench: Bench, seeds: Sequence[int], most: int) -> dict[str, Any]:
    """Return what was tried, the best settings, and their figures with each seed."""
    settings = bench.tuned(seeds[0], most)
    runs = [bench.trial(settings, seed) for seed in seeds]
    figures = {
        part: {
            metric: {
                "mean": float(np.mean([run[part][metric] for run in runs])),
                "deviation": float(np.std([run[part][metric] for run in runs], ddof=1)) if len(runs) > 1 else None,
            }
            for metric in runs[0][part]
        }
        for part in ("validation", "test")
    }
    told = ("epoch", "epochs", "films_known", "seconds_per_epoch", "processor_seconds_per_epoch", "fit_seconds")
    return {
        "settings": settings,
        **figures,
        "seconds_per_epoch_of_stock_module": bench.stock_seconds(settings),
        "runs": [{key: run[key] for key in ("seed", "validation", "test", *told)} for run in runs],
        "tried": [
            {"settings": each["settings"], **each["validation"], **{key: each[key] for key in told}}
            for each in bench.kept()
            if each["seed"] == seeds[0]
        ],
    }


def quiet() -> None:
    """Silence what Lightning says of hardware and loaders at each of many short trainings."""
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main() -> None:
    """Write the tables, or train and evaluate on one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the tables, and of what was trained on them")
    parser.add_argument("--source", type=Path, help="folder with ml-100k.inter and .user: write the tables, and stop")
    parser.add_argument("--table", choices=TABLES, default="last", help="default: %(default)s")
    parser.add_argument("--models", default="popular,sasrec,bert4rec", help="with commas (default: %(default)s)")
    parser.add_argument("--settings", type=int, default=MOST, help="tried at most (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=LONGEST, help="at most (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="of the best settings (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    given = parser.parse_args()
    if given.source is not None:
        write_sequences(given.source, given.folder)
        return
    models = given.models.split(",")
    if unknown := [name for name in models if name not in MODELS]:
        parser.error(f"--models has {', '.join(unknown)}. Allowed are {', '.join(MODELS)}.")
    path = given.folder / f"{given.table}.parquet"
    if not path.exists():
        parser.error(f"There is no {path}. Write it with --source.")
    if importlib.util.find_spec("rectools") is None:
        sys.exit("RecTools is not installed. benchmarks/README.md says how to install it.")
    import torch
    from results import write_result

    torch.set_num_threads(1)
    quiet()
    sequences = Sequences.read(path)
    systems: dict[str, Any] = {}
    for name in models:
        if name == "popular":
            parts = {"validation": sequences.validation, "test": sequences.test}
            systems[name] = {part: metrics_of(popular_ranks(sequences.train, rows)) for part, rows in parts.items()}
        else:
            kept = given.folder / f"{given.table}-{name}.jsonl"
            systems[name] = summary_of(
                Bench(name, sequences, kept, longest=given.epochs), range(given.seeds), given.settings
            )
    write_result(
        {
            "table": given.table,
            "sequences": sequences.described(),
            "rectools": version("rectools"),
            "epochs": {"between_evaluations": EVERY, "patience": PATIENCE * EVERY, "at_most": given.epochs},
            "systems": systems,
        },
        given.output,
    )


if __name__ == "__main__":
    main()
