"""Rules for constants: what has one value, or a few, goes into the patterns, by which readers prune."""

from __future__ import annotations

from dataclasses import replace

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, substitute
from thalweg.algebra.filter_rules import conditions_above, push_filters
from thalweg.algebra.nodes import (
    Bgp,
    Closure,
    Construct,
    Empty,
    Exists,
    Extend,
    Filter,
    Fixed,
    Join,
    LeftJoin,
    Minus,
    Node,
    Union,
    Values,
    spine,
    transform,
)
from thalweg.algebra.scope import scope_of
from thalweg.algebra.terms import Const, Pattern, Term, Var

_FEW_TERMS = 8  # of a disjunction that becomes a union


def make_values_of_constants(root: Node) -> Node:
    """Make VALUES of BIND with a constant where no pattern is below it: such a table needs no state."""

    def change(node: Node) -> Node:
        if not isinstance(node, Extend) or not isinstance(node.expression, Constant):
            return node
        below = node.input
        if below == Bgp():
            return Values((node.name,), ((node.expression.value,),))
        if isinstance(below, Values):
            return Values(
                (*below.names, node.name), tuple((*row, node.expression.value) for row in below.rows)
            )
        return node

    return transform(root, change)


def fix_single_values(root: Node) -> Node:
    """Put the one row of VALUES into the basic graph pattern that it is joined with."""

    def change(node: Node) -> Node:
        if not isinstance(node, Join):
            return node
        for table, other in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(table, Values) or len(table.rows) != 1 or None in table.rows[0]:
                continue
            values = {
                name: value
                for name, value in zip(table.names, table.rows[0], strict=True)
                if value is not None
            }
            fixed = _with_values(other, values)
            if fixed is not None:
                return fixed
        return node

    return transform(root, change)


def split_disjunctions(root: Node) -> Node:
    """Make a union of a filter that leaves a variable a few terms: readers prune by each of them.

    The terms differ, so that a solution fulfils one of the conditions only, and is in one branch.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Filter):
            return node
        inner, _ = conditions_above(node.input)
        found = _few_terms(node.condition)
        if found is None or not isinstance(inner, Bgp) or found[0] not in scope_of(inner).certain:
            return node
        name, terms = found
        equal = (Call("SAMETERM", (Variable(name), Constant(term))) for term in terms)
        return Union(tuple(replace(node, condition=one) for one in equal))

    split = transform(root, change)
    return split if split is root else push_filters(split)


def _few_terms(condition: Expression) -> tuple[str, tuple[Const, ...]] | None:
    """The variable and the terms of `?v = a || ?v = b` and of `?v IN (a, b)`, if they are terms, and few."""
    if not isinstance(condition, Call) or condition.name not in ("OR", "IN"):
        return None
    parts = condition.args
    if condition.name == "IN":
        parts = tuple(Call("=", (condition.args[0], arg)) for arg in condition.args[1:])
    pairs = [_equal_term(part) for part in parts]
    found = [pair for pair in pairs if pair is not None]
    names = {name for name, _ in found}
    terms = tuple(dict.fromkeys(term for _, term in found))
    if len(found) < len(pairs) or len(names) != 1 or not 2 <= len(terms) <= _FEW_TERMS:
        return None
    return names.pop(), terms


def fix_equal_variables(root: Node) -> Node:
    """Put the constant of `FILTER(?v = <iri>)` in the place of ?v, in the patterns of its group.

    A filter that leaves a variable one value is a constant in disguise, and constants are what readers prune
    by and alpha memories are made of. Sound, because terms are compared, and because every solution binds ?v.
    Two values for one variable leave no solution.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Filter):
            return node
        equal = _equal_term(node.condition)
        if equal is None:
            return node
        name, value = equal
        fixed = _with_values(node.input, {name: value})
        if fixed is None and (known := _fixed_value(node.input, name)) is not None:
            if known == value:
                return node.input
            reason = f"?{name} cannot be {known} and {value} at once"
            return Empty(node.input, f"{reason} (line {node.line}:{node.column})")
        return node if fixed is None else fixed

    return _in_template(transform(root, change))


