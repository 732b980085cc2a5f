"""EP-SPARQL as text: what is recognised, what it is translated to, and what is refused where."""

from __future__ import annotations

import pytest

from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

HEAD = "PREFIX : <http://ex/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
FROM = "SELECT * FROM STREAM <http://ex/s> [RANGE 10s]\n"


def shown(where: str, head: str = FROM) -> str:
    query = parse(f"{HEAD}{head}WHERE {{ {where} }}")
    assert query.language == "EP-SPARQL"
    assert query.sequence is not None
    return str(query.sequence.pattern)


@pytest.mark.parametrize(
    ("where", "pattern"),
    [
        ("{?x :p ?a} SEQ {?x :p ?b} SEQ {?x :q ?c}", "P1 ; P2 ; P3"),
        ("SEQ {?x :p ?a} SEQ {?x :p ?b}", "P1 ; P2"),
        ("?x :p ?a EQUALS {?x :q ?b}", "(P1 <> P2)"),
        ("?x :p ?a . ?x :q ?c SEQ {?x :p ?b}", "P1 ; P2"),
        ("{?x :p ?a} OPTIONALSEQ {?x :p ?b}", "(P1 ; P2 | P1 ;; P2!)"),
        ("{?x :p ?a} EQUALSOPTIONAL {?x :p ?b}", "((P1 <> P2) | P1 = P2!)"),
        (
            "{{?x :p ?a} SEQ {?x :p ?b}} EQUALS {{?x :q ?c} SEQ {?x :q ?d} SEQ {?x :q ?e}}",
            "(P1 <> P3) ; P4 ; (P2 <> P5)",
        ),
        ("{?x :p ?a} UNION {{?x :p ?b} SEQ {?x :q ?c}}", "(P1 | P2 ; P3)"),
        ("{{?x :p ?a} UNION {?x :q ?a}} SEQ {?x :q ?c}", "P1 ; P2"),
        ("{?x :p ?a} SEQ {?x :p ?b} {?x :q ?c}", None),
        (
            "{{?x :p ?a} SEQ {?x :p ?c}} EQUALSOPTIONAL {{?x :p ?a} SEQ {?x :q ?b} SEQ {?x :p ?c .}}",
            "((P1 <> P3) ; P4 ; (P2 <> P5) | P1 ; P4! ; P2)",
        ),
    ],
)
def test_a_pattern_is_the_orders_of_its_events(where: str, pattern: str | None) -> None:
    found = shown(where)
    if pattern is None:  # a join says nothing about time: before, with, between, with, after
        assert found == "(P1 ; P2 ; P3 | P1 ; P3 ; P2 | P1 ; (P2 <> P3) | P3 ; P1 ; P2 | (P1 <> P3) ; P2)"
    else:
        assert found == pattern


@pytest.mark.parametrize(
    ("condition", "length"),
    [
        ('getDURATION() < "PT2S"^^xsd:duration', 1_999_999),
        ('"PT2S"^^xsd:dayTimeDuration >= getDURATION()', 2_000_000),
        ('getduration( ) < "P2S"^^xsd:duration', 1_999_999),
        ('getDURATION() < "P1D"^^xsd:duration', 9_999_999),
        ('?a > 1 && getDURATION() < "P1H"^^xsd:duration && getDURATION() < "PT1S"^^xsd:duration', 999_999),
    ],
)
def test_an_upper_bound_of_the_duration_is_the_window(condition: str, length: int) -> None:
    query = parse(f"{HEAD}{FROM}WHERE {{ {{?x :p ?a}} SEQ {{?x :p ?b}} FILTER({condition}) }}")
    assert query.sequence is not None
    assert query.sequence.within == length


def test_a_query_without_a_stream_reads_the_one_that_is_given() -> None:
    text = f'{HEAD}SELECT*{{{{?x :p ?a}}SEQ{{?x :p ?b}}FILTER(getDURATION()<"PT5S"^^xsd:duration)}}'
    assert parse(text, stream="http://ex/given").streams == ("http://ex/given",)
    with pytest.raises(QueryError, match="names no stream"):
        parse(text)


