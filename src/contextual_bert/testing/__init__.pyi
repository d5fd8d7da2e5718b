from .computation import (
    check_bfloat16,
    check_compile,
    check_gradient_checkpointing,
    check_parameters,
    check_save_and_load,
)
from .contracts import CONTRACTS, check_method
from .heads import check_checkpoint_start, check_heads
from .miniature import (
    miniature_batch,
    miniature_config,
    miniature_model,
    miniature_processor,
    miniature_schema,
    miniature_text_processor,
)
from .outputs import (
    check_bert,
    check_context_gradient,
    check_length,
    check_padding,
    check_permutation,
    check_rows,
)
from .training import check_context_through_trainer, check_training

__all__ = [
    "CONTRACTS",
    "check_bert",
    "check_bfloat16",
    "check_checkpoint_start",
    "check_compile",
    "check_context_gradient",
    "check_context_through_trainer",
    "check_gradient_checkpointing",
    "check_heads",
    "check_length",
    "check_method",
    "check_padding",
    "check_parameters",
    "check_permutation",
    "check_rows",
    "check_save_and_load",
    "check_training",
    "miniature_batch",
    "miniature_config",
    "miniature_model",
    "miniature_processor",
    "miniature_schema",
    "miniature_text_processor",
]
