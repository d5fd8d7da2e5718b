"""Texts by sentences: what is cut where, the formulas by hand, and the context in the attention."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contextual_bert.baselines import HierarchicalLSTM
from contextual_bert.baselines.hierarchical import SequencePooling
from contextual_bert.errors import ConfigurationError
from contextual_bert.testing.miniature import batch_rows, miniature_batch, miniature_schema

END, OTHER_END = 5, 8
VOCABULARY = [{END: ".", OTHER_END: "?"}.get(number, f"word{number}") for number in range(12)]
INPUTS = torch.tensor(
    [[1, 3, 5, 10, 5, 8, 6, 2], [1, 7, 2, 0, 0, 0, 0, 0], [1, 3, 9, 5, 2, 0, 0, 0], [1, 8, 8, 8, 4, 2, 0, 0]]
)
MASK = (INPUTS != 0).long()
POOLINGS: list[Any] = ["mean", "attention", "context", "features"]


def model_for(pooling: Any, *, seed: int = 0, **fields: Any) -> Any:
    layout = miniature_schema().layout if pooling in ("context", "features") else ()
    settings = {"num_labels": 3, "dropout": 0.0, "hidden_size": 6, "reserved_ids": (0, 1, 2), "layout": layout}
    model = HierarchicalLSTM(VOCABULARY, pooling=pooling, **(settings | fields))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return model.eval()


def batch_for(pooling: str) -> dict[str, Any]:
    batch: dict[str, Any] = {"input_ids": INPUTS, "attention_mask": MASK, "labels": torch.tensor([2, -100, 0, 1])}
    return batch | ({"context": miniature_batch()["context"]} if pooling in ("context", "features") else {})


def pooled(layer: SequencePooling, states: Tensor, context: Tensor | None) -> Tensor:
    """One sequence, (length, hidden), by the formula."""
    if layer.key is None or layer.score is None:
        return states.mean(dim=0)
    keys = layer.key(states)
    if layer.context is not None:
        assert context is not None
        keys = keys + layer.context(context)
    return layer.score(keys.tanh()).squeeze(1).softmax(dim=0) @ states


@pytest.mark.parametrize("pooling", POOLINGS)
def test_it_is_its_formula(pooling: Any) -> None:
    model, batch = model_for(pooling), batch_for(pooling)
    texts = [[[3, 5], [10, 5, 8], [6]], [[7]], [[3, 9, 5]], [[8, 8, 8], [4]]]
    encoder = model.context_encoder
    found = encoder(batch["context"]) if encoder is not None else None
    with torch.no_grad():
        logits = model(**batch)["logits"]
        for row, sentences in enumerate(texts):
            vectors = []
            for number, hierarchy in enumerate(model.hierarchies):
                context = None
                if found is not None:
                    context = (found.features[number] if pooling == "features" else found.vector)[row]
                states = [hierarchy.of_words(model.embeddings(torch.tensor([each])))[0][0] for each in sentences]
                of_sentences = torch.stack([pooled(hierarchy.word_pooling, each, context) for each in states])
                states = hierarchy.of_sentences(of_sentences[None])[0][0]
                vectors.append(pooled(hierarchy.sentence_pooling, states, context))
            torch.testing.assert_close(model.head.output(torch.cat(vectors)), logits[row])


@pytest.mark.parametrize("pooling", ["context", "features"])
def test_padding_rows_and_texts_without_words(pooling: Any) -> None:
    model, batch = model_for(pooling), batch_for(pooling)
    expected = model(**batch)["logits"]
    longer = {key: nn.functional.pad(batch[key], (0, 5)) for key in ("input_ids", "attention_mask")}
    torch.testing.assert_close(model(**batch | longer)["logits"], expected)
    for row in range(len(INPUTS)):
        torch.testing.assert_close(model(**batch_rows(batch, [row]))["logits"][0], expected[row])
    for feature, values in batch["context"].items():
        others = values.clone()
        others[0] = values[1]
        found = model(**batch | {"context": batch["context"] | {feature: others}})["logits"]
        assert not torch.allclose(found[0], expected[0]), feature
        torch.testing.assert_close(found[1:], expected[1:])
    empty = batch | {"input_ids": torch.where(INPUTS > 2, 2, INPUTS)}
    output = model(**empty)
    output["loss"].backward()
    assert output["logits"].isfinite().all()
    missing = model.context_encoder.missing(len(INPUTS))
    torch.testing.assert_close(
        model(**batch | {"context": None})["logits"], model(**batch | {"context": missing})["logits"]
    )


@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_weight_has_a_gradient_in_training(pooling: Any) -> None:
    model, batch = model_for(pooling).train(), batch_for(pooling)
    model(**batch)["loss"].backward()
    assert [key for key, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []
    assert len(model.own_outputs) == (4 if pooling == "features" else 0)


def test_the_loss_of_several_hierarchies_is_0_4_of_all_and_0_6_of_their_own() -> None:
    model, batch = model_for("features"), batch_for("features")
    labels, asked = batch["labels"], batch["labels"] != -100
    vectors = model.text_vectors(INPUTS, MASK.bool(), batch["context"])
    losses = [
        nn.functional.cross_entropy(logits[asked], labels[asked])
        for logits in (model(**batch)["logits"], *(each(v) for each, v in zip(model.own_outputs, vectors, strict=True)))
    ]
    torch.testing.assert_close(model(**batch)["loss"], losses[0])  # evaluated by what it answers
    model.train()
    torch.testing.assert_close(model(**batch)["loss"], 0.4 * losses[0] + 0.6 * torch.stack(losses[1:]).mean())


def test_a_context_in_the_attention_decides_which_sentence_counts() -> None:
    """Each text has a good and a bad sentence in any order; who asks says which one is meant."""
    layout = miniature_schema().layout[:1]

    def problem(seed: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        words = torch.randint(3, 7, (200, 2), generator=generator)  # 3, 4: of one matter; 5, 6: of the other
        words[:, 0], words[:, 1] = 3 + words[:, 0] % 2, 5 + words[:, 1] % 2
        sex = torch.randint(2, 4, (200,), generator=generator)
        asked = torch.where(sex == 2, words[:, 0] % 2, words[:, 1] % 2)
        ids = torch.stack([words[:, 0], torch.full((200,), 9), words[:, 1], torch.full((200,), 9)], dim=1)
        return {"input_ids": ids, "context": {"sex": sex}, "labels": asked}

    known, new = problem(0), problem(1)
    accuracies = {}
    for pooling in ("attention", "context", "features"):
        torch.manual_seed(0)
        fields: dict[str, Any] = {"layout": layout} if pooling != "attention" else {}
        vocabulary = [*map(str, range(9)), "."]
        model = HierarchicalLSTM(vocabulary, num_labels=2, pooling=pooling, hidden_size=12, dropout=0.0, **fields)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            optimiser.zero_grad()
            model(**known)["loss"].backward()
            optimiser.step()
        right = model.eval()(**new)["logits"].argmax(dim=1) == new["labels"]
        accuracies[pooling] = float(right.float().mean())
    assert accuracies["attention"] < 0.85
    assert min(accuracies["context"], accuracies["features"]) > 0.95


def test_what_cannot_work_is_refused() -> None:
    for pooling in ("context", "features"):
        with pytest.raises(ConfigurationError, match="needs features in layout"):
            model_for(pooling, layout=())
        with pytest.raises(ConfigurationError, match="reads the context already"):
            model_for(pooling, conditioning="concat")
