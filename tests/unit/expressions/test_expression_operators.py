"""Operators, truth, errors, functions and casts: the tables in `cases`, by the sections of SPARQL 1.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from asking import PROLOGUE, XSD, ours, read, short

from thalweg.algebra.expressions import Call, Constant
from thalweg.algebra.terms import Const
from thalweg.expressions.evaluate import Evaluator
from thalweg.rdf.arena import Arena

TRUE, FALSE = '"true"^^xsd:boolean', '"false"^^xsd:boolean'


def i(n: int) -> str:
    return f'"{n}"^^xsd:integer'


def cases() -> Iterator[tuple[str, str | None]]:
    """Expressions with their values; None is an error."""
    for file in sorted((Path(__file__).parent / "cases").glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                text, _, value = line.partition("  =>  ")
                yield text, None if value == "error" else value


@pytest.mark.parametrize(("text", "expected"), [*cases()], ids=lambda case: str(case)[:60])
def test_expressions_give_what_the_specification_says(text: str, expected: str | None) -> None:
    assert ours(text) == expected


def test_a_number_of_a_thousand_digits_is_exact_and_a_longer_result_is_an_error() -> None:
    nines = "9" * 1000
    assert ours(f"{nines} - 1") == i(int(nines) - 1)
    assert ours(f"{nines} + 1") is None
    assert ours(f"{nines} * {nines}") is None
    assert ours(f"0.{'0' * 600}1 * 0.{'0' * 600}1") is None
    assert ours(f"{nines}.5 + 0") is None
    assert ours(f"1{'0' * 999} / 3") is not None


def test_a_literal_of_too_many_digits_has_no_value_but_is_a_term() -> None:
    long = f'"{"9" * 1001}"^^xsd:integer'
    assert ours(f"{long} > 1") is None
    assert ours(f"sameTerm({long}, {long})") == TRUE
    assert ours(f"isNumeric({long})") == FALSE


def test_computed_strings_have_a_longest_length() -> None:
    long = f'"{"x" * 2_000_000}"'
    doubled = "concat(?s, ?s, ?s, ?s)"
    assert ours(f"strlen({doubled})", s=long) == i(8_000_000)
    assert ours(f"concat({doubled}, {doubled}, ?s)", s=long) is None
    assert ours('replace(?s, "x", "$0$0$0$0$0")', s=f'"{"x" * 20_000}"') is not None
    assert ours(f'replace("{"x" * 200}", "x", ?s)', s=long) is None


def test_chains_of_ten_thousand_operands_are_evaluated() -> None:
    arena, one = Arena(), Constant(Const.literal("1", datatype=f"{XSD}integer"))
    total = Evaluator(Call("+", (one,) * 10_000), [], arena)
    assert short(arena.text(int(total.values(np.empty((1, 0), dtype=np.int64))[0]))) == i(10_000)
    falses = tuple(
        Call("<", (one, Constant(Const.literal("0", datatype=f"{XSD}integer")))) for _ in range(10_000)
    )
    assert not Evaluator(Call("OR", falses), [], arena).holds(np.empty((1, 0), dtype=np.int64))
    assert Evaluator(Call("OR", (*falses, one)), [], arena).holds(np.empty((1, 0), dtype=np.int64))


def test_the_text_of_an_expression_reads_as_the_same_expression() -> None:
    for text in (
        "?a || !(?b && ?c) && (?d = ?e) != ?f",
        "-(?a + ?b) * ?c - (?d - ?e) / -5",
        "?a IN (1, 2.5, 1e0, true) || ?b NOT IN ()",
        'REGEX(STR(?a), "x\\"y", "i") && xsd:double(?b) > - 1',
    ):
        expression = read(text)
        assert read(str(expression)) == expression


@pytest.mark.parametrize(
    ("relative", "absolute"),
    # RFC 3986, 5.4
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g:h", "g:h"),
        ("/./g", "http://a/g"),
        ("g..", "http://a/b/c/g.."),
    ],
)
def test_iri_resolves_against_the_base_of_the_query(relative: str, absolute: str) -> None:
    prologue = "BASE <http://a/b/c/d;p?q> "
    assert ours(f'iri("{relative}")', prologue=prologue) == f"<{absolute}>"


def test_now_is_the_instant_of_the_evaluator() -> None:
    assert ours("now()", now=1_500_000) == '"1970-01-01T00:00:01.5Z"^^xsd:dateTime'
    assert ours("year(now())", now=0) == '"1970"^^xsd:integer'


def test_values_are_found_by_name() -> None:
    assert (
        ours(
            "?b + ?a",
            a='"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
            b='"2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>',
        )
        == '"3.5"^^xsd:decimal'
    )
    assert ours('concat(?s, "\\n")', s='"say \\"hi\\""', prologue=PROLOGUE) == '"say \\"hi\\"\\n"'
