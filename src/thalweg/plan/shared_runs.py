"""Which sequences can keep their runs in a shared buffer: those whose runs differ only by values that are compared."""

from __future__ import annotations

from collections import Counter

from thalweg.algebra.expressions import Constant, Variable
from thalweg.algebra.sequences import AT_ONCE, IMMEDIATELY, PREVIOUS, Atom, Sequence, negated_uses, uses_of
from thalweg.plan.automaton import BEGIN, Automaton
from thalweg.plan.comparisons import Comparison, comparisons_of

MOST_CONDITIONS = 60
"""Of one atom: they are bits of a number."""


def join_variables(sequence: Sequence, automaton: Automaton) -> frozenset[str]:
    """The variables that atoms are joined by: those of several atoms, of several iterations, and of the partition."""
    negated = set(map(id, negated_uses(sequence.pattern)))
    uses = [use for use in uses_of(sequence.pattern) if id(use) not in negated]
    many = Counter(name for use in uses for name in sequence.atom(use).possible)
    found = {name for name, count in many.items() if count > 1}
    for state in automaton.states:
        if any(edge.again for edge in state.edges):
            found |= set(sequence.atom(state.use).possible) - state.renewed
    return frozenset(found | ({sequence.partition} if sequence.partition is not None else set()))


def not_shared(sequence: Sequence, automaton: Automaton) -> str | None:
    """Why a sequence whose runs are taken instant by instant has no shared buffer; None: it has one."""
    if not sequence.optimisations.index_by_values:
        return "the index of runs is switched off"
    edges = [edge for state in automaton.states for edge in state.edges if edge.parent != BEGIN]
    if all(edge.op in (IMMEDIATELY, AT_ONCE) and not edge.again for edge in edges):
        return "only those of the last instant can go on"
    joined = join_variables(sequence, automaton)
    atoms = {atom.name: atom for atom in (sequence.atom(state.use) for state in automaton.states)}
    for atom in atoms.values():
        if missing := sorted(joined - atom.certain):
            return f"not every atom binds ?{missing[0]}, which others are joined by"
        found = [one for condition in atom.conditions for one in comparisons_of(condition.expression) or ()]
        if len(found) > MOST_CONDITIONS:
            return f"the atom {atom.name} has more than {MOST_CONDITIONS} comparisons"
        for one in found:
            if all(_is_before(atom, side) for side in one.sides):
                return f"{_shown(one)} compares two values from before its event"
    for state in automaton.states:
        for edge in state.edges:
            if edge.again and not automaton.states[edge.parent].begins:
                return "an iteration is more than one event"
            if edge.mark >= 0 and (state.begins or state.renewed):
                return "a negation stands before a repetition"
    return None


def _is_before(atom: Atom, side: Variable | Constant) -> bool:
    return isinstance(side, Variable) and side.name not in atom.possible


def _shown(one: Comparison) -> str:
    left, right = (
        str(side.value) if isinstance(side, Constant) else _variable(side.name) for side in one.sides
    )
    return f"{left} {one.op} {right}"


def _variable(name: str) -> str:
    return name.replace("(", "(?") if name.startswith(f"{PREVIOUS}(") else f"?{name}"


def entries_of(automaton: Automaton, number: int) -> frozenset[int]:
    """The states (or BEGIN) from which the repetition that a state is part of is entered."""
    found, seen, waiting = set(), {number}, [number]
    while waiting:
        for edge in automaton.states[waiting.pop()].edges:
            if not edge.again or edge.parent == BEGIN:
                found.add(edge.parent)
            elif edge.parent not in seen:
                seen.add(edge.parent)
                waiting.append(edge.parent)
    return frozenset(found)
