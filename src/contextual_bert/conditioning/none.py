"""[None]: plain BERT, the control that every other method is compared with. Paper: section 4, first row of Table 1."""

from contextual_bert.conditioning.method import ConditioningMethod


class NoContext(ConditioningMethod):
    """Fills no slot: the model is BERT, bit for bit, and has no context encoder.

    Relation to its siblings:
        The other methods differ from this one by their own slots only.

    Reference:
        Denk and Peleteiro Ramallo (2020), Table 1, [None].

    Example:
        >>> NoContext().has_context
        False
    """

    name = "none"
    label = "[None]"
    has_context = False
    keeps_checkpoint = True
