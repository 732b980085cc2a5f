"""What the front end makes of a text, against what an independent SPARQL engine makes of it."""

from collections import Counter

import pyoxigraph as ox
from hypothesis import given
from hypothesis import strategies as st

from thalweg.algebra.terms import Const, Var
from thalweg.lang import parse

STORE = ox.Store()
STORE.load(
    b"""
    <x:a> <x:p> <x:b>, "1", [ <x:p> <x:a> ; <x:q> <x:b> ] . <x:b> <x:p> <x:a> ; <x:q> "a\\"b", "t\\tn\\n" .
    <x:c> <x:q> (<x:a>), (<x:b> "1"), [], [ <x:q> [ <x:p> <x:a>, <x:c> ] ] .
    <x:a> a <x:A> . <x:b> a <x:A>, <x:B> .
    """,
    format=ox.RdfFormat.TURTLE,
)
TRIPLES = [(str(q.subject), str(q.predicate), str(q.object)) for q in STORE]

SIMPLE = st.sampled_from(
    [
        "?x",
        "?y",
        "$z",
        "_:b",
        "_:c",
        "<x:a>",
        "<x:b>",
        "e:c",
        "[]",
        '"1"',
        "'1'",
        "'a\"b'",
        '"""t\tn\n"""',
        '"t\\tn\\n"',
    ]
)
VERBS = st.sampled_from(["<x:p>", "e:q", "?v", "a", "<x:q>"])


def nodes(children):
    lists = st.lists(children, min_size=1, max_size=2).map(lambda cells: f"({' '.join(cells)})")
    return lists | properties(children).map(lambda inside: f"[ {inside} ]")


def properties(objects):
    pair = st.tuples(VERBS, st.lists(objects, min_size=1, max_size=2).map(" , ".join)).map(" ".join)
    return st.lists(pair, min_size=1, max_size=2).map(" ; ".join)


NODES = st.recursive(SIMPLE, nodes, max_leaves=3)
STATEMENTS = st.tuples(SIMPLE, properties(NODES)).map(" ".join) | st.tuples(
    properties(SIMPLE).map(lambda inside: f"[ {inside} ]"), st.just("") | properties(SIMPLE)
).map(" ".join)
BODIES = st.lists(STATEMENTS, min_size=1, max_size=2).map(" . ".join)


@given(
    BODIES,
    st.sampled_from(
        ["", "FILTER(?x = <x:a>)", "FILTER(sameTerm('1', ?y))", "FILTER(?x = e:b && ?y = <x:a>)"]
    ),
)
def test_any_abbreviated_pattern_has_the_answers_that_pyoxigraph_finds(body, condition):
    bound = {name for name in "xy" if f"?{name}" in body}
    if any(f"?{name}" in condition and name not in bound for name in "xy"):
        condition = ""
    text = f"PREFIX e: <x:>\nSELECT ?x ?y ?z ?v {{ {body} {condition} }}"
    found = Counter(
        tuple("" if solution[name] is None else str(solution[name]) for name in "xyzv")
        for solution in STORE.query(text)
    )
    assert answer(parse(text, stream="x:s")) == found


def answer(query):
    solutions = [{name: value.text for name, value in query.fixed}]
    for pattern in query.patterns:
        solutions = [
            more for one in solutions for t in TRIPLES if (more := joined(one, pattern.terms, t)) is not None
        ]
    return Counter(tuple(s.get(name, "") for name in query.select) for s in solutions)


def joined(solution, terms, triple):
    bindings = dict(solution)
    for term, text in zip(terms, triple, strict=True):
        if isinstance(term, Const) and term.text != text:
            return None
        if isinstance(term, Var) and bindings.setdefault(term.name, text) != text:
            return None
    return bindings
