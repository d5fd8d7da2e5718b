from .evaluation import Evaluation, evaluate_oracle, evaluate_run
from .grid import named_rows, table_rows
from .inspection import Inspection, inspect_table
from .model_inspection import ModelInspection, inspect_model
from .oracle_run import oracle_run
from .permutation_importance import RunImportance, ablate_features, permute_features
from .prepared_data import make_split
from .registry import BASELINES, as_row
from .report_files import write_importance, write_report
from .run_directory import is_complete, load_run
from .runner import run
from .study_report import Peers, study
from .tasks import Task, prepare
from .tasks.set_completion import SetCompletionTask
from .tasks.text import TextModelTask
from .text_starts import reader_of

__all__ = [
    "BASELINES",
    "Evaluation",
    "Inspection",
    "ModelInspection",
    "Peers",
    "RunImportance",
    "SetCompletionTask",
    "Task",
    "TextModelTask",
    "ablate_features",
    "as_row",
    "evaluate_oracle",
    "evaluate_run",
    "inspect_model",
    "inspect_table",
    "is_complete",
    "load_run",
    "make_split",
    "named_rows",
    "oracle_run",
    "permute_features",
    "prepare",
    "reader_of",
    "run",
    "study",
    "table_rows",
    "write_importance",
    "write_report",
]
