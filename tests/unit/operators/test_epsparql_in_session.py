"""EP-SPARQL in a session: worked examples, those of the thesis (queries 5.1, 8.1, 8.6, 8.7, A.18) among them."""

from __future__ import annotations

import pytest

from thalweg import Session
from thalweg.rows import Row

EX = "http://ex/"
STREAM = f"{EX}main"
PREFIXES = f"PREFIX : <{EX}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


def answer(text: str, *events: tuple[int, str], stream: str = STREAM) -> list[Row]:
    """The rows of a query; events are seconds and triples."""
    session = Session()
    query = session.register(PREFIXES + text, stream=stream)
    for second, triples in events:
        session.push(stream, at=1000 * second, graph=f"@prefix : <{EX}> . {triples} .", format="turtle")
    session.finish(drain=True)
    return query.poll()


def values(rows: list[Row], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.value(name) if row.get(name) else None for name in names) for row in rows]


SMOKE = ((0, ":a1 :hasTemp 60"), (1, ":a2 :hasTemp 70"), (2, ':a1 :hasSmoke "yes"'), (3, ":a1 :hasTemp 80"))


def test_query_5_1_smoke_after_a_high_temperature() -> None:
    # The thesis prints no window; FROM STREAM has it here. The leading SEQ and WHERE without braces are as printed.
    rows = answer(
        f"""SELECT ?temp ?area FROM STREAM <{STREAM}> [RANGE 1m]
        WHERE
            SEQ {{ ?area :hasTemp ?temp. }}
            SEQ {{ ?area :hasSmoke ?smoke. }}
            Filter (?temp > 50)""",
        *SMOKE,
    )
    assert values(rows, "temp") == [(60,)]


BOATS = """SELECT ?s1 ?s2
    WHERE
      SEQ {{ ?boat :direction ?d1. {0} ?boat :speed ?s1. {1} }}
      SEQ {{ ?boat :direction ?d2. {0} ?boat :speed ?s2. {1} }}
    Filter (?d1 = "south" && ?d2= "north" && getDURATION() < "PT30M"^^xsd:duration)"""
GRAPHS = ((0, ':b1 :direction "south"; :speed 60'), (60, ':b1 :direction "north"; :speed 70'))
TRIPLES = (
    (0, ':b1 :direction "south"'),
    (1, ":b1 :speed 60"),
    (60, ':b1 :direction "north"'),
    (61, ":b1 :speed 70"),
)


def test_query_8_6_boats_with_sequences_of_groups() -> None:
    # The thesis prints "P30M", which is 30 months in XML Schema, and a closing parenthesis too many.
    text = BOATS.format("", "")
    assert values(answer(text, *GRAPHS), "s1", "s2") == [(60, 70)]
    # As the thesis says, there is no match where each triple is an event of its own.
    assert answer(text, *TRIPLES) == []


def test_query_8_7_boats_with_equals() -> None:
    text = BOATS.format("EQUALS {", "}")
    assert values(answer(text, *GRAPHS), "s1", "s2") == [(60, 70)]
    # Triples of one timestamp may come in events of their own.
    apart = [(second, f":b1 {pair}") for second, graph in GRAPHS for pair in graph[4:].split("; ")]
    assert values(answer(text, *apart), "s1", "s2") == [(60, 70)]
    assert answer(text, *TRIPLES) == []


def test_query_a_18_the_v_shape() -> None:
    text = """SELECT ?company ?p1 ?p2 ?p3 ?v1 ?v2 ?v3
    WHERE
      SEQ {?company :price ?p1 EQUALS {?company :volume ?v1 } }
      SEQ {?company :price ?p2 EQUALS {?company :volume ?v2 } }
      SEQ {?company :price ?p3 EQUALS {?company :volume ?v3 } }
    Filter (?p2 < ?p1 && ?p3 > ?p2 && ?p3 > ?p1 && getDURATION() < "P10S"^^xsd:duration )"""
    prices = [(k, f":c :price {price}; :volume {k}") for k, price in enumerate([10, 8, 9, 12])]
    assert sorted(values(answer(text, *prices), "p1", "p2", "p3")) == [(10, 8, 12), (10, 9, 12)]
    later = [(4 * k, graph) for k, (_, graph) in enumerate(prices)]
    assert answer(text, *later) == []


