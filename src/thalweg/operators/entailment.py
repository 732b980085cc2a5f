"""Entailment: the feed of a window that is closed under a schema, made of the asserted triples of its streams.

Each rule reads one triple, so what follows from a triple is found by itself (`schema.Expansion`). The store of the
window has derived triples like any others: one that comes again lives longer, which is right for a triple with several
derivations as long as nothing is deleted. Until the first delete, the asserted triples are only logged. From then on,
and in windows by count, the supports of each derived triple are kept (`kernels.supports`): it goes with the last of
them, or is cut to the end of those that are left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Count, Entailed, Now, Part, Range
from thalweg.kernels import supports as kernel
from thalweg.kernels.store import INSERT
from thalweg.operators.counting import Counting
from thalweg.operators.state import State
from thalweg.plan.cells import in_parts
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.schema.expansion import Derived, Expansion

Ints = NDArray[np.int64]
_FEW = 1024
_NO_TIMES = np.empty(0, np.int64)


class Entailment:
    """State of one closed window over some streams of a streamset."""

    def __init__(self, window: Entailed, streams: Sequence[int], feeds: int, expansion: Expansion) -> None:
        """`streams` are numbers of feeds, of which there are so many."""
        self.window = window
        self.absent = 0
        """How many deletes found nothing to delete."""
        self._takes = np.zeros(feeds, np.bool_)
        self._takes[list(streams)] = True
        self.expansion = expansion
        self._counting = Counting(window.window, streams, None) if isinstance(window.window, Count) else None
        self._parts = _Parts(window.parts, expansion.arena) if window.parts else None
        self._per_event = isinstance(window.window, Now)
        self._cells = _cells(window)
        self._log: list[Ints] = []
        self._logged = self._kept = 0
        self._supports = _Supports(self._cells) if self._counting is not None else None

    def step(self, feed: Ints, rows: Rows, bound: int) -> tuple[Rows, Ints]:
        """Takes rows in time order up to `bound`; gives the rows of its own feed, and the times of its reports."""
        if self._counting is not None:
            rows, reports = self._counting.step(feed, rows, bound)
            return self._supported(rows), reports
        if not len(feed):
            return Rows.empty(), _NO_TIMES
        if self._supports is None and (self._per_event or (rows.op == INSERT).all()):
            return self._expanded(feed, rows, bound), _NO_TIMES
        if self._supports is None:
            self._support(int(rows.time[0]))
        mine = self._takes[feed] & (rows.s != 0)
        return self._supported(rows if mine.all() else rows[mine]), _NO_TIMES

    def _supported(self, rows: Rows) -> Rows:
        """What changes of the derived triples by rows, which may delete some."""
        assert self._supports is not None
        if not len(rows):
            return Rows.empty()
        derived = self.expansion.derive(rows.s, rows.p, rows.o)
        if self._supports.is_full(len(rows), len(derived.s)):
            self._renew(int(rows.time[0]), len(rows), len(derived.s))
        made = self._supports.step(rows, self._own(derived))
        self.absent = self._supports.absent
        return made

    def _own(self, derived: Derived) -> Derived:
        """The derived triples of this shard."""
        if self._parts is None:
            return derived
        mine = self._parts.holds(derived.s, derived.p, derived.o)
        return Derived(*(column[mine] for column in derived))

    def _expanded(self, feed: Ints, rows: Rows, bound: int) -> Rows:
        """The rows that follow from others where nothing is deleted."""
        columns, logged = self.expansion.derive_rows(feed, self._takes, rows.columns, log=not self._per_event)
        made = Rows(*columns)
        if self._parts is not None:
            made = made[self._parts.holds(made.s, made.p, made.o)]
        if self._per_event:
            inserts = made.op == INSERT
            if not inserts.all():  # an event of deletes has no content
                self.absent += int(np.count_nonzero(self._takes[feed] & (rows.op != INSERT)))
                made = made[inserts]
        elif logged.shape[1]:
            self._note(logged, bound)
        return made

    def _note(self, logged: Ints, bound: int) -> None:
        """Logs triples from which something follows."""
        self._log.append(logged)
        self._logged += logged.shape[1]
        if self._logged > 2 * self._kept + _FEW:
            logged = _alive(np.concatenate(self._log, axis=1), self._cells, bound)
            if logged.shape[1] > 2 * self._kept:
                logged = _latest(logged)
            self._log, self._logged = [logged], logged.shape[1]
            self._kept = max(self._kept // 2, self._logged)

    def _support(self, now: int) -> None:
        """Begins to keep supports: of what has been logged."""
        self._supports = _Supports(self._cells)
        logged = np.concatenate([np.empty((4, 0), np.int64), *self._log], axis=1)
        self._log, self._logged = [], 0
        self._fill(logged, now, 0, 0)

    def _renew(self, now: int, rows: int, more: int) -> None:
        """Makes the supports anew of what is alive, with room for so many more rows and derived triples."""
        assert self._supports is not None
        kept, absent = self._supports.asserted(), self._supports.absent
        self._supports = _Supports(self._cells)
        self._supports.absent = absent
        self._fill(kept, now, rows, more)

    def _fill(self, asserted: Ints, now: int, rows: int, more: int) -> None:
        """Fills new supports with asserted triples (s, p, o, stamp)."""
        assert self._supports is not None
        kept = np.ascontiguousarray(_latest(_alive(asserted, self._cells, now)))
        derived = self._own(self.expansion.derive(*kept[:3]))
        self._supports.reserve(kept.shape[1] + rows, len(derived.s) + more)
        zeros, ones = np.zeros(kept.shape[1], np.int64), np.ones(kept.shape[1], np.int64)
        s, p, o, stamp = kept
        self._supports.step(Rows(stamp, stamp, zeros, s, p, o, ones), derived)

    def _asserted(self) -> Ints:
        if self._supports is not None:
            return self._supports.asserted()
        return np.concatenate([np.empty((4, 0), np.int64), *self._log], axis=1)

    def state(self) -> State:
        """The asserted triples, and what has been counted."""
        return {
            "asserted": self._asserted(),
            "supported": self._supports is not None,
            "absent": self.absent,
            "counting": None if self._counting is None else self._counting.state(),
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved one was."""
        asserted = state["asserted"]
        if self._counting is not None:
            self._counting.restore(state["counting"])
        if state["supported"]:
            self._supports = _Supports(self._cells)
            self._fill(asserted, int(kernel.NEVER), 0, 0)
            self._supports.absent = state["absent"]
        elif asserted.shape[1]:
            self._log, self._logged = [asserted], asserted.shape[1]
        self.absent = state["absent"]

    def live_ids(self) -> list[Ints]:
        """The terms of asserted triples, and those of the table."""
        counted = [] if self._counting is None else self._counting.live_ids()
        own = [] if self._parts is None else [self._parts.live_ids()]
        return [self.expansion.live_ids(), self._asserted()[:3].ravel(), *counted, *own]

    def clear(self) -> None:
        """Releases everything: there will be no further call."""
        self._log, self._logged = [], 0
        if self._supports is not None:
            self._supports = _Supports(self._cells)
        if self._counting is not None:
            self._counting.clear()

    @property
    def held(self) -> int:
        """How many asserted triples are kept."""
        kept = self._logged if self._supports is None else self._supports.used
        return kept + (0 if self._counting is None else self._counting.held)

    @property
    def nbytes(self) -> int:
        """The memory of the table, the log or the supports, and what is counted."""
        kept = 32 * self._logged if self._supports is None else self._supports.nbytes
        return self.expansion.nbytes + kept + (0 if self._counting is None else self._counting.nbytes)


