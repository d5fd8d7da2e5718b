"""Hooks of the documentation site: pages that lie outside docs/, and the list of decisions.

A page may link to any file of the repository, as it must to be right on a code host. The site copies what is linked:
Markdown files become pages, other files are copied as they are. A link that leads nowhere stays, so that the strict
build fails on it.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"(?<=```python) no-run$", re.MULTILINE)  # a mark for the tests of the pages
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
DECISIONS = "<!-- decisions -->"
START_PAGE = "README.md"  # the start page of the repository; docs/index.md is that of the site


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file outside docs/ that a page links to, and the decisions to the navigation."""
    pending = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    pending += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        if not path.startswith("docs/"):
            files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            pending += (target for target in linked_paths(path) if target != START_PAGE)
    _add_decisions(config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between docs/ and the rest of the repository into links of the site."""
    if page.file.src_uri == "decisions/index.md":
        markdown = markdown.replace(DECISIONS, "\n".join(decision_rows()))
    here = repository_path(page.file)
    folder = posixpath.dirname(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        target = match["target"]
        if is_elsewhere(target):
            return match[0]
        path = resolve(here, target)
        if (ROOT / path).is_dir() and (ROOT / path / "index.md").is_file():
            path = f"{path}/index.md"
        if not (ROOT / path).is_file():
            return match[0]
        place = posixpath.relpath(site_path(path), folder or ".")
        return f"{match['before']}{place}{match['anchor'] or ''}"

    kept: list[str] = []
    end = 0
    for fence in FENCE.finditer(markdown):
        kept += [LINK.sub(rewrite, markdown[end : fence.start()]), NOT_RUN.sub("", fence[0])]
        end = fence.end()
    return "".join([*kept, LINK.sub(rewrite, markdown[end:])])


def repository_path(file: File) -> str:
    """Return a file's path from the root of the repository."""
    if file.abs_src_path is None:
        return f"docs/{file.src_uri}"
    return Path(file.abs_src_path).resolve().relative_to(ROOT).as_posix()


def site_path(path: str) -> str:
    """Return the place in the site of a file of the repository."""
    if path == START_PAGE:
        return "index.md"
    return path.removeprefix("docs/")


def is_elsewhere(target: str) -> bool:
    """Return True for links to other sites."""
    return "://" in target or target.startswith("mailto:")


def resolve(page: str, target: str) -> str:
    """Return the path, from the root of the repository, of a link on a page."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def linked_paths(path: str) -> Iterator[str]:
    """Yield the files of the repository that a page links to."""
    markdown = FENCE.sub("", (ROOT / path).read_text("utf-8"))
    for match in LINK.finditer(markdown):
        if not is_elsewhere(match["target"]):
            yield resolve(path, match["target"])


def decisions() -> list[tuple[str, str]]:
    """Return the file name and the title of each decision record, by number."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = TITLE.search(path.read_text("utf-8"))
        found.append((path.name, title[1] if title else path.stem))
    return found


def decision_rows() -> Iterator[str]:
    """Yield the lines of the table of decisions."""
    yield "| number | decided |"
    yield "|---|---|"
    for name, title in decisions():
        number, _, rest = title.partition(": ")
        yield f"| [{number}]({name}) | {rest} |"


def _add_decisions(config: MkDocsConfig) -> None:
    nav: list[Any] = list(config.nav or [])
    for section in nav:
        pages = section.get("Project") if isinstance(section, dict) else None
        if pages and "decisions/index.md" in pages:
            number = pages.index("decisions/index.md")
            pages[number] = {"Decisions": ["decisions/index.md", *(f"decisions/{name}" for name, _ in decisions())]}
    config.nav = nav
