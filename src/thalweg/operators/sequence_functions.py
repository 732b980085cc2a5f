"""The functions of repetitions (COUNT, SUM, ...): columns of runs, which each iteration changes by an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, substitute, variables_of
from thalweg.algebra.sequences import PREVIOUS, function_name
from thalweg.algebra.terms import XSD, Const
from thalweg.expressions.evaluate import Evaluator
from thalweg.rdf.arena import Arena

ZERO = Constant(Const.literal("0", datatype=f"{XSD}integer"))
_ONE = Constant(Const.literal("1", datatype=f"{XSD}integer"))


def accumulators_of(
    functions: Sequence[tuple[str, str]], places: Mapping[str, int], names: Sequence[str], arena: Arena
) -> dict[str, list[tuple[int, Evaluator]]]:
    """By variable: the columns that an iteration changes which binds it, and their new values."""
    found: dict[str, list[tuple[int, Evaluator]]] = {}
    for name in {name for function, name in functions if function != PREVIOUS}:
        value = Variable(name)
        count = Variable(function_name("COUNT", name))
        first = Call("=", (count, ZERO))
        for function in ("COUNT", "SUM", "MIN", "MAX", "FIRST", "LAST"):
            column = function_name(function, name)
            if column not in names:
                continue
            before = Variable(column)
            new: Expression = value
            match function:
                case "COUNT":
                    new = Call("+", (before, _ONE))
                case "SUM":
                    new = Call("+", (before, value))
                case "MIN" | "MAX":
                    compared = Call("<" if function == "MIN" else ">", (value, before))
                    new = Call("IF", (first, value, Call("IF", (compared, value, before))))
                case "FIRST":
                    new = Call("IF", (first, value, before))
            found.setdefault(name, []).append((places[column], Evaluator(new, names, arena)))
    return found


def functions_in(expressions: list[Expression]) -> list[tuple[str, str]]:
    """The functions of repetitions that some expressions call, with their variables."""
    found: dict[tuple[str, str], None] = {}
    for expression in expressions:
        for name in variables_of(expression):
            function, _, inner = name.partition("(")
            if inner:
                found[function, inner.removesuffix(")")] = None
    return list(found)


def without_averages(expression: Expression) -> Expression:
    """An average is the sum by the count; over nothing, it is 0."""
    averages = {}
    for name in variables_of(expression):
        if name.startswith("AVG("):
            total, count = Variable(f"SUM{name[3:]}"), Variable(f"COUNT{name[3:]}")
            averages[name] = Call("IF", (Call("=", (count, ZERO)), ZERO, Call("/", (total, count))))
    return substitute(expression, averages)
