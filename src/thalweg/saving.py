"""Saving a session and going on with it, in this process or another.

The bytes hold queries as texts, terms, windows, what views still have to emit, and the state of streams. Indexes
and plans are made anew. Nothing in them is code: bytes from elsewhere can be wrong, but not harmful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from thalweg.algebra.query import Query
from thalweg.answers import Stats, Stream
from thalweg.errors import UsageError
from thalweg.lang import parse
from thalweg.operators.retention import Retained
from thalweg.operators.sequences import SequenceSet
from thalweg.operators.state import State, pack, unpack
from thalweg.operators.streamset import Streamset
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.schema.axioms import Schema
from thalweg.static.data import StaticData

FORMAT = 12


@dataclass
class Parts:
    """What a session consists of, as it is saved and restored."""

    options: dict[str, Any]
    stats: Stats
    pushes: int
    streams: list[Stream]
    arena: Arena
    streamsets: list[Streamset]
    queries: list[tuple[int, int]]
    """By query in the order of registration: its streamset, and its number there."""
    derived: State
    retained: dict[str, Retained]
    static: StaticData


def pack_parts(parts: Parts) -> bytes:
    """A session as bytes."""
    state: State = {
        "options": parts.options,
        "stats": asdict(parts.stats),
        "pushes": parts.pushes,
        "streams": [asdict(stream) for stream in parts.streams],
        "terms": np.frombuffer(parts.arena.records(), np.uint8),
        "hash_mask": parts.arena.hash_mask,
        # In the order of registration within each streamset, those that left included: plans count on it.
        "streamsets": [
            {
                "streams": list(streamset.streams),
                "queries": [
                    {
                        "text": query.text,
                        "default": query.streams[0],
                        "schema": None if query.schema is None else query.schema.as_text(),
                    }
                    for query, _ in streamset.registered
                ],
                "state": streamset.state(),
            }
            for streamset in parts.streamsets
        ],
        "queries": parts.queries,
        "derived": parts.derived,
        "static": parts.static.state(),
        "retained": {stream: kept.state() for stream, kept in parts.retained.items()},
    }
    return pack(state, FORMAT)


def unpack_parts(data: bytes, queries: Sequence[Query] = (), static: StaticData | None = None) -> Parts:
    """The session of such bytes.

    Queries that no text says are given, in the order of their registration; so are static data that are not saved.
    """
    try:
        state = unpack(data, FORMAT)
    except ValueError as error:
        raise UsageError(f"the session cannot be restored: {error}") from None
    arena = Arena(state["hash_mask"])
    if arena.merge(state["terms"]) is not None:
        raise UsageError("the session cannot be restored: its terms have other ids in this version")
    static = StaticData.restored(state["static"]) if static is None else static
    streamsets = []
    limits = RunOptions(**state["options"]).limits
    given = dict(zip(map(tuple, state["queries"]), queries, strict=True)) if queries else {}
    for place, saved in enumerate(state["streamsets"]):
        asked: list[Query] = []
        for number, query in enumerate(saved["queries"]):
            one = given.get((place, number))
            if one is None:
                one = parse(query["text"], stream=query["default"], graphs=static.names)
                if query["schema"] is not None:
                    one = one.under(Schema.from_text(query["schema"]))
            asked.append(one)
        in_sequence = any(one.sequence is not None for one in asked)
        kind = SequenceSet if in_sequence else Streamset
        streamset = kind(saved["streams"], static=static)
        for one in asked:
            streamset.add(one, arena, limits)
        streamset.restore(saved["state"], arena.intern)
        streamsets.append(streamset)
    return Parts(
        options=state["options"],
        stats=Stats(**state["stats"]),
        pushes=state["pushes"],
        streams=[Stream(**saved) for saved in state["streams"]],
        arena=arena,
        streamsets=streamsets,
        queries=[(place, number) for place, number in state["queries"]],
        derived=state["derived"],
        static=static,
        retained={stream: Retained.restored(kept) for stream, kept in state["retained"].items()},
    )
