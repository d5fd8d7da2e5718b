"""One query, asked again and again: for fewer fields of its context, or for other values of them. Not in the paper."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context import EncodedContext, Feature, missing_like
from contextual_bert.context.encoding import is_missing
from contextual_bert.errors import WITHHELD


class Question(ABC):
    """Base of the questions that are explained: one query, and what the pipeline chooses for other contexts.

    Args:
        pipeline: of the model.
        context: of the query, one row; None of a model that reads none.
        batch_size: questions a forward pass.

    ``names``: the choices, in the order of the logits.

    Relation to its siblings:
        ``SetQuestion`` chooses an item for a slot, ``TextQuestion`` a label for a text. ``contributions`` asks both.
    """

    names: Sequence[str]

    def __init__(self, pipeline: Any, context: EncodedContext | None, *, batch_size: int) -> None:
        self.pipeline, self.batch_size = pipeline, batch_size
        self.context: dict[str, Tensor] = context.tensors if context is not None else {}

    @abstractmethod
    def answers(self, context: Mapping[str, Tensor], others: Any = None) -> Iterator[Tensor]:
        """Yield the logits of the choices, a block of rows at a time, float64 (rows, choices).

        Args:
            context: a row each.
            others: what is asked about in each row; None: what the query asks about.
        """

    def evidence(self, logits: Tensor, chosen: int) -> Tensor:
        """Return log(p / (1 - p)) of a choice in each row of logits (rows, choices), p among all choices."""
        others = torch.cat([logits[:, :chosen], logits[:, chosen + 1 :]], dim=1)
        return logits[:, chosen] - others.logsumexp(dim=1)

    def log_odds(self, chosen: int, context: Mapping[str, Tensor], others: Any = None) -> NDArray[np.float64]:
        """Return log(p / (1 - p)) of a choice in each row; ``others`` as for ``answers``."""
        return torch.cat([self.evidence(logits, chosen) for logits in self.answers(context, others)]).numpy()

    def given_features(self) -> list[Feature]:
        """Return the features of which the query says something."""
        schema: Any = self.pipeline.processor.schema
        known = {name: not is_missing(values.numpy())[0] for name, values in self.context.items()}
        return [feature for feature in schema.read_features if known[feature.name]]

    def value_of(self, feature: Feature, *, chosen: int) -> str:
        """Return the given value as the model reads it; that of a sensitive feature is withheld.

        ``chosen``: the choice that is explained.
        """
        if feature.sensitive:
            return WITHHELD
        [names] = feature.names(self.context[feature.name].numpy())
        return ", ".join(names) if isinstance(names, list) else str(names)

    def with_only(self, known: Mapping[str, Tensor], *, num_rows: int) -> dict[str, Tensor]:
        """Return the context in each of which rows only some of the fields are known; ``known`` is (rows,) a field."""
        context = self.repeated(num_rows)
        for name, is_known in known.items():
            values = context[name]
            context[name] = torch.where(is_known.view(-1, *(1,) * (values.ndim - 1)), values, missing_like(values))
        return context

    def repeated(self, num_rows: int) -> dict[str, Tensor]:
        """Return the context of the query, so many times."""
        return {name: values.repeat(num_rows, *(1,) * (values.ndim - 1)) for name, values in self.context.items()}
