"""The events of a session: how they are pushed, and how time goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.answers import Stream
from thalweg.arguments import graph_name_of, nearest, stream_of, time_of
from thalweg.engine.queries import SessionWithQueries
from thalweg.errors import UsageError, warn
from thalweg.instants import Time
from thalweg.kernels.store import DELETE, FOREVER, INSERT
from thalweg.operators.streamset import Streamset
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import Reader, format_named
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.table_rows import TableBuilder, table_of
from thalweg.rdf.timestamped import TimestampedFramer
from thalweg.statements import likely_cause, lines_of

Ints = NDArray[np.int64]
_OPS = {"insert": INSERT, "delete": DELETE}


class SessionWithEvents(SessionWithQueries):
    """A session that takes events, watermarks and the ends of streams."""

    def push(
        self,
        stream: str,
        *,
        at: Time,
        graph: Any,
        op: str = "insert",
        name: str | None = None,
        format: str | None = None,
    ) -> None:
        """Takes one event: a graph at a time (milliseconds, an aware datetime, xsd:dateTime text, or a row's `at`).

        `graph` is a text, whose format is nt (the default), nq, turtle, trig, jsonld, rdfxml or n3; a list of tuples
        (subject, predicate, object) or (subject, predicate, object, graph) of terms and Python values; a graph or a
        dataset of rdflib; or triples, quads, a dataset or a store of pyoxigraph.

        `op` is "insert" or "delete"; at one instant, deletes come before inserts. `name` is the IRI of the graph,
        which [NOW] rows carry.
        """
        if op != "insert" and op != "delete":
            raise UsageError(f'op is "insert" or "delete", not {op!r:.60}')
        if type(stream) is not str or stream not in self._streams:
            stream = stream_of(stream)
        self._begin(stream)
        time = time_of(at)
        if isinstance(graph, str):
            data, format = graph.encode("utf-8", "surrogatepass"), format or "nt"
        elif isinstance(graph, bytes | bytearray | memoryview):
            data, format = bytes(graph), format or "nt"
        elif format is None:
            data, format = lines_of(graph)
        else:
            raise UsageError(f"format is for texts, and the graph is of type {type(graph).__name__}")
        self._pushes += 1
        chunk = self._reader(stream, format).read(data, offset=self._pushes)
        rest = np.empty((4, len(chunk.s)), np.int64)
        # Events below zero: framers number those of the same stream from 0 on.
        rest[0], rest[1], rest[3] = time, -self._pushes, _OPS[op]
        rest[2] = self.arena.intern(f"<{graph_name_of(name)}>".encode()) if name else 0
        if format != "nt" and not name:
            rest[2] = _one_graph(chunk.g)
        times, event, named, ops = rest
        rows = Rows(times, event, named, chunk.s, chunk.p, chunk.o, ops)
        if chunk.rejects:
            self._side.reject(chunk.rejects)
            if stream not in self._rejecting:
                self._note_rejected(stream, chunk.rejects[0], data, format)
        if chunk.refused:
            return
        state = self._stream(stream)
        marked = None
        if time < state.watermark:
            self._side.note_late(stream, time, state.watermark, -self._pushes)
            rows = rows[:0]
        elif chunk.statements and not len(rows) and op == "insert":
            marked = Rows.marker(time, -self._pushes)
        streamsets = self._reading(stream)
        if time >= state.watermark:
            self._open(streamsets, time)
        self._take(state, streamsets, rows, time, 1, marked)

    def _note_rejected(self, stream: str, reject: Reject, data: bytes, format: str) -> None:
        """Warns of the first push to a stream that a reader refused, or a part of it."""
        self._rejecting.add(stream)
        cause = likely_cause(data, format)
        warn(
            f"a graph pushed to <{stream}> was quarantined ({reject.reason}){cause}; session.quarantine() has it, "
            "and stats.quarantined counts all"
        )

    def push_rows(self, stream: str, rows: Any, *, mapping: Mapping | str, at: Time | None = None) -> None:
        """Takes rows as events, by a mapping (or its text): an Arrow table, a pandas frame, dicts, or columns.

        A row is an event at the time that the mapping states, else at `at`. The rows of one call are taken in the order
        of their times.
        """
        stream = stream_of(stream)
        self._begin(stream)
        given = Mapping(mapping) if isinstance(mapping, str) else mapping
        if (given.rules.time is None) == (at is None):
            how = (
                "states no time of its rows: give at="
                if at is None
                else "states the time of its rows: leave out at="
            )
            raise UsageError(f"the mapping {how}", source=given.source)
        table = table_of(rows, given)
        chunk = TableBuilder(given, table.schema, self.prune(), stream).build(self.arena, table)
        if at is not None:
            chunk.time[:] = time_of(at)
        # Events below zero: framers number those of the same stream from 0 on.
        self._pushes += table.num_rows
        self.push_events(TimestampedFramer(stream, self.arena, first_event=-self._pushes).frame(chunk))

    def push_events(self, batch: EventBatch) -> None:
        """Takes a batch of events as a reader frames them."""
        self._begin(batch.stream)
        if batch.rejects:
            self._side.reject(batch.rejects)
        state = self._stream(batch.stream)
        streamsets = self._reading(batch.stream)
        rows, marked = batch.rows, None
        late = self._side.find_late(state, batch)
        if any(streamset.counts_events for streamset in streamsets):
            with_markers = batch.with_markers()
            marked = with_markers.rows if late is None else with_markers.rows[~late[with_markers.places]]
        if late is not None:
            rows = rows[~late[batch.places]]
        if any(streamset.awaits_start for streamset in streamsets):
            times = batch.times if late is None else batch.times[~late]
            self._open(streamsets, int(times[times != NO_TIME].min(initial=FOREVER)))
        self._take(state, streamsets, rows, batch.clock, batch.events, marked)

    def _reader(self, stream: str, format: str) -> Reader:
        """The reader of pushed graphs, made anew when the queries change."""
        if format_named(format).has_events:
            title = format_named(format).title
            raise UsageError(f"{title} states events, and push takes one graph: read it from a file")
        reader = self._readers.get((stream, format))
        if reader is None or reader.prune is not self.prune():
            reader = self._readers[stream, format] = format_named(format).reader(
                self.arena,
                self.prune(),
                source=stream,
                blank_nodes=self.options.blank_nodes,
                per_event=0,
                time_predicate=b"",
            )
        return reader

    def _begin(self, stream: str | None) -> None:
        """Refuses what no event or watermark may do; drops rows that too many others wait with."""
        if self._closed:
            self._check_open()
        if self._overfull:
            self._bound_pending()
        if stream is not None and stream in self._derived:
            raise UsageError(
                f"<{stream}> is derived from a registered query and takes no other events: push to another stream"
            )

    def _bound_pending(self) -> None:
        """Drops the oldest rows of queries that nobody polls, or refuses to go on."""
        for view in self._overfull:
            if view.limit is None or view.pending <= view.limit:
                continue
            if self.options.on_pending == "fail":
                raise UsageError(
                    f"{view.pending:,} rows of a query wait for a poll, and {view.limit:,} are the most: "
                    "poll it, unregister it, or raise max_pending"
                )
            if not view.dropped:
                warn(f"nobody polls a query: of more than {view.limit:,} rows the oldest are dropped")
            view.drop_oldest()
        self._overfull.clear()

    def _open(self, streamsets: list[Streamset], time: int) -> None:
        """Takes the time of an event that is not late: the first one is the first instant of queries."""
        if time == FOREVER:
            return
        for streamset in streamsets:
            if streamset.awaits_start:
                streamset.open(time)

    def _take(
        self,
        state: Stream,
        streamsets: list[Streamset],
        rows: Rows,
        clock: int,
        events: int,
        marked: Rows | None,
    ) -> None:
        """Takes rows of events that are not late; `clock` is the largest time of an event, with or without rows.

        `marked` are the rows with markers of events that have none, for windows that count events.
        """
        stream = state.name
        self.stats.events += events
        self.stats.triples += len(rows)
        if not streamsets and stream not in self._retained:
            self.stats.unread += events
            if events and stream not in self._unread:
                self._unread.add(stream)
                read = {name: None for one in self._streamsets for name in one.streams}
                hint = nearest(stream, read)
                warn(f"no query reads <{stream}>: its events are counted in stats.unread, and lost{hint}")
        state.clock = max(state.clock, clock)
        if state.clock != NO_TIME:
            state.watermark = max(state.watermark, state.clock - self._lateness)
        for streamset in streamsets:
            counted = streamset.counts_events and marked is not None
            streamset.push(stream, marked if counted else rows, state.clock, state.watermark)
        if stream in self._retained:
            self._retained[stream].add(rows, state.watermark)
        self._run(streamsets, len(rows))

    # Time

    def advance(self, at: Time, stream: str | None = None) -> None:
        """Sets the watermark of one stream or of all source streams: no event before it will come."""
        time = time_of(at)
        stream = None if stream is None else stream_of(stream)
        self._begin(stream)
        names = [stream] if stream is not None else self.source_streams
        for name in names:
            state = self._stream(name)
            later = time > state.watermark
            state.watermark = max(state.watermark, time)
            if name in self._retained:
                self._retained[name].add(Rows.empty(), state.watermark)
            for streamset in self._reading(name):
                if later and streamset.awaits_start:
                    streamset.open(time)
                streamset.push(name, None, state.clock, state.watermark)
        self._run([one for one in self._streamsets if not set(names).isdisjoint(one.streams)])

    def finish(self, stream: str | None = None, *, drain: bool = False) -> None:
        """Ends one stream or all source streams: nothing more will come.

        When all streams of a query have ended, its last instant is complete. With `drain`, time then runs on
        until its windows are empty.
        """
        stream = None if stream is None else stream_of(stream)
        self._begin(stream)
        names = [stream] if stream is not None else self.source_streams
        streamsets = [one for one in self._streamsets if not set(names).isdisjoint(one.streams)]
        for streamset in streamsets:
            streamset.finish(names, drain=drain)
        self._run(streamsets)

    def reopen(self, stream: str, *, tentatively: bool = False) -> int:
        """Takes an ended stream as running again, and returns its watermark: the time that its end had brought.

        Several streams that go on are all reopened before the first event of one of them comes. `tentatively`: it may
        be ended again without an event.
        """
        names = [stream, *self._derived.derived_from(stream)]
        streamsets = {name: self._reading(name) for name in names}
        if not tentatively:
            for name in names[1:]:
                self._derived.check_reopened(name, streamsets[name])
        state = self._stream(stream)
        bounds = [streamset.bound for reading in streamsets.values() for streamset in reading]
        state.watermark = max(state.watermark, *bounds, NO_TIME)
        for name, reading in streamsets.items():
            for streamset in reading:
                streamset.reopen(name)
                streamset.push(name, None, self._stream(name).clock, self._stream(name).watermark)
        return state.watermark


def _one_graph(g: Ints) -> int:
    """The graph that all triples of an event are in, or 0."""
    return int(g[0]) if g.size and bool((g == g[0]).all()) else 0
