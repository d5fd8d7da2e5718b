"""Runs and studies: recipes in, run directories and tables out."""

from contextual_bert.benchmark.preparation import Preparation, make_split, prepare
from contextual_bert.benchmark.run_files import is_complete, load_run
from contextual_bert.benchmark.runner import BASELINES, compare, run

__all__ = ["BASELINES", "Preparation", "compare", "is_complete", "load_run", "make_split", "prepare", "run"]
