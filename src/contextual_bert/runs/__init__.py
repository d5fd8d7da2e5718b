"""Runs and studies: recipes in, run directories and tables out."""

from contextual_bert.runs.evaluation import Evaluation, evaluate_oracle, evaluate_run
from contextual_bert.runs.grid import as_row, named_rows, table_rows
from contextual_bert.runs.inspection import Inspection, inspect_table
from contextual_bert.runs.oracle_run import oracle_run
from contextual_bert.runs.permutation_importance import Attribution, attribute_missing, attribute_run
from contextual_bert.runs.preparation import Preparation, prepare
from contextual_bert.runs.prepared import Prepared, make_split
from contextual_bert.runs.registry import BASELINES
from contextual_bert.runs.report_files import write_attribution, write_report
from contextual_bert.runs.run_files import is_complete, load_run
from contextual_bert.runs.runner import run
from contextual_bert.runs.study_report import Peers, study
from contextual_bert.runs.text_inspection import inspect_texts
from contextual_bert.runs.text_preparation import TextPreparation, prepare_texts
from contextual_bert.runs.work import prepare_for

__all__ = [
    "BASELINES",
    "Attribution",
    "Evaluation",
    "Inspection",
    "Peers",
    "Preparation",
    "Prepared",
    "TextPreparation",
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
    "run",
    "study",
    "table_rows",
    "write_attribution",
    "write_report",
]
