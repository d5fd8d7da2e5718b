"""Tasks: what a run learns. One class a kind, and ``prepare``, which makes one from a recipe and its table."""

from contextual_bert.context.encoding import check_context_columns
from contextual_bert.context.kinds.history import history_items
from contextual_bert.data import SetTable, TextTable
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.frames import Frame
from contextual_bert.inference import outside_lines_of
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.next_table import context_lines, history_item_lines
from contextual_bert.runs.prepared_data import beside_context, make_split
from contextual_bert.runs.run_schema import alike_values, customer_warnings, customers_in, schema_of, without_leaks
from contextual_bert.runs.run_table import RunTable, audit_of, read_data
from contextual_bert.runs.tasks.base import Task
from contextual_bert.runs.tasks.bidirectional_text import BidirectionalTextTask
from contextual_bert.runs.tasks.causal_text import CausalTextTask
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.runs.tasks.contrastive_text import ContrastiveTextTask
from contextual_bert.runs.tasks.masked_text import MaskedTextTask
from contextual_bert.runs.tasks.multi_label import MultiLabelTask
from contextual_bert.runs.tasks.next_sentence import NextSentenceTask
from contextual_bert.runs.tasks.question_answering import QuestionAnsweringTask
from contextual_bert.runs.tasks.regression import RegressionTask
from contextual_bert.runs.tasks.set_completion import SetCompletionTask
from contextual_bert.runs.tasks.tagging import TaggingTask
from contextual_bert.runs.tasks.text_to_text import TextToTextTask
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.task_settings import TaskSettings
from contextual_bert.training.tasks import TASK_SETTINGS

__all__ = ["TASKS", "Task", "prepare", "register_task"]

# Kind of task -> its class, as ``TASK_SETTINGS`` has the settings.
TASKS: dict[str, type[Task]] = {
    "set_completion": SetCompletionTask,
    "classification": ClassificationTask,
    "multi_label": MultiLabelTask,
    "regression": RegressionTask,
    "tagging": TaggingTask,
    "question_answering": QuestionAnsweringTask,
    "masked_text": MaskedTextTask,
    "next_sentence": NextSentenceTask,
    "causal_text": CausalTextTask,
    "bidirectional_text": BidirectionalTextTask,
    "text_to_text": TextToTextTask,
    "contrastive_text": ContrastiveTextTask,
}


def register_task(kind: str, settings: type[TaskSettings], task: type[Task]) -> None:
    """Make a kind of task known, so that recipes name it and runs train it.

    Args:
        kind: name in recipe.json, that of the settings.
        settings: class of ``Recipe.task``.
        task: class that builds, trains and scores its models.

    Raises:
        ConfigurationError: the name is taken.
    """
    if TASKS.get(kind, task) is not task:
        raise ConfigurationError(f"A task is called {kind!r} already", fix="Give it another name.")
    TASK_SETTINGS[kind], TASKS[kind] = settings, task


def prepare(recipe: Recipe, *, source: Frame | None = None) -> Task:
    """Read and encode the data of a recipe. The vocabulary, bins and rare values are those of the training part.

    Args:
        recipe: what to read.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.

    Raises:
        DataError, UnknownNameError, SchemaError, ConfigurationError, CheckpointError, RunDirectoryError: a fault of the
            table, of the recipe or of what it starts from, by name and place.
    """
    task = TASKS[recipe.task.kind]
    known = task.known_processor(recipe)
    brought = known.schema.code_columns if known is not None and known.schema is not None else ()
    rows = read_data(recipe, source, codes=brought)
    with rows.placed():
        ready = _prepared(task, recipe, rows, known)
    ready.datasets  # noqa: B018  (a faulty row is found before a model is built)
    return ready


def _prepared(task: type[Task], recipe: Recipe, rows: RunTable, known: ContextualBertProcessor | None) -> Task:
    """Return the prepared data of a table with one row a set or text; ``known`` is of the run that is gone on from."""
    split = make_split(recipe, rows.table, sizes=rows.sizes)
    examples = rows.examples(recipe, count_rows=split.rows("train"), cold_items=split.cold_items)
    task.check_examples(recipe, examples)
    training = split.select(examples, "train")
    if not len(training):
        raise DataError(
            "nothing is left of the training part",
            file=recipe.data,
            fix="Make validation and test smaller. Of sets, loosen the item filters or the set sizes.",
        )
    everywhere = examples.select(split.is_in_part[examples.rows])  # of customers who are left out nothing is said
    leaks, leaking, remarks = None, tuple[str, ...](), list[str]()
    run = task.start_of(recipe)
    if known is not None and run is not None:
        schema = known.schema
        if schema is not None:
            check_context_columns(schema, rows.table, file=recipe.data, run=run)
        remarks += context_lines(
            schema,
            training.table,
            run=run,
            file=recipe.data,
            beside=beside_context(recipe, run=run),
            customers=customers_in(recipe, training.table, split),
            min_customers=recipe.min_customers,
        )
    else:
        left_out = tuple(rows.left_out)
        found = schema_of(recipe, training.table, training.rows, split, everywhere=everywhere.table, left_out=left_out)
        schema = found.schema if found is not None else None
        remarks += [*found.remarks(), *found.warnings()] if found is not None else []
        if schema is not None and recipe.schema is None and recipe.leaks == "drop":
            leaks = audit_of(split, examples, schema, groups=rows.groups)
            schema, leaking = without_leaks(schema, leaks)
    before = tuple[str, ...]()
    if recipe.task.has_items and schema is not None and schema.history_columns:
        # What training knows from histories alone can be asked for, too.
        before = tuple(history_items(training.table, schema.history_columns, least=recipe.set_task.policy.min_count))
        cold, counted = split.cold_items, split.rows("train")
        examples = rows.examples(recipe, count_rows=counted, cold_items=cold, known_items=before)
    own, told = task.learned_from(recipe, known, schema, examples=examples, split=split)
    if known is not None and run is not None and isinstance(training, SetTable):
        are_withheld = schema is not None and any(each.shares_items and each.sensitive for each in schema.features)
        told = [*told, *history_item_lines(known, before, training.values, run=run, are_withheld=are_withheld)]
    processor: ContextualBertProcessor = own["processor"]
    first_rows = rows.groups.first_rows if rows.groups is not None else None
    outside = outside_lines_of(everywhere, processor, first_rows=first_rows)
    has_tags = recipe.task.tag_columns is not None and isinstance(examples, TextTable) and examples.has_tags
    kind = "tagging" if has_tags else recipe.task.kind
    resolved = recipe.on_data(schema=schema.to_dict() if schema is not None else None, task=recipe.task.as_kind(kind))
    return TASKS[resolved.task.kind](
        recipe=resolved,
        split=split,
        examples=examples,
        origin=rows.without_rows(),
        remarks=(
            *remarks,
            *told,
            *customer_warnings(recipe, examples.table),
            *alike_values(schema, training.table),
            *outside,
        ),
        leaks=leaks,
        leaking=leaking,
        **own,
    )
