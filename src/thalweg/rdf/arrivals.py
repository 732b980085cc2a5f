"""Where events stand in their stream: the times of numbered ones, and the lines of what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from thalweg.errors import DataError
from thalweg.instants import LAST
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import Chunk, Reject

_MOST_SOURCES = 1024


@dataclass(frozen=True)
class Pace:
    """Microseconds from one numbered event to the next, as a fraction: a whole part, and rest / steps.

    >>> import numpy as np
    >>> Pace.of(unit_us=1000, rate=3).times(np.arange(4)).tolist()
    [0, 333333, 666666, 1000000]
    """

    whole: int = 1000
    rest: int = 0
    steps: int = 1

    @classmethod
    def of(cls, unit_us: int = 1000, rate: int | float | Fraction | None = None) -> Pace:
        """A distance of `unit_us` microseconds, or so many events a second."""
        if unit_us < 0 or (rate is not None and rate <= 0):
            raise ValueError("time must not run backwards")
        spacing = Fraction(unit_us) if rate is None else 1_000_000 / Fraction(rate).limit_denominator(10**6)
        return cls(*divmod(spacing.numerator, spacing.denominator), spacing.denominator)

    def times(self, event: Ids) -> Ids:
        """The times of events by their numbers from 0."""
        times = event * self.whole
        if self.rest:
            times += event * self.rest // self.steps
        return times

    def check(self, time: int, event: int, source: str) -> None:
        """Refuse a time beyond the range of time."""
        if time > LAST:
            raise DataError(f"event {event} is beyond the year 9999: raise the rate", source=source)


class SourceLines:
    """How many lines of each source were read, so that rejects are placed in their source and not in a piece of it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.last = ""
        """The source of the last chunk."""

    def placed(self, chunk: Chunk) -> tuple[Reject, ...]:
        """The rejects of the next chunk, with lines counted from the beginning of their source."""
        before = self.counts.pop(chunk.source, 0)
        self.counts[chunk.source] = before + chunk.lines
        self.last = chunk.source
        if len(self.counts) > _MOST_SOURCES:
            del self.counts[next(iter(self.counts))]
        if before == 0:
            return chunk.rejects
        return tuple(replace(reject, line=reject.line and reject.line + before) for reject in chunk.rejects)
