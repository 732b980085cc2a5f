"""Expressions as functions of a row: every operator and function, by the errors and orders of SPARQL 1.1."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from thalweg.algebra.expressions import Call, Constant, Exists, Expression, Variable, WindowEnd
from thalweg.errors import UnsupportedError
from thalweg.expressions import comparing, regexes
from thalweg.expressions.functions import FUNCTIONS
from thalweg.expressions.values import (
    BLANK,
    DOUBLE,
    FLOAT,
    IRI,
    XSD,
    ExpressionError,
    Value,
    boolean,
    double,
    iri,
    literal,
    parse,
    string,
)
from thalweg.instants import show_instant

_FEW = 16
"""Members of an IN list that are compared one by one; of a longer one, equal terms are looked up first."""


class Row:
    """A solution: a value, or None, for each variable; `digest` is a hash of the texts that identify it."""

    __slots__ = ("digest", "values")

    def __init__(self, values: Sequence[Value | None], digest: bytes = b"") -> None:
        self.values = values
        self.digest = digest


Evaluation = Callable[[Row], Value]


class Clock:
    """The instant of NOW(), which can change between calls."""

    def __init__(self, now: int | None = None) -> None:
        self.set(now)

    def set(self, now: int | None) -> None:
        """Set the instant, in microseconds; without one NOW() is an error."""
        self.now = None if now is None else literal(show_instant(now), XSD + "dateTime")


class Compiler:
    """Compiles expressions over rows that have a value for each of the variables `names`."""

    def __init__(self, names: Sequence[str], clock: Clock | None = None) -> None:
        self.places = {name: place for place, name in enumerate(names)}
        self.clock = clock or Clock()

    def compile(self, expression: Expression) -> Evaluation:
        """The function of an expression; it raises an ExpressionError where there is no value."""
        if isinstance(expression, Variable):
            return self._variable(expression)
        if isinstance(expression, Constant):
            value = parse(expression.value.text)
            return lambda row: value
        if isinstance(expression, Exists | WindowEnd):
            raise ValueError(f"{expression} is evaluated by the operators of the plan, not by an expression")
        special = _SPECIAL.get(expression.name)
        if special is not None:
            return special(self, expression)
        if expression.name not in FUNCTIONS:
            raise UnsupportedError(
                f"unknown function <{expression.name}>", line=expression.line, column=expression.column
            )
        if expression.name in ("REGEX", "REPLACE"):
            _check_pattern(expression)
        return self._function(FUNCTIONS[expression.name], expression.args)

    def _variable(self, variable: Variable) -> Evaluation:
        place = self.places.get(variable.name)

        def evaluate(row: Row) -> Value:
            value = None if place is None else row.values[place]
            if value is None:
                raise ExpressionError(f"?{variable.name} is unbound")
            return value

        return evaluate

    def _function(self, function: Callable[..., Value], args: Sequence[Expression]) -> Evaluation:
        compiled = [self.compile(arg) for arg in args]
        if len(compiled) == 1:
            (only,) = compiled
            return lambda row: function(only(row))
        if len(compiled) == 2:
            first, second = compiled
            return lambda row: function(first(row), second(row))
        return lambda row: function(*[evaluate(row) for evaluate in compiled])

    def _or(self, call: Call) -> Evaluation:
        return self._logic(call, decisive=True)

    def _and(self, call: Call) -> Evaluation:
        return self._logic(call, decisive=False)

    def _logic(self, call: Call, decisive: bool) -> Evaluation:
        """`||` and `&&`: one operand decides, even where another one is an error (17.2)."""
        operands = [self.compile(arg) for arg in call.args]

        def evaluate(row: Row) -> Value:
            failed: ExpressionError | None = None
            for operand in operands:
                try:
                    if comparing.truth(operand(row)) is decisive:
                        return boolean(decisive)
                except ExpressionError as error:
                    failed = error
            if failed is not None:
                raise failed
            return boolean(not decisive)

        return evaluate

    def _bound(self, call: Call) -> Evaluation:
        (operand,) = (self.compile(arg) for arg in call.args)

        def evaluate(row: Row) -> Value:
            try:
                operand(row)
            except ExpressionError:
                return boolean(False)
            return boolean(True)

        return evaluate

    def _if(self, call: Call) -> Evaluation:
        condition, yes, no = (self.compile(arg) for arg in call.args)
        return lambda row: yes(row) if comparing.truth(condition(row)) else no(row)

    def _coalesce(self, call: Call) -> Evaluation:
        operands = [self.compile(arg) for arg in call.args]

        def evaluate(row: Row) -> Value:
            for operand in operands:
                try:
                    return operand(row)
                except ExpressionError:
                    continue
            raise ExpressionError("no argument of COALESCE has a value")

        return evaluate

    def _in(self, call: Call) -> Evaluation:
        """`IN`: an error only where no member is equal and the comparison with one is an error (17.4.1.9)."""
        tested, *members = (self.compile(arg) for arg in call.args)
        written = [arg for arg in call.args[1:] if isinstance(arg, Constant)]
        known = {arg.value.text for arg in written} if len(written) > _FEW else frozenset()
        only_constants = len(written) == len(members)
        found = call.name == "IN"

        def evaluate(row: Row) -> Value:
            value = tested(row)
            if known:
                # A term equals itself, unless it is not a number.
                if value.kind not in (FLOAT, DOUBLE) and value.text in known:
                    return boolean(found)
                if only_constants and value.kind in (IRI, BLANK):
                    return boolean(not found)
            failed: ExpressionError | None = None
            for member in members:
                try:
                    if comparing.equal(value, member(row)):
                        return boolean(found)
                except ExpressionError as error:
                    failed = error
            if failed is not None:
                raise failed
            return boolean(not found)

        return evaluate

    def _now(self, call: Call) -> Evaluation:
        def evaluate(row: Row) -> Value:
            if self.clock.now is None:
                raise ExpressionError("NOW() has no instant here")
            return self.clock.now

        return evaluate

    def _rand(self, call: Call) -> Evaluation:
        draw = _drawing(call)
        return lambda row: double((int.from_bytes(draw(row)[:8], "big") >> 11) / 2**53)

    def _uuid(self, call: Call) -> Evaluation:
        draw = _drawing(call)
        return lambda row: iri(f"urn:uuid:{_as_uuid(draw(row))}")

    def _struuid(self, call: Call) -> Evaluation:
        draw = _drawing(call)
        return lambda row: string(_as_uuid(draw(row)))

    def _bnode(self, call: Call) -> Evaluation:
        if not call.args:
            draw = _drawing(call)
            return lambda row: Value(BLANK, f"f{draw(row).hex()}")
        operand = self.compile(call.args[0])

        def evaluate(row: Row) -> Value:
            label = operand(row)
            if label.datatype or not label.is_literal:
                raise ExpressionError("BNODE takes a string without language tag")
            return Value(BLANK, f"f{_hash(row.digest, b'BNODE', label.content.encode()).hex()}")

        return evaluate


def _drawing(call: Call) -> Callable[[Row], bytes]:
    """The bytes of a call in a row: the same in every run, other ones for each row and place in the text."""
    place = f"{call.name} {call.line} {call.column}".encode()
    return lambda row: _hash(row.digest, place)


def _hash(*parts: bytes) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()


def row_digest(salt: bytes, texts: Sequence[str]) -> bytes:
    """The hash of a row: of its texts, an empty one where a variable is unbound, and the salt."""
    return _hash(salt, *(text.encode() for text in texts))


def _as_uuid(drawn: bytes) -> str:
    """A UUID of version 4 from 16 bytes."""
    bits = bytearray(drawn)
    bits[6] = bits[6] & 0x0F | 0x40
    bits[8] = bits[8] & 0x3F | 0x80
    digits = bits.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _check_pattern(call: Call) -> None:
    """Refuse a constant pattern that is valid and not supported; an invalid one is an error in each row."""
    pattern, flags = call.args[1], call.args[3 if call.name == "REPLACE" else 2 :]
    if not isinstance(pattern, Constant) or not all(isinstance(flag, Constant) for flag in flags):
        return
    try:
        regexes.compiled(
            parse(pattern.value.text).content,
            *(parse(flag.value.text).content for flag in flags if isinstance(flag, Constant)),
        )
    except regexes.UnsupportedPatternError as error:
        raise UnsupportedError(str(error), line=call.line or None, column=call.column or None) from None
    except ExpressionError:
        return


_SPECIAL: dict[str, Callable[[Compiler, Call], Evaluation]] = {
    "OR": Compiler._or,
    "AND": Compiler._and,
    "BOUND": Compiler._bound,
    "IF": Compiler._if,
    "COALESCE": Compiler._coalesce,
    "IN": Compiler._in,
    "NOT IN": Compiler._in,
    "NOW": Compiler._now,
    "RAND": Compiler._rand,
    "UUID": Compiler._uuid,
    "STRUUID": Compiler._struuid,
    "BNODE": Compiler._bnode,
}
