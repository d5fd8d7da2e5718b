"""One and two processes (torchrun, gloo, on CPU): the same masks, the same gradients, the same digits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Scores
from contextual_bert.inference import CompletionPipeline, score
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask

pytestmark = pytest.mark.slow  # processes that start twice

JOB = Path(__file__).with_name("distributed_job.py")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def checkpoint(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model with large weights: its probabilities differ in every digit."""
    path = tmp_path_factory.mktemp("checkpoint")
    config = ContextualBertConfig.from_schema(
        tiny_data.processor.schema,
        conditioning="global_state_update",
        vocab_size=len(tiny_data.processor.items),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
    )
    ContextualBertForMaskedLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folders(
    tiny_data: SetCompletionTask, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Path]:
    """Number of processes -> what they wrote."""
    folder = tmp_path_factory.mktemp("distributed")
    recipe = folder / "recipe.json"
    recipe.write_text(json.dumps(tiny_data.recipe.to_dict()))
    jobs = {1: (sys.executable,), 2: (sys.executable, *TORCHRUN)}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for number, command in jobs.items():
        output = folder / str(number)
        output.mkdir()
        result = subprocess.run(
            [*command, str(JOB), str(recipe), str(checkpoint), str(output)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, result.stderr[-5000:]
    return {number: folder / str(number) for number in jobs}


@pytest.fixture(scope="module")
def seen(folders: dict[int, Path]) -> dict[int, list[dict[str, Any]]]:
    """Number of processes -> what each of them saw."""
    return {
        number: [json.loads((folder / f"process-{process}.json").read_text()) for process in range(number)]
        for number, folder in folders.items()
    }


def test_the_masks_of_an_example_are_the_same(
    seen: dict[int, list[dict[str, Any]]], tiny_data: SetCompletionTask
) -> None:
    alone = seen[1][0]["training"]["masks"]
    first, second = (each["training"]["masks"] for each in seen[2])
    assert len(alone) == 2 * len(tiny_data.datasets["train"])
    assert {**first, **second} == alone
    assert len(first) < len(alone)
    assert len(second) < len(alone)
    assert {**second, **first} == alone  # where both saw an example, they masked the same


def test_two_processes_train(seen: dict[int, list[dict[str, Any]]], tiny_data: SetCompletionTask) -> None:
    alone, (first, second) = seen[1][0]["training"], (each["training"] for each in seen[2])
    # 11 batches an epoch, the last one incomplete: six for each of two processes, filled up with sets from the start.
    assert len(tiny_data.datasets["train"]) % 16 != 0
    assert (alone["steps"], first["steps"], second["steps"]) == (22, 12, 12)
    assert first["losses"][-1] < first["losses"][0] - 0.1


def test_the_gradient_is_that_of_one_process_with_the_whole_batch(seen: dict[int, list[dict[str, Any]]]) -> None:
    alone, (first, second) = seen[1][0]["gradients"], (each["gradients"] for each in seen[2])
    assert alone.keys() == first.keys() == second.keys()
    assert first == second
    assert max(abs(value) for values in alone.values() for value in values) > 1e-3
    for name in alone:
        np.testing.assert_allclose(first[name], alone[name], rtol=1e-4, atol=1e-7, err_msg=name)


def test_one_checkpoint_gets_the_same_digits(seen: dict[int, list[dict[str, Any]]]) -> None:
    alone, (first, second) = seen[1][0]["evaluation"], (each["evaluation"] for each in seen[2])
    assert first == second == alone
    assert alone["unknown 7"] > 0
    assert {"eval_cross_entropy_nats", "eval_loss", "eval_recall_at_5_percent"} <= alone["evaluate 7"].keys()


def test_one_process_writes_a_run_whole(folders: dict[int, Path], seen: dict[int, list[dict[str, Any]]]) -> None:
    assert [each["written"] for each in seen[2]] == [["none", "bag"], []]
    run = folders[2] / "runs" / "none" / "seed-0"
    assert not [path for path in run.iterdir() if path.name.startswith(".")]
    assert len(list((run / "tensorboard").glob("events*"))) == 1
    assert (run / "metrics.json").is_file()
    assert seen[2][0]["comparison"] == seen[2][1]["comparison"]


def test_processes_leave_their_group_before_they_end(folders: dict[int, Path]) -> None:
    # One that does not is aborted now and then, after all is written.
    assert [json.loads((folders[2] / f"end-{rank}.json").read_text()) for rank in range(2)] == [False, False]


def test_the_scores_in_the_run_are_those_of_its_weights(folders: dict[int, Path], tiny_data: SetCompletionTask) -> None:
    run = folders[2] / "runs" / "none" / "seed-0"
    arrays = load_file(run / "test_scores.safetensors")
    del arrays["cluster"]
    test = tiny_data.datasets["test"]
    assert isinstance(test, SequenceDataset)
    again = score(CompletionPipeline.from_pretrained(run).model, test, batch_size=64)
    for name, column in Scores(**arrays).as_arrays().items():
        np.testing.assert_array_equal(column, again.as_arrays()[name], err_msg=name)
