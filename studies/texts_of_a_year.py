"""Sentences drawn under a year and nothing else: from which time do they sound?

A masked language model of State of the Union addresses, told the year alone. Each passage of training hides a share of
its words of its own, 15% to all of them, because a text that is drawn from nothing starts with all words hidden; from
a tenth of the passages the year is left out, which is what guidance needs. The judge is no network: a ridge regression
from the words of training passages to their year. It guesses the year of what was drawn, and of real passages of
addresses that neither has seen, for scale. Results: studies/results/texts-of-a-year.

    python -m studies.texts_of_a_year ../shared/data --checkpoint path/to/MiniLM-L6   # two hours if it has to train

Paper: the slides' Gibbs sampling from BERT as a Markov random field; the context is ours.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from contextual_bert import ContextualBertForMaskedLM, TextSampling, sample_texts
from contextual_bert.atomic_files import replacing_directory
from contextual_bert.evaluation import bootstrap
from contextual_bert.evaluation.tables import Table, render_markdown
from contextual_bert.inference import load_text_model
from contextual_bert.runs import TextModelTask, is_complete, prepare, run
from contextual_bert_cli.failures import in_words
from contextual_bert_cli.output import calm_transformers
from studies.addresses import CONTEXT, TASK
from studies.text_study import task_table

RESULTS = Path(os.path.relpath(Path(__file__).parent / "results" / "texts-of-a-year"))
YEARS = (1800, 1850, 1900, 1950, 2010)
NEAR = 15  # years: real passages of a time
GUIDANCE = (1.0, 2.0, 4.0)
NUM_TOKENS, NUM_WORDS = 24, 20  # of a drawn text, of what the judge reads at once
SHOWN = 3
MASK_RATE, MAX_MASK_RATE = 0.15, 1.0
TRAINING = {
    "num_train_epochs": 6,
    "learning_rate": 3e-4,
    "new_weights_learning_rate": 1e-3,
    "context_learning_rate": 3e-4,
    "context_dropout": 0.1,
}


def prepare_passages(source: Path, folder: Path, checkpoint: str, *, dtype: str) -> TextModelTask:
    """The passages, their split by address and the recipe: the year is all the context."""
    own = TASK.recipe(task_table(TASK, source, folder / "passages"), checkpoint)
    recipe = own.changed(
        max_length=64,
        mask_rate=MASK_RATE,
        max_mask_rate=MAX_MASK_RATE,
        conditioning="global_state_update",
        exclude=tuple(name for name in CONTEXT.values() if name != "year"),
        training=TRAINING,
        dtype=dtype,
    )
    return cast(TextModelTask, prepare(recipe))


def pieces(ready: TextModelTask, part: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Runs of a few words of the passages of a part, and the year of each."""
    chosen = ready.examples.table.take(ready.split.rows(part))
    found = [
        (" ".join(words[start : start + NUM_WORDS]), year)
        for words, year in zip(
            (text.split() for text in chosen.column("text").to_pylist()), chosen.column("year").to_pylist(), strict=True
        )
        for start in range(0, len(words) - NUM_WORDS + 1, NUM_WORDS)
    ]
    return [text for text, _ in found], np.array([year for _, year in found])


def summary(guessed: NDArray[np.float64]) -> dict[str, Any]:
    """The mean of the guesses with its interval over texts."""
    return asdict(bootstrap(guessed, np.arange(len(guessed))))


def share_later(late: NDArray[np.float64], early: NDArray[np.float64]) -> float:
    """Of all pairs, in how many the late text is guessed to be later than the early one; a tie is half."""
    is_late = np.repeat([True, False], [len(late), len(early)])
    return float(roc_auc_score(is_late, np.concatenate([late, early])))


