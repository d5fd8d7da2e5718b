"""What a benchmark task is about, in words: the card that stands above its table."""

from dataclasses import dataclass

from contextual_bert.evaluation import metric_of


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """A task for people: what is predicted from what, on whose data, judged by which number.

    Args:
        name: the word of the command line.
        title: one line.
        description: what is masked, what the context is, what makes it hard.
        licence: of the data.
        citation: whom to cite for the data.
        split: what the parts are and what no two parts share.
        main_metric: key of the number that decides, ``cross_entropy_nats`` for instance.

    Example:
        >>> from contextual_bert.benchmark.tasks.outfit_completion import CARD
        >>> CARD.lines()[0]
        'Outfit completion in the stylist world'
    """

    name: str
    title: str
    description: str
    licence: str
    citation: str
    split: str
    main_metric: str

    def lines(self) -> list[str]:
        """The card, one sentence a line."""
        return [
            self.title,
            self.description,
            f"Split: {self.split}",
            f"Main metric: {metric_of(self.main_metric).heading}",
            f"Data: {self.licence}; cite {self.citation}",
        ]
