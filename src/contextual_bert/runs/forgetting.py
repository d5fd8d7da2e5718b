"""Forget a customer: say what runs hold of her, take out what can be taken out, and name what cannot.

No row of a table is changed. Weights that were trained on the rows stay as they are: training again without them is
``retrain_without``. docs/guides/privacy.md.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from contextual_bert.atomic_files import replacing_directory, replacing_file
from contextual_bert.context import ContextSchema
from contextual_bert.context.encoder import module_names
from contextual_bert.context.kinds.listed import ListedFeature
from contextual_bert.data import Split
from contextual_bert.data.forgotten import customer_rows, forget_entry, forms_of, has_entry
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, ContextualBertError, RunDirectoryError
from contextual_bert.evaluation.answer_calibration import CALIBRATION_FILE
from contextual_bert.folder_lock import locked_folder
from contextual_bert.inference.item_index import INDEX_FOLDER, INDEX_RECORD_FILE
from contextual_bert.inference.saved_files import RECORD_FILE
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.manifest import (
    MODEL_FILES,
    RECIPE_FILE,
    RESULT_FILES,
    has_manifest,
    model_digests,
    weights_digest,
    write_manifest,
)
from contextual_bert.nouns import counted
from contextual_bert.places import PathPlace
from contextual_bert.runs.customer_traces import (
    NamedCustomer,
    edited_files,
    free_placeholder,
    listing_features,
    pages_beside,
    remaining,
)
from contextual_bert.runs.evaluator import evaluated_recipe
from contextual_bert.runs.run_directory import (
    CHECKPOINTS,
    METRICS_FILE,
    SCORES_FILE,
    SPLIT_DIGEST,
    WEIGHTS_FILE,
    is_complete,
    is_run,
    load_scores,
    save_scores,
)
from contextual_bert.runs.run_table import part_files, read_data
from contextual_bert.training.recipe import Recipe

_SPLIT_FILE = "split.json"


@dataclass(frozen=True)
class RunTraces:
    """What a run holds of a customer.

    Args:
        run: the directory.
        column: of the customers.
        rows: part -> rows of hers; None where the table does not tell.
        why_unknown: why the table does not tell.
        removed: sentences on what is taken out, a file each.
        kept: sentences on what is not taken out, and why.
        is_forgotten: whether she was forgotten before.
    """

    run: str
    column: str
    rows: Mapping[str, int] | None
    why_unknown: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    is_forgotten: bool

    @property
    def has_data(self) -> bool:
        """Whether something of hers is there, or may be."""
        return self.rows is None or any(self.rows.values()) or bool(self.removed)

    def to_dict(self) -> dict[str, Any]:
        """Return the traces as JSON values. The id is not among them."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the traces for people."""
        if self.rows is None:
            found = f"which rows are hers is not known: {self.why_unknown}"
        elif any(self.rows.values()):
            found = ", ".join(f"{part}: {counted(number, 'row')}" for part, number in self.rows.items() if number)
        else:
            found = "none of its rows is hers" if not self.is_forgotten else "forgotten before"
        return [
            f"{self.run}: {found}",
            *(f"  out: {each}" for each in self.removed),
            *(f"  stays: {each}" for each in self.kept),
        ]


