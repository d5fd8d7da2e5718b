"""Exported graphs, run by onnxruntime: from a context to its state, from a state and a set to the best items.

It knows ids, no names: ``OnnxCompletionPipeline`` translates.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.errors import ConfigurationError, NonFiniteError
from contextual_bert.inference.exported.completion_graph import Example, numbered, state_from
from contextual_bert.models import ContextState, ContextualBertConfig, ContextualBertForMaskedLM

CONTEXT_FILE, COMPLETION_FILE = "context.onnx", "completion.onnx"
INPUTS = ("input_ids", "attention_mask", "position", "permitted")
OUTPUTS = ("ids", "log_probabilities", "excluded")


class Completions(NamedTuple):
    """The best permitted items of each [MASK], set after set.

    Shapes: ids, log_probabilities (blanks, top_k); excluded (blanks,).

    ``log_probabilities`` are renormalised over what is permitted, -inf where nothing is left; ``excluded`` is the
    probability that the model gives to what is not permitted, reserved ids included.
    """

    ids: NDArray[np.int64]
    log_probabilities: NDArray[np.float32]
    excluded: NDArray[np.float32]


class OnnxModel:
    """The graphs of a folder.

    Args:
        directory: with completion.onnx, and context.onnx unless the method takes no context.
        config: of the model that was exported.
        num_threads: that one call uses.
    """

    def __init__(self, directory: Path, config: ContextualBertConfig, *, num_threads: int = 1) -> None:
        with torch.device("meta"):  # settings and shapes, without memory
            self.model = ContextualBertForMaskedLM(config)
        self.completion = session(directory / COMPLETION_FILE, num_threads=num_threads)
        self.context = session(directory / CONTEXT_FILE, num_threads=num_threads) if config.layout else None
        self.state_names = [each.name for each in self.context.get_outputs()] if self.context is not None else []
        # Read once: a call takes half a millisecond, and the settings of a model are slow to ask.
        self.conditioning, self.layout = config.conditioning, config.layout
        self.has_vector = "vector" in self.state_names

    def encode_context(self, context: Mapping[str, Tensor]) -> ContextState | None:
        """As the model's own ``encode_context``, but holding only what goes into the other graph; None without one."""
        if self.context is None:
            return None
        given = {name: tensor.numpy() for name, tensor in numbered(context, self.layout).items()}
        tensors = map(torch.from_numpy, self.context.run(None, given))
        num_rows = next(iter(context.values())).shape[0]
        return state_from(self.model, dict(zip(self.state_names, tensors, strict=True)), num_rows=num_rows)

    def __call__(self, inputs: Example, state: ContextState | None) -> Completions:
        """The best items; ``state`` has a row for each of the inputs, or one for all. ``inputs.context`` is not read.

        Raises:
            ConfigurationError: no state, another number of rows, or the state of another method.
            NonFiniteError: the graph gives no numbers.
        """
        given: dict[str, Any] = {name: getattr(inputs, name).numpy() for name in INPUTS}
        if self.context is not None:
            if state is None:
                raise ConfigurationError("This model takes a context", fix="Give what encode_context makes of it.")
            state = state.for_sets(inputs.input_ids.shape[0], conditioning=self.conditioning)
            tensors = state.states
            if self.has_vector and state.embedding is not None:
                tensors = (state.embedding.vector, *tensors)
            for name, tensor in zip(self.state_names, tensors, strict=True):
                given[name] = tensor.numpy(force=True)
        found = Completions(*self.completion.run(None, given))
        if np.isnan(found.log_probabilities).any() or not np.isfinite(found.excluded).all():
            raise NonFiniteError(
                "The exported graph gives no numbers",
                fix="Its file is damaged, or its inputs are far from those of training. Export the run again, and "
                "look for such numbers in the context.",
            )
        return found


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
