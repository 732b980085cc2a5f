"""Slips in queries whose cause is plain have a hint, with line and column."""

from __future__ import annotations

import pytest

import thalweg as tw

S = "FROM STREAM <http://ex/s>"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            f"PREFIX ex: <http://ex/>\nSELECT * {S} {{\n  ?x ex:p ?y\n  ¦?y ex:q ?z }}",
            "is a dot missing before it",
        ),
        (f"SELECT * {S} {{ ?x ¦foaf:knows ?y }}", "PREFIX foaf: <http://xmlns.com/foaf/0.1/>"),
        (f"SELECT * {S} {{ ?x ¦my:knows ?y }}", "PREFIX my: <...>"),
        (f"PREFIX grid: <http://g/> SELECT * {S} {{ ?x ¦gird:in ?y }}", "did you mean 'grid:'"),
        (f"¦SELCT * {S} {{ ?x ?p ?y }}", "did you mean SELECT"),
        (f"SELECT * {S} ¦WHRE {{ ?x ?p ?y }}", "did you mean WHERE"),
        (f"SELECT * {S} {{ ?x ?p ?y ¦optinal {{ ?y ?p ?z }} }}", "did you mean OPTIONAL"),
        (f"SELECT * {S} {{ ?x ?p ?y ¦FILTR(?y > 5) }}", "did you mean FILTER"),
        ("SELECT * FROM STREM ¦<http://ex/s> { ?x ?p ?y }", "did you mean STREAM"),
        (f"SELECT * {S} [¦RAGNE 10s] {{ ?x ?p ?y }}", "did you mean RANGE"),
        (f"REGISTER ¦RSTRAEM <http://ex/o> AS SELECT * {S} {{ ?x ?p ?y }}", "did you mean RSTREAM"),
        (f"SELECT * {S} [RANGE ¦10s EVERY 5s] {{ ?x ?p ?y }}", "written STEP"),
        (f"SELECT * {S} ¦RANGE 10s {{ ?x ?p ?y }}", r"in brackets: \[RANGE"),
        ("SELECT * FROM <http://ex/s> ¦[RANGE 10s] { ?x ?p ?y }", "belongs to FROM STREAM"),
        ("SELECT * FROM STREAM http:¦//ex/s { ?x ?p ?y }", "in angle brackets: <http://"),
        (f"SELECT * {S} {{ ?x ?p ?y FILTER(?y =¦= 5) }}", "equality is one ="),
        (f"SELECT * {S} {{ ?x ?p ?y FILTER(?y > 5 ¦AND ?y < 7) }}", "write && for AND"),
        (f"SELECT * {S} {{ ?x ?p ?y FILTER(?y > 5 ¦or ?y < 7) }}", r"write \|\| for or"),
        (f"PREFIX ex ¦<http://ex/> SELECT * {S} {{ ?x ?p ?y }}", "PREFIX ex: <...>"),
        (f"SELECT ¦x {S} {{ ?x ?p ?y }}", r"question mark: \?x"),
        (f"SELECT ?x¦, ?y {S} {{ ?x ?p ?y }}", "separated by spaces"),
        ("¦", "write SELECT, CONSTRUCT or ASK"),
        ("¦<http://ex/a> <http://ex/p> <http://ex/b> .\n", "RDF data.* given as the query"),
        ('¦# a comment\n_:a <http://ex/p> "b" .\n', "RDF data.* given as the query"),
        ("¦@prefix ex: <http://ex/> .\nex:a ex:p ex:b .", "Turtle or TriG.* given as the query"),
        ('¦{"@id": "http://ex/a", "x": [}', "JSON.* given as the query"),
        ("¦<?xml version='1.0'?><rdf:RDF/>", "XML or HTML.* given as the query"),
    ],
)
def test_a_slip_has_a_hint_and_a_place(text: str, hint: str) -> None:
    before, after = text.split("¦")
    with pytest.raises(tw.QueryError, match=hint) as caught:
        tw.parse(before + after)
    lines = before.split("\n")
    assert (caught.value.line, caught.value.column) == (len(lines), len(lines[-1]) + 1)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * {S} {{ ?x ?p ?y }} }}",
        f"SELECT * {S} {{ ?x ?p }}",
        f"SELECT * {S} {{ ?x <http://ex/p> ?y , }}",
        f"SELECT * {S}",
    ],
)
def test_where_the_cause_is_not_plain_nothing_is_suggested(text: str) -> None:
    with pytest.raises(tw.QueryError) as caught:
        tw.parse(text)
    assert "did you mean" not in str(caught.value)
    assert "missing" not in str(caught.value)
