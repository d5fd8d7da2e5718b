"""Base of the tasks of a recipe: which columns a task reads, and what its runs are asked with."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from contextual_bert import evaluation  # it imports numpy when it is used

# Fields of a model's config that a recipe may set.
ALL_FIELDS = ("attention_probs_dropout_prob", "hidden_dropout_prob", "initializer_range", "num_hidden_layers")
NEW_FIELDS = (  # of a model all of whose weights are new
    "backbone",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_norm_eps",
    "max_position_embeddings",
    "num_attention_heads",
)
SET_FIELDS = (
    "has_context_at_output",
    "has_head_layer_norm",
    "has_position_embeddings",
    "predicts_next",
    "softmax_over",
    "tie_word_embeddings",
)
TEXT_FIELDS = ("classifier_dropout", "classifier_pooling", "num_extra_layers")
WORD_FIELDS = ("character_size", "filters", "max_characters", "num_highways")  # of a model of whole words alone


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Base of the tasks of a recipe.

    Attributes:
        kind: the name of the task, a key of ``TASK_SETTINGS``.
        noun: what is learned, in words.
        has_items: True if the rows are sets of items; False if they are texts.
        needs_checkpoint: True if no model can be made without one; a few baselines can.
        reads_context: False where no method but "none" can be had, for no model of this reads a context.
        reads_characters: True where each model reads the characters of words.
        baselines: names of the baselines that learn this.
        hub_tag: name of the task on the Hub.
        command: the command that asks a finished run.
        other_commands: further commands that ask one.
        asked: options of ``command`` that an example of it has.
        package: where ``imported`` is imported from.
        imported: what Python code imports to ask a finished run.
        deploys_baselines: whether a baseline without a BERT is kept, and asked as a run is.
    """

    noun: ClassVar[str]
    has_items: ClassVar[bool]
    needs_checkpoint: ClassVar[bool] = False
    reads_context: ClassVar[bool] = True
    reads_characters: ClassVar[bool] = False
    baselines: ClassVar[Collection[str]] = ()
    hub_tag: ClassVar[str] = "fill-mask"
    command: ClassVar[str]
    other_commands: ClassVar[tuple[str, ...]] = ()
    asked: ClassVar[tuple[str, ...]] = ()
    package: ClassVar[str] = "contextual_bert"
    imported: ClassVar[str]
    deploys_baselines: ClassVar[bool] = True

    kind: str = field(init=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read or learned, beside the context."""
        return ()

    @property
    def unscored_fields(self) -> Mapping[str, Any]:
        """Return fields that only a training reads, and their values where a finished run is evaluated."""
        return {}

    @property
    def grouping(self) -> tuple[str, ...]:
        """Return the columns that put rows together, where the table has one item a row."""
        return ()

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Return the columns of texts, which are read as they are spelt."""
        return ()

    @property
    def code_columns(self) -> tuple[str, ...]:
        """Return the columns that name things."""
        return ()

    @property
    def complete_columns(self) -> tuple[str, ...]:
        """Return the columns of which no cell may be missing."""
        return ()

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Return the fields of a model's config that a recipe may set."""
        return ALL_FIELDS

    @property
    def run_to_start_from(self) -> str | None:
        """Return the run whose vocabulary and weights are gone on from, where a field names one."""
        return None

    @property
    def checkpoint_to_read(self) -> str | None:
        """Return the checkpoint whose tokenizer, or weights, are read; None where none is named."""
        return None

    @property
    def checkpoint_to_start_from(self) -> str | None:
        """Return the checkpoint whose weights are started from; None where all weights are new."""
        return None

    @property
    def tag_columns(self) -> tuple[str, str] | None:
        """Return the columns of words and of labels, where a label may be a list of tags."""
        return None

    @property
    def label_lists(self) -> tuple[str, str] | None:
        """Return the column of labels where a text may have several, and what stands between them in a cell."""
        return None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics by which the best epoch can be chosen."""
        return evaluation.RANK_METRICS

    @property
    def purpose(self) -> str:
        """Return what a finished model does, in words."""
        return f"learned {self.noun}"

    def example_code(self, *, has_context: bool) -> str:
        """Return Python code that asks a finished run; ``imported`` is what it imports."""
        raise NotImplementedError

    def check_recipe(
        self, *, customer: str | None, item_vectors: str | None, training: Mapping[str, Any], trained_weights: str
    ) -> None:
        """Raise ConfigurationError for a setting of a recipe that this task does not read.

        Args:
            customer: column of the customers.
            item_vectors: start of the items' vectors.
            training: settings of the training.
            trained_weights: which weights are trained.
        """

    def as_kind(self, kind: str) -> "TaskSettings":
        """Return the task as the data show it; see ``Classification``."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, ``kind`` first."""
        return {"kind": self.kind, **asdict(self)}


def pipeline_code(task: TaskSettings, query: str, further: str = "", *, has_context: bool) -> str:
    """Return Python code that loads the pipeline of a task and asks it.

    Args:
        task: names the pipeline.
        query: fields of the query.
        further: arguments behind the query.
        has_context: True if the query has a context.
    """
    asked = query + (', "context": {...}' if has_context else "")
    name = task.imported
    return f'pipeline = {name}.from_pretrained("path/to/this/folder")\npipeline({{{asked}}}{further})'
