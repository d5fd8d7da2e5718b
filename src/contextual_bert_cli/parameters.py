"""``contextual-bert parameters``: Table 1's parameter column, ours beside the paper's."""

from contextual_bert_cli import options
from contextual_bert_cli.output import show, show_json, show_text

EXAMPLE = """\b
Example:
  contextual-bert parameters --format markdown
"""


def command(*, output_format: options.FormatChoice = "table") -> None:
    """Count the parameters of every method in the paper's setting, beside the numbers of the paper's Table 1."""

    from contextual_bert.evaluation.tables import Table, render_markdown, render_rich
    from contextual_bert.models.parameter_count import table1

    rows = table1()
    if output_format == "json":
        content = [
            {
                "conditioning": row.conditioning,
                "label": row.label,
                "parameters": row.count.counted,
                "paper": row.paper,
                "parts": row.count.parts,
                "not_counted": {
                    "embeddings": row.count.embeddings,
                    "context_encoder": row.count.context_encoder,
                    "output": row.count.output,
                },
            }
            for row in rows
        ]
        show_json(content, indent=1)
        return
    parts = list(dict.fromkeys(part for row in rows for part in row.count.parts))
    body = tuple(
        (
            row.conditioning,
            f"{row.count.counted:,}",
            f"{row.paper:,}" if row.paper is not None else "-",
            f"{row.count.counted - row.paper:+,}" if row.paper is not None else "-",
        )
        for row in rows
    )
    composition = tuple((row.conditioning, *(f"{row.count.parts.get(part, 0):,}" for part in parts)) for row in rows)
    tables = (
        Table("Parameters", ("method", "ours", "paper, Table 1", "difference"), body),
        Table("Ours, by part", ("method", *(part.replace("_", " ") for part in parts)), composition),
    )
    notes = (
        "Counted as the paper counts: without the embeddings of features and items and without the last dense layer.",
        "attention, feed forward and head are BERT's; input, state and block are the method's slots.",
    )
    heading = "The paper's setting: 30,000 items, hidden size 128, 4 layers, a context of 736 components"
    if output_format == "markdown":
        show_text(render_markdown(heading, tables, notes))
    else:
        show(render_rich(heading, tables, notes))
