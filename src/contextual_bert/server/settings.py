"""Settings of the server: limits, batches, key."""

from dataclasses import dataclass, field, fields

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.explain.shapley import MAX_EXACT_FIELDS
from contextual_bert.nouns import counted
from contextual_bert.server.origins import check_hosts, check_origins

SHORTEST_KEY = 16


_OF_TEXTS = frozenset(("max_text_characters", "max_all_characters"))
_OF_SETS = frozenset(
    (
        "max_set_length",
        "max_blanks",
        "max_conditions",
        "max_values",
        "max_one_per",
        "max_top_k",
        "max_page",
        "max_completions",
        "max_forward_passes",
        "max_all_conditions",
    )
)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Limits of requests and batches.

    Args:
        max_batch: queries that are computed together.
        max_wait_milliseconds: how long the first query of a batch waits for others while the model is idle.
        max_queue: queries that wait; more are refused with 429.
        deadline_seconds: from the arrival of a request to its answer; a request may ask for less.
        max_body_bytes: of a request.
        max_queries: of a request.
        max_set_length: items of a set, blanks included.
        max_blanks: [MASK] of a set.
        max_conditions: of a query's ``where``.
        max_values: values of one of these conditions.
        max_one_per: attributes of its ``at_most_one_per``.
        max_context_values: values, or numbers, of one feature of its context.
        max_text_characters: of one text of a query.
        max_all_characters: of all texts of a request together.
        max_top_k: proposals a slot.
        max_page: items that a search answers at once.
        max_completions: whole sets that ``/v1/complete-jointly`` proposes.
        max_forward_passes: partial sets that it may put through the model.
        max_exact_fields: with so many given fields or fewer, an explanation asks for all their subsets; with more, for
            a sample of them.
        max_computations: whole sets and explanations that wait to be computed, one by one; more are refused with 429.
        computation_deadline_seconds: as ``deadline_seconds``, for these.
        max_connections: open at a time; beyond it those that wait are closed, the oldest and least advanced first.
        header_seconds: from the opening of a connection, or the first byte of a request on a kept one, to the end of
            its head.
        idle_seconds: how long a kept connection waits for the next request.
        stop_grace_seconds: how long kept connections may send one more request after the server was told to stop.
        max_json_values: values, lists and records in the body of a request, of all its queries together.
        max_all_conditions: of all queries of a request together.
        allowed_hosts: names that requests may have in Host beside localhost and the address that is listened on:
            "shop.example", "*.shop.example", with a port or without; "*" for all.
        allowed_origins: websites whose pages may ask, such as "https://shop.example".
        api_key: what the header X-API-Key has to say, printable ASCII; None: everybody may ask, nobody may administer.
        has_contexts_in_logs: whether contexts are written to the log; they may be personal.

    Raises:
        ConfigurationError: a limit below 1 or one that forbids what another permits; a key that can be guessed; what
            is no host or no origin.

    Example:
        >>> ServerSettings(max_batch=32).max_queue
        1024
    """

    max_batch: int = 64
    max_wait_milliseconds: float = 2.0
    max_queue: int = 1024
    deadline_seconds: float = 5.0
    max_body_bytes: int = 1 << 20
    max_queries: int = 64
    max_set_length: int = 64
    max_blanks: int = 8
    max_conditions: int = 64
    max_values: int = 10_000
    max_one_per: int = 16
    max_context_values: int = 4096
    max_text_characters: int = 20_000
    max_all_characters: int = 100_000
    max_top_k: int = 100
    max_page: int = 100
    max_completions: int = 20
    max_forward_passes: int = 1000
    max_exact_fields: int = 10
    max_computations: int = 16
    computation_deadline_seconds: float = 30.0
    max_connections: int = 1000
    header_seconds: float = 10.0
    idle_seconds: float = 75.0
    stop_grace_seconds: float = 2.0
    max_json_values: int = 50_000
    max_all_conditions: int = 1024
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    has_contexts_in_logs: bool = False

    def limits(self, *, is_for_texts: bool) -> dict[str, float]:
        """Return the limits of requests about texts, or about sets.

        Example:
            >>> ServerSettings().limits(is_for_texts=True)["max_text_characters"]
            20000
        """
        others = _OF_SETS if is_for_texts else _OF_TEXTS
        is_limit = ("max_", "deadline", "computation_deadline")
        return {name: value for name, value in vars(self).items() if name.startswith(is_limit) and name not in others}

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self) if each.name.startswith("max_")):
            lowest = 0 if name == "max_wait_milliseconds" else 1
            if getattr(self, name) < lowest:
                raise ConfigurationError(
                    "is not allowed", setting=name, value=getattr(self, name), fix=f"Give {lowest} or more."
                )
        if not 0 <= self.stop_grace_seconds < float("inf"):
            raise ConfigurationError(
                "is not allowed",
                setting="stop_grace_seconds",
                value=self.stop_grace_seconds,
                fix="Give a number of seconds, 0 or more.",
            )
        for name in ("deadline_seconds", "computation_deadline_seconds", "header_seconds", "idle_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(
                    "is not allowed", setting=name, value=getattr(self, name), fix="Give a number of seconds above 0."
                )
        if self.max_queue < self.max_queries:
            raise ConfigurationError(
                f"is less than the {self.max_queries} queries that a request may have, which could then never "
                "be answered",
                setting="max_queue",
                value=self.max_queue,
                fix="Give a longer queue or a lower max_queries.",
            )
        if self.max_forward_passes < self.max_blanks:
            raise ConfigurationError(
                f"is less than the {self.max_blanks} blanks that a set may have, which no search could fill then",
                setting="max_forward_passes",
                value=self.max_forward_passes,
                fix="Allow more passes or fewer blanks.",
            )
        if self.max_exact_fields > MAX_EXACT_FIELDS:
            raise ConfigurationError(
                "is not allowed",
                setting="max_exact_fields",
                value=self.max_exact_fields,
                fix=f"Give {MAX_EXACT_FIELDS} or less; every field more doubles the subsets, and beyond it they are "
                "sampled.",
            )
        check_hosts(self.allowed_hosts)
        check_origins(self.allowed_origins)
        if self.max_all_conditions < self.max_conditions:
            raise ConfigurationError(
                f"is less than the {self.max_conditions} conditions that a query may have",
                setting="max_all_conditions",
                value=self.max_all_conditions,
                fix="Allow more for the whole request, or fewer for a query.",
            )
        if self.max_all_characters < self.max_text_characters:
            raise ConfigurationError(
                f"is less than one text may have: {counted(self.max_text_characters, 'character')}",
                setting="max_all_characters",
                value=self.max_all_characters,
                fix="Allow more for the whole request, or fewer for a text.",
            )
        key = self.api_key
        if key is not None and (len(key) < SHORTEST_KEY or not (key.isascii() and key.isprintable()) or " " in key):
            raise ConfigurationError(
                f"The API key needs at least {SHORTEST_KEY} printable ASCII characters without spaces",
                fix="Make one with python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
            )
