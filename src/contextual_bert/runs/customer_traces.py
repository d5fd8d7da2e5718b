"""Traces of one customer in a run directory: rows in the parts, the id in files, and what the files are without it.

A run names customers only where the column of customers is a feature of its context, or by accident. What is found is
edited by the place in which it stands; the rest of a file stays as it is. Nothing is written here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from safetensors import safe_open

from contextual_bert.context import ContextSchema
from contextual_bert.context.kinds.listed import ListedFeature
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.errors import ContextualBertError
from contextual_bert.json_text import json_text

PLACEHOLDER = "[forgotten {number}]"
_REPORT_FORMS = (".md", ".json")
_PAGES = (".html", ".png")
_TEXTS = (".md", ".html", ".txt", ".csv", ".tsv", ".jsonl", ".log")
# A shorter id, or a number, stands by chance in many sentences: there it is looked for as a whole value alone.
_SHORTEST_IN_SENTENCES = 4
_GONE: Any = object()


@dataclass(frozen=True)
class NamedCustomer:
    """A customer as a run may name her.

    Args:
        name: the id, in the spelling of the run.
        column: of the customers.
        features: names of the features of the context that read the column and list the id.
        placeholder: that stands for the id in the list of values.
    """

    name: str
    column: str
    features: tuple[str, ...]
    placeholder: str

    @property
    def is_sought_in_sentences(self) -> bool:
        """Whether the id is told from the other words and numbers of a sentence."""
        return len(self.name) >= _SHORTEST_IN_SENTENCES and not re.fullmatch(r"[\d.,+-]+", self.name)

    def stands_in(self, text: str) -> bool:
        """Return whether a text is the id, or a sentence that holds it."""
        if text == self.name:
            return True
        return self.is_sought_in_sentences and self.pattern.search(text) is not None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return what finds the id as a word of its own."""
        return re.compile(rf"(?<![^\W_]){re.escape(self.name)}(?![^\W_])")


def listing_features(schema: ContextSchema | None, column: str, names: Sequence[str]) -> tuple[ListedFeature, ...]:
    """Return the features that read a column and list one of these values.

    Args:
        schema: of a run.
        column: of the table.
        names: spellings of a value.
    """
    features = [each for each in (schema.features if schema is not None else ()) if isinstance(each, ListedFeature)]
    return tuple(each for each in features if each.column == column and {*names} & {*each.values})


def free_placeholder(features: Sequence[ListedFeature]) -> str:
    """Return a name that no value of these features has, for a value that is taken out."""
    taken = {value for each in features for value in each.values}
    numbers = range(1, len(taken) + 2)
    return next(name for each in numbers if (name := PLACEHOLDER.format(number=each)) not in taken)


def without_customer(content: Any, whose: NamedCustomer) -> Any:
    """Return the content of a JSON file of a run without a customer's id.

    Edited are lists of a feature's values, segments of reports, and temperatures and floors by a field's value.

    Args:
        content: of the file.
        whose: the customer.

    Example:
        >>> ann = NamedCustomer("ann", "user", ("user",), "[forgotten 1]")
        >>> without_customer({"name": "user", "kind": "categorical", "values": ["ann", "bob"]}, ann)["values"]
        ['[forgotten 1]', 'bob']
        >>> without_customer({"segments": [{"feature": "user", "value": "ann"}, {"feature": "age", "value": "9"}]}, ann)
        {'segments': [{'feature': 'age', 'value': '9'}]}
    """
    if isinstance(content, list):
        edited = [without_customer(each, whose) for each in cast("list[Any]", content)]
        return [each for each in edited if each is not _GONE]
    if not isinstance(content, dict):
        return content
    record = cast("dict[str, Any]", content)
    if record.get("feature") in whose.features and record.get("value") == whose.name:
        return _GONE
    found = {name: without_customer(value, whose) for name, value in record.items()}
    if record.get("name") in whose.features and "kind" in record and isinstance(record.get("values"), list):
        found["values"] = [whose.placeholder if each == whose.name else each for each in record["values"]]
    if record.get("field") in whose.features and isinstance(record.get("temperatures"), dict):
        found["temperatures"].pop(whose.name, None)
    if isinstance(record.get("shifts"), dict):
        for feature in whose.features:
            found["shifts"].get(feature, {}).pop(whose.name, None)
    return found


