"""Operators of a physical plan in plain words: what each does, which columns it gives, and what state it holds."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.algebra.expressions import Expression, WindowEnd
from thalweg.algebra.query import Query
from thalweg.algebra.terms import Var, quoted
from thalweg.expressions.evaluate import Evaluator
from thalweg.plan.compile import plan_of
from thalweg.plan.physical import (
    EVENT,
    NAMES,
    Aggregation,
    Closure,
    CoGroup,
    Compatible,
    Compute,
    Constants,
    Distinct,
    Expand,
    Group,
    Order,
    Physical,
    Rename,
    Scan,
    Select,
    Slice,
    Template,
)
from thalweg.rdf.arena import Arena

_INTERNAL = "\x1f"
_NO_STATE = "no state"
_TIERS = {
    "vectorised": "vectorised",
    "memo": "memo: once for each combination of terms",
    "rows": "slow path: row by row",
}
_RULES = {
    "rows": "rows",
    "left": "optional",
    "outer": "optional",
    "semi": "if the key is there",
    "anti": "if the key is not there",
    "mark": "whether the key is there",
    "mark not": "whether the key is not there",
}


class Describer:
    """Describes the operators of the plan of a query."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.plan = plan_of(query)
        self._arena = Arena()

    def operator(self, node: Physical) -> tuple[str, ...]:
        """An operator in parts: what it does, where its expressions are evaluated, its columns, its state."""
        does = self._does(node)
        if isinstance(node, Rename):
            return (*does, _NO_STATE)
        state = _state(node)
        if self.query.per_event:
            state = state.replace("state", "state within an event", 1) if state != _NO_STATE else state
        elif isinstance(node, Scan):
            state = "state: solutions that wait for their begin or end"
        return (*does, f"gives {columns(node.names)}", state)

    def again(self, node: Physical) -> tuple[str, ...]:
        """An operator that has been described, where another takes it too."""
        return (self._does(node)[0], f"gives {columns(node.names)}", "shared: the same operator as above")

    def _does(self, node: Physical) -> tuple[str, ...]:
        name = NAMES[type(node)]
        match node:
            case Scan():
                asked = (
                    f"filter {one} before a solution waits ({self._tier(one, node.names)})"
                    for one in node.conditions
                )
                return (f"{name} {node.leaf}", *asked)
            case Constants():
                since = "in each event" if self.query.per_event else "from the first instant on"
                return (f"{name}: {_many(len(node.rows), 'row')} of the query, {since}",)
            case Select():
                return (f"{name} {node.condition} ({self._tier(node.condition, node.names)})",)
            case Compute() if isinstance(node.expression, WindowEnd):
                return (f"{name} {Var(node.name)} := {node.expression}, anew whenever the window moves",)
            case Compute():
                tier = self._tier(node.expression, node.input.names)
                return (f"{name} {Var(node.name)} := {node.expression} ({tier})",)
            case Rename():
                return (f"{name} {columns(node.names, 'none')}", *_merged(node))
            case Compatible():
                names = dict.fromkeys(node.names[k].partition(_INTERNAL)[0] for _, k in node.pairs)
                overlap = ", and some variable is bound in both" if node.overlap else ""
                return (f"{name}: both inputs agree where they bind {columns(names)}{overlap}",)
            case Expand():
                return (f"{name}: {_many(len(node.table.rows), 'row')} of {columns(node.table.names)}",)
            case CoGroup():
                return (f"{name} by {columns(node.names[: node.key], 'one key')}", *_inputs(node))
            case Group():
                made = [
                    f"{_aggregate(one, node.input.names)} as {Var(column)}"
                    for one, column in zip(node.aggregates, node.names[node.key :], strict=True)
                ]
                return (f"{name} by {columns(node.names[: node.key], 'nothing')}", *made)
            case Closure():
                return (_paths(node),)
            case Slice():
                ranks = "all rows" if node.limit is None else _many(node.limit, "row")
                after = f" after {node.offset:,}" if node.offset else ""
                return (f"{name}: {ranks}{after}", _order(node.order, node.names))
            case Template():
                return (f"{name} of {_many(len(node.triples), 'triple')}",)
        return (name,)

    def _tier(self, expression: Expression, names: tuple[str, ...]) -> str:
        return _TIERS[Evaluator(expression, names, self._arena).tier]


