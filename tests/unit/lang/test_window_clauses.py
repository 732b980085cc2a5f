"""Windows as they are written, and what is wrong with those that are not."""

import pytest

from thalweg.algebra.windows import Count, Now, Range, Report, Unbounded
from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

S = 1_000_000
MIDNIGHT = 1_767_225_600 * S  # 2026-01-01T00:00:00Z


def window(written, register=""):
    return parse(f"{register} SELECT * FROM STREAM <http://ex/s> {written} {{ ?x ?y ?z }}").sources[0].window


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("", Unbounded()),
        ("[NOW]", Now()),
        ("[ELEMENTS 10]", Count("ELEMENTS", 10)),
        ("[elements 10 step 5]", Count("ELEMENTS", 10, 5)),
        ("[ELEMENTS 10 TUMBLING]", Count("ELEMENTS", 10, 10)),
        ("[TRIPLES 3 STEP 7]", Count("TRIPLES", 3, 7)),
        ("[TRIPLES 3 REPORT NON-EMPTY]", Count("TRIPLES", 3, report=Report("NON-EMPTY"))),
        ("[ELEMENTS 3 ORIGIN 5 REPORT PERIODIC 1s]", Count("ELEMENTS", 3, 1, 5000, Report("PERIODIC", S))),
        ("[RANGE 10s STEP 5s ORIGIN 2026-01-01T00:00:00Z]", Range(10 * S, 5 * S, MIDNIGHT)),
        ("[RANGE 10s STEP 5s ORIGIN -7]", Range(10 * S, 5 * S, -7000)),
        ("[RANGE 10s BOUNDS CLOSED-OPEN]", Range(10 * S, bounds="CLOSED-OPEN")),
        ("[RANGE 10s TUMBLING bounds open-closed]", Range(10 * S, 10 * S, bounds="OPEN-CLOSED")),
        ("[RANGE 10s STEP 5s REPORT ON WINDOW-CLOSE]", Range(10 * S, 5 * S)),
        ("[RANGE 10s REPORT CONTENT-CHANGE]", Range(10 * S)),
        ("[RANGE 10s REPORT ON PERIODIC PT2S]", Range(10 * S, report=Report("PERIODIC", 2 * S))),
        (
            "[RANGE 10s STEP 5s REPORT CONTENT-CHANGE BOUNDS OPEN-CLOSED ORIGIN 1s]".replace("1s", "1"),
            Range(10 * S, 5 * S, 1000, "OPEN-CLOSED", Report("CONTENT-CHANGE")),
        ),
    ],
)
def test_a_window_is_read_from_its_brackets(written, meaning):
    assert window(written) == meaning
    if written:  # what `explain` shows can be read again
        assert window(str(meaning)) == meaning


def test_empty_reports_are_asked_for_with_rstream():
    asked = window("[RANGE 10s STEP 5s REPORT WINDOW-CLOSE WITH EMPTY]", "REGISTER RSTREAM <http://ex/o> AS")
    assert asked == Range(10 * S, 5 * S, report=Report("WINDOW-CLOSE", empty=True))


