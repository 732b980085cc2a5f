"""Shares: how many copies the theory allows, and who must not be split."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.lang import parse
from thalweg.plan.shares import Second, Shares, plan_shares

HEAD = "SELECT {what} FROM STREAM <http://ex/s> [RANGE 10] WHERE {{ {body} }}"
STAR = "?x <http://ex/p> ?a . ?x <http://ex/q> ?b . ?x <http://ex/r> ?c"
CHAIN = "?a <http://ex/p> ?b . ?b <http://ex/p> ?c . ?c <http://ex/p> ?d"
TRIANGLE = "?x <http://ex/p> ?y . ?y <http://ex/p> ?z . ?z <http://ex/p> ?x"
SQUARE = "?a <http://ex/p> ?b . ?b <http://ex/p> ?c . ?c <http://ex/p> ?d . ?d <http://ex/p> ?a"
APART = "?x <http://ex/p> ?y . ?a <http://ex/q> ?b"


def planned(
    body: str, shards: int, what: str = "*", sizes: dict[int, float] | None = None
) -> tuple[Shares, list[int]]:
    query = parse(HEAD.format(what=what, body=body))
    shares = plan_shares(query, shards, sizes)
    return shares, [shares.copies(pattern) for pattern in query.patterns]


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 16])
def test_a_star_needs_no_copies(shards: int) -> None:
    shares, copies = planned(STAR, shards)
    assert shares.shards == shards
    assert copies == [1, 1, 1]


@pytest.mark.parametrize("edge", [2, 3, 4])
def test_a_triangle_needs_cube_root_copies(edge: int) -> None:
    shares, copies = planned(TRIANGLE, edge**3)
    assert shares.shards == edge**3
    assert copies == [edge, edge, edge]


def test_a_square_splits_two_opposite_corners() -> None:
    shares, copies = planned(SQUARE, 16)
    assert {name for name, _ in shares.shares} in ({"a", "c"}, {"b", "d"})
    assert copies == [4, 4, 4, 4]


def test_a_chain_splits_its_inner_variables() -> None:
    shares, copies = planned(CHAIN, 4)
    assert {name for name, _ in shares.shares} <= {"b", "c"}
    assert copies[1] == 1


def test_parts_that_are_not_connected_form_a_grid() -> None:
    shares, copies = planned(APART, 4)
    assert [share for _, share in shares.shares] == [2, 2]
    assert copies == [2, 2]


def test_the_larger_pattern_is_not_copied() -> None:
    _, copies = planned(APART, 4, sizes={0: 100.0, 1: 1.0})
    assert copies == [1, 4]


def test_equal_rows_meet_where_the_answer_is_a_set() -> None:
    shares, _ = planned(CHAIN, 4, what="DISTINCT ?a ?d")
    assert {name for name, _ in shares.shares} <= {"a", "d"}


HIDDEN = "{ SELECT ?y { ?x <http://ex/p> ?y } } UNION { ?x <http://ex/q> ?y }"


def test_equal_rows_meet_where_a_sub_select_hides_a_variable_of_the_same_name() -> None:
    shares, copies = planned(HIDDEN, 4, what="DISTINCT ?x ?y")
    assert shares.shares == (("y", 4),)
    assert copies == [1, 1]
    assert planned(HIDDEN, 4, what="DISTINCT ?x")[0].second == Second(4, NO_KEY)


NO_KEY = "there is no variable by which all rows that belong together meet"
OPTIONAL = "?x <http://ex/p> ?y OPTIONAL { ?y <http://ex/q> ?z }"


def test_rows_of_optional_meet_by_a_variable_that_both_sides_bind() -> None:
    assert planned(OPTIONAL, 4)[0].shares == (("y", 4),)
    assert planned(OPTIONAL, 4, what="DISTINCT ?y")[0].shares == (("y", 4),)
    assert planned(OPTIONAL, 4, what="DISTINCT ?z")[0].second == Second(4, NO_KEY)
    apart, _ = planned(f"{OPTIONAL} OPTIONAL {{ ?z <http://ex/p> ?w }}", 4)
    assert (apart.shards, apart.reason) == (1, "the parts of the query have no variable in common")


TERMS = st.sampled_from(["?a", "?b", "?c", "<http://ex/k>", "<http://ex/l>"])
NODES = st.sampled_from(["_:m", "_:n"])
TEMPLATES = st.lists(st.tuples(TERMS | NODES, TERMS, TERMS | NODES), min_size=1, max_size=4)


@given(template=TEMPLATES, shards=st.integers(2, 9))
def test_equal_triples_meet_whatever_template_makes_them(
    template: list[tuple[str, str, str]], shards: int
) -> None:
    made = " . ".join(map(" ".join, template))
    body = "?a <http://ex/p> ?b . ?b <http://ex/p> ?c"
    query = parse(f"CONSTRUCT {{ {made} }} FROM STREAM <http://ex/s> [RANGE 5] WHERE {{ {body} }}")
    shares = plan_shares(query, shards)
    values = ["<http://ex/k>", "<http://ex/x>", "<http://ex/y>"]
    cells: dict[tuple[str, ...], tuple[str, ...]] = {}
    for chosen in product(values, repeat=3) if shares.second is None else ():
        solution = dict(zip(["?a", "?b", "?c"], chosen, strict=True))
        cell = tuple(solution[f"?{name}"] for name, _ in shares.shares)
        for triple in template:
            terms = tuple(f"{t}{chosen}" if t[0] == "_" else solution.get(t, t) for t in triple)
            assert cells.setdefault(terms, cell) == cell


@pytest.mark.parametrize(
    ("template", "split"),
    [
        ("?a <http://ex/q> ?d", {"a", "d"}),
        ("?a <http://ex/q> ?d . ?d <http://ex/q> ?a", set()),
        ("?a <http://ex/q> ?d . ?d <http://ex/r> ?a", {"a", "d"}),
        ("?b <http://ex/q> []", {"b", "c"}),
        ("?b <http://ex/q> [] . ?c <http://ex/q> ?d", set()),
        ("<http://ex/a> <http://ex/q> <http://ex/b>", set()),
    ],
)
def test_a_graph_is_split_by_what_distinguishes_its_triples(template: str, split: set[str]) -> None:
    text = f"CONSTRUCT {{ {template} }} FROM STREAM <http://ex/s> [RANGE 10] WHERE {{ {CHAIN} }}"
    shares = plan_shares(parse(text), 4)
    assert {name for name, _ in shares.shares} <= (split or {"b", "c"})
    assert (shares.second is None) == bool(split)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * FROM STREAM <http://ex/s> [ELEMENTS 5] WHERE { ?x ?p ?y }", "counts"),
        (
            "REGISTER RSTREAM <http://ex/o> AS SELECT * FROM STREAM <http://ex/s> [RANGE 5] WHERE { ?x ?p ?y }",
            "RSTREAM",
        ),
        (
            "SELECT * FROM STREAM <http://ex/s> [RANGE 5] WHERE { <http://ex/a> <http://ex/p> <http://ex/b> }",
            "no variable",
        ),
    ],
)
def test_what_cannot_be_split_goes_to_one_shard_with_a_reason(text: str, reason: str) -> None:
    shares = plan_shares(parse(text), 4)
    assert shares.shards == 1
    assert reason in shares.reason


def test_whole_events_are_spread_where_each_is_asked_alone() -> None:
    shares = plan_shares(parse("SELECT * FROM STREAM <http://ex/s> [NOW] WHERE { ?x ?p ?y }"), 5)
    assert (shares.shards, shares.roles) == (5, ())
