"""A temporal pattern becomes a sequence query: an atom for each part, an alternative for each order of the parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NoReturn

from thalweg.algebra.expressions import EVENT_TIME, INTERNAL, Expression, Variable, exists_in, variables_of
from thalweg.algebra.nodes import Extend, Node, Project
from thalweg.algebra.query import Query, Source
from thalweg.algebra.rules import rewrite
from thalweg.algebra.sequences import (
    FOLLOWED,
    MOST_ALTERNATIVES,
    Alternatives,
    Atom,
    Chain,
    Condition,
    Item,
    Negation,
    Sequence,
    Together,
    Use,
)
from thalweg.algebra.temporal import (
    OPTIONAL,
    Both,
    Group,
    Missing,
    Order,
    Pattern,
    TooManyOrdersError,
    Without,
    end_of,
    is_time_of_group,
    orders_of,
    start_of,
)
from thalweg.algebra.windows import Now
from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang.atoms import AtomReader
from thalweg.lang.names import Prologue
from thalweg.lang.sparql import QueryReader
from thalweg.lang.spaseq import SequenceReader

_ROOT = 0


@dataclass
class Written:
    """A part as it is written: where, and its tree."""

    begin: int
    end: int
    tree: Any


@dataclass(frozen=True)
class Filter:
    """A condition on the solutions of a group."""

    expression: Expression
    group: int
    line: int
    column: int


@dataclass(frozen=True)
class _Asked:
    """A part as an atom: on each stream, with its tree."""

    atoms: dict[str, Atom]
    nodes: dict[str, Node]
    possible: tuple[str, ...]
    certain: frozenset[str]


class TemporalQuery(SequenceReader):
    """What is made of a temporal pattern once it is read."""

    prologue: Prologue

    def start(self, prologue: Prologue) -> None:
        """Takes the names that trees are read with."""
        self.prologue = prologue
        self.reader = AtomReader(
            self.query, prologue, self.functions, closed=True, static=self._static(prologue)
        )

    def expressions_of(self, tree: Any) -> Iterator[tuple[Any, Expression]]:
        """The filters in a group of a tree."""
        source = Source(("urn:none",), Now())
        reader = QueryReader(
            self.query, self.prologue, sources=(source,), window_blocks=frozenset(), default=0
        )
        for part, expression in reader.elements_of(tree)[1]:
            if exists_in(expression) or any(name.startswith(INTERNAL) for name in variables_of(expression)):
                self.query.refuse(
                    "EXISTS, NOW() and functions of an event are for groups of one event", part.at
                )
            yield part, expression

    def assemble(
        self,
        pattern: Pattern,
        written: Listed[Written],
        filters: Listed[Filter],
        streams: tuple[str, ...],
        form: Any,
        made: str | None,
        shows_interval: bool,
    ) -> Query:
        """The query."""
        assert self.within is not None
        self.parts = [self._asked(number, one, streams) for number, one in enumerate(written)]
        self.filters = [*filters, *self._optional_filters(pattern)]
        self.wanted = {name for one in self.filters for name in variables_of(one.expression)}
        if shows_interval:
            self.wanted |= {start_of(_ROOT), end_of(_ROOT)}
        self._check_names()
        self.variants: dict[object, Atom] = {}
        chains = list(self._chains(pattern, streams))
        item = chains[0] if len(chains) == 1 else Alternatives(tuple(chains))
        sequence = Sequence(item, tuple(self.variants.values()), self.within, streams, ())
        trees = [(node, stream) for part in self.parts for stream, node in part.nodes.items()]
        return self.finished("EP-SPARQL", sequence, trees, self.reader, form, made)

    def _asked(self, number: int, one: Written, streams: tuple[str, ...]) -> _Asked:
        found = {stream: self.reader.read(f"P{number + 1}", stream, one.tree, one) for stream in streams}
        atoms = {stream: atom for stream, (atom, _) in found.items()}
        atom = atoms[streams[0]]
        return _Asked(atoms, {s: node for s, (_, node) in found.items()}, atom.possible, atom.certain)

    # Conditions

    def _optional_filters(self, pattern: Pattern) -> Iterator[Filter]:
        """The filters of parts with variables of other parts: an optional one sees those on its left."""
        groups = dict(_optional_parts(pattern))
        for number, part in enumerate(self.parts):
            for one in next(iter(part.atoms.values())).conditions:
                if number not in groups:
                    name = next(n for n in variables_of(one.expression) if n not in part.possible)
                    self._fail(
                        f"the FILTER of a group sees its own variables, and ?{name} is none: "
                        "move it to the group around",
                        one,
                    )
                yield Filter(one.expression, groups[number], one.line, one.column)

    def _check_names(self) -> None:
        known = {name for part in self.parts for name in part.possible}
        for one in self.filters:
            for name in variables_of(one.expression):
                if name not in known and not is_time_of_group(name):
                    self._fail(f"the FILTER uses ?{name}, which no pattern binds", one)

    def _conditions(self, order: Order) -> dict[int, list[Condition]]:
        """By part: the conditions that are asked when it happens, which is as early as it can be."""
        flat = [part for block in order.blocks for part in block]
        groups = dict(order.groups)
        found: dict[int, list[Condition]] = defaultdict(list)
        for one in self.filters:
            if one.group not in groups:
                continue
            scope = groups[one.group]
            inside = [part for part in flat if part in scope]
            place = flat.index(inside[0])
            for name in variables_of(one.expression):
                place = max(place, self._place_of(name, flat, inside, one))
            found[flat[place]].append(Condition(one.expression, one.line, one.column))
        return found

    def _place_of(self, name: str, flat: list[int], inside: list[int], one: Filter) -> int:
        if is_time_of_group(name):
            return flat.index(inside[0] if name == start_of(one.group) else inside[-1])
        sure = [part for part in inside if name in self.parts[part].certain]
        if sure:
            return flat.index(sure[0])
        if any(name in self.parts[part].possible for part in flat if part not in inside):
            self._fail(
                f"?{name} may be unbound where this FILTER is asked, and has a value elsewhere: "
                "move the FILTER to a group that binds it, or rename one of them",
                one,
                UnsupportedError,
            )
        maybe = [part for part in inside if name in self.parts[part].possible]
        return flat.index(maybe[-1]) if maybe else 0

    def _check_missing(self, one: Missing, order: Order) -> None:
        """Refuses optional parts whose variables are bound elsewhere only: the pattern is not well-designed."""
        part = self.parts[one.part]
        sure = {name for k in one.scope for name in self.parts[k].certain}
        others = {other.part for other in order.missing if other is not one}
        outside = {name for k in (order.parts | others) - one.scope for name in self.parts[k].possible}
        conditions = [two for two in self.filters if two.group == one.group]
        for name in (*part.possible, *(n for two in conditions for n in variables_of(two.expression))):
            if name in outside and name not in sure:
                self.query.refuse(
                    f"?{name} of an optional pattern is bound elsewhere, and not on its left: rename one of them",
                    self.written_at(one.part),
                )
        for two in conditions:
            for name in variables_of(two.expression):
                if name in part.possible or name in sure:
                    continue
                self._fail(
                    f"?{name} may be unbound on the left of this optional pattern", two, UnsupportedError
                )

    def written_at(self, part: int) -> int:
        """Where a part is written."""
        raise NotImplementedError

    def _fail(self, reason: str, at: Filter | Condition, kind: type[QueryError] = QueryError) -> NoReturn:
        raise kind(reason, source=self.query.source, line=at.line, column=at.column)

    # Orders

    def _chains(self, pattern: Pattern, streams: tuple[str, ...]) -> Iterator[Item]:
        try:
            orders = orders_of(pattern)
            too_many = sum(len(streams) ** len(order.parts) for order in orders) > MOST_ALTERNATIVES
        except TooManyOrdersError:
            too_many = True
        if too_many:
            self.query.refuse(
                f"the events of this pattern can happen in more than {MOST_ALTERNATIVES:,} orders, on one stream or "
                "another: write SEQ or EQUALS between more of its groups",
                self.written_at(0),
            )
        if not orders:
            self.query.refuse(
                "this pattern has no solution: EQUALS compares one event with several instants",
                self.written_at(0),
            )
        for order in orders:
            for one in order.missing:
                self._check_missing(one, order)
            conditions = self._conditions(order)
            times = self._times(order)
            for chosen in product(streams, repeat=len(order.parts)):
                on = dict(zip(sorted(order.parts), chosen, strict=True))
                uses = {k: self._use(k, on[k], conditions.get(k, []), times.get(k, ())) for k in on}
                yield self._chain(order, uses, streams)

    def _chain(self, order: Order, uses: dict[int, Use], streams: tuple[str, ...]) -> Item:
        items: list[Item] = []
        ops: list[str] = []
        where = {part: place for place, block in enumerate(order.blocks) for part in block}
        for place, block in enumerate(order.blocks):
            ops += [FOLLOWED] if items else []
            here = tuple(uses[part] for part in sorted(block))
            items.append(here[0] if len(here) == 1 else Together(here))
            for one in order.missing:
                if where[one.after] != place:
                    continue
                if one.before is not None and where[one.before] != place + 1:
                    self.query.refuse(
                        "EQUALSOPTIONAL with a pattern of several events cannot stand in a join or in EQUALS",
                        self.written_at(one.part),
                    )
                conditions = [
                    Condition(two.expression, two.line, two.column)
                    for two in self.filters
                    if two.group == one.group
                ]
                ops.append(one.op)
                items.append(Negation(tuple(self._use(one.part, s, conditions, ()) for s in streams)))
        return items[0] if len(items) == 1 else Chain(tuple(items), tuple(ops))

    def _times(self, order: Order) -> dict[int, tuple[str, ...]]:
        """By part: the times of groups that it binds."""
        found: dict[int, tuple[str, ...]] = defaultdict(tuple)
        flat = [part for block in order.blocks for part in block]
        for number, scope in order.groups:
            inside = [part for part in flat if part in scope]
            for name, part in ((start_of(number), inside[0]), (end_of(number), inside[-1])):
                if name in self.wanted:
                    found[part] += (name,)
        return found

    def _use(self, part: int, stream: str, conditions: list[Condition], times: tuple[str, ...]) -> Use:
        """A place of a part, with its conditions and the times that it binds."""
        key = (part, stream, tuple(conditions), times)
        if key not in self.variants:
            asked = self.parts[part]
            atom, number = asked.atoms[stream], sum(k[0] == part for k in self.variants)  # type: ignore[index]
            query = atom.query
            if times:
                node = asked.nodes[stream]
                for name in times:
                    node = Extend(node, name, Variable(EVENT_TIME))
                query = rewrite(replace(query, root=Project(node, (*atom.possible, *times))))
            self.variants[key] = Atom(
                f"P{part + 1}" + (f".{number + 1}" if number else ""),
                stream,
                query,
                (*atom.possible, *times),
                atom.certain | set(times),
                tuple(conditions),
            )
        return Use(self.variants[key].name, *self.query.place(self.written_at(part)))


def _optional_parts(pattern: Pattern) -> Iterator[tuple[int, int]]:
    """The parts that are optional, with the groups that their conditions see."""
    match pattern:
        case Group():
            yield from _optional_parts(pattern.pattern)
        case Without():
            yield from _optional_parts(pattern.left)
            yield pattern.between.number, pattern.group
        case Both():
            yield from _optional_parts(pattern.left)
            if pattern.operator in OPTIONAL:
                assert not isinstance(pattern.right, Both | Group | Without)
                yield pattern.right.number, pattern.group
            else:
                yield from _optional_parts(pattern.right)
