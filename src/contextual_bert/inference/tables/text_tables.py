"""Tables of texts in; the same with labels, answers, other texts or vectors beside them out: a file, or several.

Commands use it without torch, for exports.
"""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.data import ReadSettings, check_writable, read_table, reading_lines, table_digest, write_table
from contextual_bert.data.checked_columns import check_free, checked_column
from contextual_bert.data.readers import without_gaps
from contextual_bert.data.reading_notes import reading_notes, rows_of_file
from contextual_bert.errors import DataError, QueryError
from contextual_bert.frames import Frame
from contextual_bert.inference.applied_calibration import calibrate_by_run
from contextual_bert.inference.context_notes import about_context
from contextual_bert.inference.encode import naming, placed
from contextual_bert.inference.queries import check_count
from contextual_bert.inference.reread import SPELT, reread_context, spelt_columns, with_spelt
from contextual_bert.inference.saved_files import FILLING, learned_kind, trained_texts
from contextual_bert.inference.tables.shards import (
    SHARD_SIZE,
    BulkReport,
    ShardCounts,
    ShardPlan,
    TableWorker,
    shard_path,
)
from contextual_bert.inference.texts.asked_tables import with_context
from contextual_bert.inference.texts.loaded_pipeline import fill_with, text_pipeline_of
from contextual_bert.inference.texts.text_reports import QuestionReport, TextReport
from contextual_bert.json_text import json_text
from contextual_bert.manifest import weights_digest
from contextual_bert.models.truncation import Truncation

FORMAT = "contextual-bert predictions 1"
ROW = "row"  # the column of what is written that numbers the rows of a file of which some were left out
NUMBERS = "\x1frow"  # the row of the file of each row of a table, for errors
COUNTS = b"what was read"  # key of a file's metadata
# What a file's metadata says of its texts or questions, as the report calls it. Files add up, but for the last one.
OF_TEXTS = ("num_cut", "num_unread_words", "num_empty", "max_length")
OF_QUESTIONS = ("num_windows",)
ASKING, WRITING, EMBEDDING = "question_answering", "text_to_text", "contrastive_text"
_METHODS = {  # else labels
    ASKING: "answer_table",
    WRITING: "write_table",
    EMBEDDING: "embed_table",
    **dict.fromkeys(FILLING, "fill_table"),
}


@dataclass(frozen=True, kw_only=True)
class PredictionSettings:
    """Settings for predicting the rows of a table.

    Args:
        text, pair, question: columns of texts, of second texts and of questions; None: as the run was trained.
        truncation: what is kept of longer texts; None: as in training.
        coverage: how often prediction sets hold the true label, of a run that was calibrated; None: there are no sets.
        top_k: words for each [MASK], of a run on hidden words; None: five.
        is_document: of a run of vectors, whether the texts are documents, which are read without a context.
        batch_size: texts, or windows of them, a forward pass.
        reading: how the file of the table is read.

    Raises:
        ConfigurationError: a number below 1.

    Example:
        >>> PredictionSettings(text="review").batch_size
        64
    """

    text: str | None = None
    pair: str | None = None
    question: str | None = None
    truncation: Truncation | None = None
    coverage: float | None = None
    top_k: int | None = None
    is_document: bool = False
    batch_size: int = 64
    reading: ReadSettings = field(default_factory=ReadSettings)

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        if self.top_k is not None:
            check_count("top_k", self.top_k)


class PredictedTable(NamedTuple):
    """A table with what was predicted in further columns, and what was read of its texts."""

    table: pa.Table
    report: TextReport | QuestionReport


