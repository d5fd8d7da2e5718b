"""README and docs tell the truth: their blocks run, commands and make targets exist, links lead somewhere.

A Python block that cannot run here (it trains for hours, or needs the reader's own file) is fenced as ```python no-run.
A line of a shell block that cannot is in ``NOT_RUN`` with the reason. The blocks of a file run in the file's order, the
Python ones in one namespace, in one temporary folder with the files that its reader has (``reader_files``).
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
from command_server import SHIM  # noqa: E402
from reader_files import READER_FILES  # noqa: E402

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SHELLS = {"bash", "console", "sh", "shell"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
# (Page, how a line of a shell block begins) -> why it does not run here.
NOT_RUN: dict[tuple[str, str], str] = {
    ("CONTRIBUTING.md", "make "): "runs these tests, the linters or the benchmarks",
    ("README.md", "make "): "runs these tests, or a demo of minutes: test_demo runs its recipe",
    ("README.md", "pip install "): "changes the environment that the tests run in",
    ("README.md", "contextual-bert serve "): "runs until it is stopped: tests/end_to_end/test_server.py",
    ("docs/guides/compare-methods.md", "contextual-bert compare "): "15 trainings: from-a-table.md runs fewer",
    ("docs/guides/compare-methods.md", "contextual-bert tune "): "processes of Ray: tests/unit/runs/test_tuning.py",
    ("docs/guides/compare-methods.md", "python -m studies."): "minutes to hours: tests/studies",
    ("docs/index.md", "make "): "a demo of minutes: test_demo runs its recipe",
    ("docs/index.md", "pip install "): "changes the environment that the tests run in",
    ("docs/index.md", "contextual-bert serve "): "runs until it is stopped: tests/end_to_end/test_server.py",
    **{
        ("docs/release.md", start): "a step of a release: it publishes, or changes the environment"
        for start in ("make ", ".venv/bin/", "python3.11 ", "/tmp/release/", "docker ", "git ")
    },
    ("docs/guides/complete-sets.md", "ray start "): "starts a cluster on several machines",
    ("docs/guides/complete-sets.md", "contextual-bert complete /shared/run "): "needs such a cluster",
    (
        "docs/guides/complete-sets.md",
        "contextual-bert complete run --data outfits.parquet --output by-workers --ray",
    ): "starts processes of Ray: tests/unit/inference and make test-slow run it",
    (
        "docs/guides/follow-and-publish.md",
        "contextual-bert publish runs/gsu my-shop/outfits",
    ): "sends to a hub: tests/unit/runs/test_publishing.py",
    ("docs/guides/from-a-table.md", "torchrun "): "starts two processes: tests/end_to_end/test_distributed.py",
    (
        "docs/guides/serve-fast.md",
        "contextual-bert serve ",
    ): "runs until it is stopped: tests/unit/server/test_workers.py",
    ("docs/guides/serve-fast.md", "contextual-bert index "): "for 10,000 items or more: tests/unit/runs",
    ("docs/guides/serve-fast.md", "contextual-bert complete runs/gsu "): "with that index: tests/unit/runs",
    (
        "docs/guides/serve-fast.md",
        "contextual-bert export runs/reviews",
    ): "tests/unit/inference/test_onnx_text_pipeline.py",
    ("docs/guides/serve-fast.md", "contextual-bert predict "): "with that export: the same tests",
    ("docs/guides/serve-fast.md", "pip install "): "changes the environment that the tests run in",
    (
        "docs/guides/sentence-vectors.md",
        "contextual-bert compare ",
    ): "five more runs: tests/unit/runs/test_contrastive_text.py",
    **{
        (
            "docs/guides/privacy.md",
            start,
        ): "ten minutes, and the environment: tests/unit/training/test_private_trainer.py"
        for start in (
            "pip install ",
            "contextual-bert train outfits.parquet --items items --customer customer_id --dp-epsilon",
            "contextual-bert world ",
            "contextual-bert train world/",
        )
    },
    ("docs/guides/serve.md", "contextual-bert serve "): "runs until it is stopped: tests/end_to_end/test_server.py",
    ("docs/guides/serve.md", "docker "): "needs a docker daemon: tests/docs/test_front_door.py reads the Dockerfile",
    ("docs/guides/serve.md", "curl "): "asks a server that runs: tests/unit/server asks the same paths",
    (
        "docs/guides/text.md",
        "contextual-bert compare imdb.train.txt.ss ",
    ): "reads corpora that are not part of this package, for hours: tests/unit/runs/test_preset_runs.py",
    ("docs/guides/text-studies.md", "python -m studies."): "reads files that are not part of this package",
}
# Page -> outputs that are trained with as many steps as a reader's; elsewhere an epoch where no number is named.
TRAINED_WHOLE = {"docs/guides/text.md": ("runs/reviews", "runs/ma-bert")}
# Pages that train, and take more than ten seconds.
SLOW = (
    *("README.md", "index.md", "text.md", "serve-fast.md", "from-a-table.md", "complete-sets.md"),
    *("context.md", "items.md", "model.md", "explain.md", "privacy.md", "stylist-world.md"),
    *("sequences.md", "histories.md", "follow-and-publish.md", "sentence-vectors.md"),
)
SEPARATORS = {"|", "||", "&&", ";", "&"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its words after the fence, its text, and the line where the text begins."""

    language: str
    marks: tuple[str, ...]
    text: str
    line: int


