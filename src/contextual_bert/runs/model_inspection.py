"""Inspection of a finished run's model on one query: its attention and its prediction, with the context and without.

"Without" is what the model knows of it: another context, where one is named; nothing known, where training showed such
rows; else the average over contexts of the run's table. Every kind of task goes the one way of ``Task.inspected``.
Paper: not there; docs/guides/explain.md, "Look inside".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from rich.console import Group
from torch import Tensor

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.context import canonical
from contextual_bert.data import Split
from contextual_bert.errors import WITHHELD, ConfigurationError, Message
from contextual_bert.evaluation.attention import AttentionMaps
from contextual_bert.evaluation.pages import Picture, Section, render_html_page
from contextual_bert.evaluation.probe_curves import PROBES_FILE, ProbeCurve, draw_probes
from contextual_bert.evaluation.tables import Table, render_markdown, render_rich
from contextual_bert.frames import Frame
from contextual_bert.inference.activations import record_activations
from contextual_bert.inference.context_notes import ContextNotes
from contextual_bert.inference.inspected_queries import InspectedQuery
from contextual_bert.inference.queries import UNUSED_CONTEXT, in_queries, query_context
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.json_text import json_text
from contextual_bert.models import ContextualBertPreTrainedModel, ContextualBertProcessor
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.places import PathPlace
from contextual_bert.runs.evaluator import evaluated_recipe, evaluated_rows
from contextual_bert.runs.probing import checked_layers
from contextual_bert.runs.run_directory import FinishedRun, finished_run
from contextual_bert.runs.shifts import LEARNED
from contextual_bert.runs.tasks import TASKS

NUM_CONTEXTS = 64  # whose average stands for no context, where training showed none
SHOWN_CHOICES = 5  # of a place; of a text with many places fewer
MANY_PLACES = 4
PROBED = (
    "A linear head reads a target from the states of each layer. It learned on the training part, and its accuracy is "
    "that of rows that were held out. With the contexts of others the states hold of a field what the text or set "
    "tells by itself; what a layer tells beyond that came from the context. The input is what the first layer reads."
)
CROSS_ATTENTION = "attention of what is written"
CROSS_READ = "Each row is a token that is written, each column one of the text that it reads. The last layer is shown."
Progress = Callable[[int, int], None]


class ChoiceShare(NamedTuple):
    """The probability of one choice at one place, with the context and with what it is compared with."""

    place: str
    choice: str
    probability: float
    compared: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelInspection:
    """Attention and prediction of a model for one query.

    Args:
        title: what was asked of which run.
        asked: the query and the context, a line each.
        compared: what the context is compared with; None where the model reads none.
        heading: what the columns of comparison are called.
        maps: the attention; without layers where an encoder has none.
        cross_maps: the attention of the tokens that are written to the text, of a model that writes with it.
        predictions: the likeliest choices of each place.
        notes: what the reader should know.
        probes: accuracy of linear probes by layer, where they were asked for.
    """

    title: str
    asked: tuple[str, ...]
    compared: str | None
    heading: str
    maps: AttentionMaps
    predictions: tuple[ChoiceShare, ...]
    notes: tuple[str, ...]
    cross_maps: AttentionMaps | None = None
    probes: tuple[ProbeCurve, ...] = ()

    def tables(self) -> list[Table]:
        """Return the prediction, and where attention moved."""
        columns = ("place", "choice", "with", *([self.heading, "difference, points"] if self.compared else []))
        rows = tuple(_cells(each) for each in self.predictions)
        predicted = [Table("Prediction", columns, rows, num_label_columns=2)] if rows else []
        moved = self.maps.tables(compared=self.heading)
        return [*predicted, *moved, *self._cross_tables(), *(each.table() for each in self.probes)]

    def _cross_tables(self) -> list[Table]:
        maps = self.cross_maps
        return maps.tables(compared=self.heading, noun=CROSS_ATTENTION) if maps is not None else []

    def to_json(self) -> str:
        """Return names and numbers as JSON."""
        found = {
            "asked": [*self.asked],
            "compared_with": self.compared,
            "predictions": [each._asdict() for each in self.predictions],
            **self.maps.to_dict(),
            **({"written": self.cross_maps.to_dict()} if self.cross_maps is not None else {}),
            "probes": [each.to_dict() for each in self.probes],
            "notes": [*self.notes],
        }
        return json_text(found, ensure_ascii=False, indent=1)

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        return render_markdown(self.title, self.tables(), [*self.asked, *self.notes])

    def to_rich(self) -> Group:
        """Return the tables for a terminal."""
        return render_rich(self.title, self.tables(), [*self.asked, *self.notes])

    def to_html(self) -> str:
        """Return a page with all maps, which needs no other file."""
        predicted = [each for each in self.tables() if each.title == "Prediction"]
        attention = (
            "Each row is a position that looks, each column one that is looked at, and a row adds up to 1. A map says "
            "where a layer looked, not why an answer came out."
        )
        sections = [
            Section("What was asked", ("\n".join(self.asked),), notes=self.notes),
            Section("What the model says", tables=tuple(predicted)),
        ]
        if self.maps.layers:
            sections.append(
                Section(
                    "Attention",
                    (attention,),
                    figure=self.maps.to_html(compared=self.compared or ""),
                    tables=tuple(self.maps.tables(compared=self.heading)),
                )
            )
        if self.cross_maps is not None:
            sections.append(
                Section(
                    CROSS_ATTENTION.capitalize(),
                    (CROSS_READ,),
                    figure=self.cross_maps.to_html(compared=self.compared or "", figure_id="written"),
                    tables=tuple(self._cross_tables()),
                )
            )
        images: dict[str, bytes] = {}
        if self.probes:
            images[PROBES_FILE] = draw_probes(self.probes)
            said = "Accuracy of a linear probe of each layer; below, the weights of the layers in the learned mixture."
            pictures = (Picture(PROBES_FILE, said, f"{said} The numbers are in the tables."),)
            tables = tuple(each.table() for each in self.probes)
            sections.append(Section("What each layer tells", (PROBED,), tables=tables, pictures=pictures))
        return render_html_page(self.title, [each for each in sections if each != Section(each.title)], images)


def inspect_model(
    directory: Path | FinishedRun,
    query: Mapping[str, Any],
    *,
    versus: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    source: Frame | None = None,
    progress: Progress | None = None,
) -> ModelInspection:
    """Record what the model of a run computes for one query: with the context and with something in its place.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        query: {"text": "...", "context": {...}}; also "pair", "question", or "items" of a set, as the run learned.
        versus: fields of the context that are others in the comparison. None: the context is taken away.
        overrides: fields of the recipe that are others here: ``data`` and ``reading`` of the table, ``device``.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.
        progress: called with (forward passes done, forward passes in all).

    Raises:
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        ConfigurationError: a baseline, which has no attention; ``versus`` for a model that reads no context.
        QueryError, UnknownNameError: a faulty query, by the place in it.
        DataError, SchemaError: the table, of which the average is taken, is gone or does not fit.
    """
    run = finished_run(directory)
    recipe = evaluated_recipe(run.recipe, overrides or {})
    task = TASKS[recipe.task.kind]
    processor, model = task.load_model(run.directory, recipe)
    model = checked_layers(model, run)
    if task.inspected is None:
        raise ConfigurationError(
            f"is a run on {recipe.task.noun}, and one query to such a run predicts nothing that could be looked into",
            place=PathPlace(run.directory),
            fix="Look into a run that predicts; a task of your own says by its attribute inspected how it is asked.",
        )
    if not model.config.blocks.has_attention and model.config.decoder_type in (None, "gru"):
        raise ConfigurationError(
            f"has blocks of {model.config.backbone!r}, which read one position after another: there is no attention",
            place=PathPlace(run.directory),
            fix="Look into a run with attention; importance and explain say what any model reads.",
        )
    if getattr(model.config, "segment_length", None) is not None:
        raise ConfigurationError(
            "reads a text in segments, each of which has states and maps of its own, and no text has one of each",
            place=PathPlace(run.directory),
            fix="Look into a run that reads texts whole.",
        )
    if recipe.conditioning == CONTEXT_AS_TEXT:
        processor = processor.with_context_as("text")
    contexts = _Contexts(run, processor, model, query, versus=versus)
    contexts.add_compared(lambda: evaluated_rows(recipe, run.recipe, source).table)
    longest = num_readable(model.config, processor.tokenizer) if processor.is_for_text else model.config.vocab_size
    asked = task.inspected(model, processor, query, room=contexts.room(longest))
    asked.inputs |= asked.further_inputs(contexts.own)
    answer = _Recorder(asked, contexts.sentences_of)
    found: list[_Answer] = []
    for done, context in enumerate((contexts.own, *contexts.compared), 1):
        found.append(answer(context))
        if progress is not None:
            progress(done, 1 + len(contexts.compared))
    own, others = found[0], found[1:]
    return ModelInspection(
        title=f"Inside {run.directory.name}",
        asked=tuple(contexts.lines(query)),
        compared=contexts.name,
        heading="versus" if versus else "without",
        maps=_maps(own, others, heads=answer.heads(own)),
        cross_maps=_cross_maps(own, others),
        predictions=tuple(_shares(asked, own, others)),
        notes=(*asked.notes, *contexts.notes),
    )


class _Answer(NamedTuple):
    """What a model computed for one context: names of positions, which of them are no words of a context, the maps of
    each layer, the probabilities at each place, and the map of a text that is written."""

    tokens: tuple[str, ...]
    shared: tuple[int, ...]
    layers: list[NDArray[np.float32]]
    shares: dict[str, Tensor]
    cross: AttentionMaps | None


class _Contexts:
    """The context of a query, encoded, and those that it is compared with."""

    def __init__(
        self,
        run: FinishedRun,
        processor: ContextualBertProcessor,
        model: ContextualBertPreTrainedModel,
        query: Mapping[str, Any],
        *,
        versus: Mapping[str, Any] | None,
    ) -> None:
        self.run, self.processor, self.model = run, processor, model
        self.record = query_context(query, row=0)
        self.versus = versus
        self.reads = bool(model.config.reads_context and processor.schema is not None)
        self.name: str | None = None
        self.notes: list[str] = []
        self.own: dict[str, Tensor] = {}
        self.compared: list[dict[str, Tensor]] = []
        if not self.reads:
            if versus:
                raise ConfigurationError(
                    Message("says nothing: {conditioning} reads no context", conditioning=run.recipe.conditioning),
                    setting="versus",
                    value=dict(versus),
                    fix="Leave it out.",
                )
            self.notes += [UNUSED_CONTEXT] if self.record else []
            return
        self.own = self.encoded(self.record)
        if versus:
            self.encoded(versus, key="versus")

    def encoded(self, record: Mapping[str, Any], *, key: str = "context") -> dict[str, Tensor]:
        """Return one record of the query, encoded, and note what is to be said of it."""
        with in_queries(key):
            found = self.processor.encode_context([record], num_rows=1)
        assert found is not None
        if key == "context" and record:
            self.notes += ContextNotes(found, self.processor.schema, self.model).of(0)
        unknown = self.processor.unknown_values(record)
        told = [f"Never seen in training: {name}={', '.join(them)}." for name, them in unknown.items()]
        self.notes += [line for line in told if line not in self.notes]
        return found.tensors

    def add_compared(self, table: Callable[[], pa.Table]) -> None:
        """Add what the context is compared with; the table is read where it is needed."""
        if not self.reads:
            return
        if self.versus:
            self.compared = [self.encoded({**self.record, **self.versus}, key="versus")]
            self.name = self.said(self.versus)
        elif self.model.has_learned_anonymous:
            self.compared, self.name = [self.encoded({})], "nothing known"
        else:
            self.compared = self.average_of(table())
            self.name = f"average of {len(self.compared)} contexts"
            self.notes.append(
                Message(
                    f"Training never took the whole context away, so the model has learned no answer without one. What "
                    f"stands for it is the average over {len(self.compared)} contexts of the run's table. Train with "
                    "{context_dropout} to compare with nothing known.",
                    context_dropout=0.1,
                )
            )

    def average_of(self, table: pa.Table) -> list[dict[str, Tensor]]:
        """Return the contexts of rows of a table, of the training part where the split is that of the run."""
        split = Split.load(self.run.directory / "split.json")
        rows = split.rows(LEARNED) if split.is_of(table) else np.arange(table.num_rows)
        chosen = np.sort(np.random.default_rng(0).permutation(rows)[:NUM_CONTEXTS])
        found = self.processor.encode_columns(table.take(pa.array(chosen)))
        assert found is not None
        return [{name: values[row : row + 1] for name, values in found.tensors.items()} for row in range(len(chosen))]

    def room(self, longest: int) -> int:
        """Return how many tokens of a text the model reads beside any of the contexts."""
        return min(int(np.min(room_beside(each, self.model.config, longest=longest))) for each in self.all)

    @property
    def all(self) -> Sequence[dict[str, Tensor]]:
        return (self.own, *self.compared)

    def said(self, record: Mapping[str, Any]) -> str:
        """Return a record in words; values of sensitive features are withheld."""
        schema = self.processor.schema
        hidden = (
            {name for each in schema.features if each.sensitive for name in (each.name, each.column)} if schema else {}
        )
        return ", ".join(f"{name}={WITHHELD if name in hidden else _word(value)}" for name, value in record.items())

    def lines(self, query: Mapping[str, Any]) -> list[str]:
        """Return the query and its context, a line each."""
        given = [f"{key}: {_word(value)}" for key, value in query.items() if key != "context" and value is not None]
        context = [f"context: {self.said(self.record) or 'nothing known'}"] if self.reads else []
        return [*given, *context, *([f"compared with: {self.name}"] if self.name else [])]

    def sentences_of(self, context: Mapping[str, Tensor]) -> list[str]:
        """Return the words of a context that is read as text, by name; those of sensitive features are withheld."""
        hidden = {each.column for each in cast(Any, self.processor.schema).features if each.sensitive}
        tokenizer: Any = self.processor.tokenizer
        names: list[str] = []
        for name, ids in context.items():
            words = (ids[ids >= FIRST_WORD] - FIRST_WORD).tolist()
            names += [WITHHELD if name in hidden else tokenizer.decode([word]).strip() for word in words]
        return names


class _Recorder:
    """A query that is asked under one context after another."""

    def __init__(self, asked: InspectedQuery, words_of: Callable[[Mapping[str, Tensor]], list[str]]) -> None:
        self.asked, self.words_of, self.config = asked, words_of, asked.model.config

    def __call__(self, context: Mapping[str, Tensor]) -> _Answer:
        tokens, in_front = self.asked.tokens, list[str]()
        if self.config.has_context_as_text:
            # Features of which nothing is said are left out, with their columns of padding.
            context = {name: ids[ids >= FIRST_WORD][None] for name, ids in context.items() if (ids >= FIRST_WORD).any()}
            separator = self.asked.name_of(self.config.eos_token_id)
            in_front = [*self.words_of(context), *[separator] * self.config.num_separators]
            tokens, shared = (
                (tokens[0], *in_front, *tokens[1:]),
                (0, *range(len(in_front) + 1, len(in_front) + len(tokens))),
            )
        else:
            in_front = ["(context)"] * self.asked.model.bert.num_added_positions
            tokens = (*in_front, *tokens)
            shared = tuple(range(len(tokens)))
        inputs = {**self.asked.inputs, **({"context": dict(context)} if context else {})}
        outputs = record_activations(self.asked.model, inputs)
        layers = [weights[0].float().cpu().numpy() for weights in self.asked.layers(outputs)]
        shares = {place: share.cpu() for place, share in self.asked.shares(outputs).items()}
        return _Answer(tokens, shared, layers, shares, self._cross(outputs))

    def _cross(self, outputs: Any) -> AttentionMaps | None:
        found = self.asked.cross_attention(outputs)
        if found is None:
            return None
        rows, weights = found
        heads = tuple(str(head + 1) for head in range(len(weights)))
        layer = weights.float().cpu().numpy()
        return AttentionMaps(tokens=self.asked.tokens, rows=rows, layers=(layer,), heads=(heads,))

    def heads(self, answer: _Answer) -> tuple[tuple[str, ...], ...]:
        """Return the names of the heads of each layer; a group of heads for each feature has its name."""
        count = self.config.num_attention_heads
        features = [shape.name for shape in self.config.layout]
        return tuple(
            tuple(str(head + 1) for head in range(count))
            if len(maps) == count
            else tuple(f"{name} {head + 1}" for name in features for head in range(count))
            for maps in answer.layers
        )


def _maps(own: _Answer, others: Sequence[_Answer], *, heads: tuple[tuple[str, ...], ...]) -> AttentionMaps:
    """Return the maps of a context, and the average of those that it is compared with."""
    compared = None
    if others:
        cut = [[maps[:, each.shared][:, :, each.shared] for maps in each.layers] for each in others]
        compared = tuple(np.mean(layer, axis=0) for layer in zip(*cut, strict=True))
    is_whole = len(own.shared) == len(own.tokens)
    return AttentionMaps(
        tokens=own.tokens,
        layers=tuple(own.layers),
        heads=heads,
        compared=compared,
        shared=None if is_whole else own.shared,
    )


def _cross_maps(own: _Answer, others: Sequence[_Answer]) -> AttentionMaps | None:
    """Return the map of what is written under a context, and the average of those that it is compared with."""
    if own.cross is None or not others:
        return own.cross
    compared = np.mean([cast(AttentionMaps, each.cross).layers[0] for each in others], axis=0)
    return replace(own.cross, compared=(compared,))


def _shares(asked: InspectedQuery, own: _Answer, others: Sequence[_Answer]) -> list[ChoiceShare]:
    """Return the likeliest choices of each place, under the context or what it is compared with."""
    most, found = SHOWN_CHOICES if len(own.shares) < MANY_PLACES else 1, list[ChoiceShare]()
    for place, share in own.shares.items():
        other = torch.stack([each.shares[place] for each in others]).mean(dim=0) if others else None
        best = share.topk(min(most, len(share))).indices.tolist()
        if other is not None:
            best += other.topk(min(most, len(other))).indices.tolist()
        for choice in sorted({*best}, key=lambda each: -float(share[each])):
            compared = float(other[choice]) if other is not None else None
            if share[choice] or compared:  # an answer may not begin everywhere
                found.append(ChoiceShare(place, asked.choice_name(choice), float(share[choice]), compared))
    return found


def _cells(each: ChoiceShare) -> tuple[str, ...]:
    compared = each.compared
    beside = () if compared is None else (f"{compared:.1%}", f"{100 * (each.probability - compared):+.1f}")
    return (each.place, each.choice, f"{each.probability:.1%}", *beside)


def _word(value: Any) -> str:
    """Return a value of a query in words."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "missing" if value is None else canonical(value)
