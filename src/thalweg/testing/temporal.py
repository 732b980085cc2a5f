"""EP-SPARQL by brute force: the definitions of its operators on sets of solutions with intervals, one by one.

It shares no code with the engine: its own tree, which prints itself, and pyoxigraph for patterns and expressions.
A query is evaluated over each window [s, s + d) of events by itself; the solutions whose interval begins at s count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyoxigraph as ox

from thalweg.testing.sequences import Event

Mapping = dict[str, Any]
_CALL = re.compile(r"get(DURATION|STARTTIME|ENDTIME)\(\)")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_PREFIX = f"PREFIX xsd: <{_XSD}> "


@dataclass(frozen=True)
class Leaf:
    """A group that one event fulfils; `filters` may use the left operand's variables if it is optional."""

    pattern: str
    filters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{{ {self.pattern} {_shown(self.filters)}}}"


@dataclass(frozen=True)
class Operation:
    """Two patterns, with SEQ, EQUALS, OPTIONALSEQ, EQUALSOPTIONAL, UNION, or nothing (a join) between them."""

    name: str
    left: Any
    right: Any

    def __str__(self) -> str:
        return f"{self.left} {self.name} {_braced(self.right)}"


@dataclass(frozen=True)
class Braces:
    """A group with its filters."""

    tree: Any
    filters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{{ {self.tree} {_shown(self.filters)}}}"


def _braced(tree: Any) -> str:
    return str(tree) if isinstance(tree, Leaf | Braces) else f"{{ {tree} }}"


def _shown(filters: Sequence[str]) -> str:
    return "".join(f"FILTER({text}) " for text in filters)


@dataclass(frozen=True)
class Solution:
    """A mapping and its interval; it waits if an event that did not come until the end of the window made it."""

    mapping: Mapping
    start: int
    end: int
    waits: bool = False


@dataclass(frozen=True)
class TemporalCase:
    """A query; times are milliseconds, and its interval is shorter than `width`."""

    tree: Braces
    width: int
    streams: tuple[str, ...]
    select: tuple[str, ...]
    distinct: bool = False
    _memo: dict[Any, list[Mapping]] = field(default_factory=dict, compare=False, repr=False)

    def text(self) -> str:
        """The query in EP-SPARQL."""
        shown = [
            f"({one} AS ?{name})" if one.endswith(")") else f"?{one}"
            for one, name in zip(self.select, self.names, strict=True)
        ]
        streams = "\n".join(f"FROM STREAM <{stream}> [RANGE {self.width}ms]" for stream in self.streams)
        distinct = "DISTINCT " if self.distinct else ""
        return f"PREFIX xsd: <{_XSD}>\nSELECT {distinct}{' '.join(shown)}\n{streams}\nWHERE {self.tree}"

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [f"e{k}" if one.endswith(")") else one for k, one in enumerate(self.select)]


def evaluate(case: TemporalCase, events: Sequence[Event]) -> list[tuple[int, tuple[str | None, ...]]]:
    """All solutions, each as the time of its report in microseconds and its row (None: unbound), sorted."""
    rows = []
    for start in sorted({event.time for event in events if event.stream in case.streams}):
        seen = [
            event
            for event in events
            if event.stream in case.streams and start <= event.time < start + case.width
        ]
        for one in _solutions(case, case.tree, seen):
            if one.start == start:
                at = (start + case.width) * 1000 - 1 if one.waits else one.end * 1000
                rows.append((at, tuple(_cell(text, one) for text in case.select)))
    return sorted(set(rows) if case.distinct else rows, key=repr)


def _cell(text: str, one: Solution) -> str | None:
    value = _value(text, one) if text.endswith(")") else one.mapping.get(text)
    return None if value is None else str(value)


