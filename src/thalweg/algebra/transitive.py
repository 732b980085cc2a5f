"""Transitive properties: a pattern of one is a path of one or more steps, over the closed content of its window.

Everything else that the rules give follows from one triple. A chain `x p y, y p z` gives `x p z`, which adds no type:
x and z have the types that the domain and the range of p give, by their own edges. It adds triples of p, and of the
properties that p leads to. So a pattern of p is replaced by the closure of p, each pair once; where p leads to a
property that is transitive itself, the chains of p are chains of that, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg.algebra.expressions import Call, Variable
from thalweg.algebra.nodes import Bgp, Closure, Filter, Join, Node, transform
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.errors import UnsupportedError

if TYPE_CHECKING:
    from thalweg.schema.axioms import Schema

_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def with_chains(root: Node, schema: Schema) -> Node:
    """The tree in which patterns of transitive properties are closures."""
    reached = {p: schema.led_to(p) for p in schema.transitive}
    if any(_TYPE in {p, *found} for p, found in reached.items()):
        raise UnsupportedError(
            "a transitive property that is or leads to rdf:type, whose chains would make classes"
        )
    made = 0

    def change(node: Node) -> Node:
        nonlocal made
        if isinstance(node, Closure) and isinstance(node.input, Closure):
            inner = node.input  # a path of chains is a path
            if (inner.subject, inner.object) == (Var(node.start), Var(node.end)):
                return Closure(inner.input, inner.start, inner.end, node.subject, node.object, node.proper)
        if not isinstance(node, Bgp):
            return node
        plain, chains = [], []
        for pattern in node.patterns:
            if not _is_chain(pattern, schema, reached):
                plain.append(pattern)
                continue
            made += 1
            chains.append(_closure(pattern, made, turned=schema.turns_objects(pattern.constants[1])))
        if not chains:
            return node
        parts: list[Node] = [*([Bgp(tuple(plain))] if plain else []), *chains]
        joined = parts[0]
        for part in parts[1:]:
            joined = Join(joined, part)
        return joined

    return transform(root, change)


def _is_chain(pattern: Pattern, schema: Schema, reached: dict[str, frozenset[str]]) -> bool:
    """Whether a pattern is of a transitive property; one that cannot be answered is refused."""
    if not isinstance(pattern.p, Const):
        raise UnsupportedError(
            "a variable predicate under the rule transitive: name the property",
            line=pattern.line,
            column=pattern.column,
        )
    text = pattern.p.text
    if text in schema.transitive:
        return True
    for p, found in sorted(reached.items()):
        if text in found:
            reason = f"{text} under the rule transitive: the chains of {p} lead to it, and it is not transitive itself"
            raise UnsupportedError(reason, line=pattern.line, column=pattern.column)
    return False


def _closure(pattern: Pattern, number: int, *, turned: bool) -> Node:
    start, end = Var(f"_:/chain{number}"), Var(f"_:/chain{number}-end")
    step = Bgp((Pattern(start, pattern.p, end, pattern.source, pattern.line, pattern.column),))
    other = (
        Var(f"_:/chain{number}-same") if pattern.s == pattern.o and isinstance(pattern.s, Var) else pattern.o
    )
    found: Node = Closure(step, start.name, end.name, pattern.s, other)
    if other != pattern.o:
        assert isinstance(pattern.s, Var)
        assert isinstance(other, Var)
        same = Call("SAMETERM", (Variable(pattern.s.name), Variable(other.name)))
        found = Filter(found, same)
    if turned and isinstance(pattern.s, Var):
        # A literal is a subject on the way, and not in an answer.
        found = Filter(found, Call("NOT", (Call("ISLITERAL", (Variable(pattern.s.name),)),)))
    return found
