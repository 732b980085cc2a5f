import pytest

from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

PREFIX = "PREFIX : <http://ex/>\n"


def refusal(text, kind=QueryError, stream="http://ex/s"):
    with pytest.raises(kind) as caught:
        parse(text, source="q.rq", stream=stream)
    return caught.value


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("SELECT * { SERVICE :g { ?x :p ?y } }", "SERVICE", 2, 12),
        ("DESCRIBE ?x { ?x :p ?y }", "DESCRIBE", 2, 1),
        ("INSERT DATA { :a :b :c }", "Update", 2, 1),
        (
            "SELECT * FROM STREAM :s [RANGE 1] FROM STREAM :t [RANGE 2] { ?x :p ?y }",
            "different windows",
            2,
            35,
        ),
        ("SELECT * { ?x :p ?y FILTER(?y < NOW()) }", "NOW()", 2, 21),
        (
            "SELECT * FROM STREAM :t FROM NAMED WINDOW :w ON :s [NOW] { WINDOW :w { ?x :p ?y } ?y :q ?z }",
            "[NOW] together",
            2,
            43,
        ),
        (
            "REGISTER DSTREAM :o AS SELECT * FROM STREAM :s [NOW] { ?x :p ?y }",
            "DSTREAM of [NOW]",
            2,
            1,
        ),
        ("REGISTER QUERY q COMPUTED EVERY 5m AS SELECT * FROM STREAM :s { ?x :p ?y }", "COMPUTED", 2, 48),
        (
            "REGISTER QUERY q COMPUTED EVERY 5m AS SELECT * FROM STREAM :s [NOW] { ?x :p ?y }",
            "COMPUTED EVERY needs windows by time or count",
            2,
            48,
        ),
        (
            "SELECT * FROM STREAM :s [RANGE 1] { ?x :p ?y FILTER(<urn:thalweg:eventTime>() > 5) }",
            "eventTime",
            2,
            46,
        ),
        (
            "SELECT * FROM STREAM :s [NOW] { ?x :p ?y FILTER(<urn:thalweg:arrivalTime>(?x, :p, ?y) > 5) }",
            "use <urn:thalweg:eventTime>()",
            2,
            49,
        ),
        (
            "SELECT * FROM STREAM :s [TRIPLES 5] { ?x :p ?y FILTER(<urn:thalweg:arrivalTime>(?x, :p, ?y) > 5) }",
            "windows by time only",
            2,
            55,
        ),
        (
            "SELECT * FROM STREAM :s [RANGE 5] { ?x :p ?y OPTIONAL { ?x :q ?z }\n"
            "FILTER(<urn:thalweg:arrivalTime>(?x, :q, ?z) > 5) }",
            "variables that its group always binds",
            3,
            8,
        ),
        (
            "SELECT * FROM NAMED WINDOW :w ON :s [RANGE 5] { WINDOW :w { ?x :p ?y }\n"
            "FILTER(<urn:thalweg:arrivalTime>(?x, :p, ?y) > 5) }",
            "inside WINDOW",
            3,
            8,
        ),
        (
            "SELECT (<urn:thalweg:windowEnd>() AS ?e) FROM STREAM :s [RANGE 5s] { ?x :p ?y }",
            "give it a STEP or REPORT PERIODIC",
            2,
            9,
        ),
        (
            "SELECT (<urn:thalweg:windowStart>() AS ?e) FROM STREAM :s [ELEMENTS 5] { ?x :p ?y }",
            "windows by time and [NOW] only",
            2,
            9,
        ),
        (
            "SELECT (<urn:thalweg:windowStart>() AS ?e) FROM STREAM :s { ?x :p ?y }",
            "windows by time and [NOW] only",
            2,
            9,
        ),
        (
            "SELECT (<urn:thalweg:windowEnd>() AS ?e) FROM NAMED WINDOW :w ON :s [RANGE 5 STEP 1] "
            "FROM NAMED WINDOW :v ON :s [RANGE 9 STEP 1] { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :q ?y } }",
            "one of several windows",
            2,
            9,
        ),
        ("SELECT * FROM STREAM :s [FROM NOW-PT2H TO NOW-PT1H] { ?x :p ?y }", "windows in the past", 2, 26),
        (
            "REGISTER STREAM :o UNDER ENTAILMENT REGIME :r AS SELECT * FROM STREAM :s { ?x :p ?y }",
            "is not supported as an entailment regime",
            2,
            44,
        ),
        (
            "SELECT * FROM STREAM :s UNDER ENTAILMENT REGIME <http://www.w3.org/ns/entailment/OWL-Direct> { ?x :p ?y }",
            "is not supported as an entailment regime: there are <http://www.w3.org/ns/entailment/RDFS>",
            2,
            49,
        ),
        (
            "SELECT * FROM STREAM :s UNDER ENTAILMENT REGIME <urn:thalweg:rules:rdfs99> { ?x :p ?y }",
            "'rdfs99' is no rule",
            2,
            49,
        ),
    ],
)
def test_what_is_not_supported_is_refused_where_it_is_written(text, construct, line, column):
    error = refusal(PREFIX + text, UnsupportedError)
    assert construct in error.reason
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"q.rq:{line}:{column}: ")


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("", "ends too early", 1, 1),
        ("SELECT * WHERE", "ends too early", 1, 15),
        ("SELECT * {", "'{' is never closed", 1, 10),
        ("SELECT * { ?x ?y ?z ) }", "')' closes nothing", 1, 21),
        ("SELECT * { ?x ?y }", "'}'", 1, 18),
        ("SELECT * {\n ?x ?y ?z }\n more", "'more'", 3, 2),
        ("SELECT * { ?x <a:a> 'open }", '"\'"', 1, 21),
        ("SELECT * { ?x ex:p ?y }", "unknown prefix 'ex:'", 1, 15),
        ("SELECT * { ?x ?p <rel> }", "<rel> is relative", 1, 18),
        ("SELECT * { ?x ?p 'a'^^<rel> }", "<rel> is relative", 1, 18),
        ('PREFIX : <x:> SELECT * { ?x ?p :a\\"b }', "no IRI can have", 1, 32),
        ("SELECT * { ?x ?y 'a\\qb' }", "unknown escape", 1, 20),
        ("SELECT * { ?x ?y '\\uD800' }", "not a character", 1, 19),
        ("SELECT * { ?x ?y <a:\\u003E> }", "hides a character", 1, 18),
        ("SELECT * { ?x ?y\\u0020 ?z }", "hides a character", 1, 17),
        ("SELECT * { ?x ?y \x00 }", "U+0000", 1, 18),
        ("SELECT * { ?x ?y '\ud800' }", "U+D800", 1, 19),
        ("SELECT * FROM STREAM 's' { ?x ?y ?z }", "expected a stream", 1, 22),
        ("SELECT * FROM STREAM <s> [RANGE 0] { ?x ?y ?z }", "longer than nothing", 1, 33),
        ("SELECT * FROM STREAM <s> [RANGE 1 STEP 0] { ?x ?y ?z }", "longer than nothing", 1, 40),
        ("SELECT * FROM STREAM <s> [RANGE] { ?x ?y ?z }", "needs a duration", 1, 32),
        ("SELECT * FROM STREAM <s> [RANGE soon] { ?x ?y ?z }", "not a duration: 'soon'", 1, 33),
        ("SELECT * FROM STREAM <s> [RANGE P1M] { ?x ?y ?z }", "years or months", 1, 33),
        ("SELECT * FROM STREAM <s> [SLIDE 5] { ?x ?y ?z }", "a window is", 1, 27),
        ("SELECT * FROM STREAM <s> [NOW 5] { ?x ?y ?z }", "expected ]", 1, 31),
        ("SELECT * FROM NAMED WINDOW <w> <s> { WINDOW <w> { ?x ?y ?z } }", "expected ON", 1, 32),
        ("SELECT * { WINDOW <w> { ?x ?y ?z } }", "no FROM NAMED WINDOW declares the window <w>", 1, 12),
        (
            "SELECT * FROM NAMED WINDOW <w> ON <s> FROM NAMED WINDOW <w> ON <t> { WINDOW <w> { ?x ?y ?z } }",
            "declared twice",
            1,
            57,
        ),
        ("SELECT * FROM NAMED WINDOW <w> ON <s> { ?x ?y ?z }", "no FROM STREAM fills it", 1, 41),
        ("CONSTRUCT { ?x <a:p>/<a:q> ?y } { ?x ?p ?y }", "'/'; a template is made of triples alone", 1, 21),
        ("CONSTRUCT {\n ?x ^<a:p> ?y }\n{ ?x ?p ?y }", "'^'; a template is", 2, 5),
        ("CONSTRUCT { ?x ?p ?y FILTER(?x = ?y) } { ?x ?p ?y }", "'FILTER'; a template is", 1, 22),
        ("CONSTRUCT { GRAPH <a:g> { ?x ?p ?y } } { ?x ?p ?y }", "'<a:g>'; a template is", 1, 19),
        ("CONSTRUCT { ?x _:p ?y } { ?x ?p ?y }", "'_:p'; a template is", 1, 16),
        ("CONSTRUCT { ?x e:p ?y } { ?x ?p ?y }", "unknown prefix 'e:'", 1, 16),
        ("CONSTRUCT { ?x ?p <rel> } { ?x ?p ?y }", "<rel> is relative", 1, 19),
        ("CONSTRUCT WHERE { ?x ?p ?y FILTER(?x = <a:a>) }", "'FILTER'; expected", 1, 28),
        ("CONSTRUCT WHERE { { ?x ?p ?y } }", "'{'", 1, 19),
        ("CONSTRUCT { ?x ?p ?y } REGISTER QUERY q AS { ?x ?p ?y }", "before its SELECT or CONSTRUCT", 1, 24),
        ("SELECT ISTREAM ?x FROM STREAM <s> { ?x ?y ?z }", "write REGISTER ISTREAM <out> AS", 1, 8),
        (
            "REGISTER QUERY q COMPUTED EVERY AS SELECT * FROM STREAM <s> { ?x ?y ?z }",
            "needs a duration",
            1,
            33,
        ),
        ("REGISTER <o> AS SELECT * FROM STREAM <s> { ?x ?y ?z }", "expected RSTREAM", 1, 10),
        ("REGISTER RSTREAM AS SELECT * FROM STREAM <s> { ?x ?y ?z }", "the output stream", 1, 18),
        ("SELECT * REGISTER QUERY q AS FROM STREAM <s> { ?x ?y ?z }", "before its SELECT", 1, 10),
        ("SELECT *\r{ ?x ?y ?z .\r\n  FILTER }", "'}'", 3, 10),
        ("SELECT * { { _:b ?y ?z } { _:b ?y ?w } }", "_:b is used in two groups", 1, 32),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_written(text, reason, line, column):
    error = refusal(text)
    assert not isinstance(error, UnsupportedError)
    assert reason in error.reason
    assert (error.line, error.column) == (line, column)


def test_a_query_that_names_no_stream_needs_one():
    assert "names no stream" in refusal("SELECT * { ?x ?y ?z }", stream=None).reason


def test_text_that_is_not_utf_8_is_refused():
    error = refusal(b"SELECT *\n{ ?x ?y '\xff' }")
    assert str(error) == "q.rq:2: this is not UTF-8 text"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * " + "{" * 2000 + "}" * 2000,
        "SELECT * { ?x ?y ?z FILTER" + "(" * 2000 + "?x" + ")" * 2000 + "}",
        "SELECT * { ?x ?y " + "[ ?y " * 2000 + "?z" + "]" * 2000 + "}",
        "SELECT * { ?x ?y " + "(" * 2000 + "?z" + ")" * 2000 + "}",
        "CONSTRUCT { ?x ?y " + "[ ?y " * 2000 + "?z" + "]" * 2000 + "} { ?x ?y ?z }",
    ],
)
def test_hostile_nesting_is_an_error_and_no_stack_trace(text):
    assert refusal(text).reason == "the query is nested more than 300 levels deep"