def measure(directory: Path, ready: TextModelTask, *, num_samples: int, num_sweeps: int) -> dict[str, Any]:
    """Guessed years of real and of drawn texts, and the texts."""
    texts, years = pieces(ready, "train")
    judge: Any = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True), Ridge())
    judge.fit(texts, years)
    real, real_years = pieces(ready, "test")
    guessed: NDArray[np.float64] = judge.predict(real)
    is_near = {year: np.abs(real_years - year) <= NEAR for year in YEARS}
    model, processor = load_text_model(directory, ContextualBertForMaskedLM)
    drawn: list[dict[str, Any]] = []
    later = {"real": share_later(guessed[is_near[YEARS[-1]]], guessed[is_near[YEARS[0]]])}
    for guidance in GUIDANCE:
        sampling = TextSampling(num_sweeps=num_sweeps, guidance=guidance)
        guesses: dict[int, NDArray[np.float64]] = {}
        for year in YEARS:
            settings: Any = {"prompt": NUM_TOKENS, "num_samples": num_samples, "sampling": sampling}
            found = sample_texts(model, processor, context={"year": year}, **settings)
            guesses[year] = judge.predict(found)
            drawn.append({"year": year, "guidance": guidance, "guessed": summary(guesses[year]), "texts": found})
            print(f"guidance {guidance:g}, {year}: guessed {guesses[year].mean():.0f}: {found[0]}", flush=True)
        later[f"{guidance:g}"] = share_later(guesses[YEARS[-1]], guesses[YEARS[0]])
    tested = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))["test"]
    return {
        "real": {
            str(year): {"guessed": float(guessed[near].mean()), "addresses": len(set(real_years[near].tolist()))}
            for year, near in is_near.items()
        },
        "error_of_the_judge_years": float(np.abs(guessed - real_years).mean()),
        "drawn": drawn,
        "later": later,
        "num_sweeps": num_sweeps,
        "cross_entropy_nats": tested["metrics"]["cross_entropy_nats"],
        "provenance": tested["provenance"],
    }


def cell(guessed: Mapping[str, Any]) -> str:
    """A year with its interval."""
    return f"{guessed['value']:.0f} [{guessed['low']:.0f}, {guessed['high']:.0f}]"


def markdown(found: Mapping[str, Any]) -> str:
    """The report."""
    by_cell = {(each["year"], each["guidance"]): each for each in found["drawn"]}
    first, last = YEARS[0], YEARS[-1]
    names = [f"drawn, guidance {weight:g}" for weight in GUIDANCE]
    guessed = Table(
        "The year that the judge guesses, mean over texts",
        ("asked for", f"real passages, {NEAR} years around", *names),
        tuple(
            (
                str(year),
                f"{found['real'][str(year)]['guessed']:.0f} ({found['real'][str(year)]['addresses']} addresses)",
                *(cell(by_cell[year, weight]["guessed"]) for weight in GUIDANCE),
            )
            for year in YEARS
        ),
    )
    later = Table(
        f"Pairs of a text of {first} and one of {last} that the judge puts in the right order",
        ("real passages", *names),
        (tuple(f"{100 * share:.1f}%" for share in found["later"].values()),),
    )
    where, nats = found["provenance"], found["cross_entropy_nats"]["value"]
    notes = (
        f"The judge is off by {found['error_of_the_judge_years']:.0f} years on average, on {NUM_WORDS} words of a real "
        "passage, and draws what it is unsure of towards the middle.",
        f"{len(found['drawn'][0]['texts'])} texts of {NUM_TOKENS} tokens each, {found['num_sweeps']} sweeps, "
        "temperature 1. 95% intervals over texts. One model, one seed.",
        f"Of real passages with every token hidden once it has {nats:.3f} nats, a pseudo-perplexity of "
        f"{np.exp(nats):.1f}.",
        f"Commit {where['commit']}, data {where['data_digest']}, {where['hardware']}; "
        "python -m studies.texts_of_a_year DATA --checkpoint BERT.",
    )
    lines = [
        f"{each['year']}, guidance {each['guidance']:g}\n" + "\n".join(f"  {text}" for text in each["texts"][:SHOWN])
        for each in found["drawn"]
        if each["year"] in (first, last)
    ]
    shown = "\n\n".join(["The first texts of each, none chosen:", "```text\n" + "\n".join(lines) + "\n```"])
    return render_markdown("Texts of a year", [guessed, later], notes).rstrip() + f"\n\n{shown}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, draw, judge, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that holds sotu/sotu.parquet")
    parser.add_argument("--checkpoint", required=True, help="folder of a BERT, or its name on the Hub")
    parser.add_argument("--runs", type=Path, default=Path("runs/texts-of-a-year"), help="folder of passages and model")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--num-samples", type=int, default=24, help="texts a year and guidance")
    parser.add_argument("--sweeps", type=int, default=5, help="how often every token is drawn anew")
    parser.add_argument("--dtype", default="auto", help="bfloat16, float32 or auto")
    chosen = parser.parse_args(arguments)
    ready = prepare_passages(chosen.data, chosen.runs, chosen.checkpoint, dtype=chosen.dtype)
    directory = chosen.runs / "model"
    if not is_complete(directory):
        run(ready.recipe, directory, prepared=ready, is_resumed=True)
    found = measure(directory, ready, num_samples=chosen.num_samples, num_sweeps=chosen.sweeps)
    with replacing_directory(chosen.output) as folder:
        (folder / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        (folder / "report.md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))


if __name__ == "__main__":
    calm_transformers()
    with in_words():
        main()