def blocks(markdown: str) -> Iterator[Block]:
    for match in FENCE.finditer(markdown):
        language, *marks = match["info"].split() or [""]
        indent = len(match["indent"])
        text = "".join(line[indent:] if line.strip() else line for line in match["body"].splitlines(keepends=True))
        yield Block(language, tuple(marks), text, markdown.count("\n", 0, match.start("body")) + 1)


def runnable(page: Path) -> list[Block]:
    return [
        block for block in blocks(page.read_text("utf-8")) if block.language == "python" and "no-run" not in block.marks
    ]


def run_block(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    if ">>> " in block.text:
        example = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line - 1)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        results = runner.run(example, clear_globs=False)
        namespace.update(example.globs)
        assert results.failed == 0, f"{page.name}, line {block.line}: see the output above"
    else:
        # Empty lines in front, so that a traceback shows the line of the page.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


def shell_lines(block: Block) -> list[str]:
    """The lines of a shell block, each with those that it goes on in; in a console block only what follows a prompt."""
    lines = block.text.splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith(("$ ", "> "))]
    joined = re.sub(r"\\\n", " ", "\n".join(lines)).splitlines()
    return [line for line in joined if line.strip() and not line.startswith("#")]


def why_not_run(page: Path, line: str) -> str | None:
    """The reason why a line does not run here, None where it does."""
    name = page.relative_to(ROOT).as_posix()
    return next((why for (of, start), why in NOT_RUN.items() if of == name and line.startswith(start)), None)


