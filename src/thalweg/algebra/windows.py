"""Windows as logical nodes: what of a stream a query sees, and when its content is reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from thalweg.algebra.terms import Const
from thalweg.instants import show_instant

if TYPE_CHECKING:
    from thalweg.schema.axioms import Schema

CLOSED_OPEN, OPEN_CLOSED = "CLOSED-OPEN", "OPEN-CLOSED"
CLOSE, CHANGE, NON_EMPTY, PERIODIC = "WINDOW-CLOSE", "CONTENT-CHANGE", "NON-EMPTY", "PERIODIC"
ELEMENTS, TRIPLES = "ELEMENTS", "TRIPLES"

Instants = TypeVar("Instants", bound=Any)  # one, or a column of them
ReportTimes = tuple[int, int]  # an origin and a distance


@dataclass(frozen=True, slots=True)
class Report:
    """When a window's content is reported; `empty` asks for a sign where the answer is empty."""

    kind: str
    period: int | None = None
    empty: bool = False

    def __post_init__(self) -> None:
        if self.kind not in (CLOSE, CHANGE, NON_EMPTY, PERIODIC):
            raise ValueError(f"unknown report {self.kind!r}")
        if (self.kind == PERIODIC) != (self.period is not None):
            raise ValueError("a periodic report has a period, and no other has one")
        if self.period is not None and self.period <= 0:
            raise ValueError("PERIODIC must be longer than nothing")
        if self.empty and self.kind == NON_EMPTY:
            raise ValueError("NON-EMPTY reports nothing where the answer is empty")

    def __str__(self) -> str:
        period = "" if self.period is None else f" {show_duration(self.period)}"
        return f"REPORT {self.kind}{period}{' WITH EMPTY' if self.empty else ''}"


@dataclass(frozen=True, slots=True)
class Unbounded:
    """No window: the stream is a dynamic graph."""

    def __str__(self) -> str:
        return "dynamic graph"


@dataclass(frozen=True, slots=True)
class Range:
    """A time window, in microseconds; without a step it slides with every instant.

    CLOSED-OPEN holds at t what came in [t - width, t), OPEN-CLOSED what came in (t - width, t].

    >>> print(Range(10_000_000, 5_000_000), Range(10_000, bounds=CLOSED_OPEN))
    [RANGE 10s STEP 5s] [RANGE 10ms BOUNDS CLOSED-OPEN]
    """

    width: int
    step: int | None = None
    origin: int = 0
    bounds: str = ""
    report: Report | None = None

    def __post_init__(self) -> None:
        if self.width <= 0:
            raise ValueError("RANGE must be longer than nothing")
        if self.step is not None and self.step <= 0:
            raise ValueError("STEP must be longer than nothing")
        if self.bounds not in ("", CLOSED_OPEN, OPEN_CLOSED):
            raise ValueError(f"unknown bounds {self.bounds!r}")
        if self.step is None and self.asked == CLOSE:
            raise ValueError(
                "WINDOW-CLOSE needs a STEP: a window that slides with every instant never closes"
            )
        # What is not said and what is said needlessly are the same window.
        object.__setattr__(self, "bounds", self.bounds or self._usual_bounds)
        object.__setattr__(self, "report", self.report or self._usual_report)

    @property
    def asked(self) -> str | None:
        """The kind of report, if one was asked for."""
        return None if self.report is None else self.report.kind

    @property
    def _usual_bounds(self) -> str:
        return OPEN_CLOSED if self.step is None else CLOSED_OPEN

    @property
    def _usual_report(self) -> Report:
        return Report(CHANGE if self.step is None else CLOSE)

    @property
    def period(self) -> int | None:
        """The distance of reports, where it is not the window's own."""
        return None if self.report is None else self.report.period

    @property
    def early(self) -> bool:
        """Whether the content at an instant is known when the instant comes: it is of what came before."""
        return self.bounds == CLOSED_OPEN

    @property
    def report_times(self) -> ReportTimes | None:
        """The instants at which it is reported whether or not the answer changed."""
        distance = self.period or self.step
        return None if distance is None or self.asked == CHANGE else (self.origin, distance)

    @property
    def reach(self) -> int:
        """How long after an event the window can still hold it."""
        return self.width + (self.step or 0) + (self.period or 0) + 1

    @property
    def moves(self) -> int | None:
        """The least distance between two of its ends; None: it moves with every instant."""
        return None if self.step is None and self.period is None else max(self.step or 0, self.period or 0)

    def end_at(self, time: Instants) -> Instants:
        """Where the window ends that is seen at an instant.

        >>> Range(10, 5).end_at(14), Range(10, 5, report=Report(PERIODIC, 7)).end_at(13)
        (10, 5)
        """
        for distance in (self.period, self.step):
            if distance is not None:
                time = time - (time - self.origin) % distance
        return time

    def end_after(self, end: int) -> int:
        """The instant at which the window is seen that follows the one with this end.

        >>> Range(10, 5).end_after(10), Range(10, 5, report=Report(PERIODIC, 7)).end_after(5)
        (15, 14)
        """
        if self.step is None:
            return end + (self.period or 0)
        time = end + self.step
        return time + (self.origin - time) % (self.period or 1)

    @property
    def content(self) -> Range:
        """The window as its store sees it: reports that do not touch the content are the same."""
        return replace(self, report=Report(PERIODIC, self.period) if self.period else None)

    def __str__(self) -> str:
        step = "" if self.step is None else f" STEP {show_duration(self.step)}"
        origin = "" if self.origin == 0 else f" ORIGIN {show_instant(self.origin)}"
        bounds = "" if self.bounds == self._usual_bounds else f" BOUNDS {self.bounds}"
        report = "" if self.report == self._usual_report else f" {self.report}"
        return f"[RANGE {show_duration(self.width)}{step}{origin}{bounds}{report}]"


