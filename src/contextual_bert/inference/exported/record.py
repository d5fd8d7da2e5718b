"""Record of an export: the contents of export.json."""

from typing import Any, Literal, NotRequired, TypedDict

OutputMatrix = Literal["float32", "int8"]


class Parity(TypedDict):
    """Largest differences between graph and model on ``num_rows`` random sets, contexts and permitted items.

    ``max_difference_nats``: of the log-probabilities of the items that both propose; ``recall``: which share of the
    model's top k the graph proposes.
    """

    num_rows: int
    max_difference_nats: float
    recall: float


class Origin(TypedDict):
    """Run that an export was made from.

    ``folder``: of the run, as the folder of the export sees it; ``files``: name of each file of its model -> SHA-256.
    """

    folder: str
    files: dict[str, str]


class OnnxExport(TypedDict):
    """Record of an export: the contents of export.json.

    ``new_items``: those that no set of training held, of a run whose items have features; ``run``: where it came from,
    of an export that was made from a folder.
    """

    conditioning: str
    top_k: int
    output_matrix: OutputMatrix
    num_items: int
    separator: str
    largest_set: int | None
    items: str | None
    group_by: list[str]
    reading: dict[str, Any]
    order: str | None
    context_features: list[str]
    opset: int
    versions: dict[str, str]
    parity: Parity
    new_items: NotRequired[list[str]]
    run: NotRequired[Origin]
