"""Filters of OPTIONAL and EXISTS inside them (SPARQL 1.1, section 18.2.2.6), against pyoxigraph, with a delete."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest

import thalweg as tw
from thalweg.errors import UnsupportedError

S = "http://ex/s"
PREFIX = "PREFIX : <http://ex/> "
TRIPLES = [
    "a p b", "a2 p b2", "b q c", "b2 q c2", "b2 q a2", "a r c", "c r c", "c2 r c", "a2 r c2",
]  # fmt: skip
GONE = ["a r c", "b2 q c2"]


def lines(triples: list[str]) -> str:
    return "".join(" ".join(f"<http://ex/{name}>" for name in one.split()) + " .\n" for one in triples)


def expected(body: str, triples: list[str]) -> Counter[frozenset[tuple[str, str]]]:
    store = ox.Store()
    store.load(lines(triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    found = store.query(f"{PREFIX}SELECT * {{ {body} }}")
    names = [variable.value for variable in found.variables]
    rows = [dict(zip(names, map(str, row), strict=True)) for row in found]
    return Counter(frozenset((n, v) for n, v in row.items() if v != "None") for row in rows)


@pytest.mark.parametrize(
    "body",
    [
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER(?z != ?x) FILTER EXISTS { ?z :r ?w } }",
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER EXISTS { ?z :r ?w } FILTER(?z != ?x) }",
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER EXISTS { ?x :r ?z } }",
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER NOT EXISTS { ?x :r ?z } FILTER(?z != ?x) FILTER EXISTS { ?z :r ?w } }",
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER(EXISTS { ?x :r ?z } || ?z = ?x) }",
        "?x :p ?y OPTIONAL { ?y :q ?z FILTER EXISTS { ?z :r ?w FILTER(?w != ?x) } }",
        "?x :p ?y OPTIONAL { { ?y :q ?z FILTER(?z != ?x) } }",
        "?x :p ?y OPTIONAL { ?y :q ?z OPTIONAL { ?z :r ?w FILTER EXISTS { ?y :q ?w } } FILTER EXISTS { ?x :r ?z } }",
        "?x :p ?y . ?z :r ?z OPTIONAL { ?y :q ?k OPTIONAL { ?k :r ?z } FILTER EXISTS { ?z :r ?k } }",
        "{ ?x :p ?y } UNION { ?x :q ?y FILTER(?x != :b) } OPTIONAL { ?y :q ?z FILTER NOT EXISTS { ?x :r ?z } }",
        "?x :p ?y FILTER EXISTS { { ?y :q ?z FILTER(?z != ?x) } { ?z :r ?m } "
        "OPTIONAL { ?y :q ?w FILTER EXISTS { ?z :r ?w } } FILTER(!BOUND(?w)) }",
    ],
)
def test_filters_of_optional_see_both_sides_wherever_they_are_written(body):
    session = tw.Session()
    query = session.register(f"{PREFIX}SELECT * FROM STREAM <{S}> {{ {body} }}")
    answer: Counter[frozenset[tuple[str, str]]] = Counter()
    left = [triple for triple in TRIPLES if triple not in GONE]
    for at, op, pushed, content in ((0, "insert", TRIPLES, TRIPLES), (1, "delete", GONE, left)):
        session.push(S, at=at, graph=lines(pushed), op=op)
        session.advance(at + 1)
        for row in query.poll():
            answer[frozenset(row.bindings.items())] += 1 if row.op == "+" else -1
        assert +answer == expected(body, content)
        assert not -answer


def test_many_optionals_with_such_a_filter_are_no_larger_than_their_number():
    body = "?x :p ?y " + "".join(
        f"OPTIONAL {{ ?y :q ?z{k} FILTER NOT EXISTS {{ ?x :r ?z{k} }} }} " for k in range(30)
    )
    assert len(tw.parse(f"{PREFIX}SELECT * FROM STREAM <{S}> {{ {body} }}").patterns) == 1 + 3 * 30


def test_exists_about_a_variable_that_the_outer_group_may_leave_unbound_is_refused():
    body = "?x :p ?y OPTIONAL { ?x :r ?u } OPTIONAL { ?y :q ?z FILTER EXISTS { ?u :r ?z } }"
    with pytest.raises(
        UnsupportedError, match=r"cannot use \?u, which the outer group may leave unbound"
    ) as caught:
        tw.parse(f"{PREFIX}SELECT * FROM STREAM <{S}> {{ {body} }}")
    assert (caught.value.line, caught.value.column) == (1, 91)
