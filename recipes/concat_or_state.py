"""Why a prototype had [C] before [GSU], unlike the paper: is it the world, the two-layer map, or the training?

Three methods in Table 1's small world, with a prototype's training (18 epochs of one mask a set, AdamW's usual weight
decay): [C], [C] with the single matrix that the paper writes, and [GSU]. `--world additive` asks whether it is the
world. Results: recipes/results/concat-or-state-WORLD; what they say: docs/log.md.

    python recipes/concat_or_state.py                    # a quarter of an hour to half an hour a method on one core
    python recipes/concat_or_state.py --world additive
    python recipes/concat_or_state.py --size quick       # a look at it in minutes

Paper: section 3, I_[C], writes one matrix; Table 1 counts the parameters of two (PAPER_PARAMETERS).
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from contextual_bert.benchmark.tasks.outfit_completion import SIZES, WORLDS, StudyData, prepare_study, run_study
from contextual_bert.conditioning import ConditioningMethod, InputSlot, Sizes, register_method
from contextual_bert.context.encoder import ContextEmbedding
from contextual_bert.evaluation import write_study
from contextual_bert.training import Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers

RESULTS = Path(os.path.relpath(Path(__file__).parent / "results"))
EPOCHS = 18
WEIGHT_DECAY = 0.01


@register_method
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


def rows(data: StudyData) -> list[Recipe]:
    """[C], [C] of one matrix, and [GSU], trained as the prototype was."""
    training = {
        name: value for name, value in data.size.training.items() if name not in ("masks_per_set", "one_mask_epochs")
    }
    concat, state = (
        replace(data.row(name), training={**training, "weight_decay": WEIGHT_DECAY})
        for name in ("concat", "global_state_update")
    )
    return [concat, replace(concat, conditioning=OneLayerConcat.name), state]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--world", choices=WORLDS, default="interactions")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of worlds, runs and reports")
    chosen = parser.parse_args(arguments)
    output = chosen.output / f"concat-or-state-{chosen.world}"
    data = prepare_study(output / "world", size=chosen.size, world=chosen.world, epochs=chosen.epochs, dtype="auto")
    found = run_study(data, output / "runs", rows=rows(data), num_seeds=1)
    print(*found.texts, *write_study(found, output), sep="\n")


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
