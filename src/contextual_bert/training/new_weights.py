"""A learning rate of their own for the weights that no BERT has: they start from nothing beside others that do not.

Howard and Ruder (2018), section 3.2, "discriminative fine-tuning". It knows no data.
"""

from typing import Any, cast

import torch
from transformers import Trainer

from contextual_bert.errors import ConfigurationError
from contextual_bert.models.pretrained import is_new


class NewWeightsTrainer(Trainer):
    """A Trainer with ``new_weights_learning_rate`` for the method, the context encoder, the head and extra blocks.

    Example:
        >>> NewWeightsTrainer.__mro__[1].__name__
        'Trainer'
    """

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
