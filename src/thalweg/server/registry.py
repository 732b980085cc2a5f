"""What a service has registered: streams, plans, and queries with their leases."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.answers import ContinuousQuery
from thalweg.rdf.chunk import Reject
from thalweg.server.bodies import Framing
from thalweg.server.ring import Columns, Ring

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
        names = ("name", "declared", "retention", "bodies", "events", "triples", "late", "quarantined")
        return {name: getattr(self, name) for name in names} | {"framing": asdict(self.framing)}

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
    ended: str | None = None
    """Why it has gone, if so: `dropped`, `expired` or `failed`."""

    def state(self) -> dict[str, Any]:
        """Everything, as values of JSON."""
        names = ("id", "text", "columns", "construct", "lease_ms", "expires", "created", "given")
        return {name: getattr(self, name) for name in names} | {"plan": self.plan.number}
