"""The oracle is scored on the positions that models are scored on, also where an item was never seen in training."""

from pathlib import Path

import numpy as np

from contextual_bert.data import Oracle, Split, StylistWorld, table_digest, write_table
from contextual_bert.runs import oracle_run, prepare
from contextual_bert.training import Recipe, SetCompletion


def test_items_that_training_lacks_are_left_out(tmp_path: Path) -> None:
    world = StylistWorld.generate(60, seed=0)
    table = world.sample(300, seed=1)
    sets = table.column("items").to_pylist()
    rare = sets[0][1]
    holds_it = np.array([rare in items for items in sets])
    split = Split(
        assignment=np.where(holds_it | (np.arange(300) < 20), 2, 0).astype(np.uint8),
        by="row",
        column=None,
        fractions=(0.0, 0.1),
        seed=None,
        data_digest=table_digest(table),
    )
    split.save(tmp_path / "split.json")
    write_table(table, tmp_path / "outfits.parquet")
    recipe = Recipe(
        data=str(tmp_path / "outfits.parquet"), task=SetCompletion(items="items"), split=str(tmp_path / "split.json")
    )
    ready = prepare(recipe)
    scores = oracle_run(world, ready).scores

    dataset = ready.datasets["test"]
    sizes = np.asarray(dataset.sizes)
    assert scores.example_id.tolist() == np.repeat(dataset.example_ids.numpy(), sizes).tolist()
    assert scores.position.tolist() == [place for size in sizes.tolist() for place in range(size)]
    first = scores.log_probability[scores.example_id == 0]
    whole = Oracle(world).score_table(table.slice(0, 1))["log_probability"]
    assert len(first) == len(whole) - 1
    # No model can answer with what it never saw, nor does the oracle: given that, the others are a little likelier.
    place = list(world.items).index(rare)
    lost = [Oracle(world).probabilities(table.slice(0, 1), [each])[0, place] for each in range(len(whole))]
    assert max(lost) > 0
    np.testing.assert_allclose(first, np.delete(whole - np.log1p(-np.array(lost)), 1))


def test_where_training_has_every_item_the_oracle_is_the_worlds(tmp_path: Path) -> None:
    world = StylistWorld.generate(60, seed=0)
    table = world.sample(2_000, seed=1)
    write_table(table, tmp_path / "outfits.parquet")
    ready = prepare(Recipe(data=str(tmp_path / "outfits.parquet"), task=SetCompletion(items="items"), split_by="row"))
    assert len(ready.processor.items.values) == 60
    scores = oracle_run(world, ready).scores
    whole = Oracle(world).score_table(table.take(ready.split.rows("test")))
    assert scores.log_probability.tolist() == whole["log_probability"].tolist()
