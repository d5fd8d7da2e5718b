"""Texts are cut behind the ends of their sentences."""

import torch

from contextual_bert.baselines.sentence_splitting import sentence_ends, split_sentences

END, OTHER_END = 5, 8
INPUTS = torch.tensor(
    [[1, 3, 5, 10, 5, 8, 6, 2], [1, 7, 2, 0, 0, 0, 0, 0], [1, 3, 9, 5, 2, 0, 0, 0], [1, 8, 8, 8, 4, 2, 0, 0]]
)


def test_a_run_of_ends_ends_one_sentence() -> None:
    found = split_sentences(INPUTS, INPUTS > 2, torch.tensor([END, OTHER_END]))
    assert found.words.tolist() == [[3, 5, 0], [10, 5, 8], [6, 0, 0], [7, 0, 0], [3, 9, 5], [8, 8, 8], [4, 0, 0]]
    assert found.num_words.tolist() == [2, 3, 1, 1, 3, 3, 1]
    assert found.text.tolist() == [0, 0, 0, 1, 2, 3, 3]
    assert found.place.tolist() == [0, 1, 2, 0, 0, 0, 1]
    assert found.num_sentences.tolist() == [3, 1, 1, 2]


def test_tokens_of_several_marks_end_a_sentence() -> None:
    tokens = ["so", ".", "...", "?!", '."', "!)", "3.5", ".com", '"', "", "...so"]
    assert sentence_ends(tokens) == [1, 2, 3, 4, 5]
