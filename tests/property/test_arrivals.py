"""The time of a triple's latest arrival, against brute force, under re-arrivals, deletes, expiry and restarts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.instants import show_instant

S, T = "http://ex/s", "http://ex/t"
P, Q = "<http://ex/p>", "<http://ex/q>"
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIX = "PREFIX : <http://ex/> PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> "
TIMES = (
    "SELECT ?x ?y (<urn:thalweg:arrivalTime>(?x, :p, ?y) AS ?t) (f:timestamp(?x, :p, ?y) AS ?ms) {} "
    "WHERE {{ ?x :p ?y }}"
)
ORDER = (
    "SELECT ?x ?z {} WHERE {{ ?x :p ?y . ?y :q ?z "
    "FILTER(f:timestamp(?y, :q, ?z) > f:timestamp(?x, :p, ?y) && <urn:thalweg:arrivalTime>(?x, :q, :c) != ?z) }}"
)
MS = 1000
Event = tuple[str, int, str, str, str, str]  # stream, time in milliseconds, operation, triple


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    events, now = [], 0
    for _ in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from((0, 0, 1, 1, 2, 5)))
        triple = (draw(st.sampled_from("ab")), draw(st.sampled_from((P, P, Q))), draw(st.sampled_from("abc")))
        op = draw(st.sampled_from(("insert", "insert", "insert", "delete")))
        events.append((draw(st.sampled_from((S, S, T))), now, op, *triple))
    return events


def contents(events: list[Event], width: int, step: int | None, t: int) -> dict[tuple[str, str, str], int]:
    """The triples of a window at an instant, with the times of their latest arrivals."""
    until = t if step is None else t // step * step - 1
    begin = until - width
    found: dict[tuple[str, str, str], int] = {}
    # At one instant, deletes come before inserts.
    for _, time, op, *triple in sorted(events, key=lambda e: (e[1], e[2] == "insert")):
        if time > until:
            break
        if op == "insert":
            found[tuple(triple)] = time
        else:
            found.pop(tuple(triple), None)
    return {triple: time for triple, time in found.items() if time > begin}


def rows_of(query: str, content: dict[tuple[str, str, str], int]) -> Counter:
    iri = "<http://ex/{}>".format
    if query is TIMES:
        return Counter(
            frozenset(
                {
                    "x": iri(s),
                    "y": iri(o),
                    "t": f'"{show_instant(time * MS)}"^^<{XSD}dateTime>',
                    "ms": f'"{time}"^^<{XSD}integer>',
                }.items()
            )
            for (s, p, o), time in content.items()
            if p == P
        )
    return Counter(
        frozenset({"x": iri(x), "z": iri(z)}.items())
        for (x, p, y), one in content.items()
        for (other, q, z), two in content.items()
        if (p, q, other) == (P, Q, y) and two > one and (x, Q, "c") in content  # a time is no node
    )


@given(
    st.data(),
    streams(),
    st.sampled_from((TIMES, ORDER)),
    st.sampled_from(((3, None), (10, None), (4, 2), (5, 5), (2, 3))),
)
def test_the_time_of_a_triple_is_that_of_its_latest_arrival(data, events, query, window):
    width, step = window
    written = f"[RANGE {width}{'' if step is None else f' STEP {step}'}]"
    source = f"FROM STREAM <{S}> {written} FROM STREAM <{T}> {written}"
    session = tw.Session()
    session.register(PREFIX + query.format(source))
    rows: list[list[tw.Row]] = [[]]
    first = [0]
    for k, (stream, time, op, s, p, o) in enumerate(events):
        match data.draw(st.integers(0, 8)):
            case 0:
                take(session, rows)
                session = tw.Session.restore(session.save())
            case 1:
                session.register(PREFIX + query.format(source))
                rows.append([])
                first.append(k)
        session.push(stream, at=time, graph=f"<http://ex/{s}> {p} <http://ex/{o}> .", op=op)
    end = events[-1][1] + 20
    session.advance(end)
    take(session, rows)
    for k, got in zip(first, rows, strict=True):
        for t in range(end):
            total: Counter = Counter()
            for row in got:
                if row.at <= t * MS:
                    total[frozenset(row.bindings.items())] += 1 if row.op == "+" else -1
            want = rows_of(query, contents(events[k:], width, step, t))
            assert {row: n for row, n in total.items() if n} == want, (k, t)
    if len(first) == 1:
        assert session.stats.absent <= sum(op == "delete" for _, _, op, *_ in events)


def take(session: tw.Session, rows: list[list[tw.Row]]) -> None:
    for query, got in zip(session.queries, rows, strict=True):
        got += query.poll()
