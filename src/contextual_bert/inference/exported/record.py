"""Record of an export: the contents of export.json."""

from typing import Any, Literal, NotRequired, TypedDict

OutputMatrix = Literal["float32", "int8"]
TextKind = Literal["classification", "tagging", "question_answering"]


class Parity(TypedDict):
    """Largest differences between graph and model on ``num_rows`` random sets, contexts and permitted items.

    ``max_difference_nats``: of the log-probabilities of the items that both propose; ``recall``: which share of the
    model's top k the graph proposes.
    """

    num_rows: int
    max_difference_nats: float
    recall: float


class LogitParity(TypedDict):
    """Largest difference of a logit between graph and model on ``num_rows`` random texts and contexts."""

    num_rows: int
    max_difference: float


class Origin(TypedDict):
    """Run that an export was made from.

    ``folder``: of the run, as the folder of the export sees it; ``files``: name of each file of its model -> SHA-256.
    """

    folder: str
    files: dict[str, str]


class Export(TypedDict):
    """Record of any export.

    ``reading``: how the run's table was read; ``run``: where it came from, of an export that was made from a folder.
    """

    conditioning: str
    reading: dict[str, Any]
    context_features: list[str]
    opset: int
    versions: dict[str, str]
    run: NotRequired[Origin]


class OnnxExport(Export):
    """Record of an export of sets.

    ``new_items``: those that no set of training held, of a run whose items have features.
    """

    top_k: int
    output_matrix: OutputMatrix
    num_items: int
    separator: str
    largest_set: int | None
    items: str | None
    group_by: list[str]
    order: str | None
    parity: Parity
    new_items: NotRequired[list[str]]


class OnnxTextExport(Export):
    """Record of an export of texts.

    ``kind``: of the task that was learned; ``text``, ``pair``, ``question``: columns of the run's table, None where it
    has none or the run does not say.
    """

    kind: TextKind
    text: str | None
    pair: str | None
    question: str | None
    parity: LogitParity
