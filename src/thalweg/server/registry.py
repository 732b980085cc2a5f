"""What a service has registered: streams, plans, and queries with their leases."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.answers import ContinuousQuery
from thalweg.rdf.chunk import Reject
from thalweg.rows import Row
from thalweg.server.bodies import Framing
from thalweg.server.ring import Columns, Ring, Taken
from thalweg.server.sharing import Retention

if TYPE_CHECKING:
    import asyncio

_SECONDS = 60.0
_REJECTS = 100


class Rate:
    """Events a second, as an average that forgets with a time constant of a minute."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock` gives milliseconds."""
        self._clock = clock
        self._at = clock()
        self._sum = 0.0

    def add(self, count: int) -> None:
        """Counts so many now."""
        self._sum = self._decayed() + count

    def _decayed(self) -> float:
        now = self._clock()
        passed, self._at = max(0, now - self._at) / 1000, now
        self._sum *= math.exp(-passed / _SECONDS)
        return self._sum

    @property
    def per_second(self) -> float:
        """The rate."""
        return round(self._decayed() / _SECONDS, 3)


@dataclass
class StreamInfo:
    """A stream that was declared, or that a query reads."""

    name: str
    declared: bool = False
    retention: str | None = None
    """How long events are kept before the watermark: a duration or `forever`; None: not at all."""
    retention_changes: int = 0
    keep: bool = False
    """Whether its events go to the store."""
    framing: Framing = field(default_factory=Framing)
    bodies: int = 0
    events: int = 0
    triples: int = 0
    late: int = 0
    quarantined: int = 0
    rejects: deque[Reject] = field(default_factory=lambda: deque(maxlen=_REJECTS))
    rate: Rate | None = None

    def state(self) -> dict[str, Any]:
        """Everything but rates and texts that were refused, as values of JSON."""
        counts = ("bodies", "events", "triples", "late", "quarantined")
        names = ("name", "declared", "retention", "retention_changes", "keep", *counts)
        return {name: getattr(self, name) for name in names} | {"framing": asdict(self.framing)}

    @property
    def retained(self) -> Retention:
        """How it is retained."""
        return Retention(self.retention, self.retention_changes)

    @classmethod
    def restored(cls, state: dict[str, Any]) -> StreamInfo:
        """The stream of such values."""
        return cls(**state | {"framing": Framing(**state["framing"])})


@dataclass(eq=False)
class Plan:
    """A query of the session, which any number of registered queries share; and its results."""

    number: int
    query: ContinuousQuery
    ring: Ring
    key: object
    seen: tuple[tuple[str, int], ...]
    """How far its streams had come when it was registered: a query that comes later shares the plan only if nothing has
    come since, because it sees what comes from then on."""
    start: str
    retained: dict[str, Retention] = field(default_factory=dict)
    """How its streams were retained when it was registered."""
    users: dict[str, Registered] = field(default_factory=dict)
    failed: str | None = None
    waiters: set[asyncio.Event] = field(default_factory=set)
    """What the web side sets when there are new rows; only its thread touches it."""
    rate: Rate | None = None


@dataclass(eq=False)
class Registered:
    """A query as a client has registered it."""

    id: str
    text: str
    plan: Plan
    columns: Columns
    construct: bool
    lease_ms: int
    expires: int
    """In milliseconds since the epoch."""
    created: int
    given: dict[str, Any]
    """What was registered beside the text: stream, schema, rules, start."""
    begin: Ring | None = None
    """The rows that it began with, if it joined a plan that had begun before: the answer at that time."""
    shift: int = 0
    """How much higher the numbers of the plan's rows are to its readers."""
    ended: str | None = None
    """Why it has gone, if so: `dropped`, `expired` or `failed`."""

    @property
    def last(self) -> int:
        """The number of the newest row."""
        return self.plan.ring.last + self.shift

    def join(self, rows: list[Row], after: int) -> None:
        """Begins with rows, which the plan's rows after a number follow."""
        self.begin = Ring(self.plan.ring.size)
        self.begin.add(rows)
        self.shift = len(rows) - after

    def after(self, number: int, format: str, limit: int) -> Taken:
        """The rows after a number, at most so many."""
        first = Taken([], None, number)
        if self.begin is not None and number < self.begin.last:
            first = self.begin.after(number, self.columns, format, limit)
            if first.after < self.begin.last or len(first.rows) == limit:
                return first
        rest = limit - len(first.rows)
        then = self.plan.ring.after(first.after, self.columns, format, rest, self.shift)
        if first.rows and then.gap is not None:
            return first  # a gap comes before rows
        return Taken(first.rows + then.rows, first.gap or then.gap, then.after)

    def state(self) -> dict[str, Any]:
        """Everything, as values of JSON."""
        names = ("id", "text", "columns", "construct", "lease_ms", "expires", "created", "given", "shift")
        begin = None if self.begin is None else self.begin.state()
        return {name: getattr(self, name) for name in names} | {"plan": self.plan.number, "begin": begin}
