"""What goes from reading to matching: rows of whole events, in arrival order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """Rows of one stream; those of an event are adjacent, `event` is its number in the stream (from 0).

    clock: the largest time of an event of the stream up to the batch's end, also of events that left no row
    (NO_TIME before the first).
    """

    stream: str
    time: Ids
    event: Ids
    graph: Ids
    s: Ids
    p: Ids
    o: Ids
    clock: int = NO_TIME
    rejects: tuple[Reject, ...] = ()
    op: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Left out, all rows are inserts."""
    event_time: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The times of all events that ended in this batch, with or without rows, in the order in which they came; NO_TIME
    for one that was refused. Left out, the rows are events of which each has some.
    """
    first_event: int | None = 0
    """The number of the event that `event_time` begins with; None: only events with rows are in it."""

    def __post_init__(self) -> None:
        if not self.op.size:
            object.__setattr__(self, "op", np.ones(self.s.size, dtype=np.int64))
        if len({getattr(self, name).size for name in _COLUMNS}) != 1:
            raise ValueError("columns of different lengths")
        if not self.event_time.size and self.s.size:
            object.__setattr__(self, "event_time", self.time[self.first_rows])
            object.__setattr__(self, "first_event", None)

    def __len__(self) -> int:
        return int(self.s.size)

    @property
    def rows(self) -> Rows:
        """The rows as they go to the matching."""
        return Rows(self.time, self.event, self.graph, self.s, self.p, self.o, self.op)

    @property
    def events(self) -> int:
        """How many events ended in this batch."""
        return int(np.count_nonzero(self.event_time != NO_TIME))

    @property
    def places(self) -> Ids:
        """The place in `event_time` of each row's event."""
        return np.cumsum(self.first_rows) - 1 if self.first_event is None else self.event - self.first_event

    @property
    def first_rows(self) -> NDArray[np.bool_]:
        """Whether a row is the first of its event."""
        return np.concatenate([[True], self.event[1:] != self.event[:-1]])

    @classmethod
    def empty(cls, stream: str, clock: int = NO_TIME, rejects: tuple[Reject, ...] = ()) -> EventBatch:
        """A batch without rows."""
        none = np.empty(0, dtype=np.int64)
        return cls(stream, none, none, none, none, none, none, clock, rejects)
