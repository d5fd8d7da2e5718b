"""Learning rates of their own for the weights that no BERT has, and for those among them that read the context: they
start from nothing beside others that do not.

Howard and Ruder (2018), section 3.2, "discriminative fine-tuning".
"""

import math
from collections.abc import Generator, Mapping, Sized
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import Trainer, TrainingArguments, get_scheduler
from transformers.trainer_utils import TrainOutput
from transformers.training_args import OptimizerNames

from contextual_bert.data import DroppedContext, LengthBucketSampler, SequenceDataset
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.models.label_heads import OrdinalClassifier
from contextual_bert.models.pretrained import context_weights, new_weights
from contextual_bert.training.epochs import MaskEpoch
from contextual_bert.training.row_updates import check_row_rule, clip_sparse_and_dense, sparse_weights, update_rows

# With Adam a step moves a weight by its rate at most. Thresholds are log-odds, and move by about 1 in some 100 steps.
THRESHOLD_LEARNING_RATE = 0.01


class NewWeightsTrainer(Trainer):
    """A Trainer with ``new_weights_learning_rate`` for the method, the context encoder, the head and extra blocks, and
    ``context_learning_rate`` for what of the first two reads the context.

    Own vectors of items with features have ``item_weight_decay``. Thresholds of grades have
    ``THRESHOLD_LEARNING_RATE``, or the rate of the other weights of the head where that is higher, and no weight decay.

    Weights with sparse gradients have steps that touch only the rows that were read, see ``row_updates``.

    And what both trainers have beside: the batches of training have one length, an evaluation leaves no row out, one
    before the training does not keep several processes from training together, and a training that diverges ends at
    the next log.

    Raises:
        ConfigurationError: the loss is no number any more.

    Example:
        >>> NewWeightsTrainer.__mro__[1].__name__
        'Trainer'
    """

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        model = cast(Any, self.model)
        if self.args.world_size > 1 and self.model_wrapped is model and "_is_accelerate_prepared" in vars(model):
            # Prepared for an evaluation, which distributes nothing, and accelerate prepares no model twice: each
            # process would train alone.
            del model._is_accelerate_prepared
            cast(Any, self.accelerator)._models.remove(model)
        return super().train(*args, **kwargs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        super().log(logs, *args, **kwargs)
        loss = float(logs.get("loss", 0.0))
        # With float16 the gradients are scaled, and a step that overflows is left out.
        if not math.isfinite(loss) and not self.args.fp16:
            raise ConfigurationError(
                f"The training diverged: its loss is {loss} at step {self.state.global_step}",
                fix=Message(
                    f"Train again with a smaller {{learning_rate}}{', or in float32' if self.args.bf16 else ''}.",
                    learning_rate=NAME,
                ),
            )

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int] | None:
        dataset = train_dataset if train_dataset is not None else self.train_dataset
        is_own = isinstance(dataset, SequenceDataset | DroppedContext)
        if not is_own or self.args.train_sampling_strategy != "random":
            return super()._get_train_sampler(train_dataset)
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        sampler = LengthBucketSampler(
            dataset.sizes,
            batch_size=self.args.train_batch_size,
            seed=seed,
            drop_last=self.args.dataloader_drop_last,
        )
        # Where several processes go on in the middle of an epoch, accelerate tells it to nobody so deep inside.
        told = next((each for each in self.callback_handler.callbacks if isinstance(each, MaskEpoch)), None)
        if told is None:
            self.add_callback(MaskEpoch(sampler))
        else:
            others = (each for each in told.followers if not isinstance(each, LengthBucketSampler))
            told.followers = (*others, sampler)
        return sampler

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        with self._every_row():
            return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        with self._every_row():
            return super().get_test_dataloader(test_dataset)

    @contextmanager
    def _every_row(self) -> Generator[None]:
        is_dropped, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False  # that is for training
        try:
            yield
        finally:
            self.args.dataloader_drop_last = is_dropped

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        without = {id(weight) for weight in thresholds_of(model)}
        own = {name for name, weight in model.named_parameters() if id(weight) in without}
        return [name for name in super().get_decay_parameter_names(model) if name not in own]

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        is_made = self.optimizer is not None
        optimizer: Any = super().create_optimizer(model)
        if is_made:
            return optimizer
        trained = cast(nn.Module, self.model)
        _set_apart(optimizer, "lr", own_rates(trained, self.args))
        _set_apart(optimizer, "weight_decay", own_decays(trained, self.args))
        by_rows = sparse_weights(trained)
        return update_rows(optimizer, by_rows, rule=_row_rule(trained)) if by_rows else optimizer

    def _clip_grad_norm(self, model: Any) -> Any:
        found = self._sparse_norm(model, self.args.max_grad_norm)
        return found if found is not None else super()._clip_grad_norm(model)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        found = grad_norm if grad_norm is not None else self._sparse_norm(model, math.inf)
        return super()._get_grad_norm(model, grad_norm=found)

    def _sparse_norm(self, model: Any, max_norm: float) -> Any:
        """Return the norm of a gradient that is sparse in part, which torch does not clip; None of others."""
        if not any(weight.grad is not None and weight.grad.is_sparse for weight in model.parameters()):
            return None
        cast(Any, self.accelerator).unscale_gradients()
        return clip_sparse_and_dense(model, max_norm)


