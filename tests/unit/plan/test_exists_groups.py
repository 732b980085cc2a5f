"""Groups inside EXISTS: what their paths and filters see of the outer solution, and of groups beside them."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

import thalweg as tw

QUERY = """PREFIX : <http://ex/>
SELECT ?x ?z
FROM NAMED WINDOW :a ON :s [RANGE 10s]
FROM NAMED WINDOW :b ON :t [RANGE 10s]
WHERE { WINDOW :a { ?x :k ?z } FILTER EXISTS { WINDOW :b { ?x %s ?z } } }"""
LINKS = """@prefix : <http://ex/> .
:a :k :a . :b :k :c . :c :k :b ."""


@pytest.mark.parametrize("path", [":p?", ":p*", "(:p|:q)?", "^(^:p)?"])
def test_a_term_that_the_graph_of_a_path_does_not_hold_is_at_both_of_its_ends(path: str) -> None:
    session = tw.Session()
    query = session.register(QUERY % path)
    session.push("http://ex/t", at=1, graph="<http://ex/b> <http://ex/p> <http://ex/c> .")
    session.push("http://ex/s", at=1, graph=LINKS, format="turtle")
    session.advance(5)
    assert sorted((row["x"], row["z"], row.op) for row in query.poll()) == [
        ("<http://ex/a>", "<http://ex/a>", "+"),
        ("<http://ex/b>", "<http://ex/c>", "+"),
    ]


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        ("?x :n ?v { FILTER(!BOUND(?v)) ?x :p ?y }", True),  # ?v is of the group around it
        ("?x :n ?v { FILTER(BOUND(?x)) ?z :p ?y }", True),  # ?x is of the outer solution
        ("?x :n ?v { ?z :p ?y OPTIONAL { ?y :p ?w FILTER(!BOUND(?v)) } FILTER(BOUND(?w)) }", False),
        ("?x :n ?v FILTER(BOUND(?v))", True),
        ("?x :n ?v { ?x :p ?y FILTER EXISTS { ?x :p ?y FILTER(BOUND(?v)) } }", False),
    ],
)
def test_a_filter_inside_exists_sees_its_group_and_the_outer_solution_alone(inner: str, found: bool) -> None:
    data = "<http://ex/a> <http://ex/k> <http://ex/b> .\n<http://ex/a> <http://ex/n> <http://ex/c> .\n"
    data += "<http://ex/a> <http://ex/p> <http://ex/d> .\n"
    text = f"PREFIX : <http://ex/> SELECT ?x WHERE {{ ?x :k ?o FILTER EXISTS {{ {inner} }} }}"
    session = tw.Session()
    query = session.register(text, stream="http://ex/s")
    session.push("http://ex/s", at=1, graph=data)
    store = ox.Store()
    store.load(data.encode(), format=ox.RdfFormat.N_TRIPLES)
    assert bool(list(store.query(text))) == found  # type: ignore[arg-type]
    assert bool(query.poll()) == found
