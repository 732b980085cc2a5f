"""The worked examples of the thesis (part III, chapter 8), with a note where a printed result is not the defined one.

Events carry times in milliseconds. The thesis evaluates over time boundaries [b, e]; here the events are those within.
"""

from __future__ import annotations

import re

import pytest

from thalweg import Session

HOUSE, WEATHER, STORAGE = "http://ex/house", "http://ex/weather", "http://ex/storage"
DATABASE = "http://harbour.org/db"
PREFIX = "PREFIX : <http://ex/>"
DATA = "@prefix : <http://ex/> . "
ATOMS = {
    "A": "DEFINE GPM A ON S1 { ?h :pow ?p . ?h :loc ?l }",
    "B": "DEFINE GPM B ON S2 { ?w :value ?v . ?w :loc ?l }",
    "N": "DEFINE GPM N ON S2 { ?w :value ?v . ?w :loc ?l FILTER(?v = :Vl3) }",
    "C": "DEFINE GPM C ON S3 { ?p :status ?s . ?p :loc ?l }",
}
STREAMS = f"FROM STREAM S1 <{HOUSE}> FROM STREAM S2 <{WEATHER}> FROM STREAM S3 <{STORAGE}>"
Events = list[tuple[str, int, str]]
EXAMPLE_14: Events = [
    (HOUSE, 10, ":H1 :pow :Pw1 ; :loc :L1 ."),
    (STORAGE, 15, ":Pw1 :status :off ; :loc :L1 ."),
    (WEATHER, 20, ":W1 :value :Vl1 ; :loc :L1 ."),
    (HOUSE, 25, ":H2 :pow :Pw2 ; :loc :L5 ."),
    (STORAGE, 30, ":Pw1 :status :off ; :loc :L1 ."),
    (WEATHER, 40, ":W2 :value :Vl2 ; :loc :L8 ."),
]


def answers(
    sequence: str, atoms: str, events: Events, *, within: int = 50, select: str = "*"
) -> list[tuple[int, str]]:
    query = f"{PREFIX} SELECT {select} WITHIN {within} MILLISECONDS {STREAMS} WHERE {{ SEQ ({sequence})\n"
    return matches(query + " ".join(ATOMS[name] for name in atoms) + " }", events)


def matches(query: str, events: Events, static: str = "") -> list[tuple[int, str]]:
    """The matches, which are the same in both layouts of the clause that the thesis prints."""
    found = matches_of(query, events, static)
    outside = re.sub(r"WHERE \{\s*SEQ (\(.*\)+)", r"WHERE SEQ \1 {", query, count=1)
    assert outside != query
    assert matches_of(outside, events, static) == found
    return found


def matches_of(query: str, events: Events, static: str) -> list[tuple[int, str]]:
    """The matches: their times, and their values as local names."""
    session = Session()
    if static:
        session.load(DATA + static, graph=DATABASE, format="turtle")
    asked = session.register(query)
    for stream, time, graph in sorted(events, key=lambda event: event[1]):
        session.push(stream, at=time, graph=DATA + graph, format="turtle")
    session.finish(drain=True)
    return [
        (
            int(row.at) // 1000,
            " ".join(
                str(row.get(name)).removeprefix("<http://ex/").removesuffix(">") for name in asked.names
            ),
        )
        for row in asked.poll()
    ]


def test_example_13_an_atom_alone() -> None:
    events = [(HOUSE, 10, ":H1 :pow :Pw1 ; :loc :L1 .")]
    assert answers("A", "A", events) == [(10, "H1 Pw1 L1")]


def test_example_14_followed_by_skips_other_events() -> None:
    assert answers("A ; B", "AB", EXAMPLE_14) == [(20, "H1 Pw1 L1 W1 Vl1")]


def test_example_15_immediately_followed_by_sees_the_event_of_a_stream_that_no_atom_reads() -> None:
    """The formula of the example is printed with `;`; its text is about `,`."""
    assert answers("A , B", "AB", EXAMPLE_14) == []


