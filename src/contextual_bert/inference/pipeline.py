"""It is trained, how do I predict? Raw values in, raw values out.

The run directory is all that is needed. ``base_pipeline`` reads the queries and makes the answers; here torch ranks.
This module knows no table and no training.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.candidates import exclude, excluded_ids
from contextual_bert.data import ReadSettings
from contextual_bert.errors import RunDirectoryError
from contextual_bert.frames import Frame
from contextual_bert.inference.applied_calibration import AppliedCalibration
from contextual_bert.inference.base_pipeline import BaseCompletionPipeline, Gaps, Query, Ranking
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.completion_answers import JointAnswer, Method, new_item_notes
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.guidance import guided_logits, guided_states
from contextual_bert.inference.index_ranking import NOTHING_ADDED, AddedScores, IndexRanker
from contextual_bert.inference.item_index import ItemIndex, index_of
from contextual_bert.inference.item_updates import with_new_items
from contextual_bert.inference.joint import JointSearch
from contextual_bert.inference.output_rows import OutputRows
from contextual_bert.inference.queries import Request, check_queries, check_set, encode_contexts, read_request
from contextual_bert.inference.saved import load_item_model
from contextual_bert.inference.saved_files import RUN_FILES, check_holds_model, check_run, holds_baseline, trained_sets
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.json_text import json_text
from contextual_bert.models import ContextState, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.places import PathPlace


class CompletionPipeline(BaseCompletionPipeline):
    """Completes sets of items.

    Formula:
        Pr(M = w | w_-i, c, permitted) = Pr(M = w | w_-i, c) / sum of the same over the permitted items

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.
        catalogue: the shop's table of items, for constraints on attributes, prices and stock.

    Raises:
        ConfigurationError: model, processor and catalogue do not belong together.

    Relation to its siblings:
        Called, it fills several [MASK] of one set each by itself, given the visible items; ``complete_jointly`` fills
        them together. ``inference.scoring`` scores whole data sets.

    Reference:
        Denk and Peleteiro Ramallo (2020), Figure 2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=5, **sizes))
        >>> pipeline = CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat"]))
        >>> pipeline({"items": ["hat", "[MASK]"]})["slots"][0]["candidates"]
        [{'item': 'coat', 'probability': 1.0}]
    """

    processor: ContextualBertProcessor

    def __init__(
        self,
        model: ContextualBertForMaskedLM,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        super().__init__(model, processor, catalogue=catalogue)
        place: Any = device if device is not None else model.device
        self.model: ContextualBertForMaskedLM = model.to(place).eval()
        attributes = self.model.bert.embeddings.attributes
        self.is_new = attributes.is_new.cpu().numpy() if attributes is not None else None
        self.ranker: IndexRanker | None = None

    @classmethod
    def from_pretrained(
        cls,
        directory: str | Path,
        *,
        device: str | torch.device | None = None,
        catalogue: str | Path | Frame | None = None,
        reading: ReadSettings | None = None,
        is_exact: bool = False,
    ) -> Self:
        """The pipeline of a run directory, and a catalogue if there is one: a file or a table.

        On the CPU the index of the run's items ranks them, where ``contextual-bert index`` made one and ``is_exact`` is
        not true.

        Where the run's items have features, items of the catalogue that it does not know are known by theirs.

        ``reading`` says how the catalogue is written, as ``Catalogue`` takes it.

        Raises:
            RunDirectoryError: no such directory, an interrupted run, or a file of it is missing.
            SchemaError, UnknownNameError, DataError: a faulty catalogue.
        """
        directory = Path(directory)
        check_run(directory)
        check_holds_model(directory)
        missing = [name for name in RUN_FILES if not (directory / name).is_file()]
        if missing and not holds_baseline(directory):
            raise RunDirectoryError(
                f"is no complete run directory: {', '.join(missing)} missing",
                fix="Train again, or name the folder given as --output.",
                place=PathPlace(directory),
            )
        model, processor = load_item_model(directory)
        shop = None
        if catalogue is not None:
            shop = Catalogue(catalogue, processor.items, reading=reading)
            model, processor, shop = with_new_items(model, processor, shop)
        pipeline = cls(model, processor, device=device, catalogue=shop)
        pipeline.sets = trained_sets(directory)
        pipeline.verdicts = FieldVerdicts.from_run(directory)
        if not is_exact and pipeline.model.device.type == "cpu":
            index, pipeline.origin_notes = index_of(directory)
            if index is not None:
                pipeline.rank_by(index)
        return pipeline

    def calibrate_by(self, calibration: AppliedCalibration) -> None:
        """Give tempered probabilities and prediction sets from now on; no index ranks then."""
        super().calibrate_by(calibration)
        self.rank_by(None)

    def rank_by(self, index: ItemIndex | None) -> None:
        """Rank the items by an index of the output matrix from now on; by the whole matrix, with None.

        Joint completions and items alike go on with the whole matrix.
        """
        self.ranker = IndexRanker(index, self.output_rows()) if index is not None else None

    @torch.no_grad()
    def output_rows(self) -> OutputRows:
        """Return the rows of the output matrix as arrays, with what the features of items add."""
        return OutputRows(*(each.float().cpu().numpy() for each in self.model.output_matrix()))

    def complete_jointly(
        self,
        queries: Query | Sequence[Query],
        *,
        num_completions: int = 5,
        diversity: int = 1,
        method: Method = "auto",
        max_forward_passes: int = 1000,
        batch_size: int = 256,
        seed: int = 0,
    ) -> JointAnswer | list[JointAnswer]:
        """Fill all blanks of one query or of many together: whole sets, best first.

        Args:
            queries: as for a call; a budget and ``at_most_one_per`` hold for every set as a whole.
            num_completions, diversity, method, max_forward_passes, batch_size, seed: see ``JointSearch``, which also
                says which joint distribution is meant.

        Returns:
            A JointAnswer for one query, a list of them for a list.

        Raises:
            ConfigurationError, DataError, UnknownNameError: a setting that cannot work, a faulty query.
        """
        how = JointSearch(num_completions, diversity, method, max_forward_passes, batch_size, seed)
        given = [queries] if isinstance(queries, Mapping | Request) else check_queries(queries)
        requests = [read_request(query, row=row) for row, query in enumerate(given)]
        context = encode_contexts(requests, self.processor)
        answers: list[JointAnswer] = []
        about = ContextNotes(context, self.processor.schema, self.model)
        for row, request in enumerate(requests):
            check_set(request, self.model.config, row=row)
            read, gaps = self.read_of([request.items], self.gaps_of([request], row=row))
            inputs: dict[str, Any] = self.processor.encode_items(read, gaps)
            if context is not None:
                inputs["context"] = context.rows(slice(row, row + 1))
            asked = self.asked(request)
            found = how.run(
                partial(self.logits, guidance=request.guidance),
                inputs,
                request,
                asked=asked,
                permitted=self.permitted(request, row=row),
                has_order=self.model.config.has_position_embeddings,
            )
            notes = [*([found["reason"]] if found["reason"] else []), *about.of(row)]
            for each in found["completions"]:
                if self.is_new is not None:
                    each["new_items"] = self.new_among(each["filled"])
            remarks = self.remarks(request, notes)
            remarks["notes"] += new_item_notes(
                item for each in found["completions"] for item in each.get("new_items", ())
            )
            answers.append({**found, **remarks})
        return answers[0] if isinstance(queries, Mapping | Request) else answers

    def logits(self, inputs: Mapping[str, Any], *, guidance: Sequence[float] | float = 1.0) -> Tensor:
        """Of every [MASK] of a batch, row after row: (masked, vocabulary), float32.

        Args:
            inputs: what ``forward`` takes; with a ``logits_at`` (batch, length), the logits are of those positions.
            guidance: how personal each row is to be, or all of them.
        """
        ids: Tensor = inputs["input_ids"]
        rows = inputs.get("logits_at", ids == self.model.config.mask_token_id).nonzero()[:, 0]
        weights = guidance if isinstance(guidance, Sequence) else [guidance] * len(ids)
        return guided_logits(self.model, inputs, weights, rows=rows)

    def rank_permitted(
        self,
        sets: Sequence[Sequence[str]],
        context: Mapping[str, Tensor | NDArray[Any]] | ContextState | None,
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
        guidance: Sequence[float] | float = 1.0,
        gaps: Gaps | None = None,
    ) -> Ranking:
        inputs: dict[str, Any] = self.processor.encode_items(sets, gaps)
        if isinstance(context, Mapping):
            inputs["context"] = {name: torch.as_tensor(values) for name, values in context.items()}
        elif context is not None:
            inputs["context"] = context
        if self.ranker is not None:
            return self._rank_by_index(self.ranker, inputs, permitted, top_k=top_k, guidance=guidance)
        logits = self.logits(inputs, guidance=guidance)
        is_permitted = torch.from_numpy(permitted).to(logits.device)
        ids = cast(Tensor, inputs["input_ids"]).to(logits.device)
        blanks = (ids == self.model.config.mask_token_id).flatten().nonzero(as_tuple=True)[0]
        excluded_of_blanks = excluded_ids(self._over, ids, blanks, reserved=self.model.config.reserved_token_ids)
        of_all = exclude(logits, excluded_of_blanks).logsumexp(dim=-1, keepdim=True)
        logits = logits.masked_fill(~is_permitted, -torch.inf)
        # The best by logit, not by probability: that of a permitted item may be 0 too, by underflow.
        best = logits.topk(min(top_k, logits.shape[-1]), dim=-1)
        of_permitted = logits.logsumexp(dim=-1, keepdim=True)
        excluded = 1 - (of_permitted - of_all)[:, 0].clamp(max=0).exp()
        probabilities = (best.values - of_permitted).exp()
        return Ranking(best.indices.cpu().numpy(), probabilities.cpu().numpy(), excluded.cpu().numpy())

    def _rank_by_index(
        self,
        ranker: IndexRanker,
        inputs: Mapping[str, Any],
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
        guidance: Sequence[float] | float,
    ) -> Ranking:
        ids = cast(Tensor, inputs["input_ids"])
        blanks = (ids == self.model.config.mask_token_id).flatten().nonzero(as_tuple=True)[0]
        rows = blanks // ids.shape[1]
        weights = guidance if isinstance(guidance, Sequence) else [guidance] * len(ids)
        states = guided_states(self.model, inputs, weights, rows=rows)
        reserved = self.model.config.reserved_token_ids
        left_out = cast(Tensor, excluded_ids(self._over, ids, blanks, reserved=reserved)).numpy()
        added = [NOTHING_ADDED] * len(blanks)
        if states.added is not None:
            pairs = zip(states.added.items.numpy(), states.added.scores.float().numpy(), strict=True)
            added = [AddedScores.summed(*pair) for pair in pairs]
        top_k = min(top_k, self.model.config.vocab_size)
        found = Ranking(
            np.zeros((len(blanks), top_k), np.int64),
            np.zeros((len(blanks), top_k)),
            np.zeros(len(blanks)),
            np.zeros(len(blanks)),
        )
        for row, state in enumerate(states.read.numpy()):
            best = ranker.rank(state, permitted[row], top_k=top_k, left_out=left_out[row], added=added[row])
            found.ids[row, : len(best.ids)], found.probabilities[row, : len(best.ids)] = best.ids, best.probabilities
            found.excluded[row], cast(Any, found.errors)[row] = best.excluded, best.error
        return found

    def weights_digest(self) -> str:
        """Return a hash of the weights, the same on every device, and of the index that ranks, if one does."""
        weights = hashlib.sha256()
        if self.ranker is not None:
            weights.update(json_text(asdict(self.ranker.index.record)).encode())
        for name, weight in sorted(self.model.state_dict().items()):
            weights.update(name.encode())
            weights.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return weights.hexdigest()
