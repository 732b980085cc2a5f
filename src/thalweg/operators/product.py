"""The product: solutions of parts that share no variable, combined when one of them has news.

Each part keeps its live solutions; a new one meets those of the other parts. The product itself is never
stored: memory is the sum of the parts, work is the output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.layout import OUT_BINDINGS, OUT_EVENT, OUT_FROM, OUT_GRAPH, OUT_TO, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.spans import Spans
from thalweg.operators.state import State

Ints = NDArray[np.int64]
_FEW = 8


class Product:
    """Combines the parts of one query; `columns[k]` is where the bindings of part k go in a solution."""

    def __init__(self, columns: Sequence[Sequence[int]], *, per_event: bool) -> None:
        self._columns = [list(places) for places in columns]
        self._width = OUT_BINDINGS + sum(map(len, columns))
        self._per_event = per_event
        self._parts = [np.empty((0, OUT_BINDINGS + len(places)), np.int64) for places in columns]
        self._tidy_at = [_FEW] * len(self._parts)
        self._half_at = [int(FOREVER)] * len(
            self._parts
        )  # by part: when half of what was kept will have ended

    def step(self, part: int, spans: Spans) -> Spans:
        """Takes new solutions of one part, in time order; answers the solutions of the query that they make."""
        new = spans.cells[:, : OUT_BINDINGS + len(self._columns[part])].copy()
        combined = self._widened(part, new)
        for other, known in enumerate(self._parts):
            if other != part:
                combined = self._met(combined, other, known)
        self._parts[part] = np.concatenate([self._parts[part], new])
        return Spans(combined)

    def tidy(self, now: int, event: int) -> None:
        """Lets go of what no later solution can meet: none begins before `now`, or belongs to an earlier event."""
        for part, known in enumerate(self._parts):
            if self._per_event:
                self._parts[part] = known[known[:, OUT_EVENT] == event]
            elif len(known) > self._tidy_at[part]:
                self._tidy(part, now)

    def settle(self, now: int) -> None:
        """Lets go of what ended at or before `now`, once half of it has; of an event, once its instant is over."""
        for part, known in enumerate(self._parts):
            if self._half_at[part] <= now:
                self._tidy(part, now)
            elif self._per_event and len(known) and known[-1, OUT_FROM] < now:
                self._keep(part, known[:0].copy())

    def clear(self) -> None:
        """Releases everything: there will be no further call."""
        for part, known in enumerate(self._parts):
            self._keep(part, known[:0].copy())

    def _tidy(self, part: int, now: int) -> None:
        known = self._parts[part]
        known = known[known[:, OUT_TO] > now]
        self._keep(part, _netted(known) if len(known) else known)

    def _keep(self, part: int, known: Ints) -> None:
        self._parts[part] = known
        self._tidy_at[part] = max(_FEW, 2 * len(known))
        self._half_at[part] = int(FOREVER)
        if len(known) and not self._per_event:
            middle = len(known) // 2
            self._half_at[part] = int(np.partition(known[:, OUT_TO], middle)[middle])

    def state(self) -> State:
        """The live solutions of the parts."""
        return {"parts": self._parts}

    def restore(self, state: State) -> None:
        """Holds what a saved product held."""
        for part, known in enumerate(state["parts"]):
            self._keep(part, known)

    @property
    def held(self) -> int:
        """How many solutions are kept."""
        return sum(map(len, self._parts))

    def live_ids(self) -> list[Ints]:
        """The term ids of the solutions that are kept."""
        return [
            ids for known in self._parts for ids in (known[:, OUT_BINDINGS:].ravel(), known[:, OUT_GRAPH])
        ]

    @property
    def nbytes(self) -> int:
        """The memory of the solutions that are kept."""
        return sum(known.nbytes for known in self._parts)

    def _widened(self, part: int, solutions: Ints) -> Ints:
        wide = np.zeros((len(solutions), self._width), np.int64)
        wide[:, :OUT_BINDINGS] = solutions[:, :OUT_BINDINGS]
        wide[:, [OUT_BINDINGS + place for place in self._columns[part]]] = solutions[:, OUT_BINDINGS:]
        return wide

    def _met(self, combined: Ints, part: int, known: Ints) -> Ints:
        """Each combined row with each row of another part that lives at the same time."""
        left = np.repeat(np.arange(len(combined)), len(known))
        right = np.tile(np.arange(len(known)), len(combined))
        if self._per_event:
            meet = combined[left, OUT_EVENT] == known[right, OUT_EVENT]
        else:
            begin = np.maximum(combined[left, OUT_FROM], known[right, OUT_FROM])
            end = np.minimum(combined[left, OUT_TO], known[right, OUT_TO])
            meet = begin < end
        left, right = left[meet], right[meet]
        out = combined[left]
        out[:, OUT_WEIGHT] *= known[right, OUT_WEIGHT]
        if not self._per_event:
            out[:, OUT_FROM], out[:, OUT_TO] = begin[meet], end[meet]
        out[:, [OUT_BINDINGS + place for place in self._columns[part]]] = known[right, OUT_BINDINGS:]
        return out


def _netted(known: Ints) -> Ints:
    """The same sum with the fewest rows: for each binding, its weight over time in maximal pieces.

    What was taken back ends where that happened, and what was prolonged is one piece.
    """
    bindings = known[:, OUT_BINDINGS:]
    if bindings.shape[1]:
        _, first, group = np.unique(bindings, axis=0, return_index=True, return_inverse=True)
    else:
        first, group = np.zeros(1, np.int64), np.zeros(len(known), np.int64)
    time = np.concatenate([known[:, OUT_FROM], known[:, OUT_TO]])
    change = np.concatenate([known[:, OUT_WEIGHT], -known[:, OUT_WEIGHT]])
    group = np.tile(group.ravel(), 2)
    order = np.lexsort((time, group))
    time, change, group = time[order], change[order], group[order]
    starts = np.flatnonzero(np.r_[True, (time[1:] != time[:-1]) | (group[1:] != group[:-1])])
    change, time, group = np.add.reduceat(change, starts), time[starts], group[starts]
    turns = change != 0
    time, group, weight = time[turns], group[turns], np.cumsum(change[turns])
    # The changes of a binding sum to nothing, so that its last turn leaves no weight behind.
    begins = np.flatnonzero(weight)
    out = known[first[group[begins]]]
    out[:, OUT_FROM], out[:, OUT_TO], out[:, OUT_WEIGHT] = time[begins], time[begins + 1], weight[begins]
    return out
