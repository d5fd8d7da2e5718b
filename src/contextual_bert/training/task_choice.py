"""Choose the task that a kind names, or that settings on texts describe: with an answer, a label, or hidden words."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from contextual_bert.errors import ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.training.tasks import (
    TASK_SETTINGS,
    TEXT_TASKS,
    AnyTextTask,
    BidirectionalText,
    CausalText,
    Classification,
    ContrastiveText,
    MaskedText,
    NextSentence,
    QuestionAnswering,
    TaskSettings,
    TextToText,
)

OBJECTIVES: Mapping[str, type[AnyTextTask]] = {
    "masked": MaskedText,
    "causal": CausalText,
    "next_sentence": NextSentence,
    "bidirectional": BidirectionalText,
    "contrastive": ContrastiveText,
}


_OF_LABELS = (
    "is_ordinal",
    "order",
    "is_multi_label",
    "is_regression",
    "number_bins",
    "separator",
    "class_weights",
    "label_start",
    "long_documents",
)


def settings_of_kind(kind: object) -> type[TaskSettings]:
    """Return the class of a kind of task.

    Raises:
        UnknownNameError: no task is called so.

    Example:
        >>> settings_of_kind("tagging").__name__
        'Tagging'
    """
    if not isinstance(kind, str) or kind not in TASK_SETTINGS:
        raise UnknownNameError(f"No task {kind!r}", allowed=did_you_mean(str(kind), TASK_SETTINGS))
    return TASK_SETTINGS[kind]


def task_on_texts(**given: Any) -> AnyTextTask:
    """Return the task that settings on texts describe: with an answer, a target, a label, or with hidden words.

    Args:
        **given: fields of the tasks on texts.

    Raises:
        ConfigurationError: settings of two tasks, or one without what it is for.

    Example:
        >>> task_on_texts(checkpoint="bert-base-uncased", text="review", label="stars").kind
        'classification'
        >>> task_on_texts(checkpoint="bert-base-uncased").kind, task_on_texts(objective="causal").kind
        ('masked_text', 'causal_text')
    """
    objective = given.pop("objective", None)
    if objective is not None and objective not in OBJECTIVES:
        raise UnknownNameError(f"No objective {objective!r}", allowed=did_you_mean(str(objective), OBJECTIVES))
    is_asked = [name for name in ("question", "answer", "answer_start") if given.get(name) is not None]
    if is_asked:
        _check_question(given, is_asked)
        kind: type[AnyTextTask] = QuestionAnswering
    elif given.get("target") is not None:
        kind = TextToText
    else:
        kind = Classification if given.get("label") is not None else OBJECTIVES[objective or "masked"]
    if objective is not None and kind not in OBJECTIVES.values():
        _refuse({"objective": objective}, given)
    if kind is ContrastiveText and given.get("pair") is None:
        raise ConfigurationError(
            Message("is missing, and with {objective} texts find documents", objective=objective),
            setting="pair",
            fix="Name the column of the documents, one a text.",
        )
    own = {each.name: each for each in fields(kind) if each.init}
    given |= {"objective": objective} if "objective" in own else {}
    known = {each.name: each for other in TEXT_TASKS for each in fields(other) if each.init}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"No setting {name!r} of a task on texts", allowed=did_you_mean(name, known))
    foreign = {name: value for name, value in given.items() if name not in own and not _is_default(known[name], value)}
    if foreign:
        _refuse(foreign, given)
    return kind(**{name: value for name, value in given.items() if name in own})


def _is_default(setting: Any, value: object) -> bool:
    default = None if setting.default is MISSING else setting.default
    return value is None or value == default or (value == [] and default == ())


def _check_question(given: Mapping[str, Any], is_asked: list[str]) -> None:
    """Raise ConfigurationError where what is said of questions does not go together."""
    for needed in ("question", "answer"):
        if needed not in is_asked:
            raise ConfigurationError(
                f"needs a column of {needed}s beside it",
                setting=is_asked[0],
                value=given[is_asked[0]],
                fix=Message(f"Name it with {{{needed}}}.", **{needed: ...}),
            )
    if given.get("truncation") not in (None, "head"):
        raise ConfigurationError(
            "is not allowed: the text of a question is read in windows, and nothing is cut",
            setting="truncation",
            value=given["truncation"],
            fix="Leave it out.",
        )
    misplaced = [name for name in ("label", "pair") if given.get(name) is not None]
    if misplaced:
        raise ConfigurationError(
            "is not allowed: answers to questions are learned without",
            setting=misplaced[0],
            value=given[misplaced[0]],
            fix="Leave it out, or question and answer.",
        )


def _refuse(foreign: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for settings of another task than the one that is described."""
    name = next(iter(foreign))
    if name == "label" and given.get("target") is not None:
        raise ConfigurationError(
            Message("is not allowed: texts are written for {target}", target=given["target"]),
            setting="label",
            value=foreign["label"],
            fix="Leave one of the two out.",
        )
    has_other = given.get("target") is not None  # beside which no label can be named
    fix = "Leave it out." if has_other else Message("Name the column with {label}.", label=...)
    if name in _OF_LABELS:
        raise ConfigurationError(
            "is for labels, and none is named",
            setting=name,
            value=list(foreign[name]) if name == "order" else foreign[name],
            fix=fix,
        )
    if name == "pair":
        raise ConfigurationError(
            "needs a label to learn",
            setting="pair",
            value=foreign[name],
            fix=fix
            if has_other
            else Message(
                "Name the column with {label}. For documents that vectors of the texts are to find, give {objective}.",
                label=...,
                objective="contrastive",
            ),
        )
    if name == "elmo":
        raise ConfigurationError(
            "is read by what learns labels, and none is named",
            setting="elmo",
            value=foreign["elmo"],
            fix="Leave it out."
            if has_other
            else Message("Name their column with {label}, or leave it out.", label=...),
        )
    learned = next((field for field in ("answer", "target", "label") if given.get(field) is not None), "objective")
    value = given.get(learned) or "masked"
    what = {
        "objective": "is for the texts themselves",
        "target": "is for texts to be written",
        "vocab_size": "is for a tokenizer that is trained",
        "temperature": "is for texts and documents",
    }
    if value == "next_sentence":  # which has hidden tokens, too
        what |= {"phrases": "is for whole texts", "truncation": "is for whole texts"}
    raise ConfigurationError(
        Message(f"{what.get(name, 'is for hidden tokens')}, and {{{learned}}} is learned", **{learned: value}),
        setting=name,
        value=foreign[name],
        fix="Leave one of the two out.",
    )
