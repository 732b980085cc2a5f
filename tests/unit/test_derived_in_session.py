"""Derived streams as a user meets them."""

from __future__ import annotations

import pytest

import thalweg as tw

S, OUT = "http://ex/s", "http://ex/out"
MAKE = (
    "REGISTER {} <http://ex/out> AS CONSTRUCT {{ ?a <http://ex/near> ?c }} "
    "FROM STREAM <http://ex/s> {} WHERE {{ ?a <http://ex/p> ?b . ?b <http://ex/p> ?c }}"
)
READ = "SELECT ?x ?y FROM STREAM <http://ex/out> {} WHERE {{ ?x <http://ex/near> ?y }}"


def edge(a: str, b: str) -> str:
    return f"<http://ex/{a}> <http://ex/p> <http://ex/{b}> ."


def shown(rows: list[tw.Row]) -> list[tuple[int, str, str]]:
    return [(row.at // 1000, row.op, f"{row['x'][-2]}{row['y'][-2]}") for row in rows]


def test_the_next_query_reads_what_a_construct_makes() -> None:
    session = tw.Session()
    reader = session.register(READ.format("[RANGE 10s]"))
    maker = session.register(MAKE.format("ISTREAM", "[RANGE 5s]"))
    session.push(S, at=1000, graph=edge("a", "b"))
    session.push(S, at=2000, graph=edge("b", "c"))
    assert shown(reader.poll()) == []  # the instant is not complete yet
    session.advance(20_000)
    assert shown(reader.poll()) == [(2000, "+", "ac"), (12_000, "-", "ac")]
    assert [row.at for row in maker.poll()] == [2_000_000]
    assert session.stats.late == 0


def test_without_an_operator_what_goes_is_deleted_from_the_stream() -> None:
    session = tw.Session()
    session.register(MAKE.format("STREAM", "[RANGE 5s]"))
    reader = session.register(READ.format(""))
    session.push(S, at=1000, graph=edge("a", "b"))
    session.push(S, at=2000, graph=edge("b", "c"))
    session.push(S, at=3000, graph=edge("b", "c"), op="delete")
    session.push(S, at=3000, graph=edge("b", "d"))
    session.advance(20_000)
    assert shown(reader.poll()) == [
        (2000, "+", "ac"),
        (3000, "-", "ac"),
        (3000, "+", "ad"),
        (6000, "-", "ad"),
    ]


def test_dstream_gives_what_left_as_inserts() -> None:
    session = tw.Session()
    session.register(MAKE.format("DSTREAM", "[RANGE 5s]"))
    reader = session.register(READ.format("[RANGE 1s]"))
    session.push(S, at=1000, graph=edge("a", "b") + "\n" + edge("b", "c"))
    session.advance(20_000)
    assert shown(reader.poll()) == [(6000, "+", "ac"), (7000, "-", "ac")]


def test_the_end_of_the_sources_is_the_end_of_what_is_derived_from_them() -> None:
    session = tw.Session()
    session.register(MAKE.format("ISTREAM", "[RANGE 5s]"))
    reader = session.register(READ.format("[RANGE 10s]"))
    session.push(S, at=1000, graph=edge("a", "b") + "\n" + edge("b", "c"))
    session.finish(drain=True)
    assert shown(reader.poll()) == [(1000, "+", "ac"), (11_000, "-", "ac")]


def test_a_cycle_of_derived_streams_is_refused() -> None:
    session = tw.Session()
    session.register(MAKE.format("ISTREAM", ""))
    back = "REGISTER ISTREAM <http://ex/s> AS CONSTRUCT WHERE { ?x ?p ?y }"
    with pytest.raises(tw.QueryError, match="derived from itself"):
        session.register(back, stream=OUT)
    with pytest.raises(tw.QueryError, match="derived from itself"):
        session.register(back, stream=S)
    assert len(session.queries) == 1


def test_nobody_else_pushes_to_a_derived_stream() -> None:
    session = tw.Session()
    maker = session.register(MAKE.format("ISTREAM", ""))
    for refused in (
        lambda: session.push(OUT, at=0, graph=edge("a", "b")),
        lambda: session.advance(5, OUT),
        lambda: session.finish(OUT),
    ):
        with pytest.raises(tw.UsageError, match="derived from a registered query"):
            refused()
    session.unregister(maker)
    session.push(OUT, at=0, graph=edge("a", "b"))


def test_a_query_cannot_make_a_stream_that_has_gone_on_without_it() -> None:
    session = tw.Session()
    session.register(READ.format("[RANGE 10s]"))
    session.push(OUT, at=1000, graph=edge("a", "b"))
    with pytest.raises(tw.UsageError, match="register the query first"):
        session.register(MAKE.format("ISTREAM", ""))


def test_readers_keep_nothing_that_only_derived_streams_need() -> None:
    session = tw.Session()
    session.register(MAKE.format("ISTREAM", ""))
    before = session.prune().fingerprint
    session.register(READ.format("[ELEMENTS 3]"))
    assert session.prune().fingerprint == before
