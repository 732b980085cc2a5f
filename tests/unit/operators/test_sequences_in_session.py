"""Sequences in a session: when matches are known, derived streams, deletes, limits, memory."""

from __future__ import annotations

import pytest

from thalweg import Session, explain
from thalweg.errors import LimitError, QueryError, ThalwegWarning, UsageError
from thalweg.operators import sequence_runs

S = "http://ex/s"


def query(
    sequence: str = "A ; B", *, form: str = "SELECT ?x", within: str = "10ms", stream: str = S, more: str = ""
) -> str:
    return f"""PREFIX : <http://ex/> {form} WITHIN {within} FROM STREAM S <{stream}> {more} WHERE {{ SEQ ({sequence})
DEFINE GPM A ON S {{ ?x :p ?a }} DEFINE GPM B ON S {{ ?x :q ?b }} DEFINE GPM N ON S {{ ?x :n ?n }} }}"""


def push(session: Session, at: int, text: str, stream: str = S) -> None:
    session.push(stream, at=at, graph=f"@prefix : <http://ex/> . {text}", format="turtle")


def times(registered: object) -> list[int]:
    return [int(row.at) // 1000 for row in registered.poll()]  # type: ignore[attr-defined]


def test_a_match_is_reported_when_its_instant_is_complete() -> None:
    session = Session()
    asked = session.register(query())
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :q 1 .")
    assert times(asked) == []  # another event may come at 2
    session.advance(3)
    assert times(asked) == [2]


def test_a_last_negation_waits_for_the_end_of_the_window() -> None:
    session = Session()
    asked = session.register(query("A ; N!"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":j :p 1 .")
    push(session, 11, ":j :n 1 .")
    assert times(asked) == []
    session.advance(12)
    assert times(asked) == [11]  # that of :i, at 1 + 10
    session.advance(30)
    assert times(asked) == []


def test_the_window_includes_its_end_and_nothing_after_it() -> None:
    session = Session()
    asked = session.register(query())
    push(session, 1, ":i :p 1 .")
    push(session, 11, ":i :q 1 .")
    push(session, 12, ":i :q 1 .")
    session.finish()
    assert times(asked) == [11]
    assert asked.view.held == 0 or session.live_triples == 0


def test_events_that_no_atom_can_match_stand_between() -> None:
    session = Session()
    asked = session.register(query("A , B"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :unknown 1 .")  # readers prune its triple
    push(session, 3, ":i :q 1 .")
    push(session, 4, ":i :p 1 .")
    push(session, 5, ":i :q 1 .")
    session.finish()
    assert times(asked) == [5]


def test_construct_makes_one_event_per_match_that_other_queries_read() -> None:
    session = Session()
    session.register(query(form="CONSTRUCT S2 <http://ex/made> { ?x :p ?b }"))
    counted = session.register(
        "SELECT (COUNT(*) AS ?n) FROM STREAM <http://ex/made> [NOW] { ?x <http://ex/p> ?y }"
    )
    again = session.register(query("A ; A", stream="http://ex/made"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :p 2 .")
    push(session, 3, ":i :q 3 .")
    push(session, 5, ":i :q 3 .")
    session.finish()
    assert times(counted) == [3, 3, 5, 5]
    assert times(again) == [5] * 4


def test_a_query_over_windows_feeds_a_sequence() -> None:
    session = Session()
    session.register(
        "REGISTER ISTREAM <http://ex/high> AS CONSTRUCT { ?x <http://ex/p> ?v } "
        f"FROM STREAM <{S}> [RANGE 5] {{ ?x <http://ex/v> ?v FILTER(?v > 2) }}"
    )
    asked = session.register(query("A{2,2}", stream="http://ex/high"))
    for time, value in enumerate([1, 3, 2, 3, 5]):
        push(session, time, f":i :v {value} .")
    session.finish()
    assert times(asked) == [4]  # 3 enters at 1, and 5 at 4


def test_a_sequence_that_feeds_itself_is_refused() -> None:
    session = Session()
    session.register(query(form="CONSTRUCT <http://ex/one> { ?x :p 1 }"))
    with pytest.raises(QueryError, match="derived from itself"):
        session.register(query(form=f"CONSTRUCT <{S}> {{ ?x :p 1 }}", stream="http://ex/one"))


def test_deletes_are_counted_and_left_out() -> None:
    session = Session()
    asked = session.register(query())
    push(session, 1, ":i :p 1 .")
    with pytest.warns(ThalwegWarning, match="nothing deletes"):
        session.push(S, at=2, graph="<http://ex/i> <http://ex/p> <http://ex/o> .", op="delete")
    push(session, 3, ":i :q 1 .")
    session.finish()
    assert times(asked) == [3]
    assert session.stats.absent == 1


def test_too_many_partial_matches_end_the_query_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_runs, "MOST_RUNS", 100)
    session = Session()
    asked = session.register(query("A ; A ; A"))
    other = session.register(f"SELECT ?x FROM STREAM <{S}> [NOW] {{ ?x <http://ex/p> ?a }}")
    for time in range(30):
        push(session, time, ":i :p 1 .")
    session.finish()
    assert len(times(other)) == 30
    with pytest.raises(LimitError, match="more than 100 partial matches"):
        asked.poll()


def test_runs_leave_with_their_window() -> None:
    session = Session()
    asked = session.register(query("A ; B"))
    for time in range(200):
        push(session, time, f":i{time} :p {time} .")
    assert asked.view.held <= 12
    session.compact()
    push(session, 201, ":i199 :q 1 .")
    session.finish()
    assert times(asked) == [201]


def test_a_sequence_has_no_answer_at_an_instant_and_can_be_unregistered() -> None:
    session = Session()
    asked = session.register(query())
    push(session, 1, ":i :p 1 .")
    with pytest.raises(UsageError, match="a sequence has matches"):
        asked.answer()
    session.unregister(asked)
    push(session, 2, ":i :q 1 .")
    session.finish()
    assert not session.queries


def test_a_late_event_changes_nothing() -> None:
    session = Session(lateness=2)
    asked = session.register(query("A , B"))
    push(session, 1, ":i :p 1 .")
    push(session, 5, ":i :q 1 .")
    push(session, 2, ":i :n 1 .")
    session.finish()
    assert times(asked) == [5]
    assert len(session.late()) == 1


def test_a_stream_that_no_atom_reads_holds_time_back() -> None:
    session = Session()
    asked = session.register(query("A , B", more="FROM STREAM T <http://ex/t>"))
    push(session, 1, ":i :p 1 .")
    push(session, 4, ":i :q 1 .")
    push(session, 9, ":i :q 1 .")
    assert times(asked) == []
    push(session, 3, ":x :y :z .", "http://ex/t")
    push(session, 9, ":x :y :z .", "http://ex/t")
    assert times(asked) == []
    session.finish()
    assert times(asked) == []


def test_atoms_see_what_follows_from_an_event_under_a_schema() -> None:
    schema = "<http://ex/p2> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <http://ex/p> ."
    session = Session()
    asked = session.register(query(), schema=schema)
    plain = session.register(query())
    push(session, 1, ":i :p2 1 .")
    push(session, 2, ":i :q 1 .")
    session.finish()
    assert times(asked) == [2]
    assert times(plain) == []


def test_a_default_graph_of_static_data_is_refused_beside_a_sequence() -> None:
    session = Session()
    session.register(query())
    with pytest.raises(UsageError, match="does not see static data yet"):
        session.load("<http://ex/i> <http://ex/q> 7 .")
    loaded = Session()
    loaded.load("<http://ex/i> <http://ex/q> 7 .")
    with pytest.raises(QueryError, match="does not see static data yet"):
        loaded.register(query())


def test_explain_prints_and_draws_the_automaton() -> None:
    text = query("A , (B <> A)+ ; N! , B?")
    page = explain(text)
    assert "sequence   A , (B <> A)+ ; N! , B? within 10ms" in page
    assert "state 1    B: after 0 at the next instant; or after 2 at the next instant, again" in page
    assert "state 2    A: after 1 at the same instant" in page
    assert "unless N comes between" in page
    assert "unless N follows within the window" in page
    assert "digraph" in explain(text, format="dot")
    assert "flowchart" in explain(text, format="mermaid")
    assert explain(text, format="svg").startswith("<svg")
