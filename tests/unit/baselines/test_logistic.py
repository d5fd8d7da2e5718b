"""A logistic regression on texts: the context helps where it matters, and every value it meets is read."""

import datetime
import sys

import numpy as np
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from contextual_bert.baselines import LogisticClassifier
from contextual_bert.baselines.logistic import INVERSE_STRENGTHS, ContextColumns
from contextual_bert.errors import ConfigurationError, DataError, SchemaError

WORDS = (["awful", "boring"], ["fine", "plain"], ["great", "superb"])
Part = tuple[list[str], np.ndarray, pa.Table]


def draw(num_rows: int, *, seed: int) -> Part:
    """Stars that are what the words say, less one where the reader is strict."""
    generator = np.random.default_rng(seed)
    said = generator.integers(0, 3, num_rows)
    is_strict = generator.random(num_rows) < 0.5
    texts = [f"a {generator.choice(WORDS[each])} film {generator.choice(WORDS[each])}" for each in said]
    context = pa.table(
        {
            "reader": pa.array(np.where(is_strict, "strict", "kind")),
            "age": pa.array(generator.normal(40, 10, num_rows), mask=generator.random(num_rows) < 0.2),
        }
    )
    return texts, said - is_strict + 1, context


TRAINING, VALIDATION, TEST = (draw(rows, seed=seed) for seed, rows in enumerate((300, 100, 200)))


def accuracy(model: LogisticClassifier, texts: list[str], labels: np.ndarray, context: pa.Table | None) -> float:
    return float(np.mean(model.log_probabilities(texts, context).argmax(axis=1) == labels))


@pytest.fixture(scope="module")
def model() -> LogisticClassifier:
    return LogisticClassifier(num_labels=4).fit(*TRAINING, validation=VALIDATION)


def test_the_context_helps_where_it_matters(model):
    texts, labels, context = TEST
    without = LogisticClassifier(num_labels=4).fit(*TRAINING[:2], validation=(*VALIDATION[:2], None))
    assert accuracy(model, texts, labels, context) > 0.95
    assert 0.3 < accuracy(without, texts, labels, None) < 0.75
    # Without a context in training, none is read later.
    assert np.array_equal(without.log_probabilities(texts, context), without.log_probabilities(texts))


def test_texts_that_say_nothing_cost_next_to_nothing():
    generator = np.random.default_rng(0)
    words = [f"word{number}" for number in range(50)]

    def part(num_rows: int) -> tuple[list[str], np.ndarray, None]:
        texts = [" ".join(generator.choice(words, 5)) for _ in range(num_rows)]
        return texts, generator.choice(3, num_rows, p=[0.5, 0.3, 0.2]), None

    (texts, labels, _), validation, (unseen, answers, _) = part(240), part(240), part(240)
    model = LogisticClassifier(num_labels=3).fit(texts, labels, validation=validation)
    shares = np.bincount(labels) / len(labels)
    loss = -model.log_probabilities(unseen)[np.arange(len(answers)), answers].mean()
    assert loss < -np.log(shares[answers]).mean() + 0.003


def test_vectors_may_come_from_elsewhere():
    class SaysGood:
        def fit(self, texts):
            return self

        def transform(self, texts):
            return np.array([["great" in text or "superb" in text] for text in texts], dtype=np.float32)

    texts, labels, _ = TRAINING
    model = LogisticClassifier(num_labels=4, inverse_strengths=(10.0,), vectorizer=SaysGood()).fit(texts, labels)
    first, again, other = np.exp(model.log_probabilities(["a great film", "a superb film", "a plain film"]))
    assert np.array_equal(first, again)
    assert first[2:].sum() > 0.9 > 0.1 > other[3]


def test_probabilities_sum_to_one_over_all_labels(model):
    found = model.log_probabilities(TEST[0], TEST[2])
    assert found.shape == (200, 4) and found.dtype == np.float64
    assert np.exp(found).sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    # Two labels of five in training: the others are impossible.
    few = np.isin(TRAINING[1], (1, 2))
    texts = [text for text, is_kept in zip(TRAINING[0], few, strict=True) if is_kept]
    model = LogisticClassifier(num_labels=5, inverse_strengths=(1.0,)).fit(texts, TRAINING[1][few])
    probabilities = np.exp(model.log_probabilities(["a great film", "an awful film"]))
    assert probabilities.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (probabilities[:, [0, 3, 4]] == 0).all() and (probabilities[:, [1, 2]] > 0).all()
    assert probabilities[0, 2] > 0.5 > probabilities[1, 2]


def test_without_context_it_is_scikit_learn_s():
    texts, labels, _ = TRAINING
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    expected = LogisticRegression(C=10.0, max_iter=1000).fit(words.fit_transform(texts), labels)
    model = LogisticClassifier(num_labels=4, inverse_strengths=(10.0,)).fit(texts, labels)
    found = model.log_probabilities(TEST[0])
    assert np.exp(found) == pytest.approx(expected.predict_proba(words.transform(TEST[0])), abs=1e-9)


