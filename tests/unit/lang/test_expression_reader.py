"""Expressions are read with their structure, their literals as written, and refusals that name the place."""

from __future__ import annotations

import pickle

import pytest

from thalweg.algebra.expressions import (
    Call,
    Constant,
    Exists,
    Expression,
    Variable,
    depth_of,
    exists_in,
    is_volatile,
    substitute,
    variables_of,
)
from thalweg.algebra.terms import Const
from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang.expressions import ExpressionReader
from thalweg.lang.grammar import parse
from thalweg.lang.names import Prologue
from thalweg.lang.text import QueryText

XSD = "http://www.w3.org/2001/XMLSchema#"
A, B, C = Variable("a"), Variable("b"), Variable("c")


def read(text: str, base: str = "", extensions: dict[str, int] | None = None) -> Expression:
    query = QueryText(f"{base}PREFIX xsd: <{XSD}> PREFIX ex: <http://ex/> SELECT * {{\nFILTER({text}) }}")
    declarations, tree = parse(query.text)
    reader = ExpressionReader(query, Prologue(query, declarations), lambda group: group.name, extensions)
    return reader.read(tree.where.part[0].expr)


def number(lexical: str, datatype: str = "integer") -> Constant:
    return Constant(Const.literal(lexical, datatype=XSD + datatype))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?a || ?b && ?c", Call("OR", (A, Call("AND", (B, C))))),
        ("?a || ?b || ?c", Call("OR", (A, B, C))),
        ("(?a || ?b) || ?c", Call("OR", (Call("OR", (A, B)), C))),
        ("?a - ?b - ?c + ?a", Call("+", (Call("-", (A, B, C)), A))),
        ("?a * ?b / ?c", Call("/", (Call("*", (A, B)), C))),
        ("?a + ?b * ?c", Call("+", (A, Call("*", (B, C))))),
        ("?a -1", Call("-", (A, number("1")))),
        ("?a = -01", Call("=", (A, number("-01")))),
        ("?a = +1.50", Call("=", (A, number("+1.50", "decimal")))),
        ("?a = - 1", Call("=", (A, Call("UMINUS", (number("1"),))))),
        ("?a = 1e0", Call("=", (A, number("1e0", "double")))),
        ("!?a", Call("NOT", (A,))),
        ("?a in (?b, 1)", Call("IN", (A, B, number("1")))),
        ("?a NOT  in ()", Call("NOT IN", (A,))),
        ("uri(?a) = ex:x", Call("=", (Call("IRI", (A,)), Constant(Const.iri("http://ex/x"))))),
        ("isuri(?a)", Call("ISIRI", (A,))),
        ("sameterm(?a, ?b)", Call("SAMETERM", (A, B))),
        ("concat()", Call("CONCAT", ())),
        ("coalesce(?a, ?b)", Call("COALESCE", (A, B))),
        ("bnode()", Call("BNODE", ())),
        ("if(?a, ?b, ?c)", Call("IF", (A, B, C))),
        ("substr(?a, ?b, ?c)", Call("SUBSTR", (A, B, C))),
        ("replace(?a, ?b, ?c)", Call("REPLACE", (A, B, C))),
        ('regex(?a, "x"@EN, ?c)', Call("REGEX", (A, Constant(Const.literal("x", language="en")), C))),
        ("xsd:double(?a)", Call(f"{XSD}double", (A,))),
        ("true = false", Call("=", (number("true", "boolean"), number("false", "boolean")))),
        (
            "exists {} && not exists {}",
            Call("AND", (Exists("GroupGraphPatternSub"), Exists("GroupGraphPatternSub", True))),
        ),
    ],
)
def test_an_expression_has_its_structure(text: str, expected: Expression) -> None:
    found = read(text)
    assert found == expected
    assert hash(found) == hash(expected)
    assert pickle.loads(pickle.dumps(found)) == found


def test_calls_have_their_places_which_are_no_part_of_equality() -> None:
    found = read("?a\n  || regex(?a, ?b)")
    assert isinstance(found, Call)
    inner = found.args[1]
    assert isinstance(inner, Call)
    assert (inner.line, inner.column) == (3, 6)
    assert inner == Call("REGEX", (A, B))


def test_iri_has_the_base_of_the_query() -> None:
    found = read("iri(?a)", base="BASE <http://base/> ")
    assert found == Call("IRI", (A, Constant(Const.iri("http://base/"))))
    assert str(found) == "IRI(?a)"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("xsd:doubl(?a)", UnsupportedError, "2:8: unknown function <.*doubl>: did you mean <.*#double>"),
        ("1 + ex:f(?a)", UnsupportedError, "2:12: unknown function <http://ex/f>$"),
        ("xsd:double()", QueryError, "2:8: .* takes 1 argument, not 0"),
        ("xsd:double(?a, ?b)", QueryError, "takes 1 argument, not 2"),
        ("xsd:double(DISTINCT ?a)", QueryError, "DISTINCT is for aggregates"),
        ("1 < count(*)", QueryError, "2:12: an aggregate cannot stand here"),
        ("group_concat(?a) = 1", QueryError, "an aggregate cannot stand here"),
        ("nope:f(?a)", QueryError, "unknown prefix"),
        ("+".join(["?a-?a"] * 100), UnsupportedError, "changes between operators"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    text: str, kind: type[QueryError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read(text)


def test_extension_functions_are_known_by_their_iri() -> None:
    assert read("ex:f(?a, ?b)", extensions={"http://ex/f": 2}) == Call("http://ex/f", (A, B))


@pytest.mark.parametrize("operator", ["||", "&&", "+", "-", "*", "/"])
def test_a_chain_of_hundreds_is_one_call(operator: str) -> None:
    found = read(operator.join(["?a"] * 400))
    assert isinstance(found, Call)
    assert len(found.args) == 400
    assert depth_of(found) == 1


def test_deep_trees_are_refused_or_work_in_all_ways() -> None:
    # The grammar itself refuses deeper brackets by a RecursionError, which `thalweg.lang.parse` turns into an error.
    found = read("!(" * 8 + "?a" + ")" * 8)
    assert depth_of(found) == 8
    assert variables_of(found) == ("a",)
    assert pickle.loads(pickle.dumps(found)) == found
    assert read(str(found)) == found


def test_substitution_is_simultaneous_and_leaves_exists_alone() -> None:
    expression = read("?a + ?b > bound(?c) || exists { ?a ?b ?c }")
    changed = substitute(expression, {"a": B, "b": A, "c": number("1")})
    assert str(changed) == "?b + ?a > BOUND(1) || EXISTS { ... }"
    assert variables_of(changed) == ("b", "a")
    assert len(exists_in(changed)) == 1
    assert substitute(expression, {"x": A}) is expression


def test_volatile_functions_are_recognised() -> None:
    assert is_volatile(read("?a < rand()"))
    assert not is_volatile(read("?a < abs(?b)"))
