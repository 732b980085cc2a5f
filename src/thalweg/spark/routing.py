"""Routing: which rows of a chunk go to which shard, and through which channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.plan.cells import spread
from thalweg.plan.coverage import Mask, TripleColumns, fits
from thalweg.plan.epsilon import network_of
from thalweg.plan.shares import Role, Shares
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Chunk
from thalweg.rdf.ntriples import scope_of
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network

TRIPLES, GRAPHS, EVENTS, MESSAGES = "triples", "graphs", "events", "messages"
"""How a chunk is going to be framed. Messages are events, as those of files (`events`), whose order means nothing."""


class Parcel(NamedTuple):
    """The rows of a chunk for one shard, through one channel."""

    shard: int
    stream: str
    chunk: Chunk


@dataclass(frozen=True)
class Router:
    """Splits chunks by the shares of a query.

    Every shard gets a parcel of every chunk through every channel, so that all of them have all events and their times
    and agree on what is late. Which rows are in it is decided by the texts of their terms alone. What a chunk has to
    say beside its rows (rejects and where they are, counts) is in the first parcel only.
    """

    query: Query
    shares: Shares

    def split(self, stream: str, mode: str, chunk: Chunk, arena: Arena) -> Iterator[Parcel]:
        """The parcels of a chunk of a stream."""
        channels = self.shares.channels_of(self.query, stream)
        if self.shares.shards == 1:
            yield Parcel(0, stream, chunk)
            return
        # A triple goes to all shards that need one which follows from it.
        derived = None
        if self._network is not None and self.shares.roles:
            derived = Expansion(self._network, arena).derive(chunk.s, chunk.p, chunk.o)
        said = chunk
        for channel in channels:
            rows: TripleColumns = chunk if derived is None else derived
            places = list(self._places(stream, mode, channel, chunk, rows, arena))
            for shard in range(self.shares.shards):
                mine = np.zeros(len(chunk), np.bool_)
                for wanted, place, decided in places:
                    chosen = wanted & (place == self._place_of(decided, shard))
                    if derived is None:
                        mine |= chosen
                    else:
                        mine[derived.source[chosen]] = True
                yield Parcel(shard, self.shares.stream_of(stream, channel), share_of(said, mode, mine))
                said = replace(chunk, rejects=(), unnamed=0, blanks=0, left_out=0)

    def _places(
        self, stream: str, mode: str, channel: int, chunk: Chunk, rows: TripleColumns, arena: Arena
    ) -> Iterator[tuple[Mask, NDArray[np.int64], set[int]]]:
        """For each role of a channel: the rows (of the chunk, or what follows from them) that are needed in it, the
        place of each in the dimensions that the role decides, and these dimensions.
        """
        if not self.shares.roles:
            key = chunk.s if mode == TRIPLES else chunk.g
            number = spread(arena.keys(key)) if mode in (TRIPLES, GRAPHS) else chunk.number
            if chunk.whole:
                number = np.full(len(chunk), scope_of(chunk.source) & 0x3FFFFFFF)
            yield np.ones(len(chunk), np.bool_), number % self.shares.events, set()
        for role in self.shares.roles:
            if role.channel != channel:
                continue
            place = np.zeros(rows.s.size, np.int64)
            decided: set[int] = set()
            for dimension, column in zip(role.dimensions, (rows.s, rows.p, rows.o), strict=True):
                if dimension is not None and dimension not in decided:
                    decided.add(dimension)
                    share = self.shares.shares[dimension][1]
                    place += spread(arena.keys(column)) % share * self.shares.strides[dimension]
            yield self._wanted(stream, role, rows, arena), place, decided

    def _wanted(self, stream: str, role: Role, rows: TripleColumns, arena: Arena) -> Mask:
        """The rows of a stream that fit a pattern of a role."""
        wanted = np.zeros(rows.s.size, np.bool_)
        for number in role.patterns:
            pattern = self.query.patterns[number]
            if stream in self.query.sources[pattern.source].streams:
                wanted |= fits(pattern, rows, arena)
        return wanted

    def _place_of(self, decided: set[int], shard: int) -> int:
        """The place of a shard in some dimensions."""
        if not self.shares.roles:
            return shard
        return sum(
            shard // self.shares.strides[k] % self.shares.shares[k][1] * self.shares.strides[k]
            for k in decided
        )

    @cached_property
    def _network(self) -> Network | None:
        return network_of(self.query)


def share_of(chunk: Chunk, mode: str, mine: Mask) -> Chunk:
    """The rows of a shard, and what it needs of the others: where events begin, and their times."""
    if mode == TRIPLES:
        return chunk.picked(np.flatnonzero(mine & (chunk.p != 0)))
    said, stamps = chunk.s == 0, np.zeros(len(chunk), np.bool_)
    if mode == GRAPHS:
        stamps = (chunk.time != NO_TIME) & (chunk.g != 0)  # data as well, of some shards
        said = said | ((chunk.time != NO_TIME) & (chunk.g == 0))
    mine = mine & ~said
    # The first row of an event stands for its beginning, also where it is not wanted.
    rows = np.flatnonzero(mine | said | stamps | _begins(chunk, mode))
    picked = chunk.picked(rows)
    other = ~(mine | said)[rows]
    if not other.any():
        return picked
    s, p, o = (np.where(other, 0, column) for column in (picked.s, picked.p, picked.o))
    return replace(picked, s=s, p=p, o=o)


def _begins(chunk: Chunk, mode: str) -> Mask:
    begins = np.zeros(len(chunk), np.bool_)
    named = np.flatnonzero(chunk.g != 0) if mode == GRAPHS else np.arange(len(chunk))
    key = (chunk.g if mode == GRAPHS else chunk.number)[named]
    begins[named[:1]] = True
    begins[named[1:][key[1:] != key[:-1]]] = True
    return begins


def keys_for(shards: int) -> tuple[int, ...]:
    """Keys for shards, such that a shuffle with as many partitions puts each into one of its own.

    The first is always 0: a checkpoint of another number of shards is found by it, and refused.

    >>> sorted(partition_of(key, 5) for key in keys_for(5))
    [0, 1, 2, 3, 4]
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < shards:
        keys.setdefault(partition_of(candidate, shards), candidate)
        candidate += 1
    return tuple(sorted(keys.values()))


def partition_of(key: int, partitions: int) -> int:
    """The partition that Spark's hash partitioning gives to an int key (Murmur3 with seed 42).

    >>> partition_of(0, 200), partition_of(1, 200)
    (191, 43)
    """
    mask = 0xFFFFFFFF
    k = key * 0xCC9E2D51 & mask
    k = ((k << 15) | (k >> 17)) & mask
    h = 42 ^ (k * 0x1B873593 & mask)
    h = ((h << 13) | (h >> 19)) & mask
    h = (h * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    signed = h - (1 << 32) if h >> 31 else h
    return signed % partitions
