"""The plan of a job on Spark: how its query is spread over shards, and what every task needs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Protocol

from thalweg.algebra.query import Query
from thalweg.engine import Session
from thalweg.io.job import Job
from thalweg.options import RunOptions
from thalweg.plan.sequence_shares import plan_sequence_shares
from thalweg.plan.shares import Shares, plan_shares
from thalweg.spark.encode import Reading
from thalweg.spark.routing import Router, keys_for
from thalweg.spark.static_files import sent_folders
from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles

STATE_FORMAT = 9
"""The format of a shard's state: its header, its log, and the sessions that are saved in it."""
_DERIVES = "a query that reads a derived stream runs beside the query that makes it"


@dataclass(frozen=True)
class ShardPlan:
    """What every task needs: the job, its shards, and how the events of its streams are made."""

    job: Job
    reading: Reading
    sources: tuple[str, ...] = ()
    """The streams that come from outside, by name."""
    quarantine: str | None = None
    """The folder for malformed input."""
    late: str | None = None
    """The folder for late events."""
    static: StaticFiles | None = None
    """The files of the static data."""
    static_names: tuple[str, ...] = ()
    """The static graphs that there are."""
    static_digest: str = ""

    @classmethod
    def of(
        cls,
        job: Job,
        *,
        quarantine: str | None = None,
        late: str | None = None,
        static: StaticFiles | None = None,
    ) -> ShardPlan:
        """The plan of a job, spread over at most as many shards as its options allow (one, if they do not say).

        `static` are the files of its static data: without them it can be looked at, and not be run.
        """
        options = job.options
        session = Session.of(options, static=job.static)
        for query in job.queries:
            session.register(query)
        shares = Shares(reason=_DERIVES) if job.derive else _shares(job.query, options)
        reading = Reading(
            session.prune(),
            options,
            Router(job.query, shares),
            keys_for(shares.shards),
        )
        sources = tuple(sorted(session.source_streams))
        names, fingerprint = tuple(job.static.names), job.static.fingerprint
        return cls(
            replace(job, static=StaticData()), reading, sources, quarantine, late, static, names, fingerprint
        )

    def static_data(self, shard: int) -> StaticData:
        """The static data of a shard: of the graphs that its queries read, the triples that it can join."""
        data = StaticData()
        if self.static_names:
            if self.static is None:
                raise ValueError("the static data of the plan are in no files")
            data = self.static.opened(sent_folders())
        query, shares = self.reading.router.query, self.shares
        # Atoms of sequences ask static data with whole events: those of a shard may need all of them.
        if not shares.roles or query.sequence is not None:
            return data
        return data.in_shard(shares.static_cells(query, shard))

    def session(self, shard: int = 0) -> Session:
        """The engine of a shard with the queries of the job; the last is the one that is answered."""
        # It is drained after each batch, and malformed input is dealt with by whoever started the run.
        options = replace(self.job.options, max_pending=None, on_error="quarantine")
        session = Session.of(options, static=self.static_data(shard))
        for query in self.queries(shard):
            session.register(query)
        return session

    @property
    def options(self) -> RunOptions:
        """The options of the run."""
        return self.job.options

    @property
    def shares(self) -> Shares:
        """How the query is spread."""
        return self.reading.router.shares

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the shards."""
        return self.reading.keys

    @property
    def idle(self) -> int | str | None:
        """After what time a silent stream no longer holds the others."""
        return self.job.options.idle

    @property
    def second(self) -> SecondPlan | None:
        """The plan of the second stage, if there is one."""
        return SecondPlan(self) if self.shares.second is not None else None

    def queries(self, shard: int) -> tuple[Query, ...]:
        """All queries as a shard evaluates them, in the order of their registration."""
        router = self.reading.router
        return *self.job.derive, router.shares.in_a_cell(router.query, shard)

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the answers: a checkpoint of another job is not ours."""
        texts = [(query.text, query.streams, query.schema) for query in self.job.queries]
        parts = (
            STATE_FORMAT,
            texts,
            self.job.options.deciding,
            self.reading.prune.fingerprint,
            self.reading.router.shares,
            *([self.static_digest] if self.static_digest else []),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class SecondPlan:
    """What every task of the second stage needs."""

    first: ShardPlan
    sources: tuple[str, ...] = ()
    quarantine: str | None = None
    late: str | None = None
    idle: int | str | None = None

    @property
    def query(self) -> Query:
        """The query with where it is cut."""
        return self.first.shares.staged(self.first.reading.router.query)

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the shards: some of those of the first stage, since both have as many partitions."""
        second = self.first.shares.second
        return self.first.keys[: 1 if second is None else second.shards]

    @property
    def fingerprint(self) -> str:
        """That of the first stage: a checkpoint is of both."""
        return self.first.fingerprint


class StagePlan(Protocol):
    """What the stateful step needs of a plan, whichever engine it is for."""

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the shards."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams that come from outside, by name."""

    @property
    def quarantine(self) -> str | None:
        """The folder for malformed input."""

    @property
    def late(self) -> str | None:
        """The folder for late events."""

    @property
    def idle(self) -> int | str | None:
        """After what time a silent stream no longer holds the others."""

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the answers: a checkpoint of another job is not ours."""


def _shares(query: Query, options: RunOptions) -> Shares:
    """How a query is spread, given how its events are read."""
    shards = options.shards or 1
    if query.sequence is not None:
        return plan_sequence_shares(query, shards)
    if query.per_event and (options.per_event or 1) > 1 and shards > 1:
        return Shares(reason="events of several lines need a shard that has read all lines before")
    return plan_shares(query, shards, options.sizes)
