"""From the logical tree to the physical plan: which patterns the kernel matches together, and what is done above.

The kernel correlates: for `A OPTIONAL B` it matches A and A + B, and a co-group needs only to count the second by the
rows of the first; B alone is never matched. So it is for MINUS and EXISTS. Where the correlation would change the
answer (a variable of B that is not bound in A and is used elsewhere, a sub-SELECT), both sides are matched apart
(`thalweg.plan.apart`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from thalweg.algebra import nodes
from thalweg.algebra.expressions import Constant, Expression, Variable, is_volatile, variables_of
from thalweg.algebra.nodes import (
    Bgp,
    Exists,
    Extend,
    Filter,
    Fixed,
    Join,
    LeftJoin,
    Minus,
    Union,
    Values,
)
from thalweg.algebra.query import Query
from thalweg.algebra.scope import TRIPLE, mentioned, scope_of
from thalweg.algebra.terms import Const, Var
from thalweg.errors import UnsupportedError
from thalweg.plan.apart import Apart
from thalweg.plan.physical import (
    EVENT,
    Aggregation,
    Closure,
    CoGroup,
    Compute,
    Constants,
    Distinct,
    Expand,
    Group,
    Leaf,
    Merge,
    Order,
    Physical,
    Plan,
    Scan,
    Select,
    Slice,
    Template,
    arranged,
    inputs_of,
    walk,
    with_inputs,
)
from thalweg.plan.tree import Place, hidden, leaks, mark_of, rule_of, used_of_event

_PLAN = "physical plan"
_MOST_PATTERNS = 128
"""Patterns that the kernel matches together: the time to plan them grows with the cube of their number."""
_MOST_IN_ALL = 1_000
"""Patterns of a query. Each leaf and each operator above it takes time and memory of its own."""
_MOST_CORRELATED = 16
"""Patterns of the left side and a group that are matched together; each nested group is one leaf more."""


def plan_of(query: Query) -> Plan:
    """The physical plan of a query; it is made once."""
    plan: Plan | None = query.__dict__.get(_PLAN)
    if plan is None:
        plan = query.__dict__[_PLAN] = query.recursing(_Compiler(query).plan)
    return plan


def answers_every_event(query: Query) -> bool:
    """Whether, under [NOW], an event without a match may have an answer: then all events have to be known."""
    found = walk(plan_of(query).root) if query.per_event else ()
    return any(isinstance(one, Constants) and one.rows for one in found)


def shown_variables(query: Query) -> tuple[str, ...]:
    """The projected variables of a flat query that patterns bind: the columns of a solution."""
    bound = set(query.variables)
    return tuple(name for name in query.select if name in bound)


@dataclass(frozen=True)
class _Basic:
    """A basic graph pattern with conditions on its own variables, and variables that have one value."""

    patterns: tuple[int, ...]
    names: tuple[str, ...]
    conditions: tuple[Expression, ...] = ()
    fixed: tuple[tuple[str, Const], ...] = ()

    @property
    def bound(self) -> set[str]:
        """All variables that its solutions bind."""
        return {*self.names, *(name for name, _ in self.fixed)}

    @property
    def large(self) -> bool:
        """Whether it has too many patterns for the left side of a group to be matched with it."""
        return len(self.patterns) > _MOST_CORRELATED

    def joined(self, other: _Basic) -> _Basic | None:
        """Both as one; None where one fixes a variable that the other binds."""
        mine, others = dict(self.fixed), dict(other.fixed)
        agree = all(mine.get(name, value) == value for name, value in others.items())
        if not agree or not set(mine).isdisjoint(other.names) or not set(others).isdisjoint(self.names):
            return None
        return _Basic(
            tuple(sorted({*self.patterns, *other.patterns})),
            tuple(dict.fromkeys(self.names + other.names)),
            tuple(dict.fromkeys(self.conditions + other.conditions)),
            tuple((mine | others).items()),
        )


class _Compiler:
    """One run over the tree of a query, which collects the leaves."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.leaves: dict[Leaf, int] = {}
        self.lead: tuple[str, ...] = (EVENT, *used_of_event(query.root)) if query.per_event else ()
        self.apart = Apart(self)
        self._conditions: tuple[tuple[str, bool], ...] = ()

    def plan(self) -> Plan:
        """The plan."""
        if len(self.query.patterns) > _MOST_IN_ALL:
            raise UnsupportedError(
                f"a query of {len(self.query.patterns):,} triple patterns is not supported: "
                f"{_MOST_IN_ALL:,} are the most",
                source="query",
            )
        root = self._flat() if self.query.flat else self._form(Place(self.query.root, 0))
        order = self._order_of(root, self._conditions) if self.query.ranked else None
        largest = max((len(leaf.patterns) for leaf in self.leaves), default=0)
        if largest > _MOST_PATTERNS:
            raise UnsupportedError(
                f"a basic graph pattern of {largest:,} triple patterns is not supported: {_MOST_PATTERNS} are the most",
                source="query",
            )
        return replace(_pruned(root, list(self.leaves)), order=order)

    def _flat(self) -> Physical:
        patterns = tuple(range(len(self.query.patterns)))
        return self._shaped(self._scan(_Basic(patterns, shown_variables(self.query)), whole=True))

    def _shaped(self, node: Physical) -> Physical:
        """The form of the answer over the rows of the projection."""
        root = self.query.root
        if self.query.ranked:
            return node
        if isinstance(root, nodes.Construct):
            return Distinct(Template(node, root.template, (*self.lead, *TRIPLE)))
        if isinstance(root, nodes.Ask):
            return Distinct(arranged(node, self.lead))
        return Distinct(node) if self.query.distinct and self.query.flat else node

    def _form(self, place: Place) -> Physical:
        if self.query.ranked:
            return self._listed(place, ordered=True)
        if isinstance(place.node, nodes.Construct | nodes.Ask):
            (place,) = place.inputs()
        return self._shaped(self.compile(place))

    # Lists: the rows of a SELECT in its order

    def _listed(self, place: Place, *, ordered: bool) -> Physical:
        """The rows of a SELECT with LIMIT or ORDER BY; `ordered`: with columns behind its own that decide the order."""
        part = distinct = None
        if isinstance(place.node, nodes.Slice):
            part = place.node
            (place,) = place.inputs()
        if isinstance(place.node, nodes.Distinct):
            distinct = place.node
            (place,) = place.inputs()
        shown = (*self.lead, *scope_of(place.node).possible)
        if isinstance(place.node, nodes.Project):
            (place,) = place.inputs()
        conditions: tuple[tuple[str, bool], ...] = ()
        if isinstance(place.node, nodes.OrderBy):
            conditions = place.node.conditions
            (place,) = place.inputs()
        node = self.compile(place)
        # What nothing binds decides nothing.
        conditions = tuple((name, down) for name, down in conditions if name in node.names)
        hidden = tuple(name for name, _ in conditions if name not in shown)
        if distinct is not None and hidden:
            raise UnsupportedError(
                f"SELECT DISTINCT with ORDER BY {Var(hidden[0])}, which it does not show, is not supported: "
                "copies of a row may have different places. Add it to SELECT",
                source="query",
            )
        node = self._narrowed(node, (*shown, *hidden))
        if distinct is not None:
            node = Distinct(node)
        self._conditions = conditions
        if part is not None:
            order = self._order_of(node, conditions)
            node = Slice(node, order, part.offset, part.limit, len(self.lead))
        return node if ordered else arranged(node, shown)

    def _order_of(self, node: Physical, conditions: tuple[tuple[str, bool], ...]) -> Order:
        """An order by conditions, then by the texts of columns by their names, those of the answer first."""
        place = {name: k for k, name in enumerate(node.names)}
        shown = set(scope_of(self.query.root).possible) if self.query.ranked else set(node.names)
        ties = sorted(place[name] for name in node.names[len(self.lead) :])
        ties.sort(key=lambda k: (node.names[k].startswith("_:") or node.names[k] not in shown, node.names[k]))
        return Order(tuple((place[name], down) for name, down in conditions), tuple(ties))

    # Operators

    def compile(self, place: Place) -> Physical:
        """The operator for a node, with the columns of its scope."""
        basic = self._basic(place)
        if basic is not None:
            return self._scan(basic)
        node, below = place.node, place.inputs()
        match node:
            case Bgp():
                return Constants(self.lead, ((),))
            case Values():
                return Constants((*self.lead, *node.names), node.rows)
            case nodes.Empty():
                return Constants((*self.lead, *scope_of(node).possible), ())
            case Filter():
                return Select(self.compile(below[0]), node.condition)
            case Extend():
                return Compute(self.compile(below[0]), node.name, node.expression)
            case Fixed():
                return self._with_fixed(self.compile(below[0]), node.values)
            case nodes.Project():
                return arranged(self.compile(below[0]), (*self.lead, *scope_of(node).possible))
            case nodes.Distinct():
                return Distinct(self.compile(below[0]))
            case nodes.Slice():
                return self._listed(place, ordered=False)
            case nodes.OrderBy():
                return self.compile(below[0])
            case nodes.Group():
                return self._grouped(node, self.compile(below[0]))
            case Union():
                return self._merged([self.compile(one) for one in below])
            case nodes.Closure():
                return self._closure(place)
            case nodes.ZeroLength():
                below_it = self.compile(below[0])
                same = node.object == node.subject
                return below_it if same else Compute(below_it, node.object, Variable(node.subject))
            case Join():
                return self._join(place)
            case LeftJoin() | Minus() | Exists():
                return self._star(place, None) or self.apart.compile(place)
        raise TypeError(f"a {type(node).__name__} stands at the top of a query only")

    def _scan(self, basic: _Basic, *, whole: bool = False) -> Physical:
        """The kernel's solutions of a basic graph pattern; `whole`: `names` are what they show."""
        leaf = Leaf(basic.patterns, basic.names)
        number = self.leaves.setdefault(leaf, len(self.leaves))
        scan = Scan(number, (*self.lead, *basic.names), basic.conditions)
        return scan if whole else self._with_fixed(scan, basic.fixed)

    def _narrowed(self, node: Physical, names: tuple[str, ...]) -> Physical:
        """The rows with these columns; the kernel shows no others where nothing needs them."""
        if isinstance(node, Scan) and set(names).issuperset(
            name for condition in node.conditions for name in variables_of(condition)
        ):
            leaf = list(self.leaves)[node.leaf]
            shown = tuple(name for name in names if name in leaf.shown)
            if (*self.lead, *shown) == names:
                number = self.leaves.setdefault(Leaf(leaf.patterns, shown), len(self.leaves))
                return Scan(number, names, node.conditions)
        return arranged(node, names)

    def _with_fixed(self, node: Physical, values: tuple[tuple[str, Const], ...]) -> Physical:
        for name, value in values:
            node = Compute(node, name, Constant(value))
        return node

    def _merged(self, inputs: list[Physical]) -> Physical:
        names = tuple(dict.fromkeys(name for one in inputs for name in one.names))
        return Merge(tuple(arranged(one, names) for one in inputs))

    def _basic(self, place: Place) -> _Basic | None:
        """A node as one basic graph pattern, if it is one."""
        node = place.node
        match node:
            case Bgp() if node.patterns:
                numbers = tuple(range(place.first, place.first + len(node.patterns)))
                return _Basic(numbers, scope_of(node).possible)
            case Filter():
                inner = self._basic(place.inputs()[0])
                if inner is None or is_volatile(node.condition):
                    return None
                if not set(inner.names).issuperset(variables_of(node.condition)):
                    return None
                return _Basic(inner.patterns, inner.names, (*inner.conditions, node.condition), inner.fixed)
            case Fixed():
                inner = self._basic(place.inputs()[0])
                return inner and _Basic(
                    inner.patterns, inner.names, inner.conditions, inner.fixed + node.values
                )
            case Join():
                left, right = map(self._basic, place.inputs())
                return left.joined(right) if left is not None and right is not None else None
        return None

    def _grouped(self, node: nodes.Group, input: Physical) -> Physical:
        """Groups by the columns of the keys, over the columns of arguments."""
        keys = (*self.lead, *(name for name in node.keys if name in input.names))
        arguments = [one.argument for _, one in node.aggregates if one.argument is not None]
        every = [name for name in input.names if not Var(name).anonymous and name not in self.lead]
        if any(one.argument is None and one.distinct for _, one in node.aggregates):
            arguments += every
        names = tuple(dict.fromkeys((*keys, *arguments)))
        places = {name: k for k, name in enumerate(names)}
        aggregates = []
        for _, one in node.aggregates:
            columns: tuple[int, ...] = (places[one.argument],) if one.argument is not None else ()
            if one.argument is None and one.distinct:
                columns = tuple(places[name] for name in every)
            whole = one.argument is None
            aggregates.append(Aggregation(one.function, columns, one.distinct, one.separator, whole))
        shown = (*keys, *(name for name, _ in node.aggregates))
        start = None if node.keys else Constants(self.lead, ((),))
        return Group(self._narrowed(input, names), len(keys), tuple(aggregates), shown, start)

    def _next(self, rest: list[Place], bound: frozenset[str]) -> Place:
        """What is joined next: tables last, and closures when there is something that they can begin with."""
        closures = any(isinstance(one.node, nodes.Closure) for one in rest)

        def rank(one: Place) -> tuple[bool, bool, int]:
            apart = closures and bound.isdisjoint(scope_of(one.node).certain)
            return isinstance(one.node, Values), apart, _free_ends(one.node)

        return min(rest, key=rank)

    def _closure(self, place: Place, base: Physical | None = None, name: str = "") -> Physical:
        """A closure; with a base, from the terms that its rows have for a variable at an end of the path."""
        node, (below,) = place.node, place.inputs()
        assert isinstance(node, nodes.Closure)
        root, target, step = node.subject, node.object, (node.start, node.end)
        backwards = isinstance(root, Var) and isinstance(target, Const)
        if backwards or (base is not None and root != Var(name)):
            root, target, step = target, root, (node.end, node.start)
        made = Closure(
            self._narrowed(self.compile(below), (*self.lead, *step)),
            (*self.lead, *(term.name for term in (root, target) if isinstance(term, Var))),
            None if base is None else arranged(base, (*self.lead, name)),
            root if isinstance(root, Const) else None,
            target if isinstance(target, Const) else None,
            node.proper,
        )
        return arranged(made, (*self.lead, *scope_of(node).possible))

    # Correlated inputs

    def _correlated(self, place: Place, base: _Basic, *, visible: bool) -> Physical | None:
        """The join of a basic graph pattern with a node, without matching the node alone; None where that is not it.

        `visible`: the variables of the base are visible everywhere in the node, as they are in EXISTS.
        """
        basic = self._basic(place)
        if basic is not None:
            both = base.joined(basic)
            return None if both is None or both.large else self._scan(both)
        node, below = place.node, place.inputs()
        if not visible and not base.bound.isdisjoint(hidden(node)):
            return None
        match node:
            case Filter():
                inner = self._correlated(below[0], base, visible=visible)
                return None if inner is None else _selected(inner, node.condition)
            case Extend() if node.name not in base.bound:
                inner = self._correlated(below[0], base, visible=visible)
                return None if inner is None else Compute(inner, node.name, node.expression)
            case Union():
                found = [self._correlated(one, base, visible=visible) for one in below]
                inputs = [one for one in found if one is not None]
                return self._merged(inputs) if len(inputs) == len(found) else None
            case Join():
                for one, other in ((below[0], below[1]), (below[1], below[0])):
                    part = self._basic(one)
                    both = base.joined(part) if part is not None else None
                    if both is not None:
                        return self._correlated(other, both, visible=visible)
            case LeftJoin() | Minus() | Exists():
                return self._star(place, base, visible=visible)
        return None

    def _star(self, place: Place, base: _Basic | None, *, visible: bool = False) -> Physical | None:
        """OPTIONAL, MINUS and EXISTS around one basic graph pattern, each correlated with it alone."""
        branches: list[Place] = []
        while isinstance(place.node, LeftJoin | Minus | Exists):
            branches.insert(0, place)
            place = place.inputs()[0]
        core = self._basic(place)
        if core is None:
            return None
        if base is not None:
            core = base.joined(core)
            if core is None or core.large:
                return None
        scan = self._scan(core)
        inputs, rules, names = [scan], ["rows"], list(scan.names)
        for branch in branches:
            made = self._branch(branch, core, set(names), visible=visible)
            if made is None:
                return None
            if not made:
                continue
            input, rule, added = made
            inputs.append(self._narrowed(input, (*scan.names, *added)))
            rules.append(rule)
            names += added if not rule.startswith("mark") else [mark_of(branch.node)]
        if len(inputs) == 1:
            return scan
        if rules == ["rows", "left"]:
            rules = ["rows", "outer"]
        return CoGroup(tuple(inputs), tuple(rules), len(scan.names), tuple(names))

    def _branch(
        self, place: Place, core: _Basic, known: set[str], *, visible: bool
    ) -> tuple[Physical, str, tuple[str, ...]] | tuple[()] | None:
        """One branch of a star: its input, its rule and the columns that it adds; empty where it changes nothing."""
        node, right = place.node, place.inputs()[1]
        assert isinstance(node, LeftJoin | Minus | Exists)
        others = known.difference(core.bound)
        used = mentioned(right.node)
        scope = scope_of(right.node)
        if isinstance(node, LeftJoin) and node.condition is not None:
            used |= set(variables_of(node.condition))
        # Columns of other branches, or a variable that is nobody's here, are not to be seen by this one.
        if not used.isdisjoint(others):
            return None
        if isinstance(node, Minus):
            shared = core.bound.intersection(scope.possible)
            if not shared:
                return ()
            if not scope.certain.intersection(core.bound):
                return None
        seen = visible or isinstance(node, Exists)
        if isinstance(node, Exists) and leaks(right.node, core.bound):
            return None
        input = self._correlated(right, core, visible=seen)
        if input is None:
            return None
        if isinstance(node, LeftJoin):
            if node.condition is not None:
                input = _selected(input, node.condition)
            return input, "left", tuple(name for name in scope.possible if name not in core.bound)
        if isinstance(node, Minus):
            return input, "anti", ()
        return input, rule_of(node), ()

    # Inputs that are matched apart

    def _join(self, place: Place) -> Physical:
        parts: list[Place] = []
        pending = [place]
        while pending:
            one = pending.pop()
            if isinstance(one.node, Join) and self._basic(one) is None:
                pending.extend(reversed(one.inputs()))
            else:
                parts.append(one)
        base: _Basic | None = None
        rest: list[Place] = []
        for one in parts:
            basic = self._basic(one)
            both = basic if base is None or basic is None else base.joined(basic)
            if basic is not None and both is not None:
                base = both
            else:
                rest.append(one)
        result: Physical | None = None
        if base is not None:
            for one in rest:
                result = self._correlated(one, base, visible=False)
                if result is not None:
                    rest.remove(one)
                    certain = frozenset(base.bound) | scope_of(one.node).certain
                    break
            else:
                result, certain = self._scan(base), frozenset(base.bound)
        while rest:
            one = self._next(rest, certain if result is not None else frozenset())
            rest.remove(one)
            scope = scope_of(one.node)
            known = sorted(certain.intersection(scope.certain)) if result is not None else []
            if result is None:
                result, certain = self.compile(one), frozenset()
            elif isinstance(one.node, Values):
                result = Expand(result, Constants(one.node.names, one.node.rows))
            elif known and _free_ends(one.node) == _BOTH:
                closure = self._closure(one, result, known[0])
                result = self.apart.join(result, certain, closure, scope.certain)
            else:
                result = self.apart.join(result, certain, self.compile(one), scope.certain)
            certain |= scope.certain
        assert result is not None
        return result


