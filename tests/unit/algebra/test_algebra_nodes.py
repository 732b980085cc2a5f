import pytest
from queries import P, query

from thalweg.algebra.query import Source
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.algebra.windows import CLOSE, Count, Range, Report


@pytest.mark.parametrize(
    "changes",
    [
        {"language": "SQL"},
        {"operator": "rstream"},
        {"sources": ()},
        {"select": ("x", "x")},
        {"patterns": (Pattern(Var("x"), P, Var("y"), source=1),)},
        {"fixed": (("x", P),)},
        {"fixed": (("k", P), ("k", P))},
    ],
)
def test_a_query_refuses_nonsense(changes):
    with pytest.raises(ValueError, match=r"\w"):
        query(**changes)


@pytest.mark.parametrize(
    "make", [lambda: Var(""), lambda: Var("?x"), lambda: Source(()), lambda: Source(("a", "a"))]
)
def test_nodes_refuse_nonsense(make):
    with pytest.raises(ValueError, match=r"\w"):
        make()


@pytest.mark.parametrize("window", [(0, None), (-1, None), (1, 0)])
def test_a_window_has_a_length(window):
    with pytest.raises(ValueError, match="longer than nothing"):
        Range(*window)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Count("MINUTES", 5),
        lambda: Count("ELEMENTS", 0),
        lambda: Count("ELEMENTS", 5, 0),
        lambda: Range(5, bounds="CLOSED"),
        lambda: Range(5, report=Report(CLOSE)),
        lambda: Report("NEVER"),
        lambda: Report("PERIODIC"),
        lambda: Report("PERIODIC", 0),
        lambda: Report("WINDOW-CLOSE", 5),
        lambda: Report("NON-EMPTY", empty=True),
    ],
)
def test_windows_and_reports_refuse_nonsense(make):
    with pytest.raises(ValueError, match=r"\w"):
        make()


@pytest.mark.parametrize(
    "text",
    ["", "a", "<a", '"a', "_:b", "<a b>", '"a"@EN', '"\t"', '"a"^^<http://www.w3.org/2001/XMLSchema#string>'],
)
def test_a_constant_is_canonical(text):
    with pytest.raises(ValueError, match=r"canonical|datatype"):
        Const(text)


def test_control_characters_of_a_literal_are_escaped_as_canonical_n_triples_demands():
    assert Const.literal("\x00\x08\t\n\x0b\x0c\r\x1f \x7f\x80é\"'\\").text == (
        '"\\u0000\\b\\t\\n\\u000B\\f\\r\\u001F \\u007F\x80é\\"\'\\\\"'
    )


def test_a_query_lists_its_streams_and_variables_once_each():
    both = query(
        sources=(Source(("http://ex/s",)), Source(("http://ex/t", "http://ex/s"), name="w")),
        patterns=(Pattern(Var("y"), P, Var("x")), Pattern(Var("x"), P, Var("_:b"), source=1)),
    )
    assert both.streams == ("http://ex/s", "http://ex/t")
    assert both.variables == ("y", "x", "_:b")
