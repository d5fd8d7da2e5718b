"""Runs and studies: recipes in, run directories and tables out."""

from contextual_bert.benchmark.attribution import Attribution, attribute_missing, attribute_run
from contextual_bert.benchmark.checks import BASELINES
from contextual_bert.benchmark.evaluation import Evaluation, evaluate_oracle, evaluate_run
from contextual_bert.benchmark.inspection import Inspection, inspect_table
from contextual_bert.benchmark.oracle_run import oracle_run
from contextual_bert.benchmark.preparation import Preparation, prepare
from contextual_bert.benchmark.prepared import Prepared, make_split
from contextual_bert.benchmark.report_files import write_attribution, write_report
from contextual_bert.benchmark.run_files import is_complete, load_run
from contextual_bert.benchmark.runner import run
from contextual_bert.benchmark.study_report import Peers, study
from contextual_bert.benchmark.table_rows import as_row, named_rows, table_rows
from contextual_bert.benchmark.text_inspection import inspect_texts
from contextual_bert.benchmark.text_preparation import TextPreparation, prepare_texts
from contextual_bert.benchmark.work import prepare_for

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
