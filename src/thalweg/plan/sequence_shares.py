"""Shares of a sequence: how its events are spread over shards, so that each match is found once.

Every shard has the times of all events, so that what is next and what is between is the same everywhere. A match is
found in the shard of its value of one variable, which every atom that is not negated binds for certain: there, atoms
count only with solutions whose value belongs to the shard. A triple goes to the shard of that value where its pattern
has the variable and the atom is a basic graph pattern; the other triples go to all shards.
"""

from __future__ import annotations

from thalweg.algebra.expressions import Variable
from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Atom, Repeat, Sequence, negated_uses, uses_of
from thalweg.algebra.terms import Pattern, Var
from thalweg.plan.shares import Dimensions, Role, Shares


def plan_sequence_shares(query: Query, shards: int) -> Shares:
    """How a sequence is spread over at most so many shards; where it cannot be, `reason` is why."""
    sequence = query.sequence
    assert sequence is not None
    if shards == 1:
        return Shares(reason="one was requested")
    names, reason = _allowed(sequence)
    if not names:
        return Shares(reason=reason)
    # The more patterns have the variable, the fewer copies there are; subjects are more even than objects.
    name = max(names, key=lambda one: (_places(query, one), -names.index(one)))
    roles: dict[Dimensions, list[int]] = {}
    for number, pattern in enumerate(query.patterns):
        roles.setdefault(_dimensions(query, pattern, name), []).append(number)
    if sequence.partition is not None:
        reason = f"the values of {Var(name)} are on their own"
    else:
        reason = f"every atom that is not negated binds {Var(name)}"
    return Shares(
        ((name, shards),),
        tuple(Role(dimensions, tuple(numbers)) for dimensions, numbers in roles.items()),
        reason=f"{reason}; every shard has the times of all events",
    )


def _allowed(sequence: Sequence) -> tuple[list[str], str]:
    """The variables by which matches can be spread; if there is none, the reason."""
    if sequence.retracts:
        return [], "a delete takes back an event whose triples have to be together"
    if sequence.selects and sequence.partition is None:
        return [], "one match excludes others"
    shown = {expression.name for _, expression in sequence.columns if isinstance(expression, Variable)}
    if sequence.partition is not None:
        names = [sequence.partition]
    else:
        negated = set(map(id, negated_uses(sequence.pattern)))
        atoms = [sequence.atom(use) for use in uses_of(sequence.pattern) if id(use) not in negated]
        anew = {name for use in uses_of(sequence.pattern) for name in sequence.bound_anew(use)}
        names = [name for name in atoms[0].possible if all(name in atom.certain for atom in atoms)]
        if any(isinstance(step, Repeat) for line in sequence.lines for step in line.steps):
            # Of one atom alone, a variable may have another value in each iteration.
            names = [name for name in names if name not in anew]
    if not names:
        return [], "no variable is bound for certain by all atoms that are not negated"
    if sequence.distinct:
        names = [name for name in names if name in shown]
        if not names:
            return [], "DISTINCT compares rows that have no common value to be spread by"
    return names, ""


def _places(query: Query, name: str) -> tuple[int, int]:
    found = [_dimensions(query, pattern, name) for pattern in query.patterns]
    return sum(place != (None, None, None) for place in found), sum(place[0] is not None for place in found)


def _dimensions(query: Query, pattern: Pattern, name: str) -> Dimensions:
    """Which terms of the triples of a pattern decide their shard; none: they go to all."""
    assert query.sequence is not None
    atoms = [atom for atom in query.sequence.atoms if _has(atom, pattern, query)]
    if not atoms or not all(atom.query.flat and name in atom.certain for atom in atoms):
        return None, None, None
    if pattern.s == Var(name):
        return 0, None, None
    return (None, None, 0) if pattern.o == Var(name) else (None, None, None)


def _has(atom: Atom, pattern: Pattern, query: Query) -> bool:
    streams = query.sources[pattern.source].streams
    return atom.stream in streams and any(one.terms == pattern.terms for one in atom.query.patterns)
