"""Groups of a query: the keys and aggregates that its expressions name while they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyparsing import ParseResults
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.expressions import Constant, Expression, Variable, substitute, variables_of
from thalweg.algebra.nodes import Aggregate, Extend, Group, Node
from thalweg.algebra.terms import Const

T = TypeVar("T")
_ANY = "_:any"
"""The key of groups that only the bounds of a window distinguish."""
_FREE = ("Builtin_EXISTS", "Builtin_NOTEXISTS", "SubSelect")
"""Parts of an expression in which an aggregate would be of another query."""


class Grouping:
    """What GROUP BY and the aggregates of one SELECT ask for."""

    def __init__(self, keys: tuple[str, ...], of_window: dict[str, Expression]) -> None:
        """`of_window`: keys that have one value at an instant, as bounds of a window have.

        The groups are the same without them: they are computed for groups, and not for each solution.
        """
        self.keys = keys
        self._of_window = of_window
        self.aggregates: dict[str, Aggregate] = {}
        self.inside = False
        """Whether the argument of an aggregate is being read."""
        self._arguments: dict[str, Expression] = {}

    def argument(self, expression: Expression) -> str:
        """The variable that has an argument: one that is computed gets a name which no query can write."""
        if isinstance(expression, Variable):
            return expression.name
        name = f"_:({expression})"
        self._arguments[name] = expression
        return name

    def variable(self, aggregate: Aggregate) -> Variable:
        """The variable that has an aggregate's value; equal ones share it."""
        name = f"_:{aggregate}"
        self.aggregates[name] = aggregate
        return Variable(name)

    def name_columns(
        self,
        columns: list[tuple[str, Expression, T]],
        conditions: list[tuple[Expression, T]],
        order: list[tuple[Expression, T]],
    ) -> tuple[list[tuple[str, Expression, T]], list[tuple[Expression, T]], list[tuple[Expression, T]]]:
        """Gives an aggregate that is a column of its own the column's name; the other columns, conditions and order."""
        names: dict[str, str] = {}
        for name, expression, _ in columns:
            if isinstance(expression, Variable) and expression.name in self.aggregates:
                names.setdefault(expression.name, name)
        named = set(names.values())
        self.aggregates = {names.get(name, name): one for name, one in self.aggregates.items()}
        new = {name: Variable(column) for name, column in names.items()}
        return (
            [(name, substitute(one, new), tree) for name, one, tree in columns if name not in named],
            [(substitute(one, new), tree) for one, tree in conditions],
            [(substitute(one, new), tree) for one, tree in order],
        )

    def node(self, below: Node, marked: Callable[[Node, Expression], tuple[Node, Expression]]) -> Node:
        """The groups of the solutions below; `marked` gives an EXISTS of an expression its variable."""
        keys = tuple(name for name in self.keys if name not in self._of_window)
        used = {name for one in self._arguments.values() for name in variables_of(one)}
        used.update(one.argument for one in self.aggregates.values() if one.argument is not None)
        early = {name: one for name, one in self._of_window.items() if name in used}
        for name, expression in {**early, **self._arguments}.items():
            if name in keys:  # the key is the same expression
                continue
            below, expression = marked(below, expression)
            below = Extend(below, name, expression)
        if self.keys and not keys:  # there is a group only while there are solutions
            keys = (_ANY,)
            below = Extend(below, _ANY, Constant(Const.literal("")))
        node: Node = Group(below, keys, tuple(self.aggregates.items()))
        for name, expression in self._of_window.items():
            node, expression = marked(node, expression)
            node = Extend(node, name, expression)
        return node


def has_aggregate(tree: Any) -> bool:
    """Whether an expression of the tree has an aggregate.

    >>> from thalweg.lang.grammar import parse
    >>> [has_aggregate(parse(f"SELECT ({e} AS ?x) {{}}")[1].projection) for e in ("1 + COUNT(*)", "1")]
    [True, False]
    """
    if isinstance(tree, CompValue):
        if tree.name.startswith("Aggregate_"):
            return True
        return tree.name not in _FREE and any(map(has_aggregate, tree.values()))
    return isinstance(tree, list | ParseResults) and any(map(has_aggregate, tree))
