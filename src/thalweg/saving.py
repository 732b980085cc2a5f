"""Saving a session and going on with it, in this process or another.

The bytes hold queries as texts, terms, windows, what views still have to show, and the state of streams. Indexes
and plans are made anew. Nothing in them is code: bytes from elsewhere can be wrong, but not harmful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from thalweg.algebra.query import Query
from thalweg.answers import ContinuousQuery, Stats, Stream
from thalweg.errors import UsageError
from thalweg.lang import parse
from thalweg.operators.state import State, pack, unpack
from thalweg.operators.streamset import Streamset
from thalweg.rdf.arena import Arena

FORMAT = 3


def save(session: Any) -> bytes:
    """The session (of `engine`, which is built upon this) as bytes."""
    session.compact()
    homes = session._sets
    state: State = {
        "options": {
            "lateness": session._lateness,
            "on_error": session._on_error,
            "blank_nodes": session._blank_nodes,
        },
        "stats": asdict(session.stats),
        "pushes": session._pushes,
        "streams": [asdict(stream) for stream in session._streams.values()],
        "terms": np.frombuffer(session.arena.records(), np.uint8),
        "hash_mask": session.arena.hash_mask,
        # In the order of registration within each streamset, those that left included: plans count on it.
        "homes": [
            {
                "streams": list(home.streams),
                "queries": [
                    {"text": query.text, "default": query.streams[0]} for query, _ in home.registered
                ],
                "state": home.state(),
            }
            for home in homes
        ],
        "queries": [_place(query, homes) for query in session.queries],
        "derived": session._derived.state(),
    }
    return pack(state, FORMAT)


def _place(query: ContinuousQuery, homes: list[Streamset]) -> list[int]:
    home = query.home
    return [homes.index(home), next(k for k, (_, view) in enumerate(home.registered) if view is query.view)]


def restore(kind: Any, data: bytes, threads: int = 1, queries: Sequence[Query] = ()) -> Any:
    """The session of such bytes; `queries` has its queries in the order of their registration.

    Queries that no text says are given, in the order in which they were saved.
    """
    given = iter(queries)
    try:
        state = unpack(data, FORMAT)
    except ValueError as error:
        raise UsageError(f"the session cannot be restored: {error}") from None
    options = state["options"]
    session = kind(
        on_error=options["on_error"],
        blank_nodes=options["blank_nodes"],
        arena=Arena(state["hash_mask"]),
        threads=threads,
    )
    session._lateness = options["lateness"]
    session.stats = Stats(**state["stats"])
    session._pushes = state["pushes"]
    session._streams = {saved["name"]: Stream(**saved) for saved in state["streams"]}
    if session.arena.merge(state["terms"]) is not None:
        raise UsageError("the session cannot be restored: its terms have other ids in this version")
    for saved in state["homes"]:
        home = Streamset(saved["streams"])
        for query in saved["queries"]:
            asked = next(given) if queries else parse(query["text"], stream=query["default"])
            home.add(asked, session.arena)
        home.restore(saved["state"], session.arena.intern)
        session._sets.append(home)
    for place, number in state["queries"]:
        home = session._sets[place]
        query, view = home.registered[number]
        session._add(ContinuousQuery(session.arena, query, view, home, session.tidy))
    session._derived.restore(state["derived"])
    return session