def without_lines(text: str, whose: NamedCustomer) -> str:
    """Return a report in Markdown without the rows of its tables that are about a customer.

    Of other lines that name one of the features the id is replaced.

    Example:
        >>> ann = NamedCustomer("anna", "user", ("user",), "[forgotten 1]")
        >>> without_lines("| user | anna * | 72 |\\nWorst segment: user = anna.\\n", ann)
        'Worst segment: user = [forgotten 1].\\n'
    """
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        cells = [cell.strip().removesuffix(" *") for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] in whose.features and whose.name in cells[1:2]:
            continue
        names = any(feature in line for feature in whose.features)
        kept.append(whose.pattern.sub(lambda _: whose.placeholder, line) if names and whose.stands_in(line) else line)
    return "".join(kept)


def edited_files(run: Path, whose: NamedCustomer, *, kept: Sequence[Path] = ()) -> dict[Path, bytes]:
    """Return file of a run -> its content without a customer, for the reports and JSON files that change.

    Args:
        run: the directory; checkpoints are left out.
        whose: the customer, a value of some feature.
        kept: files that are not edited, the tables of the user.
    """
    found: dict[Path, bytes] = {}
    tables = {path.resolve() for path in kept}
    for path in files_of(run):
        if path.suffix not in _REPORT_FORMS or not whose.features or path.resolve() in tables:
            continue
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        if path.suffix == ".md":
            edited = without_lines(text, whose)
        else:
            content = _json_of(text)
            changed = without_customer(content, whose)
            edited = text if changed == content else json_text(changed, indent=1, ensure_ascii=False) + "\n"
        if edited != text:
            found[path] = edited.encode("utf-8", errors="surrogateescape")
    return found


def pages_beside(run: Path, edited: Sequence[Path]) -> list[Path]:
    """Return the pages and pictures beside reports that are edited: they may show the id, and are not edited.

    Args:
        run: the directory.
        edited: files that named the customer.
    """
    folders = {path.parent for path in edited if path.parent != run}
    return sorted(path for folder in folders for path in folder.iterdir() if path.suffix in _PAGES)


def files_of(run: Path) -> Iterator[Path]:
    """Yield the files of a run but for its checkpoints, in the order of their names."""
    for path in sorted(run.rglob("*")):
        inner = path.relative_to(run).parts
        if inner[0] not in ("checkpoints",) and not inner[0].startswith(".") and path.is_file():
            yield path


def remaining(run: Path, whose: NamedCustomer, edited: Mapping[Path, bytes]) -> list[Path]:
    """Return the files that hold the id where nothing takes it out: tables, names of items or labels, notes.

    Args:
        run: the directory.
        whose: the customer.
        edited: file -> its content as it will be.
    """
    found: list[Path] = []
    for path in files_of(run):
        try:
            if any(whose.stands_in(text) for text in _texts_in(path, edited.get(path), whose)):
                found.append(path)
        except (OSError, ValueError, ContextualBertError):  # no file of ours: bytes alone tell
            if whose.is_sought_in_sentences and whose.name.encode() in path.read_bytes():
                found.append(path)
    return found


def _texts_in(path: Path, content: bytes | None, whose: NamedCustomer) -> Iterator[str]:
    """Yield the texts of a file in which an id may stand."""
    if path.suffix == ".parquet":
        yield from _cells_of(path)
    elif path.suffix == ".safetensors":
        with safe_open(path, framework="np") as file:
            yield from _strings_in(file.metadata() or {})
    elif path.suffix == ".json":
        text = content.decode("utf-8") if content is not None else path.read_text(encoding="utf-8")
        for each in _strings_in(_json_of(text)):
            yield each
            yield from _strings_in(_json_of(each) if each[:1] in "[{" else None)
    elif path.suffix in _TEXTS:
        yield content.decode("utf-8") if content is not None else path.read_text(encoding="utf-8", errors="replace")
    elif path.suffix != ".png" and whose.is_sought_in_sentences:
        yield path.read_bytes().decode("utf-8", errors="replace")


def _cells_of(path: Path) -> Iterator[str]:
    table = pq.read_table(path)
    for column in table.columns:
        values: Any = column.combine_chunks()
        while (
            hasattr(values, "flatten")
            and not hasattr(values.type, "names")
            and str(values.type).startswith(("list", "large_list", "fixed_size_list"))
        ):
            values = values.flatten()
        try:
            yield from (each for each in canonical_array(values).unique().to_pylist() if each is not None)
        except ContextualBertError:
            yield from (str(each) for each in values.to_pylist())


def _strings_in(content: Any) -> Iterator[str]:
    """Yield the strings and the keys of a JSON value."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for name, value in cast("dict[str, Any]", content).items():
            yield name
            yield from _strings_in(value)
    elif isinstance(content, list):
        for each in cast("list[Any]", content):
            yield from _strings_in(each)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
