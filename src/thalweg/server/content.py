"""The content of a service as a dataset of SPARQL: what has changed since the last question goes to a replica.

Each retained stream and each window of a query is a named graph, static graphs have their names, and the default graph
is what is retained of all streams, with the static default graph. The engine's thread gives references to columns and
the texts of new terms; everything else is done by the thread that asks, and by the process of the replica.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyoxigraph as ox
from numpy.typing import NDArray

from thalweg.operators.retention import triples_of
from thalweg.operators.sequences import SequenceSet
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.server.errors import OverloadedError
from thalweg.server.helpers import Bounds, Helper, Question
from thalweg.server.service import Service
from thalweg.server.state import State
from thalweg.static.data import distinct

T = TypeVar("T")
Ints = NDArray[np.int64]
Part = tuple[Rows, ...] | Ints
"""Rows of a stream, or triples."""
_Static = tuple[tuple[int, ...], list[tuple[str, Ints]]]
"""The static graphs, and what they depend on: the session, its loads, and the generation of its arena."""
_ATTEMPTS = 3
_SPARE_TERMS = 10_000
_NONE = np.empty((0, 3), np.int64)
# Spellings that Oxigraph may replace: those of the values of XML Schema.
_SPELT = re.compile(r'"\^\^<http://www\.w3\.org/2001/XMLSchema#(?!string>)[^>]*>$')


@dataclass(frozen=True)
class _Seen:
    """The graphs of a service at one moment, each as the parts that it is the union of."""

    version: object
    generation: int
    """Of the arena: ids keep their texts within one."""
    arena: Arena
    static: _Static
    windows: bool
    graphs: dict[str | None, list[Part]]


@dataclass
class _Change:
    """What graphs have lost and gained."""

    contents: dict[str | None, Ints]
    removed: dict[str | None, Ints]
    added: dict[str | None, Ints]


@dataclass
class _Replica:
    """What the replica has, and the process that has it."""

    helper: Helper
    generation: int = -1
    arena: Arena | None = None
    static: _Static = ((), [])
    parts: dict[str | None, list[Part]] = field(default_factory=dict)
    contents: dict[str | None, Ints] = field(default_factory=dict)
    terms: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The ids whose texts it has, ascending."""
    spelt: dict[int, int] = field(default_factory=dict)
    """Ids of literals that Oxigraph spells otherwise, with the ids of those spellings."""
    version: object = None
    window_version: object = None


