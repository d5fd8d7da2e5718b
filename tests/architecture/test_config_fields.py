"""Every field that ContextualBertConfig adds to Hugging Face's BertConfig does something: read, tested, documented."""

import importlib
import inspect
import re
from pathlib import Path

from transformers import BertConfig

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "contextual_bert"
CONFIGURATION = SOURCE / "models" / "configuration_contextual_bert.py"


def own_fields() -> list[str]:
    config = importlib.import_module("contextual_bert.models.configuration_contextual_bert").ContextualBertConfig
    names = [
        name
        for kind in config.__mro__
        if kind.__module__.startswith("contextual_bert.")
        for name in inspect.get_annotations(kind)
    ]
    inherited = {name for kind in BertConfig.__mro__ for name in inspect.get_annotations(kind)}
    constants = {"model_type", "sub_configs", "attribute_map", "keys_to_ignore_at_inference"}
    return sorted(name for name in set(names) - inherited - constants if not name.startswith("_"))


def text_of(paths: list[Path]) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths)


def test_there_are_fields_to_check() -> None:
    assert "conditioning" in own_fields()


def test_every_field_is_read() -> None:
    paths = [path for folder in ("models", "conditioning") for path in sorted((SOURCE / folder).rglob("*.py"))]
    source = text_of([path for path in paths if path != CONFIGURATION])
    read = {name for name in own_fields() if re.search(rf"\.{name}\b", source)}
    # A property of the config that the model reads hands its field on: `layout` says what `context_features` holds.
    config = CONFIGURATION.read_text("utf-8")
    properties = re.findall(r"@property\n    def (\w+)\(self\)[^@]*?return (.*?)\n\n", config, flags=re.DOTALL)
    for name, body in properties:
        if re.search(rf"\.{name}\b", source):
            read |= {field for field in own_fields() if f"self.{field}" in body}
    assert sorted(set(own_fields()) - read) == []


def test_every_field_is_set_by_a_test() -> None:
    tests = text_of([path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)])
    assert [name for name in own_fields() if not re.search(rf"\b{name}=|[\"']{name}[\"']", tests)] == []


def test_every_field_is_named_in_the_docs() -> None:
    docs = text_of(sorted((ROOT / "docs").rglob("*.md")))
    assert [name for name in own_fields() if not re.search(rf"`{name}`|\b{name}=", docs)] == []
