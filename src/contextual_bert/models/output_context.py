"""The context at the output: a linear map beside the network, see ``has_context_at_output`` of the config."""

from torch import nn


class OutputContext(nn.Linear):
    """What the context adds to the vector that scores the items: nothing at first.

    Formula: h_i + U c

    Symbols: h_i what the network makes of a masked position; c the context vector; U these weights.

    Shapes: c (batch, context) -> (batch, size).

    Args:
        context_size: width of the context vector.
        size: of the vectors of the output matrix.

    Reference:
        A factorisation of contexts and items, as in LightFM (Kula 2015), beside the network, as in Cheng et al. (2016),
        "Wide & Deep Learning for Recommender Systems".
    """

    def __init__(self, context_size: int, size: int) -> None:
        super().__init__(context_size, size, bias=False)

    def initialise(self, _: float) -> None:
        nn.init.zeros_(self.weight)
