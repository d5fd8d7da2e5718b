"""Each section of the protocol that code cites is one, and its numbers are those of the code."""

import re
from pathlib import Path

from contextual_bert.evaluation import EvaluationSettings
from contextual_bert.evaluation.report import FEW_CLUSTERS
from contextual_bert.runs.narrative import LEAST_LIFT, LEAST_SHARE, NUM_FEW, SAME_SIZE
from contextual_bert.training.defaults import FEWEST_STEPS, FEWEST_STEPS_OF_TEXTS, MOST_EPOCHS, MOST_EPOCHS_OF_TEXTS

ROOT = Path(__file__).parents[2]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text("utf-8")
POINTS = [int(number) for number in re.findall(r"^## (\d+)\. ", PROTOCOL, flags=re.MULTILINE)]
SECTIONS = re.findall(r"^## \d+\. (.+)$", PROTOCOL, flags=re.MULTILINE)
CITED = re.compile(r'docs/protocol\.md, "([^"]+)"(?: and "([^"]+)")?')
FOLDERS = ("src", "studies", "examples", "benchmarks")


def cited(text: str) -> set[str]:
    """Names of sections that a text cites."""
    return {name for match in CITED.finditer(" ".join(text.split())) for name in match.groups() if name}


def test_points_are_numbered_from_one() -> None:
    assert [*range(1, len(POINTS) + 1)] == POINTS


def test_citations_are_read() -> None:
    assert cited('See docs/protocol.md,\n "Ties" and "Sums", and docs/protocol.md, "Loss".') == {"Ties", "Sums", "Loss"}


def test_each_cited_section_is_one() -> None:
    pages = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    every = {name for path in pages for name in cited(path.read_text("utf-8"))}
    assert len(every) > 5
    assert sorted(name for name in every if not any(title.startswith(name) for title in SECTIONS)) == []
    numbered = [
        path.name for path in pages if re.search(r"protocol, points? \d", path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert numbered == [], "cite a section by its name"


def test_the_numbers_are_those_of_the_code() -> None:
    settings = EvaluationSettings()
    for sentence in (
        f"percentile intervals at {100 * settings.level:g}% of a bootstrap over customers, {settings.num_resamples:,} ",
        f"A value of fewer than {settings.min_cell_clusters} customers has no segment. One of fewer than "
        f"{settings.min_segment_clusters} is marked",
        f"the error over {settings.num_bins} equal bins",
        f"With fewer than {FEW_CLUSTERS} customers",
        f"sets are trained on for at least {FEWEST_STEPS:,} optimizer steps, in at most {MOST_EPOCHS} epochs",
        f"texts for at least {FEWEST_STEPS_OF_TEXTS}, in at most {MOST_EPOCHS_OF_TEXTS}",
        f"their parameters differ by at most {SAME_SIZE:.0%}",
    ):
        assert sentence in " ".join(PROTOCOL.split()), sentence
    assert (NUM_FEW, LEAST_SHARE, LEAST_LIFT) == (3, 0.5, 2.0), "point 18 says so in words"
