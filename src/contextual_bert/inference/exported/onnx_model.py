"""Exported graphs, run by onnxruntime: from a context to its state, from a state and a set to the best items.

It knows ids, no names: ``OnnxCompletionPipeline`` translates. It imports no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError, NonFiniteError, RunDirectoryError, shown
from contextual_bert.item_loss import ItemLoss
from contextual_bert.json_text import read_json_object
from contextual_bert.models.compatibility import check_state
from contextual_bert.models.learned_absence import LearnedAbsence
from contextual_bert.places import JsonPlace, PathPlace
from contextual_bert.softmax_over import SoftmaxOver

Values = TypeVar("Values")
CONTEXT_FILE, COMPLETION_FILE = "context.onnx", "completion.onnx"
INPUTS = ("input_ids", "attention_mask", "position", "permitted")
OUTPUTS = ("ids", "log_probabilities", "excluded")


class GraphInputs(NamedTuple):
    """Inputs of the completion graph besides the state: a row a [MASK].

    Shapes: input_ids, attention_mask (blanks, length) int64; position (blanks,) int64, the [MASK] that is asked;
    permitted (blanks, vocabulary) bool; token_type_ids (blanks, length) int64, the gaps of time, of a model that reads
    them.
    """

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    position: NDArray[np.int64]
    permitted: NDArray[np.bool_]
    token_type_ids: NDArray[np.int64] | None = None


class Completions(NamedTuple):
    """The best permitted items of each [MASK], set after set.

    Shapes: ids, log_probabilities (blanks, top_k); excluded (blanks,).

    ``log_probabilities`` are renormalised over what is permitted, -inf where nothing is left; ``excluded`` is the
    probability that the model gives to what is not permitted, reserved ids included.
    """

    ids: NDArray[np.int64]
    log_probabilities: NDArray[np.float32]
    excluded: NDArray[np.float32]


@dataclass(frozen=True)
class ExportedState:
    """The encoded context of customers, as the context graph gives it; reusable for many sets.

    Args:
        conditioning: the method of the model that made it: no other may read it.
        arrays: output of the context graph -> (customers, ...).
        num_rows: customers; one customer serves any number of sets.

    Relation to its siblings:
        ``ContextState`` is the same in torch.
    """

    conditioning: str
    arrays: Mapping[str, NDArray[np.float32]]
    num_rows: int

    def for_sets(self, num_sets: int, *, conditioning: str) -> Self:
        """Return a row a set: one customer's row serves all sets, several customers have one set each.

        Args:
            num_sets: number of sets.
            conditioning: the method of the model that reads it.

        Raises:
            ConfigurationError: another number of rows, or the state of a model with another method.
        """
        check_state(made_with=self.conditioning, conditioning=conditioning, num_rows=self.num_rows, num_sets=num_sets)
        if self.num_rows == num_sets:
            return self
        return self.rows(np.zeros(num_sets, np.int64))

    def rows(self, index: NDArray[np.int64]) -> Self:
        """Return the chosen rows, by number."""
        arrays = {name: array[index] for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, num_rows=len(index))


@dataclass(frozen=True, kw_only=True)
class GraphConfig:
    """The settings that each exported model has, under the names of ``ContextualBertConfig``."""

    vocab_size: int
    conditioning: str
    context_features: list[FeatureLayout] | None
    has_context_as_text: bool
    has_position_embeddings: bool
    max_position_embeddings: int
    context_dropout: float
    field_dropout: float
    rarely_missing: tuple[str, ...] | None

    @classmethod
    def from_pretrained(cls, directory: Path) -> Self:
        """Read the config.json of an export.

        Raises:
            RunDirectoryError: it cannot be read, or lacks a setting.
        """
        path = directory / "config.json"
        content = read_json_object(path, fix="Export the run again.")
        try:
            return TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            [first, *_] = error.errors()
            problem = (
                "is missing or damaged" if first["type"] == "missing" else f"{shown(first['input'])} is not allowed"
            )
            place = JsonPlace(tuple(first["loc"]), str(path))
            raise RunDirectoryError(problem, place=place, value=first["input"], fix="Export the run again.") from None

    @property
    def layout(self) -> tuple[FeatureLayout, ...]:
        """Return the layout of each feature."""
        return tuple(self.context_features or ())

    @property
    def reads_context(self) -> bool:
        """Return True if the context changes the output."""
        return bool(self.context_features) or self.has_context_as_text


@dataclass(frozen=True, kw_only=True)
class ExportedConfig(GraphConfig):
    """The settings of an exported model that a completion depends on."""

    softmax_over: SoftmaxOver
    predicts_next: bool = False
    time_gaps: str | None = None
    item_loss: ItemLoss = "cross_entropy"


class OnnxGraphs(LearnedAbsence):
    """The graphs of a folder: of the context, and the one that reads its encoding.

    Args:
        directory: with the file, and context.onnx unless the method takes no context.
        config: of the model that was exported: its own, or what a folder says.
        file: of the graph that reads the encoding.
        inputs: of that graph, beside the encoding.
        num_threads: that one call uses.

    Raises:
        RunDirectoryError: graphs and config do not belong together.
    """

    def __init__(self, directory: Path, config: Any, *, file: str, inputs: Sequence[str], num_threads: int = 1) -> None:
        self.config = config
        self.graph = session(directory / file, num_threads=num_threads)
        self.context = session(directory / CONTEXT_FILE, num_threads=num_threads) if config.layout else None
        self.state_names = [each.name for each in self.context.get_outputs()] if self.context is not None else []
        given = {file: (self.graph, {*inputs, *self.state_names})}
        if self.context is not None:
            features = {each.name: each for each in config.layout}
            given[CONTEXT_FILE] = (self.context, {*numbered(features, config.layout)})
        for each, (graph, names) in given.items():
            if {found.name for found in graph.get_inputs()} != names:
                raise RunDirectoryError(
                    f"{each} does not read what config.json names",
                    fix="Its files do not belong together: copy the folder again, or export the run again.",
                    place=PathPlace(directory, is_subject=False),
                )
        # Read once: a call takes half a millisecond, and the settings of a model are slow to ask.
        self.conditioning: str = config.conditioning
        self.layout: tuple[FeatureLayout, ...] = config.layout

    def encode_context(self, context: Mapping[str, Any]) -> ExportedState | None:
        """Encode the contexts of customers. None for a model without one.

        Args:
            context: encoded features by name, as arrays or tensors.
        """
        if self.context is None:
            return None
        given = {name: np.asarray(values) for name, values in numbered(context, self.layout).items()}
        found = dict(zip(self.state_names, self.context.run(None, given), strict=True))
        return ExportedState(self.conditioning, found, num_rows=len(next(iter(given.values()))))


class OnnxModel(OnnxGraphs):
    """The graphs of an export of sets.

    Args:
        directory: with completion.onnx, and context.onnx unless the method takes no context.
        config: as for ``OnnxGraphs``.
        num_threads: that one call uses.

    Raises:
        RunDirectoryError: graphs and config do not belong together.
    """

    def __init__(self, directory: Path, config: Any, *, num_threads: int = 1) -> None:
        inputs = inputs_of(config)
        super().__init__(directory, config, file=COMPLETION_FILE, inputs=inputs, num_threads=num_threads)

    def __call__(self, inputs: GraphInputs, state: ExportedState | None) -> Completions:
        """Return the best items.

        Args:
            inputs: a row a [MASK].
            state: a row for each of the inputs, or one for all.

        Raises:
            ConfigurationError: no state, another number of rows, or the state of another method.
            NonFiniteError: the graph gives no numbers.
        """
        given: dict[str, Any] = {name: value for name, value in inputs._asdict().items() if value is not None}
        if self.context is not None:
            if state is None:
                raise ConfigurationError("This model takes a context", fix="Give what encode_context makes of it.")
            given |= state.for_sets(len(inputs.input_ids), conditioning=self.conditioning).arrays
        found = Completions(*self.graph.run(None, given))
        if np.isnan(found.log_probabilities).any() or not np.isfinite(found.excluded).all():
            raise no_numbers()
        return found


def no_numbers() -> NonFiniteError:
    """Return the error of a graph that gives NaN or infinity."""
    return NonFiniteError(
        "The exported graph gives no numbers",
        fix="Its file is damaged, or its inputs are far from those of training. Export the run again, and look for "
        "such numbers in the context.",
    )


def inputs_of(config: Any) -> tuple[str, ...]:
    """Return the names of the inputs of a model's completion graph besides the state."""
    return INPUTS if config.time_gaps is None else (*INPUTS, "token_type_ids")


def numbered(context: Mapping[str, Values], layout: Sequence[FeatureLayout]) -> dict[str, Values]:
    """Return the values of the features as ``feature_0``, ``feature_1``, ... in the order of the layout.

    A column may have any name. Quotes and line breaks cannot stand in the name of a graph's input, and a column
    ``state_0`` would be an output of the same graph.
    """
    return {f"feature_{index}": context[feature.name] for index, feature in enumerate(layout)}


def session(path: Path, *, num_threads: int) -> Any:
    """An ONNX file, ready to run on the CPU."""
    import onnxruntime  # noqa: PLC0415  (an optional extra)

    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
    options.log_severity_level = 3  # errors
    # Threads that spin while they wait take the core from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def check_installed(*packages: str, extra: str) -> None:
    """Raise ConfigurationError unless packages are there.

    Args:
        packages: their names.
        extra: of this distribution, which installs them.

    Example:
        >>> check_installed("numpy", extra="onnxruntime")
    """
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        raise ConfigurationError(
            f"This needs {', '.join(absent)}, not installed here",
            fix=f"Run: pip install 'contextual-bert[{extra}]'.",
        )
