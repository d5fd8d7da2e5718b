"""Table 1's parameter column, digit by digit.

Five sums of six digits that agree decide what the paper's text leaves open: the widths, which layers have biases and
LayerNorms, and where. A change of these numbers is a change of the model, never of the test.
"""

import pytest
import torch

from contextual_bert.conditioning import METHODS, register_method
from contextual_bert.conditioning.global_state import GlobalState
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    count_parameters,
    matching_sizes,
    table1,
)

SCHEMA = ContextSchema(
    features=(
        Categorical(name="sex", values=("f", "m")),
        Numerical(name="age", edges=(20.0, 40.0)),
        MultiCategorical(name="brands", values=tuple(map(str, range(99)))),
        Vector(name="style", size=5, embedding_size=7),
    )
)


def dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


LAYER_NORM = 2 * 128
BERT = {
    "attention": 4 * (4 * dense(128, 128) + LAYER_NORM),
    "feed_forward": 4 * (dense(128, 256) + dense(256, 128) + LAYER_NORM),
    "head": dense(128, 128),
}
READS = {"block": 4 * dense(128, 128)}
STATE = dense(736, 128) + dense(128, 128)
PARTS = {
    "none": BERT,
    "concat": BERT | {"input": dense(864, 128) + dense(128, 128)},
    "new_position": BERT | {"input": dense(736, 128)},
    "global_state": BERT | READS | {"state": STATE},
    "global_state_update": BERT | READS | {"state": STATE + 3 * (dense(128, 256) + dense(256, 128) + LAYER_NORM)},
}


@pytest.mark.parametrize(
    ("method_name", "expected"),
    [
        ("none", 546432),
        ("concat", 673664),
        ("new_position", 640768),
        ("global_state", 723328),
        ("global_state_update", 921856),
    ],
)
def test_paper_setting(method_name: str, expected: int) -> None:
    config = ContextualBertConfig.paper(method_name, schema=SCHEMA, vocab_size=30_003)
    with torch.device("meta"):
        model = ContextualBertForMaskedLM(config)
    count = count_parameters(model)
    assert count.counted == expected
    assert count.parts == PARTS[method_name]
    assert sum(count.parts.values()) == expected
    assert count.total == sum(parameter.numel() for parameter in model.parameters())
    assert count.embeddings == 30_003 * 128 + LAYER_NORM
    assert count.output == 30_003, "tied to the item embeddings: only the bias is its own"
    assert config.context_size == (0 if method_name == "none" else 736)


def test_an_untied_output_matrix_is_not_counted() -> None:
    config = ContextualBertConfig.paper("none", schema=SCHEMA, vocab_size=1_000, tie_word_embeddings=False)
    count = count_parameters(ContextualBertForMaskedLM(config))
    assert (count.counted, count.output) == (546432, dense(128, 1_000))


def test_bert_head_has_one_layer_norm_more() -> None:
    config = ContextualBertConfig.paper("none", schema=SCHEMA, vocab_size=10, has_head_layer_norm=True)
    assert count_parameters(ContextualBertForMaskedLM(config)).counted == 546432 + LAYER_NORM


def test_the_context_encoder_is_not_counted() -> None:
    rows = [table1(schema)[3] for schema in (None, SCHEMA)]
    assert [row.count.counted for row in rows] == [723328, 723328]
    assert rows[0].count.context_encoder != rows[1].count.context_encoder


def test_table1_has_the_papers_methods_first_and_others_without_a_paper_number() -> None:
    class Mine(GlobalState):
        name = "a_method_defined_elsewhere"
        label = "[mine]"

    register_method(Mine)
    try:
        rows = table1()
    finally:
        del METHODS[Mine.name]
    assert [(row.conditioning, row.label, row.paper) for row in rows[:2]] == [
        ("none", "[None]", 546432),
        ("concat", "[C]", 673664),
    ]
    assert all(row.count.counted == row.paper for row in rows[:5])
    last = next(row for row in rows if row.conditioning == Mine.name)
    assert (last.label, last.paper, last.count.counted) == ("[mine]", None, 723328)


@pytest.mark.parametrize("method_name", ["none", "concat", "new_position"])
def test_a_wider_model_has_the_parameters_of_global_state_update_within_one_percent(method_name: str) -> None:
    sizes = matching_sizes(method_name, 921_856)
    config = ContextualBertConfig.paper(method_name, schema=SCHEMA, vocab_size=30_003, **sizes)
    assert count_parameters(ContextualBertForMaskedLM(config)).counted == pytest.approx(921_856, rel=0.01)
    assert all(width % config.num_attention_heads == 0 for width in sizes.values())


def test_sizes_that_no_model_has() -> None:
    with pytest.raises(ConfigurationError, match=r"No 'none' has 100 parameters: the closest has [\d,]+"):
        matching_sizes("none", 100)


def test_only_our_model_can_be_counted() -> None:
    with pytest.raises(ConfigurationError, match=r"'weight' is none of ContextualBertForMaskedLM"):
        count_parameters(torch.nn.Linear(2, 2))
