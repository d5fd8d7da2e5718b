"""A learning rate of their own for the weights that no BERT has: they start from nothing beside others that do not.

Howard and Ruder (2018), section 3.2, "discriminative fine-tuning".
"""

from typing import Any, cast

import torch
from torch.utils.data import Dataset, Sampler
from transformers import Trainer

from contextual_bert.data import DroppedContext, LengthBucketSampler, SetDataset, TextDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.pretrained import is_new


class NewWeightsTrainer(Trainer):
    """A Trainer with ``new_weights_learning_rate`` for the method, the context encoder, the head and extra blocks.

    And what both trainers have beside: the batches of training have one length.

    Example:
        >>> NewWeightsTrainer.__mro__[1].__name__
        'Trainer'
    """

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int] | None:
        dataset = train_dataset if train_dataset is not None else self.train_dataset
        is_own = isinstance(dataset, SetDataset | TextDataset | DroppedContext)
        if not is_own or self.args.train_sampling_strategy != "random":
            return super()._get_train_sampler(train_dataset)
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return LengthBucketSampler(dataset.sizes, batch_size=self.args.train_batch_size, seed=seed)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        is_made = self.optimizer is not None
        optimizer: Any = super().create_optimizer(model)
        arguments, own = self.args, cast(Any, self.model)
        rate = getattr(arguments, "new_weights_learning_rate", None)
        if is_made or rate is None:
            return optimizer
        if not getattr(getattr(own, "config", None), "has_bert_start", False):
            raise ConfigurationError(
                f"new_weights_learning_rate={rate} is for a model that starts from a BERT checkpoint, and all weights "
                "of this one are new. Give learning_rate alone."
            )
        new = {id(weight) for name, weight in own.named_parameters() if is_new(name, own)}
        for group in list(optimizer.param_groups):
            found = [weight for weight in group["params"] if id(weight) in new]
            if found:
                group["params"] = [weight for weight in group["params"] if id(weight) not in new]
                optimizer.add_param_group({**group, "params": found, "lr": rate})
        return optimizer
