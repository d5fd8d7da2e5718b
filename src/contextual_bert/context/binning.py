"""Edges of the bins of a number, at quantiles of the rows the schema is inferred from.

It deliberately does not know columns or features. Not in the paper.
"""

import numpy as np


def quantile_edges(unique: np.ndarray, counts: np.ndarray, *, num_bins: int, min_count: int) -> tuple[float, ...]:
    """Lower ends of all bins but the first, so that the bins hold about equally many rows.

    With at most `num_bins` distinct numbers each has its own bin. In both cases a bin holds `min_count` rows or more,
    except where there are fewer rows than that. A number that many rows share ends up alone in its bin.

    Args:
        unique: the distinct numbers, rising.
        counts: how many rows have each.
        num_bins: the most bins.
        min_count: the fewest rows of a bin.

    Example:
        >>> quantile_edges(np.array([1.0, 2.0, 3.0]), np.array([50, 1, 60]), num_bins=16, min_count=10)
        (2.0,)
        >>> quantile_edges(np.arange(100.0), np.full(100, 5), num_bins=4, min_count=10)
        (25.0, 50.0, 75.0)
    """
    cumulative = np.cumsum(counts)
    num_rows, is_few = int(cumulative[-1]), len(unique) <= num_bins
    edges: list[float] = []
    done = 0
    while len(edges) < num_bins - 1:
        share = 1 if is_few else (num_rows - done) / (num_bins - len(edges))
        goal = done + max(min_count, share)
        last = int(np.searchsorted(cumulative, goal))
        # Stop before a number that overshoots the goal by more than leaving it out falls short of it.
        if last > 0 and last < len(unique) and cumulative[last - 1] >= done + min_count:
            last -= int(goal - cumulative[last - 1] < cumulative[last] - goal)
        if last >= len(unique) - 1 or num_rows - cumulative[last] < min_count:
            break
        edges.append(float(unique[last + 1]))
        done = int(cumulative[last])
    return tuple(edges)
