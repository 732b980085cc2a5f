"""Inputs that are matched apart: they meet through co-groups, where the kernel cannot match them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from thalweg.algebra import nodes
from thalweg.algebra.expressions import Expression, Variable, substitute, variables_of
from thalweg.algebra.nodes import Bgp, Exists, Extend, Filter, Fixed, Join, LeftJoin, Minus, Union, Values
from thalweg.algebra.scope import mentioned, scope_of
from thalweg.algebra.terms import Var
from thalweg.errors import UnsupportedError
from thalweg.plan.physical import (
    CoGroup,
    Compatible,
    Compute,
    Constants,
    Distinct,
    Expand,
    Merge,
    Physical,
    Rename,
    Select,
    arranged,
)
from thalweg.plan.tree import Place, mark_of, rule_of

_RAW = "\x1fraw"  # of a left column beside the same variable of the right side
_HIDDEN = "\x1fhidden"  # of a variable that an expression names and does not see
_OWN = "\x1fown"  # of a column as it was before other inputs could bind it


class Compiles(Protocol):
    """What compiles a node on its own."""

    lead: tuple[str, ...]

    def compile(self, place: Place) -> Physical:
        """The operator for a node, with the columns of its scope."""
        ...


class Apart:
    """Joins, OPTIONAL, MINUS and EXISTS of inputs that are operators."""

    def __init__(self, compiler: Compiles) -> None:
        self._compiler = compiler
        self._lead = compiler.lead
        self._owners = 0

    def compile(self, place: Place) -> Physical:
        """OPTIONAL, MINUS or EXISTS of a node and a group."""
        first, second = place.inputs()
        left, sure = self._compiler.compile(first), scope_of(first.node).certain
        node = place.node
        if isinstance(node, Exists):
            return self._exists(node, left, sure, second, frozenset(left.names))
        right, too = self._compiler.compile(second), scope_of(second.node).certain
        if isinstance(node, Minus):
            return self._minus(left, sure, right, too)
        assert isinstance(node, LeftJoin)
        # Each left row is paired once, however often it is there.
        base, own = self._owned(left, sure)
        pairs = self.join(base, sure, right, too)
        return self._optional(left, own, pairs, node)

    def join(self, left: Physical, sure: frozenset[str], right: Physical, too: frozenset[str]) -> Physical:
        """The compatible pairs of rows; `sure` and `too` are what the inputs bind in every row."""
        return self._pairs(left, sure, right, too)

    def _pairs(
        self,
        left: Physical,
        sure: frozenset[str],
        right: Physical,
        too: frozenset[str],
        *,
        overlap: bool = False,
    ) -> Physical:
        """The compatible pairs; with `overlap`, those that bind some variable both."""
        key = [name for name in left.names if name in right.names and name in sure and name in too]
        key = [*self._lead, *(name for name in key if name not in self._lead)]
        doubtful = [name for name in left.names if name in right.names and name not in key]
        mine = tuple(name for name in left.names if name not in key)
        theirs = tuple(name for name in right.names if name not in key)
        renamed = tuple(f"{name}{_RAW}" if name in doubtful else name for name in mine)
        names = (*key, *renamed, *theirs)
        inputs = (arranged(left, (*key, *mine)), arranged(right, (*key, *theirs)))
        met: Physical = CoGroup(inputs, ("rows", "rows"), len(key), names)
        place = {name: k for k, name in enumerate(names)}
        # A variable of the key is bound in both.
        overlap = overlap and len(key) == len(self._lead)
        if doubtful or overlap:
            pairs = tuple((place[f"{name}{_RAW}"], place[name]) for name in doubtful)
            met = Compatible(met, pairs, overlap)
        if doubtful:
            merged = tuple(dict.fromkeys((*left.names, *right.names)))
            sources = tuple(
                (place[f"{name}{_RAW}"], place[name]) if name in doubtful else (place[name],)
                for name in merged
            )
            met = Rename(met, merged, sources)
        return met

    def _owned(self, left: Physical, sure: frozenset[str]) -> tuple[Physical, tuple[str, ...]]:
        """The distinct rows of an input, with copies of the columns that further inputs may bind.

        The second result names the columns that a row had, in the order of the input.
        """
        self._owners += 1
        own = tuple(
            name if name in sure or name in self._lead else f"{name}{_OWN}{self._owners}"
            for name in left.names
        )
        copies = [k for k, name in enumerate(own) if name != left.names[k]]
        names = (*left.names, *(own[k] for k in copies))
        sources = (*((k,) for k in range(len(left.names))), *((k,) for k in copies))
        distinct = Distinct(left)
        return (Rename(distinct, names, sources) if copies else distinct), own

    def _minus(self, left: Physical, sure: frozenset[str], right: Physical, too: frozenset[str]) -> Physical:
        shared = set(left.names).intersection(right.names).difference(self._lead)
        if not shared:
            return left
        base, own = self._owned(left, sure)
        pairs = self._pairs(base, sure, right, too, overlap=True)
        return CoGroup((left, arranged(pairs, own)), ("rows", "anti"), len(own), left.names)

    def _optional(self, left: Physical, own: tuple[str, ...], pairs: Physical, node: LeftJoin) -> Physical:
        """The pairs that fulfil the condition, and the left rows that are in none."""
        if node.condition is not None:
            pairs = Select(pairs, node.condition)
        final = tuple(dict.fromkeys((*left.names, *pairs.names)))
        final = tuple(name for name in final if name in left.names or _OWN not in name or name not in own)
        added = tuple(name for name in final if name not in own)
        names = (*own, *added)
        met = CoGroup((left, arranged(pairs, names)), ("rows", "left"), len(own), names)
        place = {name: k for k, name in enumerate(names)}
        of_left = dict(zip(left.names, own, strict=True))
        sources = tuple(
            tuple(dict.fromkeys(place[one] for one in (name, of_left.get(name, name)) if one in place))
            for name in final
        )
        return met if final == names else Rename(met, final, sources)

    # EXISTS: the group is evaluated for each left row, whose variables are visible everywhere in it

    def _exists(
        self, node: Exists, left: Physical, sure: frozenset[str], group: Place, outer: frozenset[str]
    ) -> Physical:
        base, own = self._owned(left, sure)
        found, _ = self._within(group, base, sure, outer)
        rule = rule_of(node)
        names = (*left.names, mark_of(node)) if rule.startswith("mark") else left.names
        return CoGroup((left, arranged(found, own)), ("rows", rule), len(own), names)

    def _zero_length(self, node: nodes.ZeroLength, base: Physical, sure: frozenset[str]) -> Physical:
        """The rows of an input that have one term for both ends of a path of length zero, or get it."""
        first, second = node.subject, node.object
        if first not in sure:
            first, second = second, first
        if first not in sure:
            raise UnsupportedError(
                f"a path of length zero inside EXISTS cannot use {Var(first)}, which the outer group may leave unbound",
                source="query",
            )
        if second not in base.names:
            return Compute(base, second, Variable(first))
        places = base.names.index(first), base.names.index(second)
        sources = tuple((k, places[0]) if k == places[1] else (k,) for k in range(len(base.names)))
        return Rename(Compatible(base, (places,)), base.names, sources)

    def _within(
        self, place: Place, base: Physical, sure: frozenset[str], outer: frozenset[str]
    ) -> tuple[Physical, frozenset[str]]:
        """The rows of an input, each with the solutions that a group has for it; and what all of them bind.

        Expressions see the variables of their own group and the `outer` ones, which EXISTS substitutes; the input may
        also have those of groups beside it.
        """
        node, below = place.node, place.inputs()
        match node:
            case Bgp() if not node.patterns:
                return base, sure
            case Values():
                return Expand(base, Constants(node.names, node.rows)), sure | scope_of(node).certain
            case Filter():
                inner, certain = self._within(below[0], base, sure, outer)
                return Select(inner, _seen(node.condition, outer, node.input)), certain
            case Extend() if node.name not in base.names:
                inner, certain = self._within(below[0], base, sure, outer)
                return Compute(inner, node.name, _seen(node.expression, outer, node.input)), certain
            case Fixed():
                inner, certain = self._within(below[0], base, sure, outer)
                table = Constants(tuple(name for name, _ in node.values), (tuple(v for _, v in node.values),))
                return Expand(inner, table), certain.union(table.names)
            case nodes.ZeroLength() if {node.subject, node.object}.intersection(base.names):
                return self._zero_length(node, base, sure), sure | scope_of(node).certain
            case nodes.Distinct() if _is_optional_path(node):
                # Copies of a solution change nothing inside EXISTS: only its two cases matter.
                return self._within(below[0].inputs()[0], base, sure, outer)
            case Union():
                found = [self._within(one, base, sure, outer) for one in below]
                names = tuple(dict.fromkeys(name for one, _ in found for name in one.names))
                merged = Merge(tuple(arranged(one, names) for one, _ in found))
                return merged, frozenset.intersection(*(certain for _, certain in found))
            case Join():
                return self._within(below[1], *self._within(below[0], base, sure, outer), outer)
            case LeftJoin():
                left, certain = self._within(below[0], base, sure, outer)
                paired, own = self._owned(left, certain)
                pairs, _ = self._within(below[1], paired, certain, outer)
                condition = node.condition and _seen(node.condition, outer, node.left, node.right)
                return self._optional(left, own, pairs, replace(node, condition=condition)), certain
            case Exists():
                left, certain = self._within(below[0], base, sure, outer)
                made = self._exists(node, left, certain, below[1], outer.union(scope_of(node.left).possible))
                return made, certain if node.mark is None else certain | {node.mark}
            case Minus() if mentioned(node.right).isdisjoint(base.names):
                left, certain = self._within(below[0], base, sure, outer)
                right = self._compiler.compile(below[1])
                return self._minus(left, certain, right, scope_of(node.right).certain), certain
            case Minus() | Extend():
                raise UnsupportedError(
                    "MINUS or BIND inside EXISTS cannot use a variable of the outer group: rename it",
                    source="query",
                )
        alone = Bgp, nodes.Closure, nodes.ZeroLength, nodes.Project, nodes.Distinct, nodes.Slice, nodes.Empty
        if isinstance(node, alone):
            right = self._compiler.compile(place)
            too = scope_of(node).certain
            return self.join(base, sure, right, too), sure | too
        raise TypeError(f"a {type(node).__name__} stands at the top of a query only")


def _seen(expression: Expression, outer: frozenset[str], *groups: nodes.Node) -> Expression:
    """An expression in which the variables are unbound that neither its groups nor the outer solution have."""
    visible = outer.union(*(scope_of(group).possible for group in groups))
    hidden = [name for name in variables_of(expression) if name not in visible]
    return substitute(expression, {name: Variable(f"{name}{_HIDDEN}") for name in hidden})


def _is_optional_path(node: nodes.Distinct) -> bool:
    """Whether a node is `path?` between two variables."""
    match node.input:
        case nodes.Project(input=Union(inputs=(_, nodes.ZeroLength()))):
            return True
    return False
