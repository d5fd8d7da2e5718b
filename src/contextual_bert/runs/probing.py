"""Probes of a finished run: which layer tells the label, and which tells who asks.

Probes learn on the training part of the run's split and are scored on the part that was held out. Their control is the
same model with the contexts of others: what it tells of a field is in the text alone. Paper: not there;
docs/protocol.md, "Controls".
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.data import SequenceDataset, ShuffledContext, Split
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.probe_curves import ProbeCurve, measure_probe
from contextual_bert.frames import Frame
from contextual_bert.inference.linear_probes import ProbePredictions, fit_probes
from contextual_bert.inference.scoring import to_device
from contextual_bert.models import IGNORED_LABEL, ContextualBertPreTrainedModel
from contextual_bert.places import PathPlace
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.evaluator import Evaluator
from contextual_bert.runs.run_directory import FinishedRun
from contextual_bert.runs.shifts import LEARNED

NUM_ROWS, NUM_TAGGED = 1000, 200  # sets or texts of a part; texts whose words are probed
FEWEST_ROWS, MAX_CLASSES = 20, 50  # a field with more values names single people, and no thousand rows teach them
LABEL = "the label"
Progress = Callable[[int, int], None]


class RunProbes(NamedTuple):
    """The curves of a run's probes, and what the reader should know of them."""

    curves: tuple[ProbeCurve, ...]
    notes: tuple[str, ...]


class _Sample(NamedTuple):
    """Rows of one part: with their own contexts and with those of others, and the customer of each."""

    evaluator: Evaluator
    own: SequenceDataset
    shuffled: SequenceDataset | None
    customers: NDArray[Any]


class _Target(NamedTuple):
    """What is probed: the class of each row, or word, of a part; negative where it has none."""

    name: str
    is_of_words: bool
    classes: dict[str, Tensor]


