"""Counting: the feed of a window by count, made of the rows of its streams in time order.

Elements (events, or triples) are numbered from 0. After each STEP of them the last SIZE become the content: the
elements of the step enter, those that are no longer among the last SIZE leave, all at the time of the element
that closes the step. The feed has this for the window's store:

- INSERT, `event` = number of the element, when the step of the element closes;
- EXPEL, `event` = number of the element, when it is no longer among the last SIZE;
- DELETE, `event` = number of the first element of the same instant, at once: it ends what came before;
- RETRACT, like it, when the step that was open at the delete closes: its elements become visible only then.

An event whose triples nobody wants is a marker among the rows, a row whose ids are 0: it counts, and does not enter.

Each row enters and leaves two queues once, so that work does not depend on the size of the window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import ELEMENTS, Count
from thalweg.kernels.store import DELETE, EXPEL, INSERT, RETRACT
from thalweg.operators.state import State
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
_NUMBER, _ROW = 0, 4  # the cells of a queued row: its number, s, p, o
_FEW = 64


class RowQueue:
    """Rows (number, s, p, o) in order of their numbers: added at the end, taken from the front."""

    def __init__(self) -> None:
        self._cells = np.empty((_ROW, _FEW), np.int64)
        self._start = self._end = 0

    def add(self, rows: Ints) -> None:
        """Adds rows, as columns, whose numbers are not below those that are there."""
        more = rows.shape[1]
        if self._end + more > self._cells.shape[1]:
            self._move(2 * (len(self) + more))
        self._cells[:, self._end : self._end + more] = rows
        self._end += more

    def take(self, limit: int) -> Ints:
        """Takes the rows with numbers below `limit`."""
        count = int(np.searchsorted(self._cells[_NUMBER, self._start : self._end], limit))
        taken = self._cells[:, self._start : self._start + count].copy()
        self._start += count
        if self._cells.shape[1] > 8 * len(self) + _FEW:
            self._move(_FEW)
        return taken

    def _move(self, room: int) -> None:
        """Moves the rows to an array that has at least twice the room for them, and at least this."""
        held = len(self)
        cells = np.empty((_ROW, max(room, 2 * held)), np.int64)
        cells[:, :held] = self.rows()
        self._cells, self._start, self._end = cells, 0, held

    def rows(self) -> Ints:
        """The rows that are there, as columns."""
        return self._cells[:, self._start : self._end]

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        """The memory of the queue."""
        return self._cells.nbytes


class Counting:
    """State of one window by count over some streams of a streamset."""

    def __init__(self, window: Count, streams: Sequence[int], wanted: Ints | None) -> None:
        """`streams` are numbers of feeds; `wanted` the predicates that patterns name, None if some name none."""
        self.window = window
        self.count = 0
        self._streams = np.array(sorted(streams), np.int64)
        self._wanted = wanted
        self._last_time = int(np.iinfo(np.int64).min)
        self._instant_first = 0
        self._pending = RowQueue()  # elements of the open step
        self._visible = RowQueue()  # elements of the content
        self._deletes = RowQueue()  # deletes that elements of the open step must meet
        self._held: tuple[Ints, Rows] | None = None

    def step(self, feed: Ints, rows: Rows, bound: int) -> tuple[Rows, Ints]:
        """Takes rows in time order up to `bound`; gives the rows of its own feed, and the times of its reports."""
        if len(feed):
            mine = np.isin(feed, self._streams)
            if not mine.all():
                feed, rows = feed[mine], rows[mine]
        if len(self._streams) > 1:
            feed, rows = self._ordered(feed, rows, bound)
        if not len(feed):
            return Rows.empty(), np.empty(0, np.int64)
        return self._count(rows)

    def _ordered(self, feed: Ints, rows: Rows, bound: int) -> tuple[Ints, Rows]:
        """Rows of several streams by time and stream; an instant waits until nothing can be added to it."""
        if self._held is not None:
            feed = np.concatenate([self._held[0], feed])
            rows = Rows.concat([self._held[1], rows])
        if not len(feed):
            return feed, rows
        order = np.lexsort((feed, rows.time))
        feed, rows = feed[order], rows[order]
        cut = int(np.searchsorted(rows.time, bound))
        # Copies, so that the rest does not keep what goes on.
        self._held = (feed[cut:].copy(), rows[cut:].copy()) if cut < len(feed) else None
        return feed[:cut], rows[:cut]

    def _count(self, rows: Rows) -> tuple[Rows, Ints]:
        time, event, _, s, p, o, op = rows.columns
        inserts = op == INSERT
        came, number = self._number(time[inserts], event[inserts])
        base, self.count = self.count, self.count + len(came)
        size, step = self.window.size, self.window.step
        reported = self.count // step * step

        elements = np.stack([number, s[inserts], p[inserts], o[inserts]])
        self._pending.add(elements[:, self._wanted_rows(elements)])
        entering = self._pending.take(reported)
        closing = (entering[_NUMBER] // step + 1) * step - 1
        seen = entering[_NUMBER] > closing - size
        entering, closing = entering[:, seen], closing[seen]
        self._visible.add(entering)
        leaving = self._visible.take(reported - size)
        expiry = ((leaving[_NUMBER] + size) // step + 1) * step - 1
        parts = [
            _part(came[closing - base], closing, 0, INSERT, entering),
            _part(came[expiry - base], expiry, 2, EXPEL, leaving),
        ]
        if not inserts.all() or len(self._deletes):
            gone = ~inserts
            first = self._first(time[gone], came, base)
            parts += self._delete(time[gone], np.stack([first, s[gone], p[gone], o[gone]]), came, base)
        self._remember(came, base)
        return _merged(parts), _distinct(came[step - 1 - base % step :: step])

    def _number(self, time: Ints, event: Ints) -> tuple[Ints, Ints]:
        """The times of the new elements, and the number of each row's element."""
        new = np.ones(len(event), bool)
        if self.window.unit == ELEMENTS:
            new[1:] = (event[1:] != event[:-1]) | (time[1:] != time[:-1])
        return time[new], self.count + np.cumsum(new) - 1

    def _first(self, time: Ints, came: Ints, base: int) -> Ints:
        """The number of the first element at or after each of these times."""
        first = base + np.searchsorted(came, time)
        return np.where(time == self._last_time, self._instant_first, first)

    def _remember(self, came: Ints, base: int) -> None:
        if len(came) and came[-1] != self._last_time:
            self._last_time = int(came[-1])
            self._instant_first = base + int(np.searchsorted(came, came[-1]))

    def _delete(self, time: Ints, rows: Ints, came: Ints, base: int) -> list[Ints]:
        """Deletes take effect at once, and once more when a step closes that was open at that time."""
        step = self.window.step
        wanted = self._wanted_rows(rows)
        time, rows = time[wanted], rows[:, wanted]
        at_once = _part(time, np.full(len(time), -1), 0, DELETE, rows)
        first = rows[_NUMBER]
        # Elements below `first` are in an open step if that has begun, and no step has closed over them yet.
        self._deletes.add(rows[:, (first % step != 0) & ((first // step + 1) * step > base)])
        again = self._deletes.take(self.count // step * step + 1)
        closing = (again[_NUMBER] // step + 1) * step - 1
        return [at_once, _part(came[closing - base], closing, 1, RETRACT, again)]

    def _wanted_rows(self, rows: Ints) -> NDArray[np.bool_]:
        """The rows that the store needs; a marker has no predicate."""
        return rows[2] != 0 if self._wanted is None else np.isin(rows[2], self._wanted)

    def state(self) -> State:
        """Everything but the window."""
        return {
            "count": self.count,
            "last_time": self._last_time,
            "instant_first": self._instant_first,
            "queues": [queue.rows() for queue in self._queues],
            "held": None if self._held is None else [self._held[0], *self._held[1].columns],
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved one was."""
        self.count = state["count"]
        self._last_time, self._instant_first = state["last_time"], state["instant_first"]
        for queue, rows in zip(self._queues, state["queues"], strict=True):
            queue.add(rows)
        if state["held"] is not None:
            feed, *columns = state["held"]
            self._held = (feed, Rows(*columns))

    @property
    def _queues(self) -> tuple[RowQueue, ...]:
        return (self._pending, self._visible, self._deletes)

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be sent to the store."""
        ids = [queue.rows()[1:].ravel() for queue in self._queues]
        return ids if self._held is None else [*ids, *self._held[1].ids]

    def clear(self) -> None:
        """Releases everything: there will be no further call."""
        self._pending, self._visible, self._deletes = RowQueue(), RowQueue(), RowQueue()
        self._held = None

    @property
    def held(self) -> int:
        """How many rows are kept."""
        return sum(map(len, self._queues)) + (0 if self._held is None else len(self._held[0]))

    @property
    def nbytes(self) -> int:
        """The memory of the elements that are kept."""
        held = 0 if self._held is None else self._held[0].nbytes + self._held[1].nbytes
        return sum(queue.nbytes for queue in self._queues) + held


def _distinct(times: Ints) -> Ints:
    """Times in order, each once."""
    new = np.ones(len(times), bool)
    new[1:] = times[1:] != times[:-1]
    return times[new]


def _part(time: Ints, closing: Ints, phase: int, op: int, rows: Ints) -> Ints:
    """Rows of the feed as columns: time, closing element, phase, number, s, p, o, op."""
    size = len(time)
    part = np.empty((8, size), np.int64)
    part[0], part[1], part[2], part[3:7], part[7] = time, closing, phase, rows, op
    return part


def _merged(parts: list[Ints]) -> Rows:
    """The rows of all parts by time; within an instant deletes first, then report by report."""
    feed = np.concatenate(parts, axis=1)
    if feed.shape[1] > 1:
        feed = feed[:, np.lexsort(feed[3::-1])]
    time, _, _, number, s, p, o, op = feed
    return Rows(time, number, np.zeros(len(time), np.int64), s, p, o, op)
