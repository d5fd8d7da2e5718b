"""Offensiveness as readers see it of whom only the demographics are known: POPQUORN, split by reader.

No reader of the test is in training; its comments are. Pei and Jurgens (2023).

    python -m studies.popquorn_readers --data DATA --checkpoint BERT --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from contextual_bert.baselines.names import LOGISTIC
from contextual_bert.training import Classification, Recipe
from studies.commands import run_command, text_command
from studies.popquorn import COMMENT, DEMOGRAPHICS, GRADE, MAIN, POPULARITY, READER, TEXT, card, read
from studies.popquorn import SIZES as SIZES_BY_TEXT
from studies.text_grid import FIELD_DROPOUT
from studies.text_study import TextBenchmark

# Of readers never seen, their demographics mislead a model that has them whole in every example, see docs/log.md: what
# there is to compare is a model that was told less.
SIZES = {
    "small": replace(
        SIZES_BY_TEXT["small"],
        seeds={**dict.fromkeys((*MAIN, FIELD_DROPOUT, *POPULARITY), 3), **dict.fromkeys(LOGISTIC, 1)},
    ),
    "full": replace(SIZES_BY_TEXT["full"], seeds={**SIZES_BY_TEXT["full"].seeds, FIELD_DROPOUT: 3}),
}


def by_reader(table: Path, checkpoint: str) -> Recipe:
    """No reader of the test is in training, so who they are is no feature."""
    return Recipe(
        data=str(table),
        task=Classification(checkpoint=checkpoint, text=TEXT, label=GRADE),
        customer=READER,
        exclude=(COMMENT,),
        min_customers=1,  # published data: small groups of readers are what the study is about
        test=0.2,
    )


TASK = TextBenchmark(
    card=card(
        "offensiveness-readers", "by reader: no reader of the test is in training, its comments are", DEMOGRAPHICS
    ),
    read=read,
    recipe=by_reader,
    sizes=SIZES,
)


if __name__ == "__main__":
    run_command(text_command(TASK))
