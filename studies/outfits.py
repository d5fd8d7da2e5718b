"""Outfit completion in the stylist world: Table 1 on data that anybody can draw again, beside the best possible score.

The rows are Recipes: the paper's five methods, two beyond it, and the controls of docs/protocol.md. What is decided
before looking at results stands here: worlds, sizes, rows, one budget for all. Paper: section 4, Table 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as parquet

from contextual_bert.data import StylistWorld
from contextual_bert.data.world_customers import CONTEXT_TYPES
from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean
from contextual_bert.evaluation import Study
from contextual_bert.evaluation.paper import PAPER_TABLE_1
from contextual_bert.models import PAPER_CONTEXT_SIZE
from contextual_bert.runs import SetCompletionTask, prepare
from contextual_bert.runs.grid import named_rows, table_rows
from contextual_bert.runs.oracle_run import oracle_run
from contextual_bert.runs.registry import checked_epochs
from contextual_bert.runs.study_report import Peers, study
from contextual_bert.runs.world_files import OUTFITS_FILE, write_world
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.training import SetCompletion
from contextual_bert.training.recipe import Device, Dtype, Recipe
from studies.cards import TaskCard

CARD = TaskCard(
    name="outfit-completion",
    title="Outfit completion in the stylist world",
    description=(
        "One article of an outfit is masked and ranked among all, given the others and the customer: age, sizes, "
        "favourite brands, colours and styles, no-gos, occasion. The best possible score is known."
    ),
    context=tuple(CONTEXT_TYPES),
    licence="generated, free of rights",
    citation="Denk and Peleteiro Ramallo (2020) for the shape of the task",
    split="by customer: no customer of a test outfit is in training",
    main_metric="cross_entropy_nats",
)
# Said in every report: a choice that has seen the test part makes it a little too good.
CHOICES = (
    "Settings: chosen on the validation part of the size `small` with interactions, for all methods alike; the number "
    "of its epochs with its test part in sight."
)
WORLD_SEED, OUTFITS_SEED = 0, 1
WORLDS: Mapping[str, bool] = {"interactions": True, "additive": False}
# The same for every method; what else was tried, and with which method: docs/log.md.
MODEL: Mapping[str, Any] = {
    "has_head_layer_norm": False,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# A set is short of targets, not of computation: two masks teach more at first, and the rest is what the test asks.
TRAINING: Mapping[str, Any] = {"masks_per_set": 2, "weight_decay": 0.5}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is drawn and how long it is trained on.

    Args:
        num_items: articles of the world.
        num_training_outfits, num_validation_outfits, num_test_outfits: about so many in each part, for the outfits of
            one customer stay together.
        training: fields of ContextualTrainingArguments, the same for every method.
        baseline_training: those of the baselines, which are cheap.
    """

    num_items: int
    num_training_outfits: int
    num_validation_outfits: int
    num_test_outfits: int
    training: Mapping[str, Any]
    baseline_training: Mapping[str, Any] = field(default_factory=lambda: {"num_train_epochs": 20})

    @property
    def num_outfits(self) -> int:
        """Of all parts."""
        return self.num_training_outfits + self.num_validation_outfits + self.num_test_outfits

    def with_epochs(self, epochs: int) -> "Size":
        """The same data with so many epochs for every method, the share of them with one mask as it is.

        Raises:
            ConfigurationError: less than one.
        """
        changed = {**self.training, "num_train_epochs": checked_epochs(epochs)}
        if "one_mask_epochs" in changed:
            changed["one_mask_epochs"] = round(epochs * changed["one_mask_epochs"] / self.training["num_train_epochs"])
        return replace(self, training=changed)


# About 14,000 steps, in large three times as many: with half of them in small, the order of the methods was that of
# their speed (docs/log.md).
SIZES: Mapping[str, Size] = {
    "quick": Size(
        num_items=200,
        num_training_outfits=8_000,
        num_validation_outfits=600,
        num_test_outfits=1_400,
        training={"num_train_epochs": 4, "per_device_train_batch_size": 128},
        baseline_training={"num_train_epochs": 4},
    ),
    "small": Size(
        num_items=1_000,
        num_training_outfits=60_000,
        num_validation_outfits=2_000,
        num_test_outfits=4_000,
        training={**TRAINING, "num_train_epochs": 60, "one_mask_epochs": 36, "per_device_train_batch_size": 256},
    ),
    "large": Size(
        num_items=1_000,
        num_training_outfits=240_000,
        num_validation_outfits=2_000,
        num_test_outfits=4_000,
        # Four times the steps an epoch and a quarter of the decay, so that a weight forgets as much in an epoch as in
        # small. Wang and Aitchison (2024), "How to set AdamW's weight decay as you scale model and dataset size".
        training={
            **TRAINING,
            "weight_decay": 0.125,
            "num_train_epochs": 45,
            "one_mask_epochs": 27,
            "per_device_train_batch_size": 256,
        },
    ),
    "paper": Size(
        num_items=30_000,
        num_training_outfits=375_000,
        num_validation_outfits=5_000,
        num_test_outfits=17_000,
        training={**TRAINING, "num_train_epochs": 20, "one_mask_epochs": 12, "per_device_train_batch_size": 512},
    ),
}


