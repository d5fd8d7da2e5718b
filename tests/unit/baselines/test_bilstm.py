"""The recurrent baselines: states against an LSTM without packing, the maximum over them, and chains of labels."""

from typing import Any

import pytest
import torch

from contextual_bert.baselines import BiLSTM, BiLSTMTagger, LastStateRNN, TextCNN
from contextual_bert.errors import ConfigurationError

TEXTS = ([3, 4, 5, 6], [7, 8], [9])
INPUTS = torch.tensor([[1, 3, 4, 5, 6], [7, 1, 8, 0, 0], [1, 0, 9, 0, 0]])  # the same, reserved ids in between


def test_a_text_is_the_maximum_of_its_states() -> None:
    torch.manual_seed(0)
    model = BiLSTM(12, num_labels=2, reserved_ids=(0, 1), hidden_size=4, num_layers=2).eval()
    logits = model(INPUTS)["logits"]
    for row, text in enumerate(TEXTS):
        states, _ = model.states.recurrence(model.states.embeddings(torch.tensor([text])))
        torch.testing.assert_close(logits[row], model.head.output(states[0].amax(dim=0)))


def test_one_token_in_bfloat16() -> None:
    """Without instructions for it the library that computes an LSTM refuses some shapes, this one among them."""
    model = BiLSTM(12, num_labels=2, hidden_size=4, num_layers=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.tensor([[3, 0]]), torch.tensor([[1, 0]]), labels=torch.tensor([1]))["loss"]
    loss.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


def test_a_token_has_its_states() -> None:
    torch.manual_seed(0)
    tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4).eval()
    mask = INPUTS > 1
    logits = tagger(INPUTS, mask)["logits"]
    for row, text in enumerate(TEXTS):
        states, _ = tagger.states.recurrence(tagger.states.embeddings(torch.tensor([text])))
        torch.testing.assert_close(logits[row, mask[row]], tagger.head.output(states[0]))


def test_a_text_of_padding_alone_is_read_as_nothing() -> None:
    tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4).eval()
    mask = torch.tensor([[True, True], [False, False]])
    logits = tagger(torch.tensor([[3, 4], [5, 6]]), mask)["logits"]
    torch.testing.assert_close(logits[1], tagger.head.output.bias.expand(2, 3))


def test_predictions_stand_where_they_are_asked_for() -> None:
    torch.manual_seed(0)
    for has_crf in (False, True):
        tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4, has_crf=has_crf).eval()
        mask = INPUTS > 0
        found = tagger.predict(INPUTS, mask)
        assert torch.equal(found == -100, ~mask)
        is_first_piece = INPUTS > 4
        some = tagger.predict(INPUTS, mask, is_asked=is_first_piece)
        assert torch.equal(some == -100, ~is_first_piece)
        if not has_crf:
            assert torch.equal(some[is_first_piece], found[is_first_piece])
            assert torch.equal(found[mask], tagger(INPUTS, mask)["logits"].argmax(-1)[mask])


def test_the_loss_of_chains_is_their_likelihood_by_the_number_of_labels() -> None:
    torch.manual_seed(0)
    tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4, has_crf=True).eval()
    labels = torch.tensor([[-100, 0, 1, -100, 2], [1, -100, 1, -100, -100], [-100, -100, 0, -100, -100]])
    output = tagger(INPUTS, INPUTS > 0, labels=labels)
    torch.testing.assert_close(output["loss"], -tagger.crf(output["logits"], labels).sum() / 6)


def test_a_chain_learns_which_label_follows_which() -> None:
    """Label 1 never follows label 1: of two that look alike, the second cannot be 1."""
    torch.manual_seed(0)
    tagger = BiLSTMTagger(12, num_labels=2, hidden_size=4, has_crf=True, dropout=0.0)
    with torch.no_grad():
        tagger.head.output.weight.zero_()  # nothing is read from the tokens
    tagger.head.output.weight.requires_grad_(False)
    inputs = torch.full((2, 8), 3)
    labels = torch.tensor([[0, 1] * 4, [1, 0] * 4])
    optimiser = torch.optim.Adam([weight for weight in tagger.parameters() if weight.requires_grad], lr=0.1)
    for _ in range(100):
        optimiser.zero_grad()
        tagger(inputs, labels=labels)["loss"].backward()
        optimiser.step()
    assert tagger.predict(inputs)[0].tolist() in labels.tolist()


def test_what_cannot_be_chosen_or_chained() -> None:
    with pytest.raises(ConfigurationError, match="num_layers=0"):
        BiLSTM(12, num_labels=2, num_layers=0)
    with pytest.raises(ConfigurationError, match="num_labels=1"):
        BiLSTMTagger(12, num_labels=1, has_crf=True)
    with pytest.raises(ConfigurationError, match="no label to choose"):
        BiLSTMTagger(12, num_labels=1, hidden_size=4).predict(INPUTS)


class Spelt(torch.nn.Module):
    """Vectors that say which characters they were given, and which tokens are real."""

    def forward(self, characters: torch.Tensor, is_real: torch.Tensor) -> torch.Tensor:
        return torch.stack([characters[..., 0].float(), is_real.float()], dim=2) * is_real.unsqueeze(2)


def test_a_tagger_reads_vectors_beside_its_embeddings() -> None:
    torch.manual_seed(0)
    tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4).eval()
    tagger.read_beside(Spelt(), size=2)
    mask = INPUTS > 1
    logits = tagger(INPUTS, mask, characters=INPUTS.unsqueeze(2))["logits"]
    for row, text in enumerate(TEXTS):
        ids = torch.tensor([text])
        beside = torch.stack([ids.float(), torch.ones_like(ids).float()], dim=2)
        states, _ = tagger.states.recurrence(torch.cat([tagger.states.embeddings(ids), beside], dim=2))
        torch.testing.assert_close(logits[row, mask[row]], tagger.head.output(states[0]))


@pytest.mark.parametrize("kind", [BiLSTM, LastStateRNN])
def test_a_reader_of_texts_passes_over_the_vectors_of_what_it_does_not_read(kind: Any) -> None:
    torch.manual_seed(0)
    model = kind(12, num_labels=3, hidden_size=4, reserved_ids=[0, 1, 5]).eval()
    model.read_beside(Spelt(), size=2)
    vectors = torch.rand(*INPUTS.shape, 3)
    logits = model(INPUTS, INPUTS > 1, characters=vectors)["logits"]
    vectors[INPUTS == 5] += 1
    assert torch.equal(model(INPUTS, INPUTS > 1, characters=vectors)["logits"], logits)
    vectors[INPUTS[0, 1] == INPUTS] += 1
    assert not torch.equal(model(INPUTS, INPUTS > 1, characters=vectors)["logits"], logits)


def test_vectors_that_are_missing_or_cannot_be_read_are_named() -> None:
    tagger = BiLSTMTagger(12, num_labels=3, hidden_size=4)
    tagger.read_beside(Spelt(), size=2)
    with pytest.raises(ConfigurationError, match="characters of words"):
        tagger(INPUTS)
    with pytest.raises(ConfigurationError, match="TextCNN reads no vectors"):
        TextCNN(12, num_labels=3).read_beside(Spelt(), size=2)
