"""Numbers: pure functions of ranks and probabilities, with intervals, reports and pictures. No model is known here."""

from contextual_bert.evaluation.alignment import Cost, Role, Run
from contextual_bert.evaluation.asked import Asked, Unscored
from contextual_bert.evaluation.calibration import Calibration, CalibrationBin
from contextual_bert.evaluation.comparison import Comparison, compare_runs
from contextual_bert.evaluation.comparison_rows import ComparisonRow
from contextual_bert.evaluation.importance import FeatureImportance, FeatureImportances, measure_importances
from contextual_bert.evaluation.importance_plots import plot_importance
from contextual_bert.evaluation.intervals import (
    ClusterBootstrap,
    Difference,
    Interval,
    SeedMean,
    bootstrap,
    cluster_interval,
    holm,
    paired_bootstrap,
    seed_mean,
)
from contextual_bert.evaluation.labels import AnsweredRows, LabelledRows, has_grades, has_tags
from contextual_bert.evaluation.labels.alignment import LabelRun
from contextual_bert.evaluation.labels.classes import ClassScore, ComparedClass, class_scores
from contextual_bert.evaluation.labels.comparison import ComparedGroup, LabelComparison, compare_labels
from contextual_bert.evaluation.labels.report import LabelGroup, LabelReport, LabelSettings, evaluate_labels
from contextual_bert.evaluation.learning import (
    Convergence,
    LearningCurve,
    LearningPoint,
    measure_convergence,
    slope_of_last_part,
)
from contextual_bert.evaluation.metrics import Metric, Scores, metric_of, summarise
from contextual_bert.evaluation.plots import plot_comparison, plot_recall, plot_reliability, plot_segments
from contextual_bert.evaluation.report import EvaluationSettings, Report, evaluate_scores
from contextual_bert.evaluation.segments import Segment
from contextual_bert.evaluation.study import Study
from contextual_bert.evaluation.study_files import write_study
from contextual_bert.evaluation.study_plots import (
    plot_cost_against_quality,
    plot_gap_to_oracle,
    plot_learning_curves,
    plot_reliability_by_method,
)
from contextual_bert.evaluation.tables import Provenance

__all__ = [
    "AnsweredRows",
    "Asked",
    "Calibration",
    "CalibrationBin",
    "ClassScore",
    "ClusterBootstrap",
    "ComparedClass",
    "ComparedGroup",
    "Comparison",
    "ComparisonRow",
    "Convergence",
    "Cost",
    "Difference",
    "EvaluationSettings",
    "FeatureImportance",
    "FeatureImportances",
    "Interval",
    "LabelComparison",
    "LabelGroup",
    "LabelReport",
    "LabelRun",
    "LabelSettings",
    "LabelledRows",
    "LearningCurve",
    "LearningPoint",
    "Metric",
    "Provenance",
    "Report",
    "Role",
    "Run",
    "Scores",
    "SeedMean",
    "Segment",
    "Study",
    "Unscored",
    "bootstrap",
    "class_scores",
    "cluster_interval",
    "compare_labels",
    "compare_runs",
    "evaluate_labels",
    "evaluate_scores",
    "has_grades",
    "has_tags",
    "holm",
    "measure_convergence",
    "measure_importances",
    "metric_of",
    "paired_bootstrap",
    "plot_comparison",
    "plot_cost_against_quality",
    "plot_gap_to_oracle",
    "plot_importance",
    "plot_learning_curves",
    "plot_recall",
    "plot_reliability",
    "plot_reliability_by_method",
    "plot_segments",
    "seed_mean",
    "slope_of_last_part",
    "summarise",
    "write_study",
]
