"""Training: arguments, trainer, recipes."""

from contextual_bert.training.adaptation import add_lora, freeze_bert, unfreeze_bert
from contextual_bert.training.arguments import (
    ContextualTrainingArguments,
    check_settings,
    training_arguments,
)
from contextual_bert.training.devices import chosen_device, chosen_dtype, emulation_lines
from contextual_bert.training.progress import (
    Bars,
    ProgressLines,
    TrainingBars,
    TrainingProgress,
    counting,
    progress_bars,
)
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.text_task import TextTask
from contextual_bert.training.text_trainer import TextTrainer
from contextual_bert.training.trainer import ContextualBertTrainer, MaskEpoch

__all__ = [
    "Bars",
    "ContextualBertTrainer",
    "ContextualTrainingArguments",
    "MaskEpoch",
    "ProgressLines",
    "Recipe",
    "TextTask",
    "TextTrainer",
    "TrainingBars",
    "TrainingProgress",
    "add_lora",
    "check_settings",
    "chosen_device",
    "chosen_dtype",
    "counting",
    "emulation_lines",
    "freeze_bert",
    "progress_bars",
    "training_arguments",
    "unfreeze_bert",
]
