"""One model for guests, half-filled profiles and known customers; and answers that are more personal than learned.

Two models with the recipe of Table 1's small world: [GSU] as it is, and [GSU] that was told less in training (the whole
context left out of 10% of the examples, each field of 20%). Both are scored on test customers of whom everything, half,
two fields or nothing is known, or half and for the rest values that the model has never seen; [None] stands beside
them, trained for those of whom nothing is known. Then the weight of guidance is raised. Results:
studies/results/told-less.

    python -m studies.told_less                    # trains what is missing of three models in ./runs: an hour if all
    python -m studies.told_less --size quick       # a look at it in minutes

Paper: not there. Reference: Ho and Salimans (2021), equation 6, for the guidance.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.candidates import MaskedScores, SoftmaxOver, excluded_ids, rank_targets
from contextual_bert.context import missing_like, unknown_like
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Interval, bootstrap, metric_of, paired_bootstrap
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert.inference import score
from contextual_bert.inference.guidance import guided_logits
from contextual_bert.models import IGNORED_LABEL, ContextualBertForMaskedLM
from contextual_bert.runs import is_complete, run
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.evaluator import Evaluator
from contextual_bert.runs.sweep import run_directory
from contextual_bert.training import Recipe
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.outfits import SIZES, StudyData, prepare_study

RESULTS = Path(__file__).parent / "results" / "told-less"
CONTEXT_DROPOUT, FIELD_DROPOUT = 0.1, 0.2
TWO_FIELDS = ("gender", "occasion")
HALF_NEW = "half of it, the rest new"
LEVELS = ("everything", "half of it", HALF_NEW, " and ".join(TWO_FIELDS), "nothing")
WEIGHTS = (0.0, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0)
NONE, GSU, TOLD_LESS = "none", "global_state_update", "global_state_update_told_less"
CE, RECALL = "cross_entropy_nats", "recall_at_1_percent"


def rows(data: StudyData) -> dict[str, Recipe]:
    """The three runs: two of Table 1, and the one that is told less."""
    own = data.row(GSU)
    dropped = {"context_dropout": CONTEXT_DROPOUT, "field_dropout": FIELD_DROPOUT}
    told_less = replace(own, name=TOLD_LESS, training={**own.training, **dropped})
    return {NONE: data.row(NONE), GSU: own, TOLD_LESS: told_less}


def with_known(data: Evaluator, level: str, *, seed: int = 0) -> SequenceDataset:
    """The sets where only this much of each context is known; "half": every field of every set with a coin."""
    dataset, schema = data.dataset, data.ready.processor.schema
    assert schema is not None  # these runs have a context
    generator = torch.Generator().manual_seed(seed)
    context: dict[str, Tensor] = {}
    for name, values in dataset.context.items():
        coin = torch.rand(len(values), generator=generator) < 0.5
        is_known = {
            "everything": torch.ones_like(coin),
            "half of it": coin,
            HALF_NEW: coin,
            " and ".join(TWO_FIELDS): torch.full_like(coin, name in TWO_FIELDS),
            "nothing": torch.zeros_like(coin),
        }[level]
        other = unknown_like(values, schema.feature(name).layout) if level == HALF_NEW else missing_like(values)
        context[name] = torch.where(is_known.view(-1, *(1,) * (values.ndim - 1)), values, other)
    return dataset.with_context(context)


class Guided:
    """A model whose answers are as personal as a weight says; scored as any other."""

    def __init__(self, model: ContextualBertForMaskedLM, weight: float) -> None:
        self.model, self.weight = model, weight

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """As the model's own, from guided logits."""
        assert labels is not None
        is_asked = labels != IGNORED_LABEL
        inputs: dict[str, Any] = {"input_ids": input_ids, "labels": labels, "context": context}
        if attention_mask is not None:  # left out where all sets of a batch are of one length
            inputs["attention_mask"] = attention_mask
        logits = guided_logits(self.model, inputs, [self.weight] * len(labels), rows=is_asked.nonzero()[:, 0])
        reserved = torch.as_tensor(self.model.config.reserved_token_ids, device=logits.device)
        rows = is_asked.flatten().nonzero(as_tuple=True)[0]
        config = self.model.config
        excluded = excluded_ids(
            cast(SoftmaxOver, config.softmax_over), input_ids, rows, reserved=config.reserved_token_ids
        )
        return rank_targets(logits.clone(), labels[is_asked], excluded, reserved=reserved)


