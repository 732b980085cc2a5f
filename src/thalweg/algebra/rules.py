"""Rewrite rules of the algebra: pure functions from tree to tree; their order is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thalweg.algebra.conditions import conjuncts, needed_for_truth
from thalweg.algebra.expressions import (
    Call,
    Constant,
    Expression,
    Variable,
    is_volatile,
    substitute,
    variables_of,
)
from thalweg.algebra.nodes import (
    Ask,
    Bgp,
    Construct,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    Fixed,
    Join,
    LeftJoin,
    Minus,
    Node,
    Project,
    Union,
    Values,
    leaves,
    spine,
    transform,
)
from thalweg.algebra.query import Query
from thalweg.algebra.scope import scope_of, transform_groups
from thalweg.algebra.terms import Const, Pattern, Term, Var

_FEW_TERMS = 8  # of a disjunction that becomes a union


def split_conditions(root: Node) -> Node:
    """Make a filter of each part of a conjunction: each goes its own way down."""

    def change(node: Node) -> Node:
        if not isinstance(node, Filter) or len(parts := conjuncts(node.condition)) == 1:
            return node
        below = node.input
        for part in parts:
            below = replace(node, input=below, condition=part)
        return below

    return transform(root, change)


def merge_basic_patterns(root: Node) -> Node:
    """Make one basic graph pattern of several that are joined; conditions on them are asked of all of it.

    A condition sees no more than before: its variables are bound by its own patterns.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Join):
            return node
        left, asked = _conditions(node.left)
        right, asked_too = _conditions(node.right)
        if not isinstance(left, Bgp) or not isinstance(right, Bgp):
            return node
        for one in (*asked, *asked_too):
            inner = left if one in asked else right
            if not scope_of(inner).certain.issuperset(variables_of(one.condition)):
                return node
        merged: Node = Bgp(left.patterns + right.patterns)
        for one in (*reversed(asked), *reversed(asked_too)):
            merged = replace(one, input=merged)
        return merged

    return transform(root, change)


def _conditions(node: Node) -> tuple[Node, list[Filter]]:
    """A node without the filters above it, and these from the top down."""
    filters: list[Filter] = []
    while isinstance(node, Filter):
        filters.append(node)
        node = node.input
    return node, filters


def find_unbound_conditions(root: Node) -> Node:
    """Find filters that need a variable which nothing binds: to compare it is an error, so that none of them holds."""

    def change(node: Node, outer: frozenset[str]) -> Node:
        if not isinstance(node, Filter):
            return node
        unbound = needed_for_truth(node.condition).difference(scope_of(node.input).possible, outer)
        if not unbound:
            return node
        reason = f"?{min(unbound)} is bound by no pattern of the group of this filter"
        return Empty(node.input, f"{reason} (line {node.line}:{node.column})")

    return transform_groups(root, change)


def join_what_must_be_bound(root: Node) -> Node:
    """Make an OPTIONAL a join where a filter above needs one of its variables: a left solution alone never passes."""

    def change(node: Node, outer: frozenset[str]) -> Node:
        if not isinstance(node, Filter):
            return node
        below = _forced(node.input, needed_for_truth(node.condition) - outer, node)
        return node if below is node.input else replace(node, input=below)

    return transform_groups(root, change)


def _forced(node: Node, needed: frozenset[str], filter: Filter) -> Node:
    """A node of which only the solutions matter that bind some variables."""
    match node:
        case Filter():
            below = _forced(node.input, needed, filter)
            return node if below is node.input else replace(node, input=below)
        case LeftJoin():
            left = _forced(node.left, needed - set(scope_of(node.right).possible), filter)
            if needed.isdisjoint(set(scope_of(node.right).possible).difference(scope_of(node.left).possible)):
                return node if left is node.left else replace(node, left=left)
            joined: Node = Join(left, node.right)
            if node.condition is None:
                return joined
            return Filter(joined, node.condition, filter.line, filter.column)
        case Minus() | Exists():
            left = _forced(node.left, needed, filter)
            return node if left is node.left else replace(node, left=left)
    return node


def push_filters(root: Node) -> Node:
    """Ask a condition as early as all of its variables are bound for good."""

    def change(node: Node) -> Node:
        return _pushed(node) if isinstance(node, Filter) and not is_volatile(node.condition) else node

    return transform(root, change)