class Content:
    """The replica of a service's content, which is brought up to date when somebody asks."""

    def __init__(self, service: Service, bounds: Bounds) -> None:
        self._service = service
        self.bounds = bounds
        self._lock = threading.Lock()
        self._replica: _Replica | None = None
        self._closed = False

    def ask(self, head: dict[str, Any], *, windows: bool) -> tuple[dict[str, Any], bytes]:
        """The answer of a question, over the windows of queries, too; for threads that may wait."""
        for attempt in range(2):
            try:
                return self._begun(head, windows).answer()
            except OSError:
                self._drop()
                if attempt:
                    raise OverloadedError("the process that answers queries has ended: ask again") from None
        raise AssertionError("unreachable")

    def _begun(self, head: dict[str, Any], windows: bool) -> Question:
        with self._lock:
            if self._closed:
                raise OverloadedError("the server ends")
            if self._replica is None:
                self._replica = _Replica(Helper("thalweg.server.content_process"))
            self._follow(self._replica, windows)
            return self._replica.helper.question(head, self.bounds)

    def _drop(self) -> None:
        with self._lock:
            if self._replica is not None:
                self._replica.helper.close(seconds=0)
                self._replica = None

    def close(self) -> None:
        """Ends the process."""
        self._closed = True
        self._drop()

    # Following

    def _follow(self, replica: _Replica, windows: bool) -> None:
        for _ in range(_ATTEMPTS):
            if self._followed(replica, windows, lambda look: self._service.look(look).result()):
                return
        # Terms come and go quickly: in the engine's thread nothing does meanwhile.
        self._service.look(lambda state: self._followed(replica, windows, lambda look: look(state))).result()

    def _followed(
        self, replica: _Replica, windows: bool, look: Callable[[Callable[[State], Any]], Any]
    ) -> bool:
        """Brings the replica up to date; False if terms have gone while this was done."""
        known = replica.window_version if windows else replica.version
        seen: _Seen | None = look(lambda state: _seen(state, windows, known, replica.static))
        if seen is None:
            return True
        # An id may have another text in another generation of the arena. One begins when terms have doubled, or for a
        # snapshot: to send everything again then costs little more than what came in between.
        reset = replica.generation != seen.generation or replica.arena is not seen.arena
        reset |= len(replica.terms) > _SPARE_TERMS + 6 * sum(map(len, replica.contents.values()))
        if reset:
            replica.generation, replica.parts, replica.contents = -1, {}, {}
            replica.terms, replica.spelt = np.empty(0, np.int64), {}
        texts: dict[int, str] = {}
        while True:
            change = _changes(replica, seen)
            rows = [one.reshape(-1) for one in change.added.values()]
            unknown = _missing(np.unique(np.concatenate([np.empty(0, np.int64), *rows])), replica.terms)
            unknown = unknown[~np.isin(unknown, np.fromiter(texts, np.int64, len(texts)))]
            if not len(unknown):
                break
            found: list[str] | None = look(lambda state: _texts(state, seen, unknown))  # noqa: B023
            if found is None:
                return False
            texts |= zip(unknown.tolist(), found, strict=True)
            otherwise = _otherwise_spelt(texts, unknown.tolist())
            if not otherwise:
                break
            ids: list[int] | None = look(lambda state: _ids(state, seen, otherwise.values()))  # noqa: B023
            if ids is None:
                return False
            for (id, text), own in zip(otherwise.items(), ids, strict=True):
                replica.spelt[id] = own
                texts[own] = text
        self._send(replica, change, texts, reset)
        replica.contents |= change.contents
        replica.contents = {name: rows for name, rows in replica.contents.items() if len(rows)}
        replica.parts = {**(replica.parts if not seen.windows else {}), **seen.graphs}
        replica.generation, replica.arena = seen.generation, seen.arena
        replica.version, replica.static = seen.version, seen.static
        if windows:
            replica.window_version = seen.version
        return True

    @staticmethod
    def _send(replica: _Replica, change: _Change, texts: dict[int, str], reset: bool) -> None:
        used = [one.reshape(-1) for one in change.added.values()]
        new = _missing(np.unique(np.concatenate([np.empty(0, np.int64), *used])), replica.terms)
        names = [name for name in change.contents if len(change.removed[name]) or len(change.added[name])]
        if not names and not reset:
            return
        graphs = [
            {
                "name": name,
                "removed": len(change.removed[name]),
                "added": len(change.added[name]),
                "size": len(change.contents[name]),
            }
            for name in names
        ]
        rows = [part for name in names for part in (change.removed[name], change.added[name])]
        parts = [np.ascontiguousarray(one, np.int64).tobytes() for one in (new, *rows)]
        parts.append("\n".join(texts[id] for id in new.tolist()).encode())
        head = {"kind": "change", "reset": reset, "terms": len(new), "graphs": graphs}
        replica.helper.send(head, parts)
        replica.terms = np.union1d(replica.terms, new)


def window_name(id: str, number: int) -> str:
    """The graph of a query's window: windows are numbered from 0 in the order of the query's text."""
    return f"{_WINDOW}{id}:{number}"


_WINDOW = "urn:thalweg:window:"


def _seen(state: State, windows: bool, known: object, static: _Static) -> _Seen | None:
    """The graphs of the content; None where they are those of the known version."""
    session, counters = state.session, state.counters
    version = (
        id(session),
        counters["steps"],
        counters["loads"],
        tuple(session.retained_streams),
        tuple(own for plan in state.plans.values() for own in plan.users) if windows else None,
    )
    if version == known:
        return None
    graphs: dict[str | None, list[Part]] = {None: []}
    for stream in session.retained_streams:
        rows = tuple(session.retained_rows(stream))
        graphs.setdefault(stream, []).append(rows)
        graphs[None].append(rows)
    made = id(session), counters["loads"], session.arena.generation
    if static[0] != made:
        static = made, list(session.static_content())
    for name, triples in static[1]:
        graphs.setdefault(name or None, []).append(triples)
    for plan in state.plans.values() if windows else ():
        query = plan.query
        if (
            query.query.per_event
            or query.query.sequence is not None
            or isinstance(query.streamset, SequenceSet)
        ):
            continue
        query.streamset.catch_up()
        for number, content in enumerate(query.streamset.content(query.view, session.arena.intern)):
            for own in plan.users:
                graphs.setdefault(window_name(own, number), []).append(content)
    return _Seen(version, session.arena.generation, session.arena, static, windows, graphs)


