from .adaptation import add_lora, freeze_bert, required_peft, unfreeze_bert
from .arguments import (
    ContextualTrainingArguments,
    check_settings_of_trainer,
    checked_arguments,
    training_arguments,
)
from .contrastive_pairs import ContrastiveText
from .devices import accelerator_name, chosen_device, chosen_dtype, emulation_lines, fast_dtype
from .progress import (
    Bars,
    ProgressLines,
    TrainingBars,
    counting,
    progress_bars,
)
from .recipe import Recipe
from .recipe_checks import check_recipe_settings
from .set_completion import SetCompletion
from .setting_checks import check_settings
from .stored_values import checked_values, recipe_fault
from .target_texts import TextToText
from .task_choice import task_on_texts
from .task_settings import TaskSettings
from .tasks import (
    TASK_SETTINGS,
    AnyTextTask,
    BidirectionalText,
    CausalText,
    Classification,
    LabelTask,
    MaskedText,
    NextSentence,
    QuestionAnswering,
    Tagging,
    TextTask,
)
from .trainer import ContextualBertTrainer, MaskEpoch
from .training_progress import TrainingProgress

__all__ = [
    "TASK_SETTINGS",
    "AnyTextTask",
    "Bars",
    "BidirectionalText",
    "CausalText",
    "Classification",
    "ContextualBertTrainer",
    "ContextualTrainingArguments",
    "ContrastiveText",
    "LabelTask",
    "MaskEpoch",
    "MaskedText",
    "NextSentence",
    "ProgressLines",
    "QuestionAnswering",
    "Recipe",
    "SetCompletion",
    "Tagging",
    "TaskSettings",
    "TextTask",
    "TextToText",
    "TrainingBars",
    "TrainingProgress",
    "accelerator_name",
    "add_lora",
    "check_recipe_settings",
    "check_settings",
    "check_settings_of_trainer",
    "checked_arguments",
    "checked_values",
    "chosen_device",
    "chosen_dtype",
    "counting",
    "emulation_lines",
    "fast_dtype",
    "freeze_bert",
    "progress_bars",
    "recipe_fault",
    "required_peft",
    "task_on_texts",
    "training_arguments",
    "unfreeze_bert",
]
