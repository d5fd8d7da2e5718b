"""Answers of single and joint completions as plain records that become JSON, and the sentences beside the proposals."""

from collections.abc import Iterable, Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from contextual_bert.context import Vocabulary
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.constraints import Permitted
from contextual_bert.inference.queries import MASK, UNUSED_CONTEXT, Request, TrainedSets
from contextual_bert.inference.query_schema import Condition
from contextual_bert.nouns import counted

PERMITTED = "permitted items"
_MOST_NAMED = 5  # items in one note

Method = Literal["auto", "exact", "beam", "gibbs"]


class Candidate(TypedDict):
    """One proposal: the item, and its probability among the permitted items.

    ``is_new``: whether no set of training held the item, so that it is known by its features; it is there where the run
    knows features of items.
    """

    item: str
    probability: float
    is_new: NotRequired[bool]


class Slot(TypedDict):
    """The proposals for one [MASK].

    ``position``: in the set; ``candidates``: from the most to the least probable, none where no item is permitted;
    ``normalised_over``: what the probabilities sum to one over; ``num_permitted``: how many items that are;
    ``excluded_probability``: what the model gives to all other items; ``removed``: how many items each constraint took
    away, in the order in which they were applied; ``reason``: why there is no candidate; ``probability_error``: the
    relative standard error of the probabilities, where an index estimated what they are divided by.
    """

    position: int
    candidates: list[Candidate]
    normalised_over: str
    num_permitted: int
    excluded_probability: float
    removed: dict[str, int]
    reason: str | None
    probability_error: NotRequired[float]


class SureSlot(Slot):
    """The proposals for one [MASK] with the items that the true one is among.

    ``prediction_set``: permitted items, the likeliest first; ``coverage``: how often such sets hold the true one, 0 to
    1, before the query forbids items; ``num_forbidden``: items that it forbids of the set.
    """

    prediction_set: list[str]
    coverage: float
    num_forbidden: int


class Remarks(TypedDict):
    """Remarks on a query, beside its proposals.

    ``unknown_items`` and ``unknown_context``: values that the model never saw, treated as unknown; ``notes``: what the
    reader should know.
    """

    unknown_items: list[str]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class Answer(Remarks):
    """Answer to a query: ``items``, the set as completed; ``slots``, one a [MASK]; and remarks."""

    items: list[str]
    slots: list[Slot]


class SureAnswer(Remarks):
    """Answer to a query of a pipeline that gives prediction sets: as ``Answer``, with one in each slot."""

    items: list[str]
    slots: list[SureSlot]


def slot_of(
    position: int, candidates: list[Candidate], permitted: Permitted, *, blank: int, excluded_probability: float
) -> Slot:
    """The slot of one blank: the proposals, and what became of all other items."""
    return Slot(
        position=position,
        candidates=candidates,
        normalised_over=PERMITTED,
        num_permitted=permitted.num_items(blank),
        excluded_probability=excluded_probability,
        removed={name: counts[blank] for name, counts in permitted.removed.items() if counts[blank]},
        reason=permitted.reason(blank),
    )


def estimate_notes(slots: Sequence[Slot]) -> list[str]:
    """Return a note on probabilities that were divided by an estimated sum; none where all are exact.

    Example:
        >>> slot = Slot(position=0, candidates=[], normalised_over="", num_permitted=9, excluded_probability=0.0,
        ...             removed={}, reason=None, probability_error=0.01)
        >>> estimate_notes([slot])[0][-54:]
        'sample: 95% of the time they are right to within 2.0%.'
    """
    largest = max((slot.get("probability_error", 0.0) for slot in slots), default=0.0)
    if not largest:
        return []
    return [
        "The index of the items found the proposals. What their probabilities are divided by is estimated from a "
        f"sample: 95% of the time they are right to within {1.96 * largest:.1%}."
    ]


def new_item_notes(names: Iterable[str], *, of_the_set: bool = False) -> list[str]:
    """Return a note on items that no set of training held; none without such items.

    Args:
        names: of these items.
        of_the_set: they are in the set, and not proposed.

    Example:
        >>> new_item_notes(["coat-9"])
        ['Proposed, new and known by features alone: coat-9.']
    """
    new = list(dict.fromkeys(names))
    more = ", ..." if len(new) > _MOST_NAMED else "."
    where = "In the set" if of_the_set else "Proposed"
    return [f"{where}, new and known by features alone: {', '.join(new[:_MOST_NAMED])}{more}"] if new else []


def new_candidates(slots: Sequence[Slot]) -> list[str]:
    """Return the proposals that no set of training held."""
    return [each["item"] for slot in slots for each in slot["candidates"] if each.get("is_new")]


def shortened(answer: Answer, top_k: int) -> Answer:
    """Return the answer that ``top_k`` alone would have got: the best come first."""
    slots: list[Slot] = [{**slot, "candidates": slot["candidates"][:top_k]} for slot in answer["slots"]]
    before, after = (new_item_notes(new_candidates(each)) for each in (answer["slots"], slots))
    notes = answer["notes"]
    return {**answer, "slots": slots, "notes": [*notes[: len(notes) - len(before)], *after]}


