"""Paths with + and * through the session: windows, deletes, ends, and a limit that ends one query alone."""

from __future__ import annotations

from collections import Counter

import pytest

import thalweg as tw

S = "http://ex/s"


def asked(
    session: tw.Session, body: str, window: str = "[RANGE 10]", head: str = "SELECT *"
) -> tw.ContinuousQuery:
    return session.register(f"PREFIX : <http://ex/> {head} FROM STREAM <{S}> {window} WHERE {{ {body} }}")


def push(session: tw.Session, at: int, *edges: str, op: str = "insert") -> None:
    """Edges are written `apb`: subject, predicate, object."""
    lines = (f"<http://ex/{s}> <http://ex/{p}> <http://ex/{o}> ." for s, p, o in edges)
    session.push(S, at=at, graph="\n".join(lines), op=op)


def taken(query: tw.ContinuousQuery) -> list[str]:
    """The rows since the last call, as sign, time in ms, and the last letters of the terms."""
    return sorted(
        f"{row.op}{row.at // 1000} " + "".join(term[-2] for term in row.bindings.values())
        for row in query.poll()
    )


def test_a_pair_lives_as_long_as_its_longest_lived_way() -> None:
    session = tw.Session()
    query = asked(session, "?x :p+ ?y")
    push(session, 1, "apb")
    push(session, 2, "bpc")
    push(session, 3, "apc")
    assert taken(query) == ["+1 ab", "+2 ac", "+2 bc"]
    session.advance(30)
    assert taken(query) == ["-11 ab", "-12 bc", "-13 ac"]


def test_a_cycle_connects_its_nodes_with_themselves_until_a_delete_breaks_it() -> None:
    session = tw.Session()
    query = asked(session, "?x :p+ ?x", "")
    push(session, 1, "apb", "bpc", "cpa")
    assert taken(query) == ["+1 a", "+1 b", "+1 c"]
    push(session, 2, "bpa")
    push(session, 3, "cpa", op="delete")
    assert taken(query) == ["-3 c"]


def test_ends_that_are_constants() -> None:
    session = tw.Session()
    bodies = (":a :p+ ?y", "?x :p+ :c", ":a :p+ :c", ":a :p* :a", ":z :p* ?y", "?x :p* :z", ":z :p+ ?y")
    queries = {body: asked(session, body, "") for body in bodies}
    push(session, 1, "apb", "bpc", "qpr")
    assert {body: taken(query) for body, query in queries.items()} == {
        ":a :p+ ?y": ["+1 b", "+1 c"],
        "?x :p+ :c": ["+1 a", "+1 b"],
        ":a :p+ :c": ["+1 "],
        ":a :p* :a": ["+1 "],
        ":z :p* ?y": ["+1 z"],
        "?x :p* :z": ["+1 z"],
        ":z :p+ ?y": [],
    }


def test_all_terms_of_the_graph_are_at_both_ends_of_a_path_of_length_zero() -> None:
    session = tw.Session()
    query = asked(session, "?x :p* ?y")
    push(session, 1, "aqb")
    assert taken(query) == ["+1 aa", "+1 bb"]
    push(session, 5, "bpc")
    session.advance(12)
    assert taken(query) == ["+5 bc", "+5 cc", "-11 aa"]


def test_readers_keep_the_predicates_of_a_path_and_all_triples_where_its_ends_are_free() -> None:
    for body, keeps_all in (
        ("?x :p+ ?y", False),
        ("?x :q/:p* ?y", False),
        (":a :p* ?y", False),
        ("?x :p* ?y", True),
    ):
        session = tw.Session()
        asked(session, body)
        push(session, 1, "xsy")
        assert (session.live_triples > 0) == keeps_all, body


def test_copies_are_kept_where_a_path_is_no_closure_and_dropped_in_a_closure() -> None:
    session = tw.Session()
    twice = asked(session, "?x (:p|:q)/:r* ?y", "")
    once = asked(session, "?x ((:p|:q)/:r*)+ ?y", "")
    push(session, 1, "apb", "aqb", "brc")
    assert taken(twice) == ["+1 ab", "+1 ab", "+1 ac", "+1 ac"]
    assert taken(once) == ["+1 ab", "+1 ac"]


def test_each_event_has_paths_of_its_own() -> None:
    session = tw.Session()
    query = asked(session, "?x :p+ ?y", "[NOW]")
    push(session, 1, "apb", "bpc")
    push(session, 1, "cpd")
    push(session, 2, "cpd")
    assert taken(query) == ["+1 ab", "+1 ac", "+1 bc", "+1 cd", "+2 cd"]


