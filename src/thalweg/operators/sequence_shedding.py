"""Shedding: what happens to the partial matches of a sequence beyond a limit.

The oldest go first: they have the shortest time left in which they could become matches. What went is counted, a
warning is given, and a gap marks the place among the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import LimitError, warn
from thalweg.instants import show_instant
from thalweg.options import Limits

Ints = NDArray[np.int64]
_FIRST = 0
_KEPT = 3 / 4  # of the limit, so that not every event sheds


class Shedding:
    """The limit of one sequence, and what has been dropped because of it."""

    def __init__(self, limits: Limits) -> None:
        self.limit = limits.partial_matches
        self.fails = limits.fails_on_partial_matches
        self.count = 0
        """Partial matches that were dropped so far."""
        self._warned = 0

    def bounded(self, parts: list[Ints]) -> list[Ints]:
        """Runs in parts: all of them, or the youngest, if these alone are too many."""
        if sum(map(len, parts)) <= self.limit:
            return parts
        return self.youngest([np.concatenate(parts)], int(_KEPT * self.limit))

    def is_over(self, total: int) -> bool:
        """Whether so many are too many."""
        return total > self.limit

    def shed(self, parts: list[Ints], total: int) -> list[Ints]:
        """What is left of runs of which, with others that stay, there are `total`."""
        others = total - sum(map(len, parts))
        return self.youngest(parts, max(int(_KEPT * self.limit) - others, 0))

    def youngest(self, parts: list[Ints], many: int) -> list[Ints]:
        """So many of some runs, in parts: those that began last."""
        if sum(map(len, parts)) <= many:
            return parts
        kept = self.youngest_of(np.concatenate([cells[:, : _FIRST + 1] for cells in parts]), many)
        ends = np.cumsum([len(cells) for cells in parts])[:-1]
        return [
            cells if keep.all() else cells[keep]
            for cells, keep in zip(parts, np.split(kept, ends), strict=True)
        ]

    def youngest_of(self, cells: Ints, many: int) -> NDArray[np.bool_]:
        """Which of some runs are the `many` that began last."""
        firsts = cells[:, _FIRST]
        gone = len(firsts) - many
        kept = np.ones(len(firsts), np.bool_)
        if gone <= 0:
            return kept
        order = np.argsort(firsts, kind="stable")
        kept[order[:gone]] = False
        self.note(gone, int(firsts[order[0]]), int(firsts[order[gone - 1]]))
        return kept

    def note(self, gone: int, oldest: int, latest: int) -> None:
        """Takes note that so many runs are to be dropped, which began from one time to another."""
        if self.fails:
            raise LimitError(
                f"the sequence has more than {self.limit:,} partial matches: shorten WITHIN, join atoms by a variable, "
                "or raise max_partial_matches"
            )
        self.count += gone
        if self.count >= 10 * self._warned:  # the first time, and whenever there are ten times as many
            self._warned = self.count
            warn(
                f"a sequence has more than {self.limit:,} partial matches: the oldest are dropped, "
                f"{self.count:,} so far, and matches that begin from {show_instant(oldest)} to {show_instant(latest)} "
                "may be missing; shorten WITHIN, join atoms by a variable, or raise max_partial_matches"
            )
