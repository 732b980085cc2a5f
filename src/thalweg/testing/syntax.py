"""The syntax of SPARQL queries as small trees: what the strategies make, and what the judges read.

The trees follow the text, not the algebra: a judge has to apply the rules of SPARQL 1.1, section 18.2, itself. Terms
are N-Triples texts, variables are `?name`, and `_:name` in a pattern is a variable that no solution shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

INFIX = ("=", "!=", "<", ">", "<=", ">=", "&&", "||", "+", "-", "*")


class Fixed(str):
    """A term that was put in the place of a variable: a blank node of the data stays one."""

    __slots__ = ()


# Expressions


@dataclass(frozen=True)
class Var:
    """A variable of an expression."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


@dataclass(frozen=True)
class Const:
    """A term of an expression."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Call:
    """An operator or function with its arguments.

    >>> str(Call("!", (Call("IN", (Var("x"), Const("1"), Const("2"))),)))
    '(! (?x IN (1, 2)))'
    """

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        if self.name in INFIX:
            return f"({self.args[0]} {self.name} {self.args[1]})"
        if self.name == "!":
            return f"(! {self.args[0]})"
        if self.name in ("IN", "NOT IN"):
            return f"({self.args[0]} {self.name} ({', '.join(map(str, self.args[1:]))}))"
        return f"{self.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Exists:
    """`EXISTS { }` or `NOT EXISTS { }`."""

    group: Group
    negated: bool = False

    def __str__(self) -> str:
        return f"{'NOT ' if self.negated else ''}EXISTS {self.group}"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate; without an argument it counts solutions."""

    name: str
    argument: Expression | None = None
    distinct: bool = False
    separator: str | None = None

    def __str__(self) -> str:
        of = "*" if self.argument is None else str(self.argument)
        joined = "" if self.separator is None else f'; SEPARATOR="{self.separator}"'
        return f"{self.name}({'DISTINCT ' if self.distinct else ''}{of}{joined})"


Expression = Var | Const | Call | Exists | Aggregate


# Paths


@dataclass(frozen=True)
class Inverse:
    """`^path`."""

    path: Path

    def __str__(self) -> str:
        return f"^{_bracketed(self.path)}"


@dataclass(frozen=True)
class Sequence:
    """`path/path`."""

    first: Path
    second: Path

    def __str__(self) -> str:
        return f"{_bracketed(self.first)}/{_bracketed(self.second)}"


@dataclass(frozen=True)
class Alternative:
    """`path|path`."""

    first: Path
    second: Path

    def __str__(self) -> str:
        return f"{_bracketed(self.first)}|{_bracketed(self.second)}"


@dataclass(frozen=True)
class ZeroOrOne:
    """`path?`."""

    path: Path

    def __str__(self) -> str:
        return f"{_bracketed(self.path)}?"


@dataclass(frozen=True)
class ZeroOrMore:
    """`path*`."""

    path: Path

    def __str__(self) -> str:
        return f"{_bracketed(self.path)}*"


@dataclass(frozen=True)
class OneOrMore:
    """`path+`."""

    path: Path

    def __str__(self) -> str:
        return f"{_bracketed(self.path)}+"


