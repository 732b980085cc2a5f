"""How much a store holds: figures, and the lines that `thalweg store stats` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.instants import show_instant


@dataclass(frozen=True)
class History:
    """How much history there is, whatever keeps it."""

    rows: int
    deletes: int
    first: int | None
    last: int | None
    horizon: int | None
    """The instant before which the history was dropped."""

    def lines(self) -> Iterator[str]:
        """The figures as text."""
        yield f"{self._rows}, {self.deletes:,} of them deletes"
        if self.first is not None and self.last is not None:
            yield f"from {show_instant(self.first)} to {show_instant(self.last)}"
        if self.horizon is not None:
            yield f"the history before {show_instant(self.horizon)} was dropped"

    @property
    def _rows(self) -> str:
        return f"{self.rows:,} triples in events"


@dataclass(frozen=True)
class StoreStats(History):
    """How much a store of one process holds."""

    events: int
    triples: int
    """Triples of the default graph now."""
    streams: dict[str, int]
    """Rows by stream."""
    predicates: dict[str, int]
    """Triples of the default graph by predicate, most frequent first."""
    records: int
    log_bytes: int
    content_bytes: int
    """Bytes of files that are derived from the log."""

    @property
    def _rows(self) -> str:
        return f"{self.events:,} events, {self.rows:,} triples in them"

    def lines(self) -> Iterator[str]:
        """The figures as text."""
        yield from super().lines()
        yield f"{self.triples:,} triples now"
        yield f"{self.log_bytes:,} bytes of events in {self.records:,} records, {self.content_bytes:,} of content"
        for stream, rows in self.streams.items():
            yield f"stream <{stream}>: {rows:,} triples in events"
        for predicate, triples in self.predicates.items():
            yield f"predicate <{predicate}>: {triples:,}"
