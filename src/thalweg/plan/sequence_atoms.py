"""How the atoms of a sequence are asked of events: which of them are one query, in which order, and of which events.

Operands of a conjunction `(A <> B)` are asked lazily: a match needs all of them at one instant. So an instant at which
an operand has no event on its stream, or a cheaper operand has no solution, is not asked for the others. (The thesis,
section 9.4.3, counts events: here one event may serve several operands, so their number says nothing.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.algebra.sequences import Alternatives, Atom, Chain, Item, Option, Repeat, Sequence, Together
from thalweg.algebra.terms import Var
from thalweg.plan.compile import shown_variables


@dataclass(frozen=True)
class Evidence:
    """What an instant must have for an operand to be asked: events of some streams, solutions of cheaper queries."""

    streams: frozenset[str]
    askings: tuple[int, ...]


@dataclass(frozen=True)
class Asking:
    """Atoms that are one query up to the names of variables; without evidence, it is asked of every event."""

    atoms: tuple[Atom, ...]
    evidence: tuple[Evidence, ...] = ()
    """One for each conjunction with one of the atoms: any of them is enough."""

    @property
    def stream(self) -> str:
        """The stream whose events are asked."""
        return self.atoms[0].stream


def askings_of(sequence: Sequence) -> tuple[Asking, ...]:
    """The queries of a sequence's atoms: those asked of every event first, then the cheap ones first."""
    groups: dict[object, list[Atom]] = {}
    for atom in sequence.atoms:
        shape = shape_of(atom)
        groups.setdefault((atom.stream, shape[0]) if shape is not None else atom.name, []).append(atom)
    found = [tuple(atoms) for atoms in groups.values()]
    # By PARTITION BY, solutions of every atom decide which events stand between others.
    if sequence.partition is not None or not sequence.optimisations.lazy_conjunctions:
        return tuple(map(Asking, found))
    conjunctions = list(_conjunctions(sequence.pattern))
    alone = set(_alone(sequence.pattern)) | (
        {atom.name for atom in sequence.atoms} - {name for names in conjunctions for name in names}
    )
    always = [atoms for atoms in found if any(atom.name in alone for atom in atoms)]
    ordered = always + sorted((atoms for atoms in found if atoms not in always), key=_cost)
    numbers = {atom.name: number for number, atoms in enumerate(ordered) for atom in atoms}
    askings = []
    for number, atoms in enumerate(ordered):
        evidence = []
        for names in conjunctions:
            if number >= len(always) and number in {numbers[name] for name in names}:
                before = sorted({numbers[name] for name in names if numbers[name] < number})
                known = {atoms[0].stream, *(ordered[k][0].stream for k in before)}
                streams = frozenset(ordered[numbers[name]][0].stream for name in names) - known
                evidence.append(Evidence(streams, tuple(before)))
        if Evidence(frozenset(), ()) in evidence:
            evidence = []
        askings.append(Asking(atoms, tuple(dict.fromkeys(evidence))))
    return tuple(askings)


def shape_of(atom: Atom) -> tuple[object, list[str]] | None:
    """A basic graph pattern without the names of its variables, and these names; None of any other pattern."""
    query = atom.query
    if not query.flat or query.fixed or query.empty is not None:
        return None
    numbers = {name: number for number, name in enumerate(query.variables)}
    shown = [numbers[name] for name in shown_variables(query)]
    patterns = [
        (pattern.source, *(numbers[term.name] if isinstance(term, Var) else term for term in pattern.terms))
        for pattern in query.patterns
    ]
    return (query.sources, tuple(patterns), tuple(sorted(shown))), list(query.variables)


def _cost(atoms: tuple[Atom, ...]) -> tuple[bool, int, int]:
    """What a query costs, as far as its text says: parts beyond a basic graph pattern, patterns, variables in them."""
    query = atoms[0].query
    variables = sum(isinstance(term, Var) for pattern in query.patterns for term in pattern.terms)
    return not query.flat, len(query.patterns), variables


def _conjunctions(item: Item) -> Iterator[tuple[str, ...]]:
    """The atoms of each conjunction."""
    match item:
        case Together():
            yield tuple(use.atom for use in item.uses)
        case Repeat() | Option():
            yield from _conjunctions(item.item)
        case Alternatives() | Chain():
            for one in item.items:
                yield from _conjunctions(one)


def _alone(item: Item) -> Iterator[str]:
    """The atoms that stand outside of conjunctions, negated ones included."""
    match item:
        case Together():
            return
        case Repeat() | Option():
            yield from _alone(item.item)
        case Alternatives() | Chain():
            for one in item.items:
                yield from _alone(one)
        case _:
            yield from (use.atom for use in (item.uses if hasattr(item, "uses") else (item,)))
