from .evaluation import Evaluation, evaluate_oracle, evaluate_run
from .grid import as_row, named_rows, table_rows
from .inspection import Inspection, inspect_table
from .oracle_run import oracle_run
from .permutation_importance import Attribution, attribute_missing, attribute_run
from .prepared_data import PreparedData, make_split
from .prepared_sets import PreparedSets, prepare
from .prepared_texts import PreparedTexts, prepare_texts
from .registry import BASELINES
from .report_files import write_attribution, write_report
from .run_files import is_complete, load_run
from .runner import run
from .study_report import Peers, study
from .tasks import prepare_for
from .text_inspection import inspect_texts
from .text_starts import reader_of

__all__ = [
    "BASELINES",
    "Attribution",
    "Evaluation",
    "Inspection",
    "Peers",
    "PreparedData",
    "PreparedSets",
    "PreparedTexts",
    "as_row",
    "attribute_missing",
    "attribute_run",
    "evaluate_oracle",
    "evaluate_run",
    "inspect_table",
    "inspect_texts",
    "is_complete",
    "load_run",
    "make_split",
    "named_rows",
    "oracle_run",
    "prepare",
    "prepare_for",
    "prepare_texts",
    "reader_of",
    "run",
    "study",
    "table_rows",
    "write_attribution",
    "write_report",
]
