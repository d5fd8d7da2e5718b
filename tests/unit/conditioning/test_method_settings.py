"""Settings that belong to a method: checked by its dataclass, stored with the config, refused by other methods."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.conditioning import (
    METHODS,
    ConditioningMethod,
    InputSlot,
    MethodSettings,
    Sizes,
    get_method,
    methods_of_setting,
    register_method,
)
from contextual_bert.context import ContextEmbedding
from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs.registry import check_recipe, model_of
from contextual_bert.testing import miniature_batch, miniature_config
from contextual_bert.training import Recipe, SetCompletion


@dataclass(frozen=True, kw_only=True)
class ShiftSettings(MethodSettings):
    """Settings of the method of this test."""

    strength: float = 1.0
    direction: Literal["up", "down"] = "up"


class Shift(ConditioningMethod):
    """Adds the context to every position, as often as its setting says."""

    name = "shift"
    settings_class = ShiftSettings

    def input(self, sizes: Sizes) -> InputSlot:
        sign = 1 if self.settings.direction == "up" else -1
        return Shifted(sizes, scale=sign * self.settings.strength)


class Shifted(InputSlot):
    def __init__(self, sizes: Sizes, *, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.projection = nn.Linear(sizes.context_size, sizes.hidden_size)

    def forward(
        self, embeddings: Tensor, mask: Tensor | None, context: ContextEmbedding
    ) -> tuple[Tensor, Tensor | None]:
        return embeddings + self.scale * self.projection(context.vector).unsqueeze(1), mask


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    register_method(Shift)
    yield
    del METHODS["shift"]


def test_a_method_of_a_test_has_settings_of_its_own(tmp_path: Path) -> None:
    config = miniature_config("shift", strength=3.0)
    assert config.conditioning_settings == {"strength": 3.0}
    assert config.method.settings == ShiftSettings(strength=3.0)
    model: Any = ContextualBertForMaskedLM(config).eval()
    assert model.bert.conditioning.scale == 3.0
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["conditioning_settings"] == {"strength": 3.0}
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path).eval()
    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    with torch.no_grad():
        torch.testing.assert_close(again(**batch).logits, model(**batch).logits)


def test_without_settings_the_defaults_hold_and_none_is_stored() -> None:
    config = miniature_config("shift")
    assert config.conditioning_settings is None
    assert config.method.settings == ShiftSettings()
    assert (config.value_of("direction"), config.value_of("vocab_size")) == ("up", config.vocab_size)
    assert config.value_of("nothing") is None
    given = miniature_config("shift", conditioning_settings={"direction": "down"}, strength=2.0)
    assert given.method.settings == ShiftSettings(direction="down", strength=2.0)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"direction": "upp"}, ConfigurationError, r"direction='upp' is unknown\. Did you mean 'up'"),
        ({"strength": "much"}, ConfigurationError, r"strength='much' is not allowed. Give a number"),
        ({"attribute_start": "ones"}, ConfigurationError, "attribute_start is for conditioning='multi_attribute', and"),
        ({"strenght": 2.0}, ConfigurationError, "has no field 'strenght'. Did you mean 'strength'"),
        ({"conditioning_settings": {"strenght": 2.0}}, UnknownNameError, "'shift' has no setting 'strenght'. Did you"),
        ({"conditioning_settings": [1]}, Exception, "conditioning_settings"),
    ],
)
def test_a_wrong_setting_is_refused(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        miniature_config("shift", **fields)


def test_a_setting_of_a_method_without_any_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"'none' has no setting 'strength'. It has no settings"):
        get_method("none", {"strength": 2.0})
    with pytest.raises(ConfigurationError, match=r"strength is for conditioning='shift', and it is 'none'. Leave it"):
        ContextualBertConfig(vocab_size=9, strength=2.0)


def test_a_recipe_sets_them_and_a_comparison_gives_them_to_their_method() -> None:
    assert methods_of_setting("strength") == ["shift"]
    fields = {"strength": 2.0, "attribute_start": "paper", "hidden_size": 64}
    assert model_of("shift", fields) == {"strength": 2.0, "hidden_size": 64}
    assert model_of("multi_attribute", fields) == {"attribute_start": "paper", "hidden_size": 64}
    recipe = Recipe(
        data="days.parquet", task=SetCompletion(items="items"), conditioning="shift", model={"strength": 2.0}
    )
    check_recipe(recipe)
    wrong = Recipe(
        data="days.parquet", task=SetCompletion(items="items"), conditioning="shift", model={"direction": "left"}
    )
    with pytest.raises(ConfigurationError, match="direction='left'"):  # before a table is read
        check_recipe(wrong)
