"""A logistic regression on vectors of texts, with the context beside them: the bar that every text model must pass.

No torch and no tokenizer: TF-IDF's words are what scikit-learn takes for words. It knows neither models nor metrics,
and of the context only the types of its columns. Paper: not there; Wang and Manning (2012) for word bigrams as a strong
baseline.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import log_softmax

from contextual_bert.context import Categorical, canonical_array
from contextual_bert.context.columns import to_numbers
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, did_you_mean
from contextual_bert.nouns import counted
from contextual_bert.places import TablePlace

INVERSE_STRENGTHS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
TFIDF: Mapping[str, Any] = {"ngram_range": (1, 2), "min_df": 2}
MAX_STEPS = 1000  # of the optimiser; scikit-learn's 100 are too few for many n-grams

LabelledPart = tuple[Sequence[str], ArrayLike, pa.Table | None]


class LogisticClassifier:
    """A label for a text from a vector of it, TF-IDF unless another is given, and from the context.

    Formula:
        logits = W [v(text) ; c] + b;  (W, b) = argmin of the sum of cross-entropies + |W|^2 / (2 C)

    Symbols:
        v by default TF-IDF of words and word pairs, with 1 + log of the counts, rows of length 1; C inverse strength of
        the regularisation; c the context: of each column of text one component a value and one for "missing"; each
        number standardised, 0 where it is missing, and a component that says so.

    Shapes:
        texts (rows,); labels (rows,) whole numbers from 0; log-probabilities (rows, num_labels) float64.

    Args:
        num_labels: labels; one that does not occur in training has the probability 0, until a caller mixes shares in.
        inverse_strengths: values of C to choose from on the validation part; one value needs none.
        vectorizer: what makes v of texts, with scikit-learn's ``fit`` and ``transform``; None: TF-IDF. Rows of length 1
            suit the one strength for text and context.

    Raises:
        ConfigurationError: scikit-learn is not installed; fewer than two labels; a strength that is not positive.

    Relation to its siblings:
        ``NgramBag`` is trained by gradient steps as BERT is; this is solved. Labels of texts only, not of words.

    Reference:
        Wang and Manning (2012), "Baselines and Bigrams: Simple, Good Sentiment and Topic Classification".

    Example:
        >>> texts, labels = ["a good coat", "good", "a bad coat", "bad"], [1, 1, 0, 0]
        >>> model = LogisticClassifier(num_labels=2, inverse_strengths=(1.0,)).fit(texts, labels)
        >>> model.log_probabilities(["bad coats", "good coats"]).argmax(axis=1).tolist()
        [0, 1]
    """

    def __init__(
        self, *, num_labels: int, inverse_strengths: Sequence[float] = INVERSE_STRENGTHS, vectorizer: Any = None
    ) -> None:
        try:
            from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (an optional extra)
        except ImportError as error:
            fix = "Install it: pip install 'contextual-bert[text]'."
            raise ConfigurationError("LogisticClassifier needs scikit-learn", fix=fix) from error
        if num_labels < 2:
            raise ConfigurationError("is not allowed", setting="num_labels", value=num_labels, fix="Give 2 or more.")
        if not inverse_strengths or min(inverse_strengths) <= 0:
            raise ConfigurationError(
                "is not allowed",
                setting="inverse_strengths",
                value=tuple(inverse_strengths),
                fix="Give one or more, each above 0.",
            )
        self.num_labels = num_labels
        is_given = vectorizer is not None
        self.vectorizer = vectorizer if is_given else tfidf_vectorizer()
        self.candidates = [LogisticRegression(C=each, max_iter=MAX_STEPS) for each in inverse_strengths]
        self.columns: ContextColumns | None = None
        self.chosen: Any = None

    @property
    def inverse_strength(self) -> float:
        """The C that was chosen."""
        return self._fitted().C

    @property
    def num_weights(self) -> int:
        """Entries of W and b, one row of them for two labels."""
        model = self._fitted()
        return model.coef_.size + model.intercept_.size

    def fit(
        self,
        texts: Sequence[str],
        labels: ArrayLike,
        context: pa.Table | None = None,
        *,
        validation: LabelledPart | None = None,
    ) -> Self:
        """Learn from labelled texts; without a context, none is read later either.

        Args:
            texts: one a row.
            labels: their ids.
            context: a row a text. Columns of numbers are quantities; give a code as text.
            validation: texts, labels and context by whose cross-entropy C is chosen, the strongest of equals.
        """
        if validation is None and len(self.candidates) > 1:
            raise ConfigurationError(
                "There is no validation part to choose among several inverse_strengths by",
                fix="Give validation=(texts, labels, context), or one inverse strength.",
            )
        targets = self._targets(labels, texts)
        if len(np.unique(targets)) < 2:
            raise DataError("all texts have the same label", fix="Give texts of two labels or more to learn from.")
        try:
            self.vectorizer.fit(texts)
        except ValueError as error:
            fix = "Give more texts: words and word pairs count from their second text on."
            raise DataError(f"no word can be learned: {error}", fix=fix) from error
        self.columns = None if context is None else ContextColumns(context)
        inputs = self._inputs(texts, context)
        for candidate in self.candidates:
            candidate.fit(inputs, targets)
        self.chosen = self.candidates[0] if validation is None else self._best(*validation)
        return self

    def log_probabilities(self, texts: Sequence[str], context: pa.Table | None = None) -> NDArray[np.float64]:
        """(rows, num_labels): natural logarithms; -inf for a label that did not occur in training."""
        return self._log_probabilities(self._fitted(), self._inputs(texts, context))

    def _best(self, texts: Sequence[str], labels: ArrayLike, context: pa.Table | None) -> Any:
        targets, inputs = self._targets(labels, texts), self._inputs(texts, context)
        # A label that training lacks is impossible for every candidate alike.
        rows = np.flatnonzero(np.isin(targets, self.candidates[0].classes_))
        if not len(rows):
            raise DataError("no label of the validation part occurs in training", fix="Split the texts at random.")
        gains = [self._log_probabilities(each, inputs)[rows, targets[rows]].mean() for each in self.candidates]
        ranked = sorted(zip(gains, self.candidates, strict=True), key=lambda pair: (-pair[0], pair[1].C))
        return ranked[0][1]

    def _log_probabilities(self, model: Any, inputs: Any) -> NDArray[np.float64]:
        logits = model.decision_function(inputs)
        if logits.ndim == 1:  # scikit-learn gives one logit for two labels
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        found = np.full((len(logits), self.num_labels), -np.inf)
        found[:, model.classes_] = log_softmax(logits, axis=1)
        return found

    def _inputs(self, texts: Sequence[str], context: pa.Table | None) -> Any:
        vectors = sparse.csr_matrix(self.vectorizer.transform(texts))
        if self.columns is None:
            return vectors
        if context is None or context.num_rows != len(texts):
            given = "none" if context is None else counted(context.num_rows, "row")
            raise ConfigurationError(f"a context has a row a text, of {counted(len(texts), 'text')} here; {given} came")
        return sparse.hstack([vectors, self.columns.encode(context)], format="csr")

    def _targets(self, labels: ArrayLike, texts: Sequence[str]) -> NDArray[np.int64]:
        targets = np.asarray(labels)
        if targets.shape != (len(texts),) or targets.dtype.kind not in "iu":
            raise ConfigurationError(
                f"labels have shape {targets.shape} and hold {targets.dtype}",
                fix=f"Give {counted(len(texts), 'whole number')}.",
            )
        is_wrong = (targets < 0) | (targets >= self.num_labels)
        if is_wrong.any():
            row = int(is_wrong.argmax())
            allowed = f"Allowed: 0 to {self.num_labels - 1}; leave out texts without a label."
            raise DataError(f"{targets[row]} is no label", row=row, column="labels", fix=allowed)
        return targets.astype(np.int64)

    def _fitted(self) -> Any:
        if self.chosen is None:
            raise ConfigurationError("This LogisticClassifier has learned nothing yet", fix="Call fit first.")
        return self.chosen


def tfidf_vectorizer() -> Any:
    """Return scikit-learn's TF-IDF of words and word pairs, with 1 + log of the counts, rows of length 1.

    Raises:
        ConfigurationError: scikit-learn is not installed.

    Example:
        >>> tfidf_vectorizer().fit_transform(["a good coat", "good hat"]).shape
        (2, 1)
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415  (an optional extra)
    except ImportError as error:
        fix = "Install it: pip install 'contextual-bert[text]'."
        raise ConfigurationError("TF-IDF needs scikit-learn", fix=fix) from error
    return TfidfVectorizer(**TFIDF, sublinear_tf=True)


