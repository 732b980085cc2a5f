"""What goes from reading to matching: rows of whole events, in arrival order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME, Reject

_COLUMNS = ("time", "event", "graph", "s", "p", "o", "op")


@dataclass(slots=True)
class Rows:
    """Triples of events as columns: when, which event, its graph, the triple, and whether it is inserted or deleted."""

    time: Ids
    event: Ids
    graph: Ids
    s: Ids
    p: Ids
    o: Ids
    op: Ids

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, key: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(*(column[key] for column in self.columns))

    @property
    def columns(self) -> tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids]:
        """The columns in the order in which rows are made of them."""
        return self.time, self.event, self.graph, self.s, self.p, self.o, self.op

    @property
    def ids(self) -> tuple[Ids, Ids, Ids, Ids]:
        """The columns of term ids."""
        return self.graph, self.s, self.p, self.o

    @classmethod
    def inserts(cls, time: Ids, event: Ids, graph: Ids, s: Ids, p: Ids, o: Ids) -> Rows:
        """Triples that are inserted."""
        return cls(time, event, graph, s, p, o, np.ones(len(time), np.int64))

    @classmethod
    def marker(cls, time: int, event: int) -> Rows:
        """A row without a triple, for an event that counts although none of its triples is wanted."""
        columns = np.zeros((len(_COLUMNS), 1), np.int64)
        columns[0], columns[1], columns[-1] = time, event, 1
        return cls(*columns)

    @classmethod
    def empty(cls) -> Rows:
        """No rows."""
        return _NO_ROWS

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        """Several as one, one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))

    def copy(self) -> Rows:
        """The same rows in memory of their own."""
        return Rows(*(column.copy() for column in self.columns))

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return sum(column.nbytes for column in self.columns)


_NO_ROWS = Rows(*(np.empty(0, np.int64) for _ in _COLUMNS))


@dataclass(frozen=True)
class EventBatch:
    """Rows of one stream; those of an event are adjacent, and its number in the stream (from 0) is in `rows.event`.

    clock: the largest time of an event of the stream up to the batch's end, also of events that left no row
    (NO_TIME before the first).
    """

    stream: str
    rows: Rows
    clock: int = NO_TIME
    rejects: tuple[Reject, ...] = ()
    event_time: Ids | None = None
    """The times of all events that ended in this batch, with or without rows, in the order in which they came; NO_TIME
    for one that was refused. None: the rows are events of which each has some.
    """
    first_event: int = 0
    """The number of the event that `event_time` begins with."""
    inserts: NDArray[np.bool_] | None = None
    """Which events of `event_time` insert triples, whether or not their rows are here; None: all of them."""

    def __post_init__(self) -> None:
        if len({column.size for column in self.rows.columns}) != 1:
            raise ValueError("columns of different lengths")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def times(self) -> Ids:
        """The times of the events, in the order in which they came."""
        return self.rows.time[self._first_rows] if self.event_time is None else self.event_time

    @property
    def numbers(self) -> Ids:
        """The numbers of the events, in the order in which they came."""
        if self.event_time is None:
            return self.rows.event[self._first_rows]
        return np.arange(self.first_event, self.first_event + len(self.event_time))

    @property
    def events(self) -> int:
        """How many events ended in this batch."""
        if self.event_time is not None:
            return int(np.count_nonzero(self.event_time != NO_TIME))
        event = self.rows.event
        return 1 + int(np.count_nonzero(event[1:] != event[:-1])) if len(event) else 0

    @property
    def places(self) -> Ids:
        """The place in `times` of each row's event."""
        if self.event_time is None:
            return np.cumsum(self._first_rows) - 1
        return self.rows.event - self.first_event

    @property
    def _first_rows(self) -> NDArray[np.bool_]:
        """Whether a row is the first of its event."""
        event = self.rows.event
        return np.concatenate([np.ones(min(len(event), 1), np.bool_), event[1:] != event[:-1]])

    def with_markers(self) -> EventBatch:
        """The batch with a marker, a row whose ids are 0, for each event whose inserted triples have no row.

        Windows `[ELEMENTS n]` count events, also those of which a reader has kept nothing.
        """
        if self.event_time is None:
            return self
        marked = self.event_time != NO_TIME
        if self.inserts is not None:
            marked &= self.inserts
        places = self.places
        marked[places] = False
        bare = np.flatnonzero(marked)
        if not len(bare):
            return self
        columns = np.zeros((len(_COLUMNS), len(self) + len(bare)), np.int64)
        time, event, *_, op = columns
        is_row = np.zeros(len(time), np.bool_)
        is_row[np.arange(len(self)) + np.searchsorted(bare, places)] = True
        columns[:, is_row] = self.rows.columns
        time[~is_row], event[~is_row], op[~is_row] = self.event_time[bare], bare + self.first_event, 1
        return replace(self, rows=Rows(*columns))

    @classmethod
    def empty(cls, stream: str, clock: int = NO_TIME, rejects: tuple[Reject, ...] = ()) -> EventBatch:
        """A batch without rows."""
        return cls(stream, Rows.empty(), clock, rejects)
