"""Runs with a chain of tags: marginals for the probabilities, Viterbi for the tags, both over first pieces only."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertModel

from contextual_bert import TextPipeline
from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.runs import TextModelTask, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, MaskedText, Recipe, Tagging, training_arguments
from studies import crossner, popquorn

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
CHAINS = ("bilstm_crf", "bilstm_crf_context")
TRAINING = {"num_train_epochs": 10, "per_device_train_batch_size": 8, "learning_rate": 0.03}
NUM_ROWS = 120


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> TextModelTask:
    """All tags of a text are the same, and no word says which: one by one they are coins, together they are not."""
    folder = tmp_path_factory.mktemp("chain")
    miniature_checkpoint(BertModel(BertConfig(vocab_size=23, max_position_embeddings=32, **SIZES)), folder / "bert")
    numbers = np.random.default_rng(0)
    sizes = numbers.integers(2, 6, size=NUM_ROWS)
    columns = {
        # The tokenizer has no pieces, but splits at a dot: such a word is three tokens, of which one has a tag.
        "words": [[("word1.word2", "word3", "word4")[n] for n in numbers.integers(0, 3, s)] for s in sizes],
        "tags": [[("left", "right")[row % 2]] * int(size) for row, size in enumerate(sizes)],
        "sex": numbers.choice(["f", "m"], size=NUM_ROWS).tolist(),
    }
    pq.write_table(pa.table(columns), folder / "texts.parquet")
    recipe = Recipe(
        data=str(folder / "texts.parquet"),
        task=Tagging(checkpoint=str(folder / "bert"), text="words", label="tags"),
        validation=0.2,
        test=0.2,
        training=TRAINING,
        device="cpu",
    )
    return prepare(recipe)


def rows_by_hand(tagger: Any, dataset: Any) -> Iterator[tuple[int, int, float, float, int]]:
    """(text, position, log-probability of the true tag, highest probability, tag chosen), by all sequences of tags."""
    for index in range(len(dataset)):
        batch = dataset.__getitems__([index]).inputs()
        labels = batch.pop("labels")[0]
        places = (labels != -100).nonzero().flatten().tolist()
        emissions, crf = tagger(**batch)["logits"][0, places], tagger.crf
        sequences = list(product(range(emissions.shape[1]), repeat=len(places)))
        totals = torch.stack(
            [
                crf.start[tags[0]]
                + crf.end[tags[-1]]
                + sum(emissions[step, tag] for step, tag in enumerate(tags))
                + sum(crf.transitions[pair] for pair in pairwise(tags))
                for tags in sequences
            ]
        )
        shares, best = totals.softmax(0), sequences[int(totals.argmax())]
        for step, place in enumerate(places):
            by_tag = [
                sum(float(share) for share, tags in zip(shares, sequences, strict=True) if tags[step] == tag)
                for tag in range(emissions.shape[1])
            ]
            own = np.log(by_tag[int(labels[place])])
            yield int(dataset.example_ids[index]), place, float(own), max(by_tag), best[step]


@torch.no_grad()
def test_scores_are_those_of_all_sequences_one_by_one(ready: TextModelTask, tmp_path: Path) -> None:
    work, recipe = ready, replace(ready.recipe, conditioning="bilstm_crf")
    torch.manual_seed(0)
    tagger: Any = work.build_model(recipe).eval()
    for weight in tagger.crf.parameters():
        weight.normal_(std=2.0)
    settings: dict[str, Any] = {"batch_size": 7, "is_shared": False, "progress": None}
    found = work.score(recipe, tagger, "validation", **settings)
    expected = sorted(rows_by_hand(tagger, ready.datasets["validation"]))
    predictions: Any = found.predictions
    assert found.example_id.tolist() == [row[0] for row in expected]
    assert found.position.tolist() == [row[1] for row in expected]
    assert np.diff(found.position).max() > 1, "some words are of several tokens"
    np.testing.assert_allclose(found.log_probability, [row[2] for row in expected], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.confidence, [row[3] for row in expected], rtol=1e-4)
    assert predictions.predicted.tolist() == [row[4] for row in expected]
    arguments = training_arguments(tmp_path, device="cpu", per_device_eval_batch_size=5)
    evaluated = work.make_trainer(recipe, tagger, arguments, callbacks=[]).evaluate()
    by_hand = -np.mean([row[2] for row in expected])
    assert evaluated["eval_cross_entropy_nats"] == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize(("name", "is_chain"), [*((name, True) for name in CHAINS), ("bilstm", False)])
def test_tags_that_go_together_are_found_together(
    ready: TextModelTask, tmp_path: Path, name: str, is_chain: bool
) -> None:
    training = {**TRAINING, "eval_strategy": "no", "load_best_model_at_end": False}
    recipe = replace(ready.recipe, conditioning=name, training=training)
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    labels: Any = load_scores(tmp_path / "run" / SCORES_FILE)[0].predictions
    texts = [set(labels.predicted[labels.example_id == text].tolist()) for text in np.unique(labels.example_id)]
    assert all(len(tags) == 1 for tags in texts) == is_chain
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["test"]["metrics"]
    assert metrics["cross_entropy_nats"]["value"] > 0.6, "of each tag by itself, where it is a coin"
    rows = ready.examples.table.take(pa.array(ready.split.rows("test")))
    task: Any = recipe.text_task
    found = TextPipeline.from_pretrained(tmp_path / "run").label_table(rows, text=task.text).table
    tags = found.column("predicted_label").combine_chunks().flatten().to_pylist()
    assert tags == [labels.names[number] for number in labels.predicted.tolist()], "the pipeline decodes the chain"


def test_a_chain_is_for_tags_alone(ready: TextModelTask) -> None:
    recipe = replace(ready.recipe, conditioning="bilstm_crf")
    with pytest.raises(UnknownNameError, match="'bilstm_crf' is no baseline for hidden words of texts"):
        replace(recipe, task=MaskedText(checkpoint="bert"))
    # Only the data tell a label a text from a tag a word.
    other = replace(ready, recipe=replace(recipe, task=Classification(checkpoint="bert", label="sex")))
    with pytest.raises(ConfigurationError, match="'bilstm_crf' cannot learn these labels") as failure:
        other.build_model(other.recipe)
    assert str(failure.value).count("bilstm_crf") == 1


def test_the_chain_is_a_row_of_the_full_benchmark_only() -> None:
    sizes = crossner.TASK.sizes
    assert set(CHAINS) <= set(sizes["full"].seeds)
    assert not set(CHAINS) & set(sizes["small"].seeds)
    assert not set(CHAINS) & {*popquorn.TASK.sizes["full"].seeds}
