"""Number of parameters by the paper's counting rule: Table 1's last column.

Knows names of weights only. The rule "without the feature and item embeddings and the last dense layer" is applied
here; which layers reproduce the five numbers is decided in the configuration. Paper: section 4, Table 1.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn

from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.masked_lm import ContextualBertForMaskedLM

PAPER_NUM_ITEMS = 30_000
PAPER_PARAMETERS = {
    "none": 546_432,
    "concat": 673_664,
    "new_position": 640_768,
    "global_state": 723_328,
    "global_state_update": 921_856,
}

# No counted number depends on the features: their sizes are scaled to the paper's sum.
_ANY_SCHEMA = ContextSchema(features=(Categorical(name="customer", values=("a", "b")),))
# The first prefix that fits decides; a tied weight is counted once, as the embedding that it is.
_PARTS = (
    ("bert.embeddings.", "embeddings"),
    ("bert.context_encoder.", "context_encoder"),
    ("cls.predictions.transform.", "head"),
    ("cls.", "output"),
    ("output_encoder.", "output"),
    ("new_item_bias.", "output"),
    ("bert.conditioning.", "input"),
    ("bert.encoder.conditioning.", "state"),
    ("bert.encoder.shared.", "attention"),
    ("bert.encoder.final_norm.", "feed_forward"),
    ("repeats.", "output"),
    ("output_context.", "output"),
)
_LAYER_PARTS = {
    "attention": "attention",
    "conditioning": "block",
    "intermediate": "feed_forward",
    "output": "feed_forward",
    # Of blocks that normalise what they read.
    **dict.fromkeys(("attn", "attn_norm", "ln_1", "recurrence_norm"), "attention"),
    **dict.fromkeys(("mlp", "mlp_norm", "ln_2", "feed_forward_norm"), "feed_forward"),
}


@dataclass(frozen=True)
class ParameterCount:
    """Numbers of parameters, split as Table 1 splits them.

    Formula:
        counted = attention + feed_forward + head + input + state + block

    Args:
        counted: what the paper counts: all but the three below.
        embeddings: items (or words), segments, positions and their LayerNorm.
        context_encoder: the embeddings of the context features.
        output: the last dense layer: the output matrix, unless it is tied to the item embeddings, and its bias; what
            the items' features and histories add to it.
        parts: ``counted`` by part: attention, feed_forward and head are BERT's; input, state and block the method's
            slots.

    Relation to its siblings:
        ``table1`` makes one for each registered method.

    Reference:
        Denk and Peleteiro Ramallo (2020), Table 1.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> count_parameters(ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **sizes))).parts["head"]
        88
    """

    counted: int
    embeddings: int
    context_encoder: int
    output: int
    parts: dict[str, int]

    @property
    def total(self) -> int:
        """All parameters."""
        return self.counted + self.embeddings + self.context_encoder + self.output


@dataclass(frozen=True)
class Table1Row:
    """One method in the paper's setting: our count and the paper's.

    Args:
        conditioning: name of the method.
        label: the paper's name for it.
        count: ours.
        paper: the number printed in Table 1; None for a method that is not the paper's.

    Example:
        >>> row = table1()[0]
        >>> row.conditioning, row.count.counted == row.paper
        ('none', True)
    """

    conditioning: str
    label: str
    count: ParameterCount
    paper: int | None


def count_parameters(model: nn.Module) -> ParameterCount:
    """The parameters of a ContextualBertForMaskedLM by the paper's rule.

    Raises:
        ConfigurationError: a parameter with a name that is not this model's.
    """
    sums: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        sums[_part(name)] += parameter.numel()
    embeddings, context_encoder, output = (sums.pop(part, 0) for part in ("embeddings", "context_encoder", "output"))
    return ParameterCount(sums.total(), embeddings, context_encoder, output, dict(sums))


def table1(schema: ContextSchema | None = None) -> tuple[Table1Row, ...]:
    """Every registered method in the paper's setting, the paper's five first.

    Args:
        schema: customer features; no counted number depends on them, for their sizes are scaled to the paper's sum.
    """
    rows: list[Table1Row] = []
    for name in (*PAPER_PARAMETERS, *sorted(METHODS.keys() - PAPER_PARAMETERS.keys())):
        count = _count_in_the_papers_setting(name, schema)
        rows.append(Table1Row(name, get_method(name).label, count, PAPER_PARAMETERS.get(name)))
    return tuple(rows)


def matching_sizes(conditioning: str, counted: int) -> dict[str, int]:
    """Widths with which a method has as many counted parameters as another: a control of equal size.

    Both are multiples of the heads. The feed-forward width, twice the hidden size in the paper, makes up the rest, to
    within half a percent or so.

    Args:
        conditioning: the method to widen, in the paper's setting otherwise.
        counted: the number to reach, by the paper's counting rule.

    Returns:
        ``hidden_size`` and ``intermediate_size``, fields of ContextualBertConfig.

    Raises:
        ConfigurationError: no widths come within one percent.

    Example:
        >>> matching_sizes("none", PAPER_PARAMETERS["global_state_update"])
        {'hidden_size': 168, 'intermediate_size': 320}
    """
    step = ContextualBertConfig.paper(conditioning, schema=_ANY_SCHEMA, vocab_size=PAPER_NUM_ITEMS).num_attention_heads
    widths = range(step, 1024, step)
    enough = bisect_left(widths, counted, key=lambda width: _count_of_widths(conditioning, width, 2 * width))
    hidden_size = min(
        widths[max(enough - 1, 0) : enough + 1],
        key=lambda width: abs(_count_of_widths(conditioning, width, 2 * width) - counted),
    )
    narrow, wide = (_count_of_widths(conditioning, hidden_size, width) for width in (1, 2))
    width = step * max(1, round((1 + (counted - narrow) / (wide - narrow)) / step))
    reached = narrow + (width - 1) * (wide - narrow)
    if abs(reached - counted) > 0.01 * counted:
        raise ConfigurationError(
            f"No {conditioning!r} has {counted:,} parameters: the closest has {reached:,}",
            fix="Ask for another number.",
        )
    return {"hidden_size": hidden_size, "intermediate_size": width}


def _count_of_widths(conditioning: str, hidden_size: int, intermediate_size: int) -> int:
    sizes = {"hidden_size": hidden_size, "intermediate_size": intermediate_size}
    return _count_in_the_papers_setting(conditioning, None, **sizes).counted


def _count_in_the_papers_setting(conditioning: str, schema: ContextSchema | None, **fields: int) -> ParameterCount:
    config = ContextualBertConfig.paper(
        conditioning, schema=schema or _ANY_SCHEMA, vocab_size=PAPER_NUM_ITEMS, **fields
    )
    with torch.device("meta"):  # counting needs no memory
        return count_parameters(ContextualBertForMaskedLM(config))


def _part(name: str) -> str:
    for prefix, part in _PARTS:
        if name.startswith(prefix):
            return part
    if name.startswith("bert.encoder.layer."):
        return _LAYER_PARTS[name.split(".")[4]]
    raise ConfigurationError(
        f"The parameter {name!r} is none of ContextualBertForMaskedLM", fix="Count a model of that class."
    )