@pytest.mark.parametrize(
    ("written", "reason", "column"),
    [
        ("[ELEMENTS]", "ELEMENTS needs a number", 35),
        ("[ELEMENTS 10s]", "not '10s'", 36),
        ("[ELEMENTS 0]", "at least 1", 36),
        ("[TRIPLES 5 STEP 0]", "STEP is at least 1", 42),
        ("[TRIPLES 99999999999999999999]", "at most 18 digits", 35),
        ("[TRIPLES 5 BOUNDS CLOSED-OPEN]", "expected ORIGIN or REPORT or ]", 37),
        ("[TRIPLES 5 ORIGIN 5]", "ORIGIN needs", 37),
        ("[RANGE 10s ORIGIN 5]", "ORIGIN needs", 37),
        ("[RANGE 10s STEP 5s ORIGIN soon]", "not an instant: 'soon'", 52),
        ("[RANGE 10s STEP 5s ORIGIN]", "ORIGIN needs an instant", 51),
        ("[RANGE 10s BOUNDS OPEN]", "expected CLOSED-OPEN or OPEN-CLOSED, not 'OPEN'", 44),
        ("[RANGE 10s BOUNDS OPEN - CLOSED]", "expected CLOSED-OPEN or OPEN-CLOSED, not 'OPEN'", 44),
        ("[RANGE 10s BOUNDS [)]", "closes nothing", 45),
        ("[RANGE 10s REPORT]", "expected WINDOW-CLOSE or", 43),
        ("[RANGE 10s REPORT ON NEVER]", "not 'NEVER'", 47),
        ("[RANGE 10s REPORT WINDOW-CLOSE]", "WINDOW-CLOSE needs a STEP", 44),
        ("[RANGE 10s REPORT PERIODIC]", "PERIODIC needs a duration", 52),
        ("[RANGE 10s REPORT PERIODIC 0]", "longer than nothing", 53),
        ("[RANGE 10s REPORT NON-EMPTY WITH EMPTY]", "NON-EMPTY reports nothing", 54),
        ("[RANGE 10s REPORT CONTENT-CHANGE WITH]", "expected EMPTY", 63),
        ("[RANGE 10s REPORT CONTENT-CHANGE WITH EMPTY]", "WITH EMPTY is for REGISTER RSTREAM", 22),
        ("[RANGE 10s REPORT CONTENT-CHANGE REPORT NON-EMPTY]", "expected ORIGIN or BOUNDS or ]", 59),
        ("[RANGE 10s BOUNDS OPEN-CLOSED STEP 5s]", "expected ORIGIN or REPORT or ]", 56),
        ("[NOW REPORT NON-EMPTY]", "expected ]", 31),
    ],
)
def test_what_is_wrong_in_a_window_is_refused_where_it_is_written(written, reason, column):
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT * FROM STREAM <s> {written} {{ ?x ?y ?z }}")
    assert not isinstance(caught.value, UnsupportedError)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_range_of_triples_is_a_window_by_count():
    text = "REGISTER QUERY q AS SELECT * FROM STREAM <http://ex/s> [{} 5 STEP 2] {{ ?x ?p ?y }}"
    counted = parse(text.format("TRIPLES")).sources
    assert parse(text.format("RANGE TRIPLES")).sources == counted
    assert counted[0].window.unit == "TRIPLES"


def test_computed_every_reports_each_window_at_that_distance():
    every = "REGISTER QUERY q COMPUTED EVERY 5 m AS SELECT * FROM STREAM <http://ex/s> [{}] {{ ?x ?p ?y }}"
    for written in ("RANGE 1h", "RANGE 1h STEP 1m", "RANGE TRIPLES 10"):
        query = parse(every.format(written))
        assert query.sources[0].window == window(f"[{written} REPORT PERIODIC 5m]")
        assert query.language == "C-SPARQL"


def test_slide_is_another_word_for_step():
    assert window("[RANGE PT10S SLIDE PT5S]") == window("[range PT10S Step PT5S]") == Range(10 * S, 5 * S)


def test_the_name_of_a_window_may_stand_behind_it():
    text = "SELECT * FROM NAMED WINDOW {} {{ WINDOW <http://ex/w> {{ ?x ?p ?y }} }}"
    first = parse(text.format("<http://ex/w> ON <http://ex/s> [RANGE 10s]"))
    assert parse(text.format("ON STREAM <http://ex/s> [RANGE 10s] AS <http://ex/w>")).sources == first.sources


def test_a_named_stream_is_a_graph_with_its_name():
    query = parse("SELECT * FROM NAMED STREAM <http://ex/s> [RANGE 10s] { GRAPH <http://ex/s> { ?x ?p ?y } }")
    (source,) = query.sources
    assert (source.streams, source.name) == (("http://ex/s",), "http://ex/s")
    with pytest.raises(QueryError, match="no FROM STREAM fills it"):
        parse("SELECT * FROM NAMED STREAM <http://ex/s> [RANGE 10s] { ?x ?p ?y }")


@pytest.mark.parametrize(
    ("written", "output"),
    [
        ("STREAM rush-hour2", "rush-hour2"),
        ("QUERY rush-hour2", None),
        ("STREAM <http://ex/o>", "http://ex/o"),
    ],
)
def test_a_stream_of_c_sparql_has_a_word_as_its_name(written, output):
    query = parse(
        f"REGISTER {written} AS CONSTRUCT {{ ?x ?p ?y }} FROM STREAM <http://ex/s> [RANGE 1s] {{ ?x ?p ?y }}"
    )
    assert query.output == output
