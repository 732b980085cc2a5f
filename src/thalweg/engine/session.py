"""The in-process session: register queries, push events, advance time, poll answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.engine.events import SessionWithEvents
from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.saving import Parts, pack_parts, unpack_parts
from thalweg.static.data import StaticData

Ints = NDArray[np.int64]
_OPTIONS = (
    *("lateness", "on_error", "blank_nodes", "strategy", "threads"),
    *("max_pending", "on_pending", "max_path_pairs", "max_partial_matches", "on_partial_matches"),
)


class Session(SessionWithEvents):
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

    @classmethod
    def of(
        cls, options: RunOptions, *, arena: Arena | None = None, static: StaticData | None = None
    ) -> Session:
        """A session with the options of a run, as far as they concern a session, and with static data."""
        return cls(**{name: getattr(options, name) for name in _OPTIONS}, arena=arena, static=static)

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
