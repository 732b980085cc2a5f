"""Times at the ends of the calendar, drains beside endless windows, and late events that nobody wants."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.instants import LAST, LONGEST, show_instant
from thalweg.rdf.framing import StatementFramer
from thalweg.rdf.ntriples import LineReader

S = "http://ex/s"
END = "9999-12-31T23:59:59.999999Z"
TRIPLE = "<http://ex/a> <http://ex/p> <http://ex/b> ."
OTHER = "<http://ex/a> <http://ex/other> <http://ex/b> ."


def ask(window: str, head: str = "") -> str:
    return f"{head} SELECT ?x FROM STREAM <{S}> {window} WHERE {{ ?x <http://ex/p> ?y }}"


@pytest.mark.parametrize(
    "head", ["", "REGISTER RSTREAM <http://ex/o> AS", "REGISTER DSTREAM <http://ex/o> AS"]
)
@pytest.mark.parametrize("at", [END, "-9999-01-01T00:00:00Z"])
@pytest.mark.parametrize(
    "window", ["[RANGE 10s STEP 3s]", "[RANGE 10s]", f"[RANGE {LONGEST}us STEP {LONGEST}us]", "[RANGE 1us]"]
)
def test_the_ends_of_the_calendar_are_times_like_others(window: str, at: str, head: str) -> None:
    session = tw.Session(lateness="20000d")
    query = session.register(ask(window, head))
    session.push(S, at=at, graph=TRIPLE)
    session.finish(drain=True)
    rows = query.poll()
    assert rows
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert all(abs(row.at) < 4 * LONGEST for row in rows)


@pytest.mark.parametrize("at", ["294247-01-10T04:00:54.775Z", 2**62, -(2**62), "10000-01-01T00:00:00Z"])
def test_a_time_beyond_the_calendar_is_refused(at: str | int) -> None:
    session = tw.Session()
    session.register(ask("[RANGE 10s STEP 3s]"))
    with pytest.raises(tw.UsageError, match="range of time"):
        session.push(S, at=at, graph=TRIPLE)
    with pytest.raises(tw.UsageError, match="range of time"):
        session.advance(at)


@pytest.mark.parametrize("window", ["[RANGE 9223372036854775]", "[RANGE 1s STEP 9223372036854775]"])
def test_a_duration_beyond_the_calendar_is_refused_where_it_is_written(window: str) -> None:
    with pytest.raises(tw.QueryError, match="longer than all time") as refused:
        tw.Session().register(ask(window))
    assert refused.value.column is not None


@pytest.mark.parametrize("other", ["[ELEMENTS 3]", "", "[TRIPLES 2 STEP 2]", "[NOW]"])
def test_windows_are_drained_beside_windows_that_never_are(other: str) -> None:
    session = tw.Session()
    query = session.register(ask("[RANGE 10s STEP 5s]"))
    session.register(ask(other))
    session.push(S, at=1000, graph=TRIPLE)
    session.finish(drain=True)
    assert [(row.at // 1000, row.op) for row in query.poll()] == [(5000, "+"), (15_000, "-")]


def test_a_count_that_is_looked_at_periodically_is_looked_at_once_more() -> None:
    session = tw.Session()
    query = session.register(ask("[ELEMENTS 3 REPORT PERIODIC 7s]"))
    session.push(S, at=1000, graph=TRIPLE)
    session.finish(drain=True)
    assert [(row.at // 1000, row.op) for row in query.poll()] == [(7000, "+")]


def test_a_late_event_is_late_whether_or_not_a_query_wants_its_triples() -> None:
    session = tw.Session()
    session.register(ask("[RANGE 10s]"))
    session.push(S, at=2000, graph=TRIPLE)
    session.push(S, at=1000, graph=OTHER)
    session.push(S, at=500, graph="")
    assert session.stats.late == 2
    assert [(late.at, late.event) for late in session.late()] == [(1_000_000, -2), (500_000, -3)]


def test_late_graphs_that_no_query_wants_are_counted_by_framed_streams() -> None:
    session = tw.Session()
    session.register(ask("[RANGE 10s]"))
    reader = LineReader(session.arena, session.prune(), syntax="nq", source=S)
    framer = StatementFramer(S, mode="graphs", arena=session.arena)
    stamp = '<http://ex/g{0}> <http://www.w3.org/ns/prov#generatedAtTime> "{1}" .\n'
    quads = "".join(
        f"{triple[:-1]} <http://ex/g{k}> .\n{stamp.format(k, at)}"
        for k, (triple, at) in enumerate([(OTHER, 5), (TRIPLE, 3), (OTHER, 4), (TRIPLE, 6), (OTHER, 2)])
    )
    for batch in (framer.frame(reader.read(quads.encode())), framer.close()):
        session.push_events(batch)
    assert [(late.at // 1000, late.event) for late in session.late()] == [(3, 1), (4, 2), (2, 4)]
    assert session.stats.events == 5
    assert session.live_triples == 1


def test_an_advance_makes_lines_late_that_no_query_wants() -> None:
    session = tw.Session()
    session.register(ask("[RANGE 10s]"))
    session.advance(3)
    reader = LineReader(session.arena, session.prune(), syntax="nt", source=S)
    framer = StatementFramer(S, arena=session.arena)
    lines = "\n".join([OTHER, TRIPLE, OTHER, OTHER, TRIPLE, ""])
    session.push_events(framer.frame(reader.read(lines.encode())))
    assert [(late.at // 1000, late.event) for late in session.late()] == [(0, 0), (1, 1), (2, 2)]
    assert session.live_triples == 1


def test_a_distinct_answer_of_one_event_is_distinct_however_large_it_is() -> None:
    session = tw.Session()
    body = "?x <http://ex/p> ?y . ?z <http://ex/p> ?y"
    query = session.register(f"SELECT DISTINCT ?x FROM STREAM <{S}> [NOW] WHERE {{ {body} }}")
    graph = "".join(f"<http://ex/a{k}> <http://ex/p> <http://ex/b> .\n" for k in range(700))
    session.push(S, at=1, graph=graph)
    rows = query.poll()
    assert len(rows) == len({row["x"] for row in rows}) == 700


def test_a_leap_in_time_that_asks_for_endless_reports_is_refused_at_once() -> None:
    session = tw.Session()
    window = "[RANGE 1s STEP 1ms REPORT WINDOW-CLOSE WITH EMPTY]"
    endless = session.register(ask(window, "REGISTER RSTREAM <http://ex/o> AS"))
    other = session.register(ask("[RANGE 1s]"))
    session.push(S, at=0, graph=TRIPLE)
    with pytest.raises(tw.DataError, match=r"253,402,300,799,99\d reports"):
        session.push(S, at=END, graph=TRIPLE)
    assert [row.op for row in other.poll()] == ["+", "-", "+"]
    session.unregister(endless)
    session.finish(drain=True)
    assert [row.op for row in other.poll()] == ["-"]


def test_many_reports_of_one_answer_are_made_where_they_are_not_too_many() -> None:
    session = tw.Session()
    query = session.register(ask("[RANGE 1s STEP 1ms]", "REGISTER RSTREAM <http://ex/o> AS"))
    session.push(S, at=0, graph=TRIPLE)
    session.push(S, at=END, graph=TRIPLE)
    assert [row.at for row in query.poll()] == [1000 * k for k in range(1, 1001)]


def test_an_instant_beyond_the_calendar_can_still_be_shown() -> None:
    assert show_instant(LAST + LONGEST).startswith("2")
