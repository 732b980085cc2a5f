"""The sharded job of a query on Spark: what every task needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.algebra.query import Query
from thalweg.engine import Session
from thalweg.errors import UsageError
from thalweg.io.files import ReadOptions
from thalweg.lang import parse
from thalweg.operators.derived import output_of
from thalweg.plan.shares import Shares, plan_shares
from thalweg.spark.encode import Reading
from thalweg.spark.routing import Router, keys_for

_DERIVES = "a query that reads a derived stream runs beside the query that makes it"


@dataclass(frozen=True)
class ShardedJob:
    """What every task needs: the query, its shards, and how the events of its streams are made."""

    text: str
    stream: str | None
    reading: Reading
    lateness: int | str = 0
    drain: bool = False
    quarantine: str | None = None
    late: str | None = None
    idle: int | None = None
    """Milliseconds after which a silent stream no longer holds the others."""
    derive: tuple[str, ...] = ()
    """CONSTRUCT queries whose output streams the query reads."""
    sources: tuple[str, ...] = ()
    """The streams that come from outside, by name."""

    @classmethod
    def of(
        cls,
        text: str,
        *,
        stream: str | None = None,
        options: ReadOptions | None = None,
        shards: int = 1,
        sizes: Mapping[int, float] | None = None,
        clocked: bool = False,
        derive: Sequence[str] = (),
        **more: Any,
    ) -> ShardedJob:
        """A job for a query, spread over at most so many shards; an error in the text is raised here."""
        session = Session(lateness=more.get("lateness", 0))
        for producer in derive:
            made = output_of(session.register(producer, stream=stream).query)
            if made is None:
                raise UsageError("a stream is derived by REGISTER ISTREAM <stream> AS CONSTRUCT ...")
        query = session.register(text, stream=stream).query
        options = options or ReadOptions()
        shares = Shares(reason=_DERIVES) if derive else _shares(query, options, shards, sizes)
        reading = Reading(session.prune(), options, Router(query, shares), keys_for(shares.shards), clocked)
        sources = tuple(sorted(session.source_streams))
        return cls(text, stream, reading, derive=tuple(derive), sources=sources, **more)

    def session(self) -> Session:
        """An engine with the queries of the job; the last is the one that is answered."""
        session = Session(lateness=self.lateness, max_pending=None)  # drained after each batch
        for producer in self.derive:
            session.register(parse(producer, stream=self.stream))
        session.register(self.asked)
        return session

    @property
    def asked(self) -> Query:
        """The query as a shard evaluates it."""
        return self.reading.router.shares.in_a_cell(self.reading.router.query)

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the answers: a checkpoint of another job is not ours."""
        prune, options, shares = (
            self.reading.prune.fingerprint,
            self.reading.options,
            self.reading.router.shares,
        )
        parts = (
            *(self.text, self.derive, self.stream, str(self.lateness), self.drain, self.idle),
            *(prune, options, shares),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _shares(query: Query, options: ReadOptions, shards: int, sizes: Mapping[int, float] | None) -> Shares:
    """How a query is spread, given how its events are read."""
    if query.per_event and options.per_event > 1 and shards > 1:
        return Shares(reason="events of several lines need a shard that has read all lines before")
    return plan_shares(query, shards, sizes)
