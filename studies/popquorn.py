"""Offensiveness as a reader sees it: POPQUORN's grades of a comment, given who reads it.

No comment of the test is in training; its reader may be known from other comments. Pei and Jurgens (2023).

    python -m studies.popquorn --data DATA --checkpoint BERT --output studies/results/offensiveness-small
"""

from pathlib import Path

import pyarrow as pa

from contextual_bert.baselines.names import CONTEXT_AS_TEXT, LOGISTIC
from contextual_bert.data import read_table
from contextual_bert.training import Classification
from contextual_bert.training.recipe import Recipe
from studies.cards import TaskCard
from studies.commands import run_command, text_command
from studies.text_grid import (
    ATTENTION_BIAS,
    ATTRIBUTE_TRAINING,
    LABEL_BASELINES,
    METHODS,
    REVIEW_BASELINES,
    SEGMENTED,
    SHUFFLED,
    RowSettings,
    with_one_new_block,
)
from studies.text_study import TextBenchmark, TextSize, required

FILE = "popquorn/offensiveness.parquet"
DIGEST = "8aa296aa3c4056007b2f569aba9504270a2d4ec26ececceeb53a7da8fa890ea2"
DEMOGRAPHICS = ("gender", "race", "age", "occupation", "education")
TEXT, READER, COMMENT, GRADE = "text", "user_id", "instance_id", "offensiveness"
POPULARITY = ("popularity", "context_popularity")
CONTROLS = (ATTENTION_BIAS, "bert_concat_word", "bert_concat_text")
MAIN = ("none", "global_state_update", "multi_attribute", "global_state_update_shuffled")
# Chosen on the validation part with `global_state_update`, seed 0, see docs/log.md; every method has the same, but for
# what hardly leaves its start at these rates: MA-BERT's vectors of the features, and one layer on a frozen BERT. Theirs
# were chosen with themselves.
TRAINING = {"num_train_epochs": 3, "learning_rate": 5e-5, "new_weights_learning_rate": 2e-4}
ROWS: dict[str, RowSettings] = {
    **{name: {"training": ATTRIBUTE_TRAINING} for name in ("multi_attribute", SHUFFLED, ATTENTION_BIAS)},
    "bert_concat_text": {"training": {"learning_rate": 3e-3}},
}
SIZES = {
    "small": TextSize(
        seeds={
            **dict.fromkeys((*MAIN, CONTEXT_AS_TEXT, *POPULARITY, "bilstm_context", *REVIEW_BASELINES, *SEGMENTED), 3),
            **dict.fromkeys((*CONTROLS, *LOGISTIC), 1),
        },
        training=TRAINING,
        max_length=64,
        row_settings=with_one_new_block(ROWS),
    ),
    "full": TextSize(
        seeds={
            **dict.fromkeys((*METHODS, "global_state_update_shuffled", *CONTROLS), 3),
            **dict.fromkeys((CONTEXT_AS_TEXT, *POPULARITY, *LABEL_BASELINES), 3),
            **dict.fromkeys(LOGISTIC, 1),
        },
        training=TRAINING,
        max_length=160,
        row_settings=ROWS,
    ),
}


def read(source: Path, folder: Path) -> pa.Table:
    """The ratings, with grades as whole numbers and readers and comments as names."""
    path = source / FILE
    table = required(read_table(path), (TEXT, COMMENT, GRADE, READER, *DEMOGRAPHICS), file=path)
    for name, column in (
        (GRADE, table.column(GRADE).cast(pa.int64())),
        (READER, table.column(READER).cast(pa.string())),
        (COMMENT, table.column(COMMENT).cast(pa.string())),
    ):
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def card(name: str, split: str, context: tuple[str, ...]) -> TaskCard:
    """Return the card of the study, split by text or by reader."""
    return TaskCard(
        name=name,
        title=f"How offensive a comment is to its reader (POPQUORN), {split.split(':')[0]}",
        description=(
            "A comment is graded from 1 to 5 by the person who reads it; the context is that person: gender, race, "
            "age, occupation, education, and by text also who it is. About nine readers grade each comment, and differ."
        ),
        context=context,
        licence="open data of its authors",
        citation="Pei and Jurgens (2023), 'When Do Annotator Demographics Matter?', LAW-XVII",
        split=split,
        main_metric="cross_entropy_nats",
        data_digest=DIGEST,
    )


def by_text(table: Path, checkpoint: str) -> Recipe:
    """No comment of the test is in training."""
    return Recipe(
        data=str(table), task=Classification(checkpoint=checkpoint, text=TEXT, label=GRADE), customer=COMMENT, test=0.2
    )


TASK = TextBenchmark(
    card=card(
        "offensiveness", "by text: no comment of the test is in training, its readers may be", (*DEMOGRAPHICS, READER)
    ),
    read=read,
    recipe=by_text,
    sizes=SIZES,
)


if __name__ == "__main__":
    run_command(text_command(TASK))