def _changes(replica: _Replica, seen: _Seen) -> _Change:
    """What each graph has lost and gained since the replica was brought up to date."""
    change = _Change({}, {}, {})
    compared: dict[object, tuple[Ints, Ints, Ints]] = {}
    gone = [
        name
        for name in replica.contents
        if name not in seen.graphs and (seen.windows or not str(name).startswith(_WINDOW))
    ]
    for name, parts in (*seen.graphs.items(), *((name, list[Part]()) for name in gone)):
        if name in replica.contents and _same(parts, replica.parts.get(name)):
            continue
        # The default graph is often that of one stream: then both have the same parts, before and after.
        old = replica.contents.get(name, _NONE)
        key = id(old), tuple(map(id, parts))
        if key not in compared:
            new = _content(parts, replica.spelt)
            compared[key] = new, *_difference(old, new)
        change.contents[name], change.removed[name], change.added[name] = compared[key]
    return change


def _same(parts: list[Part], known: list[Part] | None) -> bool:
    """Whether a graph has the same columns as before; they are never changed in place."""
    if known is None or len(parts) != len(known):
        return False
    return all(map(_is, parts, known))


def _is(one: Part, other: Part) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
    return one is other


def _content(parts: list[Part], spelt: dict[int, int]) -> Ints:
    """The triples of a graph, each once, in the order of their ids."""
    triples = [triples_of(list(part)) if isinstance(part, tuple) else part for part in parts]
    rows = np.concatenate([_NONE, *triples])
    if spelt and len(rows):
        rows = rows.copy()
        own = np.array(sorted(spelt), np.int64)
        place = np.minimum(np.searchsorted(own, rows[:, 2]), len(own) - 1)
        hit = own[place] == rows[:, 2]
        replaced = np.array([spelt[id] for id in own.tolist()], np.int64)
        rows[hit, 2] = replaced[place[hit]]
    return distinct(rows)


def _difference(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """The rows that are only in the old ones, and those that are only in the new ones; each of both has a row once."""
    if not len(old) or not len(new):
        return old, new
    rows = np.concatenate([old, new])
    order = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
    placed = rows[order]
    pair = (placed[1:] == placed[:-1]).all(axis=1)
    alone = np.ones(len(rows), np.bool_)
    alone[1:] &= ~pair
    alone[:-1] &= ~pair
    left = order[alone]
    return rows[left[left < len(old)]], rows[left[left >= len(old)]]


def _missing(ids: Ints, known: Ints) -> Ints:
    """Those ids that are not known; both ascend."""
    if not len(known) or not len(ids):
        return ids
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return ids[known[place] != ids]


def _texts(state: State, seen: _Seen, ids: Ints) -> list[str] | None:
    return seen.arena.texts(ids) if _is_current(state, seen) else None


def _ids(state: State, seen: _Seen, texts: Iterable[str]) -> list[int] | None:
    return [seen.arena.intern(text.encode()) for text in texts] if _is_current(state, seen) else None


def _is_current(state: State, seen: _Seen) -> bool:
    """Whether ids still have the texts that they had."""
    return state.session.arena is seen.arena and seen.arena.generation == seen.generation


def _otherwise_spelt(texts: dict[int, str], ids: Iterable[int]) -> dict[int, str]:
    """The literals that Oxigraph spells in another way, with that spelling: `"01"` is the integer `"1"` there."""
    asked = [id for id in ids if _SPELT.search(texts[id])]
    if not asked:
        return {}
    lines = "".join(f"<i:{id}> <i:i> {texts[id]} .\n" for id in asked)
    store = ox.Store()
    store.extend(ox.parse(lines.encode(), ox.RdfFormat.N_TRIPLES, lenient=True))
    found = ((int(quad.subject.value[2:]), str(quad.object)) for quad in store)
    return {id: text for id, text in found if text != texts[id]}
