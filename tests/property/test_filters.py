"""Filters against pyoxigraph: equalities, also those that leave no solution, in every form, window and operator."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.testing.strategies import close_iris

S = "http://ex/s"
TERMS = ("<x:a>", "<x:b>", '"a"', '"a"@en', '"b"')
NODES = TERMS[:2]
PREDICATES = ("<x:p>", "<x:q>", NODES[0])
VARIABLES = ("?x", "?y", "?z", "?v", "?nowhere")
triples = st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(TERMS))
patterns = st.tuples(
    st.sampled_from(["?x", "?x", "?y", NODES[0]]),
    st.sampled_from([*PREDICATES, "?v"]),
    st.sampled_from(["?y", "?z", "?x", *TERMS[:3]]),
).map(lambda terms: f"{' '.join(terms)} .")


_variables = st.sampled_from(VARIABLES)
_pairs = st.tuples(_variables, st.sampled_from(TERMS)).flatmap(lambda two: st.sampled_from([two, two[::-1]]))
comparisons = st.one_of(
    _pairs.map(lambda two: f"{two[0]} = {two[1]}"),
    _pairs.map(lambda two: f"({two[0]} = {two[1]})"),
    _pairs.map(lambda two: f"sameTerm({two[0]}, {two[1]})"),
    _variables.map(lambda name: f"sameTerm({name}, {name})"),
    st.sampled_from(["?v = ?v", "?nowhere = ?x", "?nowhere < 5", "?nowhere != <x:a>", "?nowhere"]),
)
filters = st.lists(comparisons, min_size=1, max_size=2).map(lambda parts: f"FILTER({' && '.join(parts)})")
groups = st.tuples(
    st.lists(patterns, min_size=1, max_size=2), st.lists(filters, max_size=2), st.booleans()
).map(lambda parts: " ".join([*parts[1], *parts[0]] if parts[2] else [*parts[0], *parts[1]]))
bodies = groups | st.tuples(groups, groups).map(lambda two: f"{two[0]} {{ {two[1]} }}")
forms = st.sampled_from(
    [
        "SELECT *",
        "SELECT ?x ?nowhere",
        "SELECT DISTINCT ?y",
        "CONSTRUCT { ?x <x:made> ?y . <x:a> <x:made> 'so' }",
    ]
)
windows = st.sampled_from(
    ["", "[RANGE 10s]", "[RANGE 10s STEP 5s]", "[NOW]", "[ELEMENTS 3 STEP 1]", "[TRIPLES 99 STEP 1]"]
)
operators = st.sampled_from(
    ["", "REGISTER ISTREAM <x:out> AS ", "REGISTER RSTREAM <x:out> AS ", "REGISTER QUERY q AS "]
)


def expected(form: str, body: str, data: list[tuple[str, str, str]]) -> Counter[tuple[str, ...]]:
    store = ox.Store()
    store.load("".join(f"{' '.join(triple)} .\n" for triple in data).encode(), format=ox.RdfFormat.N_TRIPLES)
    found = store.query(f"{form} WHERE {{ {body} }}")
    if isinstance(found, ox.QueryTriples):
        made = {
            tuple(sorted(zip(("subject", "predicate", "object"), map(str, t), strict=True))) for t in found
        }
        return Counter(triple for triple in made if not dict(triple)["subject"].startswith('"'))
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return Counter(
        tuple(sorted((name, str(row[name])) for name in names if row[name] is not None)) for row in found
    )


@given(
    form=forms, window=windows, operator=operators, body=bodies,
    data=st.lists(triples, min_size=1, max_size=12, unique=True),
)  # fmt: skip
def test_a_filter_has_the_answer_of_pyoxigraph(
    form: str, window: str, operator: str, body: str, data: list[tuple[str, str, str]]
) -> None:
    session = tw.Session()
    query = session.register(f"{operator}{form} FROM STREAM <{S}> {window} WHERE {{ {body} }}")
    session.push(S, at=0, graph="".join(f"{' '.join(triple)} .\n" for triple in data))
    session.advance(5000 if "STEP 5s" in window else 1)
    found = Counter(tuple(sorted(row.bindings.items())) for row in query.poll() if row.op == "+")
    wanted = expected(form, body, data)
    assert found == wanted
    event("empty" if query.query.empty else "rows" if wanted else "no rows")
    if query.query.empty is not None:
        assert not wanted
        assert "always empty" in tw.explain(query.query)
        assert session.live_triples == 0


EMPTY = {
    "two values": "?x <x:p> ?y FILTER(?y = <x:a> && ?y = <x:b>)",
    "two values in two filters": "FILTER(?y = <x:a>) ?x <x:p> ?y FILTER(<x:b> = ?y)",
    "two values in two groups": "{ ?x <x:p> ?y FILTER(?y = <x:a>) } { ?x <x:q> ?y FILTER(sameTerm(?y, 'a')) }",
    "no value": "?x <x:p> ?y FILTER(?w = <x:a>)",
    "no value in this group": "?x <x:p> ?y { ?x <x:q> ?z FILTER(?y = <x:a>) }",
    "no value, compared with itself": "?x <x:p> ?y FILTER(?w = ?w)",
    "no value, alone": "?x <x:p> ?y FILTER(?w)",
    "no value, and a number": "?x <x:p> ?y FILTER(?w < 5)",
    "a literal as a subject": "?x <x:p> ?y FILTER(?x = 'a')",
    "a literal as a predicate": "?x ?p ?y FILTER(?p = 'a')",
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("form", ["SELECT ?x ?y", "CONSTRUCT { ?x <x:made> ?y }"])
def test_what_has_no_solution_is_taken_and_explained(name: str, form: str) -> None:
    session = tw.Session()
    query = session.register(f"{form} FROM STREAM <{S}> [RANGE 10s] WHERE {{ {EMPTY[name]} }}")
    assert query.query.columns == (
        ("x", "y") if form.startswith("SELECT") else ("subject", "predicate", "object")
    )
    assert "\nanswer     always empty: " in tw.explain(query.query, 2)
    for time, term in enumerate(("<x:a>", "<x:b>", '"a"')):
        session.push(S, at=time, graph=f"<x:a> <x:p> {term} .\n<x:a> <x:q> {term} .")
    session = tw.Session.restore(session.save())
    session.finish(drain=True)
    [restored] = session.queries
    assert restored.query == query.query
    assert restored.poll() == []
    assert session.live_triples == 0


@given(one=close_iris(), other=close_iris())
def test_a_filter_compares_all_bytes_of_an_iri(one: str, other: str) -> None:
    session = tw.Session()
    query = session.register(f"SELECT ?x FROM STREAM <{S}> {{ ?x <x:p> ?y FILTER(?y = <{one}>) }}")
    session.push(S, at=0, graph=f"<x:a> <x:p> <{other}> .")
    assert len(query.poll()) == (one == other)


def test_a_stream_that_is_derived_from_an_empty_answer_is_empty_and_goes_on() -> None:
    session = tw.Session()
    body = EMPTY["no value"]
    made = "http://ex/made"
    session.register(
        f"REGISTER STREAM <{made}> AS CONSTRUCT {{ ?x <x:q> ?y }} FROM STREAM <{S}> [RANGE 1] WHERE {{ {body} }}"
    )
    joined = session.register(
        f"SELECT * FROM NAMED WINDOW <x:w> ON <{S}> [RANGE 1] FROM NAMED WINDOW <x:v> ON <{made}> [RANGE 1] "
        "WHERE { WINDOW <x:w> { ?x <x:p> ?y } WINDOW <x:v> { ?x <x:q> ?y } }"
    )
    beside = session.register(f"SELECT * FROM STREAM <{S}> FROM STREAM <{made}> WHERE {{ ?x <x:p> ?y }}")
    for time in (0, 1, 2):
        session.push(S, at=time, graph="<x:a> <x:p> <x:b> .")
    session.finish()
    assert (len(beside.poll()), joined.poll()) == (1, [])
