"""Values of expressions over N-Triples texts, by the tables of SPARQL 1.1, section 17: a part, written to be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from thalweg.testing.syntax import Call, Const, Exists, Expression, Var

XSD = "http://www.w3.org/2001/XMLSchema#"
LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
TRUE, FALSE = f'"true"^^<{XSD}boolean>', f'"false"^^<{XSD}boolean>'
_NUMERIC = (f"{XSD}integer", f"{XSD}decimal")


class ExpressionError(Exception):
    """An error in an expression, in the sense of SPARQL."""


class UndecidedError(Exception):
    """A value that the specification leaves open; no test can ask for it."""


class Terms:
    """What happened during the evaluation: `notes` are places where pyoxigraph is known to differ."""

    def __init__(self, exists: Callable[[Exists, Mapping[str, str]], bool]) -> None:
        self.exists = exists
        self.notes: set[str] = set()

    def value(self, e: Expression, row: Mapping[str, str]) -> str:
        """The term that an expression has for a solution."""
        match e:
            case Const(text):
                return text
            case Var(name):
                if name not in row:
                    raise ExpressionError(f"?{name} is unbound")
                return row[name]
            case Exists():
                return _boolean(self.exists(e, row) != e.negated)
            case Call("BOUND", (Var(name),)):
                return _boolean(name in row)
            case Call("BOUND"):  # a term was put in the place of the variable
                return TRUE
            case Call("&&" | "||" as name, (left, right)):
                return self._logic(name, left, right, row)
            case Call("!", (inner,)):
                return _boolean(not truth(self.value(inner, row)))
            case Call("IF", (test, yes, no)):
                return self.value(yes if truth(self.value(test, row)) else no, row)
            case Call("COALESCE", args):
                for arg in args:
                    try:
                        return self.value(arg, row)
                    except ExpressionError:
                        continue
                raise ExpressionError("COALESCE has no value")
            case Call("IN" | "NOT IN" as name, (one, *others)):
                return _boolean(self._is_in(one, others, row) == (name == "IN"))
        assert isinstance(e, Call)
        return self._apply(e.name, [self.value(arg, row) for arg in e.args])

    def _logic(self, name: str, left: Expression, right: Expression, row: Mapping[str, str]) -> str:
        """`&&` and `||` with errors: section 17.2."""
        decisive = name == "||"
        faults: list[Exception] = []
        for side in (left, right):
            try:
                if truth(self.value(side, row)) == decisive:
                    return _boolean(decisive)
            except (ExpressionError, UndecidedError) as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: isinstance(fault, ExpressionError))
        return _boolean(not decisive)

    def _is_in(self, one: Expression, others: list[Expression], row: Mapping[str, str]) -> bool:
        """`IN` is a chain of `=` and `||`: section 17.4.1.9."""
        faults: list[Exception] = []
        for other in others:
            try:
                if self._equal(self.value(one, row), self.value(other, row)):
                    return True
            except (ExpressionError, UndecidedError) as fault:
                faults.append(fault)
        if faults:
            raise min(faults, key=lambda fault: isinstance(fault, ExpressionError))
        return False

    def _equal(self, one: str, other: str) -> bool:
        """`=`: the table of section 17.3, and RDFterm-equal of section 17.4.1.7 for all other terms.

        Two literals that are no such pair are a type error there, and section 17.3.1 lets an engine extend it.
        """
        if one == other:
            return True
        left, right = comparable(one), comparable(other)
        if left is not None and right is not None and left[0] == right[0]:
            return left[1] == right[1]
        if one[0] == '"' == other[0]:
            raise UndecidedError(f"{one} = {other}")
        return False

    def _less(self, one: str, other: str) -> bool:
        left, right = comparable(one), comparable(other)
        if left is None or right is None or left[0] != right[0]:
            self.notes.add("order")
            raise ExpressionError(f"{one} < {other}")
        if left[0] == "boolean":
            self.notes.add("boolean order")
        return bool(left[1] < right[1])

    def _apply(self, name: str, args: list[str]) -> str:
        first = args[0]
        match name:
            case "=":
                return _boolean(self._equal(*args))
            case "!=":
                return _boolean(not self._equal(*args))
            case "<":
                return _boolean(self._less(*args))
            case ">":
                return _boolean(self._less(args[1], first))
            case "<=" | ">=":
                low, high = args if name == "<=" else (args[1], first)
                return _boolean(self._less(low, high) or self._equal(low, high))
            case "+" | "-":
                return _sum(first, args[1], 1 if name == "+" else -1)
            case "sameTerm":
                return _boolean(first == args[1])
            case "isIRI":
                return _boolean(first[0] == "<")
            case "isBLANK":
                return _boolean(first[0] == "_")
            case "isLITERAL":
                return _boolean(first[0] == '"')
            case "isNUMERIC":
                return _boolean(first[0] == '"' and parts(first)[1] in _NUMERIC)
            case "STR":
                if first[0] == "_":
                    raise ExpressionError("STR of a blank node")
                return plain(first[1:-1] if first[0] == "<" else parts(first)[0])
            case "LANG":
                return plain(parts(first)[2])
            case "DATATYPE":
                return f"<{parts(first)[1]}>"
            case "STRLEN":
                return f'"{len(_text(first))}"^^<{XSD}integer>'
            case "UCASE":
                return plain(_text(first).upper())
            case "CONCAT":
                return plain("".join(map(_text, args)))
            case "STRSTARTS":
                return _boolean(_text(first).startswith(_text(args[1])))
            case "CONTAINS":
                return _boolean(_text(args[1]) in _text(first))
            case "REGEX":
                return _boolean(re.search(_text(args[1]), _text(first)) is not None)
            case "IRI":
                if first[0] == "<":
                    return first
                if not _text(first).startswith("http:"):
                    raise UndecidedError("what a relative IRI becomes depends on the base")
                return f"<{_text(first)}>"
        raise AssertionError(f"no function {name}")


def truth(term: str) -> bool:
    """The effective boolean value: section 17.2.2."""
    if term in (TRUE, FALSE):
        return term == TRUE
    if term[0] != '"':
        raise ExpressionError(f"{term} has no truth")
    text, kind, language = parts(term)
    if language:
        raise UndecidedError("a plain literal of RDF 1.0 may have had a language")
    if kind in _NUMERIC:
        return Decimal(text) != 0
    if kind == f"{XSD}string":
        return text != ""
    raise ExpressionError(f"{term} has no truth")


def parts(term: str) -> tuple[str, str, str]:
    """The lexical form, the datatype and the language of a literal."""
    if term[0] != '"':
        raise ExpressionError(f"{term} is no literal")
    end = term.rindex('"')
    text, rest = term[1:end], term[end + 1 :]
    if rest.startswith("@"):
        return text, LANG_STRING, rest[1:]
    return text, rest[3:-1] or f"{XSD}string", ""


def plain(text: str) -> str:
    """The literal of a text."""
    return f'"{text}"'


def comparable(term: str) -> tuple[str, Any] | None:
    """The kind and the value by which a literal is compared, if the table of section 17.3 has its type."""
    if term[0] != '"':
        return None
    text, kind, _ = parts(term)
    if kind in _NUMERIC:
        return "number", Decimal(text)
    if kind == f"{XSD}string":
        return "text", text
    return ("boolean", text == "true") if kind == f"{XSD}boolean" else None


def _boolean(value: bool) -> str:
    return TRUE if value else FALSE


def _text(term: str) -> str:
    text, kind, language = parts(term)
    if kind != f"{XSD}string" or language:
        raise ExpressionError(f"{term} is no plain text")
    return text


def _sum(one: str, other: str, sign: int) -> str:
    left, right = comparable(one), comparable(other)
    if left is None or right is None or left[0] != "number" or right[0] != "number":
        raise ExpressionError("only numbers are added")
    value: Decimal = left[1] + sign * right[1]
    kinds = {parts(one)[1], parts(other)[1]}
    if kinds == {f"{XSD}integer"}:
        return f'"{value}"^^<{XSD}integer>'
    if value == value.to_integral_value():
        raise UndecidedError("a whole decimal has several spellings")
    return f'"{value.normalize():f}"^^<{XSD}decimal>'