def has_common_word(texts: Sequence[str]) -> bool:
    """Return True if a word is in two texts: without one TF-IDF has nothing to learn.

    Example:
        >>> has_common_word(["a good coat", "a bad hat"]), has_common_word(["good hat", "bad hat"])
        (False, True)
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415  (an optional extra)

    words_of, seen = TfidfVectorizer(**TFIDF).build_analyzer(), set[str]()
    for text in texts:
        words = set(words_of(text))
        if words & seen:
            return True
        seen |= words
    return False


class ContextColumns:
    """The columns of a context as sparse numbers, in the way that the table it is made of shows.

    Text, truth values and dates are categories: missing, unknown and each value have a component. Numbers are
    standardised by mean and standard deviation, with a component for missing. A column without values is not read.

    Example:
        >>> columns = ContextColumns(pa.table({"sex": ["f", "m", None], "age": [20, None, 40]}))
        >>> columns.encode(pa.table({"sex": ["m", "x"], "age": [50, None]})).toarray()
        array([[0., 0., 0., 1., 2., 0.],
               [0., 1., 0., 0., 0., 1.]])
    """

    def __init__(self, table: pa.Table) -> None:
        self.categories: list[Categorical] = []
        self.numbers: dict[str, tuple[float, float]] = {}
        for name in table.column_names:
            array = table[name].combine_chunks()
            if pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
                numbers = to_numbers(array, column=name)
                given = numbers[~np.isnan(numbers)]
                if len(given):
                    self.numbers[name] = (float(given.mean()), float(given.std()) or 1.0)
            else:
                distinct = canonical_array(array, column=name).unique().to_pylist()
                values = sorted(value for value in distinct if value is not None and value.strip())
                if values:
                    self.categories.append(Categorical(name="category", source=name, values=tuple(values)))

    def encode(self, table: pa.Table) -> Any:
        """(rows, components), sparse; columns that are not read are left alone."""
        absent = {*(feature.column for feature in self.categories), *self.numbers} - {*table.column_names}
        if absent:
            name = min(absent)
            raise SchemaError(
                f"the context lacks the column {name!r}",
                place=TablePlace(lacking=tuple(sorted(absent))),
                allowed=did_you_mean(name, table.column_names),
            )
        parts = [sparse.csr_matrix((table.num_rows, 0))]
        for feature in self.categories:
            ids = feature.encode(table[feature.column].combine_chunks()).values
            places = (np.ones(len(ids)), ids, np.arange(len(ids) + 1))
            parts.append(sparse.csr_matrix(places, shape=(len(ids), len(feature.vocabulary))))
        for name, (mean, deviation) in self.numbers.items():
            numbers = to_numbers(table[name].combine_chunks(), column=name)
            is_missing = np.isnan(numbers)
            scaled = np.where(is_missing, 0.0, (numbers - mean) / deviation)
            parts.append(sparse.csr_matrix(np.stack([scaled, is_missing], axis=1)))
        return sparse.hstack(parts, format="csr")
