"""Training: arguments, trainer, recipes."""

from contextual_bert.training.arguments import ContextualTrainingArguments, training_arguments
from contextual_bert.training.progress import TrainingProgress
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.trainer import ContextualBertTrainer, MaskEpoch

__all__ = ["ContextualBertTrainer", "ContextualTrainingArguments", "MaskEpoch", "Recipe", "TrainingProgress", "training_arguments"]