def test_example_16_a_last_negation_keeps_the_match() -> None:
    """The thesis prints the time 20, the end of the boundaries [10, 20]; by the definition here it is first + d."""
    events = [event for event in EXAMPLE_14 if event[1] <= 20]
    assert answers("A ; N!", "AN", events, within=10) == [(20, "H1 Pw1 L1")]


def test_example_17_an_option_gives_both() -> None:
    """The thesis says that the result is that of Example 14 alone. By its Definition 8.10 without the atom it has a
    negation; here it is left out, and the match without it is reported, too.
    """
    events = [event for event in EXAMPLE_14 if event[1] <= 20]
    assert answers("A ; B?", "AB", events) == [(10, "H1 Pw1 L1 None None"), (20, "H1 Pw1 L1 W1 Vl1")]
    assert answers("A ; N?", "AN", events) == [(10, "H1 Pw1 L1 None None")]


def test_example_18_a_repetition_has_every_run() -> None:
    """The thesis prints the longest run only, in one mapping; by Definition 8.11 shorter ones match, too."""
    events = [
        (HOUSE, 10, ":H1 :pow :Pw1 ; :loc :L1 ."),
        (WEATHER, 15, ":W1 :value :Vl1 ; :loc :L1 ."),
        (WEATHER, 20, ":W1 :value :Vl2 ; :loc :L1 ."),
    ]
    select = "?h ?v (COUNT(?v) AS ?n)"
    found = answers("A ; B+", "AB", events, select=select)
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    wanted = [(15, "H1 Vl1", 1), (20, "H1 Vl2", 2), (20, "H1 Vl2", 1)]
    assert sorted(found) == sorted((time, f'{row} "{n}"^^<{integer}') for time, row, n in wanted)


def test_example_19_a_conjunction_is_at_one_timestamp() -> None:
    events = [
        (HOUSE, 10, ":H1 :pow :Pw1 ; :loc :L1 ."),
        (WEATHER, 10, ":W1 :value :Vl1 ; :loc :L1 ."),
        (WEATHER, 20, ":W1 :value :Vl2 ; :loc :L1 ."),
        (HOUSE, 25, ":H2 :pow :Pw2 ; :loc :L5 ."),
    ]
    assert answers("(A <> B)", "AB", events) == [(10, "H1 Pw1 L1 W1 Vl1")]


def test_example_20_a_disjunction_takes_either() -> None:
    """The formula has P3 for the pattern of u2; P2 is meant. PW1 and Pw1 are one node."""
    events = [
        (STORAGE, 15, ":Pw1 :status :on ; :loc :L1 ."),
        (WEATHER, 20, ":W1 :value :V11 ; :loc :L1 ."),
        (HOUSE, 22, ":H1 :pow :Pw1 ; :loc :L1 ."),
        (HOUSE, 25, ":H2 :pow :Pw2 ; :loc :L5 ."),
    ]
    assert answers("(A | C) ; B", "ACB", events, select="?p ?s ?w ?v") == [(20, "Pw1 on W1 V11")]


def test_example_21_a_query_projects_the_joined_mapping() -> None:
    """The thesis prints two parts at 10 and 15; by Definition 8.7 the match is one mapping at 15."""
    events = [
        (HOUSE, 10, ":H1 :pow :Pw1 ; :loc :L1 ."),
        (WEATHER, 15, ":W1 :value :Vl1 ; :loc :L1 ."),
        (HOUSE, 25, ":H2 :pow :Pw2 ; :loc :L5 ."),
        (WEATHER, 40, ":W2 :value :Vl2 . :W1 :loc :L8 ."),
    ]
    assert answers("A ; B", "AB", events, select="?h ?p ?v") == [(15, "H1 Pw1 Vl1")]


