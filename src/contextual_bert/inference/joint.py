"""Several blanks of a set at once: which items belong together, under a budget and whatever else was asked.

It says which joint distribution is meant, chooses between the methods of `joint_search.py`, and turns ids into answers.
Not in the paper, which fills one blank.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from contextual_bert.errors import NAME, ConfigurationError, Message, did_you_mean
from contextual_bert.inference.catalogue_columns import PRICE
from contextual_bert.inference.completion_answers import Completion, JointAnswer, Method
from contextual_bert.inference.constraints import CONSTRAINTS, ConstraintInput, Permitted
from contextual_bert.inference.joint_search import (
    Blanks,
    Conditionals,
    Found,
    chain_scores,
    diverse,
    gibbs,
    pseudo_scores,
    search,
)
from contextual_bert.inference.queries import MASK, Request, check_count, check_seed
from contextual_bert.nouns import counted

GIBBS_CHAINS = 16
GIBBS_SHARES = 6  # forward passes of a chain and blank: one for its start, two at least for its draws, three for scores


@dataclass(frozen=True)
class JointSearch:
    """Settings of a joint completion: the search, the number of answers and their diversity.

    Formula:
        Pr(x_1, ..., x_n | v, c) = product over i of Pr(x_i | x_1, ..., x_(i-1), v, c), each factor the model's with the
        blanks i to n masked; restricted to what is permitted

    Symbols: x_i the item in the i-th blank, in the order of positions; v the visible items; c context.

    Args:
        num_completions: how many at most.
        diversity: at least so many items of the blanks differ between any two completions; all of them, where a set has
            fewer blanks. The same items in other blanks are no other completion.
        method: ``exact`` sees everything that is permitted; ``beam`` keeps the best partial sets, as many as the passes
            allow; ``gibbs`` draws blank after blank given all the others, and ranks what it came by; ``auto`` is exact
            where the passes suffice, else beam.
        max_forward_passes: how many partial sets the search may put through the model.
        batch_size: how many of them at once.
        seed: of the draws of gibbs.

    Raises:
        ConfigurationError: a setting that cannot work.

    Relation to its siblings:
        ``CompletionPipeline.__call__`` fills each blank by itself. The conditionals of a masked model need not belong
        to one joint distribution, so the order matters: this is the joint of the order of positions, in which each
        factor is a question that the model was trained for if several items a set were masked. ``gibbs`` visits sets
        by the full conditionals, whose stationary distribution is another joint; what it found is ranked by the one
        above. The pseudo-log-likelihood is a score without an order, and no probability.

    Reference:
        Wang and Cho (2019), BERT has a mouth, and it must speak: BERT as a Markov random field language model; Salazar
        et al. (2020), Masked language model scoring, for the pseudo-log-likelihood.

    Example:
        >>> JointSearch(num_completions=3).method
        'auto'
    """

    num_completions: int = 5
    diversity: int = 1
    method: Method = "auto"
    max_forward_passes: int = 1000
    batch_size: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_completions", "diversity", "max_forward_passes", "batch_size"):
            check_count(name, getattr(self, name))
        check_seed(self.seed)
        if self.method not in get_args(Method):
            raise ConfigurationError(
                "is unknown", setting="method", value=self.method, allowed=did_you_mean(self.method, get_args(Method))
            )

    def chosen_method(self, num_permitted: list[int]) -> str:
        """exact, beam or gibbs for blanks with so many permitted items each.

        Raises:
            ConfigurationError: the forward passes do not suffice for the method that was asked for.
        """
        num_blanks = len(num_permitted)
        needed = {
            "exact": sum(math.prod(num_permitted[:blank]) for blank in range(num_blanks)),
            "beam": num_blanks,
            "gibbs": GIBBS_SHARES * num_blanks,
        }
        method = self.method
        if method == "auto":
            method = "exact" if needed["exact"] <= self.max_forward_passes else "beam"
        if needed[method] > self.max_forward_passes:
            raise ConfigurationError(
                f"over {counted(num_blanks, 'blank')} takes up to {counted(needed[method], 'forward pass')}, more than "
                f"the {self.max_forward_passes:,} of max_forward_passes",
                setting="method",
                value=method,
                fix=Message(
                    "Choose {method}, narrow the blanks with constraints, or raise {max_forward_passes}.",
                    method="auto",
                    max_forward_passes=NAME,
                ),
            )
        return method

    def run(
        self,
        logits: Callable[[Mapping[str, Any]], Tensor],
        inputs: Mapping[str, Any],
        request: Request,
        *,
        asked: ConstraintInput,
        permitted: Permitted,
        has_order: bool = False,
    ) -> JointAnswer:
        """The answer to one query, without what is unknown in it and without notes.

        Args:
            logits: gives (masked, vocabulary) for a batch of inputs.
            inputs: of the set, or of the items of a long sequence that are read, as a batch of one.
            request: the query as it was read.
            asked, permitted: its constraints.
            has_order: the model tells the same items in another order apart.

        Raises:
            ConfigurationError: the forward passes do not suffice.
        """
        blanks = Blanks(asked, request.settings, permitted.items)
        method = self.chosen_method(permitted.items.sum(axis=1).tolist())
        conditionals = Conditionals(
            logits,
            inputs,
            mask_id=blanks.mask_id,
            reserved=(*range(len(asked.vocabulary.reserved)), *_not_read(inputs, asked)),
            batch_size=self.batch_size,
            can_repeat=asked.can_repeat,
        )
        reasons = [reason for blank in range(len(permitted.items)) if (reason := permitted.reason(blank))]
        found = _nothing(blanks)._replace(log_total=-math.inf if method == "exact" else None)
        if not reasons:
            found = self._found(conditionals, blanks, method, has_order=has_order)
        if not reasons and len(found.filled) == 0:
            reasons.append(_no_combination(request, method, num_blanks=len(blanks.permitted)))
        num_forward_passes = conditionals.num_forward_passes
        min_different = min(self.diversity, len(blanks.permitted))
        best = diverse(found, count=self.num_completions, min_different=min_different)
        chosen = Found(found.filled[best], found.scores[best], found.log_total)
        return JointAnswer(
            items=request.items,
            completions=_completions(chosen, conditionals, asked),
            method=method,
            num_forward_passes=num_forward_passes,
            excluded_probability=max(0.0, 1 - math.exp(found.log_total)) if found.log_total is not None else None,
            reason=reasons[0] if reasons else None,
            unknown_items=[],
            unknown_context={},
            notes=[],
        )

    def _found(self, conditionals: Conditionals, blanks: Blanks, method: str, *, has_order: bool) -> Found:
        num_blanks = len(blanks.permitted)
        # The best of a row that shares no item with the chosen ones is among so many, and no later one is better.
        keep = self.num_completions * num_blanks + 1
        if method == "exact":
            return search(conditionals, blanks, keep=keep)
        if method == "beam":
            width = (self.max_forward_passes - 1) // max(1, num_blanks - 1)
            return search(conditionals, blanks, keep=keep, width=width, has_order=has_order)
        num_chains = max(1, min(GIBBS_CHAINS, self.max_forward_passes // (GIBBS_SHARES * num_blanks)))
        start = search(conditionals, blanks, keep=num_chains, width=num_chains, has_order=has_order).filled[:num_chains]
        if len(start) == 0:
            return _nothing(blanks)
        left = self.max_forward_passes // 2 - conditionals.num_forward_passes
        generator = torch.Generator().manual_seed(self.seed)
        num_sweeps = max(1, left // (len(start) * num_blanks))
        draws = list(gibbs(conditionals, blanks, start, num_sweeps=num_sweeps, generator=generator))
        visited, counts = np.unique(np.concatenate([start, *draws]), axis=0, return_counts=True)
        num_scored = (self.max_forward_passes - conditionals.num_forward_passes) // num_blanks
        visited = visited[np.argsort(-counts, kind="stable")[:num_scored]]
        scores = chain_scores(conditionals, blanks, visited)
        order = np.argsort(-scores, kind="stable")
        return Found(visited[order], scores[order])


def _not_read(inputs: Mapping[str, Any], asked: ConstraintInput) -> list[int]:
    """Return the ids of items that stand before those that are read, where none is proposed again."""
    num_before = len(asked.items) - inputs["input_ids"].shape[1]
    found = [asked.vocabulary.id_of_value(item) for item in asked.items[:num_before]]
    return [] if asked.can_repeat else [index for index in found if index is not None]


def _nothing(blanks: Blanks) -> Found:
    return Found(np.empty((0, len(blanks.permitted)), np.int64), np.empty(0))


def _no_combination(request: Request, method: str, *, num_blanks: int) -> str:
    names = [name for name in request.settings if CONSTRAINTS[name].across_blanks]
    if method == "exact":
        return f"Each of the {num_blanks} blanks has items, and no choice for all keeps {' and '.join(names)}."
    return (
        f"The search came to no choice for all {num_blanks} blanks that keeps {' and '.join(names)}; there may be one. "
        "Raise max_forward_passes."
    )


def _completions(found: Found, conditionals: Conditionals, asked: ConstraintInput) -> list[Completion]:
    prices = np.full(len(found.filled), np.nan)
    if asked.catalogue is not None and PRICE in asked.catalogue.table.column_names:
        with np.errstate(over="ignore"):
            prices = asked.catalogue.prices[found.filled].sum(axis=1)
    pseudo = pseudo_scores(conditionals, found.filled) if len(found.filled) else np.empty(0)
    completions: list[Completion] = []
    for ids, score, other, price in zip(found.filled.tolist(), found.scores.tolist(), pseudo, prices, strict=True):
        names = [asked.vocabulary.value_of(index) for index in ids]
        left = iter(names)
        completions.append(
            Completion(
                items=[next(left) if item == MASK else item for item in asked.items],
                filled=names,
                log_probability=score,
                probability=math.exp(score - found.log_total) if found.log_total is not None else None,
                pseudo_log_likelihood=float(other),
                price=float(price) if math.isfinite(price) else None,  # a sum of finite ones may be infinite
            )
        )
    return completions
