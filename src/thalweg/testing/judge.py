"""A second judge: SPARQL's algebra by brute force, bottom-up, over Python sets of triples.

It reads the trees of `syntax`, applies the translation of SPARQL 1.1, section 18.2, and the definitions of 18.3 to 18.6
one to one, and shares no code with the engine nor with pyoxigraph. Nothing in it is quick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from thalweg.testing.judge_aggregates import aggregate, term_key
from thalweg.testing.judge_expressions import XSD, ExpressionError, Terms, truth
from thalweg.testing.snapshot import Row, Triple
from thalweg.testing.syntax import (
    Aggregate,
    Alternative,
    Bind,
    Call,
    Const,
    Element,
    Exists,
    Expression,
    Filter,
    Fixed,
    Graph,
    Group,
    Inverse,
    Minus,
    Negated,
    OneOrMore,
    Optional,
    Path,
    Select,
    Sequence,
    Triples,
    Union,
    Values,
    Var,
    ZeroOrMore,
    ZeroOrOne,
    walk,
)

Solution = dict[str, str]
"""A solution mapping; the names of blank nodes of a pattern begin with `_:`."""
Content = frozenset[Triple]
_MOST = 200_000


class TooLargeError(Exception):
    """A join that brute force is no means for."""


class Judge:
    """Answers over one dataset. `notes` are reasons for which pyoxigraph may have another answer (`differences`)."""

    def __init__(self, default: Content, named: Mapping[str, Content]) -> None:
        self.default = default
        self.named = named
        self.notes: set[str] = set()
        self._middles = 0

    def select(self, query: Select, active: Content | None = None) -> Counter[Row]:
        """The bag of rows of a SELECT; REDUCED keeps all of them."""
        return Counter(
            frozenset(row.items())
            for row in self._selected(query, self.default if active is None else active)
        )

    def solutions(self, group: Group) -> list[Solution]:
        """The solutions of a group over the default graph."""
        return self._group(group, self.default)

    # Groups: section 18.2.2

    def _group(self, group: Group, active: Content) -> list[Solution]:
        condition, rows = self._parts(group, active)
        return self._filtered(rows, condition, active)

    def _parts(self, group: Group, active: Content) -> tuple[list[Expression], list[Solution]]:
        """The filters of a group, and the solutions of the rest of it."""
        rows: list[Solution] = [{}]
        for element in group.elements:
            match element:
                case Filter():
                    continue
                case Optional(inner):
                    # A filter of an OPTIONAL's group is the condition of the left join.
                    condition, others = self._parts(inner, active)
                    rows = self._left_join(rows, others, condition, active)
                case Minus(inner):
                    rows = _minus(rows, self._group(inner, active))
                case Bind(value, name):
                    rows = [self._extended(row, value, name, active) for row in rows]
                case _:
                    rows = join(rows, self._element(element, active))
        return [element.condition for element in group.elements if isinstance(element, Filter)], rows

    def _element(self, element: Element, active: Content) -> list[Solution]:
        match element:
            case Triples(patterns):
                return self._basic(patterns, active)
            case Group():
                return self._group(element, active)
            case Union(groups):
                return [row for group in groups for row in self._group(group, active)]
            case Values(names, rows):
                return [
                    {name: cell for name, cell in zip(names, row, strict=True) if cell is not None}
                    for row in rows
                ]
            case Select():
                return self._selected(element, active)
            case Graph(name, group):
                return self._in_graphs(name, group)
        raise AssertionError(f"no element {element}")

    def _in_graphs(self, name: str, group: Group) -> list[Solution]:
        """GRAPH: section 18.6; a variable takes the name of every named graph, also of an empty one."""
        if not _is_variable(name):
            return self._group(group, self.named[name[1:-1]]) if name[1:-1] in self.named else []
        result: list[Solution] = []
        for graph, content in self.named.items():
            result += join(self._group(group, content), [{_name(name): f"<{graph}>"}])
        return result

    def _selected(self, query: Select, active: Content) -> list[Solution]:
        rows = self._group(query.where, active)
        if query.grouped:
            query, rows = self._grouped(query, rows, active)
        for item in query.items:
            if not isinstance(item, str):
                rows = [self._extended(row, item[0], item[1], active) for row in rows]
        names = query.names
        if query.limit is None and not query.offset:
            rows = [{name: row[name] for name in names if name in row} for row in rows]
            return _distinct(rows) if query.modifier == "DISTINCT" else rows
        return self._sliced(query, rows, names, active)

    def _sliced(
        self, query: Select, rows: list[Solution], names: Iterable[str], active: Content
    ) -> list[Solution]:
        """LIMIT and OFFSET: section 18.2.5. What the conditions leave open is decided by the text of the row."""
        keyed: list[tuple[list[tuple[Any, ...]], Solution]] = []
        for row in rows:
            keys = []
            for one, _ in query.order:
                try:
                    keys.append(term_key(self._value(one, row, active)))
                except ExpressionError:
                    keys.append(term_key(None))
            keyed.append((keys, {name: row[name] for name in names if name in row}))
        kinds = [{keys[k][0] for keys, _ in keyed} for k in range(len(query.order))]
        if any(len(kind - {0, 1, 2}) > 1 for kind in kinds):
            self.notes.add("order of kinds")
        keyed.sort(key=lambda one: [one[1].get(name, "") for name in sorted(names)])
        for k, (_, down) in reversed(list(enumerate(query.order))):
            keyed.sort(key=lambda one: one[0][k], reverse=down)
        if query.modifier == "DISTINCT":
            seen: dict[frozenset[tuple[str, str]], tuple[list[tuple[Any, ...]], Solution]] = {}
            for pair in keyed:
                seen.setdefault(frozenset(pair[1].items()), pair)
            keyed = list(seen.values())
        end = len(keyed) if query.limit is None else query.offset + query.limit
        for cut in (query.offset, end):
            if 0 < cut < len(keyed) and keyed[cut - 1][0] == keyed[cut][0]:
                self.notes.add("choice")
        return [row for _, row in keyed[query.offset : end]]

    # Groups and aggregates: sections 18.2.4.1 and 18.5.1

    def _grouped(self, query: Select, rows: list[Solution], active: Content) -> tuple[Select, list[Solution]]:
        """The groups as solutions of keys and aggregates, and the query over them."""
        names = [key if isinstance(key, str) else key[1] for key in query.group]
        for key in query.group:
            if not isinstance(key, str):
                rows = [self._extended(row, key[0], key[1], active) for row in rows]
        groups: dict[tuple[str | None, ...], list[Solution]] = {} if query.group else {(): []}
        for row in rows:
            groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
        made = [item[0] for item in query.items if not isinstance(item, str)]
        sorted_by = [one for one, _ in query.order]
        asked = [one for one in walk((*made, *query.having, *sorted_by)) if isinstance(one, Aggregate)]
        variables = {one: f"aggregate {k}" for k, one in enumerate(dict.fromkeys(asked))}
        result = []
        for terms, members in groups.items():
            row = {name: term for name, term in zip(names, terms, strict=True) if term is not None}
            for one, name in variables.items():
                try:
                    row[name] = self._aggregate(one, members, active)
                except ExpressionError:
                    continue
            result.append(row)
        having = [_of_group(one, variables) for one in query.having]
        items = tuple(
            item if isinstance(item, str) else (_of_group(item[0], variables), item[1])
            for item in query.items
        )
        order = tuple((_of_group(one, variables), down) for one, down in query.order)
        return replace(query, items=items, order=order), self._filtered(result, having, active)

    def _aggregate(self, one: Aggregate, rows: list[Solution], active: Content) -> str:
        if one.argument is None:
            kept = _distinct(rows) if one.distinct else rows
            return f'"{len(kept)}"^^<{XSD}integer>'
        values: list[str | None] = []
        for row in rows:
            try:
                values.append(self._value(one.argument, row, active))
            except ExpressionError:
                values.append(None)
        separator = " " if one.separator is None else one.separator
        return aggregate(one.name, values, self.notes, distinct=one.distinct, separator=separator)

    # Operators: section 18.5

    def _filtered(self, rows: list[Solution], condition: list[Expression], active: Content) -> list[Solution]:
        return [row for row in rows if all(self._holds(part, row, active) for part in condition)]

    def _left_join(
        self, rows: list[Solution], others: list[Solution], condition: list[Expression], active: Content
    ) -> list[Solution]:
        _check(rows, others)
        result = []
        for row in rows:
            merged = [row | other for other in others if compatible(row, other)]
            result += self._filtered(merged, condition, active) or [row]
        return result

    def _extended(self, row: Solution, value: Expression, name: str, active: Content) -> Solution:
        try:
            return row | {name: self._value(value, row, active)}
        except ExpressionError:
            return row

    def _holds(self, condition: Expression, row: Solution, active: Content) -> bool:
        try:
            return truth(self._value(condition, row, active))
        except ExpressionError:
            return False

    def _value(self, value: Expression, row: Solution, active: Content) -> str:
        def exists(asked: Exists, row: Mapping[str, str]) -> bool:
            """Section 18.6: the pattern with the solution's terms in the places of its variables has a solution."""
            return bool(self._group(_substituted(asked.group, row), active))

        terms = Terms(exists)
        try:
            return terms.value(value, row)
        finally:
            self.notes |= terms.notes

    # Patterns: sections 18.3 and 18.4

    def _basic(self, patterns: Iterable[tuple[str, Path, str]], active: Content) -> list[Solution]:
        rows: list[Solution] = [{}]
        for s, path, o in patterns:
            rows = join(rows, self._path(s, path, o, active))
        return [{name: row[name] for name in row if not name.startswith("_:")} for row in rows]

    def _path(self, s: str, path: Path, o: str, active: Content) -> list[Solution]:
        match path:
            case str():
                return _matches((s, path, o), active)
            case Inverse(inner):
                return self._path(o, inner, s, active)
            case Sequence(first, second):
                self._middles += 1
                middle = f"_:/{self._middles}"
                rows = join(self._path(s, first, middle, active), self._path(middle, second, o, active))
                return [{name: row[name] for name in row if name != middle} for row in rows]
            case Alternative(first, second):
                self.notes.add("alternative")
                return self._path(s, first, o, active) + self._path(s, second, o, active)
            case Negated(forward, backward):
                rows = []
                if forward:
                    rows += [
                        row for triple in active if triple[1] not in forward for row in _ends(s, o, triple)
                    ]
                if backward:
                    rows += [
                        row for triple in active if triple[1] not in backward for row in _ends(o, s, triple)
                    ]
                if forward and backward:
                    self.notes.add("negated in both directions")
                elif len(_distinct(rows)) < len(rows):
                    self.notes.add("copies of a negated set")
                return rows
            case ZeroOrOne(inner):
                return self._zero_or_one(s, inner, o, active)
            case ZeroOrMore(inner) | OneOrMore(inner):
                return self._repeated(s, inner, o, active, zero=isinstance(path, ZeroOrMore))

    def _repeated(self, s: str, inner: Path, o: str, active: Content, *, zero: bool) -> list[Solution]:
        """Without duplicates: from a term, or from each node of the graph, what the function ALP visits."""
        nodes = {end for triple in active for end in (triple[0], triple[2])}
        ends = [end for end in (s, o) if not _is_variable(end)]
        if zero and not set(ends) <= nodes:
            self.notes.add("zero length at a term")
        if ends and s not in ends:
            rows = self._repeated(o, Inverse(inner), s, active, zero=zero)
        else:
            rows = []
            for start in [s] if ends else sorted(nodes):
                for end in self._visited(start, inner, active, zero=zero):
                    row: Solution = {}
                    wanted = ((s, start), (o, end))
                    if all((row.setdefault(_name(w), h) if _is_variable(w) else w) == h for w, h in wanted):
                        rows.append(row)
        return _distinct(rows)

    def _visited(self, start: str, path: Path, active: Content, *, zero: bool) -> set[str]:
        """The terms that repetitions of a path lead to, by the definition of ALP."""

        def after(term: str) -> set[str]:
            return {row["_:end"] for row in self._path(Fixed(term), path, "_:end", active)}

        visited = {str(start)} if zero else after(start)
        waiting = set(visited)
        while waiting:
            new = after(waiting.pop()) - visited
            visited |= new
            waiting |= new
        return visited

    def _zero_or_one(self, s: str, inner: Path, o: str, active: Content) -> list[Solution]:
        """Without duplicates. A term that is no node of the graph is at both ends of its path of length zero."""
        nodes = {end for triple in active for end in (triple[0], triple[2])}
        rows = self._path(s, inner, o, active)
        ends = [end for end in (s, o) if not _is_variable(end)]
        if not set(ends) <= nodes:
            self.notes.add("zero length at a term")
        if len(ends) == 2:
            rows += [{}] if s == o else []
        elif ends:
            rows.append({_name(o if s in ends else s): ends[0]})
        else:
            rows += [{_name(s): node, _name(o): node} for node in nodes]
        return _distinct(rows)


