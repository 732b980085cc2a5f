"""Queries that are registered in mid-stream share stores with older ones, and nobody notices.

The judge is the plain way: a session of its own for each query, made when the query is registered, that gets what
arrives from then on. The streams have few triples, so that most come again while they live, late events, deletes, and
windows of all kinds.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.operators import statistics, streamset, windows
from thalweg.plan import program, shapes

STREAMS = ("http://ex/s", "http://ex/t")
WINDOWS = (
    "",
    "[RANGE 5]",
    "[RANGE 9]",
    "[RANGE 8 STEP 2]",
    "[RANGE 6 STEP 4]",
    "[RANGE 3 TUMBLING]",
    "[NOW]",
    "[ELEMENTS 3]",
    "[TRIPLES 4 STEP 2]",
)
BODIES = (
    "?x <http://ex/p> ?y",
    "?x <http://ex/p> ?y . ?y <http://ex/p> ?z",
    "?x <http://ex/p> ?y . ?y <http://ex/q> ?z",
    "?x ?r ?y . ?y ?r ?x",
    "<http://ex/a> ?r ?y . ?y <http://ex/q> <http://ex/b>",
    "<http://ex/b> ?r ?y . ?y <http://ex/q> <http://ex/a>",
    "?x <http://ex/p> <http://ex/a> . ?x <http://ex/q> ?y",
    "?x <http://ex/p> <http://ex/b> . ?x <http://ex/q> ?y",
    "?x <http://ex/p> <http://ex/a> . ?y <http://ex/q> ?z",
)
HEADS = ("", "", "", "REGISTER RSTREAM <http://ex/o{n}> AS ", "REGISTER ISTREAM <http://ex/o{n}> AS ")

# How programs are made: values of module constants for a run.
MODES: dict[str, list[tuple[Any, str, int]]] = {
    "as always": [],
    "all queries are compiled together": [(streamset, "FEW_QUERIES", 0)],
    "together once it is calm": [(streamset, "_CALM", 1)],
    "plans are shared": [
        *((program, "FEW_QUERIES", 1), (shapes, "_FEW_ALIKE", 1), (streamset, "FEW_QUERIES", 2)),
    ],
    "plans change, and rings are small": [
        *((statistics, "_FIRST_PERIOD", 1), (statistics, "_LONGEST_PERIOD", 4), (windows, "_FEW_ROWS", 2)),
    ],
}

Told = Counter[tuple[int, str, str | None, frozenset[tuple[str, str]]]]


def text_of(draw: Any, number: int) -> str:
    head = draw(st.sampled_from(HEADS)).format(n=number)
    select = draw(st.sampled_from(["SELECT *", "SELECT *", "SELECT DISTINCT ?y"]))
    read = draw(st.sampled_from([STREAMS[:1], STREAMS[:1], STREAMS]))
    if head or draw(st.booleans()):  # several windows
        read = draw(st.sampled_from([read, STREAMS[:1] * 2]))
        windows = [draw(st.sampled_from([w for w in WINDOWS if "RANGE" in w])) for _ in read]
        named = " ".join(
            f"FROM NAMED WINDOW <http://ex/w{k}> ON <{stream}> {window}"
            for k, (stream, window) in enumerate(zip(read, windows, strict=True))
        )
        parts = draw(st.sampled_from(BODIES)).split(" . ")
        where = " ".join(f"WINDOW <http://ex/w{k % len(read)}> {{ {part} }}" for k, part in enumerate(parts))
        return f"{head}{select} {named} WHERE {{ {where} }}"
    window = draw(st.sampled_from(WINDOWS))
    read_clauses = " ".join(f"FROM STREAM <{stream}> {window}" for stream in read)
    return f"{select} {read_clauses} WHERE {{ {draw(st.sampled_from(BODIES))} }}"


def netted(query: Any) -> Told:
    """What a query has emitted, by instant."""
    told: Told = Counter()
    for row in query.poll():
        cells = frozenset(row.bindings.items())
        if row.op == "-":
            told[row.at, "+", row.graph, cells] -= 1
        else:
            told[row.at, row.op, row.graph, cells] += 1
    return told


class Both:
    """A session with all queries, and one for each of them."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.session = tw.Session(lateness=lateness)
        self.alone: list[tw.Session] = []
        self.queries: list[tuple[Any, Any, Told, Told]] = []
        self.reached: dict[str, int] = {}

    def register(self, text: str) -> None:
        alone = tw.Session(lateness=self.lateness)
        pair = self.session.register(text), alone.register(text)
        for name, at in self.reached.items():
            alone.advance(at, name)
        self.alone.append(alone)
        self.queries.append((*pair, Counter(), Counter()))

    def unregister(self, place: int) -> None:
        self.check(place)
        query, *_ = self.queries.pop(place)
        self.alone.pop(place)
        self.session.unregister(query)

    def push(self, stream: str, at: int, graph: str, op: str) -> None:
        reached = at - self.lateness
        self.reached[stream] = max(self.reached.get(stream, reached), reached)
        for session in (self.session, *self.alone):
            session.push(stream, at=at, graph=graph, op=op)

    def advance(self, at: int) -> None:
        for session in (self.session, *self.alone):
            for stream in STREAMS:
                session.advance(at, stream)
        self.reached = {stream: max(self.reached.get(stream, at), at) for stream in STREAMS}

    def restart(self) -> None:
        self.session = tw.Session.restore(self.session.save())
        pairs = zip(self.session.queries, self.queries, strict=True)
        self.queries = [(query, *rest) for query, (_, *rest) in pairs]

    def check(self, place: int) -> None:
        shared, alone, have, want = self.queries[place]
        have.update(netted(shared))
        want.update(netted(alone))
        assert {k: n for k, n in have.items() if n} == {k: n for k, n in want.items() if n}, shared.query.text


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
@given(data=st.data())
def test_a_query_answers_as_in_a_session_that_began_with_it(
    mode: list[tuple[Any, str, int]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in mode:
            patch.setattr(module, name, value)
        both = Both(data.draw(st.sampled_from([0, 0, 3, 6])))
        now = 10
        for number in range(data.draw(st.integers(4, 24))):
            step = data.draw(
                st.sampled_from(["push", "push", "push", "push", "register", "leave", "time", "save"])
            )
            if not both.queries or (step == "register" and len(both.queries) < 6):
                both.register(text_of(data.draw, number))
            elif step == "leave" and len(both.queries) > 1:
                both.unregister(data.draw(st.integers(0, len(both.queries) - 1)))
            elif step == "time":
                now += data.draw(st.integers(0, 12))
                both.advance(now - both.lateness)
            elif step == "save" and data.draw(st.booleans()):
                both.restart()
            else:
                now += data.draw(st.sampled_from([0, 0, 1, 1, 2]))
                at = now - data.draw(st.integers(0, both.lateness))
                terms = st.sampled_from("ab")
                triples = data.draw(
                    st.lists(st.tuples(terms, st.sampled_from("ppq"), terms), min_size=1, max_size=3)
                )
                graph = "".join(f"<http://ex/{s}> <http://ex/{p}> <http://ex/{o}> .\n" for s, p, o in triples)
                op = data.draw(st.sampled_from(["insert", "insert", "insert", "delete"]))
                both.push(data.draw(st.sampled_from(STREAMS)), at, graph, op)
            for place in range(len(both.queries)):
                both.check(place)
        both.advance(now + 40)
        for place in range(len(both.queries)):
            both.check(place)


def test_a_triple_that_comes_again_begins_for_a_younger_query_when_its_window_shows_it() -> None:
    text = (
        "SELECT ?x FROM NAMED WINDOW <http://ex/w> ON <http://ex/s> [RANGE 8 STEP 2] "
        "FROM NAMED WINDOW <http://ex/v> ON <http://ex/s> [RANGE 5] "
        "WHERE { WINDOW <http://ex/w> { ?x <http://ex/p> ?y } WINDOW <http://ex/v> { ?y <http://ex/q> ?z } }"
    )
    session = tw.Session()
    older = session.register(text)
    session.push("http://ex/s", at=10, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    younger = session.register(text)
    assert younger.streamset is older.streamset
    session.push("http://ex/s", at=13, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.push("http://ex/s", at=13, graph="<http://ex/b> <http://ex/q> <http://ex/c> .")
    session.advance(30)
    told = [[(row.at // 1000, row.op) for row in query.poll()] for query in (older, younger)]
    assert told == [[(13, "+"), (18, "-")], [(14, "+"), (18, "-")]]


def test_what_waits_for_the_watermark_at_a_registration_is_not_counted_by_the_new_query() -> None:
    session = tw.Session(lateness=5)
    text = "SELECT ?y FROM STREAM <http://ex/s> [ELEMENTS 2] WHERE { ?x <http://ex/p> ?y }"
    older = session.register(text)
    session.push("http://ex/s", at=10, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    younger = session.register(text)
    session.push("http://ex/s", at=9, graph="<http://ex/a> <http://ex/p> <http://ex/c> .")
    session.advance(30)
    told = [[(row.at // 1000, row.op, row["y"][-2]) for row in query.poll()] for query in (older, younger)]
    assert told == [[(9, "+", "c"), (10, "+", "b")], [(9, "+", "c")]]