def run_shell(block: Block, page: Path, environment: dict[str, str]) -> None:
    for line in shell_lines(block):
        if why_not_run(page, line) is None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", line],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            place = f"{page.relative_to(ROOT)}, block at line {block.line}: {line}"
            assert done.returncode == 0, f"{place}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def statements(block: Block) -> Iterator[list[str]]:
    """The simple commands of a shell block, as words; in a console block only what follows a prompt."""
    lines = block.text.splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith(("$ ", "> "))]
    pending = ""
    for line in lines:
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        lexer = shlex.shlex(pending, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quotation that goes on in the next line
            pending += "\n"
            continue
        pending = ""
        yield from split_words(words)
    assert not pending.strip(), f"unfinished command in the block at line {block.line}: {pending}"


def split_words(words: list[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in [*words, ";"]:
        if word in SEPARATORS:
            while command and re.fullmatch(r"\w+=.*", command[0], flags=re.DOTALL):
                command.pop(0)
            if command:
                yield command
            command = []
        else:
            command.append(word)


def redirected(words: list[str]) -> list[str]:
    """The words without redirections and their files."""
    kept: list[str] = []
    skip = False
    for word in words:
        is_redirection = set(word) <= set("<>&") and word != ""
        if not skip and not is_redirection:
            kept.append(word)
        skip = is_redirection
    return kept


def fault(words: list[str], command: Any) -> str | None:
    """Why these words are not a call of the command (a group goes on with its next word), or None."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = {
        name: parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    rest, values, given = list(words), 0, set[int]()
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if word.startswith("-") and len(word) > 1 and not re.fullmatch(r"-[\d.]+", word):
            if name == "--help":
                return None
            if name not in options:
                return f"no option {name!r}; there are: {', '.join(sorted(options)) or 'none'}"
            option = options[name]
            given.add(id(option))
            if not equals and not option.is_flag:
                if len(rest) < option.nargs:
                    return f"option {name!r} has no value"
                del rest[: option.nargs]
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"no command {word!r}; there are: {', '.join(sorted(command.commands))}"
            return fault(rest, command.commands[word])
        else:
            values += 1
    if any(argument.nargs < 0 for argument in arguments):
        limit = len(words)
    else:
        limit = sum(argument.nargs for argument in arguments)
    if values > limit:
        return f"{values} arguments where at most {limit} are taken"
    required = sum(max(argument.nargs, 1) for argument in arguments if argument.required)
    if values < required:
        return f"{values} arguments where {required} are required"
    missing = [option.opts[0] for option in options.values() if option.required and id(option) not in given]
    return f"without the required {', '.join(sorted(set(missing)))}" if missing else None


def shell_commands(program: str) -> list[tuple[str, list[str]]]:
    """Every call of a program in the pages: (place, words after the program's name)."""
    return [
        (f"{page.relative_to(ROOT)}:{block.line}: {shlex.join(words)}", redirected(words[1:]))
        for page in PAGES
        if page.is_file()
        for block in blocks(page.read_text("utf-8"))
        if block.language in SHELLS
        for words in statements(block)
        if Path(words[0]).name == program
    ]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH with a ``contextual-bert`` that does not import anything anew."""
    folder = tmp_path_factory.mktemp("bin")
    path = folder / "socket"
    source = Path(__file__).parent / "command_server.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(
        [sys.executable, str(source), str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    shim = folder / "contextual-bert"
    shim.write_text(SHIM.format(python=sys.executable, path=str(path)), encoding="utf-8")
    shim.chmod(0o755)
    yield folder
    server.terminate()
    server.wait()


def environment_of(page: Path, command: Path) -> dict[str, str]:
    whole = TRAINED_WHOLE.get(page.relative_to(ROOT).as_posix(), ())
    path = f"{command}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "QUICK_STEPS": ",".join(whole), "MPLBACKEND": "Agg"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page.name in SLOW else page for page in PAGES
    ],  # many trainings, exports
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    READER_FILES.get(page.relative_to(ROOT).as_posix(), lambda folder: None)(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    environment = environment_of(page, command)
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python" and "no-run" not in block.marks:
            run_block(block, page, namespace)
        elif block.language in SHELLS:
            run_shell(block, page, environment)
    for output in TRAINED_WHOLE.get(page.relative_to(ROOT).as_posix(), ()):
        assert verdicts(tmp_path / output) == ["good", "bad"], output


def verdicts(directory: Path) -> list[str]:
    """What a run of the guide on texts says of one text, for a student and for a family: it depends on who reads."""
    from contextual_bert import TextPipeline

    asked = [
        {"text": "The bar was open all night.", "context": {"guest": guest, "age": 22}}
        for guest in ("student", "family")
    ]
    return [answer["label"] for answer in TextPipeline.from_pretrained(directory)(asked)]


def test_each_line_that_does_not_run_is_in_a_page() -> None:
    lines = {
        (page.relative_to(ROOT).as_posix(), line)
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        if block.language in SHELLS
        for line in shell_lines(block)
    }
    stale = [entry for entry in NOT_RUN if not any(of == entry[0] and line.startswith(entry[1]) for of, line in lines)]
    assert stale == []
    skipped = sum(why_not_run(ROOT / of, line) is not None for of, line in lines)
    assert skipped < len(lines) / 2, "most of what the pages show is run"


def test_a_shell_line_that_fails_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Path) -> None:
    page = ROOT / "README.md"
    monkeypatch.chdir(tmp_path)
    environment = environment_of(page, command)
    (good, bad) = blocks("```bash\necho 1 \\\n  2 > out.txt\n```\n\n```bash\ncontextual-bert evaluate nowhere\n```\n")
    run_shell(good, page, environment)
    assert (tmp_path / "out.txt").read_text() == "1 2\n"
    with pytest.raises(AssertionError, match=r"README.md, block at line 7: contextual-bert evaluate nowhere"):
        run_shell(bad, page, environment)


def test_the_readme_shows_python_that_runs() -> None:
    assert runnable(ROOT / "README.md")


def test_a_table_becomes_a_model_and_an_answer_in_thirty_lines() -> None:
    _, block, *_ = runnable(ROOT / "docs" / "guides" / "text.md")
    assert all(word in block.text for word in ("read_table", "from_checkpoint", "Trainer", "TextPipeline"))
    assert len(block.text.splitlines()) <= 30


def test_commands_in_the_pages_exist() -> None:
    from contextual_bert_cli.main import app

    calls = shell_commands("contextual-bert")
    assert calls, "no page shows a contextual-bert command"
    command = typer.main.get_command(app)
    assert [f"{place}: {reason}" for place, words in calls if (reason := fault(words, command))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_can_be_followed_to_its_end(page: Path) -> None:
    """What a command refuses to replace, the page has not written before, in Python or by another command."""
    written = set(re.findall(r"runs/[\w-]+", "".join(block.text for block in runnable(page))))
    refused: list[str] = []
    for place, words in shell_commands("contextual-bert"):
        if place.startswith(f"{page.relative_to(ROOT)}:") and words[0] in ("train", "compare", "split"):
            output = words[words.index("--output") + 1] if "--output" in words else ""
            if output in written and not {"--overwrite", "--resume"} & {*words}:
                refused.append(place)
            written |= {output} - {""}
    assert refused == []


def test_every_command_is_shown_in_a_page() -> None:
    from contextual_bert_cli.main import app

    shown = {word for _, words in shell_commands("contextual-bert") for word in words}
    assert sorted(set(typer.main.get_command(app).commands) - shown) == []


def test_make_targets_in_the_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    calls = shell_commands("make")
    assert calls, "no page shows a make target"
    asked = [
        (place, [word for word in words if "=" not in word and not word.startswith("-")]) for place, words in calls
    ]
    assert [place for place, words in asked if not set(words) <= targets] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    targets = [match["target"].split("#")[0] for match in LINK.finditer(prose) if "://" not in match["target"]]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def example_app() -> Any:
    app, world = typer.Typer(), typer.Typer()

    @app.command()
    def train(
        data: str, conditioning: Annotated[str, typer.Option()], device: str = "cpu", *, resume: bool = False
    ) -> None: ...

    @world.command()
    def generate(items: int = 5) -> None: ...

    @world.command()
    def oracle(folder: str) -> None: ...

    app.add_typer(world, name="world")
    return typer.main.get_command(app)


@pytest.mark.parametrize(
    "line",
    [
        "train days.parquet --conditioning none",
        "train --conditioning=none --device cuda --no-resume days.parquet",
        "train --help",
        "--help",
        "world generate --items 3",
        "world oracle world/",
    ],
)
def test_a_true_command_passes(line: str) -> None:
    assert fault(shlex.split(line), example_app()) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("trian days.parquet", "no command 'trian'; there are: train, world"),
        ("train days.parquet --conditionning none", "no option '--conditionning'"),
        ("train days.parquet --device", "option '--device' has no value"),
        ("train days.parquet", "without the required --conditioning"),
        ("train --conditioning none", "0 arguments where 1 are required"),
        ("train a b --conditioning none", "2 arguments where at most 1 are taken"),
        ("world generate --item 3", "no option '--item'; there are: --items"),
    ],
)
def test_a_false_command_is_seen(line: str, reason: str) -> None:
    assert (fault(shlex.split(line), example_app()) or "").startswith(reason)


def test_commands_are_found_in_shell_blocks() -> None:
    shell = "$ A=1 make x && .venv/bin/contextual-bert a \\\n>   --b '{\"c\": 1}' > out.txt  # why\nprinted\n"
    text = f"```console\n{shell}```\n"
    (block,) = blocks(text)
    assert [redirected(words) for words in statements(block)] == [
        ["make", "x"],
        [".venv/bin/contextual-bert", "a", "--b", '{"c": 1}'],
    ]


def test_python_blocks_share_a_namespace_and_fail_at_the_line_of_the_page() -> None:
    page = Path("page.md")
    first, doctests, last = blocks(
        "```python\na = 1\n```\n\n```python\n>>> a + 1\n2\n>>> b = 5\n```\n\n```python\nassert b == 6\n```\n"
    )
    namespace: dict[str, Any] = {}
    run_block(first, page, namespace)
    run_block(doctests, page, namespace)
    with pytest.raises(AssertionError) as raised:
        run_block(last, page, namespace)
    assert raised.traceback[-1].lineno == 11  # zero-based: the twelfth line of the text
