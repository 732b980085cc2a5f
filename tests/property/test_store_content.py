"""Random events in random order: the store's content, now and at every instant, is that of the definition."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw

STREAMS = ("http://ex/s", "http://ex/t")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.integers(0, 6),
        st.sampled_from(("insert", "insert", "delete")),
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("pq"), st.sampled_from("ab5")),
            min_size=1,
            max_size=3,
        ),
    ),
    max_size=8,
)
STEPS = st.sets(st.sampled_from(("ask", "compact", "reopen")))


def content(events: list[Any], low: int, high: int) -> set[tuple[str, str, str, str]]:
    """What was inserted up to `high` and after `low`, and not deleted later, written as it is defined."""
    held = set()
    for at in range(low + 1, high + 1):
        now = [event for event in events if event[1] == at]
        for op in ("delete", "insert"):
            for stream, _, kind, triples in now:
                quads = {(stream, *triple) for triple in triples}
                if kind == op:
                    held = held - quads if op == "delete" else held | quads
    return held


def term(name: str) -> str:
    return "5" if name == "5" else f"<http://ex/{name}>"


def asked(store: tw.Store, as_of: Any = None) -> tuple[list[Any], list[Any]]:
    named: Any = store.ask("SELECT * { GRAPH ?g { ?s ?p ?o } }", as_of=as_of)
    plain: Any = store.ask("SELECT * { ?s ?p ?o }", as_of=as_of)
    short = [tuple(str(row[k].value).rpartition("/")[2] for k in "spo") for row in plain]
    quads = [(row["g"].value, *(str(row[k].value).rpartition("/")[2] for k in "spo")) for row in named]
    return sorted(quads), sorted(short)


@given(EVENTS, st.lists(STEPS, max_size=12))
def test_the_content_is_that_of_the_definition_at_every_instant(events: list[Any], steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = tw.Store.create(folder)
        for k, (stream, at, op, triples) in enumerate(events):
            graph = "".join(f"{term(s)} {term(p)} {term(o)} .\n" for s, p, o in triples)
            graph = graph.replace(" 5 .", ' "5" .')
            store.push(stream, at=at, graph=graph, op=op)
            todo = steps[k] if k < len(steps) else ()
            if "ask" in todo:
                asked(store)
            if "compact" in todo:
                store.compact()
            if "reopen" in todo:
                store.close()
                store = tw.Store(folder)
        with store:
            for as_of, low, high in ((None, -1, 9), (3, -1, 3), (6, -1, 6), ((1, 4), 1, 4)):
                expected = content(events, low, high)
                quads, triples = asked(store, as_of)
                assert quads == sorted(expected)
                assert triples == sorted({row[1:] for row in expected})
