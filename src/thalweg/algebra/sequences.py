"""Sequences of events (SPAseq, EP-SPARQL): the tree of SEQ(...), atoms, and the linear alternatives of a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from thalweg.algebra.expressions import Expression

if TYPE_CHECKING:
    from thalweg.algebra.query import Query

FOLLOWED, IMMEDIATELY = ";", ","
AT_ONCE, UNTIL_END = "=", ";;"
"""Operators before a negation: at the instant of what is before it, and from there on to the end of the window."""
AGGREGATES = ("COUNT", "FIRST", "LAST", "MIN", "MAX", "AVG", "SUM")
"""Functions of all values that a variable has in the iterations of a repetition."""
PREVIOUS = "PREV"
MOST_ALTERNATIVES = 1_000
"""Linear alternatives that `?` and `|` may make of one sequence."""
MOST_ITERATIONS = 1_000
"""The largest bound of a repetition {n,m}."""


@dataclass(frozen=True, slots=True)
class Use:
    """One place in SEQ(...) where an atom stands."""

    atom: str
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.atom


@dataclass(frozen=True, slots=True)
class Together:
    """`(A <> B)`: all of them at one timestamp."""

    uses: tuple[Use, ...]

    def __str__(self) -> str:
        return f"({' <> '.join(map(str, self.uses))})"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """`(A | B)`: one of them; or the orders of events that fulfil one of Allen's relations."""

    items: tuple[Item, ...]
    orders: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Repeat:
    """`A+` or `A{n,m}`: iterations at neighbouring instants; `most` is None without a bound."""

    item: Use | Together | Alternatives
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        if self.least < 1 or (self.most is not None and self.most < self.least):
            raise ValueError("a repetition has at least one iteration, and no fewer at most than at least")

    @property
    def ways(self) -> tuple[tuple[Use, ...], ...]:
        """What one iteration may be: each a list of atoms at one instant."""
        return _ways_at_once(self.item)

    def __str__(self) -> str:
        if (self.least, self.most) == (1, None):
            return f"{self.item}+"
        most = "" if self.most is None else str(self.most)
        return f"{self.item}{{{self.least},{most}}}"


@dataclass(frozen=True, slots=True)
class Negation:
    """`N!` or `(N | M)!`: no event that matches one of them."""

    uses: tuple[Use, ...]

    def __str__(self) -> str:
        shown = " | ".join(map(str, self.uses))
        return f"({shown})!" if len(self.uses) > 1 else f"{shown}!"


@dataclass(frozen=True, slots=True)
class Option:
    """`X?`: with X, and without it."""

    item: Item

    def __str__(self) -> str:
        return f"({self.item})?" if isinstance(self.item, Chain) else f"{self.item}?"


@dataclass(frozen=True, slots=True)
class Chain:
    """Items one after the other; `ops` stand between them."""

    items: tuple[Item, ...]
    ops: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.ops) != len(self.items) - 1:
            raise ValueError("there is one operator between two items")

    def __str__(self) -> str:
        shown = [f"({item})" if isinstance(item, Chain) else str(item) for item in self.items]
        ops = [f" {op} " for op in self.ops]
        return shown[0] + "".join(op + item for op, item in zip(ops, shown[1:], strict=True))


Item = Use | Together | Alternatives | Repeat | Negation | Option | Chain
Step = Use | Together | Repeat | Negation


@dataclass(frozen=True, slots=True)
class Line:
    """A sequence without alternatives: steps, and the operators between them."""

    steps: tuple[Step, ...] = ()
    ops: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(Chain(self.steps, self.ops))


def uses_of(item: Item) -> Iterator[Use]:
    """All places of atoms, in written order."""
    match item:
        case Use():
            yield item
        case Together() | Negation():
            yield from item.uses
        case Repeat() | Option():
            yield from uses_of(item.item)
        case Alternatives() | Chain():
            for one in item.items:
                yield from uses_of(one)


def negated_uses(item: Item) -> Iterator[Use]:
    """The places of negated atoms."""
    match item:
        case Negation():
            yield from item.uses
        case Repeat() | Option():
            yield from negated_uses(item.item)
        case Alternatives() | Chain():
            for one in item.items:
                yield from negated_uses(one)


def count_lines(item: Item) -> int:
    """How many linear alternatives an item has, those without a step included."""
    match item:
        case Option():
            return 1 + count_lines(item.item)
        case Alternatives():
            return sum(map(count_lines, item.items))
        case Chain():
            return prod(map(count_lines, item.items))
    return 1


