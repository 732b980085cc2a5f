"""Reports as users meet them: rows of empty answers through every output, and what `explain` says."""

from __future__ import annotations

import io

import numpy as np

import thalweg as tw
from thalweg.io.writers import Csv, JsonLines
from thalweg.lang import parse
from thalweg.plan.explain import explain

S = "http://ex/s"
BODY = "WHERE { ?x <http://ex/p> ?y FILTER(?x = <http://ex/a>) }"


def asked(window: str, operator: str = "RSTREAM") -> str:
    return f"REGISTER {operator} <http://ex/o> AS SELECT ?x ?y FROM STREAM <{S}> {window} {BODY}"


def polled(text: str, until: int, *at: int) -> list[tuple[int, str, dict[str, str]]]:
    session = tw.Session()
    query = session.register(text)
    for time in at:
        session.push(S, at=time, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.advance(until)
    return [(row.at // 1000, row.op, row.bindings) for row in query.poll()]


ANSWER = {"x": "<http://ex/a>", "y": "<http://ex/b>"}


def test_empty_reports_are_emitted_at_each_close_once_there_has_been_an_answer() -> None:
    #  |0 ... 12 e ... |15 + |20 0 |25 0 |30 +      RANGE 5 STEP 5
    rows = polled(asked("[RANGE 5 STEP 5 REPORT WINDOW-CLOSE WITH EMPTY]"), 30, 12, 27)
    assert rows == [(15, "+", ANSWER), (20, "0", {}), (25, "0", {}), (30, "+", ANSWER)]


def test_a_change_to_an_empty_answer_is_emitted_once() -> None:
    rows = polled(asked("[RANGE 5 REPORT CONTENT-CHANGE WITH EMPTY]"), 40, 12, 30)
    assert rows == [(12, "+", ANSWER), (17, "0", {}), (30, "+", ANSWER), (35, "0", {})]


def test_a_periodic_report_looks_at_the_window_every_so_often() -> None:
    rows = polled(asked("[RANGE 8 REPORT PERIODIC 5]"), 40, 12)
    assert rows == [(15, "+", ANSWER)]
    rows = polled(asked("[ELEMENTS 1 REPORT PERIODIC 10]"), 41, 12)
    assert rows == [(20, "+", ANSWER), (30, "+", ANSWER), (40, "+", ANSWER)]


def test_bounds_decide_whether_the_instant_itself_is_seen() -> None:
    assert polled(asked("[RANGE 5 STEP 5]"), 20, 10) == [(15, "+", ANSWER)]
    assert polled(asked("[RANGE 5 STEP 5 BOUNDS OPEN-CLOSED]"), 20, 10) == [(10, "+", ANSWER)]


def test_an_instant_is_complete_when_it_comes_where_bounds_leave_it_out() -> None:
    session = tw.Session()
    early, late = (
        session.register(asked(f"[RANGE 5ms BOUNDS {bounds}]", "DSTREAM"))
        for bounds in ("CLOSED-OPEN", "OPEN-CLOSED")
    )
    session.push(S, at=1, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.advance("1970-01-01T00:00:00.006001Z")
    assert [row.at for row in early.poll()] == [6001]
    assert [row.at for row in late.poll()] == [6000]


def test_an_empty_report_is_written_as_a_line_without_bindings() -> None:
    session = tw.Session()
    query = session.register(asked("[RANGE 5 STEP 5 REPORT WINDOW-CLOSE WITH EMPTY]"))
    session.push(S, at=2, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.advance(10)
    rows = query.poll()
    lines, table = io.BytesIO(), io.BytesIO()
    JsonLines(lines, ["x", "y"]).write(rows)
    Csv(table, ["x", "y"]).write(rows)
    assert lines.getvalue().splitlines()[1] == (
        b'{"at": "1970-01-01T00:00:00.01Z", "op": "0", "bindings": {}}'
    )
    assert table.getvalue().splitlines()[2] == b"1970-01-01T00:00:00.01Z,0,,,"


def test_a_drained_report_without_an_answer_has_the_sign_zero() -> None:
    session = tw.Session()
    query = session.register(asked("[RANGE 5 STEP 5 REPORT WINDOW-CLOSE WITH EMPTY]"))
    session.push(S, at=2, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    session.advance(10)
    delta = query.drain()
    assert delta.signs == ["+", "0"]
    assert np.array_equal(delta.ids[1], [0])
    assert session.horizon() is None  # the first answer must be found again after a restart


def test_windows_of_the_same_content_share_a_store_whatever_their_reports() -> None:
    session = tw.Session()
    for window in ("[RANGE 5 STEP 5]", "[RANGE 5 STEP 5 BOUNDS CLOSED-OPEN REPORT CONTENT-CHANGE]"):
        session.register(asked(window))
    session.push(S, at=2, graph="<http://ex/a> <http://ex/p> <http://ex/b> .")
    assert session.live_triples == 1


def test_a_window_by_count_keeps_the_log_of_a_runner() -> None:
    session = tw.Session()
    session.register(f"SELECT * FROM STREAM <{S}> [ELEMENTS 5] {BODY}")
    assert session.horizon() is None


def test_explain_shows_what_a_window_holds_and_when_it_reports() -> None:
    counted = explain(parse(f"SELECT * FROM STREAM <{S}> [ELEMENTS 100 STEP 10] {BODY}"))
    assert "[ELEMENTS 100 STEP 10]; holds the last 100 events, seen anew after each 10 events" in counted
    assert "every event counts" in counted
    assert "nothing is pruned" in explain(parse(f"SELECT * FROM STREAM <{S}> [TRIPLES 100] {BODY}"))
    origin = "ORIGIN 2026-01-01T00:00:00Z BOUNDS OPEN-CLOSED REPORT PERIODIC 1m WITH EMPTY"
    timed = explain(parse(asked(f"[RANGE 1h STEP 5m {origin}]")))
    assert "steps, overlapping, looked at every 1m from 2026-01-01T00:00:00Z; holds (t - 1h, t]" in timed
    assert "RSTREAM: the whole answer, every 1m; an empty one is reported by a row 0" in timed
    assert "slides with each instant; holds [t - 10s, t)" in explain(
        parse(f"SELECT * FROM STREAM <{S}> [RANGE 10s BOUNDS CLOSED-OPEN] {BODY}")
    )
