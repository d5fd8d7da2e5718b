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
        context: what is known of whose set or text it is: the names of the features.
        licence: of the data.
        citation: whom to cite for the data.
        data_digest: hash of the table that published numbers are of; None where the data are drawn.
        split: what the parts are and what no two parts share.
        main_metric: key of the number that decides, ``cross_entropy_nats`` for instance.

    Example:
        >>> from studies.outfits import CARD
        >>> CARD.lines()[0]
        'Outfit completion in the stylist world'
    """

    name: str
    title: str
    description: str
    context: tuple[str, ...]
    licence: str
    citation: str
    split: str
    main_metric: str
    data_digest: str | None = None

    def lines(self) -> list[str]:
        """The card, one sentence a line."""
        digest = "" if self.data_digest is None else f"; hash {self.data_digest[:16]}"
        return [
            self.title,
            self.description,
            f"Context: {', '.join(self.context)}",
            f"Split: {self.split}",
            f"Main metric: {metric_of(self.main_metric).heading}",
            f"Data: {self.licence}; cite {self.citation}{digest}",
        ]
