"""Static graphs in queries: FROM, FROM NAMED and GRAPH, in every language."""

from __future__ import annotations

import pytest

from thalweg.algebra.query import DEFAULT_GRAPH
from thalweg.errors import QueryError
from thalweg.lang import parse

STREAM = "FROM STREAM <http://ex/s> [RANGE 10]"
WINDOW = "FROM NAMED WINDOW <http://ex/w> ON <http://ex/s> [RANGE 10 STEP 5]"
READ = "?x <http://ex/p> ?y"


def graphs(text: str, *loaded: str) -> list[tuple[str | None, tuple[str, ...], tuple[str, ...]]]:
    query = parse(text, stream="http://ex/s", graphs=loaded)
    return [(source.name, source.streams, source.graphs) for source in query.sources]


def test_the_default_window_is_one_graph_with_the_default_static_graph() -> None:
    for text in (
        f"SELECT * {STREAM} {{ {READ} }}",
        f"SELECT * {{ {READ} }}",
        f"REGISTER QUERY q AS SELECT * {STREAM} {{ {READ} }}",
    ):
        assert graphs(text) == [(None, ("http://ex/s",), (DEFAULT_GRAPH,))]


def test_from_chooses_what_is_merged_with_the_default_window() -> None:
    text = f"SELECT * FROM <http://ex/a> {STREAM} FROM <data.ttl> {{ {READ} }}"
    assert graphs(text, DEFAULT_GRAPH) == [(None, ("http://ex/s",), ("http://ex/a", "data.ttl"))]


@pytest.mark.parametrize("written", ["FROM NAMED <http://ex/a>", "FROM NAMED GRAPH <http://ex/a>"])
def test_with_from_named_alone_the_default_graph_has_no_static_data(written: str) -> None:
    text = f"SELECT * {STREAM} {written} {{ {READ} GRAPH <http://ex/a> {{ {READ} }} }}"
    assert graphs(text, DEFAULT_GRAPH, "http://ex/b") == [
        (None, ("http://ex/s",), ()),
        ("http://ex/a", (), ("http://ex/a",)),
    ]


def test_with_named_windows_only_the_default_graph_is_the_static_data() -> None:
    text = (
        f"REGISTER RSTREAM <http://ex/o> AS SELECT * {WINDOW} {{ {READ} WINDOW <http://ex/w> {{ {READ} }} }}"
    )
    assert graphs(text, DEFAULT_GRAPH) == [
        ("http://ex/w", ("http://ex/s",), ()),
        (None, (), (DEFAULT_GRAPH,)),
    ]
    with pytest.raises(QueryError, match="no static data are loaded"):
        graphs(text)


def test_a_graph_variable_ranges_over_windows_and_static_graphs_and_a_window_variable_over_windows() -> None:
    text = f"SELECT * {WINDOW} {{ GRAPH ?g {{ {READ} }} }}"
    assert [name for name, _, _ in graphs(text, "http://ex/b", "http://ex/a")] == [
        "http://ex/w",
        "http://ex/a",
        "http://ex/b",
    ]
    assert [name for name, _, _ in graphs(text.replace("GRAPH", "WINDOW"), "http://ex/a")] == ["http://ex/w"]


def test_a_window_hides_the_static_graph_of_its_name() -> None:
    text = f"SELECT * {WINDOW} {{ GRAPH <http://ex/w> {{ {READ} }} }}"
    assert graphs(text, "http://ex/w") == [("http://ex/w", ("http://ex/s",), ())]


def test_a_query_of_static_data_alone_keeps_its_streams() -> None:
    query = parse(f"SELECT * {STREAM} {{ GRAPH <http://ex/g> {{ {READ} }} }}", graphs=["http://ex/g"])
    assert query.streams == ("http://ex/s",)
    assert query.graphs == (DEFAULT_GRAPH, "http://ex/g")


def test_a_graph_that_is_not_there_is_noted() -> None:
    query = parse(f"SELECT * {STREAM} {{ GRAPH <http://ex/g> {{ {READ} }} }}")
    assert query.unknown_graphs == ("http://ex/g",)
    assert any("http://ex/g" in doubt for doubt in query.doubts)
    assert parse(f"SELECT * {STREAM} {{ GRAPH ?g {{ {READ} }} }}").unknown_graphs == ("*",)
