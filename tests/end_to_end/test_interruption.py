"""Ctrl-C in a real process: exit code 130, a whole checkpoint, and the same result after --resume as without it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.runs.run_directory import last_checkpoint

PATIENCE = 300  # seconds: a machine with other work takes minutes to start a cluster


def start(arguments: list[str]) -> "subprocess.Popen[str]":
    # Ray's workers would give way to everything else that this machine does, for minutes.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "RAY_worker_niceness": "0"}
    line = [sys.executable, "-m", "contextual_bert_cli.main", *arguments]
    return subprocess.Popen(
        line,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that a script runs in the background ignores Ctrl-C, and hands that down to what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
def test_an_interrupted_training_goes_on_to_the_same_result(command: Any, table: Path, tmp_path: Path) -> None:
    options = [*command.small, "--epochs", "12", "--conditioning", "global_state"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    process = start(["train", str(table), *options, "--output", str(cut)])
    deadline = time.monotonic() + PATIENCE
    while last_checkpoint(cut) is None and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    assert f"The last checkpoint is whole: {last_checkpoint(cut)}" in stderr
    assert "--resume" in stderr
    assert {path.name for path in cut.iterdir()} == {"checkpoints", "tensorboard"}

    refused = command("train", table, *options, "--output", cut)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    other = command("train", table, *options, "--seed", 7, "--resume", "--output", cut)
    assert other.exit_code == 2
    assert "seed: 0 there, 7 here" in other.stderr

    resumed = command("train", table, *options, "--resume", "--output", cut)
    assert resumed.exit_code == 0, resumed.output
    assert f"going on at {cut}" in resumed.stderr
    assert command("train", table, *options, "--output", whole).exit_code == 0
    parts = [json.loads((run / "metrics.json").read_text("utf-8")) for run in (cut, whole)]
    for part in ("validation", "test"):
        assert parts[0][part]["metrics"] == parts[1][part]["metrics"]


@pytest.mark.slow
def test_an_interrupted_completion_on_ray_goes_on_without_ray(
    command: Any, finished: Path, table: Path, tmp_path: Path
) -> None:
    options = ["--data", str(table), "--shard-size", "1", "--device", "cpu"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    cluster = ["--ray", "--ray-address", "local", "--workers", "1"]
    process = start(["complete", str(finished), *options, "--output", str(cut), *cluster])
    deadline = time.monotonic() + PATIENCE
    while not list(cut.glob("part-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    assert "Interrupted. Nothing half written was left." in stderr
    kept = {path.name: path.read_bytes() for path in cut.glob("part-*")}
    assert 0 < len(kept) < 300
    assert {path.name for path in cut.iterdir()} == {"_manifest.json", *kept}

    resumed = command("complete", finished, *options, "--output", cut)
    assert resumed.exit_code == 0, resumed.output
    assert f"in 300 files, {len(kept)} of them kept from before" in resumed.stderr
    assert command("complete", finished, *options, "--output", whole).exit_code == 0
    made = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (cut, whole)]
    assert made[0] == made[1] == {**made[1], **kept}
