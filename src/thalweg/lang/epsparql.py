"""EP-SPARQL (Anicic et al., 2011): groups with SEQ, EQUALS, OPTIONALSEQ and EQUALSOPTIONAL between them.

A group without these operators is asked of one event. A pattern becomes the orders in which its events can happen
(`algebra/temporal.py`), and these are the alternatives of one sequence.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from thalweg.algebra.conditions import conjuncts
from thalweg.algebra.expressions import Call, Constant, Expression, Variable, substitute
from thalweg.algebra.query import Query
from thalweg.algebra.temporal import (
    EQUALS_OPTIONAL,
    JOIN,
    OPERATORS,
    OPTIONAL,
    SEQ,
    UNION,
    Both,
    Group,
    Part,
    Pattern,
    Without,
    end_of,
    start_of,
)
from thalweg.algebra.terms import XSD, Const
from thalweg.algebra.windows import Range, Unbounded
from thalweg.instants import duration
from thalweg.lang import csparql, rspql
from thalweg.lang.atoms import Functions
from thalweg.lang.clauses import Cursor, Name, Token, show_token
from thalweg.lang.temporal_query import Filter, TemporalQuery, Written
from thalweg.lang.windows import read_window

START, END, LENGTH = "GETSTARTTIME", "GETENDTIME", "GETDURATION"
_NOT_BEHIND = ("OPTIONAL", "MINUS", "BIND", "VALUES")
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CLOCK = re.compile(r"(P(?:[0-9.]+D)?)([0-9.]+[HS].*)", re.IGNORECASE)
_ROOT = 0
_HINT = 'FROM STREAM <iri> [RANGE 10m], or FILTER(getDURATION() < "PT10M"^^xsd:duration)'


def is_temporal(cursor: Cursor) -> bool:
    """Whether a text is EP-SPARQL: it has a temporal operator before a group, or a function of an interval."""
    return any(
        (one.matches(*OPERATORS) and two.matches("{"))
        or (one.matches(START, END, LENGTH) and two.matches("("))
        for one, two in pairwise(cursor.tokens)
    )


def parse_temporal(cursor: Cursor, stream: str | None, graphs: Collection[str] = ()) -> Query:
    """The query of an EP-SPARQL text; `stream` is read where it names none, `graphs` are static ones."""
    return _Reader(cursor, stream, graphs).read()


class _Functions(Functions):
    """The functions of intervals: in a group of one event they are about NOW(), elsewhere they become variables."""

    def __init__(self, cursor: Cursor) -> None:
        self.query = cursor.query
        self.found = {}
        self.group = _ROOT
        used = {token.text[1:] for token in cursor.tokens if token.kind == "var"}
        outer, inner = list(cursor.query.text), list(cursor.query.text)
        number = 0
        for place, token in enumerate(cursor.tokens):
            if not token.matches(START, END, LENGTH):
                continue
            following = cursor.tokens[place + 1 : place + 3]
            if [one.text for one in following] != ["(", ")"]:
                self.query.fail(f"{token.text} takes no argument: {token.text}()", token.at)
            while f"_{number}" in used:
                number += 1
            used.add(f"_{number}")
            self.found[f"_{number}"] = (token.text.upper(), "", token.at)
            end = following[1].end
            outer[token.at : end] = f"?_{number}".ljust(end - token.at)
            event = "(NOW()-NOW())" if token.matches(LENGTH) else "NOW()"
            inner[token.at : end] = event.ljust(end - token.at)
        self.text = self.outer = "".join(outer)
        self.inner = "".join(inner)

    def named(self, expression: Expression) -> Expression:
        """An expression with the ends of the current group's interval."""
        start, end = Variable(start_of(self.group)), Variable(end_of(self.group))
        values: dict[str, Expression] = {START: start, END: end, LENGTH: Call("-", (end, start))}
        return substitute(expression, {name: values[found[0]] for name, found in self.found.items()})

    def is_length(self, expression: Expression) -> bool:
        """Whether it is getDURATION()."""
        return isinstance(expression, Variable) and self.found.get(expression.name, ("",))[0] == LENGTH

    def check(self, expression: Expression, sequence: object, at: int) -> None:
        """Functions of an interval may stand everywhere."""

    def blank(self, begin: int, end: int) -> None:
        """Cuts a filter out of the text of patterns."""
        self.inner = self.inner[:begin] + " " * (end - begin) + self.inner[end:]