def columns(names: Iterable[str], none: str = "no columns") -> str:
    """Names of columns as a query writes them, without those that only the engine uses.

    >>> columns(("a", "_:b", "a\\x1fown1"))
    '?a _:b'
    """
    shown = [
        "event" if name == EVENT else str(Var(name))
        for name in names
        if name == EVENT or _INTERNAL not in name
    ]
    return " ".join(shown) or none


def _aggregate(one: Aggregation, names: tuple[str, ...]) -> str:
    of = "*" if one.rows else columns(names[k] for k in one.columns)
    joined = f"; SEPARATOR={quoted(one.separator)}" if one.function == "GROUP_CONCAT" else ""
    return f"{one.function}({'DISTINCT ' if one.distinct else ''}{of}{joined})"


def _paths(node: Closure) -> str:
    """From where to where a closure goes; its roots are where its trees begin."""
    free = list(node.names[-2 if node.root is None and node.target is None else -1 :])
    root = Var(free.pop(0)) if node.root is None else node.root
    target = Var(free.pop(0)) if node.target is None else node.target
    begins = " that input 2 has" if node.roots is not None else ""
    proper = ", of different terms" if node.proper else ""
    return f"{NAMES[Closure]} of the steps of input 1: from {root}{begins} to {target}{proper}"


def _order(order: Order, names: tuple[str, ...]) -> str:
    keys = [f"DESC({Var(names[k])})" if down else str(Var(names[k])) for k, down in order.conditions]
    return "in the order of " + ", ".join([*keys, "the text of the row"])


def _inputs(node: CoGroup) -> list[str]:
    return [
        f"input {k}: {_RULES[rule]}{_added(node, one, rule)}"
        for k, (one, rule) in enumerate(zip(node.inputs, node.rules, strict=True), 1)
    ]


def _added(node: CoGroup, input: Physical, rule: str) -> str:
    """The columns that an input adds to the key."""
    added = columns(input.names[node.key :], "") if rule in ("rows", "left", "outer") else ""
    return f", adds {added}" if added else ""


def _merged(node: Rename) -> list[str]:
    unbound = [name for name, places in zip(node.names, node.sources, strict=True) if not places]
    several = [name for name, places in zip(node.names, node.sources, strict=True) if len(places) > 1]
    found = [f"{columns(unbound)} unbound"] if unbound else []
    return found + ([f"{columns(several)} from the input that binds it"] if several else [])


def _state(node: Physical) -> str:
    """What an operator keeps between steps."""
    if isinstance(node, Distinct) or (isinstance(node, Compute) and isinstance(node.expression, WindowEnd)):
        return "state: each row with its count"
    if isinstance(node, Slice):
        return "state: all rows in order, each with its count"
    if isinstance(node, Group):
        return f"state by {columns(node.names[: node.key], 'one key')}: {_kept_by_groups(node)}"
    if isinstance(node, Closure):
        return "state: steps, and each pair of a root and what it reaches once"
    if not isinstance(node, CoGroup):
        return _NO_STATE
    kept: dict[str, list[str]] = {}
    for k, (one, rule) in enumerate(zip(node.inputs, node.rules, strict=True), 1):
        rows = rule in ("rows", "left") and len(one.names) > node.key
        kept.setdefault("rows" if rows else "the number of rows", []).append(str(k))
    parts = [
        f"{what} of {'input' if len(numbers) == 1 else 'inputs'} {', '.join(numbers)}"
        for what, numbers in kept.items()
    ]
    return f"state by {columns(node.names[: node.key], 'one key')}: {' and '.join(parts)}"


def _kept_by_groups(node: Group) -> str:
    """What groups keep: counts and exact sums, terms in order, sets."""
    kept = ["the number of rows"]
    functions = {one.function for one in node.aggregates}
    if functions & {"SUM", "AVG"}:
        kept.append("exact sums")
    if functions & {"MIN", "MAX", "SAMPLE", "GROUP_CONCAT"}:
        kept.append("terms in order")
    if any(one.distinct and one.function in ("COUNT", "SUM", "AVG") for one in node.aggregates):
        kept.append("sets of terms")
    return ", ".join(kept)


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"
