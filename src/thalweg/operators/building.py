"""Operators: their protocol, and the one that each node of a physical plan is run by."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import INTERNAL, Expression, WindowEnd
from thalweg.algebra.query import Query
from thalweg.expressions.evaluate import Evaluator
from thalweg.expressions.values import FALSE, TRUE
from thalweg.operators.closure import ClosureRows
from thalweg.operators.cogroup import CoGroupRows
from thalweg.operators.groups import GroupRows
from thalweg.operators.ordering import OrderedRows, SliceRows
from thalweg.operators.rows import (
    CompatibleRows,
    ComputeRows,
    ConstructTriples,
    CutRows,
    ExpandRows,
    MergeRows,
    RenameRows,
    SelectRows,
)
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.template import Template
from thalweg.operators.timeline import CountedRows
from thalweg.operators.window_ends import WindowEnds
from thalweg.options import Limits
from thalweg.plan import physical
from thalweg.plan.physical import Physical
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]


class Operator(Protocol):
    """A definition, made of a node of the plan, and its state."""

    width: int
    """The cells of a row that comes out."""
    replayable: bool
    """Whether the state follows from the content of windows."""
    linear: bool
    """Whether it takes rows one by one. One that is not nets its result, and needs all rows of an event at once."""

    def step(self, *inputs: Changes) -> Changes:
        """Takes the changes of each input in time order; gives the changes of the operator's result."""
        ...

    def state(self) -> State:
        """Everything that is kept."""
        ...

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        ...

    def live_ids(self) -> list[Ints]:
        """The term ids that are kept."""
        ...

    def clear(self) -> None:
        """Lets go of everything."""
        ...

    def give_back(self, spare: int) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        ...

    @property
    def held(self) -> int:
        """How many rows are kept."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        ...


class DistinctRows:
    """DISTINCT: a row comes with its first copy and goes with its last."""

    replayable = True
    linear = False

    def __init__(self, width: int) -> None:
        self.width = width
        self._counts = CountedRows(width)

    def step(self, *inputs: Changes) -> Changes:
        """The changes of the set."""
        (changes,) = inputs
        changes = changes.consolidated()
        if not len(changes):
            return changes
        weight = self._counts.add(changes.weight, changes.rows)
        kept = weight != 0
        return Changes(changes.time[kept], weight[kept], changes.rows[kept])

    def state(self) -> State:
        """The rows and how often they are there."""
        return self._counts.state()

    def restore(self, state: State) -> None:
        """Counts what a saved one counted."""
        self._counts.restore(state)

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows."""
        return [self._counts.content()[0].ravel()]

    def clear(self) -> None:
        """Lets go of everything."""
        self._counts = CountedRows(self.width)

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        return self._counts.give_back(spare)

    @property
    def held(self) -> int:
        """How many different rows there are."""
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """The memory of the counts."""
        return self._counts.nbytes


def evaluator_of(expression: Expression, input: Physical, query: Query, arena: Arena) -> Evaluator:
    """The evaluator of an expression over the rows of an input.

    What BNODE, RAND and UUID give depends on the solution that a row is of, not on what was computed for it.
    """
    computed = {one.name for one in physical.walk(input) if isinstance(one, physical.Compute)}
    identity = [name for name in input.names if name not in computed and not name.startswith(INTERNAL)]
    return Evaluator(expression, input.names, arena, salt=query.text.encode(), identity=identity)


def operator_of(node: Physical, query: Query, arena: Arena, limits: Limits) -> Operator:
    """The operator that a node of the plan of a query is run by."""
    width = len(node.names)
    match node:
        case physical.Select():
            return SelectRows(evaluator_of(node.condition, node.input, query, arena), width)
        case physical.Compute() if isinstance(node.expression, WindowEnd):
            return WindowEnds(node.expression.window, width, arena)
        case physical.Compute():
            return ComputeRows(evaluator_of(node.expression, node.input, query, arena), width)
        case physical.Rename():
            return RenameRows(node.sources)
        case physical.Compatible():
            return CompatibleRows(node.pairs, width, overlap=node.overlap)
        case physical.Expand():
            mine, theirs = node.input.names, node.table.names
            shared = [(mine.index(name), k) for k, name in enumerate(theirs) if name in mine]
            added = [k for k, name in enumerate(theirs) if name not in mine]
            return ExpandRows(table_of(node.table, arena), shared, added, len(mine))
        case physical.Merge():
            return MergeRows(width)
        case physical.Cut():
            return CutRows(width)
        case physical.CoGroup():
            false, true = (arena.intern(value.text.encode()) for value in (FALSE, TRUE))
            return CoGroupRows([len(one.names) for one in node.inputs], node.rules, node.key, (false, true))
        case physical.Closure():
            lead = len(node.input.names) - 2
            root, target = (
                0 if term is None else arena.intern(term.text.encode()) for term in (node.root, node.target)
            )
            ends = [lead + k for k, term in enumerate((node.root, node.target)) if term is None]
            return ClosureRows(
                lead,
                root=root,
                target=target,
                asked=node.roots is not None,
                proper=node.proper,
                keeps=(*range(lead), *ends),
                most=limits.path_pairs,
            )
        case physical.Distinct():
            return DistinctRows(width)
        case physical.Slice():
            rows = OrderedRows(node.order.conditions, node.order.ties, arena, lead=node.lead)
            return SliceRows(rows, node.offset, node.limit)
        case physical.Group():
            return GroupRows(node.key, node.aggregates, arena, implicit=node.start is not None)
        case physical.Template():
            lead = sum(name.startswith(INTERNAL) for name in node.names)
            return ConstructTriples(Template(query, node.input.names[lead:], arena), lead)
    raise TypeError(f"a {type(node).__name__} is no operator")


def table_of(table: physical.Constants, arena: Arena) -> Ints:
    """The rows of a table of constants as ids, 0 where a row binds nothing; without columns of an event."""
    cells = [[0 if term is None else arena.intern(term.text.encode()) for term in row] for row in table.rows]
    width = len(table.rows[0]) if table.rows else len(table.names)
    return np.array(cells, np.int64).reshape(len(table.rows), width)