def test_unseen_and_missing_values_are_read(model):
    context = pa.table({"age": [30.0, None], "more": [1, 2], "reader": ["stranger", None]})
    found = model.log_probabilities(["a great film", "an unheard word"], context)
    assert np.isfinite(found).all()
    columns = ContextColumns(TRAINING[2])
    assert columns.encode(context).toarray()[:, :4].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_missing_is_a_state_that_is_learned_from():
    readers = pa.table({"reader": ["ann", None] * 20, "age": [20, None] * 20, "blank": ["", None] * 20})
    texts, labels = ["a film"] * 40, np.array([1, 0] * 20)
    model = LogisticClassifier(num_labels=2, inverse_strengths=(10.0,)).fit(texts, labels, readers)
    assert accuracy(model, texts, labels, readers) == 1.0


def test_numbers_are_standardised_as_in_training():
    columns = ContextColumns(
        pa.table({"n": [1.0, 3.0, None], "same": [7, 7, 7], "none": pa.array([None] * 3, pa.int64())})
    )
    found = columns.encode(pa.table({"n": [5.0, None], "same": [7, 8], "none": [1, 2]})).toarray()
    assert found.tolist() == [[3, 0, 0, 0], [0, 1, 1, 0]]


def test_dates_truth_values_and_codes_as_text_are_categories():
    table = pa.table(
        {
            "day": [datetime.date(2016, 3, 5), datetime.date(2016, 3, 6)],
            "is_member": [True, False],
            "shop": pa.array(["1", "2"]).dictionary_encode(),
        }
    )
    # Missing, unknown and two values of each.
    first, second, third = np.split(ContextColumns(table).encode(table).toarray(), 3, axis=1)
    assert first.tolist() == third.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert second.tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_the_strength_is_chosen_by_cross_entropy_on_the_validation_part(model):
    texts, labels, context = VALIDATION
    losses = {}
    for each in INVERSE_STRENGTHS:
        alone = LogisticClassifier(num_labels=4, inverse_strengths=(each,)).fit(*TRAINING)
        losses[each] = -alone.log_probabilities(texts, context)[np.arange(len(labels)), labels].mean()
    assert len(set(losses.values())) == len(INVERSE_STRENGTHS)
    assert model.inverse_strength == min(losses, key=lambda each: losses[each])
    # A strength too weak for labels of pure noise is not taken.
    noise = np.random.default_rng(0).integers(0, 4, 300)
    chosen = LogisticClassifier(num_labels=4).fit(TRAINING[0], noise, validation=(TRAINING[0], noise[::-1], None))
    assert chosen.inverse_strength <= 0.1


def test_a_validation_label_that_training_lacks_is_left_out():
    texts, labels = ["a good film", "a good one", "a bad film", "a bad one"], [0, 0, 1, 1]
    validation = (["a good film", "a new film"], [0, 2], None)
    assert LogisticClassifier(num_labels=3).fit(texts, labels, validation=validation).inverse_strength == 100.0
    with pytest.raises(DataError, match="no label of the validation part"):
        LogisticClassifier(num_labels=3).fit(texts, labels, validation=(["a new film"], [2], None))


def test_faulty_settings_and_texts_are_refused(model):
    texts, labels, context = TRAINING
    with pytest.raises(ConfigurationError, match="num_labels=1"):
        LogisticClassifier(num_labels=1)
    with pytest.raises(ConfigurationError, match=r"inverse_strengths=\(1\.0, 0\.0\)"):
        LogisticClassifier(num_labels=2, inverse_strengths=(1.0, 0.0))
    with pytest.raises(ConfigurationError, match="Call fit first"):
        LogisticClassifier(num_labels=2).log_probabilities(["a film"])
    with pytest.raises(ConfigurationError, match="no validation part"):
        LogisticClassifier(num_labels=4).fit(texts, labels)
    one = LogisticClassifier(num_labels=4, inverse_strengths=(1.0,))
    with pytest.raises(ConfigurationError, match=r"labels have shape \(3,\)"):
        one.fit(texts, labels[:3])
    with pytest.raises(DataError, match="row 2, column 'labels': 4 is no label"):
        one.fit(texts[:2], [0, 4])
    with pytest.raises(DataError, match="all texts have the same label"):
        one.fit(texts[:2], [1, 1])
    with pytest.raises(DataError, match="no word can be learned"):
        one.fit(["one", "two"], [0, 1])
    with pytest.raises(ConfigurationError, match="of 300 texts here; 2 rows came"):
        one.fit(texts, labels, context.slice(0, 2))
    with pytest.raises(ConfigurationError, match="of 1 text here; none came"):
        model.log_probabilities(["a film"])
    with pytest.raises(SchemaError, match=r"lacks the column 'reader'\. Did you mean 'readers'"):
        model.log_probabilities(["a film"], pa.table({"readers": ["kind"], "age": [40.0]}))
    with pytest.raises(SchemaError, match="column 'tags'"):
        one.fit(texts[:2], [0, 1], pa.table({"tags": [["a"], ["b"]]}))


def test_it_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[text\]'"):
        LogisticClassifier(num_labels=2)
