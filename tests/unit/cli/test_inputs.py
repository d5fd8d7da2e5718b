"""A path, a word or a column that does not exist is told before numpy's models, torch and transformers are loaded.

All commands and their options are gone through as typer has them, so a new option is tried without a line here.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main

from contextual_bert.json_text import json_text
from contextual_bert.manifest import write_manifest
from contextual_bert.training import Classification, ContrastiveText, MaskedText, Recipe, SetCompletion
from contextual_bert.training.tasks import TaskSettings
from contextual_bert_cli.main import app

METHOD = " --conditioning cnn"  # which needs no checkpoint
SETS, TEXTS = "sets.csv --items items", f"texts.csv --text text --label label{METHOD}"
CONTEXT = "--context {}"
# Command -> what it needs besides an option.
BASES: Mapping[str, str] = {
    "inspect": f"{SETS} --output schema.json",
    "split": f"{SETS} --by who --output new-split.json",
    "train": f"{SETS} --output new",
    "compare": f"{SETS} --output new",
    "evaluate": "runs/sets",
    "calibrate": "runs/sets",
    "importance": "runs/sets",
    "explain": f"runs/sets --set a {CONTEXT}",
    "similar": "runs/sets --item a",
    "vectors": "runs/sets --output new.parquet",
    "index": "runs/sets",
    "publish": "runs/sets a/b --dry-run",
    "forget": "runs/sets --customer 1 --dry-run",
    "tune": "sets.csv --items items --search learning_rate=1e-4..1e-2 --output new",
    "export": "runs/sets --output new",
    "complete": "runs/sets --set a",
    "serve": "runs/sets",
    "predict": "runs/texts --text a",
    "embed": "runs/vectors --text a",
    "sample": "runs/words",
    "generate": "runs/writing",
    "inspect-model": "runs/sets --set a",
    "parameters": "",
    "catalogue add": "runs/sets --catalogue sets.csv --output new",
    "catalogue update": "runs/sets --catalogue sets.csv --output new",
    "catalogue remove": "runs/sets --item a --output new",
    "histories": "--log sets.csv --user who --item items --time season --output new.parquet",
    "world generate": "--output new",
    "world oracle": "world",
}
# Option -> what it goes with, in place of the command's own.
BESIDE: Mapping[str, str] = {
    "--time": f"{SETS} --split-by time",
    "--answer": "texts.csv --text text --question who --checkpoint bert",
    "--question": "texts.csv --text text --answer text --checkpoint bert",
    "--answer-start": "texts.csv --text text --question who --answer label --checkpoint bert",
    **dict.fromkeys(("--label", "--pair", "--truncation"), TEXTS),
    "--text": f"texts.csv --label label{METHOD}",
    **dict.fromkeys(("--masking", "--phrases"), "texts.csv --text text --checkpoint bert"),
    "--checkpoint": "texts.csv --text text --label label",
}
OF_COMMAND: Mapping[str, str] = {
    "complete --data": "runs/sets --output new",
    "complete --input": "runs/sets",
    "similar --input": "runs/sets",
    "complete --method": "runs/sets --set a --joint",
    **{
        f"complete {each}": "runs/sets --data sets.csv --output new"
        for each in ("--items", "--group-by", "--order", "--keep")
    },
    "predict --data": "runs/texts --output new.csv",
    **{
        f"predict {each}": "runs/texts --data texts.csv --output new.csv" for each in ("--text-column", "--pair-column")
    },
    "embed --data": "runs/vectors --output new.parquet",
    "embed --text-column": "runs/vectors --data texts.csv --output new.parquet",
    "predict --question-column": "runs/texts --data texts.csv --output new.csv",
    **{
        f"{name} {each}": "runs/sets --data sets.csv"
        for name in ("evaluate", "importance")
        for each in ("--items", "--order")
    },
    "catalogue remove --catalogue": "runs/sets --output new",
    **{f"split {each}": f"{SETS} --output new-split.json" for each in ("--by", "--by-time", "--by-column")},
}
# Names of items and of methods, addresses, and what is written: no path, word or column that has to be there.
OTHERS = frozenset(
    {
        *("--output", "--allow", "--deny", "--owned", "--drop-items", "--drop-prefixes", "--where", "--ray-address"),
        *(
            "--override",
            "--missing-value",
            "--item",
            "--host",
            "--allow-host",
            "--allow-origin",
            "--order",
            "--times",
            "--one-per",
        ),
        # Words or numbers; they belong to the table that is read.
        *("--scored-tokens", "--item"),
    }
)
WRONG = {
    "FILE": "no-such-file.csv",
    "RUN": "no-such-run",
    "RUN...": "no-such-run",
    "BERT": "./no-such-bert",
    "METHOD": "no_such_method",
}
RUN = """
import shlex, sys
from contextual_bert_cli.main import app
for command in sys.argv[1:]:
    before = {*sys.modules}
    try:
        app(shlex.split(command), standalone_mode=False)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = f"{type(error).__name__}: {error}"
    else:
        code = 0
    heavy = [each for each in ("torch", "transformers", "pandas", "matplotlib") if each in sys.modules]
    print("ended", code, *heavy, "after", command, file=sys.stderr)
    if heavy:
        break