def test_filters_are_asked_as_early_as_their_variables_are_bound() -> None:
    query = parse(
        f"{HEAD}{FROM}WHERE {{ {{?x :p ?a}} SEQ {{?x :p ?b}} SEQ {{?x :p ?c}} "
        'FILTER(?b < ?a && ?c > ?b && getDURATION() > "PT1S"^^xsd:duration) }'
    )
    assert query.sequence is not None
    assert [len(atom.conditions) for atom in query.sequence.atoms] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("SELECT * FROM STREAM :s { {?x :p ?a} SEQ {?x :p ?b} }", "2:25", "needs a window"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} } LIMIT 5", "3:31", "no modifiers"),
        ("ASK { {?x :p ?a} SEQ {?x :p ?b} }", "2:1", "SELECT or CONSTRUCT"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} OPTIONAL {?x :q ?c} }", "3:29", "behind a temporal operator"),
        (FROM + "{ {?x :p ?a} OPTIONALSEQ { {?x :p ?b} SEQ {?x :q ?c} } }", "3:14", "one event"),
        (FROM + "{ OPTIONAL { {?x :p ?a} SEQ {?x :p ?b} } }", "3:12", "inside OPTIONAL"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b FILTER(?b > ?a)} }", "3:28", "move it to the group around"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} FILTER(?z > ?a) }", "3:29", "which no pattern binds"),
        (
            FROM + '{ {?x :p ?a} SEQ {?x :p ?b} FILTER(getDURATION() < "P30M"^^xsd:duration) }',
            "3:29",
            "PT10M",
        ),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} FILTER(getDURATION() < 10) }", "3:29", "with a duration"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} FILTER(getDURATION(?a) > 1) }", "3:36", "no argument"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} FILTER NOT EXISTS {?x :q ?c} }", "3:29", "EXISTS"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} FILTER(NOW() > ?a) }", "3:29", "groups of one event"),
        (FROM + "{ {?x :p ?a} SEQ {} }", "3:18", "needs a triple"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p} }", "3:24", "syntax error"),
        (FROM + "{ OPTIONALSEQ {?x :p ?b} }", "3:3", "on its left"),
        (FROM + "{ {?x :p ?a} SEQ {?x :p ?b} ?x :q ?c EQUALS ?x :r ?d }", "3:38", "needs a group"),
        (FROM + "{ { {?x :p ?a} SEQ {?x :p ?b} } EQUALS {?x :q ?c} }", "3:5", "no solution"),
        (
            FROM + f"{{ {' '.join(f'{{ {{?x :p ?a{k}}} SEQ {{?x :q ?b{k}}} }}' for k in range(5))} }}",
            "3:5",
            "1,000 orders",
        ),
        (
            "SELECT * FROM STREAM :s [RANGE 10s STEP 5s] { {?x :p ?a} SEQ {?x :p ?b} }",
            "2:25",
            "window of a temporal pattern slides",
        ),
        ("REGISTER RSTREAM :o AS " + FROM + "{ {?x :p ?a} SEQ {?x :p ?b} }", "2:1", "each match once"),
        (
            "REGISTER STREAM :s AS CONSTRUCT {?x :q ?a} FROM STREAM :s [RANGE 1s] { {?x :p ?a} SEQ {?x :p ?b} }",
            "2:17",
            "derived from itself",
        ),
        (
            FROM + "{ {?x :p ?a} OPTIONALSEQ {?x :p ?z} SEQ {?x :q ?z} }",
            "3:26",
            "bound elsewhere, and not on its left",
        ),
        (
            FROM + "{ {?x :p ?z} SEQ { {?x :p ?b} SEQ {?x :p ?c} FILTER(!BOUND(?z)) } }",
            "3:46",
            "move the FILTER",
        ),
    ],
)
def test_what_is_not_supported_is_refused_where_it_is_written(text: str, place: str, reason: str) -> None:
    with pytest.raises((QueryError, UnsupportedError), match=reason) as caught:
        parse(HEAD + text)
    assert f":{place}:" in str(caught.value)
