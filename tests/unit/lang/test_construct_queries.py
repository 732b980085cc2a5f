"""CONSTRUCT as it is read: templates in all their forms, in every language."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from thalweg.algebra.printing import show
from thalweg.lang import parse

PREFIX = "PREFIX : <http://ex/>\n"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def template(text: str) -> list[str]:
    query = parse(PREFIX + text, stream="http://ex/s")
    assert query.columns == ("subject", "predicate", "object")
    assert query.template is not None
    return [str(triple) for triple in query.template]


def test_a_template_has_constants_variables_lists_and_nodes() -> None:
    made = template(
        "CONSTRUCT { ?x a :A ; :p 'l'@EN, 1.0 . [ :q (?y) ] :r _:b . _:b :p [] . } WHERE { ?x :p ?y }"
    )
    assert made == [
        f"?x <{RDF}type> <http://ex/A>",
        '?x <http://ex/p> "l"@en',
        '?x <http://ex/p> "1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>',
        "_:[1] <http://ex/q> _:[2]",
        f"_:[2] <{RDF}first> ?y",
        f"_:[2] <{RDF}rest> <{RDF}nil>",
        "_:[1] <http://ex/r> _:b",
        "_:b <http://ex/p> _:[3]",
    ]


def test_the_short_form_repeats_its_patterns_with_new_nodes() -> None:
    query = parse(PREFIX + "CONSTRUCT WHERE { ?x :p ?y . _:b :p [] }", stream="http://ex/s")
    assert query.template is not None
    assert [str(triple) for triple in query.template] == [str(pattern) for pattern in query.patterns]
    assert query.select == ("x", "y")


@pytest.mark.parametrize(
    ("text", "select"),
    [
        ("CONSTRUCT { ?x :q :k } WHERE { ?x :p ?y . ?y :p ?z }", ("x",)),
        ("CONSTRUCT { ?x :q [] } WHERE { ?x :p ?y . ?y :p _:b }", ("x", "y")),
        ("CONSTRUCT { :k :q :l } WHERE { ?x :p ?y }", ()),
        ("CONSTRUCT { } WHERE { ?x :p ?y }", ()),
    ],
)
def test_a_solution_keeps_what_the_triples_need(text: str, select: tuple[str, ...]) -> None:
    assert parse(PREFIX + text, stream="http://ex/s").select == select


@pytest.mark.parametrize(
    ("head", "language", "operator", "output"),
    [
        ("", "RSP-QL", None, None),
        ("REGISTER STREAM :out AS", "RSP-QL", None, "http://ex/out"),
        ("REGISTER RSTREAM <http://ex/out> AS", "RSP-QL", "RSTREAM", "http://ex/out"),
        ("register istream :out as", "RSP-QL", "ISTREAM", "http://ex/out"),
        ("REGISTER QUERY q AS", "C-SPARQL", None, None),
    ],
)
@pytest.mark.parametrize("short", [True, False])
def test_every_language_takes_it(
    head: str, language: str, operator: str | None, output: str | None, short: bool
) -> None:
    form = "CONSTRUCT" if short else "CONSTRUCT { ?y :q ?x }"
    text = f"{head} {form} FROM STREAM :s [RANGE 10s STEP 5s] WHERE {{ ?x :p ?y }}"
    query = parse(PREFIX + text)
    assert (query.language, query.operator, query.output) == (language, operator, output)
    assert query.template is not None


def test_windows_by_name_feed_a_template() -> None:
    query = parse(
        PREFIX + "REGISTER RSTREAM :out AS CONSTRUCT { ?x :near ?z } FROM NAMED WINDOW :w ON :s [RANGE 5s] "
        "FROM NAMED WINDOW :v ON :t [RANGE 9s] WHERE { WINDOW :w { ?x :p ?y } WINDOW :v { ?y :p ?z } }"
    )
    assert show(query).splitlines() == [
        "RSTREAM <http://ex/out>",
        "CONSTRUCT",
        "  ?x <http://ex/near> ?z",
        "FROM <http://ex/s> [RANGE 5s] as <http://ex/w>",
        "  ?x <http://ex/p> ?y",
        "FROM <http://ex/t> [RANGE 9s] as <http://ex/v>",
        "  ?y <http://ex/p> ?z",
    ]


def test_a_long_template_needs_no_deep_stack() -> None:
    made = template(
        "CONSTRUCT { " + " ".join(f"?x :p{k} ?y ." for k in range(3000)) + " } WHERE { ?x :p ?y }"
    )
    assert len(made) == 3000


def test_what_no_graph_can_hold_is_what_pyoxigraph_leaves_out() -> None:
    store = ox.Store()
    store.load(b"<x:a> <x:p> 'l', <x:b>, _:n .", format=ox.RdfFormat.TURTLE)
    text = "CONSTRUCT { ?y <x:q> ?x . ?x ?y ?x . ?x <x:r> ?y, ?z } WHERE { ?x <x:p> ?y }"
    made = {(str(t.subject)[0], str(t.predicate), str(t.object)[0]) for t in store.query(text)}  # type: ignore[union-attr]
    assert made == {
        ("<", "<x:q>", "<"),
        ("_", "<x:q>", "<"),
        ("<", "<x:b>", "<"),
        ("<", "<x:r>", '"'),
        ("<", "<x:r>", "<"),
        ("<", "<x:r>", "_"),
    }
    assert "?y <x:q> ?x" in template(text)