@dataclass(frozen=True, slots=True)
class Count:
    """A window by count: the last `size` events or triples, seen anew after each `step` of them.

    >>> print(Count(ELEMENTS, 10, 5), Count(TRIPLES, 100))
    [ELEMENTS 10 STEP 5] [TRIPLES 100]
    """

    unit: str
    size: int
    step: int = 1
    origin: int = 0
    report: Report | None = None

    def __post_init__(self) -> None:
        if self.unit not in (ELEMENTS, TRIPLES):
            raise ValueError(f"unknown unit {self.unit!r}")
        if self.size <= 0 or self.step <= 0:
            raise ValueError(f"{self.unit} and STEP must be at least 1")
        object.__setattr__(self, "report", self.report or Report(CLOSE))

    @property
    def period(self) -> int | None:
        """The distance of reports, where it is not the window's own."""
        return None if self.report is None else self.report.period

    @property
    def report_times(self) -> ReportTimes | None:
        """The instants at which it is reported whether or not the answer changed, if time decides."""
        return None if self.period is None else (self.origin, self.period)

    @property
    def reach(self) -> int:
        """How long after an event a change of the content can still be reported."""
        return self.period + 1 if self.period is not None else 0

    @property
    def ticks(self) -> bool:
        """Whether each step of elements is reported, whether or not the answer changed."""
        return self.report is not None and self.report.kind in (CLOSE, NON_EMPTY)

    @property
    def content(self) -> Count:
        """The window as its store sees it: reports that do not touch the content are the same."""
        return replace(self, report=Report(PERIODIC, self.period) if self.period else None)

    def __str__(self) -> str:
        step = "" if self.step == 1 else f" STEP {self.step}"
        origin = "" if self.origin == 0 else f" ORIGIN {show_instant(self.origin)}"
        report = "" if self.report == Report(CLOSE) else f" {self.report}"
        return f"[{self.unit} {self.size}{step}{origin}{report}]"


@dataclass(frozen=True, slots=True)
class Now:
    """The window that holds exactly one graph event."""

    def __str__(self) -> str:
        return "[NOW]"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The triples of a window with the times of their latest arrivals, as a graph that patterns can read.

    Each triple (of those that fit one of `wanted`, where None is any term) is a node with a subject, a predicate, an
    object and times: see `ARRIVAL`.
    """

    window: Range
    wanted: tuple[tuple[Const | None, ...], ...]

    @property
    def content(self) -> Arrivals:
        """The window as its store sees it."""
        return replace(self, window=self.window.content)

    def __str__(self) -> str:
        return f"{self.window}, latest arrivals"


@dataclass(frozen=True, slots=True)
class Part:
    """Triples of a shard: those that have the constants of one of some patterns, and whose terms are of the shard.

    `coordinates` are places of terms (0 is the subject), and for each in how many parts it spreads its triples and
    which of them this is.
    """

    patterns: tuple[tuple[str | None, str | None, str | None], ...]
    coordinates: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Entailed:
    """A window whose content is closed under a schema; the window itself sees asserted triples only."""

    window: Unbounded | Range | Count | Now
    schema: Schema
    parts: tuple[Part, ...] = ()
    """Where the query is spread over shards: which derived triples belong to this one; none: all of them."""

    @property
    def content(self) -> Entailed:
        """The window as its store sees it."""
        window = self.window
        return replace(self, window=window.content) if isinstance(window, Range | Count) else self

    def __str__(self) -> str:
        return f"{self.window}, closed under {self.schema.source}"


@dataclass(frozen=True, slots=True)
class Static:
    """No window over static data: they are there until they are replaced. They may be closed under a schema."""

    schema: Schema | None = None

    def __str__(self) -> str:
        return "static" if self.schema is None else f"static, closed under {self.schema.source}"


ARRIVAL = "urn:thalweg:arrival:"
"""The predicates of an arrival begin with it."""
SUBJECT, PREDICATE, OBJECT, TIME, MILLISECONDS = (
    Const.iri(ARRIVAL + name) for name in ("subject", "predicate", "object", "time", "milliseconds")
)

Window = Unbounded | Range | Count | Now | Arrivals | Entailed | Static


def show_duration(us: int) -> str:
    """A duration in its largest whole unit.

    >>> show_duration(90_000_000), show_duration(1)
    ('90s', '1us')
    """
    for unit, size in (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if us % size == 0:
            return f"{us // size}{unit}"
    return f"{us}us"
