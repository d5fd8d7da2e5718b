"""TextCNN is its formula, and padding never wins."""

import torch

from contextual_bert.baselines import TextCNN


def cnn_for() -> TextCNN:
    torch.manual_seed(0)
    return TextCNN(12, num_labels=2, reserved_ids=(0, 1), hidden_size=5, num_filters=3).eval()


def plain(cnn: TextCNN, ids: list[int]) -> torch.Tensor:
    """The formula, a place and a filter at a time."""
    features = []
    for convolution in cnn.filters:
        (width,) = convolution.kernel_size
        embedded = cnn.embeddings(torch.tensor(ids))
        embedded = torch.cat([embedded, embedded.new_zeros(max(0, width - len(ids)), 5)])
        for kernel, bias in zip(convolution.weight, convolution.bias, strict=True):
            answers = [
                (kernel.T * embedded[start : start + width]).sum() + bias for start in range(len(embedded) - width + 1)
            ]
            features.append(torch.stack(answers).max().relu())
    return cnn.head.output(torch.stack(features))


def test_it_is_the_formula() -> None:
    cnn = cnn_for()
    texts = [[2, 3, 4, 5, 6, 7, 8], [9, 10], [5], [3, 3, 11, 4]]
    inputs = torch.tensor([text + [0] * (7 - len(text)) for text in texts])
    torch.testing.assert_close(cnn(inputs)["logits"], torch.stack([plain(cnn, text) for text in texts]))


def test_padding_does_not_win_even_where_filters_answer_below_zero_in_the_text() -> None:
    cnn = cnn_for()
    with torch.no_grad():
        for convolution in cnn.filters:
            convolution.weight.fill_(-1.0)
            convolution.bias.fill_(2.0)
        cnn.embeddings.weight.fill_(1.0)
    inputs = torch.tensor([[2, 3, 4, 5, 6, 0, 0, 0, 0]])
    assert not cnn.text_vectors(inputs, inputs != 0).any()


def test_what_stands_around_a_reserved_id_becomes_neighbours() -> None:
    cnn = cnn_for()
    torch.testing.assert_close(cnn(torch.tensor([[2, 1, 3, 4]]))["logits"], cnn(torch.tensor([[2, 3, 4]]))["logits"])


def test_the_place_does_not_matter_but_the_order_does() -> None:
    cnn = cnn_for()
    vectors = [cnn.text_vectors(ids, ids > 0) for ids in torch.tensor([[[2, 3, 4, 5, 6]], [[2, 3, 4, 6, 5]]])]
    assert not torch.allclose(*vectors)
    twice = torch.tensor([[2, 3, 4, 5, 6, 2, 3, 4, 5, 6]])
    assert (cnn.text_vectors(twice, twice > 0) >= vectors[0] - 1e-6).all()
