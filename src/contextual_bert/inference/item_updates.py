"""A catalogue that changes without training: items that a finished run learns of, no longer proposes, or that change.

A run is never changed: what was changed is written to a folder of its own. Not in the paper.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import torch
from torch import Tensor

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.context import ContextSchema, EncodedContext, canonical, encode_table
from contextual_bert.data import ReadSettings
from contextual_bert.errors import ConfigurationError, RunDirectoryError, UnknownNameError, did_you_mean
from contextual_bert.folder_lock import check_not_written, locked_folder
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_table import items_of_rows
from contextual_bert.inference.item_texts import recorded_texts, rows_of_items, with_text_vectors
from contextual_bert.inference.saved import load_item_model
from contextual_bert.inference.saved_files import check_run
from contextual_bert.inference.text_vectors import Showing, TextVectors
from contextual_bert.item_features import EncodedItems
from contextual_bert.manifest import has_manifest, model_digests, write_manifest
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.models.item_changes import NO_ID, change_items, kept_features
from contextual_bert.nouns import counted
from contextual_bert.places import PathPlace

CARD_FILE, RESULT_FILE = "README.md", "metrics.json"
MOST_LISTED = 5
COPIED = ("*.json", "*.safetensors", CARD_FILE)


@dataclass(frozen=True)
class CatalogueChange:
    """What a change of a run's items did.

    Args:
        added: items that the run did not know, or did not propose any more.
        updated: items whose features were read anew.
        removed: items that are never proposed any more.
        kept: items of the catalogue that the run knows, and that were left as they are.
        unknown_values: feature -> values that no item of the training has, and how often.
    """

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: int = 0
    unknown_values: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    def lines(self) -> list[str]:
        """Return a sentence on each thing that was done."""
        lines = [
            f"{counted(len(items), 'item')} {what}: {', '.join(items[:5])}{', ...' if len(items) > 5 else ''}"
            for items, what in (
                (self.added, "added, known by features alone"),
                (self.updated, "with features read anew"),
                (self.removed, "removed: never proposed, and still understood in a set"),
            )
            if items
        ]
        if self.kept:
            lines.append(f"{counted(self.kept, 'item')} of the catalogue left as known; update reads the features anew")
        return [*lines, *unknown_value_lines(dict(self.unknown_values))] or ["nothing to change"]


def unknown_value_lines(unknown: Mapping[str, Iterable[tuple[str, int]]]) -> list[str]:
    """Return a sentence a feature on values that the training did not have.

    Args:
        unknown: feature -> values, and how often.

    Example:
        >>> unknown_value_lines({"colour": [("mauve", 2)]})
        ["colour: values that no item of the training has, which tell the model nothing: 'mauve' (2)"]
    """
    lines: list[str] = []
    for feature, values in unknown.items():
        listed = [f"{value!r} ({number:,})" for value, number in values]
        more = ", ..." if len(listed) > MOST_LISTED else ""
        lines.append(
            f"{feature}: values that no item of the training has, which tell the model nothing: "
            f"{', '.join(listed[:MOST_LISTED])}{more}"
        )
    return lines


def with_new_items(
    model: ContextualBertForMaskedLM, processor: ContextualBertProcessor, shop: Catalogue
) -> tuple[ContextualBertForMaskedLM, ContextualBertProcessor, Catalogue]:
    """Return model, processor and catalogue with the items of the catalogue that the model does not know.

    Unchanged where items have no features. Where the catalogue lacks their columns, its notes say so.

    Raises:
        DataError: a value of a new item that is none of its feature, with its row.
        ConfigurationError: a new item has a text, and the run's sentence encoder is not where it was.
    """
    schema = processor.features_of_items
    if schema is None or not shop.unknown_items:
        return model, processor, shop
    if absent := [name for name in schema.read_columns if name not in shop.rows.column_names]:
        lacks = f"it lacks {', '.join(absent)}"
        why = f"Items are known by their features where the catalogue has all the columns of these; {lacks}."
        return model, processor, shop.with_added(shop.vocabulary, (), remarks=[why])
    texts = recorded_texts(schema, device=model.device)
    encoded, unknown = _encoded(shop, schema, texts, taken=shop.unknown_items)
    changed, whole = _with_items_of(model, processor, shop, encoded, taken=shop.unknown_items)
    told = unknown_value_lines({name: values.items() for name, values in unknown.items()})
    return changed, whole, shop.with_added(whole.items, shop.unknown_items, remarks=[f"{each}." for each in told])


def _encoded(
    shop: Catalogue, schema: ContextSchema, texts: TextVectors | None, *, taken: Sequence[str]
) -> tuple[EncodedContext, Mapping[str, Mapping[str, int]]]:
    """Return the rows of a catalogue, encoded, and the values of ``taken`` that the schema does not know.

    Texts are read of these items alone.
    """
    is_taken = rows_of_items(shop, taken)
    rows = with_text_vectors(shop.rows, schema, texts, is_needed=is_taken)
    encoded = encode_table(schema, rows, file=shop.file)
    if not encoded.unknown or is_taken.all():
        return encoded, encoded.unknown
    return encoded, encode_table(schema, rows.filter(pa.array(is_taken))).unknown


def _with_items_of(
    model: ContextualBertForMaskedLM,
    processor: ContextualBertProcessor,
    shop: Catalogue,
    encoded: EncodedContext,
    *,
    taken: Sequence[str],
) -> tuple[ContextualBertForMaskedLM, ContextualBertProcessor]:
    """Return model and processor with all items of a catalogue, whose rows are encoded; it gives the features of
    ``taken``.
    """
    schema = processor.features_of_items
    assert schema is not None
    whole = processor.with_items(shop.unknown_items)
    num_known, num_reserved = len(processor.items.values), len(whole.items.reserved)
    former = [*range(num_reserved, num_reserved + num_known), *[NO_ID] * len(shop.unknown_items)]
    found, own = items_of_rows(encoded, shop, schema, whole.items), kept_features(model, former)
    names = {*taken}
    is_taken = torch.tensor([name in names for name in whole.items.values])
    items = _merged(own, found, is_taken)
    return change_items(model, [*range(num_reserved), *former], items), whole


def _merged(own: EncodedItems, found: EncodedItems, is_taken: Tensor) -> EncodedItems:
    """Return the features of ``found`` where they are taken, and else those that there were."""
    width = max(own.value_ids.shape[1], found.value_ids.shape[1])

    def chosen(stored: Tensor, new: Tensor) -> Tensor:
        both = [torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in (new, stored.cpu())]
        return torch.where(is_taken[:, None], *both)

    vectors = {
        name: torch.where(is_taken[:, None], new, own.vectors[name].cpu()) for name, new in found.vectors.items()
    }
    return EncodedItems(chosen(own.value_ids, found.value_ids), chosen(own.value_weights, found.value_weights), vectors)


def change_catalogue(
    run: str | Path,
    output: str | Path,
    *,
    action: Literal["add", "update", "remove"],
    catalogue: str | Path | None = None,
    items: Iterable[str] = (),
    reading: ReadSettings | None = None,
    item_text_encoder: str | Path | None = None,
    showing: Showing | None = None,
) -> CatalogueChange:
    """Write a run that knows other items; the run itself stays as it is, and nothing is trained.

    Args:
        run: a finished run of sets; for "add" and "update" one whose items have features.
        output: folder of the new run, which must not be there yet.
        action: "add" makes the catalogue's items known that the run does not know, and removed ones proposed again;
            "update" reads the features of all of the catalogue's items anew, too; "remove" leaves them out of every
            proposal, and understands them in a set as before.
        catalogue: table of these items.
        items: to remove, by name, in place of a catalogue.
        reading: how the catalogue is written.
        item_text_encoder: folder where the sentence encoder of the run lies now, if it is not where it lay in training.
        showing: opens what shows how many texts are read, see ``TextVectors``.

    Raises:
        ConfigurationError: the output is there; neither a catalogue nor items; a run without features of items; an item
            with a new text, and no encoder of the run's to read it.
        UnknownNameError: an item that the run does not know.
        RunDirectoryError: no finished run, or one that another process writes to; another process changes one into the
            same folder.
        SchemaError, DataError: a faulty catalogue; one that lacks a column that the features read.
    """
    run, output = Path(run), Path(output)
    if (catalogue is None) == (not (names := [canonical(item) for item in items])):
        raise ConfigurationError("Name either a catalogue or items.")
    if action == "remove" and item_text_encoder is not None:
        raise ConfigurationError(
            "reads nothing where items are removed",
            setting="item_text_encoder",
            value=str(item_text_encoder),
            fix="Leave it out.",
        )
    check_run(run)
    check_not_written(run)
    with locked_folder(output):  # from the first look at it, so that of two changes the second one does nothing
        if any(not each.name.startswith(".") for each in output.iterdir()):
            raise ConfigurationError(
                "is there already", fix="Name a new folder: a run is never changed.", place=PathPlace(output)
            )
        before = _digests(run)
        model, processor = load_item_model(run)
        if action == "remove":
            if catalogue is not None:
                names = Catalogue(catalogue, processor.items, reading=reading).known_items
            changed, whole, change = model, *_without(processor, names)
        else:
            schema = _schema_of(processor, run)
            encoder = str(item_text_encoder) if item_text_encoder is not None else None
            texts = recorded_texts(schema, item_text_encoder=encoder, device=model.device, showing=showing)
            shop = Catalogue(str(catalogue), processor.items, reading=reading, needs_known=False)
            changed, whole, change = _with_catalogue(model, processor, shop, action=action, texts=texts)
        with replacing_directory(output, last=RESULT_FILE) as folder:
            for pattern in COPIED:
                for path in run.glob(pattern):
                    shutil.copyfile(path, folder / path.name)
            if _digests(run) != before:
                raise RunDirectoryError(
                    "was changed while it was read", fix="Start the same again.", place=PathPlace(run)
                )
            changed.save_pretrained(folder)
            whole.save_pretrained(folder)
            _note(folder / CARD_FILE, change)
            if has_manifest(run):
                write_manifest(folder)
    return change


def _digests(run: Path) -> dict[str, str]:
    """Return what tells the files of a run from those of another one; nothing where it has no manifest."""
    return model_digests(run) if has_manifest(run) else {}


def _with_catalogue(
    model: ContextualBertForMaskedLM,
    processor: ContextualBertProcessor,
    shop: Catalogue,
    *,
    action: Literal["add", "update"],
    texts: TextVectors | None,
) -> tuple[ContextualBertForMaskedLM, ContextualBertProcessor, CatalogueChange]:
    schema, known = processor.features_of_items, shop.known_items
    assert schema is not None
    taken = (*shop.unknown_items, *(known if action == "update" else ()))
    encoded, unknown = _encoded(shop, schema, texts, taken=taken)
    changed, whole = _with_items_of(model, processor, shop, encoded, taken=taken)
    back = tuple(item for item in processor.removed_items if item in {*known})
    whole = whole.with_removed(item for item in whole.removed_items if item not in back)
    return (
        changed,
        whole,
        CatalogueChange(
            added=(*shop.unknown_items, *back),
            updated=tuple(known) if action == "update" else (),
            kept=len(known) - len(back) if action == "add" else 0,
            unknown_values=tuple((name, tuple(values.items())) for name, values in unknown.items()),
        ),
    )


def _schema_of(processor: ContextualBertProcessor, run: Path) -> ContextSchema:
    """Return the features of a run's items.

    Raises:
        ConfigurationError: they have none.
    """
    schema = processor.features_of_items
    if schema is None:
        raise ConfigurationError(
            "knows no features of its items, so that nothing can be said of new ones",
            fix="Train with a catalogue.",
            place=PathPlace(run),
        )
    return schema


def _without(
    processor: ContextualBertProcessor, names: Sequence[str]
) -> tuple[ContextualBertProcessor, CatalogueChange]:
    for name in names:
        if name not in processor.items:
            raise UnknownNameError(
                f"the run knows no item {name!r}", value=name, allowed=did_you_mean(name, processor.items.values)
            )
    gone = tuple(name for name in dict.fromkeys(names) if name not in processor.removed_items)
    return processor.with_removed((*processor.removed_items, *gone)), CatalogueChange(removed=gone)


def _note(card: Path, change: CatalogueChange) -> None:
    """Say in the model card what was changed after the training."""
    if card.is_file():
        told = "\n".join(f"- {line}" for line in change.lines())
        text = card.read_text(encoding="utf-8").rstrip()
        card.write_text(f"{text}\n\n## Items changed after the training\n\n{told}\n", encoding="utf-8")
