"""NOW() and the functions of the event, which [NOW] queries may use."""

import pytest

import thalweg as tw
from thalweg.errors import UnsupportedError

PREFIX = "PREFIX : <http://ex/> PREFIX tw: <urn:thalweg:> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
GRAPH = "<http://ex/a> <http://ex/p> <http://ex/b> .\n<http://ex/a> <http://ex/q> <http://ex/c> ."


def rows(text):
    session = tw.Session()
    query = session.register(PREFIX + text)
    session.push("http://ex/s", at=1000, graph=GRAPH)
    session.push("http://ex/s", at=2500, graph=GRAPH, name="http://ex/g")
    session.advance(5000)
    return [(row.at, row.bindings) for row in query.poll()]


def time(text):
    return f'"1970-01-01T00:00:{text}Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'


def test_the_time_and_the_graph_of_the_event_are_values():
    found = rows(
        "SELECT (NOW() AS ?now) (tw:eventTime() AS ?t) (tw:eventGraph() AS ?g) "
        "FROM STREAM <http://ex/s> [NOW] { ?x :p ?y }"
    )
    assert found == [
        (1_000_000, {"now": time("01"), "t": time("01")}),
        (2_500_000, {"now": time("02.5"), "t": time("02.5"), "g": "<http://ex/g>"}),
    ]


@pytest.mark.parametrize(
    "where", ["?x :p ?y FILTER({})", "?x :p ?y OPTIONAL {{ ?x :q ?z FILTER({}) }} FILTER(BOUND(?z))"]
)
def test_a_condition_on_the_time_is_asked_of_each_event(where):
    condition = "NOW() > '1970-01-01T00:00:02Z'^^xsd:dateTime"
    found = rows("SELECT ?x FROM STREAM <http://ex/s> [NOW] { " + where.format(condition) + " }")
    assert [at for at, _ in found] == [2_500_000]


def test_a_template_and_exists_see_the_event():
    found = rows(
        "CONSTRUCT { ?x :at ?t } FROM STREAM <http://ex/s> [NOW] "
        "{ ?x :p ?y BIND(tw:eventTime() AS ?t) FILTER EXISTS { ?x :q ?z FILTER(BOUND(?t)) } }"
    )
    assert [triple["object"] for _, triple in found] == [time("01"), time("02.5")]


def test_a_window_of_one_event_begins_and_ends_with_it():
    found = rows(
        "SELECT (tw:windowStart() AS ?from) (tw:windowEnd() AS ?to) (COUNT(?z) AS ?n) "
        "FROM STREAM <http://ex/s> [NOW] { ?x :none ?z }"
    )
    none = '"0"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert [row for _, row in found] == [
        {"from": time(at), "to": time(at), "n": none} for at in ("01", "02.5")
    ]


def test_every_event_that_inserts_something_has_an_answer_and_no_other():
    session = tw.Session()
    query = session.register(PREFIX + "SELECT (COUNT(*) AS ?n) FROM STREAM <http://ex/s> [NOW] { ?x :p ?y }")
    late = session.register(PREFIX + "SELECT ?x FROM STREAM <http://ex/s> [NOW] { OPTIONAL { ?x :p ?y } }")
    other = "<http://ex/a> <http://ex/other> <http://ex/b> ."
    session.push("http://ex/s", at=1000, graph=GRAPH)
    session.push("http://ex/s", at=1000, graph=other, name="http://ex/g")
    session.push("http://ex/s", at=2000, graph=GRAPH, op="delete")
    session.push("http://ex/s", at=2000, graph="")
    session.push("http://ex/s", at=500, graph=GRAPH)
    session.push("http://ex/other", at=2000, graph=GRAPH)
    assert [(row.at, row.graph, row.value("n")) for row in query.poll()] == [
        (1_000_000, None, 1),
        (1_000_000, "<http://ex/g>", 0),
    ]
    assert [row.bindings for row in late.poll()] == [{"x": "<http://ex/a>"}, {}]
    more = session.register(query.query.text)
    session.push("http://ex/s", at=3000, graph=other)
    assert [len(one.poll()) for one in (query, late, more)] == [1, 1, 1]


@pytest.mark.parametrize("function", ["NOW()", "tw:eventTime()", "tw:eventGraph()"])
def test_over_other_windows_they_are_refused_where_they_are_written(function):
    with pytest.raises(UnsupportedError, match=r"query:2:\d+: .*under \[NOW\] only"):
        rows(f"SELECT * FROM STREAM <http://ex/s> [RANGE 1s] {{ ?x :p ?y FILTER(?y != {function}) }}")