_BOTH = 2


def _free_ends(node: nodes.Node) -> int:
    """0; of a closure, how many of its ends are variables."""
    return len(node.variables) if isinstance(node, nodes.Closure) else 0


def _selected(node: Physical, condition: Expression) -> Physical:
    """The rows that fulfil a condition; it is asked of solutions before they wait, if it can be."""
    if (
        isinstance(node, Scan)
        and set(node.names).issuperset(variables_of(condition))
        and not is_volatile(condition)
    ):
        return replace(node, conditions=(*node.conditions, condition))
    return Select(node, condition)


def _pruned(root: Physical, leaves: list[Leaf]) -> Plan:
    """The plan with the leaves that some operator reads."""
    used = sorted({one.leaf for one in walk(root) if isinstance(one, Scan)})
    numbers = {leaf: number for number, leaf in enumerate(used)}

    made: dict[int, Physical] = {}

    def renumbered(node: Physical) -> Physical:
        # An operator that several others take stays one.
        if id(node) not in made:
            made[id(node)] = (
                replace(node, leaf=numbers[node.leaf])
                if isinstance(node, Scan)
                else with_inputs(node, [renumbered(one) for one in inputs_of(node)])
            )
        return made[id(node)]

    return Plan(tuple(leaves[number] for number in used), renumbered(root))
