"""CHIM is its formula, at each of the four places, and padding changes nothing."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.baselines import CHIM
from contextual_bert.baselines.chim import TILES, WeighedLayer, WeighedLSTM
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.text_baseline import TextBaselineConfig, label_model
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import batch_rows, miniature_batch, miniature_schema

SIZE, HIDDEN = 12, 8
LAYERS = get_args(WeighedLayer)
ROWS = ([1, 3, 4, 10, 5, 6, 2], [1, 7, 2, 0, 0, 0, 0], [1, 3, 9, 2, 0, 0, 0], [1, 8, 11, 8, 4, 2, 0])
INPUTS = torch.tensor(ROWS)


def model_for(layer: Any, **fields: Any) -> Any:
    torch.manual_seed(0)
    settings = {"num_labels": 3, "layout": miniature_schema().layout, "reserved_ids": (0, 1, 2), "dropout": 0.0}
    model = CHIM(SIZE, weighed=layer, hidden_size=HIDDEN, **(settings | fields))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    return model.eval()


def batch() -> dict[str, Any]:
    mask, labels = (INPUTS != 0).long(), torch.tensor([2, -100, 0, 1])
    return {"input_ids": INPUTS, "attention_mask": mask, "context": miniature_batch()["context"], "labels": labels}


def by_hand(linear: Any, importance: Any, inputs: Tensor, context: Tensor) -> Tensor:
    """One context, entry by entry: the small matrix stands beside and below itself."""
    return inputs @ weighed(linear.weight, importance, context).T + linear.bias


def weighed(matrix: Tensor, importance: Any, context: Tensor) -> Tensor:
    """The weighed matrix, entry by entry."""
    weights = matrix.clone()
    if importance is not None:
        rows, columns = importance.small
        small = importance.transform(context).sigmoid().view(rows, columns)
        for row in range(weights.shape[0]):
            for column in range(weights.shape[1]):
                weights[row, column] *= small[row % rows, column % columns]
    return weights


@pytest.mark.parametrize("layer", LAYERS)
def test_it_is_its_formula(layer: Any) -> None:
    model, given = model_for(layer), batch()
    vectors = model.context_encoder(given["context"]).vector
    with torch.no_grad():
        logits = model(**given)["logits"]
        for row, ids in enumerate(ROWS):
            context = vectors[row]
            first, key = model.words, model.key
            embedded = model.embeddings(torch.tensor([each for each in ids if each > 2]))
            words = by_hand(first.linear, first.importance, embedded, context).tanh()
            if model.recurrence is not None:
                states = model.recurrence(words[None])[0][0]
            else:
                states = torch.cat([steps(each, words, context) for each in model.directions], dim=1)
            weights = model.score(by_hand(key.linear, key.importance, states, context).tanh()).squeeze(1).softmax(dim=0)
            text = weights @ states
            found = by_hand(model.head.output, model.importance, text, context)
            torch.testing.assert_close(found, logits[row])


def steps(direction: WeighedLSTM, words: Tensor, context: Tensor) -> Tensor:
    """The states of one text, by a cell of torch that has the weighed weights."""
    cell = nn.LSTMCell(HIDDEN, HIDDEN)
    gates = weighed(direction.gates.weight, direction.importance, context)
    forget, enter, leave, new = gates.chunk(4)
    ordered = torch.cat([enter, forget, new, leave])
    bias = direction.gates.bias.chunk(4)
    with torch.no_grad():
        cell.weight_ih.copy_(ordered[:, :HIDDEN])
        cell.weight_hh.copy_(ordered[:, HIDDEN:])
        cell.bias_ih.copy_(torch.cat([bias[1], bias[0], bias[3], bias[2]]))
        cell.bias_hh.zero_()
    state = (torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN))
    found: list[Tensor] = []
    for word in words.flip(0) if direction.is_backward else words:
        state = cell(word[None], state)
        found.append(state[0][0])
    return torch.stack(found[::-1] if direction.is_backward else found)


@pytest.mark.parametrize("layer", LAYERS)
def test_padding_rows_contexts_and_texts_without_words(layer: Any) -> None:
    model, given = model_for(layer), batch()
    expected = model(**given)["logits"]
    for side in ((0, 5), (5, 0)):
        longer = {key: nn.functional.pad(given[key], side) for key in ("input_ids", "attention_mask")}
        torch.testing.assert_close(model(**given | longer)["logits"], expected)
    for row in range(len(INPUTS)):
        torch.testing.assert_close(model(**batch_rows(given, [row]))["logits"][0], expected[row])
    for feature, values in given["context"].items():
        others = values.clone()
        others[0] = values[1]
        found = model(**given | {"context": given["context"] | {feature: others}})["logits"]
        assert not torch.allclose(found[0], expected[0]), feature
        torch.testing.assert_close(found[1:], expected[1:])
    missing = model.context_encoder.missing(len(INPUTS))
    torch.testing.assert_close(
        model(**given | {"context": None})["logits"], model(**given | {"context": missing})["logits"]
    )
    output = model(**given | {"input_ids": torch.where(INPUTS > 2, 2, INPUTS)})
    output["loss"].backward()
    assert output["logits"].isfinite().all()


@pytest.mark.parametrize("layer", LAYERS)
def test_every_weight_has_a_gradient_and_it_learns(layer: Any) -> None:
    model, given = model_for(layer).train(), batch()
    model(**given)["loss"].backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    generator = torch.Generator().manual_seed(0)
    ids, sex = (torch.randint(*span, generator=generator) for span in ((3, 5, (200, 3)), (2, 4, (200,))))
    labels = ((ids[:, 0] == 3) ^ (sex == 3)).long()  # who asks turns the meaning of a word
    torch.manual_seed(0)
    model = CHIM(5, num_labels=2, layout=miniature_schema().layout[:1], weighed=layer, hidden_size=16, dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        model(input_ids=ids, context={"sex": sex}, labels=labels)["loss"].backward()
        optimiser.step()
    right = model.eval()(input_ids=ids, context={"sex": sex})["logits"].argmax(dim=1) == labels
    assert right.float().mean() > 0.9


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs features"):
        model_for("embedding", layout=())
    with pytest.raises(ConfigurationError, match="pooling"):
        model_for("pooling")
    with pytest.raises(ConfigurationError, match=f"Give a multiple of {TILES}"):
        CHIM(SIZE, num_labels=2, layout=miniature_schema().layout, hidden_size=12)
    config = TextBaselineConfig(
        name="chim_classifier", labels=("a", "b"), layout=tuple(miniature_schema().layout), is_ordinal=True
    )
    with pytest.raises(ConfigurationError, match="grades of one scale share one row"):
        label_model(config, miniature_text_processor().tokenizer)
