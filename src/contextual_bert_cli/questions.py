"""``predict`` for models that answer questions: questions, texts and contexts in, pieces of the texts out."""

from textwrap import shorten
from typing import TYPE_CHECKING, Any, cast

from contextual_bert_cli.output import remark, remark_unknown, show, show_json, working
from contextual_bert_cli.records import at_options

if TYPE_CHECKING:
    from contextual_bert import QuestionAnsweringPipeline
    from contextual_bert.inference import TextSpan
    from contextual_bert.training import AnyTextTask

# Key of a query about a text -> the option that gives it.
QUERY_OPTIONS = {"text": "--text", "pair": "--pair", "question": "--question"}
SHOWN_BESIDE = 60  # characters of the text on both sides of an answer


def check_question(task: "AnyTextTask | None", given: dict[str, Any]) -> bool:
    """Return True if the options ask a question.

    Args:
        task: what the run learned; None for a folder without a recipe, which does not say it.
        given: option -> its value, of those that go with a question or not.

    Raises:
        ConfigurationError: a run that learned no answers is asked a question, or one that did is asked none; an option
            that does not go with it.
    """
    from contextual_bert.errors import ConfigurationError

    asked = [option for option in ("--question", "--question-column") if given[option] is not None]
    is_answering = bool(asked) if task is None else task.answer is not None
    if asked and not is_answering:
        raise ConfigurationError("The run was not trained to answer questions", fix=f"Leave {asked[0]} out.")
    if not is_answering:
        return False
    if given["--text"] is not None and given["--question"] is None:
        raise ConfigurationError("The run answers questions about texts", fix="Give one with --question.")
    astray = [option for option in ("--pair", "--pair-column", "--truncation") if given[option] is not None]
    if astray:
        raise ConfigurationError(f"{astray[0]} is not for questions, whose texts are read whole", fix="Leave it out.")
    return True


def answer_query(pipeline: "QuestionAnsweringPipeline", query: dict[str, Any], *, output_format: str) -> None:
    """Answer one question and print it."""
    with working("answering"), at_options(QUERY_OPTIONS):
        span = cast("TextSpan", pipeline(query))
    if output_format == "json":
        show_json(span, indent=1)
    else:
        show_span(span, query)


def show_span(span: "TextSpan", query: dict[str, Any]) -> None:
    """The answer, where it stands, and how likely it and no answer are."""
    from contextual_bert.evaluation.tables import Table, render_rich

    text, start, end = query["text"], span["start"], span["end"]
    before = ("..." if start > SHOWN_BESIDE else "") + text[max(0, start - SHOWN_BESIDE) : start]
    behind = text[end : end + SHOWN_BESIDE] + ("..." if len(text) > end + SHOWN_BESIDE else "")
    rows = (
        (span["answer"] or "(nothing)", f"{span['probability']:.2%}"),
        ("no answer", f"{span['no_answer_probability']:.2%}"),
    )
    show(render_rich(repr(shorten(query["question"], 80)), [Table("", ("answer", "probability"), rows)], ()))
    remark(f"{before}[{span['answer']}]{behind}".replace("\n", " "))
    remark_unknown(span["unknown_context"])
    remark(*span["notes"])
