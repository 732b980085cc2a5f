"""A small query, and others that differ from it."""

from typing import Any

from thalweg.algebra.expressions import Call, Constant, Variable
from thalweg.algebra.nodes import Bgp, Construct, Distinct, Filter, Fixed, Node, Project
from thalweg.algebra.query import Query, Source
from thalweg.algebra.terms import Const, Pattern, Var

P = Const.iri("http://ex/p")


def query(**changes: Any) -> Query:
    cells = {
        "language": "SPARQL",
        "operator": None,
        "output": None,
        "sources": (Source(("http://ex/s",)),),
        "text": "",
    }
    parts = {key: changes.pop(key) for key in list(changes) if key not in cells}
    return Query(**cells | changes, root=tree(**parts))


def tree(
    patterns: tuple[Pattern, ...] = (Pattern(Var("x"), P, Var("y")),),
    select: tuple[str, ...] = ("x",),
    *,
    distinct: bool = False,
    fixed: tuple[Any, ...] = (),
    equalities: tuple[Any, ...] = (),
    template: tuple[Pattern, ...] | None = None,
) -> Node:
    node: Node = Bgp(patterns)
    for name, value, *place in equalities:
        node = Filter(node, Call("SAMETERM", (Variable(name), Constant(value))), *place)
    if fixed:
        node = Fixed(node, fixed)
    node = Project(node, select)
    if template is not None:
        return Construct(node, template)
    return Distinct(node) if distinct else node
