"""What a stranger meets first is true: the Dockerfile, the issue forms, and the steps of a contribution."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from contextual_bert.errors import RunDirectoryError

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE, flags=re.MULTILINE)


def test_the_image_serves_with_arguments_that_the_command_takes() -> None:
    from contextual_bert_cli.main import app

    program, name, *words = json.loads(instructions("ENTRYPOINT")[0]) + json.loads(instructions("CMD")[-1])
    assert program == "contextual-bert"
    command: Any = typer.main.get_command(app).commands[name]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(RunDirectoryError, match=r"^/run-directory does not exist"):  # all else is taken
        command.make_context(name, [*words])
    parsed = command.make_context(name, [*words], resilient_parsing=True).params
    assert parsed["host"] == "0.0.0.0"
    assert parsed["allow_host"] == ["localhost"]


def test_the_image_runs_without_rights_and_says_its_health() -> None:
    stages = {line.split()[-1] for line in instructions("FROM")}
    assert {line.split()[0] for line in instructions("FROM")} - stages == {"python:3.11-slim"}
    assert int(instructions("USER")[-1]) > 0
    (health,) = instructions("HEALTHCHECK")
    assert "/readyz" in health
    command = json.loads(health[health.index("[") :])
    compile(command[-1], "HEALTHCHECK", "exec")


def test_what_the_image_copies_is_let_through() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = {word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]}
    assert copied == allowed
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_last_stage_serves_a_run_and_the_one_before_an_export() -> None:
    *_, export, run = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    for stage, name in ((export, "export"), (run, "run")):
        assert stage.startswith(f"server AS {name}\nCOPY --from=build-{name} ")
    installs = [line for line in instructions("RUN") if "pip install" in line]
    assert [line.partition("install ")[2] for line in installs] == [
        "--constraint constraints.txt --requirement requirements-export.txt",
        "--no-deps .",
        '--constraint constraints.txt --extra-index-url "$TORCH_INDEX" torch',
        "--constraint constraints.txt '.[serve,onnxruntime]'",
    ]


def test_issue_forms_are_forms() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    bodies = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in forms}
    config = bodies.pop("config")
    assert config["blank_issues_enabled"] is False
    assert set(bodies) == {"fault", "figure", "wish"}
    for form in bodies.values():
        assert {"name", "description", "body"} <= set(form)
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert all(field["attributes"]["label"] for field in fields)
        assert any(field.get("validations", {}).get("required") for field in fields)
        assert len({field["id"] for field in fields}) == len(fields)


def test_the_table_of_extensions_names_places_that_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## What an extension costs")[1].split("## House")[0]
    places = set(re.findall(r"`((?:src|studies|docs|tests)/[\w/.]*)`", table))
    assert len(places) >= 5
    assert sorted(place for place in places if not (ROOT / place).exists()) == []
