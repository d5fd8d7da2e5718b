"""The plain recurrent network is its formula."""

import torch

from contextual_bert.baselines import LastStateRNN


def test_it_is_its_formula() -> None:
    torch.manual_seed(0)
    model = LastStateRNN(9, num_labels=3, reserved_ids=(0, 1), hidden_size=5).eval()
    texts = ([3, 4, 5], [8], [6, 1, 7])  # what is reserved is not read
    ids = torch.tensor([[1, *text, *[0] * (4 - len(text))] for text in texts])
    recurrence = model.recurrence
    with torch.no_grad():
        logits = model(ids, (ids > 0).long())["logits"]
        for row, text in enumerate(texts):
            state = torch.zeros(5)
            for token in text:
                if token > 1:
                    read = recurrence.weight_ih_l0 @ model.embeddings.weight[token] + recurrence.bias_ih_l0
                    state = (read + recurrence.weight_hh_l0 @ state + recurrence.bias_hh_l0).tanh()
            torch.testing.assert_close(logits[row], model.head.output(state))
