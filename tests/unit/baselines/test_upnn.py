"""UPNN is its formula, word by word."""

import pytest
import torch
from torch import Tensor

from contextual_bert.baselines import UPNN
from contextual_bert.testing.miniature import miniature_batch, miniature_schema

VOCABULARY = ["[PAD]", "[CLS]", "[SEP]", "a", "b", ".", "c", "d", "!"]
ROWS = ([1, 3, 4, 6, 7, 5, 3, 2], [1, 7, 2, 0, 0, 0, 0, 0], [1, 8, 3, 4, 2, 0, 0, 0], [1, 4, 5, 4, 5, 2, 0, 0])
INPUTS = torch.tensor(ROWS)
SENTENCES = [[[3, 4, 6, 7, 5], [3]], [[7]], [[8], [3, 4]], [[4, 5], [4, 5]]]


def changed(model: UPNN, words: Tensor, features: list[Tensor]) -> Tensor:
    """The vectors of the words of a sentence, each matrix written out."""
    found = []
    for matrix, feature in zip(model.matrices, features, strict=True):
        made = torch.diag(1 + matrix.diagonal(feature))
        for left, right in zip(matrix.left(feature).view(3, -1), matrix.right(feature).view(3, -1), strict=True):
            made = made + torch.outer(left, right)
        found.append(torch.stack([(made @ word).tanh() for word in words]))
    return torch.cat(found, dim=1) if found else words


@pytest.mark.parametrize("conditioning", ["none", "concat"])
def test_it_is_its_formula(conditioning: str) -> None:
    torch.manual_seed(0)
    layout = miniature_schema().layout
    model = UPNN(
        VOCABULARY, num_labels=2, layout=layout, conditioning=conditioning, reserved_ids=(0, 1, 2), hidden_size=6
    ).eval()
    context = miniature_batch()["context"]
    with torch.no_grad():
        logits = model(INPUTS, (INPUTS > 0).long(), context)["logits"]
        encoder = model.head.context_encoder
        found = encoder(context) if encoder is not None else None
        for row, sentences in enumerate(SENTENCES):
            features = [each[row] for each in found.features] if found is not None else []
            vectors = []
            for sentence in sentences:
                words = changed(model, model.embeddings(torch.tensor(sentence)), features)
                answers = []
                for width, convolution in enumerate(model.filters, start=1):
                    padded = torch.cat([words, words.new_zeros(max(0, width - len(words)), words.shape[1])])
                    places = range(len(padded) - width + 1)
                    read = [torch.einsum("fdw,wd->f", convolution.weight, padded[i : i + width]) for i in places]
                    answers.append((torch.stack(read).mean(dim=0) + convolution.bias).tanh())
                vectors.append(torch.stack(answers).mean(dim=0))
            text = torch.stack(vectors).mean(dim=0)
            whole = torch.cat([text, found.vector[row]]) if found is not None else text
            torch.testing.assert_close(model.head.output(whole), logits[row])
