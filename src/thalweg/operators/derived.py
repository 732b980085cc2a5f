"""Derived streams: the graphs of a CONSTRUCT query as the events of a stream that other queries read.

ISTREAM, DSTREAM and RSTREAM give one event for each instant with rows, which inserts them. Without an operator an
instant gives one event that inserts and one that deletes. [NOW] gives one event for each event that has an answer. An
instant is derived once it is complete: at one instant deletes apply before inserts, and the order of events counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.errors import QueryError, UsageError
from thalweg.operators.feeds import in_order
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, View
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
Texts = Callable[[Ints], list[str]]
_TRIPLE = 3


class Tap:
    """The deltas of one CONSTRUCT query on their way into its derived stream."""

    def __init__(self, query: Query) -> None:
        self._signed = query.operator is None and not query.per_event
        self._streams = len(query.streams)
        self._waiting: list[Delta] = []

    def add(self, delta: Delta) -> None:
        """Takes a delta of the query, in time order."""
        self._waiting.append(delta)

    def take(self, until: int, first: int, texts: Texts | None) -> Rows:
        """The rows of the events up to `until`, an instant that is complete; events are numbered from `first` on.

        The order of events, and with `texts` also that of the triples of an event, does not depend on how the input
        came in batches.
        """
        if not self._waiting:
            return Rows.empty()
        delta = Delta.concat(self._waiting, _TRIPLE)
        complete = delta.at <= until
        rest = delta[~complete]
        self._waiting = [rest] if len(rest) else []
        delta = delta[complete & (delta.op != 0)]
        at, op, graph, event, ids = delta.columns
        if self._signed:
            netted = Changes(at, op, ids).consolidated()
            at, op, ids = netted.time, netted.weight, netted.rows
            graph = event = np.zeros(len(at), np.int64)
            order = np.lexsort((op, at))
        else:
            op = np.ones(len(at), np.int64)
            # The number of an event identifies the stream it came on; there, events come in their order.
            order = np.lexsort((event % self._streams, at))
        at, op, graph, event, ids = (column[order] for column in (at, op, graph, event, ids))
        begins = np.ones(len(at), np.bool_)
        begins[1:] = (at[1:] != at[:-1]) | (op[1:] != op[:-1]) | (event[1:] != event[:-1])
        number = first - 1 + np.cumsum(begins)
        if texts is not None:
            written = list(zip(number.tolist(), *(texts(column) for column in ids.T), strict=True))
            order = np.array(sorted(range(len(written)), key=written.__getitem__), np.intp)
            at, op, graph, ids = at[order], op[order], graph[order], ids[order]
        s, p, o = np.ascontiguousarray(ids.T)
        return Rows(at, number, graph, s, p, o, op)

    def live_ids(self) -> list[Ints]:
        """The term ids of what waits."""
        return [ids for delta in self._waiting for ids in (delta.ids.ravel(), delta.graph)]

    def state(self) -> State:
        """What waits."""
        return {"waiting": Delta.concat(self._waiting, _TRIPLE).columns}

    def restore(self, state: State) -> None:
        """Waits for what a saved one waited for."""
        waiting = Delta(*state["waiting"])
        self._waiting = [waiting] if len(waiting) else []


@dataclass(frozen=True)
class _Producer:
    """A registered CONSTRUCT query, and what is on its way into its stream."""

    query: Query
    view: View
    streamset: Streamset
    tap: Tap


class Derivation(NamedTuple):
    """What is new on a derived stream: rows of whole events, and how far its producers have come."""

    rows: Rows
    watermark: int
    finished: bool
    drain: bool


class DerivedStreams:
    """The streams of a session that its own CONSTRUCT queries make."""

    def __init__(self) -> None:
        self._producers: dict[str, list[_Producer]] = {}
        self._events: dict[str, int] = {}
        self._order: tuple[str, ...] = ()

    def __contains__(self, stream: object) -> bool:
        return stream in self._producers

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[str]:
        """The streams, each after those that it is derived from."""
        return iter(self._order)

    def check(self, query: Query, watermarks: dict[str, int]) -> None:
        """Refuses a query whose stream would be derived from itself, or has already gone on without the query."""
        output = output_of(query)
        if output is None:
            return
        try:
            self._sorted({*self._dependencies(), *((output, stream) for stream in query.streams)})
        except CycleError:
            raise QueryError(f"<{output}> would be derived from itself: name another output stream") from None
        behind = min(watermarks[stream] for stream in query.streams)
        if output not in self and watermarks[output] > behind:
            raise UsageError(
                f"events or watermarks of <{output}> were given before this query, which makes that stream: "
                "register the query first"
            )

    def add(self, query: Query, view: View, streamset: Streamset) -> None:
        """Derives a stream from a query, if it is a CONSTRUCT with a named output."""
        output = output_of(query)
        if output is None:
            return
        producer = _Producer(query, view, streamset, Tap(query))
        view.on_delta = producer.tap.add
        self._producers.setdefault(output, []).append(producer)
        self._events.setdefault(output, 0)
        self._order = self._sorted(self._dependencies())

    def remove(self, view: View) -> None:
        """Ends the derivation from a query. A stream without another producer can be pushed to from now on."""
        view.on_delta = None
        left = {
            stream: [producer for producer in producers if producer.view is not view]
            for stream, producers in self._producers.items()
        }
        self._producers = {stream: producers for stream, producers in left.items() if producers}
        self._order = self._sorted(self._dependencies())

    def take(self, stream: str, texts: Texts | None) -> Derivation:
        """The events that the producers of a stream have completed since the last call.

        With `texts`, which gives the texts of term ids, the triples of an event are in the order of their texts.
        """
        producers = self._producers[stream]
        watermark = min(producer.streamset.bound for producer in producers)
        parts = []
        for producer in producers:
            settled = producer.view.settled(producer.streamset.bound)
            rows = producer.tap.take(settled, self._events[stream], texts)
            if len(rows):
                self._events[stream] = int(rows.event[-1]) + 1
            parts.append(rows)
        _, rows = in_order(np.empty(sum(map(len, parts)), np.int64), parts)
        streamsets = [producer.streamset for producer in producers]
        return Derivation(
            rows,
            watermark,
            all(streamset.finished for streamset in streamsets),
            any(streamset.drains for streamset in streamsets),
        )

    def derived_from(self, stream: str) -> list[str]:
        """The streams that are made of a stream, also by way of others, in their order."""
        found = {stream}
        for name in self._order:
            if any(not found.isdisjoint(producer.query.streams) for producer in self._producers[name]):
                found.add(name)
        return [name for name in self._order if name in found]

    def check_reopened(self, stream: str, readers: Sequence[Streamset]) -> None:
        """Refuses to go on with a stream that ended, if its producers would now make events that its readers passed."""
        left = [
            producer.streamset.bound for producer in self._producers[stream] if not producer.streamset.drains
        ]
        if left and any(reader.bound > min(left) for reader in readers):
            raise UsageError(
                f"<{stream}> cannot go on after its end: a query that reads it has gone further with its other streams"
            )

    def horizon(self, streamsets: list[Streamset]) -> int | None:
        """The earliest time of an event on a source stream that can still matter, or None where all of them do."""
        needs: dict[int, int | None] = {}
        # Consumers first: what a streamset needs follows from what is needed of the streams that are derived from it.
        for streamset in sorted(streamsets, key=self._rank, reverse=True):
            need, reach = streamset.horizon(), streamset.reach()
            for stream, producers in self._producers.items():
                if not any(producer.streamset is streamset for producer in producers):
                    continue
                for reader in streamsets:
                    if stream in reader.streams:
                        wanted = needs[id(reader)]
                        if need is None or reach is None or wanted is None:
                            need = None
                        else:  # an instant and the one before it: entering rows are a difference
                            need = min(need, wanted - reach - 1)
            needs[id(streamset)] = need
        known = [need for need in needs.values() if need is not None]
        return min(known) if known and len(known) == len(needs) else None

    def _rank(self, streamset: Streamset) -> int:
        """A number that is larger than those of the streamsets in which the streamset's streams are derived."""
        return max(
            (self._order.index(stream) + 1 for stream in streamset.streams if stream in self), default=0
        )

    def live_ids(self) -> Iterator[Ints]:
        """The term ids of what has not been handed on."""
        for producer in self._all():
            yield from producer.tap.live_ids()

    def state(self) -> State:
        """What has not been handed on, in the order of registration, and how many events there were."""
        return {"taps": [producer.tap.state() for producer in self._all()], "events": self._events}

    def restore(self, state: State) -> None:
        """Goes on where saved ones with the same queries were."""
        for producer, saved in zip(self._all(), state["taps"], strict=True):
            producer.tap.restore(saved)
        self._events |= state["events"]

    def _all(self) -> Iterator[_Producer]:
        return (producer for producers in self._producers.values() for producer in producers)

    def _dependencies(self) -> set[tuple[str, str]]:
        """Pairs of a derived stream and a stream that one of its producers reads."""
        return {
            (stream, read)
            for stream, producers in self._producers.items()
            for producer in producers
            for read in producer.query.streams
        }

    def _sorted(self, dependencies: set[tuple[str, str]]) -> tuple[str, ...]:
        graph: dict[str, set[str]] = {}
        for stream, read in sorted(dependencies):
            graph.setdefault(stream, set()).add(read)
        return tuple(stream for stream in TopologicalSorter(graph).static_order() if stream in graph)


def output_of(query: Query) -> str | None:
    """The stream that a query makes: that of a CONSTRUCT with a named output."""
    return query.output if query.template is not None else None
