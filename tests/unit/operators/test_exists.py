"""EXISTS sees the solution around it: filters inside use variables that only the outer group binds."""

import pytest

import thalweg as tw

S = "http://ex/s"
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
DATA = f"""<a:1> <a:p> "5"^^{INTEGER} .
<a:2> <a:p> "1"^^{INTEGER} .
<a:1> <a:q> "3"^^{INTEGER} .
<a:2> <a:q> "3"^^{INTEGER} .
<a:1> <a:r> <a:3> .
<a:2> <a:r> <a:3> .
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("EXISTS { ?a <a:q> ?c FILTER(?c < ?b) }", ["<a:1>"]),
        ("NOT EXISTS { ?a <a:q> ?c FILTER(?c < ?b) }", ["<a:2>"]),
        ("(EXISTS { ?a <a:q> ?c FILTER(?c < ?b) } || ?b = 77)", ["<a:1>"]),
        ("EXISTS { ?a <a:r> ?c OPTIONAL { ?c <a:none> ?b } FILTER(?b > 3) }", ["<a:1>"]),
        ("EXISTS { ?a <a:r> ?c FILTER EXISTS { ?a <a:q> ?d FILTER(?d < ?b) } }", ["<a:1>"]),
        ("EXISTS { { SELECT DISTINCT ?a ?c { ?a <a:q> ?c } } FILTER(?c < ?b) }", ["<a:1>"]),
    ],
)
def test_a_filter_inside_exists_sees_the_variables_of_the_outer_group(condition, expected):
    session = tw.Session()
    query = session.register(f"SELECT ?a {{ ?a <a:p> ?b FILTER {condition} }}", stream=S)
    session.push(S, at=0, graph=DATA)
    assert [(row.op, row["a"]) for row in query.poll()] == [("+", one) for one in expected]
