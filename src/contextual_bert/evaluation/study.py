"""A study as a whole: findings, the table beside the paper's, the oracle, learning, cost, calibration, segments.

This module decides what is said and in which order; tables are `study_tables`, pictures `study_plots`, files
`study_files`, and what a page looks like `pages`. It does not know what was trained.

Paper: Table 1 and section 4. docs/protocol.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean
from contextual_bert.evaluation.alignment import are_of_several_machines
from contextual_bert.evaluation.comparison import Comparison
from contextual_bert.evaluation.learning import (
    FEWEST_STEPS_AHEAD,
    STILL_FALLING_NATS_PER_EPOCH,
    Convergence,
    LearningCurve,
    measure_convergence,
)
from contextual_bert.evaluation.metrics import CALIBRATION_ERROR, CROSS_ENTROPY, metric_of
from contextual_bert.evaluation.pages import Picture, Section, render_html_page, render_markdown_page
from contextual_bert.evaluation.paper import PAPER_SOURCE, PaperRow
from contextual_bert.evaluation.report import Report
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.study_tables import (
    gains_table,
    methods_tables,
    oracle_table,
    paper_table,
    rows_by_name,
)
from contextual_bert.nouns import plural

_WARNING = "Warning: "


@dataclass(frozen=True)
class Study(JsonText):
    """The report of a comparison of methods with controls and, where there is one, an oracle.

    Formula: none of its own; gains are ratios of means over seeds.

    Symbols: as in Comparison.

    Shapes: one row a method in every table; `curves` one a run.

    Args:
        title: of the page.
        comparison: of all methods with the reference (plain BERT).
        against_oracle: the same runs compared with the oracle as the reference; None where there is no oracle.
        curves: of every run whose training was recorded.
        reports: method -> report of its first seed, for calibration and segments.
        paper: the paper's table; empty where the study has nothing to do with it.
        texts: paragraphs, findings first; text between backticks is code.
        about: sentences on the task: its data, context, split, licence, whom to cite.
        data: what was read, cut, split and left out, and what the leak audit found.
        one_mask_from: epochs after which training went from several masks a set to one, where it did: the curves
            have a step there, for the evaluation has one mask throughout.

    Relation to its siblings: `Comparison` is its main table and `Report` one run in depth; `write_study` writes it.

    Reference: Contextual BERT, Table 1; docs/protocol.md.

    Example:
        >>> import numpy as np
        >>> from contextual_bert.evaluation import Run, Scores, compare_runs
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> study = Study("Two sets", compare_runs([Run("none", 0, scores)], reference="none"))
        >>> study.to_markdown().splitlines()[0]
        '# Two sets'
    """

    title: str
    comparison: Comparison
    against_oracle: Comparison | None = None
    curves: tuple[LearningCurve, ...] = ()
    reports: dict[str, Report] = field(default_factory=dict)
    paper: dict[str, PaperRow] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    one_mask_from: tuple[int, ...] = ()
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = rows_by_name(self.comparison)
        for kind, found in (("learning curve", [each.name for each in self.curves]), ("report", list(self.reports))):
            unknown = [name for name in found if name not in names]
            if unknown:
                raise UnknownNameError(
                    f"There is a {kind} of {unknown[0]!r}, which was not compared",
                    allowed=did_you_mean(unknown[0], names),
                )
        runs = [(curve.name, curve.seed) for curve in self.curves]
        if len(set(runs)) < len(runs):
            raise ConfigurationError(f"Two learning curves of one run among {runs}", fix="Give one a method and seed.")
        other = self.against_oracle
        if other is not None and (set(rows_by_name(other)) != set(names) or other.num_rows != self.comparison.num_rows):
            raise ConfigurationError(
                f"against_oracle compares {sorted(rows_by_name(other))} on {other.num_rows:,} masked "
                f"positions, the comparison {sorted(names)} on {self.comparison.num_rows:,}",
                fix="Compare the same runs twice.",
            )

    def to_markdown(self) -> str:
        """The page, with its pictures as files beside it."""
        return render_markdown_page(self.title, self.sections())

    def to_html(self, images: Mapping[str, bytes] | None = None) -> str:
        """The page as one file; `images` holds the PNG of each of `pictures`, and those without one are left out."""
        return render_html_page(self.title, self.sections(), images or {})

    def pictures(self) -> tuple[Picture, ...]:
        """Return the pictures that this study has numbers for, in the order of the page."""
        return tuple(picture for section in self.sections() for picture in section.pictures)

    def convergences(self) -> tuple[Convergence, ...]:
        """Return the end of training of each method, measured after the last change of its masks."""
        return measure_convergence(self.curves, since=max(self.one_mask_from, default=0))

    def best_method(self) -> str | None:
        """The method with a report that is furthest below the reference; controls do not count.

        By its cross-entropy on the seeds that both have: a lucky seed of one alone does not count.
        """
        gaps = {
            row.name: row.differences[CROSS_ENTROPY].interval.value
            for row in self.comparison.rows
            if row.role == "method" and row.name != self.comparison.reference and row.name in self.reports
        }
        return min(gaps, key=lambda name: gaps[name], default=None)

    def ranking(self) -> tuple[str, ...]:
        """Return the methods and baselines, the best first, by the main metric."""
        key = self.comparison.main
        rows = [row for row in self.comparison.rows if row.role in ("method", "baseline")]
        rows.sort(key=lambda row: row.metrics[key].mean, reverse=metric_of(key).is_higher_better)
        return tuple(row.name for row in rows)

    def oracle_nats(self) -> float | None:
        """The cross-entropy of the oracle, if there is one."""
        oracles = (row.metrics[CROSS_ENTROPY].mean for row in self.comparison.rows if row.role == "oracle")
        return next(oracles, None)

    def sections(self) -> tuple[Section, ...]:
        """The page in its order; what there are no numbers for is left out."""
        sections = (
            Section("Findings", paragraphs=self.texts),
            Section("Warnings", notes=self.comparison.warnings),
            Section("Task", notes=self.about),
            Section("Data", notes=self.data),
            self._methods(),
            self._paper(),
            self._oracle(),
            self._learning(),
            self._cost(),
            self._calibration(),
            self._segments(),
            Section("Notes", notes=tuple(self._notes())),
        )
        return tuple(each for each in sections if each.paragraphs or each.tables or each.pictures or each.notes)

    def _methods(self) -> Section:
        tables = (
            *methods_tables(self.comparison, self.convergences()),
            self.comparison.asked_table(),
            *self.comparison.difference_tables(),
            *self.comparison.detail_tables(),
        )
        names = ", ".join(row.label for row in self.comparison.rows)
        clusters = plural(self.comparison.settings.cluster_name)
        words = {CROSS_ENTROPY: "cross-entropy"}
        *others, last = [words.get(key, metric_of(key).label) for key in self.comparison.drawn_metrics()]
        metrics = " and ".join([", ".join(others), last] if others else [last])
        metrics = f"{metrics[0].upper()}{metrics[1:]}"
        pictures = [
            Picture(
                "comparison.png",
                f"{metrics} with intervals over {clusters}. The methods share the {clusters}, so "
                "differences between methods are surer than these intervals suggest: see the table of differences.",
                f"{metrics}, a row each for {names}.",
            ),
        ]
        if max(self.comparison.settings.ks) > 1:
            text = "Recall by the length of the list."
            pictures.append(Picture("recall.png", text, f"Recall@k over k, a curve each for {names}."))
        shown = tuple(table for table in tables if table.rows)
        return Section("Methods", (f"{self.comparison.heading()}.",), shown, tuple(pictures))

    def _paper(self) -> Section:
        if not any(row.name in self.paper for row in self.comparison.rows):
            return Section("Beside the paper")
        tables = (paper_table(self.comparison, self.paper), gains_table(self.comparison, self.paper))
        return Section("Beside the paper", (f"The paper's columns: {PAPER_SOURCE}",), tables)

    def _oracle(self) -> Section:
        if self.against_oracle is None:
            return Section("Gap to the oracle")
        table = oracle_table(self.against_oracle, reference=self.comparison.reference)
        gaps = "; ".join(f"{row[0]} {row[1]}" for row in table.rows)
        text = (
            "The oracle knows how the data were made. No model can be better except by chance. The gap is the "
            "difference in cross-entropy on the same masked positions, with a paired bootstrap over "
            f"{self.against_oracle.num_clusters:,} {plural(self.against_oracle.settings.cluster_name)}."
        )
        picture = Picture(
            "gap_to_oracle.png", "Nats above the oracle; 0 is the best possible.", f"Gaps in nats: {gaps}."
        )
        return Section("Gap to the oracle", (text,), (table,), (picture,))

    def _learning(self) -> Section:
        if not self.curves:
            return Section("Learning")
        found = self.convergences()
        falling = [each.name for each in found if each.is_still_falling]
        text = (
            f"Still falling when training ended: {', '.join(falling)}; more epochs would change the table. "
            if falling
            else "No method with enough evaluations was still falling when training ended. "
        )
        unknown = [each.name for each in found if each.slope_nats_per_epoch is None]
        if unknown:
            text = "" if len(unknown) == len(found) else text
            text += f"Too few evaluations to say whether these were still falling: {', '.join(unknown)}. "
        limit = (
            f"Falling means that another epoch would lower the validation cross-entropy by more than "
            f"{-STILL_FALLING_NATS_PER_EPOCH:g} nats, or another {FEWEST_STEPS_AHEAD} steps where an epoch has fewer. "
            "The slope is by least squares over the last fifth of the epochs and at least three evaluations. The last "
            "evaluation must not be worse than the one before. A learning rate that decays to 0 flattens every curve: "
            "a flat one may still fall by more than two methods differ."
        )
        if self.one_mask_from:
            limit += (
                " The curves have a step where training went from several masks a set to one (dotted). The evaluation "
                "always has one mask, for which a model trained with several is not sure enough. Slopes are of the "
                "epochs after the step."
            )
        if self.comparison.main != CROSS_ENTROPY:
            limit += (
                f" This section is about the cross-entropy. The main metric, {metric_of(self.comparison.main).label}, "
                "may still improve when the cross-entropy does not."
            )
        ends = "; ".join(f"{each.name}: {each}" for each in found)
        picture = Picture(
            "learning_curves.png",
            "Validation cross-entropy by epoch: all of training, and its second half enlarged. A line a seed. The "
            "oracle's line, where there is one, is of the positions that the tables are of.",
            f"Learning curves. At the end of training: {ends}.",
        )
        return Section("Learning", (text + limit,), (), (picture,))

    def _cost(self) -> Section:
        table, pictures = self.comparison.cost_table(), list[Picture]()
        for name, what in (("training_seconds", "training time in seconds"), ("parameters", "number of parameters")):
            if name == "training_seconds" and are_of_several_machines(row.cost for row in self.comparison.rows):
                continue
            if sum(getattr(row.cost, name) is not None for row in self.comparison.rows) > 1:
                text = f"Cross-entropy against {what}: low and left is good. Whiskers: standard error over seeds."
                pictures.append(Picture(f"cost_{name}.png", text, f"{text} The numbers are in the tables."))
        text = (
            "Training time: mean over seeds. Peak memory: the largest of all seeds. Times depend on the machine of the "
            "run and its other load."
        )
        return Section("Cost", (text,), (table,), tuple(pictures)) if table.rows else Section("Cost")

    def _calibration(self) -> Section:
        best, pictures = self.best_method(), list[Picture]()
        if len(self.reports) > 1:
            errors = "; ".join(
                f"{name} {each.metrics[CALIBRATION_ERROR].value:.4f}" for name, each in self.reports.items()
            )
            text = "How often the best answer is right against how sure the model was; first seed of each method."
            pictures.append(Picture("reliability_by_method.png", text, f"Reliability. Calibration errors: {errors}."))
        if best is not None:
            error = f"calibration error {self.reports[best].metrics[CALIBRATION_ERROR].value:.4f}"
            text = f"Reliability of `{best}`, {self._why_shown()}, first seed: {error}."
            pictures.append(Picture("reliability.png", text, text.replace("`", "")))
        return Section("Calibration", pictures=tuple(pictures))

    def _segments(self) -> Section:
        best = self.best_method()
        if best is None or not self.reports[best].segments:
            return Section("Segments")
        report, pictures = self.reports[best], list[Picture]()
        if report.worst is not None:
            text = "Segments that are not small, the worst first."
            pictures.append(Picture("segments.png", text, f"{text} Worst: {report.worst.name}."))
        text = f"`{best}`, {self._why_shown()}, first seed. {report.segment_note()}"
        return Section("Segments", (text,), (report.segment_table(),), tuple(pictures))

    def _why_shown(self) -> str:
        return f"of the methods beside `{self.comparison.reference}` the one with the lowest cross-entropy"

    def _notes(self) -> list[str]:
        notes = [note for note in self.comparison.notes() if not note.startswith(_WARNING)]
        best = self.best_method()
        if best is not None:
            notes.append(f"Segments and calibration of `{best}`: {self.reports[best].provenance.line()}")
        return notes
