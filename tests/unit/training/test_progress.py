"""What the progress bar shows, and that it stops."""

import io
import itertools
import time
from types import SimpleNamespace

import pytest
from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from contextual_bert.training import ProgressLines, TrainingBars, TrainingProgress, counting, progress_bars


def shown(*, is_first: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    progress = TrainingProgress("training", TrainingBars(console))
    arguments, control = TrainingArguments("unused", use_cpu=True), TrainerControl()
    state = TrainerState(max_steps=10, global_step=2, epoch=1.0, is_world_process_zero=is_first)
    progress.on_train_begin(arguments, state, control)
    progress.on_log(arguments, state, control, logs={"loss": "1.25"})  # pyright: ignore[reportArgumentType]
    progress.on_step_end(arguments, state, control)
    progress.on_evaluate(arguments, state, control, metrics={"eval_cross_entropy_nats": 3.5})
    progress.on_train_end(arguments, state, control)
    progress.close()
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_it_shows_steps_loss_and_validation() -> None:
    text = shown(is_first=True)
    assert "2/10" in text
    assert "loss 1.250" in text
    assert "validation 3.500 nats (epoch 1)" in text


def test_only_the_first_process_draws() -> None:
    assert shown(is_first=False) == ""


def test_an_evaluation_outside_of_training_draws_nothing() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    progress = TrainingProgress("training", TrainingBars(console))
    arguments, control = TrainingArguments("unused", use_cpu=True), TrainerControl()
    state = TrainerState(max_steps=10, global_step=10, epoch=1.0)
    progress.on_evaluate(arguments, state, control, metrics={"eval_cross_entropy_nats": 3.5})
    assert console.file.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]
    progress.on_train_begin(arguments, state, control)
    progress.on_train_end(arguments, state, control)
    drawn = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    progress.on_evaluate(arguments, state, control, metrics={"eval_cross_entropy_nats": 3.5})
    assert console.file.getvalue() == drawn  # pyright: ignore[reportAttributeAccessIssue]


def test_bars_below_each_other_and_none_that_was_never_shown() -> None:
    console = Console(file=io.StringIO(), width=120)  # no terminal: drawn once, at the end
    bars = TrainingBars(console)
    bars.close()
    assert console.file.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]
    for label, done in (("first", 3), ("second", 4), ("third", 5), ("first", 6)):
        bars.show(label, done, 9, "loss 1.250")
    bars.remove("second")
    bars.remove("nobody")
    bars.close()
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert [line.split()[0] for line in text.splitlines()] == ["first", "third"]
    assert "6/9" in text
    bars.close()
    assert console.file.getvalue() == text  # pyright: ignore[reportAttributeAccessIssue]


def test_counting() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with counting("scoring", console=console) as progress:
        assert progress is not None
        progress(3, 7)
    assert "3/7" in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    with counting("scoring", is_quiet=True, console=console) as progress:
        assert progress is None


def test_work_that_is_done_at_once_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0, 1.5)
    console = Console(file=io.StringIO(), force_terminal=True, width=120, get_time=lambda: 0.0)
    monkeypatch.setattr("contextual_bert.training.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with counting("reading", console=console, seconds_before=2.0) as progress:
        assert progress is not None
        progress(1, 7)  # after a second and a half
        assert console.file.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]
        progress(2, 7)
    assert "2/7" in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_a_log_file_gets_a_line_each_epoch_and_each_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0, 10)  # a step takes ten
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    written: list[str] = []
    progress = TrainingProgress("gsu, seed 0", ProgressLines(written.append))
    arguments, control = TrainingArguments("unused", use_cpu=True), TrainerControl()
    state = TrainerState(max_steps=20, global_step=0, epoch=0.0)
    progress.on_train_begin(arguments, state, control)
    for step in range(1, 11):
        state.global_step = step
        progress.on_log(arguments, state, control, logs={"loss": 1.25})
        progress.on_step_end(arguments, state, control)
    state.epoch = 1.0
    control.should_evaluate = True
    progress.on_epoch_end(arguments, state, control)
    progress.on_evaluate(arguments, state, control, metrics={"eval_cross_entropy_nats": 3.5})
    assert written == [
        "gsu, seed 0: step 0 of 20",
        "gsu, seed 0: step 3 of 20, loss 1.250, 3 min left",
        "gsu, seed 0: step 6 of 20, loss 1.250, 2 min left",
        "gsu, seed 0: step 9 of 20, loss 1.250, 2 min left",
        "gsu, seed 0: step 10 of 20, loss 1.250 validation 3.500 nats (epoch 1), 2 min left",
    ]
    progress.on_train_end(arguments, state, control)


def test_an_epoch_without_an_evaluation_has_a_line_too() -> None:
    written: list[str] = []
    progress = TrainingProgress("gsu", ProgressLines(written.append))
    arguments, control = TrainingArguments("unused", use_cpu=True), TrainerControl()
    state = TrainerState(max_steps=4, global_step=0, epoch=0.0)
    progress.on_train_begin(arguments, state, control)
    state.global_step = 4
    progress.on_epoch_end(arguments, state, control)
    assert written[-1].startswith("gsu: step 4 of 4")


def test_the_figure_that_chooses_the_epoch_is_shown() -> None:
    written: list[str] = []
    progress = TrainingProgress("gsu", ProgressLines(written.append))
    arguments = TrainingArguments("unused", use_cpu=True, metric_for_best_model="accuracy_percent")
    state, control = TrainerState(max_steps=4, global_step=2, epoch=1.0), TrainerControl()
    progress.on_train_begin(arguments, state, control)
    metrics = {"eval_cross_entropy_nats": 0.5, "eval_accuracy_percent": 81.25}
    progress.on_evaluate(arguments, state, control, metrics=metrics)
    assert "validation 0.500 nats, accuracy 81.25 % (epoch 1)" in written[-1]


def test_lines_where_nobody_looks_and_bars_on_a_terminal() -> None:
    assert isinstance(progress_bars(Console(file=io.StringIO())), ProgressLines)
    assert isinstance(progress_bars(Console(file=io.StringIO(), force_terminal=True)), TrainingBars)
