"""Sequences by brute force: every choice of alternatives, events and solutions is tried (SEMANTICS, Sequences).

It shares no code with the engine: its own tree, which prints itself as SPAseq, and pyoxigraph for patterns and
expressions. Small inputs only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyoxigraph as ox

Mapping = dict[str, Any]
_CALL = re.compile(r"(COUNT|FIRST|LAST|MIN|MAX|AVG|SUM|PREV)\(\?(\w+)\)")


@dataclass(frozen=True)
class Ref:
    """An atom by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seq:
    """Items with `;` or `,` between them."""

    items: tuple[Any, ...]
    ops: tuple[str, ...]

    def __str__(self) -> str:
        parts = [str(self.items[0])]
        for op, item in zip(self.ops, self.items[1:], strict=True):
            parts += [op, str(item)]
        return f"({' '.join(parts)})"


@dataclass(frozen=True)
class Alt:
    """One of some items."""

    items: tuple[Any, ...]

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.items))})"


@dataclass(frozen=True)
class Tog:
    """Atoms at one timestamp."""

    refs: tuple[Ref, ...]

    def __str__(self) -> str:
        return f"({' <> '.join(map(str, self.refs))})"


@dataclass(frozen=True)
class Plus:
    """A repetition of an atom, of | or of <> of atoms."""

    item: Ref | Alt | Tog
    least: int = 1
    most: int | None = None

    def __str__(self) -> str:
        if (self.least, self.most) == (1, None):
            return f"{self.item}+"
        return f"{self.item}{{{self.least},{'' if self.most is None else self.most}}}"

    @property
    def ways(self) -> list[tuple[Ref, ...]]:
        """The atoms of one iteration."""
        if isinstance(self.item, Tog):
            return [self.item.refs]
        return [(ref,) for ref in (self.item.items if isinstance(self.item, Alt) else (self.item,))]


@dataclass(frozen=True)
class Opt:
    """With the item, and without it."""

    item: Any

    def __str__(self) -> str:
        return f"{self.item}?"


@dataclass(frozen=True)
class Neg:
    """No event of some atoms."""

    refs: tuple[Ref, ...]

    def __str__(self) -> str:
        return f"{self.refs[0]}!" if len(self.refs) == 1 else f"({' | '.join(map(str, self.refs))})!"


@dataclass(frozen=True)
class Gpm:
    """An atom: its stream, its pattern without top-level filters, the variables of that, and the filters."""

    stream: str
    pattern: str
    variables: frozenset[str]
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """A graph event; its place in the list is its arrival."""

    stream: str
    time: int
    triples: tuple[str, ...]