@dataclass(frozen=True, eq=False)
class StudyData:
    """A world and its outfits, read, split and encoded for all rows.

    Args:
        world: the world, for its oracle.
        prepared: the data of every row, the context scaled to the paper's 736 components.
        size: what was drawn.
    """

    world: StylistWorld
    prepared: SetCompletionTask
    size: Size

    def rows(self, names: Sequence[str] = ()) -> dict[str, Recipe]:
        """Row -> recipe, in the table's order; all rows unless some are named.

        Raises:
            UnknownNameError: no such row.
        """
        return named_rows(self._every, names or [*self._every])

    @cached_property
    def _every(self) -> Mapping[str, Recipe]:
        base = replace(self.prepared.recipe, training=self.size.training)
        return table_rows(base, baseline_training=self.size.baseline_training)

    def row(self, name: str) -> Recipe:
        """One row's recipe, as it is or to make another row of: ``replace(data.row("film"), name="film_wide", ...)``.

        Raises:
            UnknownNameError: no such row.
        """
        return self.rows([name])[name]


def prepare_study(
    folder: Path,
    *,
    size: str = "small",
    world: str = "interactions",
    epochs: int | None = None,
    device: Device = "auto",
    dtype: Dtype = "bfloat16",
    softmax_over: SoftmaxOver | None = None,
) -> StudyData:
    """Draw the world and its outfits into ``folder``, or read them if they are there, and prepare them.

    Args:
        folder: where world and outfits are kept.
        size: quick, small, large or paper.
        world: "interactions", where context must be combined, or "additive", where it need only be added.
        epochs: of every method, where those of the size are not affordable, or too few.
        device: of the runs: "auto" takes an accelerator.
        dtype: of the runs: "bfloat16", "float32" for a processor that must emulate it, or "auto".
        softmax_over: what loss and scores go over, if not over the items that can be asked: "vocabulary" stands beside
            the kept rows of the methods.

    Raises:
        UnknownNameError: no such size or world.
        ConfigurationError: the folder holds another world; no epochs.
    """
    for name, known in ((size, SIZES), (world, WORLDS)):
        if name not in known:
            raise UnknownNameError(f"Unknown {name!r}. {did_you_mean(name, known)}")
    chosen = SIZES[size] if epochs is None else SIZES[size].with_epochs(epochs)
    drawn = _drawn(folder, chosen, has_interactions=WORLDS[world])
    recipe = Recipe(
        data=str(folder / OUTFITS_FILE),
        task=SetCompletion(items="items"),
        customer="customer_id",
        validation=chosen.num_validation_outfits / chosen.num_outfits,
        test=chosen.num_test_outfits / chosen.num_outfits,
        model=MODEL if softmax_over is None else {**MODEL, "softmax_over": softmax_over},
        dtype=dtype,
        device=device,
    )
    ready = cast(SetCompletionTask, prepare(recipe))
    return StudyData(drawn, ready.with_context_size(PAPER_CONTEXT_SIZE), chosen)


def run_study(
    data: StudyData,
    output: Path,
    *,
    rows: Sequence[Recipe] = (),
    num_seeds: int = 3,
    reference: str | None = None,
    is_report_only: bool = False,
    num_jobs: int = 1,
    say: Callable[[str], None] = print,
) -> Study:
    """Train what is missing of the rows and compare all of them, the oracle last, on the same masked positions.

    Args:
        data: of ``prepare_study``.
        output: folder of the runs; a complete run is not run again.
        rows: of ``data.rows`` or of your own making; all of ``data.rows`` if none is given.
        num_seeds: seeds of each row.
        reference: the row that the others are compared with; None: ``none``, or the first row where that is not there.
        is_report_only: train nothing and compare the runs that are complete; rows may then differ in their seeds.
        num_jobs: how many runs are trained beside each other, see ``train_missing``.
        say: where sentences about the progress go.

    Raises:
        ConfigurationError: a run in the folder has other settings; nothing to report on.
        UnknownNameError: the reference is not among the rows.
    """
    if num_seeds < 1:
        raise ConfigurationError("is not allowed", setting="num_seeds", value=num_seeds, fix="Give 1 or more.")
    chosen = rows or [*data.rows().values()]
    size, world = data.size, "with interactions" if data.world.has_interactions else "without interactions"
    found = study(
        f"{CARD.title}, {world}: {size.num_items:,} articles, about {size.num_training_outfits:,} training outfits, "
        f"{size.training['num_train_epochs']} epochs",
        [recipe.with_seed(seed) for seed in range(num_seeds) for recipe in chosen],
        output,
        prepared=data.prepared,
        peers=Peers(reference=reference, extra=[oracle_run(data.world, data.prepared)], paper=PAPER_TABLE_1),
        is_report_only=is_report_only,
        num_jobs=num_jobs,
        say=say,
    )
    return replace(found, about=(*CARD.lines()[1:], CHOICES))


def _drawn(folder: Path, size: Size, *, has_interactions: bool) -> StylistWorld:
    if not (folder / OUTFITS_FILE).exists():
        world = StylistWorld.generate(size.num_items, seed=WORLD_SEED, interactions=has_interactions)
        write_world(world, world.sample(size.num_outfits, seed=OUTFITS_SEED), folder)
        return world
    world, num_outfits = StylistWorld.load(folder), parquet.read_metadata(folder / OUTFITS_FILE).num_rows
    found = (world.num_items, num_outfits, world.seed, world.has_interactions)
    if found != (size.num_items, size.num_outfits, WORLD_SEED, has_interactions):
        raise ConfigurationError(
            f"{folder} holds {num_outfits:,} outfits of a world of {world.num_items:,} articles, seed "
            f"{world.seed}, interactions {world.has_interactions}: not the {size.num_outfits:,} of "
            f"{size.num_items:,} articles, seed {WORLD_SEED}, interactions {has_interactions} asked for",
            fix="Give another folder.",
        )
    return world
