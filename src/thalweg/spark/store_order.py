"""The order in which the triple patterns of a basic graph pattern are joined, by weights of the frequency table.

The weight of a pattern is the least number of triples that one of its constants leaves. Beyond that,
a pattern that shares variables with what is joined already counts with the rows that the join is expected to have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from thalweg.algebra.nodes import Bgp, walk
from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern, Var
from thalweg.spark.store_table import Frequency


@dataclass(frozen=True)
class Estimate:
    """How many rows a pattern or a join has, and how many different values of each variable."""

    rows: float
    values: Mapping[str, float]


def estimate(pattern: Pattern, table: Mapping[str, Frequency]) -> Estimate:
    """What a triple pattern is expected to match.

    >>> table = {"<a:p>": Frequency(rows=100, subjects=10, objects=50)}
    >>> estimate(Pattern(Const.iri("a:x"), Const.iri("a:p"), Var("y")), table).rows
    10.0
    """
    if isinstance(pattern.p, Const):
        found = [table.get(pattern.p.text, Frequency())]
    else:
        found = list(table.values())
    total = sum(one.rows for one in found)
    subjects = max(1, sum(one.subjects for one in found))
    objects = max(1, sum(one.objects for one in found))
    rows = float(total)
    if isinstance(pattern.s, Const):
        rows /= subjects
    if isinstance(pattern.o, Const):
        rows /= objects
    most = {pattern.s: subjects, pattern.p: len(found), pattern.o: objects}
    values = {
        term.name: float(max(1, min(rows, count))) for term, count in most.items() if isinstance(term, Var)
    }
    return Estimate(rows, values)


def joined(left: Estimate, right: Estimate) -> Estimate:
    """What a join is expected to have: each value of a shared variable on one side meets its share of the other."""
    rows = left.rows * right.rows
    for name in left.values.keys() & right.values.keys():
        rows /= max(left.values[name], right.values[name])
    values = dict(right.values)
    for name, count in left.values.items():
        values[name] = min(count, values.get(name, count))
    return Estimate(rows, {name: max(1.0, min(rows, count)) for name, count in values.items()})


def join_order(patterns: Sequence[Pattern], table: Mapping[str, Frequency]) -> list[int]:
    """The places of patterns in the order in which they are joined: the lightest first, then what keeps the join small.

    A pattern without a shared variable waits until no other one is left.
    """
    estimates = [estimate(pattern, table) for pattern in patterns]
    left = set(range(len(patterns)))
    order: list[int] = []
    current = Estimate(1.0, {})
    while left:
        linked = [k for k in left if estimates[k].values.keys() & current.values.keys()]
        candidates = linked or sorted(left)
        best = min(candidates, key=lambda k: (joined(current, estimates[k]).rows, estimates[k].rows, k))
        current = joined(current, estimates[best])
        order.append(best)
        left.remove(best)
    return order


@dataclass(frozen=True)
class OrderExplanation:
    """How a query is answered on Spark: the order of its patterns, and what each is expected to match."""

    query: Query
    table: Mapping[str, Frequency]

    def lines(self) -> Iterator[str]:
        """The explanation as text."""
        yield "answered by: Spark SQL"
        for node in walk(self.query.root):
            if isinstance(node, Bgp) and node.patterns:
                yield "patterns in the order of their joins, with the rows that each is expected to match:"
                for place in join_order(node.patterns, self.table):
                    rows = estimate(node.patterns[place], self.table).rows
                    yield f"  {node.patterns[place]}  ~ {rows:,.0f}"