def test_two_windows_have_graphs_of_their_own() -> None:
    session = tw.Session()
    query = session.register(
        "PREFIX : <http://ex/> SELECT * FROM NAMED WINDOW <w> ON <http://ex/s> [RANGE 10] "
        "FROM NAMED WINDOW <v> ON <http://ex/t> [RANGE 3] WHERE { WINDOW <w> { :a :p+ ?x } WINDOW <v> { ?x :p+ ?y } }"
    )
    push(session, 1, "apb", "bpc")
    session.push("http://ex/t", at=2, graph="<http://ex/c> <http://ex/p> <http://ex/d> .")
    session.advance(20)
    assert taken(query) == ["+2 cd", "-5 cd"]


def test_a_session_that_was_saved_goes_on_with_its_paths() -> None:
    session = tw.Session(max_path_pairs=100)
    asked(session, "?x :p* ?y . ?y :q ?z")
    push(session, 1, "apb", "bpc", "cqd")
    again = tw.Session.restore(session.save())
    for one in (session, again):
        push(one, 4, "bpc", op="delete")
        push(one, 5, "apc")
    assert taken(session.queries[0]) == taken(again.queries[0])
    assert again.options.max_path_pairs == 100


def clique(session: tw.Session, at: int, size: int, until: int = 0) -> None:
    edges = (f"<http://ex/{a}> <http://ex/p> <http://ex/{b}> ." for a in range(size) for b in range(size))
    session.push(S, at=at, graph="\n".join(edges))
    session.advance(until)


@pytest.mark.parametrize("window", ["", "[RANGE 10 STEP 5]", "[NOW]", "[ELEMENTS 3]"])
def test_a_path_with_too_many_pairs_ends_its_query_and_no_other(window: str) -> None:
    session = tw.Session(max_path_pairs=200)
    wide = asked(session, "?x :p+ ?y", window)
    narrow = asked(session, "<http://ex/0> :p+ ?y", window)
    plain = asked(session, "?x :p ?x", window)
    with pytest.warns(tw.ThalwegWarning, match="a query has ended: a path with"):
        clique(session, 1, 15, until=6)
    for _ in range(2):
        with pytest.raises(tw.LimitError, match="connects more than 200 pairs of terms"):
            wide.poll()
    assert len(narrow.poll()) == len(plain.poll()) == 15
    clique(session, 7, 16)
    session.advance(30)
    assert Counter(row.op for row in plain.poll())["+"] >= 1
    with pytest.raises(tw.LimitError):
        tw.Session.restore(session.save()).queries[0].poll()
    session.unregister(wide)
    push(session, 31, "apb")


@pytest.mark.soak
def test_ten_thousand_connected_nodes_end_their_query_at_the_default_limit_and_no_other() -> None:
    """Through one node in the middle: as many pairs as a clique has, of few triples."""
    session = tw.Session(max_pending=None)
    wide, narrow = asked(session, "?x :p+ ?y", ""), asked(session, "<http://ex/0> :p+ ?y", "")
    lines = "<http://ex/{0}> <http://ex/p> <http://ex/hub> .\n<http://ex/hub> <http://ex/p> <http://ex/{0}> ."
    with pytest.warns(tw.ThalwegWarning, match="connects more than 10,000,000 pairs"):
        session.push(S, at=1, graph="\n".join(map(lines.format, range(10_000))))
    with pytest.raises(tw.LimitError):
        wide.poll()
    assert len(narrow.poll()) == 10_001


def test_what_reads_a_stream_that_is_derived_from_an_ended_query_does_not_go_on_without_it() -> None:
    session = tw.Session(max_path_pairs=50)
    session.register(
        "PREFIX : <http://ex/> REGISTER STREAM <http://ex/d> AS CONSTRUCT { ?x :reaches ?y } "
        f"FROM STREAM <{S}> WHERE {{ ?x :p+ ?y }}"
    )
    session.register("SELECT * FROM STREAM <http://ex/d> WHERE { ?x ?p ?y }")
    with pytest.warns(tw.ThalwegWarning), pytest.raises(tw.LimitError):
        clique(session, 1, 10)
    for at in (2, 3):
        with pytest.raises(tw.LimitError):
            push(session, at, "apb")


def test_the_present_answer_has_the_limit_of_the_session() -> None:
    session = tw.Session(max_path_pairs=50)
    query = asked(session, "?x :p+ ?y", "")
    clique(session, 1, 7)
    assert len(query.answer()) == 49
    with pytest.warns(tw.ThalwegWarning):
        clique(session, 2, 8)
    with pytest.raises(tw.LimitError, match="more than 50 pairs"):
        query.answer()
