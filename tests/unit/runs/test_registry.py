"""What is checked before data are read: names, and what this machine can do."""

from dataclasses import replace

import pytest
import torch

from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.runs import as_row
from contextual_bert.runs.registry import check_kind, check_machine, check_read, check_study
from contextual_bert.training import Classification, Recipe, SetCompletion

RECIPE = Recipe(data="days.parquet", task=SetCompletion(items="items"), training={"learning_rate": 0.1})


def test_the_reference_is_one_of_what_is_compared() -> None:
    with pytest.raises(UnknownNameError, match="reference='none' is not among"):
        check_study([replace(RECIPE, conditioning="concat")], reference="none")
    check_study([replace(RECIPE, conditioning="concat")], reference="oracle", others=["oracle"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"device": "gpu"}, "device='gpu' is unknown. Did you mean 'cpu'? Known: auto, cpu, cuda, mps"),
        ({"device": "cuda"}, "device='cuda' is not there: PyTorch finds none on this machine"),
        ({"dtype": "float16"}, "dtype='float16' is unknown. Did you mean 'bfloat16'"),
    ],
)
def test_what_this_machine_lacks_is_said_before_data_are_read(
    settings: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError) as caught:
        check_machine(replace(RECIPE, **settings))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("gradient_checkpointing", True), ("neftune_noise_alpha", 1.0), ("context_learning_rate", 0.1)]
)
def test_what_a_baseline_lacks_is_refused_and_left_out_of_comparisons(name: str, value: object) -> None:
    recipe = replace(RECIPE, training={"learning_rate": 0.1, name: value})
    check_kind(replace(recipe, conditioning="global_state"))
    with pytest.raises(ConfigurationError, match=f"{name}={value} is for what 'bag' does not have. Leave it out"):
        check_kind(replace(recipe, conditioning="bag"))
    assert as_row(recipe, "bag").training == {"learning_rate": 0.1}


def test_weights_of_each_label_are_not_weighed_where_grades_share_them() -> None:
    task = Classification(text="review", label="stars", is_ordinal=True)
    with pytest.raises(
        ConfigurationError, match=r"'chim_classifier' weighs .* grades of is_ordinal=True share"
    ) as caught:
        check_kind(Recipe(data="days.parquet", task=task, conditioning="chim_classifier"))
    assert caught.value.location == ("conditioning",)
    check_kind(Recipe(data="days.parquet", task=task, conditioning="chim_encoder"))


def test_the_gaps_of_time_are_left_out_of_a_baseline() -> None:
    task = SetCompletion(items="items", order="at", time_gaps=True)
    recipe = replace(RECIPE, task=task)
    with pytest.raises(ConfigurationError, match="time_gaps=True is for models that read items in their order"):
        check_kind(replace(recipe, conditioning="bag"))
    rows = [as_row(recipe, name) for name in ("none", "bag")]
    assert [row.set_task.time_gaps for row in rows] == [True, False]
    for row in rows:
        check_kind(row)
    check_read(recipe, rows)
    with pytest.raises(ConfigurationError, match="time_gaps=True is not allowed: no row of this comparison reads it"):
        check_read(recipe, rows[1:])