def lines_of(item: Item) -> list[Line]:
    """The linear alternatives of an item; one that leaves everything out has no steps.

    What is left out goes with the operator on its left; at the beginning, with that on its right.

    >>> [str(line) for line in lines_of(Chain((Use("A"), Option(Use("B")), Use("C")), (";", ",")))]
    ['A ; B , C', 'A , C']
    """
    match item:
        case Option():
            return [*lines_of(item.item), Line()]
        case Alternatives():
            return [line for one in item.items for line in lines_of(one)]
        case Chain():
            return [_joined(parts, item.ops) for parts in product(*map(lines_of, item.items))]
    return [Line((item,))]


def _joined(parts: tuple[Line, ...], ops: tuple[str, ...]) -> Line:
    steps: list[Step] = []
    between: list[str] = []
    for place, part in enumerate(parts):
        if part.steps:
            if steps:
                between.append(ops[place - 1])
            steps += part.steps
            between += part.ops
    return Line(tuple(steps), tuple(between))


def _ways_at_once(item: Use | Together | Alternatives) -> tuple[tuple[Use, ...], ...]:
    match item:
        case Use():
            return ((item,),)
        case Together():
            return (item.uses,)
    return tuple((one,) for one in item.items if isinstance(one, Use))


@dataclass(frozen=True, slots=True)
class Condition:
    """A FILTER of an atom on the join of atoms.

    In its expression, the variables `PREV(v)` and `COUNT(v)` etc. stand for these functions of repetitions.
    """

    expression: Expression
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Atom:
    """A graph pattern that is asked of each event of one stream."""

    name: str
    stream: str
    query: Query
    """The pattern as a [NOW] query of the stream, which shows all its variables; conditions of its own are in it."""
    possible: tuple[str, ...]
    certain: frozenset[str]
    conditions: tuple[Condition, ...] = ()


PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = "PAST LAST EVENT", "TO NEXT", "TO FIRST", "TO LAST"
RECENT, CHRONOLOGICAL = "RECENT", "CHRONOLOGICAL"


@dataclass(frozen=True, slots=True)
class Skip:
    """AFTER MATCH SKIP: where the next match may begin; `atom` is that of TO FIRST and TO LAST."""

    kind: str
    atom: str | None = None

    def __str__(self) -> str:
        return self.kind if self.atom is None else f"{self.kind} {self.atom}"


@dataclass(frozen=True, slots=True)
class Optimisations:
    """What can be switched off to measure what it is worth; no answer depends on it."""

    index_by_values: bool = True
    """Whether runs are found by the values of variables that they have in common with an event."""
    lazy_conjunctions: bool = True
    """Whether operands of `<>` are asked only where the cheaper ones have solutions."""


@dataclass(frozen=True)
class Sequence:
    """What a sequence query asks for, apart from the form of its answer."""

    pattern: Item
    atoms: tuple[Atom, ...]
    within: int
    streams: tuple[str, ...]
    """The streamset: all declared streams, also those that no atom reads."""
    columns: tuple[tuple[str, Expression], ...]
    """The variables of a row and their values."""
    distinct: bool = False
    partition: str | None = None
    skip: Skip | None = None
    consume: str | None = None
    """RECENT or CHRONOLOGICAL: which matches are left out because of the events that others use."""
    retracts: bool = False
    """Whether deletes take events back, and with them matches."""
    timed_out: str | None = None
    """The variable that is true in rows of partial matches that timed out; None: they are not reported."""
    part: tuple[str, int, int] | None = None
    """A variable, a number of shards and one of them: only matches count whose value belongs to it."""
    optimisations: Optimisations = field(default=Optimisations(), compare=False, repr=False)

    @property
    def traced(self) -> bool:
        """Whether it matters by which events a run came about."""
        return self.selects or self.timed_out is not None

    @property
    def selects(self) -> bool:
        """Whether some matches are left out because of others."""
        return self.skip is not None or self.consume is not None

    def atom(self, use: Use) -> Atom:
        """The atom of a place."""
        return self._by_name[use.atom]

    @cached_property
    def _by_name(self) -> dict[str, Atom]:
        return {atom.name: atom for atom in self.atoms}

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The linear alternatives that have an event."""
        lines = lines_of(self.pattern)
        return tuple(line for line in lines if any(not isinstance(step, Negation) for step in line.steps))

    @cached_property
    def _users(self) -> Counter[str]:
        """How many places of atoms use each variable in their patterns."""
        return Counter(name for use in uses_of(self.pattern) for name in self.atom(use).possible)

    def bound_anew(self, use: Use) -> frozenset[str]:
        """The variables of a repeated atom that no other place uses: each iteration binds them anew."""
        return frozenset(
            name for name in self.atom(use).possible if self._users[name] == 1 and name != self.partition
        )


def function_name(function: str, variable: str) -> str:
    """The name of the variable that stands for a function of a repetition.

    >>> function_name("COUNT", "v")
    'COUNT(v)'
    """
    return f"{function}({variable})"