@dataclass(frozen=True)
class SequenceCase:
    """A sequence query that can print itself; times are milliseconds."""

    tree: Any
    atoms: dict[str, Gpm]
    within: int
    streams: tuple[str, ...]
    select: tuple[str, ...]
    """Variables, or expressions such as `COUNT(?v)`, which get the names e0, e1, ..."""
    distinct: bool = False
    partition: str | None = None
    static: tuple[str, ...] = ()
    """Triples of the default graph, which each event is one set with."""
    named: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Static graphs by name."""
    skip: tuple[str, ...] = ()
    """Where to skip after a match: ("PAST LAST EVENT",), ("TO NEXT",), ("TO FIRST", atom) or ("TO LAST", atom)."""
    consume: str | None = None
    """RECENT or CHRONOLOGICAL."""
    retracts: bool = False
    """Whether its text asks for retractions; `evaluate` is over events of which none is taken back."""
    timed_out: str | None = None
    """The variable of WITH TIMED OUT; `evaluate` has the matches alone."""
    _memo: dict[Any, list[Mapping]] = field(default_factory=dict, compare=False, repr=False)

    def text(self) -> str:
        """The query in SPAseq."""
        short = {stream: f"S{k}" for k, stream in enumerate(self.streams)}
        shown = [
            f"?{one}" if one.isalnum() else f"({one} AS ?{name})"
            for one, name in zip(self.select, self.names, strict=True)
        ]
        inner = f"({self.tree})" if isinstance(self.tree, Ref | Plus | Opt | Neg) else str(self.tree)
        used = set(refs_of(self.tree))
        return "\n".join(
            [
                f"SELECT {'DISTINCT ' if self.distinct else ''}{' '.join(shown) or '*'}",
                f"WITHIN {self.within} MILLISECONDS",
                *(f"FROM STREAM {short[stream]} <{stream}>" for stream in self.streams),
                *([f"PARTITION BY ?{self.partition}"] if self.partition else []),
                *([f"AFTER MATCH SKIP {' '.join(self.skip)}"] if self.skip else []),
                *([f"CONSUME {self.consume}"] if self.consume else []),
                *(["WITH RETRACTIONS"] if self.retracts else []),
                *([f"WITH TIMED OUT AS ?{self.timed_out}"] if self.timed_out else []),
                f"WHERE {{ SEQ {inner}",
                *(
                    f"DEFINE GPM {name} ON {short[one.stream]} {{ {one.pattern} "
                    f"{' '.join(f'FILTER({text})' for text in one.filters)} }}"
                    for name, one in self.atoms.items()
                    if name in used
                ),
                "}",
            ]
        )

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [one if one.isalnum() else f"e{k}" for k, one in enumerate(self.select)]


def refs_of(tree: Any) -> Iterator[str]:
    """The names of the atoms at all places."""
    if isinstance(tree, Ref):
        yield tree.name
        return
    inner = getattr(tree, "items", None) or getattr(tree, "refs", None) or (tree.item,)
    for one in inner:
        yield from refs_of(one)


@dataclass(frozen=True)
class Match:
    """A match: its time, its row, the atoms and the places of their events among all events, and its partition."""

    at: int
    row: tuple[str | None, ...]
    events: tuple[tuple[str, int], ...]
    value: Any


def selected(case: SequenceCase, events: Sequence[Event], found: list[Match]) -> list[Match]:
    """The matches that AFTER MATCH SKIP or CONSUME leave: taken one by one, those of one instant in the order of the
    times of their events, then of streams and arrival, then of the text of the row.
    """

    def times(match: Match) -> list[int]:
        return [events[place].time for _, place in match.events]

    def order(match: Match) -> Any:
        came = [(events[place].stream, place) for _, place in match.events]
        texts = [cell or "" for cell in match.row]
        return match.at, times(match), came, texts, _skipped_to(case, match, times(match))

    left: list[Match] = []
    if case.consume == "RECENT":
        # Of the matches with one last event, that whose events are the latest, from the last one backwards.
        best: dict[Any, Match] = {}
        for match in found:
            key = (match.value, match.events[-1][1])
            best[key] = match if key not in best else _more_recent(events, best[key], match)
        return list(best.values())
    used: set[Any] = set()
    points: dict[Any, int] = {}
    for match in sorted(found, key=order):
        mine = {(match.value, place) for _, place in match.events}
        if case.consume == "CHRONOLOGICAL":
            if used & mine:
                continue
            used |= mine
        else:
            if times(match)[0] < points.get(match.value, -1):
                continue
            point = _skipped_to(case, match, times(match))
            points[match.value] = max(points.get(match.value, -1), point)
        left.append(match)
    return left


def _more_recent(events: Sequence[Event], one: Match, other: Match) -> Match:
    def recency(match: Match) -> Any:
        places = [place for _, place in reversed(match.events)]
        return [events[place].time for place in places], [(events[k].stream, k) for k in places]

    if recency(one) != recency(other):
        return one if recency(one) > recency(other) else other
    return min(one, other, key=lambda match: [cell or "" for cell in match.row])


def _skipped_to(case: SequenceCase, match: Match, times: list[int]) -> int:
    """The first time at which a match may begin after another; -1: any."""
    if not case.skip:
        return -1
    if case.skip[0] == "PAST LAST EVENT":
        return times[-1] + 1
    if case.skip[0] == "TO NEXT":
        return times[0] + 1
    own = [time for time, (atom, _) in zip(times, match.events, strict=True) if atom == case.skip[1]]
    return -1 if not own else own[0] if case.skip[0] == "TO FIRST" else own[-1]


def evaluate(case: SequenceCase, events: Sequence[Event]) -> list[tuple[int, tuple[str | None, ...]]]:
    """All matches, each as its time and its row of N-Triples texts (None: unbound), sorted."""
    found = [
        match for items, ops in _lines(case.tree) for match in _Line(case, list(events), items, ops).matches()
    ]
    if case.skip or case.consume:
        found = selected(case, events, found)
    rows = [(match.at, match.row) for match in found]
    if case.distinct:
        rows = list(set(rows))
    return sorted(rows, key=repr)


def _lines(tree: Any) -> list[tuple[list[Any], list[str]]]:
    """The choices of alternatives: items and the operators between them."""
    if isinstance(tree, Opt):
        return [*_lines(tree.item), ([], [])]
    if isinstance(tree, Alt):
        return [line for one in tree.items for line in _lines(one)]
    if not isinstance(tree, Seq):
        return [([tree], [])]
    found = []
    for parts in product(*(_lines(one) for one in tree.items)):
        items: list[Any] = []
        ops: list[str] = []
        for k, (inner, between) in enumerate(parts):
            if not inner:
                continue  # left out, with the operator on its left, or at the beginning that on its right
            ops += [tree.ops[k - 1], *between] if items else between
            items += inner
        found.append((items, ops))
    return found


@dataclass(frozen=True)
class _Partial:
    """What has been chosen so far: times of items (first, last), the joined mapping, and values of repetitions."""

    times: tuple[tuple[int, int], ...] = ()
    binding: tuple[tuple[str, Any], ...] = ()
    values: tuple[tuple[str, Any], ...] = ()
    """Each value of a variable that iterations bind anew."""
    events: tuple[tuple[str, int], ...] = ()
    """The atoms and the places of their events."""

    @property
    def mapping(self) -> Mapping:
        return dict(self.binding)


class _Line:
    """One choice of alternatives."""

    def __init__(self, case: SequenceCase, events: list[Event], items: list[Any], ops: list[str]) -> None:
        self.case, self.items, self.ops = case, items, ops
        self.events = [event for event in events if event.stream in case.streams]
        self.places = [place for place, event in enumerate(events) if event.stream in case.streams]
        self.positive = [k for k, item in enumerate(items) if not isinstance(item, Neg)]

    def matches(self) -> Iterator[Match]:
        if not self.positive:
            return
        for found in self._items(0, _Partial()):
            first, last = found.times[0][0], found.times[-1][1]
            if last - first > self.case.within or not self._nothing_negated(found):
                continue
            trailing = isinstance(self.items[-1], Neg)
            at = first + self.case.within if trailing else last
            value = found.mapping.get(self.case.partition) if self.case.partition else None
            yield Match(at, self._row(found), found.events, value)

    # Order

    def _between(self, one: int, other: int, found: _Partial) -> set[int]:
        """The instants strictly between two times that have an event which counts."""
        value = found.mapping.get(self.case.partition) if self.case.partition else None
        return {
            event.time
            for event in self.events
            if one < event.time < other and (not self.case.partition or value in self._partitions(event))
        }

    def _partitions(self, event: Event) -> set[Any]:
        assert self.case.partition is not None
        name = self.case.partition
        used = {atom: self.case.atoms[atom] for atom in refs_of(self.case.tree)}
        return {
            mu[name]
            for atom, gpm in used.items()
            if name in gpm.variables
            for mu in self._solutions(atom, event)
            if name in mu
        }

    def _follows(self, one: int, op: str, other: int, found: _Partial) -> bool:
        return one < other and (op == ";" or not self._between(one, other, found))

    def _may_begin(self, number: int, time: int, found: _Partial) -> bool:
        """Whether the positive item `number` may begin at a time, after the one before it."""
        if number == 0:
            return True
        left, right = self.positive[number - 1], self.positive[number]
        last = found.times[-1][1]
        if right == left + 1:
            return self._follows(last, self.ops[left], time, found)
        if set(self.ops[left:right]) == {","}:
            return last < time and len(self._between(last, time, found)) <= 1
        return last < time

    # Events and mappings

    def _solutions(self, name: str, event: Event) -> list[Mapping]:
        gpm = self.case.atoms[name]
        if gpm.stream != event.stream:
            return []
        key = (name, event.triples)
        if key not in self.case._memo:
            store = ox.Store()
            store.load("\n".join((*event.triples, *self.case.static)).encode(), format=ox.RdfFormat.N_TRIPLES)
            for graph, triples in self.case.named:
                store.load(
                    "\n".join(triples).encode(), format=ox.RdfFormat.N_TRIPLES, to_graph=ox.NamedNode(graph)
                )
            found: Any = store.query(f"SELECT * {{ {gpm.pattern} }}")
            names = [variable.value for variable in found.variables]
            self.case._memo[key] = [
                {name: row[name] for name in names if row[name] is not None} for row in found
            ]
        return self.case._memo[key]

    def _items(self, number: int, found: _Partial) -> Iterator[_Partial]:
        if number == len(self.positive):
            yield found
            return
        item = self.items[self.positive[number]]
        if isinstance(item, Plus):
            chosen = self._repeated(item, number, found, 0)
        else:
            refs = item.refs if isinstance(item, Tog) else (item,)
            chosen = (
                replace(one, times=(*found.times, (time, time)))
                for time in sorted({event.time for event in self.events})
                for one in self._at(refs, time, found, {}, False)
                if self._may_begin(number, time, one)
            )
        for one in chosen:
            yield from self._items(number + 1, one)

    def _repeated(self, item: Plus, number: int, found: _Partial, done: int) -> Iterator[_Partial]:
        """The repetitions that go on from `done` iterations."""
        for way in item.ways:
            for time in sorted({event.time for event in self.events}):
                previous = found.mapping if done else {}
                anew = {name for one in item.ways for ref in one for name in self._anew(ref)}
                kept = tuple(pair for pair in found.binding if pair[0] not in anew)
                before = replace(found, binding=kept)
                for one in self._at(way, time, before, previous, bool(done)):
                    if done:
                        first, last = found.times[-1]
                        if not self._follows(last, ",", time, one):
                            continue
                        one = replace(one, times=(*found.times[:-1], (first, time)))
                    else:
                        if not self._may_begin(number, time, one):
                            continue
                        one = replace(one, times=(*found.times, (time, time)))
                    mine = tuple((name, one.mapping[name]) for name in sorted(anew) if name in one.mapping)
                    one = replace(one, values=one.values + mine)
                    if done + 1 >= item.least:
                        yield one
                    if item.most is None or done + 1 < item.most:
                        yield from self._repeated(item, number, one, done + 1)

    def _anew(self, ref: Ref) -> set[str]:
        """The variables of a repeated atom that no other place of an atom uses."""
        others = list(refs_of(self.case.tree))
        others.remove(ref.name)
        used = {name for other in others for name in self.case.atoms[other].variables}
        return set(self.case.atoms[ref.name].variables - used - {self.case.partition})

    def _at(
        self, refs: Sequence[Ref], time: int, found: _Partial, previous: Mapping, again: bool
    ) -> Iterator[_Partial]:
        """Some atoms at one instant, joined one after the other."""
        if not refs:
            yield found
            return
        gpm = self.case.atoms[refs[0].name]
        for place, event in zip(self.places, self.events, strict=True):
            if event.time != time:
                continue
            for mu in self._solutions(refs[0].name, event):
                joined = _join(found.mapping, mu)
                if joined is None or (self.case.partition and self.case.partition not in mu):
                    continue
                used = (*found.events, (refs[0].name, place))
                one = replace(found, binding=tuple(joined.items()), events=used)
                if all(
                    ("PREV(" in text and not again) or self._holds(text, one, joined, previous)
                    for text in gpm.filters
                ):
                    yield from self._at(refs[1:], time, one, previous, again)

    # Negation

    def _nothing_negated(self, found: _Partial) -> bool:
        for place, item in enumerate(self.items):
            if isinstance(item, Neg):
                for ref in item.refs:
                    for event in self.events:
                        if self._reaches(place, event.time, found) and self._matches(ref, event, found):
                            return False
        return True

    def _reaches(self, place: int, time: int, found: _Partial) -> bool:
        """Whether an event at a time stands where a negation is written."""
        before = [k for k, one in enumerate(self.positive) if one < place]
        first, last = found.times[0][0], found.times[-1][1]
        left = found.times[before[-1]][1] if before else None
        right = found.times[len(before)][0] if len(before) < len(self.positive) else None
        if left is None:
            after = last - self.case.within <= time
        else:
            after = self._follows(left, self.ops[place - 1], time, found)
        if right is None:
            return after and time <= first + self.case.within
        return after and self._follows(time, self.ops[place], right, found)

    def _matches(self, ref: Ref, event: Event, found: _Partial) -> bool:
        for mu in self._solutions(ref.name, event):
            joined = _join(found.mapping, mu)
            if joined is not None and all(
                self._holds(text, found, joined, {}) for text in self.case.atoms[ref.name].filters
            ):
                return True
        return False

    # Expressions

    def _holds(self, text: str, found: _Partial, mapping: Mapping, previous: Mapping) -> bool:
        value = self._value(text, found, mapping, previous)
        return value is not None and value.value == "true"

    def _value(self, text: str, found: _Partial, mapping: Mapping, previous: Mapping) -> Any:
        known = dict(mapping)

        def call(match: re.Match[str]) -> str:
            function, name = match[1], match[2]
            short = f"{function}_{name}"
            values = [value for other, value in found.values if other == name]
            value = previous.get(name) if function == "PREV" else _aggregate(function, values)
            if value is not None:
                known[short] = value
            return f"?{short}"

        text = _CALL.sub(call, text)
        names = [name for name in known if f"?{name}" in text]
        row = " ".join(str(known[name]) for name in names)
        header = " ".join(f"?{name}" for name in names)
        query = f"SELECT (({text}) AS ?result) {{ VALUES ({header}) {{ ({row}) }} }}"
        (answer,) = _asked(query)
        return answer["result"]

    def _row(self, found: _Partial) -> tuple[str | None, ...]:
        mapping = found.mapping
        cells = []
        for one in self.case.select:
            value = mapping.get(one) if one.isalnum() else self._value(one, found, mapping, {})
            cells.append(None if value is None else str(value))
        return tuple(cells)


def _join(one: Mapping, other: Mapping) -> Mapping | None:
    """The union of two mappings, if they agree."""
    if any(one[name] != other[name] for name in one.keys() & other.keys()):
        return None
    return {**one, **other}


def _aggregate(function: str, values: list[Any]) -> Any:
    if function in ("FIRST", "LAST"):
        return (values[0] if function == "FIRST" else values[-1]) if values else None
    rows = " ".join(map(str, values))
    (answer,) = _asked(f"SELECT ({function}(?x) AS ?result) {{ VALUES ?x {{ {rows} }} }}")
    return answer["result"]


def _asked(query: str) -> Any:
    return ox.Store().query(query)