def join(rows: list[Solution], others: list[Solution]) -> list[Solution]:
    """All merges of compatible solutions."""
    _check(rows, others)
    return [row | other for row in rows for other in others if compatible(row, other)]


def compatible(one: Solution, other: Solution) -> bool:
    """Whether two solutions agree on the variables that both bind."""
    return all(other.get(name, term) == term for name, term in one.items())


def _minus(rows: list[Solution], others: list[Solution]) -> list[Solution]:
    _check(rows, others)
    return [
        row
        for row in rows
        if not any(row.keys() & other.keys() and compatible(row, other) for other in others)
    ]


def _check(rows: list[Solution], others: list[Solution]) -> None:
    if len(rows) * len(others) > _MOST:
        raise TooLargeError


def _distinct(rows: list[Solution]) -> list[Solution]:
    return [dict(items) for items in dict.fromkeys(tuple(sorted(row.items())) for row in rows)]


def _is_variable(term: str) -> bool:
    return term[0] in "?_" and not isinstance(term, Fixed)


def _name(term: str) -> str:
    return term[1:] if term[0] == "?" else term


def _matches(pattern: Triple, active: Content) -> list[Solution]:
    rows = []
    for triple in active:
        row: Solution = {}
        for want, have in zip(pattern, triple, strict=True):
            if (row.setdefault(_name(want), have) if _is_variable(want) else want) != have:
                break
        else:
            rows.append(row)
    return rows


