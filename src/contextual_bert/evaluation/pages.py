"""A page of text, tables and pictures, as Markdown and as one HTML file that needs nothing else.

The HTML carries its style and its pictures within itself, asks no server for anything and runs no script. Its templates
escape whatever they are given. This module does not know what the page is about.

Paper: not there.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from contextual_bert.evaluation.tables import Table, markdown_text
from contextual_bert.printable import printable

_LONGEST_OPEN_TABLE = 25
# The PNG header: width and height stand, four bytes each, after the signature and the name of the first chunk.
_PNG_SIZE = slice(16, 24)
# Pictures are drawn with 150 dots an inch, and a browser's inch has 96 pixels.
_DOTS_PER_PIXEL = 150 / 96


@dataclass(frozen=True)
class Picture:
    """A PNG file beside the page, what stands below it, and what is read to those who cannot see it."""

    file_name: str
    caption: str
    description: str


@dataclass(frozen=True)
class Section:
    """A heading and, in this order, paragraphs, a figure, tables, pictures and a list of notes.

    In paragraphs and notes, text between backticks is set as code; everything else is taken literally. A figure is
    HTML that ``render_template`` made; Markdown leaves it out.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    figure: Markup | None = None


def render_markdown_page(title: str, sections: Sequence[Section]) -> str:
    """The page as Markdown; its pictures are files beside it.

    Example:
        >>> print(render_markdown_page("Study", [Section("Findings", ("Context helps.",))]))
        # Study
        <BLANKLINE>
        ## Findings
        <BLANKLINE>
        Context helps.
        <BLANKLINE>
    """
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        words = (markdown_text(paragraph) for paragraph in section.paragraphs)
        parts += [f"## {section.title}", *words, *(table.to_markdown() for table in section.tables)]
        parts += [f"![{_in_brackets(each.description)}]({each.file_name})" for each in section.pictures]
        if section.notes:
            parts.append("\n".join(f"- {markdown_text(note)}" for note in section.notes))
    return printable("\n\n".join(parts) + "\n")


def render_html_page(title: str, sections: Sequence[Section], images: Mapping[str, bytes]) -> str:
    """Return the page as one HTML file.

    Args:
        title: of the page.
        sections: in order.
        images: file name -> PNG; a picture without one is left out.
    """
    drawn = {name: _Image.of(png) for name, png in images.items()}
    page = _TEMPLATES.get_template("page.html").render(title=title, sections=sections, images=drawn)
    return printable(page)  # HTML forbids raw control characters, and a page is looked at with `less`, too


def render_template(name: str, **values: Any) -> Markup:
    """Return a part of a page, made by a template of this package; the values are escaped.

    Args:
        name: of the template's file.
        **values: that it names.
    """
    return Markup(_TEMPLATES.get_template(name).render(**values))


def render_html_table(table: Table) -> str:
    """Return the table that `Table.to_markdown` writes as HTML: a caption, headings, rows; long ones are folded.

    Example:
        >>> print(render_html_table(Table("Methods", ("method", "CE (nats)"), (("<b>", "3.26"),))))
        <div class="wide" tabindex="0"><table>
        <caption>Methods</caption>
        <thead><tr><th scope="col">method</th><th scope="col" class="number">CE (nats)</th></tr></thead>
        <tbody>
        <tr><th scope="row">&lt;b&gt;</th><td>3.26</td></tr>
        </tbody>
        </table></div>
    """
    macros: Any = _TEMPLATES.get_template("table.html").module
    return str(macros.table(table))


class _Image(NamedTuple):
    """A picture within a page: its bytes as text, and its size in pixels of a browser."""

    data: str
    width: int
    height: int

    @classmethod
    def of(cls, png: bytes) -> "_Image":
        size = png[_PNG_SIZE]
        width, height = (round(int.from_bytes(part, "big") / _DOTS_PER_PIXEL) for part in (size[:4], size[4:]))
        return cls(base64.b64encode(png).decode("ascii"), width, height)


def _words(text: str) -> Markup:
    """Return escaped text: backticks make code, a line break stays one."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>"))


def _is_long(table: Table) -> bool:
    """Return True for a table that is folded, so that a phone can pass it."""
    return len(table.rows) > _LONGEST_OPEN_TABLE


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _in_brackets(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("contextual_bert.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: Any = templates.filters  # typed as those of Jinja alone
    filters.update(words=_words, anchor=_anchor, is_long=_is_long)
    return templates


_TEMPLATES = _templates()
