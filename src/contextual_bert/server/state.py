"""State of the server: one run and its catalogue, immutable, replaced in one step.

A request keeps the version it came in under, so that a reload drops nothing and no answer mixes two models. It knows
no HTTP.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from typing_extensions import TypeIs

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.capabilities import missing_capabilities, why_no_guidance, why_no_text_explanation
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.queries import encode_contexts
from contextual_bert.inference.query_schema import GUIDANCE
from contextual_bert.inference.texts.text_queries import TextGives, TextQueryForm
from contextual_bert.server.column_descriptions import attributes_of
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.protocol import QueryReader
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.text_bodies import TextReader

if TYPE_CHECKING:
    from contextual_bert.models import ContextualBertProcessor

Served = TypeVar("Served", bound="ServedPipeline | ServedTextPipeline")


class ServedPipeline(Protocol):
    """Protocol of a pipeline for sets that can be served, met by CompletionPipeline.

    Where ``no_logits`` is None, it is also asked for whole sets and explanations: for ``complete_jointly``, and for
    what ``explain`` takes of it.
    """

    @property
    def processor(self) -> "ContextualBertProcessor": ...

    @property
    def catalogue(self) -> Catalogue | None: ...

    @property
    def model(self) -> Any: ...

    @property
    def is_new(self) -> Any: ...

    @property
    def no_logits(self) -> str | None: ...

    @property
    def max_top_k(self) -> int | None: ...

    def notes(self) -> list[str]: ...

    def permitted(self, request: Any, *, row: int) -> Any: ...

    def __call__(self, queries: Any, *, top_k: int, batch_size: int) -> Any: ...


class ServedTextPipeline(Protocol):
    """Protocol of a pipeline for texts that can be served, met by TextPipeline and QuestionAnsweringPipeline.

    What labels texts and has ``no_logits`` None is also given to ``explain_text``.

    ``form``: of the queries that it takes; ``labels``: that it gives, in the order of their ids; ``max_length``: tokens
    of a text that the model reads at once.
    """

    @property
    def form(self) -> TextQueryForm: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def max_length(self) -> int: ...

    @property
    def processor(self) -> "ContextualBertProcessor": ...

    @property
    def model(self) -> Any: ...

    def notes(self) -> list[str]: ...

    def __call__(self, queries: Any, *, batch_size: int) -> Any: ...


AnyServedPipeline = ServedPipeline | ServedTextPipeline


def is_for_texts(pipeline: AnyServedPipeline) -> TypeIs[ServedTextPipeline]:
    """Return whether a pipeline takes texts, by the form of its queries, and not sets."""
    return hasattr(pipeline, "form")


def what_is_given(pipeline: ServedTextPipeline) -> TextGives:
    """Return what the answers of a pipeline for texts are.

    Raises:
        ConfigurationError: vectors, which are not served.
    """
    if pipeline.form.gives == "vector":
        raise ConfigurationError(
            "Vectors of texts are not served",
            fix="Embed tables with contextual-bert embed, or call EmbeddingPipeline in a server of your own.",
        )
    return pipeline.form.gives


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, eq=False)
class Version:
    """One loaded run: ``number`` counts the versions of this process from 1, ``reader`` reads the queries it takes."""

    pipeline: Any
    number: int
    reader: Any
    loaded_at: str = field(default_factory=lambda: _now())

    def described(self) -> dict[str, Any]:
        """Return what the log says of a version."""
        return {"version": self.number, "notes": self.pipeline.notes()}

    @property
    def feature_names(self) -> frozenset[str]:
        """The names that a context may have."""
        schema = self.pipeline.processor.schema
        return frozenset((*schema.names, *schema.columns)) if schema is not None else frozenset()

    @property
    def sensitive_names(self) -> frozenset[str]:
        """The names in a context whose values are withheld."""
        schema = self.pipeline.processor.schema
        return schema.sensitive_names if schema is not None else frozenset()

    @property
    def coverage(self) -> float | None:
        """How often the prediction set of an answer holds the true one, 0 to 1; None: answers have none."""
        calibration = getattr(self.pipeline, "calibration", None)
        return calibration.coverage if calibration is not None else None

    @cached_property
    def missing_capabilities(self) -> Mapping[str, str | None]:
        """Return the capabilities of the run beside its answers, with the reason for each that is missing."""
        raise NotImplementedError

    def check(self, queries: Sequence[Any]) -> None:
        """Raise what the pipeline would raise about these queries, as far as that can be told without computing."""
        encode_contexts(queries, self.pipeline.processor)


@dataclass(frozen=True, eq=False)
class SetVersion(Version):
    """A loaded run of sets."""

    pipeline: ServedPipeline
    reader: QueryReader

    def described(self) -> dict[str, Any]:
        """Return what the log says of a version: how many items it knows and how many are new, and its notes."""
        found: dict[str, Any] = {"items": len(self.pipeline.processor.items.values)}
        if self.pipeline.is_new is not None:
            found["new_items"] = int(self.pipeline.is_new.sum())
        return found | super().described()

    @cached_property
    def missing_capabilities(self) -> Mapping[str, str | None]:
        """Return the capabilities of the run beside completions, with the reason for each that is missing."""
        return missing_capabilities(self.pipeline)

    @cached_property
    def attributes(self) -> list[dict[str, Any]]:
        """The columns of the catalogue with what they hold."""
        catalogue = self.pipeline.catalogue
        return attributes_of(catalogue.table) if catalogue is not None else []

    def check(self, queries: Sequence[Any]) -> None:
        """Raise what the pipeline would raise about these queries, without computing them."""
        super().check(queries)
        for row, query in enumerate(queries):
            self.pipeline.permitted(query, row=row)


@dataclass(frozen=True, eq=False)
class TextVersion(Version):
    """A loaded run of texts."""

    pipeline: ServedTextPipeline
    reader: TextReader

    @cached_property
    def missing_capabilities(self) -> Mapping[str, str | None]:
        """Return whether the run's answers can be explained, whether it reads a context, and whether a guidance means
        something to it."""
        model, has_guidance = self.pipeline.model, GUIDANCE in self.pipeline.form.keys
        no_context = f"This model was trained with conditioning={model.config.conditioning!r} and reads no context."
        return {
            "explain": why_no_text_explanation(self.pipeline),
            "guidance": why_no_guidance(model) if has_guidance else "Queries for such an answer have no guidance.",
            "context": None if model.config.reads_context else no_context,
        }


def tried(pipeline: Served) -> Served:
    """The pipeline itself, once it has answered: the first call is the slow one, and shows whether the run answers.

    Raises:
        ConfigurationError, NonFiniteError: it does not answer with numbers.
    """
    if is_for_texts(pipeline):
        pipeline([pipeline.form.example], batch_size=1)
        return pipeline
    slot = pipeline([{"items": []}], top_k=1, batch_size=1)[0]["slots"][0]
    if not math.isfinite(slot["excluded_probability"]):
        raise ConfigurationError("The run answers with probabilities that are no numbers: its training diverged.")
    return pipeline


def gives(pipeline: AnyServedPipeline) -> str:
    """Return what the answers of a pipeline are."""
    return pipeline.form.gives if is_for_texts(pipeline) else "items of sets"


def _catalogue_of(pipeline: AnyServedPipeline) -> Catalogue | None:
    return None if is_for_texts(pipeline) else pipeline.catalogue


class Serving:
    """The version that answers, and how it is replaced.

    Args:
        pipeline: the first version's, for sets or for texts.
        load: gives the pipeline of the next version, catalogue included, which answers with the same; None: there is no
            reload.
        metrics: told about reloads.
        settings: limits of the queries.
        number: of the first version.

    Relation to its siblings:
        ``completion.py`` computes each request with the ``Version`` that was ``current`` when it came in.
    """

    def __init__(
        self,
        pipeline: AnyServedPipeline,
        *,
        load: Callable[[], AnyServedPipeline] | None = None,
        metrics: Metrics | None = None,
        settings: ServerSettings | None = None,
        number: int = 1,
    ) -> None:
        self._settings = settings or ServerSettings()
        self.current = self._version(pipeline, number)
        self._load = load
        self._metrics = metrics if metrics is not None else Metrics()
        self._metrics.version.set(number)
        self._metrics.is_newest.set(1)
        self._posted_stock: dict[str, bool] = {}
        self._stock_lock = threading.Lock()
        self._reload_lock = threading.Lock()
        self.next_number: int | None = None  # of the version that is loaded next; None: one more than now
        self.reload_failed_at: str | None = None  # if the newest reload failed: when

    def _version(self, pipeline: AnyServedPipeline, number: int) -> Version:
        # The readers are made now: the first query has a deadline, too.
        schema = pipeline.processor.schema
        if is_for_texts(pipeline):
            return TextVersion(pipeline, number, TextReader(pipeline.form, schema, self._settings))
        return SetVersion(pipeline, number, QueryReader(schema, self._settings))

    @property
    def can_reload(self) -> bool:
        """Return True if there is a way to load a new version."""
        return self._load is not None

    def reload(self) -> Version:
        """Load the next version, try it, and let it answer; if that fails, the present one goes on.

        A reload that runs is waited for: it may have read the files before they were changed.

        Raises:
            ConfigurationError: there is no way to load one.
            Exception: whatever loading raises.
        """
        with self._reload_lock:
            try:
                if self._load is None:
                    raise ConfigurationError(
                        "This server was made without load=..., so there is nothing to reload from."
                    )
                pipeline = tried(self._load())
                if (found := gives(pipeline)) != (before := gives(self.current.pipeline)):
                    raise ConfigurationError(
                        f"The run now gives {found}, and the server was started with one that gives {before}",
                        fix="Start another server for it.",
                    )
                with self._stock_lock:
                    self._post(_catalogue_of(pipeline), self._posted_stock)
                    number = self.next_number if self.next_number is not None else self.current.number + 1
                    version = self.current = self._version(pipeline, number)
            except BaseException:
                self.reload_failed_at = _now()
                self._metrics.reloads.labels("failed").inc()
                self._metrics.is_newest.set(0)
                raise
            self.reload_failed_at = self.next_number = None
            self._metrics.is_newest.set(1)
            self._metrics.reloads.labels("succeeded").inc()
            self._metrics.version.set(version.number)
            return version

    def set_stock(self, changes: Mapping[str, bool]) -> tuple[str, ...]:
        """Say what is in stock from now on; it outlives a reload.

        Returns:
            The items that the model does not know, for which nothing changes.

        Raises:
            ConfigurationError: there is no catalogue.
        """
        with self._stock_lock:
            catalogue = _catalogue_of(self.current.pipeline)
            if catalogue is None:
                raise ConfigurationError("The server was started without a catalogue, so it knows no stock.")
            known = catalogue.vocabulary.id_of_value
            self._posted_stock |= {item: stock for item, stock in changes.items() if known(item) is not None}
            return self._post(catalogue, changes)

    @staticmethod
    def _post(catalogue: Catalogue | None, changes: Mapping[str, bool]) -> tuple[str, ...]:
        unknown: tuple[str, ...] = ()
        for stock in (True, False):
            items = [item for item, is_in_stock in changes.items() if is_in_stock is stock]
            if items and catalogue is not None:
                unknown += catalogue.set_stock(items, stock)
        return unknown
