"""A model that gives no numbers is refused when it answers: is it its weights, or what it was given?

It knows tensors and weights, no query and no table. Paper: not there.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from contextual_bert.errors import NAME, Message, NonFiniteError

# Weights of a trained model are at most some hundreds; far beyond, their products overflow.
LARGEST_WEIGHT = 1e6


def check_finite(logits: Tensor, model: Any) -> None:
    """Raise NonFiniteError unless each row of logits can be a distribution; one item may be ruled out by -inf.

    Shapes:
        logits (..., choices).

    Example:
        >>> check_finite(torch.tensor([[0.5, -torch.inf]]), torch.nn.Identity())
    """
    # The largest of a row is NaN where any is, and infinite where none is a number: one pass, and no copy.
    if logits.numel() and not bool(logits.amax(dim=-1).isfinite().all()):
        raise nonfinite_error(model)


def nonfinite_error(model: Any, *, rows: Sequence[int] = ()) -> NonFiniteError:
    """Return the error that says whether a model's weights or its inputs are to blame.

    Args:
        model: what gave NaN or infinity; anything else than a module has no weights to look at.
        rows: of which rows of a table it gave them, if known.
    """
    weights = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    checked = {name: each for name, each in weights.items() if each.is_floating_point() and not each.is_meta}
    broken = [name for name, each in checked.items() if not bool(each.isfinite().all())]
    if broken:
        return NonFiniteError(
            f"The model gives no numbers, because its weights hold NaN or infinity: {', '.join(broken[:3])} "
            f"({len(broken)} of {len(checked)} in all). Its training diverged, or its file is damaged",
            fix=Message(
                "Restore the file, or train again; after a divergence with a smaller {learning_rate}.",
                learning_rate=NAME,
            ),
        )
    largest = max((float(each.abs().max()) for each in checked.values() if each.numel()), default=0.0)
    if largest > LARGEST_WEIGHT:
        return NonFiniteError(
            f"The model gives no numbers, because its weights are as large as {largest:.2g} and overflow. Its training "
            "diverged, or its file is damaged",
            fix=Message("Restore the file, or train again with a smaller {learning_rate}.", learning_rate=NAME),
        )
    which = f" of row {', '.join(str(row + 1) for row in rows[:3])} ({len(rows)} in all)" if rows else ""
    return NonFiniteError(
        f"The model gives no numbers for the inputs{which}, though its weights are finite",
        fix="Look for numbers of the context that are far from those of training, or run it in float32.",
    )