def _equal_term(condition: Expression) -> tuple[str, Const] | None:
    """The variable and the term of a condition that leaves the variable one term."""
    if not isinstance(condition, Call) or condition.name not in ("=", "SAMETERM"):
        return None
    first, second = condition.args
    if isinstance(second, Variable):
        first, second = second, first
    if not (isinstance(first, Variable) and isinstance(second, Constant)):
        return None
    # Equal values may be written differently (1, 01, 1.0): that is no equality of terms.
    by_value = second.value.text.endswith(">") and not second.value.is_iri
    return None if by_value and condition.name == "=" else (first.name, second.value)


def _with_values(node: Node, values: dict[str, Const]) -> Node | None:
    """The node with variables replaced, if it is a basic graph pattern under conditions that binds all of them."""
    inner, filters = conditions_above(node)
    known: tuple[tuple[str, Const], ...] = ()
    if isinstance(inner, Fixed):
        known, inner = inner.values, inner.input
    if not isinstance(inner, Bgp | Closure) or not scope_of(inner).certain.issuperset(values):
        return None
    below = Bgp(_put(inner.patterns, values)) if isinstance(inner, Bgp) else _between(inner, values)
    made: Node = Fixed(below, (*known, *values.items()))
    constants = {name: Constant(value) for name, value in values.items()}
    for one in reversed(filters):
        made = replace(one, input=made, condition=substitute(one.condition, constants))
    return made


def _fixed_value(node: Node, name: str) -> Const | None:
    inner, _ = conditions_above(node)
    return dict(inner.values).get(name) if isinstance(inner, Fixed) else None


def _between(closure: Closure, values: dict[str, Const]) -> Closure:
    """A closure with values for variables at its ends: a path from or to a constant keeps what that reaches."""

    def put(term: Term) -> Term:
        return values.get(term.name, term) if isinstance(term, Var) else term

    return replace(closure, subject=put(closure.subject), object=put(closure.object))


def _put(patterns: tuple[Pattern, ...], values: dict[str, Const]) -> tuple[Pattern, ...]:
    def put(term: Term) -> Term:
        return values.get(term.name, term) if isinstance(term, Var) else term

    return tuple(replace(p, s=put(p.s), p=put(p.p), o=put(p.o)) for p in patterns)


def spread_fixed_values(root: Node) -> Node:
    """Put the value of a variable that every left solution has into the other side of a join."""

    def change(node: Node) -> Node:
        if not isinstance(node, Join | LeftJoin | Minus | Exists):
            return node
        left, _ = conditions_above(node.left)
        while isinstance(left, LeftJoin | Minus | Exists):
            left, _ = conditions_above(left.left)
        right = node.right
        for name, value in left.values if isinstance(left, Fixed) else ():
            right = _bound(right, name, value)
        return node if right is node.right else replace(node, right=right)

    return transform(root, change)


def _bound(node: Node, name: str, value: Const) -> Node:
    """A node of which only the solutions matter that have a value for a variable, if they bind it."""
    fixed = _with_values(node, {name: value})
    if fixed is not None:
        return fixed
    match node:
        case Filter():
            below = _bound(node.input, name, value)
            if below is not node.input:
                return replace(
                    node, input=below, condition=substitute(node.condition, {name: Constant(value)})
                )
        case Union():
            return Union(tuple(_bound(one, name, value) for one in node.inputs))
        case LeftJoin() if name in scope_of(node.left).certain:
            condition = node.condition and substitute(node.condition, {name: Constant(value)})
            left, right = _bound(node.left, name, value), _bound(node.right, name, value)
            return LeftJoin(left, right, condition)
    return node


def _in_template(root: Node) -> Node:
    """A template has the values of variables that are fixed in every solution."""
    if not isinstance(root, Construct):
        return root
    fixed = next((node for node in spine(root) if isinstance(node, Fixed)), None)
    return root if fixed is None else replace(root, template=_put(root.template, dict(fixed.values)))
