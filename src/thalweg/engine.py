"""The in-process session: register queries, push events, advance time, poll answers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import DEFAULT_GRAPH, Query
from thalweg.answers import ContinuousQuery, Late, Memory, Stats, Stream
from thalweg.arguments import (
    graph_name_of,
    nearest,
    query_of,
    span_of,
    stream_of,
    time_of,
    under_schema,
)
from thalweg.compaction import Compaction
from thalweg.errors import UsageError, warn
from thalweg.instants import Time
from thalweg.kernels.store import DELETE, FOREVER, INSERT
from thalweg.operators.derived import DerivedStreams
from thalweg.operators.placement import strategy_of, streamset_for, streamset_with_content
from thalweg.operators.retention import Retained
from thalweg.operators.sequences import SequenceSet
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import View
from thalweg.options import LIMITS, OnError, OnPartialMatches, OnPending, RunOptions, Strategy
from thalweg.plan.pruning import pruning_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import BlankNodes, Reader, format_named
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune, Signature
from thalweg.rdf.table_rows import TableBuilder, table_of
from thalweg.rdf.timestamped import TimestampedFramer
from thalweg.saving import Parts, pack_parts, unpack_parts
from thalweg.side_outputs import SideOutputs
from thalweg.statements import likely_cause, lines_of
from thalweg.static.data import StaticData
from thalweg.static.files import open_document
from thalweg.static.reading import format_of_static, path_of, read_document
from thalweg.subscriptions import Subscriptions

Ints = NDArray[np.int64]
_OPTIONS = (
    *("lateness", "on_error", "blank_nodes", "strategy", "threads"),
    *("max_pending", "on_pending", "max_path_pairs", "max_partial_matches", "on_partial_matches"),
)
_OPS = {"insert": INSERT, "delete": DELETE}
_MANY_ROWS = 1 << 12  # of a batch, from which on threads are worth their start


class Session:
    """The in-process engine. Time is event time; nothing here reads a clock.

    >>> session = Session()
    >>> query = session.register("SELECT ?x FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }")
    >>> session.push("http://ex/s", at=5, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    >>> [(row.at, row.op, row["x"]) for row in query.poll()]
    [(Instant('1970-01-01T00:00:00.005Z'), '+', '<http://ex/a>')]
    >>> session.advance(15)
    >>> [(row.at, row.op, row["x"]) for row in query.poll()]
    [(Instant('1970-01-01T00:00:00.015Z'), '-', '<http://ex/a>')]

    As a context manager it is closed at the end: it takes nothing more then, and its queries still have their rows.
    """

    def __init__(
        self,
        *,
        lateness: int | str = 0,
        on_error: OnError = "quarantine",
        blank_nodes: BlankNodes = "event",
        arena: Arena | None = None,
        strategy: Strategy = "incremental",
        threads: int = 1,
        max_pending: int | None = 1_000_000,
        on_pending: OnPending = "drop",
        max_path_pairs: int = LIMITS.path_pairs,
        max_partial_matches: int = LIMITS.partial_matches,
        on_partial_matches: OnPartialMatches = "shed",
        static: StaticData | None = None,
        static_cache: str | os.PathLike[str] | None = None,
    ) -> None:
        """`lateness` is how late an event may come; `strategy="reevaluate"` answers every instant from scratch.

        With several `threads`, queries that share no window are matched side by side when a large batch comes.

        At most `max_pending` rows of a query wait for a poll when the next event comes (None: any number). Of more,
        the oldest are dropped, and the next poll begins with a row whose `op` is `gap`. With `on_pending="fail"` the
        event is refused instead, until the query has been polled.

        A query in which one path with `+` or `*` connects more than `max_path_pairs` pairs of terms ends: to poll it is
        an error from then on. Other queries go on.

        Of more than `max_partial_matches` partial matches of a sequence, the oldest are dropped: `stats.shed` counts
        them, a warning is given, and the next poll begins with a row whose `op` is `gap`. With
        `on_partial_matches="fail"` the query ends instead.

        `static` are the static data to begin with. In the folder `static_cache`, files that are loaded are kept in a
        binary form, from which a later session loads them in a fraction of the time.
        """
        self.options = RunOptions(
            lateness=lateness,
            on_error=on_error,
            blank_nodes=blank_nodes,
            strategy=strategy,
            threads=threads,
            max_pending=max_pending,
            on_pending=on_pending,
            max_path_pairs=max_path_pairs,
            max_partial_matches=max_partial_matches,
            on_partial_matches=on_partial_matches,
        )
        self.threads = threads
        self.arena = arena or Arena()
        self.stats = Stats()
        self._lateness = self.options.lateness_us
        self._streams: dict[str, Stream] = {}
        self._streamsets: list[Streamset] = []
        self._queries: list[ContinuousQuery] = []
        self._side = SideOutputs(self.stats, on_error, self._lateness)
        self._prune: Prune | None = None
        self._roots: list[Callable[[], Iterable[Ints]]] = []
        self._compaction = Compaction(self.arena, self.stats, self._streamsets, self.live_ids)
        self._pushes = 0
        self._readers: dict[tuple[str, str], Reader] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._derived = DerivedStreams()
        self._unread: set[str] = set()
        self._retained: dict[str, Retained] = {}
        self._overfull: list[View] = []
        self._subscriptions = Subscriptions()
        self._rejecting: set[str] = set()  # streams of which a push was refused
        self._static = StaticData() if static is None else static
        self._static_cache = None if static_cache is None else Path(static_cache)
        self._closed = False

    def __enter__(self) -> Session:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session: it takes nothing more, and its threads end. What queries have can still be polled."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the session is closed: make another one")

    def __repr__(self) -> str:
        queries, streams = len(self._queries), len(self.streams)
        state = "closed, " if self._closed else ""
        return (
            f"<Session: {state}{queries:,} {'query' if queries == 1 else 'queries'}, "
            f"{streams:,} {'stream' if streams == 1 else 'streams'}, {self.stats.events:,} events>"
        )

    @classmethod
    def of(
        cls, options: RunOptions, *, arena: Arena | None = None, static: StaticData | None = None
    ) -> Session:
        """A session with the options of a run, as far as they concern a session, and with static data."""
        return cls(**{name: getattr(options, name) for name in _OPTIONS}, arena=arena, static=static)

    # Queries

    def register(
        self,
        text: str | bytes | Query,
        *,
        stream: str | None = None,
        source: str = "query",
        start: str = "now",
        schema: object = None,
        rules: str | Iterable[str] | None = None,
    ) -> ContinuousQuery:
        """Takes a query in; it sees the events that come from now on.

        With a `schema`, the path of a file or RDF text (Turtle unless the name of the file says otherwise), the query
        sees graphs that are closed under it. `rules` is a list of names that replaces the ten of the default; `default`
        stands for these (see docs/semantics.md).

        With `start="content"` it begins with the answer over what its streams retain (see `retain`), as `+` rows at
        the present instant. `stream` is what a query reads that names no stream.
        """
        self._check_open()
        if start not in ("now", "content"):
            raise UsageError(f'start is "now" or "content", not {start!r}')
        query = query_of(text, source=source, stream=stream, graphs=self._static.names)
        asked = query
        query = under_schema(query, schema, rules)
        self._static.require(query.graphs, self._static_cache)
        if asked is not text:  # else whoever parsed it has seen its doubts
            for doubt in query.doubts:
                warn(f"{source}: {doubt}")
        named = [*query.streams, *([query.output] if query.output is not None else [])]
        self._derived.check(query, {name: self._watermark(name) for name in named})
        if start == "content":
            self._check_retained(query)
        streamset = self._streamset_for(query, start)
        view = streamset.add(query, self.arena, self.options.limits)
        registered = self._registered(query, view, streamset)
        self._add(registered)
        return registered

    def _registered(self, query: Query, view: View, streamset: Streamset) -> ContinuousQuery:
        return ContinuousQuery(
            self.arena, query, view, streamset, self._compaction.compact_if_shrunk, self._subscriptions.add
        )

    def _add(self, registered: ContinuousQuery) -> None:
        self._queries.append(registered)
        view = registered.view
        view.limit, view.on_overflow = self.options.max_pending, self._overfull.append
        self._overfull.append(view)  # a restored one may hold too many rows
        self._derived.add(registered.query, registered.view, registered.streamset)
        self._prune = None

    def unregister(self, query: ContinuousQuery) -> None:
        """Lets a query go; what it has not been polled for is lost."""
        if query not in self._queries:
            raise UsageError("this query is not registered in this session")
        self._queries.remove(query)
        self._subscriptions.forget(query)
        self._derived.remove(query.view)
        query.streamset.remove(query.view, self.arena.intern)
        self._streamsets[:] = [streamset for streamset in self._streamsets if len(streamset)]
        self._prune = None
        self._compaction.compact_if_shrunk()

    def retain(self, stream: str, keep: int | str | None = None) -> None:
        """Keeps the events of a stream that come from now on, for queries that begin with the stream's content.

        `keep` is how long before the watermark they are kept (milliseconds or a duration like "1h"), None is for ever.
        Readers then prune nothing. A second call changes how long.
        """
        self._check_open()
        stream = stream_of(stream)
        span = None if keep is None else span_of(keep)
        if stream in self._retained:
            self._retained[stream].keep = span
        else:
            self._retained[stream] = Retained(span)
        self._prune = None

    def release(self, stream: str) -> None:
        """Keeps the events of a stream no longer, and lets go of those that it kept; queries keep their windows."""
        self._retained.pop(stream_of(stream), None)
        self._prune = None
        self._compaction.compact_if_shrunk()

    def _check_retained(self, query: Query) -> None:
        others = [name for name in query.streams if name not in self._retained]
        if others:
            raise UsageError(
                f'start="content" needs streams that are retained, and <{others[0]}> is not: '
                "call session.retain(stream) before its events come"
            )

    def _new_streamset(self, streams: tuple[str, ...], strategy: Strategy) -> Streamset:
        return self._begun(Streamset(streams, strategy, self._static))

    def _begun(self, streamset: Streamset) -> Streamset:
        for name in streamset.streams:
            streamset.push(name, None, self._stream(name).clock, self._stream(name).watermark)
        self._streamsets.append(streamset)
        return streamset

    def _streamset_for(self, query: Query, start: str) -> Streamset:
        """The streamset for a query: shared with others as far as the law allows it."""
        streams, strategy = tuple(sorted(query.streams)), self.options.strategy
        if query.sequence is not None:
            return self._begun(SequenceSet(streams, self._static))
        # [NOW] is the content of one event: none of those that have come is.
        if start == "now" or query.per_event:
            found = streamset_for(query, self._streamsets, strategy, self.threads)
            return found or self._new_streamset(streams, strategy_of(query, strategy))
        found = streamset_with_content(query, self._streamsets, strategy)
        if found is None:
            found = self._new_streamset(streams, strategy)
            found.begin_with({name: self._retained[name].rows() for name in streams})
        return found

    # Static data

    def load(
        self,
        data: str | bytes | os.PathLike[str],
        graph: str | None = None,
        format: str | None = None,
        replace: bool = False,
    ) -> int:
        """Loads static data: the path of a file, or RDF text (Turtle unless `format` is given); the number of triples.

        They are in the default graph of all queries, or in the named graph `graph`; named graphs of TriG and N-Quads
        keep their names. A second load adds to a graph, `replace=True` replaces it; blank nodes are those of the load.
        Queries that run see the change at one instant, the first that can still change: that of the watermark. Data
        with an error are refused as a whole, and what was there stays.
        """
        self._check_open()
        name = DEFAULT_GRAPH if graph is None else graph_name_of(graph)
        path = path_of(data)
        found = format_of_static(path, format)
        document = (
            open_document(path, found, self._static_cache) if path is not None else read_document(data, found)  # type: ignore[arg-type]
        )
        coming = {own or name for own in document.graphs}
        self._check_coming(coming)
        self._static.load(document, name, replace=replace)
        self._prune = None
        for streamset in self._streamsets:
            streamset.reload()
        self._run(list(self._streamsets))
        return len(document)

    def _check_coming(self, names: Collection[str]) -> None:
        """Refuses graphs that registered queries ask for, and that were not there when these were read."""
        coming = set(names) - {DEFAULT_GRAPH, *self._static.names}
        for registered in self._queries:
            unknown = registered.query.unknown_graphs
            asked = coming if "*" in unknown else coming.intersection(unknown)
            if asked:
                raise UsageError(
                    f"a registered query asks for the graph <{min(asked)}>, which was not there when it was "
                    "registered: load a graph before the queries that read it"
                )

    @property
    def static_graphs(self) -> list[str]:
        """The names of the static graphs that are loaded; the empty one is that of the default graph."""
        return self._static.names

    def prune(self) -> Prune:
        """What the registered queries can use of a stream, or all where one is retained: what readers have to keep."""
        if self._prune is None:
            queries = (registered.query for registered in self._queries)
            keeps_all = any(stream not in self._derived for stream in self._retained)
            self._prune = (
                Prune.everything() if keeps_all else pruning_of(queries, self._derived, self._static.names)
            )
        return self._prune

    # Events

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

    @property
    def counts_events(self) -> bool:
        """Whether some window is [ELEMENTS n]: then events matter of which readers keep no triple."""
        return any(streamset.counts_events for streamset in self._streamsets)

    @property
    def streams(self) -> list[str]:
        """The streams that some query reads or some event came on."""
        read = (name for streamset in self._streamsets for name in streamset.streams)
        return list(dict.fromkeys([*self._streams, *self._retained, *read]))

    @property
    def source_streams(self) -> list[str]:
        """The streams that no query of the session makes."""
        return [name for name in self.streams if name not in self._derived]

    @property
    def retained_streams(self) -> list[str]:
        """The streams whose events are kept."""
        return list(self._retained)

    def retained_content(self, stream: str) -> Ints:
        """What is kept of a stream as a dynamic graph: the triples that were inserted and not deleted since."""
        return self._retained[stream].content()

    def static_content(self) -> Iterator[tuple[str, Ints]]:
        """The static graphs: their names, and their triples as rows of ids."""
        for name in self._static.names:
            yield name, self._static.select([name], [Signature(None, None, None)], self.arena)

    def is_derived(self, stream: str) -> bool:
        """Whether a query of the session makes the stream."""
        return stream in self._derived

    def watermark(self, stream: str) -> int:
        """Up to which time a stream is complete, in microseconds; the least integer before its first event."""
        return self._watermark(stream_of(stream))

    # Saving

    def save(self, *, with_static: bool = True) -> bytes:
        """The session as bytes, from which `restore` goes on as if nothing had happened; without subscriptions.

        Unless `with_static`, whoever restores it has the documents of the static data.
        """
        for streamset in self._streamsets:
            streamset.refresh(self.arena.intern)
        self.compact()
        views = [[view for _, view in streamset.registered] for streamset in self._streamsets]
        places = [self._streamsets.index(query.streamset) for query in self._queries]
        parts = Parts(
            options={
                "lateness": f"{self._lateness}us",
                "on_error": self.options.on_error,
                "blank_nodes": self.options.blank_nodes,
                "max_pending": self.options.max_pending,
                "on_pending": self.options.on_pending,
                "max_path_pairs": self.options.max_path_pairs,
                "max_partial_matches": self.options.max_partial_matches,
                "on_partial_matches": self.options.on_partial_matches,
            },
            stats=self.stats,
            pushes=self._pushes,
            streams=list(self._streams.values()),
            arena=self.arena,
            streamsets=self._streamsets,
            queries=[
                (place, views[place].index(query.view))
                for place, query in zip(places, self._queries, strict=True)
            ],
            derived=self._derived.state(),
            retained=self._retained,
            static=self._static if with_static else StaticData(),
        )
        return pack_parts(parts)

    @classmethod
    def restore(
        cls,
        data: bytes,
        *,
        threads: int = 1,
        queries: Sequence[Query] = (),
        static: StaticData | None = None,
    ) -> Session:
        """The session that was saved; `queries` has its queries in the order of their registration.

        Texts are parsed again where no queries are given. `static` are static data that were not saved with it.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UsageError(f"a session is restored from the bytes of save(), not from {data!r:.60}")
        parts = unpack_parts(bytes(data), queries, static)
        session = cls(**parts.options, arena=parts.arena, threads=threads, static=parts.static)
        session.stats.restore(parts.stats)
        session._pushes = parts.pushes
        session._streamsets.extend(parts.streamsets)
        session._streams = {stream.name: stream for stream in parts.streams}
        for place, number in parts.queries:
            streamset = parts.streamsets[place]
            query, view = streamset.registered[number]
            session._add(session._registered(query, view, streamset))
        session._derived.restore(parts.derived)
        session._retained = parts.retained
        return session

    @property
    def queries(self) -> list[ContinuousQuery]:
        """The registered queries."""
        return list(self._queries)

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that are in use."""
        for streamset in self._streamsets:
            yield from streamset.live_ids()
        for roots in self._roots:
            yield from roots()
        yield from self._derived.live_ids()
        for retained in self._retained.values():
            yield from retained.live_ids()

    # Outputs beside the answers

    def late(self) -> list[Late]:
        """Late events since the last call, at most the 10,000 most recent; `stats.late` counts all."""
        return self._side.take_late()

    def quarantine(self) -> list[Reject]:
        """Malformed input since the last call, at most the 10,000 most recent; `stats.quarantined` counts all."""
        return self._side.take_quarantine()

    def horizon(self) -> int | None:
        """The earliest event time that can still matter to some query, or None where all of it does."""
        return self._derived.horizon(self._streamsets)

    def keep(self, roots: Callable[[], Iterable[Ints]]) -> None:
        """Names ids that are in use outside the session, e.g. by a framer, so that their texts are kept."""
        self._roots.append(roots)

    @property
    def nbytes(self) -> int:
        """The memory of windows, views and terms."""
        found = self.memory()
        return found["windows"] + found["answers"] + found["output"] + found["terms"]

    def memory(self) -> Memory:
        """Bytes allocated, by purpose. Partial matches are not stored at all."""
        windows = sum(streamset.window_bytes for streamset in self._streamsets)
        windows += sum(retained.nbytes for retained in self._retained.values())
        answers = sum(streamset.answer_bytes for streamset in self._streamsets)
        output = sum(streamset.output_bytes for streamset in self._streamsets)
        operators: Counter[str] = Counter()
        for streamset in self._streamsets:
            operators.update(streamset.operator_bytes())
        return {
            "windows": windows,
            "answers": answers,
            "output": output,
            "terms": self.arena.nbytes,
            "operators": dict(operators),
        }

    @property
    def live_triples(self) -> int:
        """How many rows the windows hold."""
        return sum(streamset.live for streamset in self._streamsets)

    # Inside

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = Stream(name)
        return self._streams[name]

    def _reading(self, stream: str) -> list[Streamset]:
        """The streamsets that read a stream."""
        return [streamset for streamset in self._streamsets if stream in streamset.streams]

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

    def _watermark(self, name: str) -> int:
        return self._streams[name].watermark if name in self._streams else NO_TIME

    def _run(self, streamsets: list[Streamset], rows: int = 0) -> None:
        if self.threads > 1 and len(streamsets) > 1 and rows >= _MANY_ROWS:
            self._run_beside(streamsets)
        else:
            for streamset in streamsets:
                self._run_one(streamset)
        if len(self._derived):
            self._derive()
        self._compaction.after_run(rows)
        if self._subscriptions:
            self._subscriptions.deliver()

    def _derive(self) -> None:
        """Hands on what producers have made; streams that are derived from others come after those."""
        for name in self._derived:
            readers = self._reading(name)
            retained = self._retained.get(name)
            ordered = retained is not None or any(streamset.counts_triples for streamset in readers)
            made = self._derived.take(name, self.arena.texts if ordered else None)
            state = self._stream(name)
            if not len(made.rows) and made.watermark <= state.watermark and not made.finished:
                continue
            state.clock = max(state.clock, int(made.rows.time.max(initial=NO_TIME)))
            state.watermark = max(state.watermark, made.watermark)
            if retained is not None:
                retained.add(made.rows, state.watermark)
            for streamset in readers:
                if streamset.awaits_start and len(made.rows):
                    streamset.open(int(made.rows.time.min()))
                streamset.push(name, made.rows, state.clock, state.watermark)
                if made.finished:
                    streamset.finish([name], drain=made.drain)
                self._run_one(streamset)

    def _run_one(self, streamset: Streamset) -> None:
        absent, shed = streamset.absent, streamset.shed
        streamset.run(self.arena.intern)
        self.stats.absent += streamset.absent - absent
        self.stats.shed += streamset.shed - shed

    def _run_beside(self, streamsets: list[Streamset]) -> None:
        """Runs streamsets side by side; all they have in common is the arena, to which they add terms."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "thalweg-match")
        before = [sum(counts) for counts in zip(*((one.absent, one.shed) for one in streamsets), strict=True)]
        running = [self._pool.submit(streamset.run, self.arena.intern) for streamset in streamsets]
        wait(running)
        for future in running:
            future.result()
        self.stats.absent += sum(streamset.absent for streamset in streamsets) - before[0]
        self.stats.shed += sum(streamset.shed for streamset in streamsets) - before[1]

    def compact(self) -> None:
        """Removes the texts of all terms that nothing uses any more."""
        self._compaction.compact()


def _one_graph(g: Ints) -> int:
    """The graph that all triples of an event are in, or 0."""
    return int(g[0]) if g.size and bool((g == g[0]).all()) else 0
