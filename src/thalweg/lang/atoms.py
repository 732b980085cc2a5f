"""Atoms of a sequence: their groups as [NOW] queries, and their FILTERs on the join of several atoms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NoReturn, Protocol

from thalweg.algebra import nodes
from thalweg.algebra.conditions import conjuncts
from thalweg.algebra.expressions import INTERNAL, Expression, Variable, exists_in, substitute, variables_of
from thalweg.algebra.nodes import Node, Project
from thalweg.algebra.query import Query, Source
from thalweg.algebra.rules import rewrite
from thalweg.algebra.scope import mentioned, scope_of
from thalweg.algebra.sequences import (
    AGGREGATES,
    PREVIOUS,
    Alternatives,
    Atom,
    Chain,
    Condition,
    Item,
    Option,
    Repeat,
    Sequence,
    Use,
    function_name,
    negated_uses,
    uses_of,
)
from thalweg.algebra.windows import Now, Static
from thalweg.errors import QueryError
from thalweg.lang.clauses import Cursor
from thalweg.lang.names import Prologue
from thalweg.lang.sparql import QueryReader, visible
from thalweg.lang.text import QueryText


class Functions:
    """The functions of repetitions in a text: PREV(?v), COUNT(?v), ... become variables that nothing else names.

    SPARQL's grammar does not know all of them, and gives the others another meaning.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.query = cursor.query
        self.found: dict[str, tuple[str, str, int]] = {}
        """By the variable that stands for a call: the function, its variable, and the place."""
        cells = list(cursor.query.text)
        used = {token.text[1:] for token in cursor.tokens if token.kind == "var"}
        tokens = cursor.tokens
        for place, token in enumerate(tokens):
            if not token.matches(*AGGREGATES, PREVIOUS) or not tokens[place + 1 : place + 2]:
                continue
            if not tokens[place + 1].matches("("):
                continue
            variable, closing = tokens[place + 2], tokens[place + 3 : place + 4]
            if variable.kind != "var" or not closing or not closing[0].matches(")"):
                self.query.refuse(
                    f"{token.text} in a sequence is over the iterations of a repetition and takes one variable: "
                    f"{token.text}(?v)",
                    token.at,
                )
            number = len(self.found)
            while f"_{number}" in used:
                number += 1
            used.add(f"_{number}")
            self.found[f"_{number}"] = (token.text.upper(), variable.text[1:], token.at)
            width = closing[0].end - token.at
            cells[token.at : closing[0].end] = f"?_{number}".ljust(width)
        self.text = "".join(cells)

    def named(self, expression: Expression) -> Expression:
        """An expression with the names of functions for the variables that stand for them."""
        names = {
            short: Variable(function_name(function, name))
            for short, (function, name, _) in self.found.items()
        }
        return substitute(expression, names)

    def calls(self, expression: Expression) -> Iterator[tuple[str, str, int]]:
        """The functions that a named expression calls, each with its variable and its place."""
        names = set(variables_of(expression))
        for function, name, at in self.found.values():
            if function_name(function, name) in names:
                yield function, name, at

    def refuse_in(self, node: Node, name: str) -> None:
        """Refuses functions inside the pattern of an atom."""
        for short in mentioned(node):
            if short in self.found:
                function, _, at = self.found[short]
                self.query.refuse(
                    f"{function} can stand in SELECT and in top-level FILTERs, not inside the pattern of {name}",
                    at,
                )

    def check(self, expression: Expression, sequence: Sequence, at: int) -> None:
        """Refuses functions in SELECT that have no repetition to be about."""
        repeated = _anew(sequence)
        for function, name, place in self.calls(expression):
            if function == PREVIOUS:
                self.query.fail("PREV is for FILTERs of a repeated atom", place)
            if name not in repeated:
                self.query.fail(_no_repetition(function, name), place)


