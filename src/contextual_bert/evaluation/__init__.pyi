from .alignment import Cost, Role, Run
from .asked import Asked, Unscored
from .calibration import Calibration, CalibrationBin
from .comparison import Comparison, compare_runs
from .comparison_rows import ComparisonRow
from .importance import FeatureImportance, FeatureImportances, measure_importances
from .importance_plots import plot_importance
from .intervals import (
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
from .labels import AnsweredRows, LabelledRows, has_grades, has_tags
from .labels.alignment import LabelRun
from .labels.classes import ClassScore, ComparedClass, class_scores
from .labels.comparison import ComparedGroup, LabelComparison, compare_labels
from .labels.report import LabelGroup, LabelReport, LabelSettings, evaluate_labels
from .learning import (
    Convergence,
    LearningCurve,
    LearningPoint,
    measure_convergence,
    slope_of_last_part,
)
from .metrics import Metric, Scores, metric_of, summarise
from .plots import plot_comparison, plot_recall, plot_reliability, plot_segments
from .report import EvaluationSettings, Report, evaluate_scores
from .segments import Segment
from .study import Study
from .study_files import write_study
from .study_plots import (
    plot_cost_against_quality,
    plot_gap_to_oracle,
    plot_learning_curves,
    plot_reliability_by_method,
)
from .tables import Provenance

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