class _Parts:
    """The triples of a shard."""

    def __init__(self, parts: Sequence[Part], arena: Arena) -> None:
        self._arena = arena
        self._parts = [
            (
                [
                    [None if term is None else arena.intern(term.encode()) for term in pattern]
                    for pattern in part.patterns
                ],
                part.coordinates,
            )
            for part in parts
        ]

    def holds(self, s: Ints, p: Ints, o: Ints) -> NDArray[np.bool_]:
        """Which triples are of the shard."""
        return in_parts(self._parts, self._arena, s, p, o)

    def live_ids(self) -> Ints:
        """The ids of constants."""
        return np.array(
            [id for patterns, _ in self._parts for pattern in patterns for id in pattern if id is not None],
            np.int64,
        )


class _Supports:
    """The arrays of `kernels.supports`."""

    def __init__(self, cells: Ints) -> None:
        self._cells = cells
        self._heads = np.zeros(4, np.int64)
        self.reserve(0, 0)

    def reserve(self, rows: int, derived: int) -> None:
        """Makes room for so many rows and derived triples, and some more; nothing is there yet."""
        rows, derived = 2 * rows + _FEW, 2 * derived + _FEW
        self._rows = np.empty((rows, 6), np.int64)
        self._derived = np.empty((derived, 4), np.int64)
        self._nodes = np.empty((derived, 4), np.int64)
        self._row_slots = np.full(1 << (2 * rows).bit_length(), -1, np.int64)
        self._derived_slots = np.full(1 << (2 * derived).bit_length(), -1, np.int64)

    def is_full(self, rows: int, derived: int) -> bool:
        """Whether so many more rows may not find room."""
        return (
            self._heads[kernel.USED_ASSERTED] + rows > len(self._rows)
            or self._heads[kernel.USED_NODES] + derived > len(self._nodes)
        )  # fmt: skip

    def step(self, rows: Rows, derived: Derived) -> Rows:
        """Applies rows; what changes of the derived triples."""
        bounds = np.searchsorted(derived.source, np.arange(len(rows) + 1))
        out = np.empty((len(derived.s), 6), np.int64)
        written = kernel.apply(
            rows.time,
            rows.event,
            rows.op,
            bounds,
            np.stack([rows.s, rows.p, rows.o]),
            np.stack([derived.s, derived.p, derived.o]),
            self._cells,
            self._heads,
            self._rows,
            self._row_slots,
            self._derived,
            self._derived_slots,
            self._nodes,
            out,
        )
        source, s, p, o, op, event = np.ascontiguousarray(out[:written].T)
        return Rows(rows.time[source], event, rows.graph[source], s, p, o, op)

    def asserted(self) -> Ints:
        """The asserted triples that are not deleted, as columns s, p, o and stamp; some may have left the window."""
        rows = self._rows[: self._heads[kernel.USED_ASSERTED]]
        rows = rows[rows[:, kernel.COUNT] >= 0, : kernel.FIRST]
        return np.ascontiguousarray(rows[np.argsort(rows[:, kernel.STAMP], kind="stable")].T)

    @property
    def absent(self) -> int:
        """How many deletes found nothing to delete."""
        return int(self._heads[kernel.ABSENT])

    @absent.setter
    def absent(self, number: int) -> None:
        self._heads[kernel.ABSENT] = number

    @property
    def used(self) -> int:
        """How many asserted triples there are or were."""
        return int(self._heads[kernel.USED_ASSERTED])

    @property
    def nbytes(self) -> int:
        """The memory of the arrays."""
        arrays = (self._rows, self._derived, self._nodes, self._row_slots, self._derived_slots)
        return sum(array.nbytes for array in arrays)


