"""Terms and expressions for property tests: all kinds of terms, and numbers at the edges of their types."""

from __future__ import annotations

from hypothesis import strategies as st

from thalweg.algebra.expressions import Call, Constant, Expression, Variable
from thalweg.algebra.terms import Const

XSD = "http://www.w3.org/2001/XMLSchema#"
NAMES = ("a", "b", "c")


def typed(datatype: str, *lexicals: str) -> list[str]:
    return [f'"{lexical}"^^<{XSD}{datatype}>' for lexical in lexicals]


NUMBERS = [
    *typed("integer", "0", "-0", "1", "01", "+2", "-3", "10", "999999999999999", "1000000000000000"),
    *typed("integer", "9007199254740992", "9007199254740993", "123456789012345678901234567890"),
    *typed("decimal", "0.0", "1.0", "1.5", "-0.5", "0.1", "0.3", ".5", "2.", "0.12345678901234567"),
    *typed(
        "double",
        "0",
        "-0",
        "1",
        "1.5e0",
        "-5E-1",
        "0.1",
        "1e22",
        "1e23",
        "1e308",
        "9007199254740993",
        "1e-320",
    ),
    *typed("double", "NaN", "INF", "-INF", "123456789.123456789"),
    *typed("float", "0.1", "1", "16777217", "NaN"),
    *typed("int", "1", "2147483647", "2147483648"),
    *typed("long", "2", "9223372036854775807"),
    *typed("unsignedByte", "1", "256"),
]
TIMES = [
    *typed("dateTime", "2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00"),
    *typed("dateTime", "2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.0000001Z", "2019-12-31T24:00:00Z"),
    *typed(
        "dateTime",
        "2020-01-03T00:00:00",
        "1500-01-01T00:00:00Z",
        "2020-02-30T00:00:00Z",
        "2020-01-01T00:00:00+14:01",
    ),
    *typed("date", "2020-01-01", "2020-01-01Z", "2020-01-02"),
    *typed("time", "12:00:00", "12:00:00Z"),
    *typed("dayTimeDuration", "PT1H", "PT60M", "P1D"),
    *typed("yearMonthDuration", "P1Y", "P12M"),
]
OTHERS = [
    *typed("boolean", "true", "false", "1", "0", "x"),
    *('""', '"a"', '"b"', '"ab"', '"1"', '"a"@en', '"a"@fr', '""@en', '"\\"\\\\"', '"é😀"'),
    *("<http://ex/a>", "<http://ex/b>", "_:x", "_:y"),
    *('"a"^^<http://ex/t>', '"b"^^<http://ex/t>', '"1"^^<http://ex/t>'),
    *typed("integer", "x", "", " 1 ", "1.0"),
    *typed("decimal", "1e0", "."),
]
TERMS = [*NUMBERS, *TIMES, *OTHERS]

variables = st.sampled_from(NAMES).map(Variable)
constants = st.sampled_from([term for term in TERMS if not term.startswith("_")]).map(
    lambda t: Constant(Const(t))
)
leaves = st.one_of(variables, variables, constants)


def calls(
    inner: st.SearchStrategy[Expression], table: dict[str, tuple[int, int]]
) -> st.SearchStrategy[Expression]:
    def call(name: str) -> st.SearchStrategy[Expression]:
        least, most = table[name]
        return st.lists(inner, min_size=least, max_size=most).map(lambda args: Call(name, tuple(args)))

    return st.sampled_from(sorted(table)).flatmap(call)


OPERATORS = {
    **dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "SAMETERM"), (2, 2)),
    **dict.fromkeys(("+", "-", "*", "/"), (2, 3)),
    **dict.fromkeys(("AND", "OR"), (2, 4)),
    **dict.fromkeys(
        ("NOT", "UMINUS", "UPLUS", "BOUND", "ISIRI", "ISBLANK", "ISLITERAL", "ISNUMERIC"), (1, 1)
    ),
    **dict.fromkeys(("IN", "NOT IN"), (1, 5)),
    "COALESCE": (0, 3),
    "IF": (3, 3),
}
FUNCTIONS = {
    **dict.fromkeys(
        ("STR", "LANG", "DATATYPE", "STRLEN", "ABS", "ROUND", "CEIL", "FLOOR", "YEAR", "SECONDS", "UCASE"),
        (1, 1),
    ),
    **dict.fromkeys(("CONTAINS", "STRBEFORE", "STRLANG"), (2, 2)),
    "CONCAT": (0, 3),
    **{
        XSD + name: (1, 1)
        for name in ("integer", "decimal", "double", "float", "boolean", "string", "dateTime")
    },
}
# Comparisons of variables with constants come often: they are what the kernel runs.
simple = st.builds(
    lambda name, args: Call(name, args),
    st.sampled_from(["=", "!=", "<", ">", "<=", ">="]),
    st.tuples(leaves, leaves),
)
members = st.builds(
    lambda name, tested, args: Call(name, (tested, *args)),
    st.sampled_from(["IN", "NOT IN"]),
    variables,
    st.lists(constants, max_size=6),
)
expressions = st.recursive(
    st.one_of(simple, simple, members, leaves),
    lambda inner: st.one_of(calls(inner, OPERATORS), calls(inner, OPERATORS), calls(inner, FUNCTIONS)),
    max_leaves=8,
)
rows = st.lists(
    st.tuples(*(st.one_of(st.none(), st.sampled_from(TERMS), st.sampled_from(TERMS)) for _ in NAMES)),
    min_size=1,
    max_size=40,
)
