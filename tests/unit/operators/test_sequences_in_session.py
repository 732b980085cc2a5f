"""Sequences in a session: when matches are known, derived streams, deletes, limits, memory."""

from __future__ import annotations

import warnings

import pytest

from thalweg import Session, explain
from thalweg.errors import LimitError, QueryError, ThalwegWarning, UsageError

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


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("sequence", ["N! ; A ; N!", "N! , A ; N!", "N! ; A ; B?  ; N!"])
def test_a_first_negation_holds_for_matches_that_wait_for_the_end_of_the_window(
    sequence: str, saves: bool
) -> None:
    session = Session()
    asked = session.register(query(sequence))
    push(session, 1, ":i :n 1 .")
    push(session, 2, ":i :p 1 . :j :p 1 .")
    for at in range(3, 14):  # each completes the instant before it, and with it what is too old is forgotten
        push(session, at, ":k :o 1 .")
        if saves:
            session = Session.restore(session.save())
            asked = session.queries[0]
    session.advance(30)
    assert [row["x"] for row in asked.poll()] == ["<http://ex/j>"]


def test_two_windows_matter_to_a_sequence_that_begins_and_ends_in_negations() -> None:
    for sequence, back in (("A ; N!", 11), ("N! ; A", 11), ("N! ; A ; N!", 21)):
        session = Session()
        session.register(query(sequence))
        session.advance(100)
        assert session.horizon() == 1000 * (100 - back) + 999, sequence


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