def _cells(window: Entailed) -> Ints:
    """How the window shows time, for the kernel."""
    cells = np.zeros(7, np.int64)
    cells[kernel.WIDTH] = -1
    inner = window.window
    if isinstance(inner, Range):
        cells[kernel.WIDTH], cells[kernel.LAG] = inner.width, int(inner.early)
        if inner.step is not None:
            cells[kernel.STEP], cells[kernel.ORIGIN] = inner.step, inner.origin % inner.step
    if isinstance(inner, Count):
        cells[kernel.COUNTED] = 1
    if isinstance(inner, Range | Count) and inner.period is not None:
        cells[kernel.PERIOD], cells[kernel.PHASE] = inner.period, inner.origin % inner.period
    return cells


def _alive(asserted: Ints, cells: Ints, now: int) -> Ints:
    """The triples that may still be in the window at `now`."""
    if cells[kernel.WIDTH] < 0 or not asserted.shape[1] or now == kernel.NEVER:
        return asserted
    reach = int(cells[kernel.WIDTH] + cells[kernel.STEP] + cells[kernel.PERIOD] + 1)
    return asserted[:, asserted[3] > now - reach] if now > kernel.NEVER + reach else asserted


def _latest(asserted: Ints) -> Ints:
    """Each triple with its latest stamp, in the order of stamps, which the given ones are in."""
    size = asserted.shape[1]
    if size < 2:
        return asserted
    kept = np.empty(size, np.bool_)
    kernel.last_of_each(asserted, np.full(1 << (2 * size).bit_length(), -1, np.int64), kept)
    return asserted if kept.all() else np.ascontiguousarray(asserted[:, kept])
