"""Named entities in five domains with one model that knows the domain: CrossNER.

The files come split; all domains are trained together. Beside the same model without the domain stand five models, each
of one domain alone. Liu et al. (2021).

    python -m studies.crossner --data DATA --checkpoint BERT --output studies/results/entities-small
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from contextual_bert.baselines.names import CONTEXT_AS_TEXT, TAG_BASELINES
from contextual_bert.data import Split, read_table, table_digest
from contextual_bert.data.splits import PARTS
from contextual_bert.evaluation import Run, Scores
from contextual_bert.evaluation.alignment import total_cost
from contextual_bert.runs import Task
from contextual_bert.runs.registry import training_of
from contextual_bert.runs.reporting import cluster_numbers
from contextual_bert.runs.run_directory import is_complete
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.training import Tagging
from contextual_bert.training.recipe import Recipe
from studies.cards import TaskCard
from studies.commands import run_command, text_command
from studies.text_grid import (
    ATTRIBUTE_TRAINING,
    METHODS,
    NEW_BLOCKS,
    SHUFFLED,
    RowSettings,
    with_one_new_block,
)
from studies.text_study import (
    SPLIT_FILE,
    ExtraRows,
    TextBenchmark,
    TextSize,
    TextStudyData,
    required,
)

DOMAINS = ("ai", "literature", "music", "politics", "science")
FILES = {"train": "train", "validation": "dev", "test": "test"}
DIGEST = "13bf8063b6ed2c221e017ad29038d696cfbce7cb18e56ee662316fc3cc3a77a7"
SINGLE = "single_domain"
TRAINING = {"num_train_epochs": 20, "learning_rate": 2e-4, "per_device_train_batch_size": 16}
ROWS: dict[str, RowSettings] = {name: {"training": ATTRIBUTE_TRAINING} for name in ("multi_attribute", SHUFFLED)}
SIZES = {
    "small": TextSize(
        seeds={
            **dict.fromkeys(
                (
                    "none",
                    "global_state_update",
                    "multi_attribute",
                    "global_state_update_shuffled",
                    CONTEXT_AS_TEXT,
                    SINGLE,
                ),
                3,
            ),
            **dict.fromkeys((SHUFFLED, NEW_BLOCKS, "bilstm", "bilstm_context"), 1),
        },
        training=TRAINING,
        max_length=128,
        row_settings=with_one_new_block(ROWS),
    ),
    "full": TextSize(
        seeds=dict.fromkeys(
            (
                *METHODS,
                "global_state_update_shuffled",
                SHUFFLED,
                NEW_BLOCKS,
                SINGLE,
                CONTEXT_AS_TEXT,
                *TAG_BASELINES,
            ),
            3,
        ),
        training=TRAINING,
        max_length=192,
        row_settings=ROWS,
    ),
}


def read(source: Path, folder: Path) -> pa.Table:
    """All sentences, with the split of the files."""
    parts: list[pa.Table] = []
    assignment: list[int] = []
    for number, part in enumerate(PARTS):
        for domain in DOMAINS:
            path = source / "crossner" / f"{domain}.{FILES[part]}.jsonl"
            parts.append(required(read_table(path), ("tokens", "tags", "domain"), file=path))
            assignment += [number] * parts[-1].num_rows
    table = pa.concat_tables(parts)
    shares = [assignment.count(number) / len(assignment) for number in (1, 2)]
    Split(
        assignment=np.array(assignment, dtype=np.uint8),
        by="row",
        column=None,
        fractions=(shares[0], shares[1]),
        seed=None,
        data_digest=table_digest(table),
    ).save(folder / SPLIT_FILE)
    return table


def by_sentence(table: Path, checkpoint: str) -> Recipe:
    """The split of the files."""
    return Recipe(
        data=str(table),
        task=Tagging(checkpoint=checkpoint, text="tokens", label="tags"),
        split=str(table.parent / SPLIT_FILE),
    )


def single_domain_runs(data: TextStudyData, output: Path, rows: ExtraRows) -> list[Run]:
    """One run a seed that joins five models without a context, each trained on one domain and scored on it.

    All of them have the labels of the others, too, which they never see: what is joined is comparable.
    """
    ready = data.prepared
    domains = np.array(ready.examples.table.column("domain").to_pylist())
    alone = {name: replace(ready, split=ready.split.restricted(domains == name)) for name in DOMAINS}
    planned: list[tuple[Recipe, Task]] = []
    for seed in range(min(rows.num_seeds, data.size.seeds.get(SINGLE, 0)) if SINGLE in rows.names else 0):
        of_seed = [(_of(name, data).with_seed(seed), alone[name]) for name in DOMAINS]
        if not rows.is_report_only or all(is_complete(run_directory(output, recipe)) for recipe, _ in of_seed):
            planned += of_seed
    runs = train_missing(planned, output, num_jobs=rows.num_jobs, say=rows.say)
    return [_joined(runs[first : first + len(DOMAINS)], ready) for first in range(0, len(runs), len(DOMAINS))]


def _joined(runs: Sequence[Run], ready: Task) -> Run:
    """One run of what the models of all domains found."""
    scores = Scores.concatenate([run.scores for run in runs])
    clusters = cluster_numbers(ready, "test", scores.example_id)
    return Run(SINGLE, runs[0].seed, scores, clusters, total_cost([run.cost for run in runs]), "control")


def _of(domain: str, data: TextStudyData) -> Recipe:
    """The recipe of the model of one domain."""
    base = data.prepared.recipe
    training = training_of("none", data.size.training)
    return replace(base, conditioning="none", name=f"{SINGLE}_{domain}", training=training)


TASK = TextBenchmark(
    card=TaskCard(
        name="entities",
        title="Named entities in five domains (CrossNER)",
        description=(
            "The words of a sentence are tagged with the entities of its domain: AI, literature, music, politics or "
            "science, 9 to 17 types each, from 100 or 200 training sentences a domain. The context is the domain."
        ),
        context=("domain",),
        licence="MIT",
        citation="Liu et al. (2021), 'CrossNER: Evaluating Cross-Domain Named Entity Recognition', AAAI",
        split="that of the files",
        main_metric="entity_f1_percent",
        data_digest=DIGEST,
    ),
    read=read,
    recipe=by_sentence,
    sizes=SIZES,
    extra_rows=(SINGLE,),
    extra=single_domain_runs,
)


if __name__ == "__main__":
    run_command(text_command(TASK))
