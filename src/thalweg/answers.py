"""What a session gives back: registered queries with their rows, late events, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.errors import UsageError
from thalweg.instants import Instant, as_instant
from thalweg.kernels.times import NO_TIME
from thalweg.operators.answering import present_answer, snapshot_query
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, View
from thalweg.plan.compile import shown_variables
from thalweg.rdf.arena import Arena
from thalweg.rows import Row
from thalweg.tables import Rows, graph_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import rdflib

_SHOWN = 60
_MANY = 1 << 10
_BOUND = frozenset("+-")  # the signs of rows that have bindings


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Late:
    """An event that came after its stream's watermark."""

    stream: str
    at: Instant
    watermark: Instant
    event: int
    reason: str

    @property
    def time(self) -> datetime | None:
        """Its time as a `datetime` in UTC; None before the year 1."""
        return self.at.time


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
    each window that was asked), `shed` partial matches of sequences that were dropped beyond the limit.
    """

    events: int = 0
    triples: int = 0
    late: int = 0
    quarantined: int = 0
    unread: int = 0
    absent: int = 0
    shed: int = 0
    compactions: int = 0

    def restore(self, stats: Stats) -> None:
        """Goes on from saved counts."""
        self.__dict__.update(vars(stats))


class RowTexts:
    """The columns of a query's rows, and the texts of their ids."""

    def __init__(self, arena: Arena, query: Query) -> None:
        self.query = query
        # Constants are in the rows.
        whole = query.template is not None or not query.flat or query.sequence is not None
        self.names = query.columns if whole else shown_variables(query)
        self.fixed = {} if whole else {name: c.text for name, c in query.fixed if name in query.select}
        self._arena = arena

    def texts(self, delta: Delta) -> tuple[dict[str, list[str]], list[str | None]]:
        """The columns of a delta as N-Triples texts, by name in the order of SELECT, and the graphs of its rows.

        Where some row leaves a variable unbound (its id is 0), the text is None.
        """
        arena, count = self._arena, len(delta)
        names = self.names
        if delta.ids.all():
            texts = arena.texts(delta.ids.T)
            columns = {name: texts[place * count : (place + 1) * count] for place, name in enumerate(names)}
        else:
            found: Any = arena.bound_texts(delta.ids.T)
            columns = {name: found[place * count : (place + 1) * count] for place, name in enumerate(names)}
        columns |= {name: [text] * count for name, text in self.fixed.items()}
        graphs: list[str | None] = [None] * count
        if self.query.per_event:
            named = np.flatnonzero(delta.graph)
            for place, text in zip(named.tolist(), arena.texts(delta.graph[named]), strict=True):
                graphs[place] = text
        return {name: columns[name] for name in self.query.columns if name in columns}, graphs


class ContinuousQuery(RowTexts):
    """A registered query: poll it, iterate over it or subscribe to it for what its answer has gained and lost."""

    def __init__(
        self,
        arena: Arena,
        query: Query,
        view: View,
        streamset: Streamset,
        on_taken: Callable[[], None],
        on_subscribed: Callable[[ContinuousQuery, Callable[[Row], object]], Callable[[], None]] | None = None,
    ) -> None:
        """`on_taken` is called when many rows have been taken, whose texts nobody else may use; `on_subscribed` with a
        function that is to be called with rows, and answers what ends that.
        """
        super().__init__(arena, query)
        self.view = view
        self.streamset = streamset
        self._on_taken = on_taken
        self._on_subscribed = on_subscribed
        self._columns = query.columns
        self._asked: Query | None = None

    def poll(self) -> Rows:
        """Everything since the last poll, in time order."""
        rows = Rows(self.rows(self.drain()))
        rows.names, rows.of_answer = self._columns, False
        if len(rows) > _MANY:
            self._on_taken()
        return rows

    def __iter__(self) -> Iterator[Row]:
        """Polls until no row is left; what is pushed meanwhile comes, too."""
        while rows := self.poll():
            yield from rows

    def subscribe(self, function: Callable[[Row], object]) -> Callable[[], None]:
        """Calls a function with each row from now on, at the end of the call that made the row; first with those that
        wait. Rows that subscribers get do not wait for a poll. The result ends the subscription when it is called.

        What the function raises comes out of that call; the event has been taken, and the next rows come with the next
        call.
        """
        if self._on_subscribed is None:
            raise UsageError("this query belongs to no session that could call the function")
        if not callable(function):
            raise UsageError(f"subscribe takes a function of one row, not {function!r:.60}")
        return self._on_subscribed(self, function)

    def answer(self) -> Rows:
        """The present answer: its rows, each as often as it is in it, at the instant up to which events are complete.

        It takes nothing from `poll`, and is the same for RSTREAM, ISTREAM, DSTREAM and no operator. With ORDER BY the
        rows are in that order; those of RSTREAM also have their ranks. The query is evaluated from scratch over what
        its windows hold: that is cheap for the keyboard, and dear after each event.
        """
        if self.query.sequence is not None:
            raise UsageError("a sequence has matches and no answer at an instant: take its rows with poll()")
        if self.query.per_event:
            raise UsageError(
                "[NOW] has an answer for each event and none at an instant: take its rows with poll()"
            )
        if self._asked is None:
            self._asked = snapshot_query(self.query)
        found = present_answer(self.streamset, self.view, self._asked, self._arena)
        return Rows.of(self.rows(found), self.query.columns, of_answer=True)

    def to_arrow(self, *, terms: bool = False) -> pa.Table:
        """The present answer as a table of Arrow; `poll().to_arrow()` has the changes."""
        return self.answer().to_arrow(terms=terms)

    def to_pandas(self, *, terms: bool = False) -> pd.DataFrame:
        """The present answer as a data frame; `poll().to_pandas()` has the changes."""
        return self.answer().to_pandas(terms=terms)

    def to_rdflib(self) -> rdflib.Graph | list[dict[str, Any]] | bool:
        """The present answer for rdflib: a graph for CONSTRUCT, dictionaries of terms for SELECT, a bool for ASK."""
        rows = self.answer()
        if self.query.template is not None:
            return graph_of(rows)
        return bool(rows) if self.query.ask else rows.to_rdflib()

    def __repr__(self) -> str:
        text = " ".join(self.query.text.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return f"<ContinuousQuery {shown!r}: {self.view.pending:,} rows wait for a poll>"

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
                next(rows) if there else Row(as_instant(at), sign, {})
                for at, sign, there in zip(delta.at.tolist(), signs, bound.tolist(), strict=True)
            ]
        columns, graphs = self.texts(delta)
        names, cells = list(columns), list(zip(*columns.values(), strict=True)) or [()] * len(delta)
        times = map(as_instant, delta.at.tolist())
        if not delta.ids.all():
            return [
                Row(
                    at,
                    sign,
                    {name: term for name, term in zip(names, row, strict=True) if term is not None},
                    graph,
                )
                for at, sign, row, graph in zip(times, signs, cells, graphs, strict=True)
            ]
        return [
            Row(at, sign, dict(zip(names, row, strict=True)), graph)
            for at, sign, row, graph in zip(times, signs, cells, graphs, strict=True)
        ]

    def drain(self) -> Delta:
        """The same as columns of ids, which `names` names; `texts` has them as texts until the session goes on."""
        if self.streamset.has_content:
            self.streamset.catch_up()
        return self.view.poll()
