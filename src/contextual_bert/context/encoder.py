"""ContextEncoder: one embedding per feature, concatenated to c, the vector that every conditioning method reads.

It deliberately does not know what the features mean, nor BERT: only the layout of the schema, and torch. It initialises
nothing by itself; the model's `_init_weights` reaches every weight. Paper: section 4.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from contextual_bert.context.forms import FORMS, different_items, missing_context
from contextual_bert.context.interactions import ITEM
from contextual_bert.context.kinds.feature import FeatureLayout
from contextual_bert.errors import SchemaError
from contextual_bert.shapes import ContextVector

# Names with these are no regular expressions, or some with groups or escapes. Others, such as "a+b", keep their marks:
# they load, and weights that are saved have them.
_FAULTY_PATTERN = re.compile(r"[\\()\[{]|[*+?|^$][*+?]")
_MARKS = re.compile(r"[\\()\[\]{}*+?|^$%]")


class ContextEmbedding(NamedTuple):
    """The embedded context of a batch.

    Shapes: vector (batch, context), features[i] (batch, size of feature i), histories[j] (batch, width, 4).

    Args:
        vector: c, the concatenation of the features.
        features: the embedding of each feature, in the order of the schema, for methods that read them one by one.
        histories: the histories as they came, for a head that proposes what somebody had before.

    Example:
        >>> sex, age = FeatureLayout("sex", "categorical", 4, 0, 8), FeatureLayout("age", "numerical", 9, 0, 3)
        >>> encoder = ContextEncoder([sex, age])
        >>> embedded = encoder({"sex": torch.tensor([2, 0]), "age": torch.tensor([1, 8])})
        >>> embedded.vector.shape, [tuple(feature.shape) for feature in embedded.features]
        (torch.Size([2, 11]), [(2, 8), (2, 3)])
    """

    vector: ContextVector
    features: tuple[Tensor, ...]
    histories: tuple[Tensor, ...] = ()


class ContextEncoder(nn.Module):
    """Embeds each feature of the context and concatenates the embeddings.

    c = [e_1; ...; e_m], where e_i is a row of a table for one value, the mean of rows for several values, and W v (or a
    learned vector if v is missing) for a given vector v.

    Symbols: c `vector` (paper: c); e_i `features[i]`; width of c `context_size` (paper: d_context).

    Shapes: as `EncodedContext` gives them -> ContextEmbedding.

    Args:
        layout: `ContextSchema.layout`.
        item_size: width of the vectors of the model's items, which histories read; None where it has none.

    Relation to its siblings: the ids come from `encode_table` or `encode_records` of the same schema.

    Reference: paper, section 4.

    Example:
        >>> encoder = ContextEncoder([FeatureLayout("sex", "categorical", 4, 0, 8)])
        >>> list(encoder.state_dict())
        ['features.sex.weight']
    """

    def __init__(self, layout: Sequence[FeatureLayout], *, item_size: int | None = None) -> None:
        super().__init__()
        self.layout = tuple(layout)
        self.context_size = sum(shape.embedding_size for shape in self.layout)
        self.features = nn.ModuleDict()
        names = module_names([shape.name for shape in self.layout])
        for name, shape in zip(names, self.layout, strict=True):
            self.features[name] = shape.own_module() or FORMS[shape.form].module(shape, item_size=item_size)

    def forward(
        self, context: Mapping[str, Tensor], embed_items: Callable[[Tensor], Tensor] | None = None
    ) -> ContextEmbedding:
        """Embed a batch: one tensor for each feature of the layout, no other.

        Args:
            context: the tensors.
            embed_items: ids of items -> their vectors, for histories; None where the layout has none.
        """
        for shape in self.layout:
            if shape.name not in context:
                raise SchemaError(f"the batch's context lacks the feature {shape.name!r}", fix=self._advice(context))
        if len(context) != len(self.layout):
            raise SchemaError(
                "the batch's context has features that the model does not know", fix=self._advice(context)
            )
        embedded: list[Tensor] = []
        histories: list[Tensor] = []
        for shape, module in zip(self.layout, self.features.values(), strict=True):
            values = context[shape.name]
            if shape.form == "history":
                histories.append(values)
                items = different_items(values)[..., ITEM]
                embedded.append(module(values, cast(Callable[[Tensor], Tensor], embed_items)(items)))
            else:
                embedded.append(module(values))
        return ContextEmbedding(torch.cat(embedded, dim=-1), tuple(embedded), tuple(histories))

    def draw_at_unit_scale(self) -> None:
        """Draw the embeddings anew so that their components have variance 1; a projected one, where its vector's have.

        For a pretrained BERT, beside whose states normal 0.02 says nothing for long (docs/decisions/011). A value that
        the schema does not know, which training may never show, starts as the mean of those that it knows.
        """
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.reset_parameters()
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
        for shape, module in zip(self.layout, self.features.values(), strict=True):
            if shape.unknown_id is not None:
                rows = cast(nn.Embedding, module).weight
                rows[shape.unknown_id] = rows[shape.num_reserved :].mean(dim=0)

    def missing(self, num_rows: int, *, device: torch.device | None = None) -> dict[str, Tensor]:
        """The context of rows of which nothing is known: every feature in its state `missing`.

        On the device given; None takes that of the weights, which offloaded ones and those of a replica do not tell.
        """
        return missing_context(self.layout, num_rows, device=device or next(self.parameters()).device)

    def extra_repr(self) -> str:
        return f"context_size={self.context_size}"

    def _advice(self, context: Mapping[str, Tensor]) -> str:
        names = ", ".join(shape.name for shape in self.layout)
        return f"Given: {', '.join(context) or '(nothing)'}. Needed: {names}. Encode with the model's own schema."


def module_names(names: Sequence[str]) -> list[str]:
    """Return the name of each feature's module: the feature's own name wherever torch and transformers can take it.

    A name that `torch` uses itself, as it does `type` and `_modules`, is followed by underscores. A name that is no
    regular expression, or one with groups, has its marks as ``%28``: transformers compiles the names of weights. No two
    features have one name; the order of ``names`` decides who gets the underscore.
    """
    taken = {*names}
    reserved = nn.ModuleDict()  # an object, for `_modules` and its like are no attributes of the class
    found: list[str] = []
    for name in names:
        chosen = name
        if _FAULTY_PATTERN.search(name):
            chosen = _MARKS.sub(lambda match: f"%{ord(match[0]):02X}", name)
        elif name.isdigit() and not name.isdecimal():  # transformers sorts by `int` where `isdigit`: of "\u00b2", too
            chosen = "".join(mark if mark.isdecimal() else f"%{ord(mark):02X}" for mark in name)
        while hasattr(reserved, chosen) or chosen in ("training", "forward") or (chosen != name and chosen in taken):
            chosen += "_"
        taken.add(chosen)
        found.append(chosen)
    return found
