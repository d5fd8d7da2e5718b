"""fastText's classifier: whole words from pieces, rows by hash, the tree of its softmax, sparse gradients."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from contextual_bert.baselines import FastText
from contextual_bert.baselines import fasttext as module
from contextual_bert.baselines.fasttext import HierarchicalSoftmax
from contextual_bert.baselines.ngrams import BIGRAM_FACTOR, character_ngrams, fnv1a
from contextual_bert.errors import ConfigurationError
from contextual_bert.testing.miniature import miniature_batch, miniature_schema

VOCABULARY = ["[PAD]", "[SEP]", "red", "coat", "##s", "##ing", "cold", "i", "##"]
BUCKETS = 40


def model_for(**fields: Any) -> FastText:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"num_labels": 3, "reserved_ids": (0, 1), "hidden_size": 6, "num_buckets": BUCKETS}
    model = FastText(VOCABULARY, **(settings | fields))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape))
    return model


def row(text: str) -> int:
    return int(fnv1a([text])[0]) % BUCKETS


def plain_rows(words: list[str]) -> list[int]:
    """The rows of words that follow each other."""
    of_words = [row(each) for word in words for each in (word, *character_ngrams(word))]
    hashes = [int(each) for each in fnv1a(words)]
    return of_words + [(one * BIGRAM_FACTOR + other) % BUCKETS for one, other in itertools.pairwise(hashes)]


@pytest.mark.parametrize(
    ("ids", "runs"),
    [
        ([2, 3, 4], [["red", "coats"]]),
        ([7, 5, 4, 7, 5, 4, 2], [["iings", "iings", "red"]]),
        ([2, 1, 3, 0, 0], [["red"], ["coat"]]),  # nothing reaches across [SEP]
        ([3, 1, 4, 6], [["coat"], ["s", "cold"]]),  # nor does a word
    ],
)
def test_a_text_is_the_mean_of_the_rows_of_its_words(ids: list[int], runs: list[list[str]]) -> None:
    model = model_for()
    rows = [each for run in runs for each in plain_rows(run)]
    expected = model.rows.weight[rows].mean(dim=0)
    batch = torch.tensor([[6, 6, *[0] * (len(ids) - 2)], ids])
    for _ in range(2):  # the second time each word is known
        found = model.text_vectors(batch, ~torch.isin(batch, torch.tensor([0, 1])))
        torch.testing.assert_close(found[1], expected)
    logits = model(input_ids=batch)["logits"]
    torch.testing.assert_close(logits[1], model.head.output(expected))


def test_words_that_are_forgotten_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.tensor([[2, 3, 4], [6, 7, 5]])
    expected = model_for()(input_ids=batch)["logits"]
    monkeypatch.setattr(module, "MOST_WORDS", 2)
    model = model_for()
    for _ in range(3):
        torch.testing.assert_close(model(input_ids=batch)["logits"], expected)
        assert len(model.words.hashes) <= 4


def test_a_text_without_words_is_zero() -> None:
    model = model_for()
    logits = model(input_ids=torch.tensor([[1, 0], [2, 1]]))["logits"]
    torch.testing.assert_close(logits[0], model.head.output.bias)
    torch.testing.assert_close(model(input_ids=torch.tensor([[1, 0]]))["logits"], logits[:1])


def test_only_the_rows_that_are_read_have_a_gradient_and_it_is_that_of_the_mean() -> None:
    model = model_for()
    batch, labels = torch.tensor([[2, 3, 4, 2], [6, 2, 3, 0]]), torch.tensor([0, 2])
    model(input_ids=batch, labels=labels)["loss"].backward()
    gradient: Any = model.rows.weight.grad
    assert gradient.is_sparse
    rows = [plain_rows(["red", "coats", "red"]), plain_rows(["cold", "red", "coat"])]
    assert gradient._indices()[0].tolist() == sorted({*rows[0], *rows[1]})
    table = model.rows.weight.detach().clone().requires_grad_()
    vectors = torch.stack([table[each].mean(dim=0) for each in rows])
    torch.nn.functional.cross_entropy(model.head.output(vectors), labels).backward()
    torch.testing.assert_close(gradient.to_dense(), table.grad)


def test_the_loss_does_not_depend_on_the_split_of_a_batch() -> None:
    model = model_for()
    batch, labels = torch.tensor([[2, 3, 4, 2], [6, 2, 3, 0]]), torch.tensor([0, 2])
    parts = [model(input_ids=batch[[row]], labels=labels[[row]], num_items_in_batch=2)["loss"] for row in (0, 1)]
    torch.testing.assert_close(sum(parts), model(input_ids=batch, labels=labels)["loss"])


@pytest.mark.parametrize("counts", [[1, 1], [5, 0, 3], [1, 2, 4, 8, 16, 32, 64], [3] * 10, [0] * 5])
def test_the_probabilities_of_a_tree_are_those_of_its_paths_and_add_up_to_one(counts: list[int]) -> None:
    torch.manual_seed(1)
    tree = HierarchicalSoftmax(4, len(counts))
    tree.grow(counts)
    with torch.no_grad():
        tree.weight.normal_()
        tree.bias.normal_()
    hidden = torch.randn(3, 4)
    found = tree(hidden)
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(3))
    parents = tree.parents.tolist()
    for label in range(len(counts)):
        total, place = torch.zeros(3), label
        while parents[place] >= 0:
            node, is_right = divmod(parents[place], 2)
            score = hidden @ tree.weight[node] + tree.bias[node]
            total = total + torch.nn.functional.logsigmoid(score if is_right else -score)
            place = len(counts) + node
        torch.testing.assert_close(found[:, label], total)
        loss = tree.summed_loss(hidden, torch.tensor([label, -100, label]))
        torch.testing.assert_close(loss, -(total[0] + total[2]))


def test_a_tree_has_the_shortest_paths() -> None:
    counts = [40, 30, 15, 10, 5]
    tree = HierarchicalSoftmax(2, 5)
    tree.grow(counts, at_shares=True)
    assert tree.is_on_path.sum(dim=1).tolist() == [1, 2, 3, 4, 4]
    shares = (torch.tensor(counts) + 0.5) / (sum(counts) + 2.5)
    torch.testing.assert_close(tree(torch.randn(1, 2)).exp()[0], shares)


def test_a_tree_of_other_counts_is_loaded_with_its_weights() -> None:
    grown, fresh = HierarchicalSoftmax(4, 6), HierarchicalSoftmax(4, 6)
    grown.grow([50, 20, 9, 4, 2, 1], at_shares=True)
    fresh.load_state_dict(grown.state_dict())
    hidden = torch.randn(2, 4)
    torch.testing.assert_close(fresh(hidden), grown(hidden))


@pytest.mark.parametrize("counts", [[1, 2], [1, -3, 4]])
def test_counts_that_are_not_of_the_labels_are_refused(counts: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="for 3 labels"):
        HierarchicalSoftmax(4, 3).grow(counts)


def test_with_many_labels_the_loss_is_that_of_all_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HIERARCHICAL_FROM", 3)
    model = model_for(layout=miniature_schema().layout, conditioning="concat")
    batch: dict[str, Any] = {
        "input_ids": torch.tensor([[2, 3], [3, 4], [6, 0], [2, 0]]),
        "labels": torch.tensor([0, 2, -100, 1]),
        "context": miniature_batch()["context"],
    }
    trained, evaluated = model.train()(**batch), model.eval()(**batch)
    assert [*trained] == ["loss"]
    torch.testing.assert_close(trained["loss"], evaluated["loss"])
    other = {name: values.flip(0) for name, values in batch["context"].items()}
    assert not torch.allclose(model(**batch | {"context": other})["logits"], evaluated["logits"])


@pytest.mark.parametrize("fields", [{"num_buckets": 0}, {"num_labels": 0}])
def test_sizes_that_cannot_be_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        FastText(VOCABULARY, **({"num_labels": 2} | fields))
    assert refused.value.location == (*fields,)


def test_a_gradient_is_the_same_for_any_batch_of_the_same_words() -> None:
    """The lookup of a word does not depend on which words came before."""
    first, second = model_for(), model_for()
    second(input_ids=torch.tensor([[6, 4, 5], [7, 7, 7]]))
    batch = torch.tensor([[2, 3, 4], [7, 5, 6]])
    np.testing.assert_allclose(
        first(input_ids=batch)["logits"].detach().numpy(), second(input_ids=batch)["logits"].detach().numpy()
    )
