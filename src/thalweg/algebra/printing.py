"""The algebra of a query as text: for `explain`, for golden tests, and for people."""

from __future__ import annotations

from thalweg.algebra.nodes import Filter, walk
from thalweg.algebra.query import Query


def show(query: Query) -> str:
    """A query, one clause a line; patterns are listed under the source that they read.

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
    else:
        columns = "".join(f" ?{name}" for name in query.select) or " nothing"
        lines.append(f"SELECT{' DISTINCT' if query.distinct else ''}{columns}")
    if query.empty is not None:
        lines.append(f"EMPTY {query.empty}")
    else:
        lines += [f"WITH ?{name} = {value}" for name, value in query.fixed]
    for i, source in enumerate(query.sources):
        lines.append(f"FROM {source}")
        lines += [f"  {pattern}" for pattern in query.patterns if pattern.source == i]
    lines += [f"FILTER {node.condition}" for node in walk(query.root) if isinstance(node, Filter)]
    return "\n".join(lines)
