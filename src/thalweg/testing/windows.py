"""Windows as the oracle sees them: definitions to be read beside docs/semantics.md, with nothing incremental."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DEFAULT, CLOSE, CHANGE, NON_EMPTY, PERIODIC = "", "WINDOW-CLOSE", "CONTENT-CHANGE", "NON-EMPTY", "PERIODIC"


@dataclass(frozen=True)
class Report:
    """When a window is reported: DEFAULT, CLOSE, CHANGE, NON_EMPTY, or PERIODIC with a period."""

    kind: str = DEFAULT
    period: int = 0
    empty: bool = False

    def __str__(self) -> str:
        if self.kind == DEFAULT:
            return ""
        period = f" {duration_text(self.period)}" if self.kind == PERIODIC else ""
        return f" REPORT {self.kind}{period}{' WITH EMPTY' if self.empty else ''}"


@dataclass(frozen=True)
class Unbounded:
    """No window: everything that has arrived."""

    def holds(self, time: int, t: int) -> bool:
        """Whether the content at instant t has an event of that time."""
        return time <= t

    def seen(self, time: int, t: int) -> bool:
        """Whether the content at instant t has taken notice of what happened at that time."""
        return time <= t

    def turns(self, times: Sequence[int], until: int | None) -> Iterator[int]:
        """Instants at which something may happen to events of these times."""
        yield from times

    def reports(self, t: int) -> bool:
        """Whether t is reported even if nothing changes."""
        return False

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True)
class Range:
    """`[RANGE width]`, or `[RANGE width STEP step]` whose content stands still between steps."""

    width: int
    step: int | None = None
    origin: int = 0
    bounds: str = ""
    report: Report = Report()

    def __post_init__(self) -> None:
        if self.width <= 0 or (self.step is not None and self.step <= 0):
            raise ValueError("a range and a step are positive numbers of microseconds")

    def moment(self, t: int) -> int:
        """The instant whose content is what one sees at t: the last report, and the last step before that."""
        if self.report.kind == PERIODIC:
            t = _floor(t, self.origin, self.report.period)
        return t if self.step is None else _floor(t, self.origin, self.step)

    @property
    def half_open(self) -> bool:
        """Whether the content is of what came in [t - width, t), and not in (t - width, t]."""
        return self.bounds == "CLOSED-OPEN" if self.bounds else self.step is not None

    def holds(self, time: int, t: int) -> bool:
        """Whether the content at instant t has an event of that time."""
        end = self.moment(t)
        return end - self.width <= time < end if self.half_open else end - self.width < time <= end

    def seen(self, time: int, t: int) -> bool:
        """Whether the content at instant t has taken notice of what happened at that time."""
        return time < self.moment(t) if self.half_open else time <= self.moment(t)

    def turns(self, times: Sequence[int], until: int | None) -> Iterator[int]:
        """Instants at which something may happen to events of these times, and all reports up to `until`.

        >>> sorted(Range(10).turns([3], None)), sorted(Range(10, step=5).turns([3], None))
        ([3, 4, 13, 14], [5, 10, 15])
        """
        distances = [d for d in (self.step, self.report.period) if d]
        if not distances:
            yield from {time + later for time in times for later in (0, 1, self.width, self.width + 1)}
            return
        end = max(times) + self.width + sum(distances) if until is None else until
        for distance in distances:
            first = _floor(min(times) - 1, self.origin, distance) + distance
            yield from range(first, end + 1, distance)

    def reports(self, t: int) -> bool:
        """Whether t is reported even if nothing changes."""
        if self.report.kind == PERIODIC:
            return (t - self.origin) % self.report.period == 0
        return self.step is not None and self.report.kind != CHANGE and (t - self.origin) % self.step == 0

    def __str__(self) -> str:
        step = "" if self.step is None else f" STEP {duration_text(self.step)}"
        origin = f" ORIGIN {self.origin // 1000}" if self.origin else ""
        bounds = f" BOUNDS {self.bounds}" if self.bounds else ""
        return f" [RANGE {duration_text(self.width)}{step}{origin}{bounds}{self.report}]"


@dataclass(frozen=True)
class Count:
    """`[ELEMENTS size STEP step]` or `[TRIPLES size STEP step]`: the last of them, after each step of them."""

    unit: str
    size: int
    step: int = 1
    report: Report = Report()

    def moment(self, t: int) -> int:
        """The instant whose content is what one sees at t."""
        return _floor(t, 0, self.report.period) if self.report.kind == PERIODIC else t

    def shown(self, times: Sequence[int], t: int) -> range:
        """Which of the elements that come at these times are the content at t.

        >>> Count("ELEMENTS", 3, step=2).shown([1, 2, 3, 4, 5], 5)
        range(1, 4)
        """
        came = sum(time <= self.moment(t) for time in times)
        reported = came - came % self.step
        return range(max(0, reported - self.size), reported)

    def closes(self, times: Sequence[int]) -> set[int]:
        """The times of the elements that close a step, if each step is reported."""
        if self.report.kind in (CHANGE, PERIODIC):
            return set()
        return set(times[self.step - 1 :: self.step])

    def turns(self, times: Sequence[int], until: int | None) -> Iterator[int]:
        """Instants at which something may happen to events of these times, and all reports up to `until`."""
        yield from times
        if self.report.kind == PERIODIC:
            end = max(times) + self.report.period if until is None else until
            yield from range(_floor(min(times), 0, self.report.period), end + 1, self.report.period)

    def reports(self, t: int) -> bool:
        """Whether t is reported even if nothing changes and no step closes."""
        return self.report.kind == PERIODIC and t % self.report.period == 0

    def __str__(self) -> str:
        return f" [{self.unit} {self.size}{'' if self.step == 1 else f' STEP {self.step}'}{self.report}]"


@dataclass(frozen=True)
class Now:
    """`[NOW]`: each event is a graph of its own."""

    def __str__(self) -> str:
        return " [NOW]"


Window = Unbounded | Range | Count | Now


def duration_text(us: int) -> str:
    """A duration as a query writes it.

    >>> duration_text(10_000), duration_text(1_000_001)
    ('10', 'PT1.000001S')
    """
    if us % 1000 == 0:
        return str(us // 1000)
    return f"PT{us // 1_000_000}.{us % 1_000_000:06d}S"


def _floor(t: int, origin: int, distance: int) -> int:
    return (t - origin) // distance * distance + origin