def test_query_8_2_uc_1_smart_grid() -> None:
    """The blank constants :Pw and :Vl of the text are nodes of the data here."""
    query = f"""{PREFIX} SELECT ?house ?fr1 ?fr2
WITHIN 30 MINUTES
FROM STREAM S1 <{HOUSE}>
FROM STREAM S2 <{WEATHER}>
FROM STREAM S3 <{STORAGE}>
WHERE {{
  SEQ (A; B+, C)
  DEFINE GPM A ON S1 {{ ?house :loc ?l. ?house :pow :Pw. :Pw :source ?s1. :Pw :fare ?fr1.
    FILTER(?s1 = 'fuel' && ?fr1 > 20). }}
  DEFINE GPM B ON S2 {{ ?wther :loc ?l. ?wther :value :Vl. :Vl :light ?lt. :Vl :windsp ?sp.
    FILTER (?sp > 3 && ?lt > 40). }}
  DEFINE GPM C ON S3 {{ ?storage :loc ?l. ?storage :pow :Pw. :Pw :source ?s2. :Pw :fare ?fr2.
    FILTER (?s2 = 'solar' && ?fr2 < ?fr1). }}
}}"""
    events = [
        (HOUSE, 1, ":H1 :loc :L1 ; :pow :Pw . :Pw :source 'fuel' ; :fare 25 ."),
        (WEATHER, 2, ":W1 :loc :L1 ; :value :Vl . :Vl :light 50 ; :windsp 5 ."),
        (WEATHER, 3, ":W1 :loc :L1 ; :value :Vl . :Vl :light 60 ; :windsp 4 ."),
        (STORAGE, 4, ":S1 :loc :L1 ; :pow :Pw . :Pw :source 'solar' ; :fare 22 ."),
        (STORAGE, 5, ":S1 :loc :L1 ; :pow :Pw . :Pw :source 'solar' ; :fare 30 ."),
    ]
    found = matches(query, events)
    assert [time for time, _ in found] == [4, 4]  # with both events of the weather, and with the last one
    assert all(row.startswith("H1") for _, row in found)


def test_query_8_3_uc_2_v_shape() -> None:
    """The text defines C on S3, which no FROM STREAM declares: that is refused. S1 is meant."""
    query = f"""PREFIX pred: <http://ex/> SELECT ?company ?p1 ?p2 ?p3 ?vol1 ?vol2 ?vol3
WITHIN 30 MINUTES
FROM STREAM S1 <{HOUSE}>
WHERE {{
  SEQ (A, B+, C)
  DEFINE GPM A ON S1 {{ ?company pred:price ?p1. ?company pred:volume ?vol1. }}
  DEFINE GPM B ON S1 {{ ?company pred:price ?p2. ?company pred:volume ?vol2. Filter (?p2 < ?p1 ) }}
  DEFINE GPM C ON S3 {{ ?company pred:price ?p3. ?company pred:volume ?vol3. Filter (?p3 > ?p2 && ?p3 > ?p1). }}
}}"""
    with pytest.raises(Exception, match="declares the stream S3"):
        matches(query, [])
    prices = [10, 7, 5, 12, 3]
    events = [(HOUSE, k, f":c :price {price} ; :volume 1 .") for k, price in enumerate(prices)]
    assert [time for time, _ in matches(query.replace("S3", "S1"), events)] == [3, 3]  # 10 7 5 12 and 7 5 12


