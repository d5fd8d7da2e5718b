"""A tiny stylist world, prepared once: data for everything that trains."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contextual_bert.benchmark import Preparation, prepare
from contextual_bert.data import StylistWorld
from contextual_bert.training import Recipe

TINY_MODEL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TINY_TRAINING = {"num_train_epochs": 2, "per_device_train_batch_size": 32, "per_device_eval_batch_size": 64}


@pytest.fixture(scope="session")
def outfits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "outfits.parquet"
    pq.write_table(StylistWorld.generate(60).sample(240, seed=1), path)
    return path


@pytest.fixture(scope="session")
def tiny_recipe(outfits: Path) -> Recipe:
    return Recipe(
        data=str(outfits),
        items="items",
        customer="customer_id",
        validation=0.15,
        test=0.15,
        model=TINY_MODEL,
        training=TINY_TRAINING,
        device="cpu",
    )


@pytest.fixture(scope="session")
def tiny_data(tiny_recipe: Recipe) -> Preparation:
    return prepare(tiny_recipe)
