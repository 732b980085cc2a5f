"""What is in a file: statements, events, times and terms, and what of it is malformed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from thalweg.instants import show_instant
from thalweg.io.files import FileEvents
from thalweg.io.outcome import count
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.compression import compression_of
from thalweg.rdf.prune import Prune

STREAM = "urn:thalweg:stream"
"""The stream that files are read as."""
_MOST_TERMS = 256 * 1024 * 1024
_KINDS = {"IRI": ord("<"), "literal": ord('"'), "blank node": ord("_")}


@dataclass
class Findings:
    """What a file holds."""

    path: str
    title: str
    statements: int = 0
    deletes: int = 0
    graphs: int = 0
    terms: dict[str, int] = field(default_factory=dict)
    events: int = 0
    first: int | None = None
    last: int | None = None
    untimed: int = 0
    """Graphs, and statements of the default graph, that have no time."""
    malformed: int = 0
    shown: list[Reject] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The findings as text."""
        yield f"{self.path}: {self.title}"
        terms = ", ".join(count(number, kind) for kind, number in self.terms.items() if number)
        deletes = f", {count(self.deletes, 'delete')}" if self.deletes else ""
        graphs = f", {count(self.graphs, 'named graph')}" if self.graphs else ""
        yield f"  {count(self.statements, 'statement')}{deletes}{graphs}" + (f"; {terms}" if terms else "")
        if self.events and self.first is not None and self.last is not None:
            times = f"{show_instant(self.first)} to {show_instant(self.last)}"
            yield f"  {count(self.events, 'event')}, {times}"
        if self.untimed:
            yield f"  {self.untimed:,} graphs and statements without a time: they are no events"
        yield f"  {self.malformed:,} malformed" + (":" if self.malformed else "")
        for reject in self.shown:
            yield f"    {reject.error()}" + (f"  |  {reject.text[:80]}" if reject.text else "")
        if self.malformed > len(self.shown):
            yield f"    ... and {self.malformed - len(self.shown):,} more (--show N)"


def check_file(path: str, options: RunOptions, *, show: int) -> Findings:
    """Read a file to its end. Graphs are read as statements first: one without a time is not malformed."""
    format = options.format_for(path)
    packed = compression_of(path)
    found = Findings(path, format.title + (f", {packed.title}" if packed else ""))
    plain = options if format.has_events else replace(options, mode="triples", blank_nodes="stable")
    arena = Arena()
    events = FileEvents([path], STREAM, arena, Prune.everything(), plain)
    terms: dict[str, Ids] = {kind: np.empty(0, np.int64) for kind in _KINDS}
    graphs = np.empty(0, np.int64)
    for batch in events:
        rows = batch.rows
        found.statements += len(rows)
        found.deletes += int(np.count_nonzero(rows.op < 0))
        graphs = np.union1d(graphs, rows.graph)
        ids = np.unique(np.concatenate([np.unique(column) for column in rows.ids]))
        ids = ids[ids != 0]
        initials = arena.initials(ids)
        for kind, initial in _KINDS.items():
            terms[kind] = np.union1d(terms[kind], ids[initials == initial])
        found.malformed += len(batch.rejects)
        found.shown += batch.rejects[: show - len(found.shown)] if len(found.shown) < show else ()
        _observe(found, batch.times)
        if arena.used_bytes > _MOST_TERMS:
            arena.compact(events.live_ids())
    found.graphs = int(np.count_nonzero(graphs))
    found.terms = {kind: len(ids) for kind, ids in terms.items()}
    if format.mode == "graphs":
        _check_times(found, path, options)
    return found


def _observe(found: Findings, times: Ids) -> None:
    times = times[times != NO_TIME]
    found.events += len(times)
    if len(times):
        low, high = int(times.min()), int(times.max())
        found.first = low if found.first is None else min(low, found.first)
        found.last = high if found.last is None else max(high, found.last)


def _check_times(found: Findings, path: str, options: RunOptions) -> None:
    """Read the graphs of a file once more, as events."""
    found.events, found.first, found.last = 0, None, None
    events = FileEvents([path], STREAM, Arena(), Prune.of([]), options)
    for batch in events:
        _observe(found, batch.times)
        found.untimed += sum(reject.kind == "untimed" for reject in batch.rejects)
    found.untimed += events.framer.ignored