@dataclass(frozen=True)
class _Span:
    """A part of the text that is asked of one event; `bare` if it has no braces of its own."""

    begin: int
    end: int
    bare: bool


class _Reader(TemporalQuery):
    """Reads the clauses and the tree of groups; what is made of them is the base's work."""

    functions: _Functions

    def __init__(self, cursor: Cursor, stream: str | None, graphs: Collection[str]) -> None:
        super().__init__(cursor, graphs)
        self.functions = _Functions(cursor)
        self.default = stream
        self.streams: list[Name] = []
        self.width: int | None = None
        self.spans: list[_Span] = []
        self.raw: list[tuple[int, Any]] = []
        """Filters as they are written: the group, and the tree."""
        self.groups = 1

    def read(self) -> Query:
        """The query."""
        for token in self.cursor.tokens:
            if token.depth > 0 and token.matches("SERVICE"):
                self.query.refuse("SERVICE is not supported: a query makes no network call", token.at)
        self._skip_prologue()
        output = self._registration()
        head = self.cursor.next()
        if not head.matches("SELECT", "CONSTRUCT"):
            self.query.refuse(
                f"an EP-SPARQL query begins with SELECT or CONSTRUCT, not {show_token(head)}", head.at
            )
        begin, end = self._form_span(head)
        while self.cursor.take("FROM"):
            self._stream_clause()
        where = self.cursor.take("WHERE")
        opened = self.cursor.peek()
        pattern = self._pattern(where or head)
        if (more := self.cursor.peek()).kind != "end":
            self.query.refuse(
                f"{show_token(more)} cannot stand behind a temporal pattern: its answer has no modifiers",
                more.at,
            )
        prologue, form = self._form(head, begin, end)
        self.start(prologue)
        filters = [one for group, tree in self.raw for one in self._filter(group, tree)]
        self._set_window(opened)
        streams = [prologue.clause_name(name) for name in self.streams]
        if not streams:
            if self.default is None:
                self.query.fail("the query names no stream: write FROM STREAM <...>", head.at)
            streams = [self.default.removeprefix("<").removesuffix(">")]
        made = None if output is None else prologue.clause_name(output)
        if output is not None and made in streams:
            self.query.fail(f"<{made}> would be derived from itself: name another output stream", output.at)
        self.functions.text = self.functions.inner
        written = [self._written(span) for span in self.spans]
        self.functions.text = self.functions.outer
        return self.assemble(
            Group(pattern, _ROOT),
            written,
            filters,
            tuple(dict.fromkeys(streams)),
            form,
            made,
            shows_interval=any(begin <= at < end for _, _, at in self.functions.found.values()),
        )

    # The clauses

    def _registration(self) -> Name | None:
        register = self.cursor.take("REGISTER")
        if register is None:
            return None
        front = csparql if csparql.is_registration(self.cursor) else rspql
        found = front.registration(self.cursor, register)
        if found.operator is not None or found.every is not None:
            self.query.refuse(
                "a temporal pattern reports each match once: write REGISTER STREAM <out> AS", register.at
            )
        return found.output

    def _form_span(self, head: Token) -> tuple[int, int]:
        """From where to where the projection or the template is written."""
        begin = self.cursor.peek().at
        if head.matches("CONSTRUCT"):
            opened = self.cursor.expect("{")
            self._skip_to_closing(opened)
        else:
            while (token := self.cursor.peek()).kind != "end" and not (
                token.depth == 0 and token.matches("FROM", "WHERE", "{", *OPERATORS)
            ):
                self.cursor.next()
        return (begin if head.matches("CONSTRUCT") else head.end), self.cursor.peek().at

    def _skip_to_closing(self, opened: Token) -> Token:
        while True:
            token = self.cursor.next()
            if token.depth == opened.depth and token.matches("}", ")"):
                return token

    def _stream_clause(self) -> None:
        if self.cursor.take("NAMED"):
            self.named.append(self.cursor.name("a static graph"))
            return
        if not self.cursor.take("STREAM"):
            self.merged.append(self.cursor.name("STREAM or a static graph"))
            return
        self.streams.append(self.cursor.name("a stream"))
        at = self.cursor.peek().at
        window = read_window(self.cursor)
        if isinstance(window, Unbounded):
            return
        if window != (Range(window.width) if isinstance(window, Range) else None):
            self.query.refuse(f"the window of a temporal pattern slides: {_HINT}", at)
        assert isinstance(window, Range)
        self.width = min(window.width, self.width or window.width)

    # Groups

    def _pattern(self, before: Token) -> Pattern:
        token = self.cursor.peek()
        if token.matches("{"):
            opened = self.cursor.next()
            if not self._is_temporal_group(opened):
                return self._part_of(opened)
            pattern = self._elements(_ROOT, opened)
            self.cursor.expect("}")
            return pattern
        if not token.matches(*OPERATORS):
            self.query.fail(f"expected WHERE {{ ... }}, not {show_token(token)}", token.at)
        return self._elements(_ROOT, before)

    def _is_temporal_group(self, opened: Token) -> bool:
        """Whether a temporal operator is in the group that begins before the cursor."""
        place = self.cursor.i
        while not ((token := self.cursor.tokens[place]).depth == opened.depth and token.matches("}")):
            if token.matches(*OPERATORS) and self.cursor.tokens[place + 1].matches("{"):
                return True
            place += 1
        return False

    def _group(self) -> Pattern:
        opened = self.cursor.expect("{")
        if not self._is_temporal_group(opened):
            return self._part_of(opened)
        number, self.groups = self.groups, self.groups + 1
        pattern = self._elements(number, opened)
        self.cursor.expect("}")
        return Group(pattern, number)

    def _part_of(self, opened: Token) -> Part:
        closing = self._skip_to_closing(opened)
        return self._part(_Span(opened.at, closing.end, bare=False))

    def _part(self, span: _Span) -> Part:
        self.spans.append(span)
        return Part(len(self.spans) - 1)

    def _elements(self, group: int, opened: Token) -> Pattern:
        """The elements of a group up to its closing brace; what is to the left of an operator is its operand."""
        left: Pattern | None = None
        while not (token := self.cursor.peek()).matches("}") and token.kind != "end":
            if token.matches(*OPERATORS) and self.cursor.peek(1).matches("{"):
                self.cursor.next()
                if left is None and token.matches(*OPTIONAL):
                    self.query.fail(f"{token.text} needs a pattern on its left", token.at)
                right = self._group()
                left = right if left is None else self._both(token, left, right)
            elif token.matches("FILTER"):
                self._group_filter(group)
            elif token.matches("."):
                self.cursor.next()
            elif token.matches("{") and self._is_temporal_union():
                sub = self._union()
                left = sub if left is None else Both(JOIN, left, sub)
            else:
                if left is not None and token.matches(*_NOT_BEHIND):
                    self.query.refuse(
                        f"{token.text.upper()} cannot stand behind a temporal operator: it is for groups of one event",
                        token.at,
                    )
                part = self._part_of(self.cursor.next()) if self._is_alone() else self._plain(group)
                left = part if left is None else Both(JOIN, left, part)
        if left is None:
            self.query.fail("this group has no pattern", opened.at)
        return left

    def _both(self, token: Token, left: Pattern, right: Pattern) -> Pattern:
        operator = token.text.upper()
        if operator not in OPTIONAL:
            return Both(operator, left, right)
        number, self.groups = self.groups, self.groups + 1
        if isinstance(right, Part):
            return Both(operator, left, right, number)
        return self._absence(token, operator, left, right, number)

    def _absence(self, token: Token, operator: str, left: Pattern, right: Pattern, number: int) -> Pattern:
        """`{A SEQ C} EQUALSOPTIONAL {A SEQ B SEQ C}`, the form of a negation in EP-SPARQL."""
        outer, inner = _chain(left), _chain(right)
        bare = not isinstance(right, Group) or all(group != right.number for group, _ in self.raw)
        if operator == EQUALS_OPTIONAL and bare and len(outer) == 2 and len(inner) == 3:
            ends = (inner[0], inner[2])
            if all(self._shown(a) == self._shown(b) for a, b in zip(outer, ends, strict=True)):
                return Without(left, inner[1], number, ends)
        self.query.refuse(
            f"the right operand of {operator} is a pattern of one event, or of EQUALSOPTIONAL, behind {{A}} SEQ {{C}}, "
            "{A} SEQ {B} SEQ {C} with the same A and C",
            token.at,
        )

    def _shown(self, part: Part) -> list[str]:
        span = self.spans[part.number]
        tokens = [t.text for t in self.cursor.tokens if span.begin <= t.at < span.end]
        inner = tokens if span.bare else tokens[1:-1]
        return inner[:-1] if inner[-1:] == ["."] else inner

    def _is_temporal_union(self) -> bool:
        """Whether the groups with UNION between them that begin here have a temporal operator."""
        begun = self.cursor.i
        found = False
        while True:
            opened = self.cursor.expect("{")
            found = found or self._is_temporal_group(opened)
            self._skip_to_closing(opened)
            if not self.cursor.peek().matches("UNION") or not self.cursor.peek(1).matches("{"):
                break
            self.cursor.next()
        self.cursor.i = begun
        return found

    def _is_alone(self) -> bool:
        """Whether a group begins here, and what follows it is no element of the same part."""
        if not self.cursor.peek().matches("{"):
            return False
        begun = self.cursor.i
        self._skip_to_closing(self.cursor.next())
        following = self.cursor.peek()
        self.cursor.i = begun
        return following.kind == "end" or following.matches("}", ".", "FILTER", *OPERATORS)

    def _union(self) -> Pattern:
        pattern = self._group()
        while self.cursor.take("UNION"):
            pattern = Both(UNION, pattern, self._group())
        return pattern

    def _plain(self, group: int) -> Part:
        """Elements of SPARQL up to the next temporal operator."""
        first = self.cursor.peek()
        last = first
        while (token := self.cursor.peek()).kind != "end" and not token.matches("}"):
            if token.matches(*OPERATORS) and self.cursor.peek(1).matches("{"):
                break
            if token.matches("FILTER"):
                self._group_filter(group)
                continue
            if token.matches(*OPERATORS):
                self.query.fail(f"{token.text} needs a group on its right: {token.text} {{ ... }}", token.at)
            if token.matches("{"):
                behind = self.cursor.peek(-1)
                if self._is_temporal_union():
                    if behind.at >= first.at and behind.kind in ("word", "iri", "pname", "var"):
                        self.query.refuse(
                            f"a temporal operator cannot stand inside {behind.text} {{ }}", token.at
                        )
                    break
                self.cursor.next()
                last = self._skip_to_closing(token)
                continue
            last = self.cursor.next()
        return self._part(_Span(first.at, last.end, bare=True))

    # Filters

    def _group_filter(self, group: int) -> None:
        """FILTER ( ... ), FILTER f( ... ) or FILTER [NOT] EXISTS { ... }: it is about the whole group."""
        token = self.cursor.next()
        while (opened := self.cursor.next()).kind != "end" and not opened.matches("(", "{"):
            pass
        if opened.matches("{"):
            self.query.refuse(
                "EXISTS is for the group of one event: a temporal pattern has no graph", token.at
            )
        if opened.kind == "end":
            self.query.fail("FILTER needs a condition", token.at)
        closing = self._skip_to_closing(opened)
        _, tree = self.parsed("ASK {", token.at, closing.end, "}")
        self.raw.append((group, tree.where))
        self.functions.blank(token.at, closing.end)

    def _filter(self, group: int, tree: Any) -> list[Filter]:
        """The conditions of a FILTER; bounds of the whole pattern's duration become its window."""
        found = []
        for part, expression in self.expressions_of(tree):
            for one in conjuncts(expression):
                measured = self._measured(one, part.at)
                if group == _ROOT and (bound := self._bound(measured)) is not None:
                    self.width = min(bound, self.width or bound)
                    continue
                self.functions.group = group
                found.append(Filter(self.functions.named(measured), group, *self.query.place(part.at)))
        self.functions.group = _ROOT
        return found

    def _measured(self, one: Expression, at: int) -> Expression:
        """A comparison with getDURATION(), with a duration of fixed length on its other side."""
        if not isinstance(one, Call):
            return one
        args = tuple(self._measured(arg, at) for arg in one.args)
        if one.name in _TURNED and any(map(self.functions.is_length, args)):
            args = tuple(self._length(arg, at) if isinstance(arg, Constant) else arg for arg in args)
        return replace(one, args=args)

    def _length(self, constant: Constant, at: int) -> Constant:
        text = constant.value.text
        written, _, kind = text.removeprefix('"').partition('"')
        if not kind.endswith(("#duration>", "#dayTimeDuration>")):
            self.query.fail(
                f'getDURATION() is compared with a duration, such as "PT10M"^^xsd:duration, not {text[:60]}',
                at,
            )
        # The papers write P1H and P10S, which can be read in one way only.
        if clock := _CLOCK.fullmatch(written):
            written = f"{clock[1]}T{clock[2]}"
        try:
            length = duration(written)
        except ValueError as error:
            self.query.fail(f"{error}; minutes are written PT10M", at)
        seconds, rest = divmod(length, 1_000_000)
        return Constant(Const.literal(f"PT{seconds}.{rest:06d}S", datatype=f"{XSD}dayTimeDuration"))

    def _bound(self, one: Expression) -> int | None:
        """The window, if a condition is an upper bound of getDURATION(): shorter than this many microseconds."""
        if not isinstance(one, Call) or one.name not in _TURNED or len(one.args) != 2:
            return None
        name, (left, right) = one.name, one.args
        if self.functions.is_length(right):
            name, left, right = _TURNED[name], right, left
        if not self.functions.is_length(left) or not isinstance(right, Constant) or name not in ("<", "<="):
            return None
        length = duration(right.value.text.removeprefix('"').partition('"')[0])
        return length + (name == "<=")

    def _set_window(self, at: Token) -> None:
        if self.width is None:
            self.query.fail(f"a temporal pattern needs a window: {_HINT}", at.at)
        if self.width < 1:
            self.query.fail("getDURATION() is never shorter than nothing", at.at)
        self.within = self.width - 1

    # Parts

    def written_at(self, part: int) -> int:
        """Where a part is written."""
        return self.spans[part].begin

    def _written(self, span: _Span) -> Written:
        word, behind = ("ASK {", "}") if span.bare else ("ASK", "")
        _, tree = self.parsed(word, span.begin, span.end, behind)
        return Written(span.begin, span.end, tree)


def _chain(pattern: Pattern) -> list[Part]:
    """The parts of {A} SEQ {B} SEQ ...; nothing if it is anything else."""
    if isinstance(pattern, Group):
        return _chain(pattern.pattern)
    if isinstance(pattern, Part):
        return [pattern]
    if isinstance(pattern, Both) and pattern.operator == SEQ and isinstance(pattern.right, Part):
        left = _chain(pattern.left)
        return [*left, pattern.right] if left else []
    return []
