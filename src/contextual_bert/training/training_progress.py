"""Progress of a training: the events of the trainer, shown as bars or lines. It knows nothing of the model."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contextual_bert.evaluation.metrics import CROSS_ENTROPY, NEXT_SENTENCE, is_metric, metric_of
from contextual_bert.training.progress import Bars, progress_bars


class TrainingProgress(TrainerCallback):
    """Shows steps, loss and the latest validation cross-entropy; only the first process shows anything.

    Args:
        label: what stands before the bar.
        bars: where it is shown; a bar of its own on the console by default.
    """

    def __init__(self, label: str = "training", bars: Bars | None = None) -> None:
        self.label = label
        self.bars = bars or progress_bars()
        self.loss = self.validation = ""
        self.is_training = False

    def _show(self, state: TrainerState, *, is_milestone: bool = False) -> None:
        if self.is_training and state.is_world_process_zero:
            note = self.loss + self.validation
            self.bars.show(self.label, state.global_step, state.max_steps, note, is_milestone=is_milestone)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.is_training = True
        self._show(state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._show(state)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not control.should_evaluate:  # else the evaluation that follows is the milestone
            self._show(state, is_milestone=True)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if logs and "loss" in logs:
            self.loss = f"loss {float(logs['loss']):.3f}"

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if metrics and "eval_cross_entropy_nats" in metrics:
            figures = f"validation {metrics['eval_cross_entropy_nats']:.3f} nats{_figures(args, metrics)}"
            self.validation = f"  {figures} (epoch {state.epoch or 0:.0f})"
            self._show(state, is_milestone=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an interruption; an evaluation that follows draws nothing."""
        self.is_training = False
        self.bars.close()


def _figures(args: TrainingArguments, metrics: dict[str, Any]) -> str:
    """Return what is said beside the cross-entropy: what chooses the best epoch, and the second objective if any."""
    chosen = (args.metric_for_best_model or CROSS_ENTROPY).removeprefix("eval_")
    names = [name for name in dict.fromkeys((chosen, NEXT_SENTENCE)) if name not in (CROSS_ENTROPY, "loss")]
    return "".join(_figure(name, metrics[f"eval_{name}"]) for name in names if metrics.get(f"eval_{name}") is not None)


def _figure(name: str, value: float) -> str:
    if not is_metric(name):  # of somebody else's trainer
        return f", {name} {value:.4g}"
    metric = metric_of(name)
    return f", {metric.label} {value:.{metric.digits}f}{metric.unit and f' {metric.unit}'}"