def notes_on(
    request: Request,
    vocabulary: Vocabulary,
    *,
    has_context: bool,
    can_repeat: bool = True,
    catalogue: Catalogue | None = None,
    sets: TrainedSets | None = None,
) -> list[str]:
    """Return notes on a query for the reader of its answer.

    Args:
        request: the query as it was read.
        vocabulary: the items of the model.
        has_context: whether the model reads a context.
        can_repeat: whether the model gives an item that the set shows a probability.
        catalogue: what ``where`` asks about.
        sets: how the run read its sets.
    """
    notes: list[str] = []
    if request.context and not has_context:
        notes.append(UNUSED_CONTEXT)
    notes += _notes_on_items(request.items, vocabulary, sets or TrainedSets())
    repeated = sorted({item for item in request.items if item != MASK and request.items.count(item) > 1})
    if repeated:
        notes.append(f"In the set more than once, and read so: {', '.join(repeated)}.")
    if not can_repeat and request.settings.get("repeats", {}).get("repeats"):
        notes.append("repeats changes nothing: no set that the model was trained on holds an item twice.")
    if request.replaced:
        notes.append(f"Not locked, and so open to be replaced, by themselves too: {', '.join(request.replaced)}.")
    for name in ("allow", "deny", "owned"):
        names: list[str] = request.settings.get(name, {}).get(name, [])
        unknown = [item for item in names if vocabulary.id_of_value(item) is None]
        if unknown:
            notes.append(
                f"{name} names {counted(len(unknown), 'unknown item')} to no effect: {', '.join(unknown[:5])}."
            )
        known = [item for item in names if vocabulary.id_of_value(item) is not None]
        if name == "owned" and known:
            more = ", ..." if len(known) > 5 else ""
            notes.append(f"Owned, and so not proposed: {', '.join(known[:5])}{more}.")
    return notes if catalogue is None else [*notes, *_absent_values(request, catalogue)]


def _notes_on_items(items: Sequence[str], vocabulary: Vocabulary, sets: TrainedSets) -> list[str]:
    """Return notes on items unlike the training sets: none known, a separator within an item, more items."""
    notes: list[str] = []
    visible = [item for item in items if item != MASK]
    unknown = [item for item in visible if item not in vocabulary]
    if unknown and len(unknown) == len(visible):
        notes.append(f"The model knows none of the items of the {sets.row_noun}, only how many they are.")
    for item in unknown:
        if (separator := sets.separator_in(item)) is not None:
            notes.append(f"{item!r:.80} was read as one item, which holds the separator {separator!r}.")
    if sets.largest is not None and len(items) > sets.largest:
        notes.append(
            f"The {sets.row_noun} has {len(items)} items, and no {sets.row_noun} of training had more than "
            f"{sets.largest}."
        )
    return notes


def _absent_values(request: Request, catalogue: Catalogue) -> list[str]:
    """Return notes on values of ``where`` that no item has. With ``not_in`` a misspelt value would forbid nothing."""
    notes: list[str] = []
    conditions: list[Condition] = request.settings.get("where", {}).get("where", [])
    for condition in conditions:
        wanted = [*(condition.one_of or ()), *(condition.not_in or ())]
        wanted += [condition.equals] if condition.equals is not None else []
        if not wanted:
            continue
        attribute = catalogue.attribute(condition.attribute)
        there = attribute.known_among(wanted)
        absent = [value for value in dict.fromkeys(wanted) if value not in there]
        if absent:
            named = ", ".join(f"{value!r:.80}" for value in absent[:5])
            notes.append(
                f"where names values of {condition.attribute!r} that no item of the catalogue has: {named}. "
                f"{attribute.like(absent[0])}"
            )
    return notes


class Completion(TypedDict):
    """One way to fill all blanks.

    ``items``: the whole set; ``filled``: what the blanks got, in the order of their positions; ``log_probability``: by
    the chain rule over the blanks, in nats, among all items, so of different constraints comparable; ``probability``:
    the same among all permitted completions, where all were seen; ``pseudo_log_likelihood``: the sum over the blanks of
    log Pr(item | all other items); ``price``: of what was filled, where the catalogue knows it; ``new_items``: those of
    ``filled`` that no set of training held, where the run knows features of items.
    """

    items: list[str]
    filled: list[str]
    log_probability: float
    probability: float | None
    pseudo_log_likelihood: float
    price: float | None
    new_items: NotRequired[list[str]]


class JointAnswer(TypedDict):
    """Answer to a joint completion.

    ``items``: the set as it was completed; ``completions``: best first; ``method``: exact, beam or gibbs;
    ``num_forward_passes``: partial sets that the search put through the model; ``excluded_probability``: what the model
    gives to all that the constraints forbid, where all was seen; ``reason``: why there is no completion; the rest as
    in ``Answer``.
    """

    items: list[str]
    completions: list[Completion]
    method: str
    num_forward_passes: int
    excluded_probability: float | None
    reason: str | None
    unknown_items: list[str]
    unknown_context: dict[str, list[str]]
    notes: list[str]