"""


def options() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(app)
    for name in group.commands:
        command = group.commands[name]
        for inner, each in getattr(command, "commands", {"": command}).items():
            for parameter in each.params:
                yield f"{name} {inner}".strip(), parameter


def wrong_commands() -> list[str]:
    found: list[str] = []
    for name, parameter in options():
        metavar, option = str(parameter.metavar or ""), parameter.opts[-1]
        words = metavar.split("|")
        is_column = metavar in ("COLUMN", "A,B") and option not in ("--conditioning", "--baselines")
        wrong = WRONG.get(metavar) or ("no_such_column" if is_column else "no-such-word" if len(words) > 1 else None)
        if option in ("--conditioning", "--baselines"):
            wrong = "no_such_method"
        if option in OTHERS or wrong is None or (metavar in ("table|markdown|json",) and name == "parameters"):
            continue
        if not option.startswith("--"):
            found.append(f"{name} {wrong} {' '.join(BASES[name].split()[1:])}")
            continue
        base = OF_COMMAND.get(f"{name} {option}") or BASES[name]
        if name in ("inspect", "split", "train", "compare") and option in BESIDE:
            beside = BESIDE[option] if name in ("train", "compare") else BESIDE[option].removesuffix(METHOD)
            base = f"{beside} {' '.join(BASES[name].split()[3:])}"
        words_of_base = base.split()
        if option in words_of_base:
            place = words_of_base.index(option)
            del words_of_base[place : place + 2]
        found.append(f"{name} {' '.join(words_of_base)} {option} {wrong}")
    return found


def finished(folder: Path, task: TaskSettings, **fields: Any) -> None:
    """A run as far as is looked at before its model is loaded."""
    folder.mkdir(parents=True)
    recipe = Recipe(data="sets.csv", task=task, **fields)
    (folder / "recipe.json").write_text(json_text({"recipe": recipe.to_dict(), "resolved": {}}), "utf-8")
    for name in ("config.json", "metrics.json"):
        (folder / name).write_text("{}", "utf-8")
    write_manifest(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    rows = [
        f'{day % 12},"{"coat,hat" if day % 2 else "coat,shoe"}",{"warm" if day % 3 else "cold"}' for day in range(60)
    ]
    (folder / "sets.csv").write_text("\n".join(["who,items,season", *rows]) + "\n", "utf-8")
    texts = [f"{day % 12},a fine coat,{day % 2}" for day in range(60)]
    (folder / "texts.csv").write_text("\n".join(["who,text,label", *texts]) + "\n", "utf-8")
    (folder / "bert").mkdir()
    (folder / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}), "utf-8")
    (folder / "world").mkdir()
    finished(folder / "runs" / "sets", SetCompletion(items="items"))
    finished(folder / "runs" / "texts", Classification(text="text", label="label", checkpoint="bert"))
    finished(folder / "runs" / "vectors", ContrastiveText(text="text", pair="label"))
    finished(folder / "runs" / "words", MaskedText(text="text", checkpoint="bert"))
    return folder


def refused(commands: list[str], folder: Path) -> list[str]:
    source = Path(__file__).parents[3] / "src"
    result = subprocess.run(
        [sys.executable, "-c", RUN, *commands],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    ended = [line for line in result.stderr.splitlines() if line.startswith("ended ")]
    wrong = [line for line in ended if not line.startswith("ended 2 after ")]
    assert wrong == [] and len(ended) == len(commands), "\n".join(wrong) or result.stderr[-2000:]
    return ended


def test_each_path_word_and_column_is_told_before_torch_is_loaded(folder: Path) -> None:
    commands = wrong_commands()
    assert len(commands) > 120
    refused(commands, folder)