def test_query_8_1_the_negation_of_ep_sparql() -> None:
    # The thesis' query derives from its own result, which is refused; its negation is tested with another head.
    text = """SELECT ?count ?price
    WHERE { { { ?point :hasCount ?count } SEQ { :ACME :hasStockPrice ?price } }
            EQUALSOPTIONAL
            { { ?point :hasCount ?count } SEQ { :ACME :hasStockPrice ?inbetween } SEQ { :ACME :hasStockPrice ?price } }
    FILTER ( !BOUND(?inbetween) && getDURATION() < "P10D"^^xsd:duration ) }"""
    events = (
        (0, ":x :hasCount 1"),
        (1, ":ACME :hasStockPrice 5"),
        (2, ":ACME :hasStockPrice 6"),
        (3, ":x :hasCount 2"),
        (4, ":ACME :hasStockPrice 7"),
    )
    assert values(answer(text, *events), "count", "price") == [(1, 5), (2, 7)]


@pytest.mark.parametrize(
    ("operator", "found", "seconds"),
    [
        ("SEQ", [(1, 2), (1, 3)], [1, 4]),
        ("EQUALS", [(1, 9)], [0]),
        ("OPTIONALSEQ", [(1, 2), (1, 3), (4, None)], [1, 4, 8]),
        ("EQUALSOPTIONAL", [(1, 9), (4, None)], [0, 3]),
    ],
)
def test_each_operator(operator: str, found: list[tuple[int, int | None]], seconds: list[int]) -> None:
    text = f"""SELECT ?a ?b FROM STREAM <{STREAM}> [RANGE 5s]
    WHERE {{ {{ ?x :p ?a }} {operator} {{ ?x :q ?b }} }}"""
    events = (
        (0, ":x :p 1"),
        (0, ":x :q 9"),
        (1, ":x :q 2"),
        (3, ":x2 :p 4"),
        (4, ":x :q 3"),
        (5, ":x :q 5"),  # not shorter than 5 seconds after the first event
    )
    rows = answer(text, *events)
    assert values(rows, "a", "b") == found
    # What an optional pattern did not find is known when the window has passed.
    assert [-(-int(row.at) // 1_000_000) for row in rows] == seconds


def test_the_interval_of_a_match_can_be_selected() -> None:
    rows = answer(
        f"""SELECT (getSTARTTIME() AS ?s) (getENDTIME() AS ?e) (getDURATION() AS ?d)
        FROM STREAM <{STREAM}> [RANGE 1m]
        WHERE {{ {{ ?x :p ?a }} SEQ {{ {{ ?x :p ?b }} SEQ {{ ?x :p ?c }}
                FILTER(getDURATION() > "PT1S"^^xsd:duration) }} }}""",
        *((second, f":x :p {second}") for second in (0, 2, 3, 5)),
    )
    shown = sorted(tuple(str(row[name]).split('"')[1][-9:] for name in "sed") for row in rows)
    assert shown == [
        ("00:00:00Z", "00:00:05Z", "PT5S"),
        ("00:00:00Z", "00:00:05Z", "PT5S"),
        ("00:00:02Z", "00:00:05Z", "PT3S"),
    ]


def test_a_derived_stream_feeds_another_query() -> None:
    session = Session()
    session.register(
        f"""{PREFIXES} REGISTER STREAM <{EX}falls> AS CONSTRUCT {{ ?c :fell ?b }} FROM STREAM <{STREAM}> [RANGE 10s]
        WHERE {{ {{ ?c :price ?a }} SEQ {{ ?c :price ?b }} FILTER(?b < ?a) }}"""
    )
    twice = session.register(
        f"""{PREFIXES} SELECT ?c ?b FROM STREAM <{EX}falls> [RANGE 10s]
        WHERE {{ {{ ?c :fell ?a }} SEQ {{ ?c :fell ?b }} }}"""
    )
    for second, price in enumerate([5, 4, 4, 3]):
        session.push(STREAM, at=1000 * second, graph=[(f"{EX}c", f"{EX}price", price)])
    session.finish(drain=True)
    assert sorted(values(twice.poll(), "b")) == [(3,)] * 6 + [(4,)]


def test_groups_see_static_data() -> None:
    session = Session()
    session.load(f"<{EX}c> <{EX}in> <{EX}index> .", graph=f"{EX}g", format="nt")
    query = session.register(
        f"""{PREFIXES} SELECT ?c ?b FROM STREAM <{STREAM}> [RANGE 10s]
        WHERE {{ {{ ?c :price ?a }} SEQ {{ ?c :price ?b . GRAPH :g {{ ?c :in :index }} }} }}"""
    )
    for second, name in enumerate("cdcd"):
        session.push(STREAM, at=1000 * second, graph=[(f"{EX}{name}", f"{EX}price", second)])
    session.finish()
    assert values(query.poll(), "b") == [(2,)]