def _solutions(case: TemporalCase, tree: Any, events: list[Event]) -> list[Solution]:
    match tree:
        case Leaf():
            return list(_of_events(case, tree, events, _own(tree)))
        case Braces():
            found = _solutions(case, tree.tree, events)
            return [one for one in found if all(_holds(text, one) for text in tree.filters)]
    left = _solutions(case, tree.left, events)
    if tree.name in ("OPTIONALSEQ", "EQUALSOPTIONAL"):
        return list(_left_join(case, tree, left, events))
    right = _solutions(case, tree.right, events)
    if tree.name == "UNION":
        return left + right
    return [both for one in left for other in right for both in _joined(tree.name, one, other)]


def _own(leaf: Leaf) -> tuple[str, ...]:
    """The filters that use variables of the pattern alone."""
    return tuple(text for text in leaf.filters if all(f"?{n} " in f"{leaf.pattern} " for n in _names(text)))


def _names(text: str) -> list[str]:
    return re.findall(r"\?(\w+)", text)


def _of_events(
    case: TemporalCase, leaf: Leaf, events: list[Event], filters: tuple[str, ...]
) -> Iterator[Solution]:
    for event in events:
        key = (leaf.pattern, event.triples)
        if key not in case._memo:
            store = ox.Store()
            store.load("\n".join(event.triples).encode(), format=ox.RdfFormat.N_TRIPLES)
            found: Any = store.query(f"SELECT * {{ {leaf.pattern} }}")
            names = [variable.value for variable in found.variables]
            case._memo[key] = [{n: row[n] for n in names if row[n] is not None} for row in found]
        for mapping in case._memo[key]:
            one = Solution(mapping, event.time, event.time)
            if all(_holds(text, one) for text in filters):
                yield one


def _left_join(
    case: TemporalCase, tree: Operation, left: list[Solution], events: list[Event]
) -> Iterator[Solution]:
    name = "SEQ" if tree.name == "OPTIONALSEQ" else "EQUALS"
    if isinstance(tree.right, Leaf):
        own = _own(tree.right)
        right = list(_of_events(case, tree.right, events, own))
        conditions = [text for text in tree.right.filters if text not in own]
    else:
        right, conditions = _solutions(case, tree.right, events), []
    for one in left:
        found = [
            both
            for other in right
            for both in _joined(name, one, other)
            if all(_holds(text, both) for text in conditions)
        ]
        yield from found
        if not found:
            waits = one.waits or tree.name == "OPTIONALSEQ"
            yield Solution(one.mapping, one.start, one.end, waits)


def _joined(name: str, one: Solution, other: Solution) -> list[Solution]:
    agree = all(one.mapping[n] == other.mapping[n] for n in one.mapping.keys() & other.mapping.keys())
    in_time = {
        "SEQ": one.end < other.start,
        "EQUALS": (one.start, one.end) == (other.start, other.end),
        "": True,
    }[name]
    if not agree or not in_time:
        return []
    return [
        Solution(
            {**one.mapping, **other.mapping},
            min(one.start, other.start),
            max(one.end, other.end),
            one.waits or other.waits,
        )
    ]


def _holds(text: str, one: Solution) -> bool:
    value = _value(text, one)
    return value is not None and value.value == "true"


def _value(text: str, one: Solution) -> Any:
    times = {
        "STARTTIME": f'"{_moment(one.start)}"^^xsd:dateTime',
        "ENDTIME": f'"{_moment(one.end)}"^^xsd:dateTime',
        "DURATION": f'"PT{(one.end - one.start) / 1000}S"^^xsd:dayTimeDuration',
    }
    text = _CALL.sub(lambda call: times[call[1]], text)
    names = [name for name in dict.fromkeys(_names(text)) if name in one.mapping]
    header = " ".join(f"?{name}" for name in names)
    row = " ".join(str(one.mapping[name]) for name in names)
    found: Any = ox.Store().query(
        f"{_PREFIX} SELECT (({text}) AS ?result) {{ VALUES ({header}) {{ ({row}) }} }}"
    )
    (answer,) = found
    return answer["result"]


def _moment(time: int) -> str:
    return f"1970-01-01T00:00:00.{time:03d}Z"