def probe_run(
    run: FinishedRun,
    *,
    overrides: Mapping[str, Any] | None = None,
    source: Frame | None = None,
    progress: Progress | None = None,
) -> RunProbes:
    """Fit linear probes to the hidden states of each layer of a run.

    Args:
        run: as ``finished_run`` gave it.
        overrides: fields of the recipe that are others here, as for ``load_evaluation``.
        source: the table, where it is in memory.
        progress: called with (steps done, steps in all).

    Raises:
        ConfigurationError: nothing was held out; another table than the run's; a context that is read as words; a
            baseline.
        DataError: nothing that can be probed.
    """
    if run.recipe.conditioning == CONTEXT_AS_TEXT:
        raise ConfigurationError(
            "are for models whose layers have the positions of the text alone, and this one reads a context in words",
            setting="probes",
            fix="Leave them out.",
        )
    samples = _samples(run, overrides, source)
    (learned, asked), parts = samples.values(), [*samples]
    model: Any = learned.evaluator.model
    targets, notes = _targets(samples)
    if not targets:
        raise DataError(
            " ".join(["There is no label and no field of the context that can be probed.", *notes]).rstrip("."),
            file=learned.evaluator.recipe.data,
            fix="Leave the probes out.",
        )
    datasets = [each for sample in samples.values() for each in (sample.own, sample.shuffled) if each is not None]
    batch_size = learned.evaluator.batch_size
    total = sum(-(-len(each) // batch_size) for each in datasets) + len(targets) * (1 + (learned.shuffled is not None))
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    has_order = not learned.evaluator.recipe.task.has_items
    pairs = [(learned.own, asked.own)]
    if learned.shuffled is not None and asked.shuffled is not None:
        pairs.append((learned.shuffled, asked.shuffled))
    states = [
        [_states(model, each, batch_size=batch_size, reads_first=has_order, step=step) for each in pair]
        for pair in pairs
    ]
    curves: list[ProbeCurve] = []
    for target in targets:
        rows = [(target.classes[part] >= 0).nonzero()[:, 0] for part in parts]
        classes, true = torch.unique(target.classes[parts[0]][rows[0]], return_inverse=True)
        wanted = target.classes[parts[1]][rows[1]]
        found: list[ProbePredictions] = []
        for pair in states:
            given = [each[target.is_of_words][:, own] for each, own in zip(pair, rows, strict=True)]
            found.append(fit_probes(given[0], true, given[1]))
            step()
        common = torch.full_like(wanted, int(torch.bincount(true).argmax()))
        predicted = torch.cat([found[0].layers, found[0].mixture[None], common[None]])
        customers = asked.customers
        if target.is_of_words:
            customers = np.repeat(customers, [int(size) for size in asked.own.sizes])
        curves.append(
            measure_probe(
                target.name,
                (classes[predicted] == wanted).numpy(),
                shuffled=(classes[found[1].layers] == wanted).numpy() if len(found) > 1 else None,
                clusters=customers[rows[1].numpy()],
                weights=found[0].weights.tolist(),
                num_classes=len(classes),
                num_train=len(true),
            )
        )
    return RunProbes(tuple(curves), tuple(notes))


def checked_layers(model: object, run: FinishedRun) -> ContextualBertPreTrainedModel:
    """Return the model of a run, which has layers to look into.

    Raises:
        ConfigurationError: it is a baseline.
    """
    if isinstance(model, ContextualBertPreTrainedModel):
        return model
    raise ConfigurationError(
        f"has no layers of attention to look into: it is a run of {run.recipe.conditioning}",
        place=PathPlace(run.directory),
        fix="Name the run of a method.",
    )


def _samples(run: FinishedRun, overrides: Mapping[str, Any] | None, source: Frame | None) -> dict[str, _Sample]:
    """Return a sample of the training part, and one of the part that was held out."""
    split = Split.load(run.directory / "split.json")
    held_out = next((part for part in ("test", "validation") if len(split.rows(part))), None)
    if held_out is None:
        raise ConfigurationError(
            "held nothing out, on which probes could be scored",
            place=PathPlace(run.directory),
            fix="Train with a test part.",
        )
    found: dict[str, _Sample] = {}
    for part in (LEARNED, held_out):
        try:
            evaluator = load_evaluation(run, overrides=overrides, part=part, source=source)
        except ConfigurationError as error:
            if error.location != ("part",):
                raise
            fix = "Name that table, wherever it lies now."
            problem = "is not the table that the run was trained with: probes learn on its training part"
            raise ConfigurationError(problem, setting="data", fix=fix) from None
        whole = evaluator.dataset
        most = NUM_TAGGED if whole.has_label_per_token else NUM_ROWS
        chosen = np.sort(np.random.default_rng(0).permutation(len(whole))[:most])
        own = whole.subset(torch.from_numpy(chosen))
        rows = own.example_ids.numpy()
        customers = evaluator.ready.customers_of(rows)
        model = checked_layers(evaluator.model, run)
        reads = model.config.reads_context and own.context
        shuffled = ShuffledContext(own, seed=evaluator.recipe.seed) if reads else None
        found[part] = _Sample(evaluator, own, shuffled, rows if customers is None else customers)
    return found


def _targets(samples: Mapping[str, _Sample]) -> tuple[list[_Target], list[str]]:
    """Return what can be probed, and sentences on what cannot."""
    learned = samples[LEARNED]
    candidates: list[tuple[str, bool, dict[str, Any], int]] = [
        (LABEL, learned.own.has_label_per_token, {part: each.own.labels for part, each in samples.items()}, 0)
    ]
    schema, left_out, found = learned.evaluator.schema, list[str](), list[_Target]()
    for feature, layout in zip(schema.read_features, schema.layout, strict=True) if schema is not None else ():
        if feature.sensitive:
            left_out.append(f"{feature.name} is sensitive")
            continue
        contexts = {part: each.own.context.get(feature.name) for part, each in samples.items()}
        candidates.append((f"the context's {feature.name}", False, contexts, layout.num_reserved))
    for name, is_of_words, values, num_reserved in candidates:
        if any(each is None for each in values.values()):
            continue  # nothing was labelled
        if any(each.ndim != 1 or each.is_floating_point() for each in values.values()):
            left_out.append(f"{name} has no single value a row")
            continue
        # Ids that are reserved say missing or unknown; labels have none, and one that is left out.
        target = _Target(name, is_of_words, {part: _known(each, num_reserved) for part, each in values.items()})
        known = {part: each[each >= 0] for part, each in target.classes.items()}
        num_classes = len(known[LEARNED].unique())
        if min(map(len, known.values())) < FEWEST_ROWS:
            left_out.append(f"{name} is known of fewer than {FEWEST_ROWS} rows of a part")
        elif not 1 < num_classes <= MAX_CLASSES:
            left_out.append(f"{name} has {num_classes:,} values")
        else:
            found.append(target)
    return found, [f"Not probed: {reason}." for reason in left_out]


def _known(ids: Tensor, num_reserved: int) -> Tensor:
    return torch.where((ids == IGNORED_LABEL) | (ids < num_reserved), -1, ids)


@torch.no_grad()
def _states(
    model: Any, dataset: SequenceDataset, *, batch_size: int, reads_first: bool, step: Callable[[], None]
) -> tuple[Tensor, Tensor]:
    """Return the states of each row, (layers, rows, width), and of each token, (layers, tokens, hidden).

    A row's are the mean over its positions, and beside it, of a text, those of the first. Of tokens there are none
    where no token has a label.
    """
    of_rows: list[Tensor] = []
    of_tokens: list[Tensor] = []
    for start in range(0, len(dataset), batch_size):
        index = torch.arange(start, min(start + batch_size, len(dataset)))
        batch = dataset.__getitems__(index).inputs()
        known = ("input_ids", "attention_mask", "token_type_ids", "context")
        inputs = to_device({name: batch[name] for name in known if name in batch}, model.device)
        hidden = torch.stack(model.bert(**inputs, output_hidden_states=True).hidden_states).float().cpu()
        is_real = batch["attention_mask"].bool()
        mean = (hidden * is_real[..., None]).sum(dim=2) / is_real.sum(dim=1)[:, None]
        of_rows.append(torch.cat([hidden[:, :, 0], mean], dim=-1) if reads_first else mean)
        if dataset.has_label_per_token:
            of_tokens.append(hidden[:, is_real])
        step()
    return torch.cat(of_rows, dim=1), torch.cat(of_tokens, dim=1) if of_tokens else torch.empty(0)
