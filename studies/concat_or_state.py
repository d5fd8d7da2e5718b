"""Why a prototype had [C] before [GSU], unlike the paper: the world, the two-layer map, the training, or the start?

Four methods in Table 1's small world, with a prototype's training (18 epochs of one mask a set, AdamW's usual weight
decay): [C], [C] with the single matrix that the paper writes, [C] that starts as the identity of the items, and [GSU].
`--start prototype` draws all weights as BERT does, item vectors too; `--world additive` is the other world. Results:
studies/results/concat-or-state-WORLD-START; what they say: docs/log.md.

    python -m studies.concat_or_state                       # a quarter to half an hour a method on one core
    python -m studies.concat_or_state --start prototype
    python -m studies.concat_or_state --size quick          # a look at it in minutes

Paper: section 3, I_[C], writes one matrix; Table 1 counts the parameters of two (PAPER_PARAMETERS).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from contextual_bert.conditioning import METHODS, ConditioningMethod, InputSlot, Sizes, register_method
from contextual_bert.conditioning.concat import ConcatInput
from contextual_bert.context.encoder import ContextEmbedding
from contextual_bert.evaluation import write_study
from contextual_bert.runs import named_rows
from contextual_bert.training import Recipe
from contextual_bert.training.recipe import ItemVectors
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.outfits import SIZES, WORLDS, StudyData, prepare_study, run_study

RESULTS = Path(os.path.relpath(Path(__file__).parent / "results"))
EPOCHS = 18
WEIGHT_DECAY = 0.01
# Of the two starts: fields of the config, and where the item vectors come from.
STARTS: Mapping[str, tuple[Mapping[str, float], ItemVectors | None]] = {
    "default": ({}, None),
    "prototype": ({"initializer_range": 0.02}, "random"),
}
SHIFT = 4.0  # of the ReLU: hardly a component of a LayerNorm is below -4


class OneLayerConcat(ConditioningMethod):
    """[C] as the paper writes it: every position becomes W [x_i ; c]."""

    name = "concat_one_layer"
    label = "[C], one layer"

    def input(self, sizes: Sizes) -> InputSlot:
        return OneLayerInput(sizes)


class OneLayerInput(InputSlot):
    """x_i <- W_x x_i + W_c c + b."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.items = nn.Linear(sizes.hidden_size, sizes.hidden_size, bias=False)
        self.context = nn.Linear(sizes.context_size, sizes.hidden_size)

    def forward(
        self, embeddings: Tensor, mask: Tensor | None, context: ContextEmbedding
    ) -> tuple[Tensor, Tensor | None]:
        return self.items(embeddings) + self.context(context.vector).unsqueeze(1), mask


class IdentityConcat(ConditioningMethod):
    """[C] as Table 1 counts it, whose map of the items starts as the identity: max(0, x + 4) - 4."""

    name = "concat_from_identity"
    label = "[C], identity"

    def input(self, sizes: Sizes) -> InputSlot:
        return IdentityInput(sizes)


class IdentityInput(ConcatInput):
    """As ``ConcatInput``; only its first weights differ, and of them not those of the context."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.items = Identity(sizes.hidden_size, sizes.hidden_size, bias=False)
        self.context = Shifted(sizes.context_size, sizes.hidden_size)
        self.output = Identity(sizes.hidden_size, sizes.hidden_size)


def register_methods() -> None:
    """Make the two maps of [C] known as methods. Importing the study alone changes no registry."""
    for method in (OneLayerConcat, IdentityConcat):
        if method.name not in METHODS:
            register_method(method)


class Identity(nn.Linear):
    """Starts as x, or x - 4 where it has a bias."""

    def initialise(self, initializer_range: float) -> None:
        """Called once the other weights are drawn."""
        nn.init.eye_(self.weight)
        if "bias" in dict(self.named_parameters()):
            nn.init.constant_(self.bias, -SHIFT)


class Shifted(nn.Linear):
    """Starts with a bias of 4."""

    def initialise(self, initializer_range: float) -> None:
        """Called once the other weights are drawn."""
        nn.init.constant_(self.bias, SHIFT)


def rows(data: StudyData, start: str) -> list[Recipe]:
    """The three forms of [C], and [GSU], trained as the prototype was."""
    fields, vectors = STARTS[start]
    training = {
        name: value for name, value in data.size.training.items() if name not in ("masks_per_set", "one_mask_epochs")
    }
    concat, state = (
        replace(
            row,
            model={**row.model, **fields},
            item_vectors=vectors,
            training={**training, "weight_decay": WEIGHT_DECAY},
        )
        for row in (data.row("concat"), data.row("global_state_update"))
    )
    forms = (replace(concat, conditioning=method.name) for method in (OneLayerConcat, IdentityConcat))
    return [concat, *forms, state]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--world", choices=WORLDS, default="interactions")
    parser.add_argument("--start", choices=STARTS, default="default", help="of the weights")
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of worlds, runs and reports")
    chosen = parser.parse_args(arguments)
    register_methods()
    output = chosen.output / f"concat-or-state-{chosen.world}-{chosen.start}"
    data = prepare_study(output / "world", size=chosen.size, world=chosen.world, epochs=chosen.epochs, dtype="auto")
    every = {row.label: row for row in rows(data, chosen.start)}
    named = named_rows(every, chosen.rows.split(",") if chosen.rows else [*every])
    found = run_study(data, output / "runs", rows=[*named.values()], num_seeds=1)
    print(*found.texts, *write_study(found, output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
