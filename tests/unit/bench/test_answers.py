"""The queries of the suites find what pyoxigraph finds, so that no figure is that of a wrong answer."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from thalweg.bench import algebra, dynamic, hub, many, seas, snb, taxi
from thalweg.bench.workload import Encoded, chunks, plain_query, query_text
from thalweg.testing.generate import lubm
from thalweg.testing.generate_rows import trips


def hub_lines(edges: int, events: int) -> list[str]:
    """The hub and what happens around it, without the deletes."""
    changes = hub.changes(events, edges, outgoing=True)
    return [*hub.edges(edges, outgoing=True), *(line for line, op in changes if op > 0)]


STREAMS = {
    "pairs": lambda: algebra.encoded(6_000, 6_000, algebra.PAIR),
    "stars": lambda: algebra.encoded(6_000, 6_000, algebra.STAR),
    "seas": lambda: seas.encoded(None, 3_000),
    "snb": lambda: snb.encoded(None, 12_000),
    "dynamic": lambda: dynamic.random_graph(12_000),
    "hub": lambda: Encoded(chunks(hub_lines(300, 2_000))),
    "lubm": lambda: Encoded(chunks(lubm(12_000), 1)),
}
ALGEBRA = (*algebra.OPERATORS, "pattern", "join", "star")
QUERIES = [
    *(("stars" if algebra.stream_of(name) == algebra.STAR else "pairs", "algebra", name) for name in ALGEBRA),
    *(("seas", "seas", name) for name in seas.NAMES),
    *(("snb", "snb", name) for name in (*snb.LARGE, *snb.SLIDING)),
    *(("dynamic", "dynamic", name) for name in dynamic.SHAPES),
    *(("hub", "dynamic", name) for name in hub.SHAPES),
    *(("lubm", "lubm", name) for name in dynamic.LUBM),
]
RARE = {("lubm", "q1"), ("lubm", "q3"), ("lubm", "q5")}
"""Queries without an answer in so little data."""


@pytest.fixture(scope="module")
def streams() -> dict[str, Encoded]:
    return {name: make() for name, make in STREAMS.items()}


@pytest.fixture(scope="module")
def graphs(streams: dict[str, Encoded]) -> dict[str, ox.Store]:
    """What each stream leaves behind. Nobody writes to it."""
    return {name: graph(stream) for name, stream in streams.items()}


@pytest.fixture(scope="module")
def changing(streams: dict[str, Encoded]) -> dict[str, tuple[Encoded, ox.Store]]:
    """The streams with deletes, and what they leave behind."""
    with_deletes = {name: stream.with_deletes(0.2, reach=500) for name, stream in streams.items()}
    return {name: (stream, graph(stream)) for name, stream in with_deletes.items()}


def solutions(stream: Encoded, text: str, per_event: int = 1) -> int:
    """Inserts minus deletes of all that a query emits."""
    session, (query,) = stream.session([text])
    total = 0
    for batch in stream.batches(0, len(stream), per_event, size=1000):
        session.push_events(batch)
        total += int(query.drain().op.sum())
    return total


def graph(stream: Encoded, start: int = 0) -> ox.Store:
    """What is there at the end: the rows from `start` on, applied one by one."""
    store = ox.Store()
    for quad, op in zip(stream.quads(start, len(stream)), stream.op[start:].tolist(), strict=True):
        (store.add if op > 0 else store.remove)(quad)
    return store


def count(store: ox.Store, text: str) -> int:
    return sum(1 for _ in store.query(text))  # type: ignore[union-attr]


@pytest.mark.parametrize(("source", "suite", "name"), QUERIES)
def test_a_graph_without_a_window_has_the_answers_of_pyoxigraph(
    streams: dict[str, Encoded], graphs: dict[str, ox.Store], source: str, suite: str, name: str
) -> None:
    expected = count(graphs[source], plain_query(suite, name))
    assert expected or (suite, name) in RARE
    assert solutions(streams[source], query_text(suite, name)) == expected


@pytest.mark.parametrize(("source", "suite", "name"), QUERIES)
def test_a_sliding_window_has_the_answers_of_pyoxigraph(
    streams: dict[str, Encoded], source: str, suite: str, name: str
) -> None:
    stream, width = streams[source], 1_000
    expected = count(graph(stream, len(stream) - width), plain_query(suite, name))
    assert solutions(stream, query_text(suite, name, f"[RANGE {width}]")) == expected


@pytest.mark.parametrize(("source", "suite", "name"), QUERIES)
def test_a_graph_with_deletes_has_the_answers_of_pyoxigraph(
    changing: dict[str, tuple[Encoded, ox.Store]], source: str, suite: str, name: str
) -> None:
    stream, left = changing[source]
    assert 0.15 < (stream.op < 0).mean() < 0.25
    assert solutions(stream, query_text(suite, name)) == count(left, plain_query(suite, name))


@pytest.mark.parametrize("name", snb.LARGE)
def test_a_large_event_has_the_answers_of_pyoxigraph(
    streams: dict[str, Encoded], graphs: dict[str, ox.Store], name: str
) -> None:
    stream = streams["snb"]
    expected = count(graphs["snb"], plain_query("snb", name))
    assert solutions(stream, query_text("snb", name, "[NOW]"), per_event=len(stream)) == expected


@pytest.mark.parametrize("name", taxi.NAMES)
def test_each_trip_answers_the_taxi_queries_as_in_pyoxigraph(name: str) -> None:
    texts = list(taxi.events(trips(30)))
    assert {text.count("\n") for text in texts} == {taxi.PER_EVENT}
    expected = 0
    for text in texts:
        store = ox.Store()
        store.load(text.encode(), format=ox.RdfFormat.N_TRIPLES)
        expected += count(store, plain_query("taxi", name))
    assert expected == len(texts)
    stream = Encoded(chunks(texts))
    assert solutions(stream, query_text("taxi", name, "[NOW]"), taxi.PER_EVENT) == expected


def test_the_selective_query_finds_some_of_the_measurements_but_not_all(streams: dict[str, Encoded]) -> None:
    every, some = (solutions(streams["seas"], query_text("seas", name)) for name in seas.NAMES)
    assert 0 < some < every / 2


def test_many_registered_queries_are_different_and_have_the_answers_of_pyoxigraph(
    streams: dict[str, Encoded], graphs: dict[str, ox.Store]
) -> None:
    stream = streams["lubm"]
    texts = list(many.mixed(28, many.departments_of(stream), len(stream)))
    assert len(set(texts)) == 28
    session, queries = stream.session(texts)
    for batch in stream.batches(0, len(stream)):
        session.push_events(batch)
    store = graphs["lubm"]
    found = [int(query.drain().op.sum()) for query in queries]
    plain = [text[: text.index("FROM")] + text[text.index("WHERE") :] for text in texts]
    assert found == [count(store, text) for text in plain]
    assert sum(number > 0 for number in found) > 10


def test_changes_around_a_hub_keep_the_answers(streams: dict[str, Encoded]) -> None:
    for outgoing in (True, False):
        events = list(hub.changes(200, 500, outgoing=outgoing))
        lines = [*hub.edges(500, outgoing=outgoing), *(line for line, _ in events)]
        stream = Encoded(chunks(lines))
        stream.op[-len(events) :] = [op for _, op in events]
        for name in hub.SHAPES:
            expected = count(graph(stream), plain_query("dynamic", name))
            assert solutions(stream, query_text("dynamic", name)) == expected