class TablePredictor(TableWorker):
    """Rows of a table in, the same rows with labels, answers, other texts or vectors beside them out.

    Args:
        pipeline: of the run, or of its export.
        directory: of the run or export.
        settings: columns and sizes.

    Raises:
        ConfigurationError: a coverage of a run that gives no label.

    Relation to its siblings:
        ``TableCompleter`` does the same with sets. ``TextPipeline.label_table`` labels a table that is in memory, and
        knows no files.
    """

    def __init__(self, pipeline: Any, directory: str | Path, settings: PredictionSettings) -> None:
        self.pipeline, self.directory = pipeline, Path(directory)
        learned, self.kind = trained_texts(directory), learned_kind(directory)
        columns: dict[str, str | None] = {"text": settings.text or learned.text or "text"}
        if settings.is_document:
            columns = {"text": settings.text or learned.pair or "text"}
        if self.kind == ASKING:
            columns["question"] = settings.question or learned.question or "question"
        elif self.kind not in (WRITING, EMBEDDING, *FILLING):
            columns["pair"] = settings.pair or learned.pair
        self.columns = columns
        self.settings = replace(settings, **columns)
        if settings.top_k is not None:
            fill_with(pipeline, settings.top_k)
        if settings.coverage is not None:
            calibrate_by_run(pipeline, directory, settings.coverage)

    @classmethod
    def from_run(cls, directory: str | Path, settings: PredictionSettings, *, device: Any = None) -> Self:
        """The predictor of a run or an export.

        Args:
            directory: of the run or export.
            settings: columns and sizes.
            device: where to run; None: where the model is.

        Raises:
            RunDirectoryError: files are missing or damaged, or a coverage of a run that was not calibrated.
            ConfigurationError: a device that an export cannot run on, or a coverage of a run that gives no label.
        """
        kind = learned_kind(directory)
        pipeline = text_pipeline_of(Path(directory), kind=kind, device=device, truncation=settings.truncation)
        return cls(pipeline, directory, settings)

    def model_digest(self) -> str:
        weights, calibration = weights_digest(self.directory), getattr(self.pipeline, "calibration", None)
        return f"{weights} {calibration.digest()}" if calibration is not None else weights

    def reads(self, table: pa.Table) -> list[str]:
        return [*table.column_names]  # all of them are written

    def __call__(self, table: pa.Table) -> pa.Table:
        written, report = self.predict(table)
        names = OF_TEXTS if isinstance(report, TextReport) else OF_QUESTIONS
        counts = json_text({name: getattr(report, name) for name in names})
        return written.replace_schema_metadata({**(written.schema.metadata or {}), COUNTS: counts.encode()})

    def noted(self, written: pa.Table) -> tuple[int, ...]:
        return tuple(json.loads(written.schema.metadata[COUNTS]).values())

    def predict(self, table: pa.Table, progress: Callable[[int, int], None] | None = None) -> PredictedTable:
        """Return rows as ``read_texts`` gives them, with what was predicted.

        Args:
            table: the rows.
            progress: called with (texts done, texts in all).

        Raises:
            DataError, SchemaError, UnknownNameError: a column that is missing or faulty, with its row in the file.
        """
        rows, table = table.column(NUMBERS).to_numpy(), table.drop_columns([NUMBERS])
        pipeline = self.pipeline
        how: dict[str, Any] = {"batch_size": self.settings.batch_size, "progress": progress}
        if self.kind == EMBEDDING:
            how["is_document"] = self.settings.is_document
        with in_rows_of(rows):
            found = getattr(pipeline, _METHODS.get(str(self.kind), "label_table"))(table, **self.columns, **how)
        names = [name for name in table.column_names if not name.startswith(SPELT)]
        written, predicted = spelt_columns(found.table, names), found.table.select(pipeline.columns.names)
        for place, column in enumerate(predicted.columns):
            written = written.append_column(predicted.schema.field(place), column)
        return PredictedTable(written, found.report.at(rows))


class TextsOfFile(NamedTuple):
    """Rows to predict, as they stand in their file, numbered.

    ``remarks``: of the reader; ``added``: names of the columns that are written beside those of the file.
    """

    table: pa.Table
    remarks: list[str]
    added: tuple[str, ...]


def read_texts(source: str | Path | Frame, predictor: TablePredictor) -> TextsOfFile:
    """Return the rows of a table as ``TablePredictor`` takes them.

    Args:
        source: the table: a path, or a table in memory as ``read_table`` takes it.
        predictor: what will predict them.

    Raises:
        DataError, UnknownNameError: a file that cannot be read, a column of texts that is absent, or a column that is
            called as one that is added.
    """
    file, reading = file_of(source), predictor.settings.reading
    names = [name for name in predictor.columns.values() if name is not None]
    processor = predictor.pipeline.processor
    before = read_table(source, text_columns=names, code_columns=processor.code_columns, settings=reading)
    before = without_gaps(before, names, reading, file=file)
    for name in names:
        checked_column(before, name, file=file)
    added, rows = tuple(predictor.pipeline.columns.names), rows_of_file(before)
    remarks = reading_lines(before)
    with naming(file):
        if reading_notes(before).dropped_rows:
            check_free(before, [ROW])
            before, added = before.append_column(ROW, [rows]), (ROW, *added)
            remarks.append(f"the column {ROW!r} has the number of each row in {file}, counted from 0")
        check_free(before, added[-len(predictor.pipeline.columns.names) :])
    table = with_spelt(reread_context(before, processor.schema, reading), before, before.column_names)
    return TextsOfFile(table.append_column(NUMBERS, [rows]), remarks, added)