def test_query_8_4_uc_3_trajectories() -> None:
    """The text defines C on S3, where S1 is meant, and writes :name without a prefix of that name: pred:name.

    It selects ?cname, the name of the company; ?vessel pred:name and ?company pred:name are in the database.
    """
    query = f"""PREFIX pred: <http://ex/> SELECT ?vessel ?n ?cname
WITHIN 30 MINUTES
FROM STREAM S1 <{HOUSE}>
WHERE {{
  SEQ (A, B+, C)
  DEFINE GPM A ON S1 {{ ?vessel pred:speed ?s1. ?vessel pred:location ?loc1. ?vessel pred:direction ?dir1.
    Filter (?loc1 = 'harbour' && ?s1 > 0 ) }}
  DEFINE GPM B ON S1 {{ ?vessel pred:speed ?s2. ?vessel pred:location ?loc2. ?vessel pred:direction ?dir2.
    Filter (?dir1 = ?dir2 && ?s2 > ?s1) }}
  DEFINE GPM C ON S1 {{ ?vessel pred:speed ?s3. ?vessel pred:location ?loc3. ?vessel pred:direction ?dir3.
    GRAPH <{DATABASE}> {{ ?vessel pred:name ?n. ?vessel pred:operatedBy ?company. ?company pred:name ?cname. }}
    Filter (?loc3 = 'fishingarea' && ?s3 = 0). }}
}}"""
    way = [("harbour", 2, "north"), ("sea", 5, "north"), ("sea", 7, "north"), ("fishingarea", 0, "west")]
    events = [
        (HOUSE, k, f":v1 :speed {speed} ; :location '{place}' ; :direction '{to}' .")
        for k, (place, speed, to) in enumerate(way)
    ]
    static = ":v1 :name :Dory ; :operatedBy :fleet . :fleet :name :Fishers ."
    assert matches(query, events, static) == [(3, "v1 Dory Fishers")]
    turned = [*events[:2], (HOUSE, 2, events[2][2].replace("north", "south")), events[3]]
    assert matches(query, turned, static) == []
    # A vessel that the database does not have is no match.
    assert matches(query, events, ":v2 :name :Other .") == []


def test_query_8_5_uc_4_inventory() -> None:
    """The text filters ?st1 in C, where ?st3 is meant, and defines C on S3, where S1 is meant."""
    query = f"""PREFIX pred: <http://ex/> CONSTRUCT S2 <http://ex/newStream> {{
  ?inst pred:InRoom ?r3. ?inst pred:status "non-disinfection"@en. ?inst pred:name ?n1. }}
WITHIN 60 MINUTES
FROM STREAM S1 <{HOUSE}>
WHERE {{
  SEQ (A, B!, C)
  DEFINE GPM A ON S1 {{ ?inst pred:name ?n1. ?inst pred:status ?st1. Filter (?st1 = 'recycled') }}
  DEFINE GPM B ON S1 {{ ?inst pred:status ?st2. Filter (?st2 = 'disinfected') }}
  DEFINE GPM C ON S1 {{ ?inst pred:InRoom ?r3. ?inst pred:name ?n1. ?inst pred:status ?st3. Filter (?st3 = 'can use') }}
}}"""
    clean = [
        (HOUSE, 1, ":i :name :n ; :status 'recycled' ."),
        (HOUSE, 2, ":i :status 'disinfected' ."),
        (HOUSE, 3, ":i :InRoom :r ; :name :n ; :status 'can use' ."),
    ]
    assert matches(query, clean) == []
    assert len(matches(query, [clean[0], (HOUSE, 2, ":other :status 'disinfected' ."), clean[2]])) == 3
    assert len(matches(query, [clean[0], clean[2]])) == 3


def test_query_8_8_uc_3_boats() -> None:
    query = f"""{PREFIX} SELECT ?s1 ?s2 WITHIN 30 MINUTES FROM STREAM S1 <{HOUSE}> WHERE {{
  SEQ (A; B)
  DEFINE GPM A ON S1 {{ ?boat :direction ?d1. ?boat :speed ?s1. Filter (?d1 = 'south') }}
  DEFINE GPM B ON S1 {{ ?boat :direction ?d2. ?boat :speed ?s2. Filter (?d2 = 'north') }}
}}"""
    events = [
        (HOUSE, 1, ":b :direction 'south' ; :speed 60 ."),
        (HOUSE, 2, ":b :direction 'north' ; :speed 70 ."),
    ]
    assert [time for time, _ in matches(query, events)] == [2]


# Queries 8.6 and 8.7 are EP-SPARQL: tests/unit/operators/test_epsparql_in_session.py.
