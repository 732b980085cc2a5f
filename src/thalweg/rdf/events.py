"""The currency between reading and matching: rows of whole events, in arrival order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME, Reject

_COLUMNS = ("time", "event", "graph", "s", "p", "o", "op")


@dataclass(frozen=True)
class EventBatch:
    """Rows of one stream; those of an event are adjacent, `event` is its number in the stream (from 0).

    clock: the largest time of an event of the stream up to the batch's end, also of events that left no row
    (NO_TIME before the first); events: how many ended in this batch, with or without rows.
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
    events: int = 0
    op: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Left out, all rows are inserts."""
    before: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The largest time of an event before the row's own, with or without rows; left out, the rows tell."""

    def __post_init__(self) -> None:
        if not self.op.size:
            object.__setattr__(self, "op", np.ones(self.s.size, dtype=np.int64))
        if (
            self.before.size not in (0, self.s.size)
            or len({getattr(self, name).size for name in _COLUMNS}) != 1
        ):
            raise ValueError("columns of different lengths")

    def __len__(self) -> int:
        return int(self.s.size)

    @classmethod
    def empty(cls, stream: str, clock: int = NO_TIME, rejects: tuple[Reject, ...] = ()) -> EventBatch:
        """A batch without rows."""
        none = np.empty(0, dtype=np.int64)
        return cls(stream, none, none, none, none, none, none, clock, rejects)
