"""Completion by an exported model: the queries and answers of CompletionPipeline, computed by onnxruntime.

It imports no torch and no transformers. The folder of ``export_onnx`` is all that is needed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from contextual_bert.data import ReadSettings
from contextual_bert.errors import ConfigurationError, Message, RunDirectoryError
from contextual_bert.frames import Frame
from contextual_bert.inference.base_pipeline import BaseCompletionPipeline, Gaps, Ranking
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.exported.exported_folder import check_cpu, loading, read_record
from contextual_bert.inference.exported.exported_processor import ExportedProcessor
from contextual_bert.inference.exported.onnx_model import (
    COMPLETION_FILE,
    CONTEXT_FILE,
    Completions,
    ExportedConfig,
    ExportedState,
    GraphInputs,
    OnnxModel,
)
from contextual_bert.inference.exported.origin import items_difference, origin_notes
from contextual_bert.inference.exported.record import OnnxExport
from contextual_bert.inference.queries import MASK
from contextual_bert.inference.saved_files import RECORD_FILE, trained_sets
from contextual_bert.places import PathPlace

NO_LOGITS = (
    "An exported model gives the best items and no logits: take the run itself for whole sets, items alike, guidance "
    "and explanations."
)


class OnnxCompletionPipeline(BaseCompletionPipeline):
    """Completes sets of items with an exported model.

    Args:
        directory: what ``export_onnx`` wrote.
        num_threads: that one call uses.
        catalogue: of the shop, a file or a table.
        reading: how the catalogue is written, as ``Catalogue`` takes it.

    Raises:
        RunDirectoryError: no such folder, or a file of it is missing or damaged.
        ConfigurationError: the extra ``onnxruntime`` is not installed.

    Relation to its siblings:
        The same queries, constraints and answers as ``CompletionPipeline``; ``top_k`` is at most that of the export,
        its ``model`` has settings and no logits, and its ``processor`` gives arrays. ``encode_context`` gives the state
        of a customer for many sets. torch and transformers are not imported.

    Example:
        >>> from contextual_bert.inference import CompletionPipeline, export_onnx
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> trained = CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"]))
        >>> _ = export_onnx(trained, "exported", top_k=3)
        >>> OnnxCompletionPipeline("exported")({"items": ["hat", "[MASK]"]}, top_k=1)["slots"][0]["candidates"]
        [{'item': 'coat', 'probability': 1.0}]
    """

    no_logits = NO_LOGITS

    def __init__(
        self,
        directory: str | Path,
        *,
        num_threads: int = 1,
        catalogue: str | Path | Frame | None = None,
        reading: ReadSettings | None = None,
    ) -> None:
        directory = Path(directory)
        self.record = cast(OnnxExport, read_record(directory, graph=COMPLETION_FILE))
        self.directory = directory
        config = ExportedConfig.from_pretrained(directory)
        with loading(directory):
            processor = ExportedProcessor.from_pretrained(directory)
            self.exported = OnnxModel(directory, config, num_threads=num_threads)
        shop = Catalogue(catalogue, processor.items, reading=reading) if catalogue is not None else None
        super().__init__(self.exported, processor, catalogue=shop)
        top_k: object = self.record.get("top_k")
        if type(top_k) is not int or top_k < 1:
            path = directory / RECORD_FILE
            raise RunDirectoryError(
                f"has top_k={top_k!r:.40}, no whole number above 0. Export the run again.", place=PathPlace(path)
            )
        self.is_new = self._new_items()
        differs = partial(items_difference, processor)
        self.origin_notes = origin_notes(directory, self.record, difference=differs, options=self._options())
        if self.is_new is not None and shop is not None and shop.unknown_items:
            self.origin_notes.append(
                "An export knows the items of its run alone. To make new ones known, give the catalogue to "
                "contextual-bert catalogue add, and export the run that it writes."
            )
        has_all = top_k >= config.vocab_size  # then more may be asked for, as of the run
        self.sets = trained_sets(directory)
        self.max_top_k = None if has_all else self.record["top_k"]

    def _options(self) -> str:
        """Return the options of the command that exported the run."""
        matrix = self.record.get("output_matrix")
        of_matrix = f" --output-matrix {matrix}" if matrix != "float32" else ""
        return f" --top {self.record.get('top_k')}{of_matrix}"

    def _new_items(self) -> NDArray[np.bool_] | None:
        """Return which items no set of training held, None where the record does not say it."""
        names: Any = self.record.get("new_items")
        if names is None:
            return None
        found = np.zeros(len(self.processor.items), dtype=np.bool_)
        for name in cast("list[Any]", names) if isinstance(names, list) else [None]:
            index = self.processor.items.id_of_value(name) if isinstance(name, str) else None
            if index is None:
                raise RunDirectoryError(
                    f"has new_items={names!r:.60}, no list of its items. Export the run again.",
                    place=PathPlace(self.directory / RECORD_FILE),
                )
            found[index] = True
        return found

    @classmethod
    def from_pretrained(
        cls,
        directory: str | Path,
        *,
        device: str | None = None,
        catalogue: str | Path | Frame | None = None,
        reading: ReadSettings | None = None,
    ) -> Self:
        """The pipeline of an export's folder, and a catalogue if there is one.

        Raises:
            ConfigurationError: a device other than the CPU.
        """
        check_cpu(device)
        return cls(directory, catalogue=catalogue, reading=reading)

    def rank_permitted(
        self,
        sets: Sequence[Sequence[str]],
        context: Mapping[str, Any] | ExportedState | None,
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
        guidance: Sequence[float] | float = 1.0,
        gaps: Gaps | None = None,
    ) -> Ranking:
        """Rank the permitted items of each [MASK] of a batch.

        Raises:
            ConfigurationError: more proposals than were exported, or a guidance, which needs the logits.
        """
        if any(each != 1 for each in (guidance if isinstance(guidance, Sequence) else [guidance])):
            raise ConfigurationError(NO_LOGITS)
        top_k = min(top_k, len(self.processor.items))
        if top_k > self.record["top_k"]:
            raise ConfigurationError(
                Message("is too many: this model was exported with {top_k}", top_k=self.record["top_k"]),
                setting="top_k",
                value=top_k,
                fix="Ask for less, or export it again with more.",
            )
        found = self.rank(sets, context, permitted, gaps=gaps)
        return Ranking(found.ids[:, :top_k], np.exp(found.log_probabilities[:, :top_k]), found.excluded)

    def complete_jointly(self, queries: Any, **settings: Any) -> NoReturn:
        """Refuse to fill blanks together, which needs logits.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(NO_LOGITS)

    def rank(
        self,
        sets: Sequence[Sequence[str]],
        context: Mapping[str, Any] | ExportedState | None,
        permitted: NDArray[np.bool_],
        *,
        gaps: Gaps | None = None,
    ) -> Completions:
        """Return the best permitted items as arrays: a row a [MASK], set after set.

        The other [MASK] of a set stay in it.

        Shapes:
            permitted (blanks, vocabulary).

        Args:
            sets: names of items.
            context: encoded features by name, as arrays or tensors; or what ``encode_context`` made of them.
            permitted: which items each blank may get.
            gaps: of time before each item of each set; None: not known, or not read.
        """
        state = context if isinstance(context, ExportedState) else self.encode_context(context or {})
        blanks = [(row, index) for row, items in enumerate(sets) for index, item in enumerate(items) if item == MASK]
        rows, positions = np.array(blanks, np.int64).reshape(-1, 2).T
        if gaps is None and self.exported.config.time_gaps is not None:
            gaps = [np.zeros(len(items), np.int64) for items in sets]
        encoded = self.processor.encode_names(sets, gaps)
        if state is not None and not np.array_equal(rows, np.arange(len(sets))):
            state = state.for_sets(len(sets), conditioning=self.exported.conditioning).rows(rows)
        ids, mask = encoded["input_ids"][rows], encoded["attention_mask"][rows]
        of_blanks = encoded["token_type_ids"][rows] if gaps is not None else None
        return self.exported(GraphInputs(ids, mask, positions, permitted, of_blanks), state)

    def encode_context(self, context: Mapping[str, Any]) -> ExportedState | None:
        """Return the encoding of a context for ``rank``, reusable for many sets.

        Args:
            context: encoded features by name, as arrays or tensors.

        Returns:
            None for a model without a context.
        """
        return self.exported.encode_context(context)

    def weights_digest(self) -> str:
        """Return a hash of the graphs."""
        graphs = hashlib.sha256()
        for path in (self.directory / CONTEXT_FILE, self.directory / COMPLETION_FILE):
            if path.is_file():
                graphs.update(path.read_bytes())
        return graphs.hexdigest()
