from .adaptation import add_lora, freeze_bert, unfreeze_bert
from .arguments import (
    ContextualTrainingArguments,
    check_settings,
    training_arguments,
)
from .devices import chosen_device, chosen_dtype, emulation_lines
from .progress import (
    Bars,
    ProgressLines,
    TrainingBars,
    TrainingProgress,
    counting,
    progress_bars,
)
from .recipe import Recipe
from .text_task import TextTask
from .text_trainer import TextTrainer
from .trainer import ContextualBertTrainer, MaskEpoch

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
