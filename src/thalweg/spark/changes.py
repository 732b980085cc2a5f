"""Changes on their way from the first stage to the second: spread by keys, and packed for the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.spans import Spans
from thalweg.operators.state import pack, unpack
from thalweg.operators.views import Delta
from thalweg.rdf.arena import Arena, FrontCoded
from thalweg.rdf.chunk import narrow

Ints = NDArray[np.int64]
_FORMAT = 1
_SIZE = 8
_MIX = np.int64(-7046029254386353131)  # an odd number whose bits look random
_ROWS = 1 << 18
"""Rows that are packed together: each distinct term is packed once for them."""


@dataclass
class Parcel:
    """Changes of the rows at the cut, up to how far a shard of the first stage has come.

    The signs of the delta are weights, and its events are inputs of the cut. `opened` is the first instant of the
    query, once that is settled.
    """

    bound: int
    opened: int | None
    delta: Delta

    def pack(self, arena: Arena) -> bytes:
        """The parcel and the terms that it needs, as bytes."""
        delta = self.delta
        numbers, terms = arena.export(np.ascontiguousarray(delta.ids.T))
        steps = np.diff(delta.at, prepend=delta.at[:1])
        columns = numbers.reshape(delta.ids.shape[1], len(delta))
        body = pack(
            {
                "bound": self.bound,
                "opened": self.opened,
                "rows": len(delta),
                "width": delta.ids.shape[1],
                "first": int(delta.at[0]) if len(delta) else 0,
                "columns": [narrow(column) for column in (steps, delta.op, delta.event, *columns)],
                "terms": [narrow(terms.shared), narrow(terms.sizes), len(terms.sizes)],
                "rests": terms.rests,
            },
            _FORMAT,
        )
        return len(body).to_bytes(_SIZE, "little") + pa.compress(body, codec="lz4_raw", asbytes=True)

    @staticmethod
    def unpack(data: bytes | memoryview, arena: Arena) -> Parcel:
        """The parcel of packed bytes; its terms enter the arena."""
        size = int.from_bytes(data[:_SIZE], "little")
        body = pa.decompress(pa.py_buffer(memoryview(data)[_SIZE:]), size, codec="lz4_raw", asbytes=True)
        state = unpack(body, _FORMAT)
        shared, sizes, count = state["terms"]
        shared, sizes = _column(shared, count).astype(np.uint8), _column(sizes, count).astype(np.uint32)
        ids = arena.enter(FrontCoded(shared, sizes, state["rests"]))
        rows = state["rows"]
        steps, weight, number, *columns = (_column(one, rows) for one in state["columns"])
        cells = np.empty((rows, state["width"]), np.int64)
        for k, column in enumerate(columns):
            cells[:, k] = ids[column]
        at = state["first"] + np.cumsum(steps)
        return Parcel(state["bound"], state["opened"], Delta(at, weight, 0 * number, number, cells))


def _column(stored: NDArray[np.int64] | int, size: int) -> Ints:
    return np.full(size, stored, np.int64) if isinstance(stored, int) else stored.astype(np.int64)


def parcels(
    delta: Delta, keys: Sequence[Sequence[int]], shards: int, arena: Arena, bound: int, opened: int | None
) -> Iterator[tuple[int, bytes]]:
    """The packed parcels of changes for each shard of the second stage, at least one.

    `keys` has, for each input of the cut, the columns by whose texts its rows are spread.
    """
    place = np.zeros(len(delta), np.int64)
    if shards > 1:
        for number, columns in enumerate(keys):
            mine = np.flatnonzero(delta.event == number)
            place[mine] = places_of(delta.ids[mine][:, list(columns)], arena) % shards
    for shard in range(shards):
        own = delta[place == shard] if shards > 1 else delta
        for start in range(0, max(len(own), 1), _ROWS):
            yield shard, Parcel(bound, opened, own[start : start + _ROWS]).pack(arena)


def places_of(rows: Ints, arena: Arena) -> Ints:
    """For each row a number that is not negative and depends on the texts of its cells alone."""
    mixed = np.zeros(len(rows), np.int64)
    with np.errstate(over="ignore"):
        for k in range(rows.shape[1]):
            ids = np.ascontiguousarray(rows[:, k])
            # Not the bits that choose places in hash tables.
            mixed = (mixed ^ np.where(ids == 0, 0, arena.keys(ids)) >> 7) * _MIX
    return (mixed >> 33) & 0x3FFFFFFF


def spans_of(delta: Delta, number: int, width: int) -> Spans:
    """The changes of an input of the cut as solutions that have no end."""
    mine = delta[delta.event == number]
    cells = np.zeros((len(mine), OUT_BINDINGS + width), np.int64)
    cells[:, OUT_FROM], cells[:, OUT_TO], cells[:, OUT_WEIGHT] = mine.at, FOREVER, mine.op
    cells[:, OUT_BINDINGS:] = mine.ids[:, :width]
    return Spans(cells)
