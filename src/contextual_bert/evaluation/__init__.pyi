from .alignment import Cost, Role, Run
from .answer_predictions import AnswerPredictions
from .asked import Asked, Unscored
from .calibration import Calibration, CalibrationBin
from .classes import ClassScore, ComparedClass, class_scores
from .comparison import ComparedGroup, Comparison, ComparisonRow, compare_runs, comparison_of
from .importance import FeatureImportance, FeatureImportances, measure_importances
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
from .label_predictions import LabelPredictions, has_grades, has_tags
from .learning import (
    Convergence,
    LearningCurve,
    LearningPoint,
    measure_convergence,
    slope_of_last_part,
)
from .metrics import (
    ANSWER_METRICS,
    LABEL_METRICS,
    MULTI_LABEL_METRICS,
    NUMBER_METRICS,
    RANK_METRICS,
    SET_METRICS,
    TEXT_METRICS,
    Metric,
    metric_key,
    metric_of,
)
from .multi_label_predictions import MultiLabelPredictions
from .number_predictions import NumberPredictions
from .paired_runs import PairedRuns
from .plots import plot_comparison, plot_importance, plot_recall, plot_reliability, plot_segments
from .report import EvaluationSettings, Report, evaluate_scores
from .scores import Predictions, Scores, summarise
from .segments import Segment
from .sentence_predictions import SentencePredictions
from .set_predictions import SetPredictions
from .study import Study
from .study_files import write_study
from .study_plots import (
    plot_cost_against_quality,
    plot_gap_to_oracle,
    plot_learning_curves,
    plot_reliability_by_method,
)
from .tables import Provenance
from .text_predictions import TextPredictions

__all__ = [
    "ANSWER_METRICS",
    "LABEL_METRICS",
    "MULTI_LABEL_METRICS",
    "NUMBER_METRICS",
    "RANK_METRICS",
    "SET_METRICS",
    "TEXT_METRICS",
    "AnswerPredictions",
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
    "LabelPredictions",
    "LearningCurve",
    "LearningPoint",
    "Metric",
    "MultiLabelPredictions",
    "NumberPredictions",
    "PairedRuns",
    "Predictions",
    "Provenance",
    "Report",
    "Role",
    "Run",
    "Scores",
    "SeedMean",
    "Segment",
    "SentencePredictions",
    "SetPredictions",
    "Study",
    "TextPredictions",
    "Unscored",
    "bootstrap",
    "class_scores",
    "cluster_interval",
    "compare_runs",
    "comparison_of",
    "evaluate_scores",
    "has_grades",
    "has_tags",
    "holm",
    "measure_convergence",
    "measure_importances",
    "metric_key",
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
