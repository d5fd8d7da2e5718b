"""Answers of ``complete`` for people: tables on standard output, sentences beside them."""

from typing import TYPE_CHECKING

from contextual_bert.nouns import counted
from contextual_bert_cli.output import remark, remark_unknown, show

if TYPE_CHECKING:
    from contextual_bert.inference import Answer, JointAnswer


def show_answer(answer: "Answer", *, num_items: int) -> None:
    """A table of candidates for each [MASK], then in words what the model did not know."""
    from contextual_bert.evaluation.tables import Table

    for slot in answer["slots"]:
        rows = tuple(
            (str(rank), each["item"], f"{each['probability']:.2%}") for rank, each in enumerate(slot["candidates"], 1)
        )
        title = f"{', '.join(answer['items'])}: item {slot['position'] + 1}, the best {len(rows)} of "
        is_limited = bool(set(slot["removed"]) - {"repeats"})
        title += counted(slot["num_permitted"], "permitted item") if is_limited else counted(num_items, "item")
        show(Table(title, ("rank", "item", "probability"), rows, num_label_columns=2))
        if is_limited:
            remark(
                f"Probabilities are among the permitted items; the model gives {slot['excluded_probability']:.2%} "
                f"to the {num_items - slot['num_permitted']:,} others."
            )
    show_remarks(answer)


def show_joint_answer(answer: "JointAnswer") -> None:
    """A table of whole sets, then in words how they were found and what the model did not know."""
    from contextual_bert.evaluation.tables import Table

    found = answer["completions"]
    rows = tuple(
        (
            str(rank),
            ", ".join(each["filled"]),
            f"{each['log_probability']:.2f}",
            "" if each["probability"] is None else f"{each['probability']:.2%}",
            f"{each['pseudo_log_likelihood']:.2f}",
            "" if each["price"] is None else f"{each['price']:.2f}",
        )
        for rank, each in enumerate(found, 1)
    )
    headings = ("rank", "items", "log-probability", "probability", "pseudo-log-likelihood", "price")
    title = f"{', '.join(answer['items'])}: the best {len(rows)} sets"
    show(Table(title, headings, rows, num_label_columns=2))
    passes = f"{answer['num_forward_passes']:,} forward passes"
    if answer["excluded_probability"] is None:
        remark(f"{answer['method']}, {passes}: there may be better sets.")
    else:
        remark(
            f"{answer['method']}, {passes}: probabilities are among all permitted sets; the model gives "
            f"{answer['excluded_probability']:.2%} to the others."
        )
    show_remarks(answer)


def show_remarks(answer: "Answer | JointAnswer") -> None:
    """In words what the model did not know, and notes."""
    strangers = answer["unknown_items"]
    if strangers:
        remark(f"unknown items, of which the model knows only that something is there: {', '.join(strangers)}")
    remark_unknown(answer["unknown_context"])
    remark(*answer["notes"])