def test_a_delete_ends_a_sequence_without_retractions_and_no_other_query() -> None:
    session = Session()
    asked = session.register(query())
    kept = session.register(query(more="WITH RETRACTIONS"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :q 1 .")
    session.push(S, at=3, graph="<http://ex/i> <http://ex/q> 1 .", format="turtle", op="delete")
    push(session, 4, ":i :q 2 .")
    session.finish()
    refused = f"<{S}> has a delete at 1970-01-01T00:00:00.003Z, .* only WITH RETRACTIONS"
    with pytest.raises(LimitError, match=refused):
        asked.poll()
    assert [(int(row.at) // 1000, row.op) for row in kept.poll()] == [(2, "+"), (3, "-"), (4, "+")]
    with pytest.raises(LimitError, match=refused):
        Session.restore(session.save()).queries[0].poll()


def test_a_sequence_that_has_ended_keeps_nothing_of_its_streams() -> None:
    session = Session()
    session.register(query())
    session.push(S, at=0, graph="<http://ex/i> <http://ex/p> 1 .", format="turtle", op="delete")
    for time in range(1, 50):
        push(session, time, ":i :p 1 .")
    (streamset,) = session._streamsets
    assert streamset.held == 0


def test_with_retractions_a_delete_takes_matches_back_and_may_make_others() -> None:
    session = Session()
    used = session.register(query(more="WITH RETRACTIONS"))
    between = session.register(query("A ; N! ; B", more="WITH RETRACTIONS"))
    next_one = session.register(query("A , B", more="WITH RETRACTIONS"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :n 1 ; :other 2 .")
    push(session, 3, ":i :q 1 .")
    session.push(
        S, at=4, graph="<http://ex/i> <http://ex/n> 1 .", format="turtle", op="delete"
    )  # only a part of it
    session.push(
        S, at=5, graph="<http://ex/i> <http://ex/n> 1 ; <http://ex/other> 2 .", format="turtle", op="delete"
    )
    session.push(S, at=6, graph="<http://ex/i> <http://ex/q> 1 .", format="turtle", op="delete")
    session.finish()

    def signed(asked: object) -> list[tuple[int, str]]:
        return [(int(row.at) // 1000, row.op) for row in asked.poll()]  # type: ignore[attr-defined]

    assert signed(used) == [(3, "+"), (6, "-")]
    assert signed(between) == signed(next_one) == [(5, "+"), (6, "-")]
    assert session.stats.absent == 3  # the part, of each query


def test_a_delete_that_comes_more_than_the_window_later_names_nothing() -> None:
    session = Session()
    asked = session.register(query(more="WITH RETRACTIONS"))
    push(session, 1, ":i :p 1 .")
    push(session, 3, ":i :q 1 .")
    session.push(S, at=12, graph="<http://ex/i> <http://ex/p> 1 .", format="turtle", op="delete")
    session.finish()
    assert times(asked) == [3]
    assert session.stats.absent == 1


def test_partial_matches_time_out_at_the_end_of_their_windows() -> None:
    session = Session()
    asked = session.register(query("A ; (B <> N)", form="SELECT *", more="WITH TIMED OUT AS ?late"))
    assert "timed out  partial matches, as ?late" in explain(asked.query.text)
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":j :p 2 .")
    push(session, 3, ":i :q 3 .")  # half of a step continues nothing
    push(session, 4, ":j :q 4 ; :n 5 .")
    session.advance(12)
    rows = asked.poll()
    assert [
        (int(row.at) // 1000, row.value("late"), row.value("a"), "n" in row.bindings) for row in rows
    ] == [
        (4, False, 2, True),
        (11, True, 1, False),
    ]


@pytest.mark.parametrize(("limit", "condition"), [(25, ""), (40, "FILTER(?a <= ?c)")], ids=["buffer", "pool"])
def test_of_too_many_partial_matches_the_oldest_are_dropped_loudly(limit: int, condition: str) -> None:
    session, exact = Session(max_partial_matches=limit), Session()
    text = query("A ; C ; B", form="SELECT ?a ?c").replace(
        "?x :q ?b }", f"?x :q ?b {condition} }} DEFINE GPM C ON S {{ ?x :p ?c }}"
    )
    assert ("in a pool" in explain(text)) == bool(condition)
    asked, other = session.register(text), exact.register(text)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for one in (session, exact):
            for time in range(10):
                push(one, time, f":i :p {time} .")
            push(one, 10, ":i :q 1 .")
            one.finish()
    assert len(warned) == 1
    assert "the oldest are dropped" in str(warned[0].message)
    assert "may be missing" in str(warned[0].message)
    rows = asked.poll()
    assert rows[0].op == "gap"
    found, whole = ([(row.value("a"), row.value("c")) for row in some] for some in (rows[1:], other.poll()))
    assert session.stats.shed > 0
    assert found
    assert set(found) < set(whole)
    assert min(found) > min(whole)
    assert max(found) == max(whole)  # the latest are there


def test_a_batch_with_too_many_partial_matches_is_bounded_and_its_saved_state_goes_on() -> None:
    session = Session(max_partial_matches=50, lateness=1000)
    asked = session.register(query("A ; A ; A ; B"))
    for time in range(40):
        push(session, time, ":i :p 1 .")
    push(session, 41, ":i :q 1 .")
    with pytest.warns(ThalwegWarning, match="more than 50 partial matches"):
        session.advance(41)
    shed = session.stats.shed
    assert shed > 100
    again = Session.restore(session.save())
    again.finish()
    assert again.stats.shed == shed
    rows = again.queries[0].poll()
    assert rows[0].op == "gap"
    assert 0 < len(rows) < 2000
    assert len(asked.query.columns) == 1


def test_too_many_partial_matches_end_the_query_and_no_other_if_asked() -> None:
    session = Session(max_partial_matches=40, on_partial_matches="fail")
    asked = session.register(query("A ; A ; A"))
    other = session.register(f"SELECT ?x FROM STREAM <{S}> [NOW] {{ ?x <http://ex/p> ?a }}")
    for time in range(30):
        push(session, time, ":i :p 1 .")
    session.finish()
    assert len(times(other)) == 30
    with pytest.raises(LimitError, match="more than 40 partial matches"):
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


def test_static_data_that_are_loaded_in_mid_stream_count_for_instants_that_are_not_complete() -> None:
    session = Session()
    asked = session.register(query("A ; B", form="SELECT ?b"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":j :p 1 .")
    session.load("<http://ex/i> <http://ex/q> 7 .")
    push(session, 3, ":j :other 1 .")  # with the static triple it is a B of :i, as that at 2 is
    session.finish()
    assert times(asked) == [2, 3]


def test_solutions_of_static_data_and_of_events_in_one_batch_are_in_the_order_of_time() -> None:
    session = Session(lateness=5)
    session.load("<http://ex/i> <http://ex/p> 7 .")
    asked = session.register(query("A", form="SELECT ?a"))
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :p 1 .")
    session.finish()
    assert times(asked) == [1, 1, 2, 2]


def test_from_and_from_named_choose_the_static_graphs_of_atoms() -> None:
    session = Session()
    session.load("<http://ex/i> <http://ex/q> 7 .")
    session.load("<http://ex/i> <http://ex/q> 8 .", graph="http://ex/g")
    session.load("<http://ex/j> <http://ex/q> 9 .", graph="http://ex/h")
    merged = session.register(query("A ; B", form="SELECT ?b", more="FROM <http://ex/g>"))
    named = session.register(
        query("A ; B", form="SELECT ?b", more="FROM NAMED <http://ex/h>").replace(
            "?x :q ?b", "?x :p ?a GRAPH ?g { ?x :q ?b }"
        )
    )
    push(session, 1, ":i :p 1 .")
    push(session, 2, ":i :other 1 .")
    push(session, 3, ":j :p 1 .")
    push(session, 4, ":j :p 1 .")
    session.finish()
    assert [row.value("b") for row in merged.poll()] == [8, 8, 8]
    assert [row.value("b") for row in named.poll()] == [9]


def test_an_atom_with_a_graph_that_is_not_there_matches_nothing_and_says_so() -> None:
    session = Session()
    with pytest.warns(ThalwegWarning, match="the atom B matches no event: no window or graph has the name"):
        session.register(query().replace("?x :q ?b", "?x :q ?b GRAPH :g { ?x ?y ?z }"))
    with pytest.raises(UsageError, match="load a graph before the queries"):
        session.load("<http://ex/i> <http://ex/q> 7 .", graph="http://ex/g")


def test_operands_of_a_conjunction_are_asked_only_where_the_cheaper_ones_match() -> None:
    text = """PREFIX : <http://ex/> SELECT ?x WITHIN 10ms FROM STREAM S <http://ex/s> FROM STREAM T <http://ex/t>
    WHERE { SEQ (A ; (B <> C <> D))  DEFINE GPM A ON S { ?x :p ?a }
    DEFINE GPM B ON S { ?x :q ?b OPTIONAL { ?x :r ?r } }
    DEFINE GPM C ON T { ?x :c ?c }  DEFINE GPM D ON S { ?x :d ?d . ?x :e ?e } }"""
    page = explain(text).splitlines()
    assert "lazy       C: asked at an instant where :s has an event" in page
    assert "lazy       D: asked at an instant where C matched" in page
    assert "lazy       B: asked at an instant where C matched and D matched" in page
    session = Session()
    asked = session.register(text)
    push(session, 1, ":i :p 1 .")
    (streamset,) = session._streamsets
    queries = streamset._inner  # type: ignore[attr-defined]
    push(session, 2, ":i :q 1 .")
    push(session, 2, ":i :c 1 .", "http://ex/t")
    push(session, 3, ":i :q 1 ; :d 1 ; :e 1 .")
    push(session, 4, ":i :q 1 ; :d 1 ; :e 1 .")
    session.advance(3)
    assert [inner.started for inner in queries.values()] == [True, True, True, False]  # D did not match at 2
    push(session, 3, ":i :c 1 .", "http://ex/t")
    session.finish()
    assert times(asked) == [3]
    assert all(inner.started for inner in queries.values())
    # With PARTITION BY, solutions of all atoms decide what stands between two events.
    assert "lazy" not in explain(text.replace("WHERE", "PARTITION BY ?x WHERE"))


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
