"""Allen's relations between two parts of a sequence, by brute force: every choice of events and solutions is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from thalweg.testing.sequences import Event, Mapping, Ref, SequenceCase, _join, _Line, _Partial

Steps = list[tuple[str, ...]]
"""The atoms of each instant of a part."""
_SIGNS = {
    "BEFORE": "l<F",
    "MEETS": "f<F l=F l<L",
    "OVERLAPS": "f<F F<l l<L",
    "STARTS": "f=F l<L",
    "DURING": "F<f l<L",
    "FINISHES": "F<f l=L",
    "EQUALS": "f=F l=L",
    "AFTER": "L<f",
    "MET BY": "F<f f=L L<l",
    "OVERLAPPED BY": "F<f f<L L<l",
    "STARTED BY": "f=F L<l",
    "CONTAINS": "f<F L<l",
    "FINISHED BY": "f<F l=L",
}


@dataclass(frozen=True)
class Related:
    """Two parts and the relation between them; a part is a list of steps, each of atoms at one instant."""

    left: tuple[tuple[str, ...], ...]
    relation: str
    right: tuple[tuple[str, ...], ...]

    @property
    def items(self) -> tuple[Any, ...]:
        """Its atoms, as references have them."""
        return tuple(Ref(name) for part in (self.left, self.right) for step in part for name in step)

    def __str__(self) -> str:
        return f"({_text(self.left)} {self.relation} {_text(self.right)})"


def _text(part: Sequence[tuple[str, ...]]) -> str:
    steps = [step[0] if len(step) == 1 else f"({' <> '.join(step)})" for step in part]
    return steps[0] if len(steps) == 1 else f"({' ; '.join(steps)})"


def is_related(relation: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one interval has a relation to another one."""
    ends = dict(zip("flFL", (*one, *other), strict=True))
    for sign in _SIGNS[relation].split():
        left, right = ends[sign[0]], ends[sign[2]]
        if not (left < right if sign[1] == "<" else left == right):
            return False
    return True


def evaluate_related(
    case: SequenceCase, related: Related, events: Sequence[Event]
) -> list[tuple[int, tuple[str | None, ...]]]:
    """All matches of two related parts, each as its time and its row."""
    line = _Line(case, list(events), [], [])
    rows = []
    for one, other in product(_choices(line, related.left), _choices(line, related.right)):
        times = [time for time, _, _, _ in (*one, *other)]
        intervals = [(part[0][0], part[-1][0]) for part in (one, other)]
        if max(times) - min(times) > case.within or not is_related(related.relation, *intervals):
            continue
        # Filters are asked in the order of time; at one instant, in that of writing.
        mapping: Mapping | None = {}
        for _, _, name, mu in sorted((*one, *other), key=lambda chosen: chosen[0]):
            mapping = None if mapping is None else _join(mapping, mu)
            if mapping is not None and not all(
                line._holds(text, _Partial(), mapping, {}) for text in case.atoms[name].filters
            ):
                mapping = None
        if mapping is not None:
            rows.append((max(times), line._row(_Partial(binding=tuple(mapping.items())))))
    if case.distinct:
        rows = list(set(rows))
    return sorted(rows, key=repr)


def _choices(line: _Line, part: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[int, int, str, Mapping]]]:
    """The choices of events and solutions for a part: its steps one after the other, atoms of a step at once."""
    names = [(number, name) for number, step in enumerate(part) for name in step]
    found = [
        [(event.time, number, name, mu) for event in line.events for mu in line._solutions(name, event)]
        for number, name in names
    ]
    for chosen in product(*found):
        by_step: dict[int, set[int]] = {}
        for time, number, _, _ in chosen:
            by_step.setdefault(number, set()).add(time)
        times = [by_step[number] for number in range(len(part))]
        if all(len(one) == 1 for one in times):
            order = [min(one) for one in times]
            if all(before < after for before, after in pairwise(order)):
                yield list(chosen)
