"""DP-SGD for masked items: rows drawn by themselves, gradients of single examples clipped, noise, and the accountant.

Abadi et al. (2016), "Deep learning with differential privacy", algorithm 1. The noise multiplier and epsilon are those
of opacus' PRV accountant (Gopi et al., 2021). Gradients of single examples come from torch.func: ``vmap`` over ``grad``
of the model on one set, with sets of one length together, so that nothing is padded.

Draws of rows and noise come from the system's entropy and not from the seed of the run, which its recipe tells: whoever
knew them could take the noise away. So two runs with one seed differ.
"""

import math
import secrets
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils.data import DataLoader, Dataset, Sampler

from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.evaluation.privacy_spent import PrivacySpent
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.private_settings import DEFAULT_DELTA, DELTA, EPSILON
from contextual_bert.training.trainer import ContextualBertTrainer

MOST_NUMBERS = 2**25  # of gradients of single examples at once: 128 MiB
_TINY = 1e-6


class PoissonSampler(Sampler[list[int]]):
    """Steps of rows of which each is drawn by itself, with one chance; a step may have none.

    Args:
        num_rows: of the training part.
        sample_rate: the chance of each row to be in a step.
        generator: of the draws; None draws from the system's entropy.

    Example:
        >>> steps = [*PoissonSampler(100, 0.1, generator=torch.Generator().manual_seed(0))]
        >>> len(steps), len({len(rows) for rows in steps}) > 1
        (10, True)
    """

    def __init__(self, num_rows: int, sample_rate: float, *, generator: torch.Generator | None = None) -> None:
        self.num_rows, self.sample_rate = num_rows, sample_rate
        self.generator = generator if generator is not None else secret_generator()

    def __len__(self) -> int:
        return math.ceil(1 / self.sample_rate)

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            yield (torch.rand(self.num_rows, generator=self.generator) < self.sample_rate).nonzero()[:, 0].tolist()


class _RowsOrNone(Dataset[Any]):
    """A data set that gives None for a step without rows."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, rows: list[int]) -> Any:
        return self.dataset.__getitems__(rows) if rows else None


def secret_generator(device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that starts from the system's entropy."""
    return torch.Generator(device=device).manual_seed(secrets.randbits(63))


def clipped_sum(
    model: nn.Module, weights: Mapping[str, Tensor], inputs: Mapping[str, Any], *, max_norm: float
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return the sum of the gradients of single sets, each of at most a length, and each set's loss and length.

    Shapes: the losses in nats and the lengths of the gradients before they are clipped (batch,).

    Args:
        model: a masked language model of sets.
        weights: its weights that are trained, by name.
        inputs: of a batch, with labels.
        max_norm: longest gradient of a set, over all weights.
    """
    batch = {name: inputs[name] for name in ("input_ids", "labels", "token_type_ids") if name in inputs}
    context = cast("dict[str, Tensor]", inputs.get("context") or {})
    mask = inputs.get("attention_mask")
    width = batch["input_ids"].shape[1]
    sizes = mask.sum(dim=1) if mask is not None else torch.full((len(batch["input_ids"]),), width)
    most = max(1, MOST_NUMBERS // sum(weight.numel() for weight in weights.values()))
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    losses, norms = torch.zeros(len(sizes)), torch.zeros(len(sizes))

    def loss_of(trained: Mapping[str, Tensor], items: dict[str, Tensor], own: dict[str, Tensor]) -> Tensor:
        single = {name: values[None] for name, values in items.items()}
        told: dict[str, Any] = {"context": {name: values[None] for name, values in own.items()}} if own else {}
        return functional_call(model, dict(trained), (), {**single, **told, "logits_at": "all"}).loss

    each = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0), randomness="different")
    for size in sizes.unique().tolist():
        for rows in (sizes == size).nonzero()[:, 0].split(most):
            items = {name: values[rows, :size] for name, values in batch.items()}
            gradients, found = each(weights, items, {name: values[rows] for name, values in context.items()})
            squares = [gradient.flatten(1).square().sum(dim=1) for gradient in gradients.values()]
            length = torch.stack(squares).sum(dim=0).sqrt()
            factors = (max_norm / (length + _TINY)).clamp(max=1.0)
            for name, gradient in gradients.items():
                sums[name] += torch.einsum("b,b...->...", factors, gradient)
            losses[rows.cpu()], norms[rows.cpu()] = found.detach().cpu(), length.cpu()
    return sums, losses, norms


class PrivateTrainer(ContextualBertTrainer):
    """Trains masked items with DP-SGD, see the module. Its arguments are those of ``ContextualBertTrainer``.

    ``max_grad_norm`` is the longest gradient of an example. ``per_device_train_batch_size`` is the mean number of rows
    of a step. The optimizer is that of the arguments, and sees noisy gradients alone.

    Raises:
        ConfigurationError: opacus is not installed; several devices; delta is not below 1 / rows.
    """

    generator: torch.Generator | None = None
    _multiplier: float | None = None

    @property
    def private_args(self) -> ContextualTrainingArguments:
        """The training arguments, which say epsilon and delta."""
        return cast(ContextualTrainingArguments, self.args)

    @property
    def num_private_rows(self) -> int:
        """Rows of the training part."""
        return len(cast(Any, self.train_dataset))

    @property
    def sample_rate(self) -> float:
        """The chance of a row to be in a step."""
        return min(1.0, self.args.train_batch_size / self.num_private_rows)

    @property
    def delta(self) -> float:
        """The delta at which epsilon holds."""
        return self.private_args.dp_delta or DEFAULT_DELTA

    def train(self, *args: Any, **kwargs: Any) -> Any:
        check_private(self)
        return super().train(*args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        def collate(rows: Any) -> dict[str, Any]:
            if rows is not None:
                return cast(Any, self.data_collator)(rows)
            return {"input_ids": torch.zeros(0, 1, dtype=torch.int64), "labels": torch.zeros(0, 1, dtype=torch.int64)}

        return DataLoader(
            _RowsOrNone(self.train_dataset),
            batch_sampler=PoissonSampler(self.num_private_rows, self.sample_rate),
            collate_fn=collate,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise in units of ``max_grad_norm``, of which all steps spend the epsilon asked."""
        if self._multiplier is None:
            self._multiplier = noise_for(
                float(cast(float, self.private_args.dp_epsilon)),
                self.delta,
                sample_rate=self.sample_rate,
                steps=self.state.max_steps,
            )
        return self._multiplier

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        model.train()
        inputs = cast("dict[str, Any]", self._prepare_inputs(inputs))
        weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        detached = {name: weight.detach() for name, weight in weights.items()}
        bound = self.args.max_grad_norm
        if self.generator is None:
            self.generator = secret_generator(next(iter(detached.values())).device)
        if len(inputs["input_ids"]):
            sums, losses, _ = clipped_sum(model, detached, inputs, max_norm=bound)
            loss = losses.mean()
        else:
            sums, loss = {name: torch.zeros_like(weight) for name, weight in detached.items()}, torch.zeros(())
        for name, weight in weights.items():
            weight.grad = self.with_noise(sums[name]) / (self.sample_rate * self.num_private_rows)
        return loss.to(self.args.device)

    def with_noise(self, total: Tensor) -> Tensor:
        """Return a sum of clipped gradients with the noise of a step."""
        noise = torch.randn(total.shape, generator=self.generator, device=total.device, dtype=total.dtype)
        return total + self.noise_multiplier * self.args.max_grad_norm * noise

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        """Return the length of the noisy gradient; the examples' were clipped before the noise."""
        return nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None])

    def spent(self, steps: int) -> PrivacySpent:
        """Return the privacy that so many steps have spent.

        Args:
            steps: that were done: of a run that stopped early fewer than were planned.
        """
        arguments, multiplier = self.private_args, self.noise_multiplier
        return PrivacySpent(
            epsilon=epsilon_of(multiplier, self.delta, sample_rate=self.sample_rate, steps=steps),
            target_epsilon=float(cast(float, arguments.dp_epsilon)),
            delta=self.delta,
            noise_multiplier=multiplier,
            max_grad_norm=float(arguments.max_grad_norm),
            sample_rate=self.sample_rate,
            steps=steps,
            num_rows=self.num_private_rows,
        )


