"""Decays of their own, for the weights that have one."""

from pathlib import Path

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.training.arguments import training_arguments
from contextual_bert.training.param_groups import own_decays
from tests.unit.models.test_item_features import featured


def test_own_vectors_of_items_with_features_have_a_decay_of_their_own(tmp_path: Path) -> None:
    model = featured(dropout=0.1)
    assert own_decays(model, training_arguments(tmp_path, device="cpu")) == {}
    found = own_decays(model, training_arguments(tmp_path, device="cpu", item_weight_decay=0.5))
    assert found == {id(own): 0.5 for _, own in model.item_encoders()} and len(found) == 2
    plain = model.without_item_features()
    with pytest.raises(ConfigurationError, match="own vectors of items that have features, and these have none"):
        own_decays(plain, training_arguments(tmp_path, device="cpu", item_weight_decay=0.5))
