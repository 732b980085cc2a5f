"""The bounds of a window as a column: rows are taken back and come anew whenever the window moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.terms import XSD
from thalweg.algebra.windows import Range
from thalweg.instants import show_instant
from thalweg.operators.runs import runs
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.timeline import CountedRows
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]


class WindowEnds:
    """The rows of the input with one more column: where the window ends that is seen at the instant.

    It has to know how far time has come: `until` is set before each step.
    """

    replayable = True
    linear = False

    def __init__(self, window: Range, width: int, arena: Arena) -> None:
        self.window = window
        self.width = width
        self.until = 0
        """The last instant of the next step."""
        self._arena = arena
        self.clear()

    def clear(self) -> None:
        """Lets go of everything."""
        self._rows = CountedRows(self.width - 1)
        self._end = self._id = 0

    @property
    def due(self) -> int | None:
        """The instant at which the window moves, if that changes a row."""
        return self.window.end_after(self._end) if len(self._rows) else None

    def step(self, *inputs: Changes) -> Changes:
        """The changes of the rows, and all rows with another end at each instant at which the window moves."""
        (changes,) = inputs
        changes = changes.consolidated()
        parts: list[Changes] = []
        ends = self.window.end_at(changes.time)
        for begin, after in runs(ends):
            self._move(int(ends[begin]), changes[begin:after], parts)
        self._move(self.window.end_at(self.until), changes[:0], parts)
        made = Changes.concat(parts, self.width)
        return made

    def _move(self, end: int, changes: Changes, parts: list[Changes]) -> None:
        """Takes changes while the window has an end; it moves there one by one while there are rows."""
        while len(self._rows) and self._end < end:
            at = self.window.end_after(self._end)
            now = changes[changes.time == at]
            changes = changes[len(now) :]
            rows, counts = self._rows.content()
            parts.append(self._shown(np.full(len(rows), at, np.int64), -counts, rows))
            self._rows.add(now.weight, now.rows)
            self._set(self.window.end_at(at))
            rows, counts = self._rows.content()
            parts.append(self._shown(np.full(len(rows), at, np.int64), counts, rows))
        if len(changes):
            self._set(end)
            self._rows.add(changes.weight, changes.rows)
            parts.append(self._shown(changes.time, changes.weight, changes.rows))

    def _set(self, end: int) -> None:
        if end != self._end or not self._id:
            self._end = end
            self._id = self._arena.intern(f'"{show_instant(end)}"^^<{XSD}dateTime>'.encode())

    def _shown(self, time: Ints, weight: Ints, rows: Ints) -> Changes:
        cells = np.empty((len(rows), self.width), np.int64)
        cells[:, :-1], cells[:, -1] = rows, self._id
        return Changes(time, weight, cells)

    def state(self) -> State:
        """The rows and how often they are there, and the end that they have."""
        return {"rows": self._rows.state(), "end": self._end}

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        self._rows.restore(state["rows"])
        self._id = 0
        self._set(state["end"])

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows and of the end."""
        return [self._rows.content()[0].ravel(), np.array([self._id], np.int64)]

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        return self._rows.give_back(spare)

    @property
    def held(self) -> int:
        """How many different rows there are."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return self._rows.nbytes
