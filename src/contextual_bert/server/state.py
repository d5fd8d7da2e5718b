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
from typing import TYPE_CHECKING, Any, Protocol

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.capabilities import missing_capabilities
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.queries import Request as Query
from contextual_bert.inference.queries import encode_contexts
from contextual_bert.server.column_descriptions import attributes_of
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.protocol import QueryReader
from contextual_bert.server.settings import ServerSettings

if TYPE_CHECKING:
    from contextual_bert.models import ContextualBertProcessor

Queries = Sequence[Query]


class ServedPipeline(Protocol):
    """Protocol of a pipeline that can be served, met by CompletionPipeline.

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, eq=False)
class Version:
    """One loaded run: ``number`` counts the versions of this process from 1, ``reader`` reads the queries it takes."""

    pipeline: ServedPipeline
    number: int
    reader: QueryReader
    loaded_at: str = field(default_factory=lambda: _now())

    def described(self) -> dict[str, Any]:
        """Return what the log says of a version: how many items it knows and how many are new, and its notes."""
        pipeline = self.pipeline
        found: dict[str, Any] = {"version": self.number, "items": len(pipeline.processor.items.values)}
        if pipeline.is_new is not None:
            found["new_items"] = int(pipeline.is_new.sum())
        return found | {"notes": pipeline.notes()}

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

    @cached_property
    def missing_capabilities(self) -> Mapping[str, str | None]:
        """Return the capabilities of the run beside completions, with the reason for each that is missing."""
        return missing_capabilities(self.pipeline)

    @cached_property
    def attributes(self) -> list[dict[str, Any]]:
        """The columns of the catalogue with what they hold."""
        catalogue = self.pipeline.catalogue
        return attributes_of(catalogue.table) if catalogue is not None else []

    def check(self, queries: Queries) -> None:
        """Raise what the pipeline would raise about these queries, without computing them."""
        encode_contexts(queries, self.pipeline.processor)
        for row, query in enumerate(queries):
            self.pipeline.permitted(query, row=row)


def tried(pipeline: ServedPipeline) -> ServedPipeline:
    """The pipeline itself, once it has answered: the first call is the slow one, and shows whether the run answers.

    Raises:
        ConfigurationError: it does not answer with numbers.
    """
    slot = pipeline([{"items": []}], top_k=1, batch_size=1)[0]["slots"][0]
    if not math.isfinite(slot["excluded_probability"]):
        raise ConfigurationError("The run answers with probabilities that are no numbers: its training diverged.")
    return pipeline


class Serving:
    """The version that answers, and how it is replaced.

    Args:
        pipeline: the first version's.
        load: gives the pipeline of the next version, catalogue included; None: there is no reload.
        metrics: told about reloads.
        settings: limits of the queries.

    Relation to its siblings:
        ``completion.py`` computes each request with the ``Version`` that was ``current`` when it came in.
    """

    def __init__(
        self,
        pipeline: ServedPipeline,
        *,
        load: Callable[[], ServedPipeline] | None = None,
        metrics: Metrics | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        self._settings = settings or ServerSettings()
        self.current = self._version(pipeline, 1)
        self._load = load
        self._metrics = metrics if metrics is not None else Metrics()
        self._metrics.version.set(1)
        self._metrics.is_newest.set(1)
        self._posted_stock: dict[str, bool] = {}
        self._stock_lock = threading.Lock()
        self._reload_lock = threading.Lock()
        self.reload_failed_at: str | None = None  # if the newest reload failed: when

    def _version(self, pipeline: ServedPipeline, number: int) -> Version:
        # Made now: the first query has a deadline, too.
        return Version(pipeline, number, QueryReader(pipeline.processor.schema, self._settings))

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
                with self._stock_lock:
                    self._post(pipeline.catalogue, self._posted_stock)
                    version = self.current = self._version(pipeline, self.current.number + 1)
            except BaseException:
                self.reload_failed_at = _now()
                self._metrics.reloads.labels("failed").inc()
                self._metrics.is_newest.set(0)
                raise
            self.reload_failed_at = None
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
            catalogue = self.current.pipeline.catalogue
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
