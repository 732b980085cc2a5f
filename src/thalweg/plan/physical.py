"""The physical plan of a query: match leaves, and a tree of operators over the rows that they give.

Rows have named columns, by position. A column that holds 0 is unbound. Where the query's windows are [NOW], the first
column of every row is the event (`EVENT`): what is found in different events never meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thalweg.algebra.expressions import INTERNAL, Expression
from thalweg.algebra.terms import Const, Pattern

EVENT = f"{INTERNAL}event"
"""The column of the event's number, which no query can name."""


@dataclass(frozen=True)
class Leaf:
    """What the kernel matches: some patterns of the flat table, and the variables that a solution shows."""

    patterns: tuple[int, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Scan:
    """The solutions of a leaf that fulfil conditions, which are asked before a solution waits for its instant."""

    leaf: int
    names: tuple[str, ...]
    conditions: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Constants:
    """Rows of the query's text, from its first instant on."""

    names: tuple[str, ...]
    rows: tuple[tuple[Const | None, ...], ...]


@dataclass(frozen=True)
class Select:
    """The rows that fulfil a condition."""

    input: Physical
    condition: Expression

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input."""
        return self.input.names


@dataclass(frozen=True)
class Compute:
    """The rows with one more column."""

    input: Physical
    name: str
    expression: Expression

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input, and the new one."""
        return (*self.input.names, self.name)


@dataclass(frozen=True)
class Rename:
    """The rows with other columns: each is the first of some columns of the input that is bound; of none, unbound."""

    input: Physical
    names: tuple[str, ...]
    sources: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Compatible:
    """The rows in which pairs of columns do not differ where both are bound; with `overlap`, some pair is bound."""

    input: Physical
    pairs: tuple[tuple[int, int], ...]
    overlap: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input."""
        return self.input.names


@dataclass(frozen=True)
class Expand:
    """The rows, each with every row of a table of constants that is compatible with it."""

    input: Physical
    table: Constants

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input, and those that the table adds."""
        return tuple(dict.fromkeys(self.input.names + self.table.names))


@dataclass(frozen=True)
class Merge:
    """The rows of all inputs, which have the same columns."""

    inputs: tuple[Physical, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the inputs."""
        return self.inputs[0].names


@dataclass(frozen=True)
class CoGroup:
    """Inputs that meet by key, their first columns: the product of what each of them gives for a key.

    An input's rule is what it gives: `rows` its rows; `left` its rows, or one unbound row where it has none; `semi` or
    `anti` nothing but whether the key is there; `mark` or `mark not` a column with that as a boolean. `outer`, beside
    one input of rows without further columns, is `left` of rows whose keys are there: they are counted, and not kept.
    """

    inputs: tuple[Physical, ...]
    rules: tuple[str, ...]
    key: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Closure:
    """The pairs (root, node) that a chain of rows of the input connects: its last two columns are the ends of a step.

    Roots are all nodes; with `root` that term, which is no column; with `roots` the last column of its rows. With
    `target`, which is no column, only pairs with that node count. With `proper` no node is paired with itself.
    """

    input: Physical
    names: tuple[str, ...]
    roots: Physical | None = None
    root: Const | None = None
    target: Const | None = None
    proper: bool = False


@dataclass(frozen=True)
class Distinct:
    """The rows as a set."""

    input: Physical

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input."""
        return self.input.names


@dataclass(frozen=True)
class Aggregation:
    """An aggregate over a column of the input, or over whole `rows`; of a set of rows, `columns` are all of theirs."""

    function: str
    columns: tuple[int, ...]
    distinct: bool = False
    separator: str = " "
    rows: bool = False


@dataclass(frozen=True)
class Group:
    """The groups of rows by their first columns, `key` of them, each with its aggregates.

    With a `start`, a row without columns from the query's first instant on, there is one group since then.
    """

    input: Physical
    key: int
    aggregates: tuple[Aggregation, ...]
    names: tuple[str, ...]
    start: Constants | None = None


@dataclass(frozen=True)
class Order:
    """An order of rows: by columns, each with whether it descends, then by the texts of all columns, `ties`."""

    conditions: tuple[tuple[int, bool], ...]
    ties: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    """The rows with some ranks in an order; rows that differ in the first `lead` columns are ranked apart."""

    input: Physical
    order: Order
    offset: int
    limit: int | None
    lead: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the input."""
        return self.input.names


@dataclass(frozen=True)
class Template:
    """The triples that a template makes of rows."""

    input: Physical
    triples: tuple[Pattern, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """The rows of all inputs on their way to the second stage of a query.

    Their columns come first, unbound ones up to the widest input behind them; the last column is the input's number.
    """

    inputs: tuple[Physical, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Columns by their places."""
        widest = max(len(one.names) for one in self.inputs)
        return (*(f"column {k}" for k in range(widest)), "input")


Physical = (
    Scan
    | Constants
    | Select
    | Compute
    | Rename
    | Compatible
    | Expand
    | Merge
    | CoGroup
    | Closure
    | Distinct
    | Group
    | Slice
    | Template
    | Cut
)

NAMES: dict[type, str] = {
    Scan: "leaf",
    Constants: "constants",
    Select: "filter",
    Compute: "bind",
    Rename: "columns",
    Compatible: "compatible",
    Expand: "values",
    Merge: "union",
    CoGroup: "co-group",
    Closure: "closure",
    Distinct: "distinct",
    Group: "group",
    Slice: "top-k",
    Template: "template",
    Cut: "cut",
}
"""What people call the operators: in `explain` and in `Session.memory()`."""


@dataclass(frozen=True)
class Plan:
    """The leaves of a query, and the operators over them; an operator that several others take is one object."""

    leaves: tuple[Leaf, ...]
    root: Physical
    order: Order | None = None
    """The order in which rows are emitted; columns behind those of the answer are there for it alone."""


def inputs_of(node: Physical) -> tuple[Physical, ...]:
    """The inputs of an operator."""
    match node:
        case Scan() | Constants():
            return ()
        case Merge() | CoGroup() | Cut():
            return node.inputs
        case Group() if node.start is not None:
            return (node.input, node.start)
        case Closure() if node.roots is not None:
            return (node.input, node.roots)
    return (node.input,)


def with_inputs(node: Physical, inputs: Sequence[Physical]) -> Physical:
    """The operator with other inputs, which have the same columns."""
    match node:
        case Scan() | Constants():
            return node
        case Merge() | CoGroup() | Cut():
            return replace(node, inputs=tuple(inputs))
        case Closure() if node.roots is not None:
            return replace(node, input=inputs[0], roots=inputs[1])
    return replace(node, input=inputs[0])


def walk(node: Physical) -> Iterator[Physical]:
    """An operator and all below it, from the top down; one that several others take comes once."""
    seen, pending = {id(node)}, [node]
    while pending:
        found = pending.pop()
        yield found
        for below in reversed(inputs_of(found)):
            if id(below) not in seen:
                seen.add(id(below))
                pending.append(below)


def bottom_up(node: Physical) -> list[Physical]:
    """An operator and all below it, each once and after its inputs."""
    found: list[Physical] = []
    seen: set[int] = set()
    pending = [node]
    while pending:
        one = pending[-1]
        missing = [below for below in inputs_of(one) if id(below) not in seen]
        pending += missing
        if not missing:
            pending.pop()
            if id(one) not in seen:
                seen.add(id(one))
                found.append(one)
    return found


def arranged(node: Physical, names: tuple[str, ...]) -> Physical:
    """The operator's rows with these columns, in this order; a column that it has not is unbound.

    >>> arranged(Scan(0, ("x", "y")), ("x", "y"))
    Scan(leaf=0, names=('x', 'y'), conditions=())
    """
    if node.names == names:
        return node
    places = {name: place for place, name in enumerate(node.names)}
    return Rename(node, names, tuple((places[name],) if name in places else () for name in names))