def _ends(s: str, o: str, triple: Triple) -> list[Solution]:
    return _matches((s, triple[1], o), frozenset([triple]))


# Substitution: section 18.6


def _substituted(group: Group, row: Mapping[str, str]) -> Group:
    return Group(tuple(_put(element, row) for element in group.elements))


def _put(element: Element, row: Mapping[str, str]) -> Element:
    """An element with terms for variables. VALUES keeps the rows that agree with them.

    The specification does not say what becomes of a variable that BIND or SELECT names; nor does a test ask for it.
    """

    def term(text: str) -> str:
        return Fixed(row[text[1:]]) if text[0] == "?" and text[1:] in row else text

    match element:
        case Triples(patterns):
            return Triples(
                tuple(
                    (term(s), term(path) if isinstance(path, str) else path, term(o))
                    for s, path, o in patterns
                )
            )
        case Filter(condition):
            return Filter(_put_in(condition, row))
        case Optional(group) | Minus(group):
            return replace(element, group=_substituted(group, row))
        case Union(groups):
            return Union(tuple(_substituted(group, row) for group in groups))
        case Bind(value, name):
            assert name not in row
            return Bind(_put_in(value, row), name)
        case Values(names, rows):
            kept = [
                cells
                for cells in rows
                if all(cell in (None, row.get(name, cell)) for name, cell in zip(names, cells, strict=True))
            ]
            return Values(names, tuple(kept))
        case Graph(name, group):
            return replace(element, name=term(name), group=_substituted(group, row))
        case Group():
            return _substituted(element, row)
        case Select():
            raise AssertionError("what a SELECT inside EXISTS means is left open")


def _of_group(e: Expression, variables: Mapping[Aggregate, str]) -> Expression:
    """An expression over groups, with variables for its aggregates."""
    if isinstance(e, Aggregate):
        return Var(variables[e])
    if isinstance(e, Call):
        return Call(e.name, tuple(_of_group(arg, variables) for arg in e.args))
    return e


def _put_in(e: Expression, row: Mapping[str, str]) -> Expression:
    match e:
        case Var(name):
            return Const(row[name]) if name in row else e
        case Call(name, args):
            return Call(name, tuple(_put_in(arg, row) for arg in args))
        case Exists(group, negated):
            return Exists(_substituted(group, row), negated)
    return e
