"""Numbers read out digit by digit, as the listener's country does: encoder-decoders with attention and without.

20,000 numbers of 1 to 40 digits. In Britain a zero is "oh" and two of the same digit are "double"; in the USA each
digit is read. Rows: Transformer encoder and decoder; GRUs in both directions with each recurrent decoder, one of which
has no attention and knows the number by one vector alone; a decoder that is not told the country; and one on a
Transformer encoder. A number counts where all of it is written right. The attention of one reading is drawn. Results:
studies/results/numbers-read-out; what they say: docs/guides/text-studies.md.

    python -m studies.numbers_read_out             # three hours on one core
    python -m studies.numbers_read_out --rows gru_luong,gru
    python -m studies.numbers_read_out --epochs 2  # a look at it

Paper: not there. The decoders: Sutskever et al. (2014), Bahdanau et al. (2015), Luong et al. (2015), Vaswani et al.
(2017).
"""

import argparse
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contextual_bert.atomic_files import replacing_file
from contextual_bert.evaluation import Interval, TextPredictions, bootstrap, metric_of, write_study
from contextual_bert.evaluation.metrics import EXACT_TEXT
from contextual_bert.evaluation.tables import Table, interval_cell, render_markdown
from contextual_bert.runs import named_rows, prepare
from contextual_bert.runs.model_inspection import inspect_model
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.runs.study_report import Peers, study
from contextual_bert.runs.sweep import run_directory
from contextual_bert.training import Recipe, TextToText
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers

RESULTS = Path(__file__).parent / "results" / "numbers-read-out"
NUM_PAIRS, LONGEST = 20_000, 40
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
REPEATED = {1: "", 2: "double ", 3: "triple "}
COUNTRIES = ("GB", "US")
EPOCHS, METHOD = 15, "global_state_update"
SHOWN = "4170055293"  # whose attention is drawn
ATTENTION_FILE, LENGTHS_FILE = "attention.png", "lengths.md"
RANGES = ((1, 10), (11, 20), (21, 30), (31, 39), (40, 40), (1, 40))  # of digits


def read_out(digits: str, country: str) -> str:
    """Return a number in words.

    Example:
        >>> read_out("40077", "US"), read_out("40077", "GB"), read_out("1222", "GB")
        ('four zero zero seven seven', 'four double oh double seven', 'one triple two')
    """
    if country == "US":
        return " ".join(NAMES[int(digit)] for digit in digits)
    words: list[str] = []
    for digit, run in groupby(digits):
        left, name = len([*run]), "oh" if digit == "0" else NAMES[int(digit)]
        while left:
            taken = min(left, 3)
            words.append(f"{REPEATED[taken]}{name}")
            left -= taken
    return " ".join(words)


def pairs(*, num_pairs: int = NUM_PAIRS, longest: int = LONGEST, seed: int = 0) -> pa.Table:
    """Return numbers, how they are read out, and where: as many of each length."""
    numbers = np.random.default_rng(seed)
    digits = ["".join(map(str, numbers.integers(0, 10, 1 + row % longest))) for row in range(num_pairs)]
    countries = numbers.choice(COUNTRIES, num_pairs).tolist()
    words = [read_out(*each) for each in zip(digits, countries, strict=True)]
    return pa.table({"number": digits, "words": words, "country": countries})


def rows(table: Path, *, epochs: int) -> dict[str, Recipe]:
    """Row -> recipe: each decoder, one under no context, and one on another encoder."""
    task = TextToText(text="number", target="words", max_length=128, vocab_size=400)
    base = Recipe(data=str(table), task=task, training={"num_train_epochs": epochs}, conditioning=METHOD)
    recurrent = {
        name: base.changed(name=name, model={"decoder_type": name, "backbone": "bigru"})
        for name in ("gru_luong", "gru", "gru_bahdanau")
    }
    every = (
        *recurrent.values(),
        base.changed(name="transformer", model={"decoder_type": "transformer"}),
        recurrent["gru_luong"].changed(name="gru_luong_no_context", conditioning="none"),
        base.changed(name="gru_luong_on_transformer", model={"decoder_type": "gru_luong"}),
    )
    return {recipe.label: recipe for recipe in every}


def exact_by_length(folder: Path, lengths: np.ndarray[Any, Any]) -> list[Interval]:
    """Return the share of numbers written right, in percent, by the number of digits, and of all.

    Args:
        folder: of a run.
        lengths: of each row of the table.
    """
    found = cast(TextPredictions, load_scores(folder / SCORES_FILE)[0].predictions)
    own, exact = lengths[found.example_id], 100 * found.exact_text
    parts = [(own >= first) & (own <= last) for first, last in RANGES]
    return [bootstrap(exact[part], found.example_id[part]) for part in parts]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, write the report, the table by length and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="separated by commas; all of them if left out")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--pairs", type=int, default=NUM_PAIRS, help="numbers in all")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of data, runs and report")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    path = chosen.output / "data" / "pairs.parquet"
    path.parent.mkdir(exist_ok=True)
    table = pairs(num_pairs=chosen.pairs)
    with replacing_file(path) as partial:
        pq.write_table(table, partial)
    every = rows(path, epochs=chosen.epochs)
    recipes = [*named_rows(every, chosen.rows.split(",") if chosen.rows else [*every]).values()]
    title, folder = "Numbers read out as the country does", chosen.output / "runs"
    peers = Peers(reference=recipes[0].label)
    found = study(title, recipes, folder, prepared=prepare(recipes[0]), peers=peers)
    write_study(found, chosen.output)
    lengths = np.array([len(each) for each in table.column("number").to_pylist()])
    form = metric_of(EXACT_TEXT)
    lines = [
        (recipe.label, *(interval_cell(each, form) for each in exact_by_length(run_directory(folder, recipe), lengths)))
        for recipe in recipes
    ]
    header = ("row", *(f"{first} to {last} digits" if first != last else f"{last} digits" for first, last in RANGES))
    report = render_markdown(title, [Table("Numbers that are written right, in percent", header, tuple(lines))], ())
    (chosen.output / LENGTHS_FILE).write_text(report, encoding="utf-8")
    print(report)
    shown = next((each for each in recipes if each.label == "gru_luong"), None)
    if shown is not None:
        run = run_directory(folder, shown)
        maps = inspect_model(run, {"text": SHOWN, "context": {"country": "GB"}}).cross_maps
        assert maps is not None
        with replacing_file(chosen.output / ATTENTION_FILE) as partial:
            partial.write_bytes(maps.to_png())


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
