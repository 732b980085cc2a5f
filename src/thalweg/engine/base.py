"""What a session is made of: streams, streamsets and terms; how it runs, and what it holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thalweg.answers import ContinuousQuery, Late, Memory, Stats, Stream
from thalweg.arguments import stream_of
from thalweg.compaction import Compaction
from thalweg.errors import UsageError
from thalweg.operators.derived import DerivedStreams
from thalweg.operators.retention import Retained
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import View
from thalweg.options import LIMITS, OnError, OnPartialMatches, OnPending, RunOptions, Strategy
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.events import Rows
from thalweg.rdf.formats import BlankNodes, Reader
from thalweg.rdf.prune import Prune
from thalweg.side_outputs import SideOutputs
from thalweg.static.data import StaticData
from thalweg.subscriptions import Subscriptions

Ints = NDArray[np.int64]
_MANY_ROWS = 1 << 12  # of a batch, from which on threads are worth their start


class SessionBase:
    """The parts of a session, before queries and events come."""

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

    def __enter__(self) -> Self:
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

    # Streams

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

    def retained_rows(self, stream: str) -> list[Rows]:
        """The rows that are kept of a stream, in the order in which they came; they do not change any more."""
        return self._retained[stream].rows()

    def is_derived(self, stream: str) -> bool:
        """Whether a query of the session makes the stream."""
        return stream in self._derived

    def watermark(self, stream: str) -> int:
        """Up to which time a stream is complete, in microseconds; the least integer before its first event."""
        return self._watermark(stream_of(stream))

    @property
    def counts_events(self) -> bool:
        """Whether some window is [ELEMENTS n]: then events matter of which readers keep no triple."""
        return any(streamset.counts_events for streamset in self._streamsets)

    def horizon(self) -> int | None:
        """The earliest event time that can still matter to some query, or None where all of it does."""
        return self._derived.horizon(self._streamsets)

    def _stream(self, name: str) -> Stream:
        if name not in self._streams:
            self._streams[name] = Stream(name)
        return self._streams[name]

    def _watermark(self, name: str) -> int:
        return self._streams[name].watermark if name in self._streams else NO_TIME

    def _reading(self, stream: str) -> list[Streamset]:
        """The streamsets that read a stream."""
        return [streamset for streamset in self._streamsets if stream in streamset.streams]

    # Work

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

    # Memory

    def compact(self) -> None:
        """Removes the texts of all terms that nothing uses any more."""
        self._compaction.compact()

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that are in use."""
        for streamset in self._streamsets:
            yield from streamset.live_ids()
        for roots in self._roots:
            yield from roots()
        yield from self._derived.live_ids()
        for retained in self._retained.values():
            yield from retained.live_ids()

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

    # Outputs beside the answers

    def late(self) -> list[Late]:
        """Late events since the last call, at most the 10,000 most recent; `stats.late` counts all."""
        return self._side.take_late()

    def quarantine(self) -> list[Reject]:
        """Malformed input since the last call, at most the 10,000 most recent; `stats.quarantined` counts all."""
        return self._side.take_quarantine()
