"""The in-process session: register queries, push events, advance time, poll answers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.answers import ContinuousQuery, Late, Memory, Stats, Stream
from thalweg.errors import UsageError, warn
from thalweg.instants import duration, instant, show_instant
from thalweg.kernels.store import DELETE, FOREVER, INSERT
from thalweg.lang import parse
from thalweg.operators.derived import DerivedStreams
from thalweg.operators.retention import Retained
from thalweg.operators.runs import in_time_order
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import View
from thalweg.options import OnError, OnPending, RunOptions, Strategy
from thalweg.plan.program import store_key
from thalweg.plan.pruning import pruning_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import BlankNodes, Reader, format_named
from thalweg.rdf.prune import Prune
from thalweg.saving import Parts, pack_parts, unpack_parts

Ints = NDArray[np.int64]
T = TypeVar("T")
_OPTIONS = "lateness", "on_error", "blank_nodes", "strategy", "threads", "max_pending", "on_pending"
_OPS = {"insert": INSERT, "delete": DELETE}
_KEPT = 10_000
_FEW_BYTES = 1 << 20
_FEW_RUNS = 8  # between two counts of the rows that are held, and one more for each query
_MANY_ROWS = 1 << 12  # of a batch, from which on threads are worth their start


@dataclass
class _Kept:
    """Outputs beside the answers, the most recent of each."""

    late: deque[Late] = field(default_factory=lambda: deque(maxlen=_KEPT))
    quarantine: deque[Reject] = field(default_factory=lambda: deque(maxlen=_KEPT))


class Session:
    """The in-process engine. Time is event time; nothing here reads a clock.

    >>> session = Session()
    >>> query = session.register("SELECT ?x FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }")
    >>> session.push("http://ex/s", at=5, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    >>> [(row.at, row.op, row["x"]) for row in query.poll()]
    [(5000, '+', '<http://ex/a>')]
    >>> session.advance(15)
    >>> [(row.at, row.op, row["x"]) for row in query.poll()]
    [(15000, '-', '<http://ex/a>')]
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
    ) -> None:
        """`lateness` is how late an event may come; `strategy="reevaluate"` answers every instant from scratch.

        With several `threads`, queries that share no window are matched side by side when a large batch comes.

        At most `max_pending` rows of a query wait for a poll when the next event comes (None: any number). Of more,
        the oldest are dropped, and the next poll begins with a row whose `op` is `gap`. With `on_pending="fail"` the
        event is refused instead, until the query has been polled.
        """
        self.options = RunOptions(
            lateness=lateness,
            on_error=on_error,
            blank_nodes=blank_nodes,
            strategy=strategy,
            threads=threads,
            max_pending=max_pending,
            on_pending=on_pending,
        )
        self.threads = threads
        self.arena = arena or Arena()
        self.stats = Stats()
        self._lateness = self.options.lateness_us
        self._streams: dict[str, Stream] = {}
        self._sets: list[Streamset] = []
        self._queries: list[ContinuousQuery] = []
        self._kept = _Kept()
        self._prune: Prune | None = None
        self._roots: list[Callable[[], Iterable[Ints]]] = []
        self._compact_at = _FEW_BYTES
        self._most_held = 0  # rows, since texts were last let go
        self._live_before = 0  # rows of windows, the most since all rows were last counted
        self._uncounted = 0  # runs since then
        self._pushes = 0
        self._readers: dict[tuple[str, str], Reader] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._derived = DerivedStreams()
        self._unread: set[str] = set()
        self._retained: dict[str, Retained] = {}
        self._overfull: list[View] = []

    @classmethod
    def of(cls, options: RunOptions, *, arena: Arena | None = None) -> Session:
        """A session with the options of a run, as far as they concern a session."""
        return cls(**{name: getattr(options, name) for name in _OPTIONS}, arena=arena)

    # Queries

    def register(
        self, text: str | Query, *, stream: str | None = None, source: str = "query", start: str = "now"
    ) -> ContinuousQuery:
        """Takes a query in; it sees the events that come from now on.

        With `start="content"` it begins with the answer over what its streams retain (see `retain`), as `+` rows at
        the present instant. `stream` is what a query reads that names no stream.
        """
        if start not in ("now", "content"):
            raise UsageError(f'start is "now" or "content", not {start!r}')
        query = parse(text, source=source, stream=stream) if isinstance(text, str) else text
        if isinstance(text, str):  # else whoever parsed it has seen its doubts
            for doubt in query.doubts:
                warn(f"{source}: {doubt}")
        named = [*query.streams, *([query.output] if query.output is not None else [])]
        self._derived.check(query, {name: self._watermark(name) for name in named})
        if start == "content":
            self._check_retained(query)
        # [NOW] is the content of one event: none of those that have come is.
        home = self._home(query) if start == "now" or query.per_event else self._home_with_content(query)
        view = home.add(query, self.arena)
        registered = ContinuousQuery(self.arena, query, view, home, self.tidy)
        self._add(registered)
        return registered

    def _add(self, registered: ContinuousQuery) -> None:
        self._queries.append(registered)
        view = registered.view
        view.limit, view.on_overflow = self.options.max_pending, self._overfull.append
        self._overfull.append(view)  # a restored one may hold too many rows
        self._derived.add(registered.query, registered.view, registered.home)
        self._prune = None

    def unregister(self, query: ContinuousQuery) -> None:
        """Lets a query go; what it has not been polled for is lost."""
        if query not in self._queries:
            raise UsageError("this query is not registered in this session")
        self._queries.remove(query)
        self._derived.remove(query.view)
        query.home.remove(query.view, self.arena.intern)
        self._sets = [home for home in self._sets if len(home)]
        self._prune = None
        self.tidy()

    def retain(self, stream: str, keep: int | str | None = None) -> None:
        """Keeps the events of a stream that come from now on, for queries that begin with the stream's content.

        `keep` is how long before the watermark they are kept (milliseconds or a duration like "1h"), None is for ever.
        Readers then prune nothing. A second call changes how long.
        """
        span = None if keep is None else _span(keep)
        if stream in self._retained:
            self._retained[stream].keep = span
        else:
            self._retained[stream] = Retained(span)
        self._prune = None

    def _check_retained(self, query: Query) -> None:
        others = [name for name in query.streams if name not in self._retained]
        if others:
            raise UsageError(
                f'start="content" needs streams that are retained, and <{others[0]}> is not: '
                "call session.retain(stream) before its events come"
            )

    def _home_with_content(self, query: Query) -> Streamset:
        """A streamset that begins with what the streams of a query retain: shared until something else happens."""
        streams = tuple(sorted(query.streams))
        for home in self._sets:
            if home.streams == streams and home.has_content and home.strategy == self.options.strategy:
                return home
        home = self._new_home(streams, self.options.strategy)
        home.begin_with({name: self._retained[name].rows() for name in streams})
        return home

    def _new_home(self, streams: tuple[str, ...], strategy: Strategy) -> Streamset:
        home = Streamset(streams, strategy)
        for name in streams:
            home.push(name, None, self._stream(name).clock, self._stream(name).watermark)
        self._sets.append(home)
        return home

    def _home(self, query: Query) -> Streamset:
        """The streamset for a query: shared with those over the same streams that saw the same events.

        Queries that share a window belong together; others make work for another thread, if there are several.
        """
        streams = tuple(sorted(query.streams))
        # [NOW] looks at each event alone: there is nothing to re-evaluate.
        strategy: Strategy = "incremental" if query.per_event else self.options.strategy
        open_to = [
            home
            for home in self._sets
            if home.streams == streams and home.is_open and home.strategy == strategy
        ]
        windows = {store_key(source) for source in query.sources}
        sharing = next((home for home in open_to if not windows.isdisjoint(home.windows)), None)
        if sharing is not None:
            return sharing
        if len(open_to) >= self.threads:
            return min(open_to, key=len)
        return self._new_home(streams, strategy)

    def prune(self) -> Prune:
        """What the registered queries can use of a stream, or all where one is retained: what readers have to keep."""
        if self._prune is None:
            queries = (registered.query for registered in self._queries)
            keeps_all = any(stream not in self._derived for stream in self._retained)
            self._prune = Prune.everything() if keeps_all else pruning_of(queries, self._derived)
        return self._prune

    # Events

    def push(
        self,
        stream: str,
        *,
        at: int | str | datetime,
        graph: str | bytes,
        op: str = "insert",
        name: str | None = None,
        format: str = "nt",
    ) -> None:
        """Takes one event: a graph as text at a time (milliseconds, datetime or xsd:dateTime text).

        `op` is "insert" or "delete"; at one instant, deletes come before inserts. `name` is the IRI of the graph,
        which [NOW] rows carry. `format` is that of the text: nt, nq, turtle, trig, jsonld, rdfxml or n3.
        """
        if op not in _OPS:
            raise UsageError(f'op is "insert" or "delete", not {op!r}')
        self._begin(stream)
        time = _time(at)
        self._pushes += 1
        chunk = self._reader(stream, format).read(
            graph.encode() if isinstance(graph, str) else graph, offset=self._pushes
        )
        rest = np.empty((4, len(chunk.s)), np.int64)
        # Events below zero: framers number those of the same stream from 0 on.
        rest[0], rest[1], rest[3] = time, -self._pushes, _OPS[op]
        rest[2] = self.arena.intern(f"<{name}>".encode()) if name else 0
        if format != "nt" and not name:
            rest[2] = _one_graph(chunk.g)
        times, event, named, ops = rest
        rows = Rows(times, event, named, chunk.s, chunk.p, chunk.o, ops)
        if chunk.rejects:
            self._reject(chunk.rejects)
        if chunk.refused:
            return
        state = self._stream(stream)
        marked = None
        if time < state.watermark:
            self._note_late(stream, time, state.watermark, -self._pushes)
            rows = rows[:0]
        elif chunk.statements and not len(rows) and op == "insert":
            marked = Rows.marker(time, -self._pushes)
        homes = self._homes(stream)
        if time >= state.watermark:
            self._open(homes, time)
        self._take(state, homes, rows, time, 1, marked)

    def push_events(self, batch: EventBatch) -> None:
        """Takes a batch of events as a reader frames them."""
        self._begin(batch.stream)
        if batch.rejects:
            self._reject(batch.rejects)
        state = self._stream(batch.stream)
        homes = self._homes(batch.stream)
        rows, marked = batch.rows, None
        late = self._late(state, batch)
        if any(home.counts_events for home in homes):
            with_markers = batch.with_markers()
            marked = with_markers.rows if late is None else with_markers.rows[~late[with_markers.places]]
        if late is not None:
            rows = rows[~late[batch.places]]
        if any(home.awaits_start for home in homes):
            times = batch.times if late is None else batch.times[~late]
            self._open(homes, int(times[times != NO_TIME].min(initial=FOREVER)))
        self._take(state, homes, rows, batch.clock, batch.events, marked)

    def _begin(self, stream: str | None) -> None:
        """Refuses what no event or watermark may do; drops rows that too many others wait with."""
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

    def _open(self, homes: list[Streamset], time: int) -> None:
        """Takes the time of an event that is not late: the first one is the first instant of queries."""
        if time == FOREVER:
            return
        for home in homes:
            if home.awaits_start:
                home.open(time)

    def _take(
        self, state: Stream, homes: list[Streamset], rows: Rows, clock: int, events: int, marked: Rows | None
    ) -> None:
        """Takes rows of events that are not late; `clock` is the largest time of an event, with or without rows.

        `marked` are the rows with markers of events that have none, for windows that count events.
        """
        stream = state.name
        self.stats.events += events
        self.stats.triples += len(rows)
        if not homes and stream not in self._retained:
            self.stats.unread += events
            if events and stream not in self._unread:
                self._unread.add(stream)
                warn(f"no query reads <{stream}>: its events are counted in stats.unread, and lost")
        state.clock = max(state.clock, clock)
        if state.clock != NO_TIME:
            state.watermark = max(state.watermark, state.clock - self._lateness)
        for home in homes:
            counted = home.counts_events and marked is not None
            home.push(stream, marked if counted else rows, state.clock, state.watermark)
        if stream in self._retained:
            self._retained[stream].add(rows, state.watermark)
        self._run(homes, len(rows))

    def advance(self, at: int | str | datetime, stream: str | None = None) -> None:
        """Sets the watermark of one stream or of all source streams: no event before it will come."""
        time = _time(at)
        self._begin(stream)
        names = [stream] if stream is not None else self.source_streams
        for name in names:
            state = self._stream(name)
            later = time > state.watermark
            state.watermark = max(state.watermark, time)
            if name in self._retained:
                self._retained[name].add(Rows.empty(), state.watermark)
            for home in self._sets:
                if name in home.streams:
                    if later and home.awaits_start:
                        home.open(time)
                    home.push(name, None, state.clock, state.watermark)
        self._run([home for home in self._sets if not set(names).isdisjoint(home.streams)])

    def finish(self, stream: str | None = None, *, drain: bool = False) -> None:
        """Ends one stream or all source streams: nothing more will come.

        When all streams of a query have ended, its last instant is complete. With `drain`, time then runs on
        until its windows are empty.
        """
        self._begin(stream)
        names = [stream] if stream is not None else self.source_streams
        homes = [home for home in self._sets if not set(names).isdisjoint(home.streams)]
        for home in homes:
            home.finish(names, drain=drain)
        self._run(homes)

    def reopen(self, stream: str, *, tentatively: bool = False) -> int:
        """Takes an ended stream as running again, and returns its watermark: the time that its end had brought.

        Several streams that go on are all reopened before the first event of one of them comes. `tentatively`: it may
        be ended again without an event.
        """
        names = [stream, *self._derived.derived_from(stream)]
        homes = {name: [home for home in self._sets if name in home.streams] for name in names}
        if not tentatively:
            for name in names[1:]:
                self._derived.check_reopened(name, homes[name])
        state = self._stream(stream)
        bounds = [home.bound for reading in homes.values() for home in reading]
        state.watermark = max(state.watermark, *bounds, NO_TIME)
        for name, reading in homes.items():
            for home in reading:
                home.reopen(name)
                home.push(name, None, self._stream(name).clock, self._stream(name).watermark)
        return state.watermark

    @property
    def counts_events(self) -> bool:
        """Whether some window is [ELEMENTS n]: then events matter of which readers keep no triple."""
        return any(home.counts_events for home in self._sets)

    @property
    def streams(self) -> list[str]:
        """The streams that some query reads or some event came on."""
        return list(
            dict.fromkeys(
                [*self._streams, *self._retained, *(name for home in self._sets for name in home.streams)]
            )
        )

    @property
    def source_streams(self) -> list[str]:
        """The streams that no query of the session makes."""
        return [name for name in self.streams if name not in self._derived]

    # Saving

    def save(self) -> bytes:
        """The session as bytes, from which `restore` goes on as if nothing had happened."""
        for home in self._sets:
            home.refresh(self.arena.intern)
        self.compact()
        views = [[view for _, view in home.registered] for home in self._sets]
        places = [self._sets.index(query.home) for query in self._queries]
        parts = Parts(
            options={
                "lateness": f"{self._lateness}us",
                "on_error": self.options.on_error,
                "blank_nodes": self.options.blank_nodes,
                "max_pending": self.options.max_pending,
                "on_pending": self.options.on_pending,
            },
            stats=self.stats,
            pushes=self._pushes,
            streams=list(self._streams.values()),
            arena=self.arena,
            homes=self._sets,
            queries=[
                (place, views[place].index(query.view))
                for place, query in zip(places, self._queries, strict=True)
            ],
            derived=self._derived.state(),
            retained=self._retained,
        )
        return pack_parts(parts)

    @classmethod
    def restore(cls, data: bytes, *, threads: int = 1, queries: Sequence[Query] = ()) -> Session:
        """The session that was saved; `queries` has its queries in the order of their registration.

        Texts are parsed again where no queries are given.
        """
        parts = unpack_parts(data, queries)
        session = cls(**parts.options, arena=parts.arena, threads=threads)
        session.stats, session._pushes, session._sets = parts.stats, parts.pushes, parts.homes
        session._streams = {stream.name: stream for stream in parts.streams}
        for place, number in parts.queries:
            home = parts.homes[place]
            query, view = home.registered[number]
            session._add(ContinuousQuery(session.arena, query, view, home, session.tidy))
        session._derived.restore(parts.derived)
        session._retained = parts.retained
        return session

    @property
    def queries(self) -> list[ContinuousQuery]:
        """The registered queries."""
        return list(self._queries)

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that are in use."""
        for home in self._sets:
            yield from home.live_ids()
        for roots in self._roots:
            yield from roots()
        yield from self._derived.live_ids()
        for retained in self._retained.values():
            yield from retained.live_ids()

    # Outputs beside the answers

    def late(self) -> list[Late]:
        """Late events since the last call, at most the 10,000 most recent; `stats.late` counts all."""
        return _drained(self._kept.late)

    def quarantine(self) -> list[Reject]:
        """Malformed input since the last call, at most the 10,000 most recent; `stats.quarantined` counts all."""
        return _drained(self._kept.quarantine)

    def horizon(self) -> int | None:
        """The earliest event time that can still matter to some query, or None where all of it does."""
        return self._derived.horizon(self._sets)

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
        windows = sum(home.window_bytes for home in self._sets)
        windows += sum(retained.nbytes for retained in self._retained.values())
        answers = sum(home.answer_bytes for home in self._sets)
        output = sum(home.output_bytes for home in self._sets)
        operators: Counter[str] = Counter()
        for home in self._sets:
            operators.update(home.operator_bytes())
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
        return sum(home.live for home in self._sets)

    # Inside

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = Stream(name)
        return self._streams[name]

    def _homes(self, stream: str) -> list[Streamset]:
        """The streamsets that read a stream."""
        return [home for home in self._sets if stream in home.streams]

    def _reader(self, stream: str, format: str) -> Reader:
        """The reader of pushed graphs, made anew when the queries change."""
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

    def _late(self, state: Stream, batch: EventBatch) -> NDArray[np.bool_] | None:
        """Which events of a batch are late, if any; they are noted here, with or without rows.

        An event is late when its time is before the watermark that the events before it have set, whatever
        the batch it came in.
        """
        times = batch.rows.time if batch.event_time is None else batch.event_time
        # The usual case: in order, whether it is asked of events or of their rows.
        if not len(times) or (times.item(0) >= state.watermark and in_time_order(times)):
            return None
        times = batch.times
        before = np.maximum.accumulate(np.concatenate([[state.clock], times[:-1]]))
        floor = np.where(before == NO_TIME, NO_TIME, before - self._lateness)
        floor = np.maximum(floor, state.watermark)
        late = (times < floor) & (times != NO_TIME)
        places = np.flatnonzero(late)
        if not len(places):
            return None
        numbers = batch.numbers
        for place in places.tolist():
            self._note_late(batch.stream, int(times[place]), int(floor[place]), int(numbers[place]))
        return late

    def _note_late(self, stream: str, at: int, watermark: int, event: int) -> None:
        self.stats.late += 1
        reason = f"{(watermark - at) / 1000:g} ms before the watermark {show_instant(watermark)}"
        self._kept.late.append(Late(stream, at, watermark, event, reason))

    def _reject(self, rejects: tuple[Reject, ...]) -> None:
        if self.options.on_error == "fail":
            raise rejects[0].error()
        self.stats.quarantined += len(rejects)
        self._kept.quarantine.extend(rejects)

    def _run(self, homes: list[Streamset], rows: int = 0) -> None:
        if self.threads > 1 and len(homes) > 1 and rows >= _MANY_ROWS:
            self._run_beside(homes)
        else:
            for home in homes:
                self._run_one(home)
        if len(self._derived):
            self._derive()
        used = self.arena.used_bytes
        if used > self._compact_at:
            self.compact()
        elif used > _FEW_BYTES and self._may_have_shrunk(rows):
            self.tidy()

    def _derive(self) -> None:
        """Hands on what producers have made; streams that are derived from others come after those."""
        for name in self._derived:
            readers = [home for home in self._sets if name in home.streams]
            retained = self._retained.get(name)
            ordered = retained is not None or any(home.counts_triples for home in readers)
            made = self._derived.take(name, self.arena.texts if ordered else None)
            state = self._stream(name)
            if not len(made.rows) and made.watermark <= state.watermark and not made.finished:
                continue
            state.clock = max(state.clock, int(made.rows.time.max(initial=NO_TIME)))
            state.watermark = max(state.watermark, made.watermark)
            if retained is not None:
                retained.add(made.rows, state.watermark)
            for home in readers:
                if home.awaits_start and len(made.rows):
                    home.open(int(made.rows.time.min()))
                home.push(name, made.rows, state.clock, state.watermark)
                if made.finished:
                    home.finish([name], drain=made.drain)
                self._run_one(home)

    def _run_one(self, home: Streamset) -> None:
        before = home.absent
        home.run(self.arena.intern)
        self.stats.absent += home.absent - before

    def _run_beside(self, homes: list[Streamset]) -> None:
        """Runs streamsets side by side; all they have in common is the arena, to which they add terms."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "thalweg-match")
        before = sum(home.absent for home in homes)
        running = [self._pool.submit(home.run, self.arena.intern) for home in homes]
        wait(running)
        for future in running:
            future.result()
        self.stats.absent += sum(home.absent for home in homes) - before

    def _may_have_shrunk(self, rows: int) -> bool:
        """Whether it is time to count the rows that are held, which takes a look at each query.

        It is when windows have lost half of their rows, and now and then. While few rows come at a time, the windows
        are looked at now and then, too.
        """
        self._uncounted += 1
        if 0 < rows < _MANY_ROWS and self._uncounted % _FEW_RUNS:
            return False
        live = self.live_triples
        if 2 * live > self._live_before and self._uncounted < _FEW_RUNS + len(self._queries):
            self._live_before = max(live, self._live_before)
            return False
        self._live_before, self._uncounted = live, 0
        return True

    def tidy(self) -> None:
        """Lets go of texts if far fewer rows are held than there were since that was last done."""
        held = sum(home.held for home in self._sets)
        self._most_held = max(held, self._most_held)
        if 2 * held < self._most_held and self.arena.used_bytes > _FEW_BYTES:
            self.compact()

    def compact(self) -> None:
        """Lets go of the texts that nothing uses any more; memory follows the windows, not the stream."""
        self.arena.compact(np.concatenate([np.empty(0, np.int64), *self.live_ids()]))
        self.stats.compactions += 1
        self._compact_at = max(_FEW_BYTES, 2 * self.arena.used_bytes)
        self._most_held = sum(home.held for home in self._sets)


def _drained(kept: deque[T]) -> list[T]:
    taken = list(kept)
    kept.clear()
    return taken


def _time(value: int | str | datetime) -> int:
    try:
        return instant(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{value!r} is not a time: {error}") from None


def _span(value: int | str) -> int:
    try:
        return duration(str(value))
    except ValueError as error:
        raise UsageError(f"{value!r} is not a duration: {error}") from None


def _one_graph(g: Ints) -> int:
    """The graph that all triples of an event are in, or 0."""
    return int(g[0]) if g.size and bool((g == g[0]).all()) else 0
