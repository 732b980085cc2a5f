"""Paths inside EXISTS: a term of the outer group is at both ends of a path of length zero, wherever it comes from."""

from __future__ import annotations

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