def check_private(trainer: PrivateTrainer) -> None:
    """Raise ConfigurationError where DP-SGD cannot train, before the first step.

    Args:
        trainer: with its arguments and data.
    """
    check_accountant()
    arguments, rows = trainer.private_args, trainer.num_private_rows
    if arguments.world_size * max(1, arguments.n_gpu) > 1:
        raise ConfigurationError(
            "clips the gradients of single examples in one process, and here are several devices",
            setting=EPSILON,
            value=arguments.dp_epsilon,
            fix="Train on one.",
        )
    layout = cast(Any, trainer.model).config.layout
    history = next((each.name for each in layout if each.form == "history"), None)
    if history is not None:
        raise ConfigurationError(
            f"does not go with the history {history!r}: its gradients are of all items that somebody had",
            setting=EPSILON,
            value=arguments.dp_epsilon,
            fix=Message("Leave the column out: {exclude}.", exclude=(history,)),
        )
    if trainer.delta * rows >= 1:
        raise ConfigurationError(
            f"is no small chance for {rows:,} rows: it must be below 1 / rows",
            setting=DELTA,
            value=trainer.delta,
            fix=Message("Give {dp_delta}, or less.", dp_delta=float(f"{0.1 / rows:.1g}")),
        )


def check_accountant() -> None:
    """Raise ConfigurationError where opacus is not installed."""
    if find_spec("opacus") is None:
        raise ConfigurationError(
            "needs opacus, which is not installed here",
            setting=EPSILON,
            fix="Run: pip install 'contextual-bert[privacy]'. Or leave it out.",
        )


def noise_for(epsilon: float, delta: float, *, sample_rate: float, steps: int) -> float:
    """Return the noise multiplier with which so many steps spend an epsilon.

    Args:
        epsilon, delta: that are to be reached, epsilon to 0.01.
        sample_rate: the chance of a row to be in a step.
        steps: of the whole training.

    Raises:
        ConfigurationError: no noise is large enough.
    """
    from opacus.accountants.utils import get_noise_multiplier  # noqa: PLC0415  (an extra, three seconds)

    try:
        found = get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=sample_rate, steps=steps, accountant="prv"
        )
    except (ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"is not reached in {steps:,} steps: {error}", setting=EPSILON, value=epsilon, fix="Give a larger one."
        ) from error
    return float(found)


def epsilon_of(multiplier: float, delta: float, *, sample_rate: float, steps: int) -> float:
    """Return the epsilon that so many steps spend; 0 of none."""
    from opacus.accountants import PRVAccountant  # noqa: PLC0415  (an extra, three seconds)

    if steps == 0:
        return 0.0
    accountant: Any = PRVAccountant()
    accountant.history = [(multiplier, sample_rate, steps)]
    return float(accountant.get_epsilon(delta))
