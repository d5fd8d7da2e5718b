"""``/v1/schema`` and ``/v1/items``: what can be asked, and about which items. Neither needs the model.

A run of texts has the first of the two, with what it says of itself.
"""

import inspect
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query
from pydantic import BaseModel

from contextual_bert.context import Feature
from contextual_bert.inference import CONSTRAINTS, query_model
from contextual_bert.inference.texts.text_queries import TextGives
from contextual_bert.server.items import find_items, named_items
from contextual_bert.server.problems import invalid_parameter
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, SetVersion, TextVersion, Version, what_is_given

ITEMS = "/v1/items"
PAGE_SIZE = 20


class FeatureAnswer(BaseModel):
    """A feature of the context: what it reads, the values it knows, where its bins begin and end.

    Of a sensitive one ``values`` and ``edges`` are null. A silenced one is checked and not read.
    """

    name: str
    kind: str
    reads: str
    values: list[str] | None = None
    edges: list[float] | None = None
    size: int | None = None
    sensitive: bool = False
    silenced: bool = False
    json_schema: dict[str, Any]


class ConstraintAnswer(BaseModel):
    """A constraint: its keys in a query, and what their values look like."""

    name: str
    keys: list[str]
    description: str
    json_schema: dict[str, Any]


class AttributeAnswer(BaseModel):
    """A column of the catalogue.

    ``values``: of words and lists of words, where there are few; ``lowest`` and ``highest``: of numbers.
    """

    name: str
    kind: Literal["text", "number", "flag", "list", "other"]
    values: list[str] | None
    lowest: float | None
    highest: float | None


class CapabilityAnswer(BaseModel):
    """Capability of the run beside completions, or the reason why it is missing."""

    name: Literal["complete_jointly", "explain", "similar", "guidance", "context", "times"]
    is_available: bool
    reason: str | None


class VersionAnswer(BaseModel):
    """Which version answers, and since when; ``reload_failed_at``: when the newest reload failed, if it did."""

    number: int
    loaded_at: str
    reload_failed_at: str | None = None


class SchemaAnswer(BaseModel):
    """Description of the server: features, constraints, attributes, capabilities, counts and limits.

    ``coverage``: how often the prediction set of a slot holds the true item, 0 to 1; null where slots have none.
    """

    version: VersionAnswer
    features: list[FeatureAnswer]
    constraints: list[ConstraintAnswer]
    attributes: list[AttributeAnswer]
    capabilities: list[CapabilityAnswer]
    counts: dict[str, int]
    limits: dict[str, float]
    coverage: float | None = None


class TextSchemaAnswer(BaseModel):
    """Description of a server of texts.

    ``gives``: what a query is answered with; ``keys``: of a query; ``texts``: those that are texts, in the order in
    which they are read; ``required``: of these, those that every query has; ``labels``: the labels or tags, in the
    order of their ids; ``max_tokens``: of a text that the model reads at once; ``coverage``: how often the prediction
    set of an answer holds the true label, 0 to 1, null where answers have none.
    """

    version: VersionAnswer
    gives: TextGives
    keys: list[str]
    texts: list[str]
    required: list[str]
    labels: list[str]
    max_tokens: int
    features: list[FeatureAnswer]
    capabilities: list[CapabilityAnswer]
    limits: dict[str, float]
    coverage: float | None = None


class ItemAnswer(BaseModel):
    """An item; ``in_stock`` is null where the server has no catalogue.

    ``is_new``: whether no set of training held it, so that it is known by its features; it is there where the run knows
    features of items. ``is_removed``: whether it is understood in a set and proposed no more; it is there where the run
    has such items.
    """

    item: str
    in_stock: bool | None
    attributes: dict[str, Any]
    is_new: bool = False
    is_removed: bool = False


class ItemsAnswer(BaseModel):
    """A page of the items that were found, and how many there are in all."""

    total: int
    offset: int
    items: list[ItemAnswer]


