"""SPARQL: rdflib's tree of a query becomes the logical tree (SPARQL 1.1, section 18.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra import expressions, windows
from thalweg.algebra.conditions import conjuncts
from thalweg.algebra.expressions import Call, Constant, Expression, Variable, WindowEnd, exists_in
from thalweg.algebra.nodes import (
    Aggregate,
    Ask,
    Bgp,
    Construct,
    Distinct,
    Empty,
    Exists,
    Extend,
    Filter,
    LeftJoin,
    Minus,
    Node,
    OrderBy,
    Project,
    Slice,
    Union,
    Values,
)
from thalweg.algebra.outer_values import values_of
from thalweg.algebra.query import Source
from thalweg.algebra.scope import mentioned, scope_of
from thalweg.algebra.terms import XSD, Const, Pattern, Term, Var
from thalweg.algebra.windows import Arrivals, Now, Range
from thalweg.errors import UnsupportedError
from thalweg.lang.expressions import ExpressionReader
from thalweg.lang.grammar import PlacedVariable
from thalweg.lang.grouping import Grouping, has_aggregate
from thalweg.lang.names import Prologue
from thalweg.lang.patterns import PatternReader, joined
from thalweg.lang.text import QueryText

_MOST_CONDITIONS = 60
_OF_EVENT = {
    "NOW": expressions.EVENT_TIME,
    "urn:thalweg:eventTime": expressions.EVENT_TIME,
    "urn:thalweg:eventGraph": expressions.EVENT_GRAPH,
}
"""Functions of the event that a [NOW] query answers."""
_START, _END = "urn:thalweg:windowStart", "urn:thalweg:windowEnd"
"""Functions of the window that is seen at the present instant."""
ARRIVAL_TIMES = {
    "urn:thalweg:arrivalTime": windows.TIME,
    "http://larkc.eu/csparql/sparql/jena/ext#timestamp": windows.MILLISECONDS,
}
"""Functions of a triple's latest arrival: ours, and C-SPARQL's."""
_SHORT = "FakeGroupGraphPatten"  # rdflib's own spelling of the group of CONSTRUCT WHERE { }


class QueryReader:
    """A walk over the tree of one query; a pattern's source counts the declared sources.

    `sources` are the declared ones, `window_blocks` the offsets where WINDOW is written, `default` is the index of the
    source that fills the default graph, if there is one.
    """

    def __init__(
        self,
        query: QueryText,
        prologue: Prologue,
        *,
        sources: Sequence[Source],
        window_blocks: frozenset[int],
        default: int | None,
    ) -> None:
        self.sources = sources
        self.per_event = any(isinstance(source.window, Now) for source in sources)
        self.query = query
        self.prologue = prologue
        self.windows = {source.name: k for k, source in enumerate(sources) if source.name is not None}
        self.window_blocks = window_blocks
        self.default = default
        self.patterns = PatternReader(query, prologue)
        functions = {name: 0 for name in (*_OF_EVENT, _START, _END) if name != "NOW"}
        functions |= dict.fromkeys(ARRIVAL_TIMES, 3)
        self.expressions = ExpressionReader(query, prologue, lambda group: group, functions, self._aggregate)
        self.unknown_graphs: dict[str, None] = {}
        """The graphs that are asked for and are not there, in order; `*` where any is asked for."""
        self._grouping: Grouping | None = None
        self._marks = 0
        self._ends: dict[str, Range] = {}
        self._arrivals: dict[int, dict[tuple[Const | None, ...], None]] = {}

    def read(self, tree: CompValue) -> Node:
        """The logical tree; whatever we do not do is refused where it is written."""
        if tree.name == "DescribeQuery":
            self.query.refuse(
                "DESCRIBE is not supported: write CONSTRUCT with the triples that you want", tree.at
            )
        if tree.name == "ConstructQuery":
            return self._construct(tree)
        if tree.name == "AskQuery":
            node = self._modified(self._group(tree.where, self.default), tree, [], self.default)
            return Ask(
                self._sliced(Project(node, tuple(visible(node))), tree) if "limitoffset" in tree else node
            )
        return self._select(tree, self.default)

    def arrivals(self) -> list[Source]:
        """The sources of arrivals that the query reads, behind the declared ones."""
        return [
            Source(self.sources[k].streams, Arrivals(window, tuple(wanted)), graphs=())
            for k, wanted in self._arrivals.items()
            if isinstance(window := self.sources[k].window, Range)
        ]

    def elements_of(self, group: CompValue) -> tuple[Node, list[tuple[CompValue, Expression]]]:
        """A group over the default graph without its own filters, and the filters."""
        if group.name == "SubSelect":
            return self._select(group, self.default), []
        node, filters = self._elements(group, self.default)
        return node, [(part, self._expression(part.expr, part.at)) for part in filters]

    def with_condition(self, node: Node, condition: Expression, at: int) -> Node:
        """The solutions of a node over the default graph that fulfil a condition."""
        return self._conditions(node, condition, self.query.place(at), self.default)

    # The forms of a query

    def _select(self, tree: CompValue, source: int | None) -> Node:
        below = self._group(tree.where, source)
        known, names = set(scope_of(below).possible), list[str]()
        made: list[tuple[str, CompValue]] = []
        for column in tree.projection or ():
            if column.var is not None:
                names.append(str(column.var))
                continue
            name = str(column.evar)
            if name in known or name in names:
                self.query.fail(f"?{name} has a value already: AS needs a new variable", column.evar.at)
            made.append((name, column))
            names.append(name)
        node = self._modified(below, tree, made, source)
        if tree.projection is None:
            names = visible(node)
        node = Project(node, tuple(dict.fromkeys(names)))
        # REDUCED permits to remove duplicates, and does not ask for it.
        node = Distinct(node) if str(tree.modifier or "").upper() == "DISTINCT" else node
        return self._sliced(node, tree)

    def _sliced(self, node: Node, tree: CompValue) -> Node:
        """The solutions that LIMIT and OFFSET leave."""
        if "limitoffset" not in tree:
            return node
        limit, offset = tree.limitoffset.limit, tree.limitoffset.offset
        start = 0 if offset is None else int(offset)
        return Slice(node, start, None if limit is None else int(limit))

    def _construct(self, tree: CompValue) -> Node:
        node = self._modified(self._group(tree.where, self.default), tree, [], self.default)
        runs = list(tree.template or ())
        if tree.where.name == _SHORT:
            runs = [run for part in tree.where.part for run in part.triples]
        template = self.patterns.template(runs, tree.at)
        made = dict.fromkeys(name for triple in template for name in triple.variables)
        # A blank node of the template is distinguished by all that a solution shows.
        names = visible(node) if any(Var(name).anonymous for name in made) else list(made)
        if "limitoffset" in tree:  # which solutions they are is decided by all that a solution shows
            node = self._sliced(Project(node, tuple(visible(node))), tree)
        return Construct(Project(node, tuple(names)), template)

    def _with_values(self, node: Node, tree: CompValue) -> Node:
        return joined([node, self._values(tree.valuesClause)]) if tree.valuesClause is not None else node

    # Modifiers (18.2.4 and 18.2.5): groups, HAVING, VALUES, expressions of SELECT, ORDER BY

    def _modified(
        self, node: Node, tree: CompValue, made: Sequence[tuple[str, CompValue]], source: int | None
    ) -> Node:
        """The solutions of a query's group with its groups, conditions on them, and new columns."""
        outer, self._grouping = self._grouping, None
        modifiers = (tree[key] for key in ("having", "orderby") if key in tree)
        places = [*modifiers, *(column for _, column in made)]
        if "groupby" in tree or any(map(has_aggregate, places)):
            node, self._grouping = self._grouped(node, tree, source)
        conditions = [
            (self._of_group(one, one.at), one) for one in (tree.having.condition if "having" in tree else ())
        ]
        columns = [(name, self._of_group(column.expr, column.at, made), column) for name, column in made]
        order = [
            (self._of_group(one.expr, one.at, made), one)
            for one in (tree.orderby.condition if "orderby" in tree else ())
        ]
        if self._grouping is not None:
            grouping, self._grouping = self._grouping, None
            for column in tree.projection or ():
                if column.var is not None and str(column.var) not in {*grouping.keys, *(n for n, _ in made)}:
                    self._refuse_ungrouped(str(column.var), column.var.at)
            if tree.name == "SelectQuery" and tree.projection is None:
                self.query.fail("SELECT * cannot stand with GROUP BY: name the keys and aggregates", tree.at)
            if tree.valuesClause is None:
                columns, conditions, order = grouping.name_columns(columns, conditions, order)
            node = grouping.node(
                node, lambda below, one: self._marked(below, one, self._groups(one, source), source)
            )
        for condition, one in conditions:
            node = self._conditions(node, condition, self.query.place(one.at), source)
        node = self._with_values(node, tree)
        for name, expression, column in columns:
            if name in scope_of(node).possible:
                self.query.fail(f"?{name} has a value already: AS needs a new variable", column.evar.at)
            node, expression = self._marked(node, expression, self._groups(expression, source), source)
            node = Extend(node, name, expression)
        self._grouping = outer
        return self._ordered(node, order, source) if order else node

    def _ordered(self, node: Node, order: Sequence[tuple[Expression, CompValue]], source: int | None) -> Node:
        """The solutions in the order of conditions, whose values they have."""
        conditions: dict[str, bool] = {}
        for expression, one in order:
            name = expression.name if isinstance(expression, Variable) else f"_:({expression})"
            if not isinstance(expression, Variable) and name not in scope_of(node).possible:
                node, expression = self._marked(node, expression, self._groups(expression, source), source)
                node = Extend(node, name, expression)
            conditions.setdefault(name, str(one.order or "").upper() == "DESC")
        if len(conditions) > _MOST_CONDITIONS:
            self.query.refuse(f"ORDER BY has more than {_MOST_CONDITIONS} conditions", order[0][1].at)
        return OrderBy(node, tuple(conditions.items()))

    def _grouped(self, node: Node, tree: CompValue, source: int | None) -> tuple[Node, Grouping]:
        """The solutions with the keys of GROUP BY."""
        keys: list[str] = []
        of_window: dict[str, Expression] = {}
        for one in tree.groupby.condition if "groupby" in tree else ():
            if isinstance(one, PlacedVariable):
                keys.append(str(one))
                continue
            written = one.expr if one.name == "GroupAs" else one
            expression = self._expression(written, one.at)
            name = str(one.var) if one.name == "GroupAs" and one.var is not None else f"_:({expression})"
            if name in scope_of(node).possible:
                if name.startswith("_:"):
                    continue
                self.query.fail(f"?{name} has a value already: AS needs a new variable", one.at)
            keys.append(name)
            if _is_of_window(expression):
                of_window[name] = expression
                continue
            node, expression = self._marked(node, expression, self._groups(expression, source), source)
            node = Extend(node, name, expression)
        return node, Grouping(tuple(dict.fromkeys(keys)), of_window)

    def _of_group(self, tree: Any, at: int, made: Sequence[tuple[str, CompValue]] = ()) -> Expression:
        """An expression of SELECT or HAVING; of groups, it has keys, aggregates and new columns only."""
        expression = self._expression(tree, at)
        if self._grouping is not None:
            known = {*self._grouping.keys, *self._grouping.aggregates, *(name for name, _ in made)}
            for one in expressions.walk(expression):
                if not isinstance(one, Variable) or one.name.startswith(expressions.INTERNAL):
                    continue
                if one.name not in known:
                    self._refuse_ungrouped(one.name, at)
        return expression

    def _refuse_ungrouped(self, name: str, at: int) -> NoReturn:
        self.query.fail(
            f"?{name} is no key of GROUP BY: of a group, only keys and aggregates have a value. "
            f"Add ?{name} to GROUP BY, or write SAMPLE(?{name})",
            at,
        )

    def _aggregate(self, tree: CompValue) -> Expression:
        """The variable that has the value of an aggregate."""
        grouping = self._grouping
        if grouping is None or grouping.inside:
            self.query.fail(
                "an aggregate cannot stand here: it is for SELECT, HAVING and ORDER BY"
                if grouping is None
                else "an aggregate cannot stand inside another one",
                tree.at,
            )
        function = tree.name.removeprefix("Aggregate_")
        function = "GROUP_CONCAT" if function == "GroupConcat" else function.upper()
        distinct = isinstance(tree.distinct, str) and tree.distinct.upper() == "DISTINCT"
        separator = " " if tree.separator is None else str(tree.separator)
        if isinstance(tree.vars, str) and not isinstance(tree.vars, PlacedVariable) and tree.vars == "*":
            return grouping.variable(Aggregate(function, None, distinct))
        grouping.inside = True
        argument = self._expression(tree.vars, tree.at)
        grouping.inside = False
        name = grouping.argument(argument)
        return grouping.variable(Aggregate(function, name, distinct, separator))

    # Groups (18.2.2.2 to 18.2.2.8)

    def _group(self, group: CompValue, source: int | None) -> Node:
        if group.name == "SubSelect":
            return self._select(group, source)
        node, filters = self._elements(group, source)
        for part in filters:
            node = self._filtered(node, part, source)
        return node

    def _elements(self, group: CompValue, source: int | None) -> tuple[Node, list[CompValue]]:
        """The elements of a group without its filters, and the filters."""
        self.patterns.next_bgp()
        node: Node = Bgp()
        filters: list[CompValue] = []
        for part in group.part or ():
            if part.name == "Filter":
                filters.append(part)
                continue
            node = self._added(node, part, source)
            if part.name != "TriplesBlock":
                self.patterns.next_bgp()
        return node, filters

    def _added(self, node: Node, part: CompValue, source: int | None) -> Node:
        """The group so far with one more element."""
        match part.name:
            case "TriplesBlock":
                if source is None:
                    self.query.fail(
                        "this pattern reads the default graph, but no FROM STREAM fills it, and no static data are "
                        "loaded: put it into WINDOW <...> { }",
                        part.at,
                    )
                return joined([node, *self.patterns.triples(part.triples, source, part.at)])
            case "OptionalGraphPattern":
                return self._optional(node, part, source)
            case "MinusGraphPattern":
                return Minus(node, self._group(part.graph, source))
            case "GroupOrUnionGraphPattern":
                inputs = tuple(self._group(one, source) for one in part.graph)
                return joined([node, inputs[0] if len(inputs) == 1 else Union(inputs)])
            case "GraphGraphPattern":
                return joined([node, self._graph(part)])
            case "Bind":
                name = str(part.var)
                if name in scope_of(node).possible:
                    self.query.fail(f"?{name} has a value already: BIND needs a new variable", part.var.at)
                return self._extended(node, name, part.expr, source)
            case "InlineData":
                return joined([node, self._values(part)])
        self.query.refuse(f"{part.name} is not supported yet", part.at)

    def _optional(self, left: Node, part: CompValue, source: int | None) -> Node:
        """A filter of the optional group is the condition of the join: it sees the variables of both sides."""
        if part.graph.name == "SubSelect":
            return LeftJoin(left, self._group(part.graph, source))
        right, filters = self._elements(part.graph, source)
        asked = [self._expression(one.expr, one.at) for one in filters]
        conditions = [_not_exists(one) for condition in asked for one in conjuncts(condition)]
        groups = {id(one): self._group(one.node, source) for each in conditions for one in exists_in(each)}
        used = {name for group in groups.values() for name in mentioned(group)}
        outer = used.intersection(scope_of(left).possible).difference(scope_of(right).certain)
        if unsure := outer.difference(scope_of(left).certain):
            self.query.refuse(
                f"EXISTS in a filter of OPTIONAL cannot use ?{min(unsure)}, which the outer group may leave unbound: "
                "bind it within the optional group",
                part.at,
            )
        if outer:
            right = joined([values_of(left, frozenset(outer)), right])
        rest: list[Expression] = []
        for one in conditions:
            if isinstance(one, expressions.Exists):
                right = Exists(right, groups[id(one)], one.negated)
            else:
                right, one = self._marked(right, one, groups, source)
                rest.append(one)
        condition = rest[0] if len(rest) == 1 else Call("AND", tuple(rest))
        return LeftJoin(left, right, condition if rest else None)

    def _graph(self, part: CompValue) -> Node:
        """GRAPH or WINDOW, of a name or a variable: named windows are the named graphs."""
        written = "WINDOW" if part.at in self.window_blocks else "GRAPH"
        if isinstance(part.term, PlacedVariable):
            name = str(part.term)
            one_of: list[Node] = []
            again = self.patterns.copy_of_group()
            if written == "GRAPH":
                self.unknown_graphs["*"] = None
            for iri, source in self.windows.items():
                if written == "WINDOW" and not self.sources[source].streams:
                    continue
                again()
                one_of.append(
                    joined([Values((name,), ((Const.iri(iri),),)), self._group(part.graph, source)])
                )
            if not one_of:
                inner = self._group(part.graph, self.default)
                return Empty(
                    Extend(inner, name, Variable(name)),
                    f"there is no named window{' and no named static graph' * (written == 'GRAPH')} "
                    f"for {written} ?{name}",
                )
            return one_of[0] if len(one_of) == 1 else Union(tuple(one_of))
        # A window is a name only, so it may stay relative without a BASE.
        iri = self.prologue.resolve(str(part.term), part.at) if not isinstance(part.term, CompValue) else ""
        iri = iri or self.prologue.iri(part.term, part.at)
        if iri in self.windows and (written == "GRAPH" or self.sources[self.windows[iri]].streams):
            return self._group(part.graph, self.windows[iri])
        if written == "WINDOW":
            self.query.fail(f"no FROM NAMED WINDOW declares the window <{iri}>", part.at)
        line, column = self.query.place(part.at)
        self.unknown_graphs[iri] = None
        inner = self._group(part.graph, 0)
        return Empty(inner, f"no window or graph has the name <{iri}> (line {line}:{column})")

    def _values(self, part: CompValue) -> Node:
        names = [str(name) for name in part.var or ()]
        if len(set(names)) != len(names):
            self.query.fail("VALUES names a variable twice", part.at)
        rows = []
        for row in part.value or ():
            cells = [row] if len(names) == 1 and not _is_row(row) else list(row)
            if len(cells) != len(names):
                self.query.fail(
                    f"a row of VALUES has {len(cells)} values for {len(names)} variables", part.at
                )
            rows.append(
                tuple(None if _is_undef(cell) else self.prologue.constant(cell, part.at) for cell in cells)
            )
        return Values(tuple(names), tuple(rows))

    # Expressions

    def _filtered(self, node: Node, part: CompValue, source: int | None) -> Node:
        condition = self._expression(part.expr, part.at)
        return self._conditions(node, condition, self.query.place(part.at), source)

    def _conditions(
        self, node: Node, condition: Expression, place: tuple[int, int], source: int | None
    ) -> Node:
        line, column = place
        rest: list[Expression] = []
        for one in map(_not_exists, conjuncts(condition)):
            if isinstance(one, expressions.Exists):
                node = Exists(node, self._group(one.node, source), one.negated)
            else:
                node, one = self._marked(node, one, self._groups(one, source), source)
                rest.append(one)
        for one in rest:
            node = Filter(node, one, line, column)
        return node

    def _extended(self, node: Node, name: str, tree: Any, source: int | None) -> Node:
        expression = self._expression(tree, getattr(tree, "at", 0))
        node, expression = self._marked(node, expression, self._groups(expression, source), source)
        return Extend(node, name, expression)

    def _expression(self, tree: Any, at: int) -> Expression:
        expression = self.expressions.read(tree, at)
        asked = {one.name for one in expressions.walk(expression) if isinstance(one, Call)}.intersection(
            _OF_EVENT
        )
        if asked and not self.per_event:
            (name, *_) = sorted(asked)
            self.query.refuse(
                f"{name if name == 'NOW' else f'<{name}>'}() is supported under [NOW] only, where it is of the event: "
                "over other windows it would change the answer at every instant; "
                "<urn:thalweg:arrivalTime>(?s, ?p, ?o) is the time of a triple",
                at,
            )
        return _of_event(expression) if self.per_event else expression

    def _groups(self, expression: Expression, source: int | None) -> dict[int, Node]:
        """The groups of each EXISTS inside an expression."""
        return {id(one): self._group(one.node, source) for one in exists_in(expression)}

    def _marked(
        self, node: Node, expression: Expression, groups: Mapping[int, Node], source: int | None
    ) -> tuple[Node, Expression]:
        """Each EXISTS, each time of an arrival and each bound of a window becomes a variable that has its value."""
        marks: dict[int, Expression] = {}
        for one in exists_in(expression):
            self._marks += 1
            mark = f"_:exists{self._marks}"
            node = Exists(node, groups[id(one)], one.negated, mark)
            marks[id(one)] = Variable(mark)
        for call in expressions.walk(expression):
            if isinstance(call, Call) and call.name in ARRIVAL_TIMES:
                node, marks[id(call)] = self._arrival(node, call, source)
            if isinstance(call, Call) and call.name in (_START, _END):
                node, marks[id(call)] = self._bound(node, call, source)
        return node, _replaced(expression, marks) if marks else expression

    def _arrival(self, node: Node, call: Call, source: int | None) -> tuple[Node, Variable]:
        """A node with the time at which a triple last arrived, where the window has the triple."""
        scope = scope_of(node)
        terms: list[Term] = []
        for argument in call.args:
            if isinstance(argument, Constant):
                terms.append(argument.value)
            elif isinstance(argument, Variable) and argument.name in scope.certain:
                terms.append(Var(argument.name))
            else:
                self._refuse_call(call, "takes constants, and variables that its group always binds")
        if source is None:
            self._refuse_call(call, "is about a window: write it inside WINDOW <...> { }")
        if self.per_event:
            self._refuse_call(call, "is not for [NOW]: use <urn:thalweg:eventTime>()")
        if not isinstance(self.sources[source].window, Range):
            self._refuse_call(call, "is supported over windows by time only")
        wanted = self._arrivals.setdefault(source, {})
        wanted[tuple(term if isinstance(term, Const) else None for term in terms)] = None
        number = len(self.sources) + list(self._arrivals).index(source)
        key, time = self.patterns.fresh(), self.patterns.fresh()
        predicates = (windows.SUBJECT, windows.PREDICATE, windows.OBJECT, ARRIVAL_TIMES[call.name])
        patterns = tuple(
            Pattern(key, predicate, term, number, call.line, call.column)
            for predicate, term in zip(predicates, (*terms, time), strict=True)
        )
        return LeftJoin(node, Bgp(patterns)), Variable(time.name)

    def _bound(self, node: Node, call: Call, source: int | None) -> tuple[Node, Expression]:
        """A node with the end of a window, and the bound as an expression."""
        seen = {one.window for one in self.sources} if source is None else {self.sources[source].window}
        if len(seen) > 1:
            self._refuse_call(call, "is about one of several windows: write it inside WINDOW <...> { }")
        (window,) = seen
        if not isinstance(window, Range):
            self._refuse_call(call, "is supported over windows by time and [NOW] only")
        if window.moves is None:
            self._refuse_call(
                call,
                "would change the answer at every instant, because the window slides with each: "
                "give it a STEP or REPORT PERIODIC",
            )
        window = window.content
        certain = scope_of(node).certain
        name = next((name for name, one in self._ends.items() if one == window and name in certain), None)
        if name is None:
            name = f"_:window{len(self._ends) + 1}"
            self._ends[name] = window
            node = Extend(node, name, WindowEnd(window))
        if call.name == _END:
            return node, Variable(name)
        seconds, rest = divmod(window.width, 1_000_000)
        width = Const.literal(f"PT{seconds}.{rest:06d}S", datatype=f"{XSD}dayTimeDuration")
        return node, Call("-", (Variable(name), Constant(width)), call.line, call.column)

    def _refuse_call(self, call: Call, reason: str) -> NoReturn:
        raise UnsupportedError(
            f"<{call.name}>() {reason}", source=self.query.source, line=call.line, column=call.column
        )