@dataclass(frozen=True)
class Negated:
    """`!(iri|^iri)`: the forward and the backward IRIs."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]

    def __str__(self) -> str:
        return f"!({'|'.join([*self.forward, *(f'^{iri}' for iri in self.backward)])})"


Path = str | Inverse | Sequence | Alternative | ZeroOrOne | ZeroOrMore | OneOrMore | Negated
"""A path; a text is an IRI, or a variable where a whole pattern has no other step."""


def _bracketed(path: Path) -> str:
    return path if isinstance(path, str) else f"({path})"


# Groups


@dataclass(frozen=True)
class Triples:
    """Adjacent triple patterns, of which some may be paths."""

    patterns: tuple[tuple[str, Path, str], ...]

    def __str__(self) -> str:
        return " ".join(f"{s} {path} {o} ." for s, path, o in self.patterns)


@dataclass(frozen=True)
class Filter:
    """`FILTER`."""

    condition: Expression

    def __str__(self) -> str:
        bare = isinstance(self.condition, Exists)
        return f"FILTER {self.condition}" if bare else f"FILTER ({self.condition})"


@dataclass(frozen=True)
class Optional:
    """`OPTIONAL { }`."""

    group: Group

    def __str__(self) -> str:
        return f"OPTIONAL {self.group}"


@dataclass(frozen=True)
class Union:
    """`{ } UNION { }`."""

    groups: tuple[Group, ...]

    def __str__(self) -> str:
        return " UNION ".join(map(str, self.groups))


@dataclass(frozen=True)
class Minus:
    """`MINUS { }`."""

    group: Group

    def __str__(self) -> str:
        return f"MINUS {self.group}"


@dataclass(frozen=True)
class Bind:
    """`BIND ( AS )`."""

    value: Expression
    name: str

    def __str__(self) -> str:
        return f"BIND ({self.value} AS ?{self.name})"


@dataclass(frozen=True)
class Values:
    """`VALUES`, with None for UNDEF."""

    names: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]

    def __str__(self) -> str:
        names = " ".join(f"?{name}" for name in self.names)
        rows = " ".join(f"({' '.join(cell or 'UNDEF' for cell in row)})" for row in self.rows)
        return f"VALUES ({names}) {{ {rows} }}"


@dataclass(frozen=True)
class Graph:
    """`GRAPH name { }`, which may be written `WINDOW name { }` where the graph is a window."""

    name: str
    group: Group
    keyword: str = "GRAPH"

    def __str__(self) -> str:
        return f"{self.keyword} {self.name} {self.group}"


@dataclass(frozen=True)
class Select:
    """A SELECT, also inside a group: names, or expressions with their names; no item is `*`."""

    items: tuple[str | tuple[Expression, str], ...]
    where: Group
    modifier: str = ""
    group: tuple[str | tuple[Expression, str], ...] = ()
    having: tuple[Expression, ...] = ()
    order: tuple[tuple[Expression, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def grouped(self) -> bool:
        """Whether the solutions are groups."""
        made = [item[0] for item in self.items if not isinstance(item, str)]
        return bool(self.group) or any(isinstance(one, Aggregate) for one in walk((*made, *self.having)))

    @property
    def tail(self) -> str:
        """The text behind the group."""
        words = []
        if self.group:
            keys = [f"?{key}" if isinstance(key, str) else f"({key[0]} AS ?{key[1]})" for key in self.group]
            words += ["GROUP BY", *keys]
        if self.having:
            words += ["HAVING", *(f"({condition})" for condition in self.having)]
        if self.order:
            words += ["ORDER BY", *(f"{'DESC' if down else 'ASC'}({one})" for one, down in self.order)]
        words += [f"LIMIT {self.limit}"] if self.limit is not None else []
        words += [f"OFFSET {self.offset}"] if self.offset else []
        return " ".join(words)

    @property
    def head(self) -> str:
        """The text before the group."""
        items = [f"?{item}" if isinstance(item, str) else f"({item[0]} AS ?{item[1]})" for item in self.items]
        return " ".join(word for word in ("SELECT", self.modifier, *(items or ["*"])) if word)

    @property
    def names(self) -> list[str]:
        """The variables of the answer."""
        return [item if isinstance(item, str) else item[1] for item in self.items] or sorted(
            scope(self.where)
        )

    def __str__(self) -> str:
        return f"{{ {self.head} WHERE {self.where} {self.tail} }}"


@dataclass(frozen=True)
class Group:
    """`{ }`."""

    elements: tuple[Element, ...]

    def __str__(self) -> str:
        return f"{{ {' '.join(map(str, self.elements))} }}"


Element = Triples | Filter | Optional | Union | Minus | Bind | Values | Graph | Select | Group
Node = Element | Expression | Path


def scope(node: Element) -> set[str]:
    """The variables that are in scope behind an element: SPARQL 1.1, section 18.2.1.

    >>> inner = Select(("x",), Group((Triples((("?x", "<p>", "?y"),)),)))
    >>> sorted(scope(Group((inner, Minus(Group((Triples((("?x", "?z", "?w"),)),)))))))
    ['x']
    """
    match node:
        case Triples(patterns):
            return {t[1:] for pattern in patterns for t in pattern if isinstance(t, str) and t[0] == "?"}
        case Filter() | Minus():
            return set()
        case Optional(group):
            return scope(group)
        case Union(groups):
            return set().union(*map(scope, groups))
        case Bind(_, name):
            return {name}
        case Values(names):
            return set(names)
        case Graph(name, group):
            return scope(group) | ({name[1:]} if name[0] == "?" else set())
        case Select():
            return set(node.names)
        case Group(elements):
            return set().union(*map(scope, elements))


def walk(node: object) -> Iterator[object]:
    """All nodes of a tree."""
    if isinstance(node, tuple):
        for part in node:
            yield from walk(part)
    elif hasattr(node, "__dataclass_fields__"):
        yield node
        for field in fields(node):  # type: ignore[arg-type]
            yield from walk(getattr(node, field.name))
