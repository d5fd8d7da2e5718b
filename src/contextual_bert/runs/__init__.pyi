from .evaluation import Evaluation, evaluate_oracle, evaluate_run
from .grid import as_row, named_rows, table_rows
from .inspection import Inspection, inspect_table
from .oracle_run import oracle_run
from .permutation_importance import Attribution, attribute_missing, attribute_run
from .prepared_data import make_split
from .registry import BASELINES
from .report_files import write_attribution, write_report
from .run_directory import is_complete, load_run
from .runner import run
from .study_report import Peers, study
from .tasks import Task, prepare
from .tasks.set_completion import SetCompletionTask
from .tasks.text import TextModelTask
from .text_starts import reader_of

__all__ = [
    "BASELINES",
    "Attribution",
    "Evaluation",
    "Inspection",
    "Peers",
    "SetCompletionTask",
    "Task",
    "TextModelTask",
    "as_row",
    "attribute_missing",
    "attribute_run",
    "evaluate_oracle",
    "evaluate_run",
    "inspect_table",
    "is_complete",
    "load_run",
    "make_split",
    "named_rows",
    "oracle_run",
    "prepare",
    "reader_of",
    "run",
    "study",
    "table_rows",
    "write_attribution",
    "write_report",
]
