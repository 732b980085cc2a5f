"""Two stages: a plan is cut where rows that operators bring together may be in different cells.

Below the cut, cells run operators on their own triples, and give the changes of the rows at the cut. Above it, the rest
of the plan runs on the changes of all cells. They are spread by columns in which all rows that meet there agree, or go
to one place where there are none. Rows at the cut are the leaves of the second plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thalweg.algebra.expressions import is_volatile
from thalweg.algebra.query import Query
from thalweg.algebra.windows import Range
from thalweg.plan.compile import plan_of
from thalweg.plan.meeting import placing_of, placings
from thalweg.plan.physical import (
    Closure,
    CoGroup,
    Compute,
    Constants,
    Cut,
    Distinct,
    Group,
    Leaf,
    Physical,
    Plan,
    Scan,
    Select,
    Slice,
    bottom_up,
    inputs_of,
    walk,
    with_inputs,
)

_STAGES = "stages"


@dataclass(frozen=True)
class Stages:
    """The two parts of a plan."""

    first: Plan
    """Its root is the cut."""
    second: Plan
    """Its leaves are the inputs of the cut."""
    keys: tuple[tuple[int, ...], ...]
    """For each input of the cut, the columns by whose values its rows are spread; without any, all go to one place."""

    @property
    def inputs(self) -> tuple[Physical, ...]:
        """The operators whose rows go over the cut."""
        return inputs_of(self.first.root)

    @property
    def spreads(self) -> bool:
        """Whether the second stage can be spread."""
        return any(self.keys)

    @property
    def awaits_start(self) -> bool:
        """Whether rows of the second stage begin with the query's first instant."""
        return any(isinstance(one, Constants) and one.rows for one in walk(self.second.root))


def stages_of(query: Query) -> Stages:
    """The stages of a query that is cut; they are made once."""
    stages: Stages | None = query.__dict__.get(_STAGES)
    if stages is None:
        stages = query.__dict__[_STAGES] = query.recursing(lambda: _cut(query, query.cut_by))
    return stages


def in_steps(query: Query) -> bool:
    """Whether all windows are reported at instants that are known without their content."""
    windows = query.windows
    return all(isinstance(window, Range) and window.report_times is not None for window in windows)


def _reports_whole_answer(query: Query) -> bool:
    """Whether only who has the whole answer can report it."""
    return query.reports_empty or query.ranked or (query.operator == "RSTREAM" and not in_steps(query))


def cutting_variables(query: Query, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some variables that may have shares in the first stage of a query: with them, most operators are there.

    None where a second stage would have nothing to do, or all of the work.
    """
    if query.by_count or query.per_event or query.asks_arrivals:
        return ()
    plan = plan_of(query)
    operators = list(walk(plan.root))
    meets = any(isinstance(one, Distinct | Group | CoGroup | Slice) for one in operators)
    if not meets and query.operator not in ("ISTREAM", "DSTREAM"):
        return ()
    if any(isinstance(one, Closure) for one in operators):
        return ()
    bound = [{v for k in leaf.patterns for v in query.patterns[k].variables} for leaf in plan.leaves]
    common = [name for name in names if all(name in variables for variables in bound)]
    local = {name: frozenset(_local(plan, [name])) for name in common}
    if not plan.leaves or not common:
        return ()
    most = max(local.values(), key=len)
    chosen = tuple(name for name in common if local[name] == most)
    return chosen if not _depends_on_rows_below(query.recursing(lambda: _cut(query, chosen))) else ()


def _local(plan: Plan, names: Sequence[str]) -> set[int]:
    """The operators, by identity, that bring together only rows of one cell if some variables have shares."""

    def of_variable(name: str) -> set[int]:
        return set(placings(plan.root, lambda scan: placing_of(scan, plan, name)))

    return set.intersection(*map(of_variable, names))


def _depends_on_rows_below(stages: Stages) -> bool:
    """Whether a value above the cut depends on the solution below it: RAND, BNODE, ..., or on the instant."""
    expressions = [
        one.condition if isinstance(one, Select) else one.expression
        for one in walk(stages.second.root)
        if isinstance(one, Select | Compute)
    ]
    return any(map(is_volatile, expressions))


def _cut(query: Query, names: Sequence[str]) -> Stages:
    plan = plan_of(query)
    local = _local(plan, names)
    order = bottom_up(plan.root)
    scans: set[int] = set()
    takers: dict[int, list[Physical]] = {}
    for node in order:
        if isinstance(node, Scan) or any(id(one) in scans for one in inputs_of(node)):
            scans.add(id(node))
        for one in inputs_of(node):
            takers.setdefault(id(one), []).append(node)
    inputs = [
        node
        for node in order
        if id(node) in local
        and id(node) in scans
        and (node is plan.root or any(id(taker) not in local for taker in takers[id(node)]))
    ]
    made: dict[int, Physical] = {id(node): Scan(k, node.names) for k, node in enumerate(inputs)}
    for node in order:
        if id(node) not in made:
            made[id(node)] = with_inputs(node, [made[id(one)] for one in inputs_of(node)])
    second = Plan(tuple(Leaf((), node.names) for node in inputs), made[id(plan.root)], plan.order)
    partial = [_partial(node, takers.get(id(node), ())) for node in inputs]
    return Stages(Plan(plan.leaves, Cut(tuple(partial))), second, _keys(query, second))


def _partial(node: Physical, takers: Sequence[Physical]) -> Physical:
    """What of an input of the cut the second stage needs: of a set one copy, of the first rows as many of each cell."""
    match takers:
        case [Distinct()]:
            return Distinct(node)
        case [Slice() as taker] if taker.limit is not None:
            return replace(taker, input=node, offset=0, limit=taker.offset + taker.limit)
    return node


def _keys(query: Query, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """The columns, by name, that all inputs have and by which all rows that meet in the second plan come together."""
    apart = tuple(() for _ in plan.leaves)
    if _reports_whole_answer(query):
        return apart
    shown = [leaf.shown for leaf in plan.leaves]
    names = [name for name in dict.fromkeys(shown[0]) if all(name in columns for columns in shown)]
    nets = query.operator in ("ISTREAM", "DSTREAM") and query.template is None
    places = {name: [columns.index(name) for columns in shown] for name in names}

    def meets_by(name: str) -> bool:
        found = placings(plan.root, lambda scan: frozenset([places[name][scan.leaf]]), bound=False)
        return id(plan.root) in found and (bool(found[id(plan.root)]) or not nets)

    keys = [places[name] for name in names if meets_by(name)]
    return tuple(zip(*keys, strict=True)) if keys else apart