def _pushed(node: Filter) -> Node:
    used = set(variables_of(node.condition))
    below = node.input

    def over(input: Node) -> Node:
        return _pushed(replace(node, input=input))

    match below:
        case Filter():
            moved = over(below.input)
            stuck = isinstance(moved, Filter) and moved.condition is node.condition
            return node if stuck else replace(below, input=moved)
        case Union():
            return Union(tuple(over(one) for one in below.inputs))
        case LeftJoin() | Minus() | Exists():
            if used.issubset(scope_of(below.left).certain):
                return replace(below, left=over(below.left))
        case Join():
            if used.issubset(scope_of(below.left).certain):
                return replace(below, left=over(below.left))
            if used.issubset(scope_of(below.right).certain):
                return replace(below, right=over(below.right))
        case Extend():
            if below.name not in used:
                return replace(below, input=over(below.input))
        case Project() | Distinct():
            # Inside EXISTS the condition may use variables of the outer group, which a sub-SELECT does not see.
            if used.issubset(scope_of(below).possible):
                return replace(below, input=over(below.input))
    return node


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
            inner, filters = _conditions(other)
            if not isinstance(inner, Bgp) or not scope_of(inner).certain.issuperset(values):
                continue
            fixed: Node = Fixed(Bgp(_put(inner.patterns, values)), tuple(values.items()))
            constants = {name: Constant(value) for name, value in values.items()}
            for one in reversed(filters):
                fixed = replace(one, input=fixed, condition=substitute(one.condition, constants))
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
        inner, _ = _conditions(node.input)
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
        fixed = _fixed(node.input, name, value)
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


def _fixed(node: Node, name: str, value: Const) -> Node | None:
    """The node with a variable replaced, if it is a basic graph pattern under conditions that binds it."""
    match node:
        case Filter():
            below = _fixed(node.input, name, value)
            condition = substitute(node.condition, {name: Constant(value)})
            return None if below is None else replace(node, input=below, condition=condition)
        case Fixed():
            inner = _fixed(node.input, name, value)
            if isinstance(inner, Fixed):
                return Fixed(inner.input, (*node.values, *inner.values))
        case Bgp() if any(name in pattern.variables for pattern in node.patterns):
            return Fixed(Bgp(_put(node.patterns, {name: value})), ((name, value),))
    return None


def _fixed_value(node: Node, name: str) -> Const | None:
    while isinstance(node, Filter):
        node = node.input
    return dict(node.values).get(name) if isinstance(node, Fixed) else None


def _put(patterns: tuple[Pattern, ...], values: dict[str, Const]) -> tuple[Pattern, ...]:
    def put(term: Term) -> Term:
        return values.get(term.name, term) if isinstance(term, Var) else term

    return tuple(replace(p, s=put(p.s), p=put(p.p), o=put(p.o)) for p in patterns)


def spread_fixed_values(root: Node) -> Node:
    """Put the value of a variable that every left solution has into the other side of a join."""

    def change(node: Node) -> Node:
        if not isinstance(node, Join | LeftJoin | Minus | Exists):
            return node
        left, _ = _conditions(node.left)
        while isinstance(left, LeftJoin | Minus | Exists):
            left, _ = _conditions(left.left)
        right = node.right
        for name, value in left.values if isinstance(left, Fixed) else ():
            right = _bound(right, name, value)
        return node if right is node.right else replace(node, right=right)

    return transform(root, change)


def _bound(node: Node, name: str, value: Const) -> Node:
    """A node of which only the solutions matter that have a value for a variable, if they bind it."""
    match node:
        case Bgp() if any(name in pattern.variables for pattern in node.patterns):
            return Fixed(Bgp(_put(node.patterns, {name: value})), ((name, value),))
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


def find_impossible_patterns(root: Node) -> Node:
    """Find basic graph patterns with a pattern that no triple matches: they have no solution."""

    def change(node: Node) -> Node:
        if isinstance(node, Bgp):
            for pattern in node.patterns:
                if not pattern.possible:
                    reason = (
                        f"no triple matches {pattern}: a subject is no literal, and a predicate is an IRI"
                    )
                    return Empty(node, f"{reason} (line {pattern.line}:{pattern.column})")
        return node

    return transform(root, change)


