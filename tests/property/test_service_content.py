"""Random events with questions in between: the replica that follows them equals pyoxigraph over the content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.serving import Served, serving

KEEP = 20
TERMS = [
    "<http://ex/a>",
    "<http://ex/b>",
    '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"01"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"+1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    '"1.00"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    '"a"@en',
    '"a"',
]
ALL = "SELECT ?g ?s ?o { { ?s <http://ex/p> ?o } UNION { GRAPH ?g { ?s <http://ex/p> ?o } } }"
PLAIN = "SELECT ?s ?o { ?s <http://ex/p> ?o }"
triples = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(TERMS))
steps = st.one_of(
    st.tuples(
        st.just("event"),
        st.integers(0, 1),
        st.integers(0, 12),
        st.booleans(),
        st.lists(triples, min_size=1, max_size=4),
    ),
    st.tuples(st.just("static"), st.booleans(), st.lists(triples, max_size=3)),
    st.tuples(st.just("query"), st.integers(0, 1)),
    st.tuples(st.just("drop")),
    st.tuples(st.just("release"), st.integers(0, 1)),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("ask"), st.booleans()),
)
numbers = count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service") / "data") as found:
        yield found


def line(one: tuple[str, str]) -> str:
    return f"<http://ex/{one[0]}> <http://ex/p> {one[1]} .\n"


@dataclass
class Model:
    """What was sent, and by brute force what is there."""

    streams: tuple[str, str]
    retained: list[bool] = field(default_factory=lambda: [True, True])
    events: list[list[tuple[int, int, bool, tuple[str, str]]]] = field(default_factory=lambda: [[], []])
    clocks: list[int] = field(default_factory=lambda: [0, 0])
    static: dict[str | None, set[tuple[str, str]]] = field(default_factory=dict)
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Queries: the stream of each, and how many of its events came before."""

    def content(self, k: int, span: int, start: int = 0) -> set[tuple[str, str]]:
        """The triples that came after `span` before the last event, and were not deleted since."""
        found: set[tuple[str, str]] = set()
        for time, _, insert, one in sorted(self.events[k][start:], key=lambda event: (event[0], event[2])):
            if time > self.clocks[k] - span:
                (found.add if insert else found.discard)(one)
        return found

    def store(self) -> ox.Store:
        graphs: dict[str | None, set[tuple[str, str]]] = {
            name: set(rows) for name, rows in self.static.items()
        }
        for k, name in enumerate(self.streams):
            if self.retained[k]:
                graphs[name] = self.content(k, KEEP)
                graphs[None] = graphs.get(None, set()) | graphs[name]
        for id, (k, start) in self.windows.items():
            graphs[f"urn:thalweg:window:{id}:0"] = self.content(k, 10, start)
        store = ox.Store()
        for name, rows in graphs.items():
            graph = None if name is None else ox.NamedNode(name)
            store.load("".join(map(line, rows)).encode(), ox.RdfFormat.N_TRIPLES, to_graph=graph)
        return store


def rows_of(data: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in data["results"]["bindings"])


def play(served: Served, model: Model, step: Any) -> None:
    client = served.client
    kind = step[0]
    if kind == "event":
        _, k, later, insert, data = step
        model.clocks[k] += later
        at, op = model.clocks[k], "insert" if insert else "delete"
        event = {
            "at": f"1970-01-01T00:{at // 60:02d}:{at % 60:02d}Z",
            "op": op,
            "graph": "".join(map(line, data)),
        }
        path = f"/streams/{quote(model.streams[k], safe='')}"
        answer = client("POST", path, json.dumps(event), "application/x-ndjson")
        assert (answer.status, answer.json["late"]) == (200, 0), answer.data
        model.events[k] += [(at, len(model.events[k]), insert, one) for one in data]
    elif kind == "static":
        # Static data of the default graph are in the windows, too; what is then in them is asked elsewhere.
        name = model.streams[0] + "/static" if step[1] or model.windows else None
        more = "" if name is None else f"?graph={quote(name)}"
        assert (
            client("PUT", f"/static{more}", "".join(map(line, step[2])), "application/n-triples").status
            == 200
        )
        model.static[name] = set(step[2])
    elif kind == "query" and not model.static.get(None):
        stream = model.streams[step[1]]
        text = f"SELECT ?s ?o FROM STREAM <{stream}> [RANGE 10s] WHERE {{ ?s <http://ex/p> ?o }}"
        id = client("POST", "/queries", {"query": text}).json["id"]
        model.windows[id] = step[1], len(model.events[step[1]])
    elif kind == "drop" and model.windows:
        id = next(iter(model.windows))
        del model.windows[id]
        assert client("DELETE", f"/queries/{id}").status == 204
    elif kind == "release":
        k = step[1]
        client("PUT", f"/streams/{quote(model.streams[k], safe='')}", {"retention": None})
        model.retained[k] = False
    elif kind == "snapshot":
        served.service.look(lambda state: state.session.compact()).result()
    elif kind == "ask":
        compare(served, model, ALL if step[1] else PLAIN)


def compare(served: Served, model: Model, text: str) -> None:
    found = served.client("POST", "/sparql", text, "application/sparql-query")
    assert found.status == 200, found.data
    results: Any = model.store().query(text)
    expected = json.loads(results.serialize(format=ox.QueryResultsFormat.JSON))
    assert rows_of(found.json) == rows_of(expected)


@settings(max_examples=20, deadline=None)
@given(given_steps=st.lists(steps, min_size=2, max_size=14))
def test_answers_equal_those_of_pyoxigraph(served: Served, given_steps: list[Any]) -> None:
    run = next(numbers)
    model = Model((f"http://ex/{run}/s", f"http://ex/{run}/t"))
    for stream in model.streams:
        served.client("PUT", f"/streams/{quote(stream, safe='')}", {"retention": f"{KEEP}s"})
    try:
        for step in given_steps:
            play(served, model, step)
        compare(served, model, ALL)
        compare(served, model, PLAIN)
    finally:
        for id in model.windows:
            served.client("DELETE", f"/queries/{id}")
        for name in model.static:
            more = "" if name is None else f"?graph={quote(name)}"
            served.client("PUT", f"/static{more}", "", "application/n-triples")
        for stream in model.streams:
            served.client("DELETE", f"/streams/{quote(stream, safe='')}")
