"""The algebra of a query as text: for `explain`, for golden tests, and for people."""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.algebra.nodes import (
    Ask,
    Bgp,
    Closure,
    Construct,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    Fixed,
    Group,
    LeftJoin,
    Node,
    OrderBy,
    Project,
    Slice,
    Values,
    ZeroLength,
    children,
    spine,
)
from thalweg.algebra.query import Query
from thalweg.algebra.terms import Var

_FEW_ROWS = 3


def show(query: Query) -> str:
    """A query, one clause a line; of a basic graph pattern, patterns are listed under the source that they read.

    >>> from thalweg.lang import parse
    >>> print(show(parse("SELECT * FROM STREAM <http://ex/s> [RANGE 10s STEP 5s] { ?x <http://ex/p> ?y }")))
    SELECT ?x ?y
    FROM <http://ex/s> [RANGE 10s STEP 5s]
      ?x <http://ex/p> ?y
    """
    lines = []
    if query.operator is not None or query.output is not None:
        output = "" if query.output is None else f" <{query.output}>"
        lines.append((query.operator or "STREAM") + output)
    if query.template is not None:
        lines += ["CONSTRUCT", *(f"  {triple}" for triple in query.template)]
    elif query.ask:
        lines.append("ASK")
    else:
        columns = "".join(f" ?{name}" for name in query.select) or " nothing"
        lines.append(f"SELECT{' DISTINCT' if query.distinct else ''}{columns}")
    if query.empty is not None:
        lines.append(f"EMPTY {query.empty}")
    elif query.flat:
        lines += [f"WITH ?{name} = {value}" for name, value in query.fixed]
    for i, source in enumerate(query.sources):
        lines.append(f"FROM {source}")
        if query.flat:
            lines += [f"  {pattern}" for pattern in query.patterns if pattern.source == i]
    if not query.flat:
        lines += ["WHERE", *(f"  {line}" for line in tree(_body(query.root), sources=len(query.sources) > 1))]
    return "\n".join(lines)


def _body(root: Node) -> Node:
    """The tree below the form of the answer."""
    for node in spine(root):
        if not isinstance(node, Construct | Ask | Distinct | Project | Slice):
            return node
        if isinstance(node, Project):
            return node.input
    return root


def tree(node: Node, *, sources: bool = False) -> Iterator[str]:
    """A tree, one node a line, inputs indented; `sources`: with the number of the source that a pattern reads."""
    pending = [(node, 0)]
    while pending:
        found, depth = pending.pop()
        yield "  " * depth + describe(found)
        if isinstance(found, Bgp):
            for pattern in found.patterns:
                source = f"   of source {pattern.source}" if sources else ""
                yield "  " * (depth + 1) + f"{pattern}{source}"
        pending.extend((below, depth + 1) for below in reversed(children(found)))


def describe(node: Node) -> str:
    """One node, without what is below it."""
    name = type(node).__name__
    match node:
        case Filter():
            return f"{name} {node.condition}"
        case Extend():
            return f"{name} {Var(node.name)} := {node.expression}"
        case Fixed():
            return f"{name} " + ", ".join(f"?{variable} = {value}" for variable, value in node.values)
        case LeftJoin() if node.condition is not None:
            return f"{name} if {node.condition}"
        case Exists():
            mark = "" if node.mark is None else f" as {node.mark}"
            return ("Not exists" if node.negated else name) + mark
        case Empty():
            return f"{name}: {node.reason}"
        case Closure():
            step = f"steps from {Var(node.start)} to {Var(node.end)}"
            proper = ", of different terms" if node.proper else ""
            return f"{name} from {node.subject} to {node.object}: {step}{proper}"
        case ZeroLength():
            return f"Zero length from {Var(node.subject)} to {Var(node.object)}"
        case Project():
            return name + "".join(f" ?{variable}" for variable in node.names)
        case OrderBy():
            return name + "".join(
                f" DESC({Var(key)})" if down else f" {Var(key)}" for key, down in node.conditions
            )
        case Slice():
            limit = "all" if node.limit is None else f"{node.limit:,}"
            return f"{name} {limit} rows" + (f" after {node.offset:,}" if node.offset else "")
        case Group():
            keys = " ".join(str(Var(key)) for key in node.keys) or "nothing"
            return f"{name} by {keys}" + "".join(f", {one}" for _, one in node.aggregates)
        case Values():
            shown = "; ".join(
                " ".join("UNDEF" if v is None else str(v) for v in row) for row in node.rows[:_FEW_ROWS]
            )
            more = f"; and {len(node.rows) - _FEW_ROWS:,} more rows" if len(node.rows) > _FEW_ROWS else ""
            return f"{name}" + "".join(f" ?{variable}" for variable in node.names) + f": {shown}{more}"
        case Bgp() if not node.patterns:
            return f"{name} of no pattern"
    return name