def propagate_empty(root: Node) -> Node:
    """Let what has no solution empty what is joined with it, and vanish where it adds nothing."""

    def change(node: Node) -> Node:
        match node:
            case Join():
                for one in (node.left, node.right):
                    if isinstance(one, Empty):
                        return Empty(node, one.reason)
            case LeftJoin() | Minus() | Exists():
                if isinstance(node.left, Empty):
                    return Empty(node, node.left.reason)
                if isinstance(node.right, Empty) and not isinstance(node, LeftJoin):
                    if isinstance(node, Exists) and node.mark is None and not node.negated:
                        return Empty(node.left, node.right.reason)
                    if isinstance(node, Minus) or node.mark is None:
                        return node.left
            case Union():
                kept = tuple(one for one in node.inputs if not isinstance(one, Empty))
                if not kept:
                    (first, *_) = node.inputs
                    return Empty(node, first.reason if isinstance(first, Empty) else "")
                if len(kept) < len(node.inputs) and scope_of(Union(kept)).possible == scope_of(node).possible:
                    return kept[0] if len(kept) == 1 else Union(kept)
            case Filter() | Extend() | Fixed():
                if isinstance(node.input, Empty):
                    return Empty(replace(node, input=node.input.input), node.input.reason)
        return node

    return transform(root, change)


def drop_repeated_patterns(root: Node) -> Node:
    """Keep one of several equal patterns of a source: all of them match the same triple, always."""

    def change(node: Node) -> Node:
        if not isinstance(node, Bgp):
            return node
        kept: dict[tuple[object, int], Pattern] = {}
        for pattern in node.patterns:
            kept.setdefault((pattern.terms, pattern.source), pattern)
        return node if len(kept) == len(node.patterns) else Bgp(tuple(kept.values()))

    return transform(root, change)


def drop_impossible_triples(root: Node) -> Node:
    """Keep, once, each triple of a template that some solution can give.

    None gives a triple whose variable nothing binds, whose subject is a literal or whose predicate is no IRI.
    """
    if not isinstance(root, Construct):
        return root
    bound = set(scope_of(root.input).possible)
    fixed = next((node for node in spine(root) if isinstance(node, Fixed)), None)
    bound.update(name for name, _ in (fixed.values if fixed is not None else ()))

    def possible(triple: Pattern) -> bool:
        shown = (term for term in triple.terms if isinstance(term, Var) and not term.anonymous)
        return (
            all(term.name in bound for term in shown)
            and (isinstance(triple.s, Var) or triple.s.is_iri)
            and (not triple.p.anonymous if isinstance(triple.p, Var) else triple.p.is_iri)
        )

    kept: dict[object, Pattern] = {}
    for triple in filter(possible, root.template):
        kept.setdefault(triple.terms, triple)
    made = (Var(name) for triple in root.template for name in triple.variables)
    unbound = dict.fromkeys(term.name for term in made if not term.anonymous and term.name not in bound)
    return replace(root, template=tuple(kept.values()), unbound=(*root.unbound, *unbound))


NEVER = Pattern(Const.literal(""), Const.iri("urn:thalweg:never"), Const.literal(""))
"""A pattern that no triple matches: its subject is a literal."""


def replace_patterns_of_empty_queries(root: Node) -> Node:
    """Give an empty query one pattern for each source that no triple matches: readers then keep nothing for it.

    Its variables stay, as fixed ones: the answer has the same columns, and no rows.
    """
    above = list(spine(root))
    empty = next((node for node in above if isinstance(node, Empty)), None)
    if empty is None:
        return root
    sources = sorted({pattern.source for pattern in leaves(root)}) or [0]
    fixed = dict.fromkeys(scope_of(empty.input).possible, Const.literal(""))
    for node in above:
        if isinstance(node, Fixed):
            fixed |= dict(node.values)
    never: Node = Empty(Bgp(tuple(replace(NEVER, source=number) for number in sources)), empty.reason)
    result = Fixed(never, tuple(fixed.items())) if fixed else never
    for node in reversed(above[: above.index(empty)]):
        match node:
            case Construct():
                result = replace(node, input=result, template=())
            case Project() | Distinct() | Ask():
                result = replace(node, input=result)
    return result


RULES: tuple[Callable[[Node], Node], ...] = (
    split_conditions,
    find_unbound_conditions,
    join_what_must_be_bound,
    merge_basic_patterns,
    push_filters,
    make_values_of_constants,
    fix_single_values,
    split_disjunctions,
    fix_equal_variables,
    spread_fixed_values,
    find_impossible_patterns,
    propagate_empty,
    drop_repeated_patterns,
    drop_impossible_triples,
    replace_patterns_of_empty_queries,
)


def rewrite(query: Query) -> Query:
    """The query after all rules, in their order."""
    root = query.root
    for rule in RULES:
        root = rule(root)
    return query if root is query.root else replace(query, root=root)
