"""Which variables may have a share: those by which all rows that operators bring together come to one cell.

A leaf that binds a variable finds each solution in one cell of the variable's dimension. Going up, a column *places*
rows in a dimension if it is bound in all of them, to the value by which their leaf's solution was sent to its cell.
Names are not enough: a sub-SELECT hides a variable, and another one may have its name outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.plan.compile import plan_of
from thalweg.plan.physical import (
    Closure,
    CoGroup,
    Constants,
    Distinct,
    Expand,
    Group,
    Merge,
    Physical,
    Plan,
    Rename,
    Scan,
    Slice,
    Template,
    bottom_up,
    inputs_of,
    walk,
)

_TABLE = "a part of the query has solutions without any triple, which only one shard may have"
_ONE_GROUP = "there is one group of all rows, which only one shard may have"
_CLOSURE = "a path with + or * may go over all triples of its predicates, which only one shard has"
_RANKED = "ranks are counted over all rows, which only one shard has"
_APART = "the parts of the query have no variable in common"
_NO_KEY = "there is no variable by which all rows that belong together meet"
_NOT_SHOWN = "no variable that all parts of the query bind is in the answer"

Placing = frozenset[int] | None
"""The columns that place the rows of an operator; None: it has no rows at all."""


class _NotTogetherError(Exception):
    """Rows that an operator brings together may be in different cells."""


def meeting_variables(query: Query, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Those of some variables that may have a share in the plan of a query; where there are none, the reason."""
    plan = plan_of(query)
    if plan.order is not None or any(isinstance(one, Slice) for one in walk(plan.root)):
        return (), _RANKED
    if any(isinstance(one, Group) and one.start is not None for one in walk(plan.root)):
        return (), _ONE_GROUP
    if any(isinstance(one, Constants) and one.rows for one in walk(plan.root)):
        return (), _TABLE
    if any(isinstance(one, Closure) for one in walk(plan.root)):
        return (), _CLOSURE
    bound = [
        {name for number in leaf.patterns for name in query.patterns[number].variables}
        for leaf in plan.leaves
    ]
    common = [name for name in names if all(name in variables for variables in bound)]
    if not common:
        return (), _APART
    found = [(name, _placing(plan, name)) for name in common]
    placed = {name: placing for name, placing in found if placing is not None}
    if not placed:
        return (), _NO_KEY
    if query.operator in ("ISTREAM", "DSTREAM") and query.template is None:
        # What enters and leaves at one instant is netted, so that equal rows have to meet.
        placed = {name: placing for name, placing in placed.items() if placing}
    return tuple(placed), "" if placed else _NOT_SHOWN


def _placing(plan: Plan, name: str) -> frozenset[int] | None:
    """The columns of the answer that place its rows in the dimension of a variable; None where it may have no share."""
    found = placings(plan.root, lambda scan: placing_of(scan, plan, name))
    return None if id(plan.root) not in found else found[id(plan.root)] or frozenset()


def placing_of(scan: Scan, plan: Plan, name: str) -> frozenset[int]:
    """The columns of a leaf's solutions that place them in the dimension of a variable."""
    shown = name in plan.leaves[scan.leaf].shown
    return frozenset(k for k, column in enumerate(scan.names) if column == name and shown)


def placings(
    root: Physical, given: Callable[[Scan], frozenset[int]], *, bound: bool = True
) -> dict[int, Placing]:
    """For the operators, by identity, that bring together only rows of one cell: the columns that place their rows.

    `given` has those of leaves. Unless `bound`, placing columns may be unbound in some rows.
    """
    found: dict[int, Placing] = {}
    for node in bottom_up(root):
        inputs = inputs_of(node)
        if isinstance(node, Scan):
            found[id(node)] = given(node)
        elif all(id(one) in found for one in inputs):
            with suppress(_NotTogetherError):
                found[id(node)] = _columns(node, [found[id(one)] for one in inputs], bound=bound)
    return found


def _columns(node: Physical, below: Sequence[Placing], *, bound: bool) -> Placing:
    if isinstance(node, Constants):
        if node.rows:
            raise _NotTogetherError
        return None
    if all(placing is None for placing in below):
        return None
    if isinstance(node, Merge):
        return frozenset.intersection(*(placing for placing in below if placing is not None))
    if isinstance(node, CoGroup):
        return _met(node, below)
    placing = below[0]
    assert placing is not None
    match node:
        case Slice() | Closure():
            raise _NotTogetherError
        case Group():
            keys = placing & frozenset(range(node.key))
            if not keys:
                raise _NotTogetherError
            return keys
        case Rename():
            # The first column that is bound: the first one, unless that can be unbound.
            return frozenset(
                k
                for k, sources in enumerate(node.sources)
                if sources and sources[0] in placing and (bound or len(sources) == 1)
            )
        case Expand() if not bound:
            return frozenset(k for k in placing if node.input.names[k] not in node.table.names)
        case Distinct() if not placing:
            raise _NotTogetherError
        case Template():
            shown = {node.input.names[k] for k in placing}
            equal_ones_meet = any(follows(node.triples, column) for column in shown)
            return frozenset(range(len(node.names)) if equal_ones_meet else ())
    return placing  # of filters, and where columns are added at the end


def _met(node: CoGroup, below: Sequence[Placing]) -> Placing:
    """Rows meet by key: some column of it places the rows of all inputs."""
    inputs = [placing for placing in below if placing is not None]
    keys = frozenset.intersection(*inputs) & frozenset(range(node.key))
    if not keys:
        raise _NotTogetherError
    return keys


def follows(template: Sequence[Pattern], name: str) -> bool:
    """Whether equal triples come from solutions that agree in a variable.

    So it is if triples of the template that can be equal have it in one place, or one new node: one solution's.
    """

    def distinguishes(one: Term, other: Term) -> bool:
        return one == other and isinstance(one, Var) and (one.anonymous or one.name == name)

    def apart(one: Term, other: Term) -> bool:
        fixed = (isinstance(term, Const) or term.anonymous for term in (one, other))
        return all(fixed) and one != other

    pairs = [list(zip(a.terms, b.terms, strict=True)) for a in template for b in template]
    return all(any(distinguishes(*two) or apart(*two) for two in pair) for pair in pairs)