@dataclass(frozen=True)
class StaticGraphs:
    """The static graphs that atoms see: those that are one set with each event, and those that GRAPH can name."""

    merged: tuple[str, ...]
    named: tuple[str, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The graphs that GRAPH can name, as sources."""
        return tuple(Source((), Static(), graph, (graph,)) for graph in self.named)


class Definition(Protocol):
    """Where the group of an atom is written."""

    begin: int
    end: int


class AtomReader:
    """Reads the groups of the atoms of one query.

    Where groups are `closed`, their filters see their own variables, also those that are unbound.
    """

    def __init__(
        self,
        query: QueryText,
        prologue: Prologue,
        functions: Functions,
        closed: bool = False,
        static: StaticGraphs | None = None,
    ) -> None:
        self.query = query
        self.closed = closed
        self.prologue = prologue
        self.functions = functions
        self.static = static or StaticGraphs((), ())
        self.asked: list[tuple[str, set[str], int]] = []
        self.unknown_graphs: dict[str, None] = {}
        """The graphs that atoms ask for and that are not there; `*` where one asks for any."""

    def read(self, name: str, stream: str, tree: Any, place: Definition) -> tuple[Atom, Node]:
        """The atom of a group, and its logical tree as it is written."""
        sources = (Source((stream,), Now(), graphs=self.static.merged), *self.static.sources)
        reader = QueryReader(self.query, self.prologue, sources=sources, window_blocks=frozenset(), default=0)
        node, filters = reader.elements_of(tree.where)
        self.unknown_graphs.update(reader.unknown_graphs)
        if not _needs_triple(node):
            self.query.refuse(
                f"the pattern of the atom {name} needs a triple that an event must have", place.begin
            )
        self.functions.refuse_in(node, name)
        scope = scope_of(node)
        conditions: list[Condition] = []
        for part, expression in filters:
            named = self.functions.named(expression)
            has_previous = any(function == PREVIOUS for function, _, _ in self.functions.calls(named))
            # A FILTER with PREV holds as a whole in the first iteration.
            for one in [named] if has_previous else conjuncts(named):
                names = {v for v in variables_of(one) if not v.startswith(INTERNAL)}
                if names <= (set(scope.possible) if self.closed else scope.certain):
                    node = reader.with_condition(node, one, part.at)
                    if exists_in(one):
                        self.asked.append((name, mentioned(node) - scope.certain, part.at))
                elif exists_in(one) or len(names) < len(variables_of(one)):
                    self.query.refuse(
                        "EXISTS, NOW() and functions of the event take variables that their own atom always binds: "
                        f"?{min(names - scope.certain)} is none of {name}",
                        part.at,
                    )
                else:
                    conditions.append(Condition(one, *self.query.place(part.at)))
        possible = tuple(visible(node))
        text = self.query.text[place.begin : place.end]
        asked = Query("RSP-QL", None, None, sources, Project(node, possible), f"{name} {text}")
        return (
            Atom(name, stream, rewrite(asked), possible, scope.certain & set(possible), tuple(conditions)),
            node,
        )

    def check_groups(self, atoms: Iterable[Atom]) -> None:
        """Refuses EXISTS of an atom with variables that other atoms bind: it sees the atom's own ones."""
        for name, names, at in self.asked:
            for other in atoms:
                if other.name != name and (common := names.intersection(other.possible)):
                    self.query.refuse(
                        f"EXISTS in the atom {name} cannot use ?{min(common)} of the atom {other.name}", at
                    )


def _needs_triple(node: Node) -> bool:
    """Whether every solution needs a triple of the event."""
    match node:
        case nodes.Bgp():
            return any(pattern.source == 0 for pattern in node.patterns)
        case nodes.Join():
            return _needs_triple(node.left) or _needs_triple(node.right)
        case nodes.LeftJoin() | nodes.Minus() | nodes.Exists():
            return _needs_triple(node.left)
        case nodes.Union():
            return all(map(_needs_triple, node.inputs))
        case nodes.Values() | nodes.ZeroLength() | nodes.Empty():
            return False
        case nodes.Group():
            return bool(node.keys) and _needs_triple(node.input)
        case nodes.Closure():
            return _needs_triple(node.input)
    return all(map(_needs_triple, nodes.children(node)))


def check_conditions(query: QueryText, sequence: Sequence) -> None:
    """Refuses FILTERs with variables of later, negated or no atoms, and functions without a repetition."""
    uses = list(uses_of(sequence.pattern))
    negated = set(map(id, negated_uses(sequence.pattern)))
    repeated = set(map(id, _repeated(sequence.pattern)))
    anywhere = {name for use in uses for name in sequence.atom(use).possible}
    for use in uses:
        atom = sequence.atom(use)
        before = uses if id(use) in negated else list(takewhile(lambda one: one is not use, uses))  # noqa: B023
        others = [one for one in before if id(one) not in negated]
        allowed = {name for one in others for name in sequence.atom(one).possible} | set(atom.possible)
        anew = {n for one in others if id(one) in repeated for n in sequence.bound_anew(one)}
        for condition in atom.conditions:
            for name in variables_of(condition.expression):
                function, _, inner = name.partition("(")
                if not inner:
                    if name not in allowed:
                        _fail(query, condition, _unknown(name, use, name in anywhere))
                    continue
                inner = inner.removesuffix(")")
                if function == PREVIOUS:
                    if id(use) not in repeated:
                        _fail(
                            query, condition, f"PREV is for a repeated atom, and {use.atom} is not repeated"
                        )
                    if inner not in atom.possible:
                        _fail(
                            query,
                            condition,
                            f"PREV(?{inner}): the pattern of {use.atom} does not use ?{inner}",
                        )
                elif inner not in anew:
                    _fail(query, condition, _no_repetition(function, inner))
    _check_orders(query, sequence, sequence.pattern)


def _check_orders(query: QueryText, sequence: Sequence, item: Item) -> None:
    """Refuses FILTERs of atoms that use variables which, in some order of overlapping parts, are bound later."""
    match item:
        case Option():
            _check_orders(query, sequence, item.item)
        case Alternatives() | Chain():
            for one in item.items:
                _check_orders(query, sequence, one)
    if not isinstance(item, Alternatives) or not item.orders:
        return
    for order in item.items:
        uses = list(uses_of(order))
        seen: set[str] = set()
        for place, use in enumerate(uses):
            seen.update(sequence.atom(use).possible)
            later = {name for one in uses[place + 1 :] for name in sequence.atom(one).possible}
            for condition in sequence.atom(use).conditions:
                if missing := (later - seen).intersection(variables_of(condition.expression)):
                    reason = f"the FILTER of {use.atom} uses ?{min(missing)}, which is bound later in {order}"
                    _fail(query, condition, reason)


def _unknown(name: str, use: Use, elsewhere: bool) -> str:
    if elsewhere:
        return (
            f"the FILTER of {use.atom} uses ?{name}, which no atom before it binds: "
            "move the FILTER to the last atom whose variables it uses"
        )
    return f"the FILTER of {use.atom} uses ?{name}, which no atom binds"


def _no_repetition(function: str, name: str) -> str:
    return (
        f"{function}(?{name}) is over the iterations of a repetition before it that binds ?{name} anew in each: "
        f"no A+ does so here, or other atoms use ?{name}, too"
    )


def _fail(query: QueryText, condition: Condition, reason: str) -> NoReturn:
    raise QueryError(reason, source=query.source, line=condition.line, column=condition.column)


def _repeated(item: Item) -> Iterator[Use]:
    """The places of atoms in repetitions."""
    match item:
        case Repeat():
            yield from uses_of(item)
        case Option():
            yield from _repeated(item.item)
        case Alternatives() | Chain():
            for one in item.items:
                yield from _repeated(one)


def _anew(sequence: Sequence) -> set[str]:
    """The variables that the iterations of some repetition bind anew."""
    return {name for use in _repeated(sequence.pattern) for name in sequence.bound_anew(use)}