class TextShardPlan(ShardPlan):
    """The files of a table's predictions.

    Args:
        predictor: of a run.
        source: the table: a path, or a table in memory as ``read_table`` takes it.
        output: folder of the files; finished ones are kept where they are of the same table, model and settings.
        shard_size: rows of the table a file.

    Raises:
        ConfigurationError: the folder holds something else.
        DataError, SchemaError, UnknownNameError: a faulty table, where columns are whole.
    """

    def __init__(self, predictor: TablePredictor, source: str | Path | Frame, output: Path, *, shard_size: int) -> None:
        file, pipeline = file_of(source), predictor.pipeline
        found = read_texts(source, predictor)
        table, self.added, rows = found.table, found.added, found.table.column(NUMBERS).to_numpy()
        for columns in (table.schema, pipeline.columns):
            check_writable(shard_path(output, 0), columns)
        with naming(file), in_rows_of(rows):
            for name in predictor.columns.values():
                if name is not None:
                    checked_column(table, name, complete=True)
            _, context, absent = (table, None, []) if predictor.settings.is_document else with_context(table, pipeline)
            about = about_context(context, pipeline.model)
        about["remarks"] = (*absent, *about.get("remarks", ()))
        if predictor.kind == ASKING:
            self.about: TextReport | QuestionReport = QuestionReport(table.num_rows, 0, 0, 0, **about).at(rows)
        else:
            self.about = TextReport(table.num_rows, 0, 0, 0, **about).at(rows)
        self.remarks = (*pipeline.notes(), *found.remarks)
        manifest = predictions_manifest(table, predictor, shard_size)
        super().__init__(predictor, table, output, manifest=manifest, shard_size=shard_size, file=file)

    def report(self, files: Sequence[ShardCounts]) -> BulkReport:
        noted = np.array([file.noted for file in files])
        counts = noted.sum(axis=0).tolist()
        if isinstance(self.about, QuestionReport):
            found: TextReport | QuestionReport = replace(self.about, **dict(zip(OF_QUESTIONS, counts, strict=True)))
        else:
            counts[-1] = int(noted[:, -1].max())
            found = replace(self.about, **dict(zip(OF_TEXTS, counts, strict=True)))
        remarks = (*self.remarks, *found.lines())
        num_rows, num_kept = self.table.num_rows, len(self.kept)
        return BulkReport(num_rows, self.num_shards, num_kept, remarks, noun="text", added=self.added)


def predict_table(
    predictor: TablePredictor,
    source: str | Path | Frame,
    output: str | Path,
    *,
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """Write all rows of a table, with what a run predicts of each, into one file or into a folder of them.

    Args:
        predictor: of the run.
        source: the table: a path, or a table in memory as ``read_table`` takes it.
        output: a file by its ending, .parquet, .csv or .jsonl, which is replaced; or a folder, of
            ``part-00000.parquet`` and so on, and ``_SUCCESS`` when all are there. Finished files of a folder are kept
            where they are of the same table, model and settings.
        shard_size: rows of the table a file of the folder.
        progress: called with (rows done, rows in all); for questions of one file, with windows.

    Raises:
        ConfigurationError: the folder holds something else.
        DataError, SchemaError, UnknownNameError: a faulty table, before anything is computed where columns are whole.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> ContextualBertForSequenceClassification(config).save_pretrained("verdict")
        >>> _ = miniature_text_processor().save_pretrained("verdict")
        >>> predictor = TablePredictor.from_run("verdict", PredictionSettings())
        >>> report = predict_table(predictor, pa.table({"text": ["word1", "word2"]}), "predicted", shard_size=1)
        >>> report.num_shards, read_table("predicted/part-00001.parquet").column_names[:2]
        (2, ['text', 'predicted_label'])
    """
    target = Path(output)
    if is_folder(target):
        plan = TextShardPlan(predictor, source, target, shard_size=shard_size)
        return plan.run(plan.here(), progress)
    found = read_texts(source, predictor)
    for columns in (found.table.schema, predictor.pipeline.columns):
        check_writable(target, columns)
    with naming(file_of(source)):
        written, report = predictor.predict(found.table, progress)
    write_table(written, target)
    remarks = (*predictor.pipeline.notes(), *found.remarks, *report.lines())
    return BulkReport(written.num_rows, 1, 0, remarks, noun="text", added=found.added)


def is_folder(output: Path) -> bool:
    """Return True where what is written there is a folder of files: it is one already, or its name has no ending.

    Example:
        >>> is_folder(Path("out")), is_folder(Path("out.csv"))
        (True, False)
    """
    return output.is_dir() or not output.suffix


def file_of(source: str | Path | Frame) -> str | None:
    """Return the path of a table, for errors; None of one in memory."""
    return str(source) if isinstance(source, str | Path) else None


@contextmanager
def in_rows_of(rows: NDArray[np.int64]) -> Generator[None]:
    """Name the row of the file where an error of the block names one of these rows by its place among them.

    Example:
        >>> with in_rows_of(np.array([4, 9])):
        ...     raise DataError("is no text", row=1)
        Traceback (most recent call last):
        contextual_bert.errors.DataError: row 10: is no text. Rows count from 1.
    """
    try:
        yield
    except QueryError:
        raise
    except DataError as error:
        raise placed(error, rows, file=None) from error


def predictions_manifest(table: pa.Table, predictor: TablePredictor, shard_size: int) -> str:
    """Return the JSON that identifies a folder of predictions; the batch size is no part of it."""
    chosen = {name: value for name, value in asdict(predictor.settings).items() if name != "batch_size"}
    content = {"format": FORMAT, "table": table_digest(table), "model": predictor.model_digest()}
    return json_text({**content, "settings": chosen, "shard_size": shard_size}, indent=1, default=list) + "\n"