def visible(node: Node) -> list[str]:
    """The variables that a projection can name."""
    return [name for name in scope_of(node).possible if not Var(name).anonymous]


def _not_exists(expression: Expression) -> Expression:
    """`!EXISTS` as what it is."""
    if isinstance(expression, Call) and expression.name == "NOT":
        (inner,) = expression.args
        if isinstance(inner, expressions.Exists):
            return replace(inner, negated=not inner.negated)
    return expression


def _is_of_window(expression: Expression) -> bool:
    """Whether an expression is a bound of a window, or is made of such bounds and constants alone."""
    found = list(expressions.walk(expression))
    bounds = [one for one in found if isinstance(one, Call) and one.name in (_START, _END)]
    return (
        bool(bounds)
        and not expressions.is_volatile(expression)
        and not any(
            isinstance(one, Variable | expressions.Exists)
            or (isinstance(one, Call) and one.name in ARRIVAL_TIMES)
            for one in found
        )
    )


def _replaced(expression: Expression, marks: Mapping[int, Expression]) -> Expression:
    if id(expression) in marks:
        return marks[id(expression)]
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_replaced(arg, marks) for arg in expression.args))
    return expression


def _of_event(expression: Expression) -> Expression:
    """An expression in which functions of the event are variables."""
    if not isinstance(expression, Call):
        return expression
    if expression.name in (_START, _END):  # the window is one event
        return Variable(expressions.EVENT_TIME)
    if expression.name in _OF_EVENT:
        return Variable(_OF_EVENT[expression.name])
    return replace(expression, args=tuple(map(_of_event, expression.args)))


def _is_undef(cell: Any) -> bool:
    return isinstance(cell, str) and type(cell) is str and cell.upper() == "UNDEF"


def _is_row(row: Any) -> bool:
    return row.__class__.__name__ == "ParseResults"
