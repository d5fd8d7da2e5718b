"""Context dropout in a training: the data with parts of their contexts left out, and a config that remembers it.

Knows no method; ``contextual_bert.data.DroppedContext`` says what is left out of which example.
"""

from torch import nn

from contextual_bert.context import ContextEncoder
from contextual_bert.context.absence import rarely_missing
from contextual_bert.data import DroppedContext, SequenceDataset
from contextual_bert.models import ContextualBertConfig
from contextual_bert.training.arguments import ContextualTrainingArguments

TrainingData = SequenceDataset | DroppedContext


def with_context_dropout(
    dataset: SequenceDataset | None, model: nn.Module, args: ContextualTrainingArguments
) -> TrainingData | None:
    """The training data as ``args`` want them; the config of the model remembers how it is trained.

    Args:
        dataset: the training data, None where nothing is trained.
        model: what is trained.
        args: say how often a context, or a field of it, is left out.

    Raises:
        ConfigurationError: something is to be left out of data that have no context.
    """
    if dataset is None:
        return None
    config: object = getattr(model, "config", None)
    if isinstance(config, ContextualBertConfig):
        config.context_dropout, config.field_dropout = float(args.context_dropout), float(args.field_dropout)
        config.rarely_missing = rarely_missing({name: values.numpy() for name, values in dataset.context.items()})
    if not args.context_dropout and not args.field_dropout:
        return dataset
    layouts = [module.layout for module in model.modules() if isinstance(module, ContextEncoder)]
    return DroppedContext(
        dataset,
        context_dropout=args.context_dropout,
        field_dropout=args.field_dropout,
        layout=layouts[0] if layouts else (),
        seed=args.seed,
    )
