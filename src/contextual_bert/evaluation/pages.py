"""A page of text, tables and pictures, as Markdown and as one HTML file that needs nothing else.

The HTML carries its style and its pictures within itself, asks no server for anything, runs no script, and escapes
whatever it is given. This module does not know what the page is about.

Paper: not there.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from contextual_bert.evaluation.tables import Table, markdown_text
from contextual_bert_cli.printable import printable

# Longer tables are folded in a page, so that a phone can pass them.
_LONGEST_OPEN_TABLE = 25
# The PNG header: width and height stand, four bytes each, after the signature and the name of the first chunk.
_PNG_SIZE = slice(16, 24)
# Pictures are drawn with 150 dots an inch, and a browser's inch has 96 pixels.
_DOTS_PER_PIXEL = 150 / 96
_NUMBER = ' class="number"'


@dataclass(frozen=True)
class Picture:
    """A PNG file beside the page, what stands below it, and what is read to those who cannot see it."""

    file_name: str
    caption: str
    description: str


@dataclass(frozen=True)
class Section:
    """A heading and, in this order, paragraphs, tables, pictures and a list of notes.

    In paragraphs and notes, text between backticks is set as code; everything else is taken literally.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()


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
    """The page as one HTML file.

    Args:
        title: of the page.
        sections: in order.
        images: file name -> PNG; a picture without one is left out.
    """
    links = "".join(f'<li><a href="#{_anchor(each.title)}">{_text(each.title)}</a></li>' for each in sections)
    body = "\n".join(_section(each, images) for each in sections)
    style = (files("contextual_bert.evaluation") / "page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{_text(title)}</h1>
<nav aria-label="Contents"><ul>{links}</ul></nav>
{body}
</main>
</body>
</html>
"""


def render_html_table(table: Table) -> str:
    """The table that `Table.to_markdown` writes, as HTML: a caption, headings, rows; long ones are folded.

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
    num_labels = table.num_label_columns
    head = "".join(
        f'<th scope="col"{"" if index < num_labels else _NUMBER}>{_text(cell)}</th>'
        for index, cell in enumerate(table.columns)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f'<th scope="row">{_text(cell)}</th>' for cell in row[:num_labels])
        + "".join(f"<td>{_text(cell)}</td>" for cell in row[num_labels:])
        + "</tr>"
        for row in table.rows
    )
    drawn = (
        f'<div class="wide" tabindex="0"><table>\n<caption>{_text(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )
    if len(table.rows) <= _LONGEST_OPEN_TABLE:
        return drawn
    summary = f"{_text(table.title)}: all {len(table.rows):,} rows"
    return f"<details><summary>{summary}</summary>\n{drawn}\n</details>"


def _section(section: Section, images: Mapping[str, bytes]) -> str:
    parts = [f'<section id="{_anchor(section.title)}">\n<h2>{_text(section.title)}</h2>']
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [render_html_table(table) for table in section.tables]
    parts += [_figure(each, images[each.file_name]) for each in section.pictures if each.file_name in images]
    if section.notes:
        parts.append("<ul>\n" + "\n".join(f"<li>{_text(note)}</li>" for note in section.notes) + "\n</ul>")
    return "\n".join([*parts, "</section>"])


def _figure(picture: Picture, png: bytes) -> str:
    size = png[_PNG_SIZE]
    width, height = (round(int.from_bytes(part, "big") / _DOTS_PER_PIXEL) for part in (size[:4], size[4:]))
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<figure>\n<div class="wide" tabindex="0"><img src="data:image/png;base64,{data}" width="{width}" '
        f'height="{height}" alt="{escape(picture.description)}"></div>\n'
        f"<figcaption>{_text(picture.caption)}</figcaption>\n</figure>"
    )


def _text(text: str) -> str:
    """Escaped text: backticks make code, a line break stays one."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _in_brackets(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")
