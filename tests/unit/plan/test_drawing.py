"""Drawings of plans: what they contain, and that no text of a query can break them."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import UsageError
from thalweg.lang import parse
from thalweg.operators.cogroup import RULES
from thalweg.plan import describe
from thalweg.plan.drawing import Graph, dot, logical, mermaid, physical
from thalweg.plan.explain import explain
from thalweg.plan.svg import svg

SVG = "{http://www.w3.org/2000/svg}"
PLANS = sorted((Path(__file__).parents[2] / "golden" / "plans").glob("*.rq"))
HOSTILE = r"""SELECT * FROM STREAM <http://ex/s> [RANGE 1s] {
    ?x <http://ex/p?a=1&b=#'> "\"</text><br/>&lt;]\n--> `%%{x}%%` #quot; \\l \\N"
    OPTIONAL { ?x ?y "]]>;\t\u0001\uFFFE" } }"""


def boxes(drawn: str) -> list[tuple[list[str], tuple[float, float, float, float]]]:
    """The lines and the place (left, top, right, bottom) of each box of a drawing."""
    found = []
    for group in ET.fromstring(drawn).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        lines = [span.text or "" for span in group.iter(f"{SVG}tspan")]
        found.append((lines, (x, y, x + w, y + h)))
    return found


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_an_svg_has_the_label_of_every_node(path):
    query = parse(path.read_text())
    labels = [list(label) for graph in (logical(query), physical(query, ())) for label in graph.labels[:-1]]
    drawn = [lines for lines, _ in boxes(explain(query, format="svg"))]
    assert all(label in drawn for label in labels)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_boxes_of_an_svg_do_not_overlap_and_are_inside_it(path):
    drawn = explain(parse(path.read_text()), format="svg")
    root = ET.fromstring(drawn)
    places = [place for _, place in boxes(drawn)]
    assert len(places) > 2
    for k, (left, top, right, bottom) in enumerate(places):
        assert 0 <= left < right <= float(root.attrib["width"])
        assert 0 <= top < bottom <= float(root.attrib["height"])
        for other in places[:k]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_hostile_texts_stay_texts_in_every_format():
    query = parse(HOSTILE)
    first, second = query.patterns
    shown = [line for lines, _ in boxes(explain(query, format="svg")) for line in lines]
    assert str(first) in shown
    assert str(second).replace("\ufffe", "\ufffd") in shown
    for line in explain(query, format="dot").splitlines():
        # Nothing but escaped characters is between the quotes of a label.
        assert "label=" not in line or re.fullmatch(r'.*label="(?:[^"\\]|\\.)*"\]?', line)
    for line in explain(query, format="mermaid").splitlines():
        assert line.count('"') in (0, 2)
        assert not re.search(r"<(?!br/>)|%%|`|#(?!\d+;)", line)


@given(st.text(), st.text())
def test_any_label_gives_well_formed_drawings(one, other):
    graph = Graph(one, ((one, other), (other,)), ((1, 0),))
    root = ET.fromstring(svg([graph], one))
    assert len(list(root.iter(f"{SVG}g"))) == 2
    body = re.sub(r"\\.", "", dot([graph]))
    assert body.count('"') == 2 * 4
    assert mermaid([graph]).count('"') == 2 * 3
    assert len(mermaid([graph]).splitlines()) == 6


def test_an_edge_needs_two_nodes():
    with pytest.raises(ValueError, match="an edge connects nodes"):
        Graph("g", (("a",),), ((0, 1),))


def test_a_node_with_two_takers_is_refused_by_the_layout():
    with pytest.raises(ValueError, match="at most one other"):
        svg([Graph("g", (("a",), ("b",), ("c",)), ((0, 1), (0, 2)))], "g")


def test_an_unknown_format_is_refused():
    with pytest.raises(UsageError, match="unknown format 'png': it is one of text, dot, mermaid, svg"):
        explain(parse(HOSTILE), format="png")


def test_a_query_without_solutions_has_only_its_logical_tree_drawn():
    query = parse("SELECT * { ?x <http://ex/p> ?y FILTER(?z > 1) }", stream="http://ex/s")
    drawn = explain(query, format="mermaid")
    assert "bound by no pattern" in drawn
    assert "physical" not in drawn


def test_every_rule_of_a_co_group_has_words():
    assert set(describe._RULES) == set(RULES)
