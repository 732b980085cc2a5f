"""Partial matches that time out, by brute force: those that nothing continues, and that something could have continued.

A partial match has the first steps of an alternative; a repetition may have any number of iterations so far. It is not
asked for negations. Alternatives with the same beginning share their partial matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thalweg.testing.sequences import Event, Plus, SequenceCase, Tog, _Line, _lines, _Partial


@dataclass
class _Seen:
    """A partial match: how often there is one, and what is known of it in any alternative."""

    found: _Partial
    many: int = 0
    continued: bool = False
    whole: bool = False
    open: bool = False


def timed_out(case: SequenceCase, events: Sequence[Event]) -> list[tuple[int, tuple[str | None, ...]]]:
    """The rows of partial matches that time out, with their times."""
    seen: dict[Any, _Seen] = {}
    rows: list[tuple[int, tuple[str | None, ...]]] = []
    for items, ops in _lines(case.tree):
        line = _Line(case, list(events), items, ops)
        if not line.positive:
            continue
        mine: Counter[Any] = Counter()
        for key, one, continued, whole, is_open in _partials(line, 0, _Partial(), 0):
            mine[key] += 1
            known = seen.setdefault(key, _Seen(one))
            known.continued |= continued
            known.whole |= whole
            known.open |= is_open
        for key, many in mine.items():
            seen[key].many = max(seen[key].many, many)
    shown = _Line(case, list(events), [], [])
    for known in seen.values():
        if not known.continued and not known.whole and known.open:
            rows += [(known.found.times[0][0] + case.within, shown._row(known.found))] * known.many
    return rows


def _partials(
    line: _Line, number: int, found: _Partial, done: int
) -> Iterator[tuple[Any, _Partial, bool, bool, bool]]:
    """The partial matches that go on from one: item `number` is next, or has had `done` iterations."""
    for after, times, one in _next(line, number, found, done):
        further = list(_partials(line, after, one, times))
        item = line.items[line.positive[after if times else after - 1]]
        enough = not times or times >= item.least
        whole = enough and after + bool(times) == len(line.positive)
        place = line.positive[after if times else after - 1]
        key = (
            tuple(map(str, line.items[: place + 1])),
            tuple(line.ops[:place]),
            times,
            one.events,
            tuple(sorted(one.binding)),
            one.values,
        )
        yield key, one, bool(further), whole, _is_open(line, after, times, enough, one)
        yield from further


def _next(line: _Line, number: int, found: _Partial, done: int) -> Iterator[tuple[int, int, _Partial]]:
    """The partial matches with one more step: which item is next then, how many iterations it has had, and they."""
    chosen: list[tuple[int, int, _Partial]] = []
    if done:
        item = line.items[line.positive[number]]
        if item.most is None or done < item.most:
            again = replace(item, least=1, most=1)
            for one in _iterations(line, again, number, found, done):
                chosen.append((number, done + 1, one))
        if done >= item.least and number + 1 < len(line.positive):
            chosen += _next(line, number + 1, found, 0)
    elif number < len(line.positive):
        item = line.items[line.positive[number]]
        if isinstance(item, Plus):
            chosen = [(number, 1, one) for one in _iterations(line, item, number, found, 0)]
        else:
            refs = item.refs if isinstance(item, Tog) else (item,)
            for time in sorted({event.time for event in line.events}):
                for one in line._at(refs, time, found, {}, False):
                    if line._may_begin(number, time, one):
                        chosen.append((number + 1, 0, replace(one, times=(*found.times, (time, time)))))
    for after, times, one in chosen:
        if one.times[-1][1] - one.times[0][0] <= line.case.within:
            yield after, times, one


def _iterations(line: _Line, item: Plus, number: int, found: _Partial, done: int) -> Iterator[_Partial]:
    """The partial matches with one more iteration."""
    once = replace(item, least=done + 1, most=done + 1)
    return line._repeated(once, number, found, done)


def _is_open(line: _Line, after: int, times: int, enough: bool, one: _Partial) -> bool:
    """Whether some operator behind a partial match still allowed an event at the end of the window."""
    first, last = one.times[0][0], one.times[-1][1]
    later = len(line._between(last, first + line.case.within + 1, one))
    if times:
        item = line.items[line.positive[after]]
        if (item.most is None or times < item.most) and not later:
            return True
        if not enough:
            return False
    following = after + bool(times)
    if following >= len(line.positive):
        return False
    left, right = line.positive[following - 1], line.positive[following]
    ops = line.ops[left:right]
    if ";" in ops:
        return True
    return later <= (0 if len(ops) == 1 else 1)
