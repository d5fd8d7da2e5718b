"""Answers of a joint completion as plain records that become JSON."""

from typing import Literal

from typing_extensions import TypedDict

Method = Literal["auto", "exact", "beam", "gibbs"]


class Completion(TypedDict):
    """One way to fill all blanks.

    ``items``: the whole set; ``filled``: what the blanks got, in the order of their positions; ``log_probability``: by
    the chain rule over the blanks, in nats, among all items, so of different constraints comparable; ``probability``:
    the same among all permitted completions, where all were seen; ``pseudo_log_likelihood``: the sum over the blanks of
    log Pr(item | all other items); ``price``: of what was filled, where the catalogue knows it.
    """

    items: list[str]
    filled: list[str]
    log_probability: float
    probability: float | None
    pseudo_log_likelihood: float
    price: float | None


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