def description_routes(serving: Serving, settings: ServerSettings) -> APIRouter:
    """The routes that describe what is served."""
    router = APIRouter(tags=["description"])
    page_size = min(PAGE_SIZE, settings.max_page)
    limit_about = f"Items a page; left out, {page_size}, and with item all of them."
    item_about = "An exact id; again for each further one. Answered in this order, unknown ones left out."

    @router.get("/v1/schema", response_model=SchemaAnswer, summary="What can be asked")
    def schema() -> SchemaAnswer:
        """The features of the context, constraints, attributes of the catalogue, capabilities, counts and limits."""
        version = cast(SetVersion, serving.current)
        catalogue, is_new = version.pipeline.catalogue, version.pipeline.is_new
        counts = {"items": len(version.pipeline.processor.items.values)}
        if is_new is not None:
            counts["new_items"] = int(is_new.sum())
        if catalogue is not None:
            counts |= {"items_in_catalogue": int(catalogue.is_known.sum()), "in_stock": int(catalogue.in_stock.sum())}
        return SchemaAnswer(
            version=_version(serving),
            features=_features(version),
            constraints=_constraints(),
            attributes=[AttributeAnswer(**each) for each in version.attributes],
            capabilities=_capabilities(version),
            counts=counts,
            limits=settings.limits(is_for_texts=False),
            coverage=version.coverage,
        )

    @router.get(ITEMS, response_model=ItemsAnswer, response_model_exclude_unset=True, summary="Find items by name")
    def items(
        item: Annotated[list[str], Query(default_factory=list, max_length=settings.max_page, description=item_about)],
        text: Annotated[str, Query(max_length=200, description="A piece of the id or name, whatever its case.")] = "",
        match: Annotated[Literal["substring", "prefix"], Query(description="Where the text stands.")] = "substring",
        offset: Annotated[int, Query(ge=0, le=1 << 31, description="How many to pass over.")] = 0,
        limit: Annotated[int | None, Query(ge=1, le=settings.max_page, description=limit_about)] = None,
    ) -> ItemsAnswer:
        """Items with what the catalogue says of them: by text in the order of the model's vocabulary, or by id."""
        if item and text:
            raise invalid_parameter(
                "item", item, "text searches, item names what is known", allowed="Give one of them."
            )
        if item:
            page = named_items(serving.current, item, offset=offset, limit=limit or settings.max_page)
        else:
            is_prefix = match == "prefix"
            page = find_items(serving.current, text, is_prefix=is_prefix, offset=offset, limit=limit or page_size)
        return ItemsAnswer(total=page.total, offset=offset, items=[ItemAnswer(**each) for each in page.items])

    return router


def text_description_routes(serving: Serving, settings: ServerSettings) -> APIRouter:
    """The route that describes a run of texts."""
    router = APIRouter(tags=["description"])

    @router.get("/v1/schema", response_model=TextSchemaAnswer, summary="What can be asked")
    def schema() -> TextSchemaAnswer:
        """The keys of a query, the labels, the features of the context, capabilities and limits."""
        version = cast(TextVersion, serving.current)
        pipeline = version.pipeline
        return TextSchemaAnswer(
            version=_version(serving),
            gives=what_is_given(pipeline),
            keys=list(pipeline.form.keys),
            texts=list(pipeline.form.texts),
            required=list(pipeline.form.required),
            labels=list(pipeline.labels),
            max_tokens=pipeline.max_length,
            features=_features(version),
            capabilities=_capabilities(version),
            limits=settings.limits(is_for_texts=True),
            coverage=version.coverage,
        )

    return router


def _version(serving: Serving) -> VersionAnswer:
    version = serving.current
    failed_at = serving.reload_failed_at
    return VersionAnswer(number=version.number, loaded_at=version.loaded_at, reload_failed_at=failed_at)


def _capabilities(version: Version) -> list[CapabilityAnswer]:
    return [
        CapabilityAnswer(name=cast(Any, name), is_available=reason is None, reason=reason)
        for name, reason in version.missing_capabilities.items()
    ]


def _features(version: Version) -> list[FeatureAnswer]:
    schema = version.pipeline.processor.schema
    return [_feature(each) for each in schema.features] if schema is not None else []


def _feature(feature: Feature) -> FeatureAnswer:
    known = feature.model_dump(mode="json", include={"size"} if feature.sensitive else {"size", "values", "edges"})
    return FeatureAnswer(
        name=feature.name,
        kind=feature.kind,
        reads=feature.column,
        sensitive=feature.sensitive,
        silenced=feature.silenced,
        json_schema=feature.query_schema(),
        **known,
    )


def _constraints() -> list[ConstraintAnswer]:
    whole = query_model().model_json_schema()
    definitions = whole.get("$defs", {})
    found: list[ConstraintAnswer] = []
    for each in CONSTRAINTS.values():
        properties = {key: whole["properties"][key] for key in each.keys}
        schema = {"type": "object", "properties": properties} | ({"$defs": definitions} if definitions else {})
        about = (inspect.getdoc(each.function) or "").partition("\n\n")[0]
        found.append(ConstraintAnswer(name=each.name, keys=list(each.keys), description=about, json_schema=schema))
    return found
