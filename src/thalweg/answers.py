"""What a session gives back: registered queries with their rows, late events, counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.kernels.times import NO_TIME
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, View
from thalweg.plan.compile import shown_variables
from thalweg.rdf.arena import Arena

_MANY = 1 << 10
_BOUND = frozenset("+-")  # the signs of rows that have bindings


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """A result row: when, whether it came (+) or went (-), and the terms as N-Triples text.

    `0` stands for a report whose answer is empty, where the query asks for these. `gap` stands for rows up to its time
    that were dropped because nobody polled them. Both have no bindings.
    """

    at: int
    op: str
    bindings: dict[str, str]
    graph: str | None = None

    def __getitem__(self, name: str) -> str:
        return self.bindings[name]

    def get(self, name: str) -> str | None:
        """The term of a variable, or None where the row leaves it unbound."""
        return self.bindings.get(name)


@dataclass(frozen=True, slots=True)
class Late:
    """An event that came after its stream's watermark."""

    stream: str
    at: int
    watermark: int
    event: int
    reason: str


class Memory(TypedDict):
    """Bytes that a session has allocated, by purpose."""

    windows: int
    """Rows of windows, and their indexes."""
    answers: int
    """What operators and views wait for or keep, and the parts of products."""
    output: int
    """The buffer in which solutions leave the kernel."""
    terms: int
    operators: dict[str, int]
    """The part of `answers` that operators have, by their names, summed over queries."""


@dataclass
class Stream:
    """What the session knows of a stream, whoever asks for it."""

    name: str
    clock: int = NO_TIME
    watermark: int = NO_TIME


@dataclass
class Stats:
    """What a session has seen so far.

    `unread` counts events of streams that no query reads, `absent` deletes of triples that were not there (once for
    each window that was asked).
    """

    events: int = 0
    triples: int = 0
    late: int = 0
    quarantined: int = 0
    unread: int = 0
    absent: int = 0
    compactions: int = 0

    def restore(self, stats: Stats) -> None:
        """Goes on from saved counts."""
        self.__dict__.update(vars(stats))


class ContinuousQuery:
    """A registered query: poll it for what its answer has gained and lost."""

    def __init__(
        self, arena: Arena, query: Query, view: View, streamset: Streamset, on_taken: Callable[[], None]
    ) -> None:
        """`on_taken` is called when many rows have been taken, whose texts nobody else may use."""
        self.query = query
        whole = query.template is not None or not query.flat  # constants are in the rows
        self.names = query.columns if whole else shown_variables(query)
        self.fixed = {} if whole else {name: c.text for name, c in query.fixed if name in query.select}
        self.view = view
        self.streamset = streamset
        self._arena = arena
        self._on_taken = on_taken

    def poll(self) -> list[Row]:
        """Everything since the last poll, in time order."""
        rows = self.rows(self.drain())
        if len(rows) > _MANY:
            self._on_taken()
        return rows

    def discard(self) -> None:
        """Keeps no rows for a poll from now on: the query is there for the stream that is derived from it."""
        self.drain()
        self.view.keeps = False

    @property
    def pending(self) -> int:
        """How many rows wait for a poll."""
        if self.streamset.has_content:
            self.streamset.catch_up()
        return self.view.pending

    @property
    def dropped(self) -> int:
        """How many rows were dropped because too many waited for a poll."""
        return self.view.dropped

    def rows(self, delta: Delta) -> list[Row]:
        """The rows of a delta of this query."""
        if not len(delta):
            return []
        signs = delta.signs
        if not _BOUND.issuperset(signs):
            bound = np.abs(delta.op) == 1
            rows = iter(self.rows(delta[bound]))
            return [
                next(rows) if there else Row(at, sign, {})
                for at, sign, there in zip(delta.at.tolist(), signs, bound.tolist(), strict=True)
            ]
        columns, graphs = self.texts(delta)
        names, cells = list(columns), list(zip(*columns.values(), strict=True)) or [()] * len(delta)
        if not delta.ids.all():
            return [
                Row(
                    at,
                    sign,
                    {name: term for name, term in zip(names, row, strict=True) if term is not None},
                    graph,
                )
                for at, sign, row, graph in zip(delta.at.tolist(), delta.signs, cells, graphs, strict=True)
            ]
        return [
            Row(at, sign, dict(zip(names, row, strict=True)), graph)
            for at, sign, row, graph in zip(delta.at.tolist(), signs, cells, graphs, strict=True)
        ]

    def drain(self) -> Delta:
        """The same as columns of ids, which `names` names; `texts` has them as texts until the session goes on."""
        if self.streamset.has_content:
            self.streamset.catch_up()
        return self.view.poll()

    def texts(self, delta: Delta) -> tuple[dict[str, list[str]], list[str | None]]:
        """The columns of a delta as N-Triples texts, by name in the order of SELECT, and the graphs of its rows.

        Where some row leaves a variable unbound (its id is 0), the text is None.
        """
        arena, count = self._arena, len(delta)
        if delta.ids.all():
            texts = arena.texts(delta.ids.T)
            columns = {
                name: texts[place * count : (place + 1) * count] for place, name in enumerate(self.names)
            }
        else:
            columns = {name: self._column(delta.ids[:, place]) for place, name in enumerate(self.names)}
        columns |= {name: [text] * count for name, text in self.fixed.items()}
        graphs: list[str | None] = [None] * count
        if self.query.per_event:
            named = np.flatnonzero(delta.graph)
            for place, text in zip(named.tolist(), arena.texts(delta.graph[named]), strict=True):
                graphs[place] = text
        return {name: columns[name] for name in self.query.columns}, graphs

    def _column(self, ids: Ints) -> list[str]:
        if ids.all():
            return self._arena.texts(ids)
        texts: list[str | None] = [None] * len(ids)
        bound = np.flatnonzero(ids)
        for place, text in zip(bound.tolist(), self._arena.texts(ids[bound]), strict=True):
            texts[place] = text
        return texts  # type: ignore[return-value]