@dataclass(frozen=True, eq=False)
class ForgetPlan:
    """Changes that take a customer out of a run directory.

    Args:
        run: the directory.
        traces: what is found, and what becomes of it.
        whose: the customer.
        entry: what the recipe keeps of her.
        own_rows: (rows,) True for rows that are hers; None where that is not known, or she has none.
        features: that list her id, with the id of the value.
        edited: file -> its content without her.
        deleted: files and folders that go.
    """

    run: Path
    traces: RunTraces
    whose: NamedCustomer
    entry: str | None
    own_rows: NDArray[np.bool_] | None
    features: tuple[ListedFeature, ...]
    edited: Mapping[Path, bytes]
    deleted: tuple[Path, ...]

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended, so that it can be edited and trained again."""
        return is_complete(self.run)


@dataclass(eq=False)
class CustomerTables:
    """Tables of runs, each read once, and the rows of a customer in them.

    Args:
        customer: the id.
        data: a table in place of that of the recipes.
    """

    customer: str
    data: Path | None = None
    _read: dict[str, pa.Table | str] = field(default_factory=dict[str, Any], repr=False)

    def rows(self, run: Path, recipe: Recipe, column: str) -> tuple[str, NDArray[np.bool_]] | str:
        """Return the id as the table of a run spells it, with True for each row that is hers; or why that is unknown.

        Raises:
            UnknownNameError: the table lacks the column.
        """
        asked = evaluated_recipe(recipe, {"data": str(self.data)}) if self.data is not None else recipe
        key = repr(
            (asked.data, asked.validation_data, asked.test_data, asked.task, asked.reading, column, recipe.schema)
        )
        if key not in self._read:
            try:
                needed = (column, *(ContextSchema.from_dict(dict(recipe.schema)).columns if recipe.schema else ()))
                self._read[key] = read_data(asked, needed=needed).table
            except (ContextualBertError, OSError) as error:
                self._read[key] = str(error)
        table = self._read[key]
        if isinstance(table, str):
            return table
        name, own = customer_rows(table, self.customer, column, file=asked.data)
        if not Split.load(run / _SPLIT_FILE).is_of(table):
            return f"{asked.data} is another table than the run was trained on"
        return name, own


def runs_in(folders: Sequence[Path]) -> list[Path]:
    """Return the runs that are named, and those in folders that are named, each once.

    Raises:
        RunDirectoryError: a folder that is not there, or one without a run.
    """
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            problem = "is a file" if folder.is_file() else "does not exist"
            raise RunDirectoryError(problem, fix="Name a run, or a folder of runs.", place=PathPlace(folder))
        inner = [folder] if is_run(folder) else _searched(folder)
        if not inner:
            raise RunDirectoryError(
                "holds no run", fix="Name a run, the --output of train, or a folder of runs.", place=PathPlace(folder)
            )
        found += inner
    return list(dict.fromkeys(found))


def _searched(folder: Path) -> list[Path]:
    recipes = sorted(folder.rglob(RECIPE_FILE))
    homes = [path.parent.parent if path.parent.name == CHECKPOINTS else path.parent for path in recipes]
    return [home for home in dict.fromkeys(homes) if not any(part.startswith(".") for part in home.parts)]


def column_of(run: Path, recipe: Recipe, column: str | None) -> str:
    """Return the column of the customers of a run.

    Raises:
        ConfigurationError: the recipe names none, and none is given.
    """
    chosen = column or recipe.customer
    if chosen is None:
        raise ConfigurationError(
            "was trained without a column of customers",
            fix="Name the column of its table that holds the id with --customer-column.",
            place=PathPlace(run),
        )
    return chosen


def plan_of(run: Path, tables: CustomerTables, *, column: str | None, others: Sequence[Path] = ()) -> ForgetPlan:
    """Return what a run holds of a customer, and the changes that take it out. Nothing is changed.

    Args:
        run: the directory.
        tables: whose the rows are.
        column: of the customers; None: as the run was trained.
        others: folders in which exports and runs that started from this one are looked for.

    Raises:
        ConfigurationError: no column of customers is known.
        RunDirectoryError: the run is damaged.
        UnknownNameError: the table of the run lacks the column.
    """
    recipe = Recipe.load(run if (run / RECIPE_FILE).is_file() else run / CHECKPOINTS)
    chosen = column_of(run, recipe, column)
    if not is_complete(run):
        return _interrupted(run, recipe, chosen, tables.customer)
    found = tables.rows(run, recipe, chosen)
    name, own = found if not isinstance(found, str) else (tables.customer, None)
    schema = ContextSchema.from_dict(dict(recipe.schema)) if recipe.schema is not None else None
    features = listing_features(schema, chosen, (name, *forms_of(tables.customer)))
    spelt = next((each for each in (name, *forms_of(tables.customer)) if features and each in features[0].values), name)
    whose = NamedCustomer(spelt, chosen, tuple(each.name for each in features), free_placeholder(features))
    split = Split.load(run / _SPLIT_FILE)
    rows = {part: int(own[split.rows(part)].sum()) for part in PARTS} if own is not None else None
    is_forgotten = has_entry(recipe.forgotten, tables.customer, chosen)
    is_hers = rows is None or any(rows.values()) or bool(features)
    edited = edited_files(run, whose, kept=[Path(each) for each in part_files(recipe)])
    pages = pages_beside(run, [*edited])
    removed = [f"{_inner(run, path)}: the id" for path in edited]
    removed += [f"{_inner(run, path)}: a picture or page of a report that names the id, removed" for path in pages]
    deleted = list(pages)
    if rows is not None and any(rows.values()):
        removed.append(f"{_SPLIT_FILE}: its {counted(sum(rows.values()), 'row')}, now in no part")
        if num_scored := _num_scored(run, cast("NDArray[np.bool_]", own)):
            removed.append(f"{SCORES_FILE}: {counted(num_scored, 'scored row')}")
    if (features or (rows is not None and any(rows.values()))) and (run / CHECKPOINTS).exists():
        deleted.append(run / CHECKPOINTS)
        removed.append(f"{CHECKPOINTS}/: trained on the rows, and not needed any more; removed whole")
    reset = {each.name: _weights_of(run, schema, each) for each in features} if schema is not None else {}
    removed += [
        f"{WEIGHTS_FILE}: the vector of the id in {name!r}, now that of unknown" for name, keys in reset.items() if keys
    ]
    kept = _kept_lines(run, rows, reset, others) if is_hers or is_forgotten else []
    left = [path for path in remaining(run, whose, edited) if path not in deleted]
    kept += [
        f"{_inner(run, path)}: holds the id in another place than the context; see to it yourself" for path in left
    ]
    why = found if isinstance(found, str) else ""
    traces = RunTraces(str(run), chosen, rows, why, tuple(removed), tuple(kept), is_forgotten)
    entry = forget_entry(name, chosen, salt=_salt_of(recipe)) if is_hers and not is_forgotten else None
    return ForgetPlan(run, traces, whose, entry, own, features, edited, tuple(deleted))


def forget(plan: ForgetPlan) -> None:
    """Take a customer out of a run directory as a plan says, under the folder's lock: all of it, or nothing.

    Raises:
        RunDirectoryError: another process writes to the run, or it cannot be written to.
    """
    run = plan.run
    if not plan.traces.removed and plan.entry is None:
        return
    with locked_folder(run):
        before = (weights_digest(run), model_digests(run)) if has_manifest(run) else None
        with replacing_directory(run, last=METRICS_FILE) as folder:
            _stage(plan, folder)
            if has_manifest(run):
                write_manifest(folder)
        for path, content in plan.edited.items():
            if path.parent != run:
                _replace(path, content)
        if before is not None:
            _follow_weights(run, *before)
        for path in plan.deleted:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _stage(plan: ForgetPlan, folder: Path) -> None:
    """Write the files of a run that its manifest lists, or that change, into a folder inside it."""
    run, recipe_path = plan.run, plan.run / RECIPE_FILE
    for path in sorted(run.iterdir()):
        if path.name in MODEL_FILES | RESULT_FILES | {METRICS_FILE} and path.is_file():
            _link(path, folder / path.name)
    for path, content in plan.edited.items():
        if path.parent == run:
            _write(folder / path.name, content)
    content = read_json_object(folder / recipe_path.name)
    recipe = cast("dict[str, Any]", content["recipe"])
    if plan.entry is not None:
        recipe["forgotten"] = [*(recipe.get("forgotten") or []), plan.entry]
    if plan.own_rows is not None and plan.own_rows.any():
        old = Split.load(run / _SPLIT_FILE)
        new = old.restricted(~plan.own_rows)
        (folder / _SPLIT_FILE).unlink()
        new.save(folder / _SPLIT_FILE)
        resolved = cast("dict[str, Any]", content.get("resolved") or {})
        if resolved.get(SPLIT_DIGEST) == old.digest:
            resolved[SPLIT_DIGEST] = new.digest
        _stage_scores(folder / SCORES_FILE, plan.own_rows)
    _write(folder / RECIPE_FILE, (json_text(content, indent=1) + "\n").encode())
    for feature in plan.features:
        schema = ContextSchema.from_dict(dict(Recipe.load(run).schema or {}))
        keys = _weights_of(run, schema, feature)
        if keys:
            _reset_rows(folder / WEIGHTS_FILE, keys, _ids_of(feature, plan.whose.name))


def _stage_scores(path: Path, own: NDArray[np.bool_]) -> None:
    if not path.is_file():
        return
    scores, clusters = load_scores(path)
    keep = ~own[scores.example_id]
    if keep.all():
        return
    path.unlink()
    if keep.any():
        save_scores(scores.select(keep), clusters[keep] if clusters is not None else None, path)


def _num_scored(run: Path, own: NDArray[np.bool_]) -> int:
    path = run / SCORES_FILE
    return int(own[load_scores(path)[0].example_id].sum()) if path.is_file() else 0


def _ids_of(feature: ListedFeature, name: str) -> tuple[int, int]:
    """Return the id of a value, and that of an unknown one."""
    unknown = feature.layout.unknown_id
    assert unknown is not None
    return cast(int, feature.vocabulary.id_of_value(name)), unknown


def _weights_of(run: Path, schema: ContextSchema, feature: ListedFeature) -> list[str]:
    """Return the names of the tables in which each value of a feature has its vector; none where none is found."""
    path, layouts = run / WEIGHTS_FILE, schema.layout
    names = [each.name for each in layouts]
    if not path.is_file() or feature.name not in names:
        return []
    module = module_names(names)[names.index(feature.name)]
    ending = re.compile(rf"(.*\.)?context_encoder\.features\.{re.escape(module)}\.weight")
    with safe_open(path, framework="np") as file:
        return [
            key
            for key in file.keys()  # noqa: SIM118
            if ending.fullmatch(key) and file.get_slice(key).get_shape()[0] == feature.layout.num_embeddings
        ]


def _reset_rows(path: Path, keys: Sequence[str], ids: tuple[int, int]) -> None:
    """Give a value the vector of unknown values, in a file of weights."""
    value, unknown = ids
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    for key in keys:
        table = weights[key].copy()
        table[value] = table[unknown]
        weights[key] = table
    path.unlink()  # a link to the file of the run
    save_file(weights, path, metadata=metadata)


def _follow_weights(run: Path, digest: str, files: Mapping[str, str]) -> None:
    """Let what was chosen for the weights of before, temperatures and an index of items, name those of now."""
    path = run / CALIBRATION_FILE
    if path.is_file():
        content = read_json_object(path)
        if content.get("weights") == digest:
            _replace(path, (json_text(content | {"weights": weights_digest(run)}, indent=2) + "\n").encode())
    path = run / INDEX_FOLDER / INDEX_RECORD_FILE
    if path.is_file():
        content = read_json_object(path)
        if content.get("files") == dict(files):
            _replace(path, (json_text(content | {"files": model_digests(run)}, indent=1) + "\n").encode())


def _kept_lines(
    run: Path, rows: Mapping[str, int] | None, reset: Mapping[str, Sequence[str]], others: Sequence[Path]
) -> list[str]:
    """Return sentences on what a run has of a customer that only a training without her, or her owner, undoes."""
    kept: list[str] = []
    if rows is None or rows["train"]:
        kept.append("weights, counts of a baseline, items and labels: learned from the rows. --retrain trains without")
    if rows is None and (run / CHECKPOINTS).exists():
        kept.append(f"{CHECKPOINTS}/: may have learned from the rows. Remove it, the run has ended")
    if rows is None or rows["validation"]:
        kept.append("the choice of the best epoch: made with the rows of the validation part")
    if rows is None or any(rows[part] for part in PARTS[1:]):
        kept.append(f"{METRICS_FILE}, history.json, README.md, TensorBoard: means over rows that hers are among")
    kept += [
        f"{WEIGHTS_FILE}: what was learned of the id in {name!r} stands in another form than a vector of its own"
        for name, keys in reset.items()
        if not keys and (run / WEIGHTS_FILE).is_file()
    ]
    kept += [f"{path}: an export of this run" for path in _exports_of(run, others)]
    kept += [f"{path}: a run that started from this one" for path in _started_from(run, others)]
    return kept


def _exports_of(run: Path, folders: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in sorted({each for folder in folders for each in folder.rglob(RECORD_FILE)}):
        with suppress(ContextualBertError):
            origin: object = read_json_object(path).get("run")
            named = cast("dict[str, Any]", origin).get("folder") if isinstance(origin, dict) else None
            if isinstance(named, str) and (path.parent / named).resolve() == run.resolve():
                found.append(path.parent)
    return found


def _started_from(run: Path, folders: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for other in dict.fromkeys(each for folder in folders for each in _searched(folder)):
        with suppress(ContextualBertError):
            recipe = Recipe.load(other if (other / RECIPE_FILE).is_file() else other / CHECKPOINTS)
            if any(start.resolve() == run.resolve() for start in starts_of(recipe)):
                found.append(other)
    return found


def starts_of(recipe: Recipe) -> list[Path]:
    """Return the runs that a recipe starts from, or whose vectors it reads, as far as they are here."""
    task: Any = recipe.task
    named = (task.run_to_start_from, getattr(task, "checkpoint", None), getattr(task, "elmo", None))
    return [Path(each) for each in dict.fromkeys(named) if each is not None and is_run(Path(each))]


def _interrupted(run: Path, recipe: Recipe, column: str, customer: str) -> ForgetPlan:
    problem = "interrupted: its checkpoints may have learned from the rows. Remove the folder, or end it with --resume"
    traces = RunTraces(str(run), column, None, "the run has not ended", (), (problem,), False)
    return ForgetPlan(run, traces, NamedCustomer(customer, column, (), ""), None, None, (), {}, ())


def _salt_of(recipe: Recipe) -> str | None:
    """Return the salt that the recipe has already, None where it has none."""
    return recipe.forgotten[0].split(":")[1] if recipe.forgotten else None


def _inner(run: Path, path: Path) -> str:
    return path.relative_to(run).as_posix()


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # of a file system without links
        shutil.copyfile(path, target)


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)  # a link to the file of the run, which stays
    path.write_bytes(content)


def _replace(path: Path, content: bytes) -> None:
    with replacing_file(path) as partial:
        partial.write_bytes(content)