def _set_apart(optimizer: torch.optim.Optimizer, setting: str, values: Mapping[int, float]) -> None:
    """Move the weights that have another value of a setting into groups of their own."""
    for group in list(optimizer.param_groups):
        for value in dict.fromkeys(values.values()):
            found = [weight for weight in group["params"] if values.get(id(weight)) == value]
            if found:
                group["params"] = [weight for weight in group["params"] if values.get(id(weight)) != value]
                optimizer.add_param_group({**group, "params": found, setting: value})


def _row_rule(model: nn.Module) -> Literal["adagrad", "adam"]:
    """By which rule rows have steps: those of items by that of the other weights, which are Adam's."""
    return "adam" if getattr(model, "sampled_loss", None) is not None else "adagrad"


def rehearse(model: nn.Module, args: TrainingArguments, dataset: Sized) -> None:
    """Make what the settings ask for on a weight of no use: what that does not take shows before a folder is there.

    What transformers makes of the model itself (an optimiser that wants its layers) is left to it.

    Args:
        model: what is to be trained.
        args: the settings.
        dataset: what is to be learned from.

    Raises:
        ConfigurationError: a rate for weights that are not there; no whole batch; arguments that the optimiser does not
            read, which transformers leaves out without a word.
        ValueError, TypeError, ImportError, RuntimeError: an argument that the optimiser, its schedule or torch.compile
            does not take, or a package that is not there.
    """
    own_rates(model, args)
    own_decays(model, args)
    if args.dataloader_drop_last and len(dataset) < args.train_batch_size:
        raise ConfigurationError(
            f"dataloader_drop_last leaves out batches of fewer than {args.train_batch_size}, and training "
            f"has {len(dataset)} rows",
            fix="Leave it out, or give a smaller batch.",
        )
    made, settings = Trainer.get_optimizer_cls_and_kwargs(args, cast(Any, model))
    if sparse_weights(model):
        check_row_rule(_row_rule(model), settings, optimizer=OptimizerNames(args.optim).value)
    if isinstance(made, type) and issubclass(made, torch.optim.Optimizer) and "params" not in settings:
        given = [each.partition("=")[0].strip() for each in (args.optim_args or "").split(",")]
        unread = ", ".join(name for name in given if name and name not in settings)
        if unread:
            raise ConfigurationError(f"optim_args: {made.__name__} does not read {unread}", fix="Leave them out.")
        get_scheduler(
            args.lr_scheduler_type,
            optimizer=made([nn.Parameter(torch.zeros(1))], **settings),
            num_warmup_steps=args.get_warmup_steps(1),
            num_training_steps=1,
            scheduler_specific_kwargs=cast(Any, args.lr_scheduler_kwargs),
        )
    if args.torch_compile:
        torch.compile(nn.Identity(), backend=args.torch_compile_backend or "inductor", mode=args.torch_compile_mode)


def own_rates(model: nn.Module, args: TrainingArguments) -> dict[int, float]:
    """``id`` of a weight -> its peak learning rate, for the weights that have another one than ``learning_rate``.

    Raises:
        ConfigurationError: a rate is given for weights that the model does not have.
    """
    # An adapter around the model has names of its own for the same weights.
    model = cast(Any, model).get_base_model() if hasattr(model, "get_base_model") else model
    new_rate = getattr(args, "new_weights_learning_rate", None)
    context_rate = getattr(args, "context_learning_rate", None)
    rates: dict[int, float] = {}
    if new_rate is not None:
        if not getattr(getattr(model, "config", None), "has_pretrained_start", False):
            raise ConfigurationError(
                "is for a model that starts from a BERT checkpoint, and all weights of this one are new",
                setting="new_weights_learning_rate",
                value=new_rate,
                fix=Message("Give {learning_rate} alone.", learning_rate=NAME),
            )
        rates.update({id(weight): new_rate for weight in new_weights(model).values()})
    if context_rate is not None:
        of_context = context_weights(model)
        if not of_context:
            raise ConfigurationError(
                "is for the weights that read the context, and this model has none",
                setting="context_learning_rate",
                value=context_rate,
                fix="Leave it out.",
            )
        rates.update({id(weight): context_rate for weight in of_context})
    for weight in thresholds_of(model):
        rates[id(weight)] = max(THRESHOLD_LEARNING_RATE, rates.get(id(weight), args.learning_rate))
    return rates


def own_decays(model: nn.Module, args: TrainingArguments) -> dict[int, float]:
    """``id`` of a weight -> its weight decay, for the weights that have another one than ``weight_decay``.

    Raises:
        ConfigurationError: a decay is given for own vectors beside features, and the items have none.
    """
    decay = getattr(args, "item_weight_decay", None)
    if decay is None:
        return {}
    found = cast(Any, model).item_encoders() if hasattr(model, "item_encoders") else []
    if not found:
        raise ConfigurationError(
            "is for the own vectors of items that have features, and these have none",
            setting="item_weight_decay",
            value=decay,
            fix=Message("Name the table of the items with {catalogue}, or leave it out.", catalogue=...),
        )
    return {id(own): decay for _, own in found}


def thresholds_of(model: nn.Module) -> list[nn.Parameter]:
    """Return the thresholds of the grades that a model gives; none where it gives no grades."""
    return [module.thresholds for module in model.modules() if isinstance(module, OrdinalClassifier)]