def figures(scores: Any) -> dict[str, NDArray[Any]]:
    """Cross-entropy and recall@1 of each scored position; a tie counts as its share."""
    is_first = (scores.num_better == 0) / scores.num_tied
    return {CE: -scores.log_probability, RECALL: 100 * is_first}


def measure(runs: Mapping[str, Path]) -> dict[str, Any]:
    """All numbers: by what is known and run, and by the weight of guidance."""
    loaded = {name: load_evaluation(directory) for name, directory in runs.items()}
    by_level: dict[str, dict[str, dict[str, NDArray[Any]]]] = {}
    customers: Any = None
    for level in LEVELS:
        by_level[level] = {}
        for name, data in loaded.items():
            scores = data.score(with_known(data, level))
            by_level[level][name], customers = figures(scores), data.customers(scores)
            print(level, name, f"{by_level[level][name][CE].mean():.4f}", flush=True)
    told_less = loaded[TOLD_LESS]
    by_weight = {weight: figures(scored_with(told_less, weight)) for weight in WEIGHTS}
    return {
        "known": [
            {"known": level, "run": name, **{key: asdict(bootstrap(each[key], customers)) for key in (CE, RECALL)}}
            for level, runs_of in by_level.items()
            for name, each in runs_of.items()
        ],
        "differences": [
            {"known": level, "other": other, **asdict(paired_bootstrap(of[TOLD_LESS][CE], of[other][CE], customers))}
            for level, of in by_level.items()
            for other in (GSU, NONE)
        ],
        "guidance": [
            {"weight": weight, **{key: asdict(bootstrap(each[key], customers)) for key in (CE, RECALL)}}
            for weight, each in by_weight.items()
        ],
        "provenance": asdict(told_less.provenance()),
    }


def scored_with(data: Evaluator, weight: float) -> Any:
    """The scores of a run whose answers are as personal as the weight says."""
    return score(Guided(cast(Any, data.model), weight), data.dataset, batch_size=data.batch_size)


def markdown(found: Mapping[str, Any]) -> str:
    """The report."""
    cells = {(each["known"], each["run"]): each for each in found["known"]}
    gains = {(each["known"], each["other"]): each for each in found["differences"]}
    names = (NONE, GSU, TOLD_LESS)
    known = Table(
        "Cross-entropy (nats) by what is known of the customer",
        ("known", *names, f"told less - {GSU}", f"told less - {NONE}"),
        tuple(
            (
                level,
                *(cell(cells[level, name][CE], CE) for name in names),
                *(cell(gains[level, other]["interval"], CE, is_signed=True) for other in (GSU, NONE)),
            )
            for level in LEVELS
        ),
    )
    guidance = Table(
        "More or less personal than learned: everything is known",
        ("weight", metric_of(CE).heading, metric_of(RECALL).heading),
        tuple((f"{each['weight']:g}", cell(each[CE], CE), cell(each[RECALL], RECALL)) for each in found["guidance"]),
    )
    where = found["provenance"]
    notes = (
        f"{TOLD_LESS}: context_dropout {CONTEXT_DROPOUT}, field_dropout {FIELD_DROPOUT}, all else as {GSU}.",
        "95% intervals, differences paired, bootstrap over customers, who were not seen in training. One seed.",
        "half of it: every field of every set is known or not by the toss of a coin; what is not is missing, or new: a "
        "value that the model has never seen (a number is missing there, too).",
        "weight: 0 is what anybody would get, 1 the model as it is.",
        f"Commit {where['commit']}, data {where['data_digest']}, {where['hardware']}; python -m studies.told_less.",
    )
    return render_markdown("Told less", [known, guidance], notes)


def cell(interval: Mapping[str, Any], key: str, *, is_signed: bool = False) -> str:
    """A number with its interval."""
    return interval_cell(Interval(**interval), metric_of(key), is_signed=is_signed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, measure, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of world and models")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    folder = chosen.runs / f"table1-{chosen.size}-interactions"
    data = prepare_study(folder / "world", size=chosen.size)
    directories: dict[str, Path] = {}
    for name, recipe in rows(data).items():
        directories[name] = run_directory(folder / "runs", recipe)
        if not is_complete(directories[name]):
            run(recipe, directories[name], prepared=data.prepared, is_resumed=True)
    found = measure(directories)
    with replacing_directory(chosen.output) as folder:
        (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (folder / "report.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
