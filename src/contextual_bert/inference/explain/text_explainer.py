"""Why this label? Which fields of the context, and which words, made a label of a text as probable as it is.

Every number is the model's own prediction for another question: with fewer fields, with another value, with a word
hidden. So only models that were trained with `field_dropout` are explained. Paper: not there; docs/decisions/013.
"""

from collections.abc import Iterator

import numpy as np
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.capabilities import why_no_text_explanation
from contextual_bert.inference.explain.contributions import (
    field_contributions,
    notes_on_fields,
    other_contexts,
    probability_of,
)
from contextual_bert.inference.explain.shapley import MAX_EXACT_FIELDS
from contextual_bert.inference.explain.text_explanation import TextCounterfactual, TextExplanation, WordContribution
from contextual_bert.inference.explain.text_question import TextQuestion
from contextual_bert.inference.queries import check_count, check_seed
from contextual_bert.inference.texts.text_pipeline import TextPipeline
from contextual_bert.inference.texts.text_queries import TextQuery


def explain_text(
    pipeline: TextPipeline,
    query: TextQuery,
    *,
    label: str | None = None,
    max_exact_fields: int = MAX_EXACT_FIELDS,
    num_pairs: int = 64,
    seed: int = 0,
    batch_size: int = 64,
) -> TextExplanation:
    """Why a label is as probable for a text as it is: by field, by word, and what others would get.

    A field counts by its Shapley value for the log-odds of the label, as ``explain`` says it of items. The model must
    have been trained with ``field_dropout``. A word counts by the fall of the log-odds when it is hidden. All its
    tokens become [MASK], or the unknown token where there is no [MASK].

    Args:
        pipeline: of a run that gives texts one label, a grade, or several labels.
        query: as the pipeline takes it, guidance too.
        label: what to explain; None: the likeliest one.
        max_exact_fields: with so many given fields or fewer, all their subsets are asked for.
        num_pairs: with more, so many orders are drawn and taken forwards and backwards.
        seed: of these.
        batch_size: questions a forward pass.

    Raises:
        ConfigurationError: the model gives no labels, reads no context, or was never shown one with fields absent;
            settings that cannot work.
        DataError, UnknownNameError: a faulty query, or a label that the model does not know.

    Relation to its siblings:
        ``explain`` does the same for an item of a set. Fields are asked for by the same code.

    Reference: Zeiler and Fergus (2014), "Visualizing and Understanding Convolutional Networks", for occlusion;
    docs/decisions/013.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> pipeline = TextPipeline(ContextualBertForSequenceClassification(config), miniature_text_processor())
        >>> explain_text(pipeline, {"text": "word1"})
        Traceback (most recent call last):
        contextual_bert.errors.ConfigurationError: This model was trained with conditioning='none' and reads no ...
    """
    if (reason := why_no_text_explanation(pipeline)) is not None:
        raise ConfigurationError(reason)
    check_count("batch_size", batch_size)
    check_seed(seed)
    asked = TextQuestion(pipeline, query, batch_size=batch_size)
    [own] = asked.answers(asked.context)
    best = int(own[0].argmax())
    chosen = asked.place_of(label) if label is not None else best
    features = asked.given_features()
    how = {"max_exact": max_exact_fields, "num_pairs": num_pairs, "seed": seed}
    shares, fields = field_contributions(asked, chosen, features, **how)
    words = tuple(contributions_of_words(asked, chosen, full=shares.whole))
    return TextExplanation(
        label=asked.names[chosen],
        best_label=asked.names[best],
        probability=probability_of(shares.whole),
        anonymous_probability=probability_of(shares.empty),
        full_log_odds=shares.whole,
        base_log_odds=shares.empty,
        fields=fields,
        words=words,
        hidden_as=pipeline.processor.tokenizer.convert_ids_to_tokens(asked.hiding_token) if words else None,
        counterfactuals=tuple(label_counterfactuals(asked, chosen)),
        is_exact=shares.is_exact,
        num_subsets=shares.num_coalitions,
        notes=tuple(label_notes(asked)),
    )


def contributions_of_words(asked: TextQuestion, chosen: int, *, full: float) -> Iterator[WordContribution]:
    """Yield the contribution of each word that is read; none where no token hides a word."""
    token = asked.hiding_token
    words, word_at = asked.words()
    if token is None or not words:
        return
    is_hidden = word_at == np.arange(len(words))[:, None]
    without = asked.log_odds(chosen, asked.repeated(len(words)), np.where(is_hidden, token, asked.tokens))
    for word, value in zip(words, without.tolist(), strict=True):
        said = asked.texts[word.key][word.start : word.end]
        yield WordContribution(word.key, said, word.start, word.end, full - value)


def label_counterfactuals(asked: TextQuestion, chosen: int) -> Iterator[TextCounterfactual]:
    """Yield what each other value of a field with a list of values or bins would get."""
    if (others := other_contexts(asked)) is None:
        return
    shares = torch.cat([asked.probabilities(logits) for logits in asked.answers(others.context)])
    best = zip(*(each.tolist() for each in shares.max(dim=1)), shares[:, chosen].tolist(), strict=True)
    for (field, value), (probability, place, mine) in zip(others.changes, best, strict=True):
        yield TextCounterfactual(field, value, asked.names[int(place)], probability, mine)


def label_notes(asked: TextQuestion) -> Iterator[str]:
    """Yield notes on the numbers for the reader."""
    features, verdicts = asked.given_features(), asked.pipeline.verdicts
    [answer] = asked.pipeline([asked.request])
    yield from verdicts.notes(feature.name for feature in features) if verdicts is not None else ()
    yield from answer["notes"]
    yield from notes_on_fields(asked, features, answer["unknown_context"])
    if asked.pipeline.model.config.has_context_as_text:
        yield "The context is read as words, so what others would get was not asked."
    if asked.hiding_token is None:
        yield "No token hides a word from this model, so what words did was not asked."
