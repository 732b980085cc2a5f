"""SPARQL: rdflib's tree of a query becomes patterns, equalities, and a projection or a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import rdflib
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.nodes import Equality
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.lang.grammar import AnonymousNode, PlacedVariable
from thalweg.lang.names import Prologue
from thalweg.lang.text import QueryText

_FORMS = {"AskQuery": "ASK", "DescribeQuery": "DESCRIBE"}
_MODIFIERS = {
    "groupby": "GROUP BY",
    "having": "HAVING",
    "orderby": "ORDER BY",
    "limitoffset": "LIMIT or OFFSET",
    "valuesClause": "VALUES",
}
_PARTS = {
    "OptionalGraphPattern": "OPTIONAL",
    "MinusGraphPattern": "MINUS",
    "ServiceGraphPattern": "SERVICE",
    "Bind": "BIND",
    "InlineData": "VALUES",
}
_SHORT = "FakeGroupGraphPatten"  # rdflib's own spelling of the group of CONSTRUCT WHERE { }
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")
_PATH_STEPS = ("PathAlternative", "PathSequence", "PathElt")


class Body(NamedTuple):
    """What a query says, apart from its streams; pattern.source counts the declared sources."""

    template: tuple[Pattern, ...] | None
    distinct: bool
    select: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    equalities: tuple[Equality, ...]
    empty: str | None
    """Why there is no solution over any data, or None."""


class BodyReader:
    """A walk over the tree of one query.

    `windows` maps a window's IRI to the index of its source, `window_blocks` are the offsets where WINDOW is
    written, `default` is the index of the source that fills the default graph, if there is one.
    """

    def __init__(
        self,
        query: QueryText,
        prologue: Prologue,
        *,
        windows: Mapping[str, int],
        window_blocks: frozenset[int],
        default: int | None,
    ) -> None:
        self.query = query
        self.prologue = prologue
        self.windows = windows
        self.window_blocks = window_blocks
        self.default = default
        self.patterns: list[Pattern] = []
        self.equalities: list[Equality] = []
        self.anonymous: dict[str, Var] = {}
        self.labels: dict[str, int] = {}
        self.bgp = 0
        self.empty: str | None = None
        self.self_equal: dict[str, int] = {}
        """Variables in `?v = ?v`, and where."""

    def read(self, tree: CompValue) -> Body:
        """The query of a tree; whatever we do not do is refused where it is written."""
        if tree.name in _FORMS:
            self.query.refuse(
                f"{_FORMS[tree.name]} is not supported yet: only SELECT and CONSTRUCT are", tree.at
            )
        for clause in tree.datasetClause or ():
            self.query.refuse(
                "FROM a graph is not supported yet: only FROM STREAM and windows are", clause.at
            )
        for key, construct in _MODIFIERS.items():
            if key in tree:
                self.query.refuse(f"{construct} is not supported yet", tree[key].at)
        for column in tree.projection or ():
            if column.var is None:
                self.query.refuse("expressions in SELECT are not supported yet", column.at)
        if tree.where is not None:
            self._group(tree.where, self.default)
        self._check_self_equal()
        if not self.patterns:
            self.query.refuse("a query without any triple pattern is not supported", tree.at)
        template = self._template(tree) if tree.name == "ConstructQuery" else None
        if template is not None:
            made = dict.fromkeys(name for triple in template for name in triple.variables)
            # A blank node of the template is distinguished by all that a solution shows.
            select = self._visible() if any(Var(name).anonymous for name in made) else list(made)
        elif tree.projection is None:
            select = self._visible()
        else:
            select = list(dict.fromkeys(str(column.var) for column in tree.projection))
        distinct = str(tree.modifier or "").upper() == "DISTINCT"
        return Body(
            template, distinct, tuple(select), tuple(self.patterns), tuple(self.equalities), self.empty
        )

    def _visible(self) -> list[str]:
        """The variables of the patterns that a projection can name."""
        seen = dict.fromkeys(name for pattern in self.patterns for name in pattern.variables)
        return [name for name in seen if not Var(name).anonymous]

    def _template(self, tree: CompValue) -> tuple[Pattern, ...]:
        """The triples of a template; in the short form, they are those of WHERE."""
        runs = list(tree.template or ())
        if tree.where.name == _SHORT:
            runs = [run for part in tree.where.part for run in part.triples]
        # Its blank nodes have nothing to do with those of the patterns.
        self.anonymous, self.labels = {}, {}
        return tuple(
            Pattern(s, p, o, 0, *self.query.place(at)) for s, p, o, at in self._expanded(runs, tree.at)
        )

    def _group(self, group: CompValue, source: int | None) -> set[str]:
        """Read a group; its parts are joined, so that they may be read one after the other into one list."""
        if group.name == "SubSelect":
            self.query.refuse("a SELECT inside a group is not supported yet", group.at)
        self.bgp += 1
        bound: set[str] = set()
        filters: list[CompValue] = []
        for part in group.part or ():
            if part.name == "TriplesBlock":
                bound |= self._triples(part, source)
            elif part.name == "Filter":
                filters.append(part)
            else:
                bound |= self._nested(part, source)
                self.bgp += 1
        for part in filters:
            self._filter(part, bound)
        return bound

    def _nested(self, part: CompValue, source: int | None) -> set[str]:
        if part.name == "GraphGraphPattern" and part.at in self.window_blocks:
            name = (
                self.prologue.resolve(str(part.term), part.at) if not isinstance(part.term, CompValue) else ""
            )
            name = name or self.prologue.iri(part.term, part.at)
            if name not in self.windows:
                self.query.fail(f"no FROM NAMED WINDOW declares the window <{name}>", part.at)
            return self._group(part.graph, self.windows[name])
        if part.name == "GraphGraphPattern":
            self.query.refuse("GRAPH is not supported yet", part.at)
        if part.name == "GroupOrUnionGraphPattern":
            if len(part.graph) > 1:
                self.query.refuse("UNION is not supported yet", part.at)
            return self._group(part.graph[0], source)
        self.query.refuse(f"{_PARTS.get(part.name, part.name)} is not supported yet", part.at)

    def _triples(self, block: CompValue, source: int | None) -> set[str]:
        bound: set[str] = set()
        for s, p, o, at in self._expanded(block.triples, block.at):
            if source is None:
                self.query.fail(
                    "this pattern reads the default graph, but no FROM STREAM fills it: "
                    "put it into WINDOW <...> { }",
                    at,
                )
            line, column = self.query.place(at)
            pattern = Pattern(s, p, o, source, line, column)
            self.patterns.append(pattern)
            bound.update(pattern.variables)
        return bound

    def _expanded(self, runs: Iterable[Any], start: int) -> Iterator[tuple[Term, Term, Term, int]]:
        """The triples of runs that share a subject, each with the place where it begins."""
        reached = start - 1
        for run in runs:
            terms = list(run)
            for i in range(0, len(terms), 3):
                at = self._begin(terms[i : i + 3], reached, start)
                reached = max(reached, at)
                s, p, o = (self._term(term, at) for term in terms[i : i + 3])
                yield s, p, o, at

    def _begin(self, terms: list[Any], reached: int, fallback: int) -> int:
        """Where a pattern begins: at its first term that is written after the patterns before it."""
        places = [term.at for term in terms if hasattr(term, "at") and isinstance(term.at, int)]
        return min((at for at in places if at > reached), default=max(places, default=fallback))

    def _term(self, term: Any, at: int) -> Term:
        if isinstance(term, PlacedVariable):
            return Var(str(term))
        if isinstance(term, AnonymousNode):
            return self.anonymous.setdefault(str(term), Var(f"_:[{len(self.anonymous) + 1}]"))
        if isinstance(term, rdflib.BNode):
            if self.labels.setdefault(str(term), self.bgp) != self.bgp:
                self.query.fail(f"the blank node _:{term} is used in two groups of patterns", at)
            return Var(f"_:{term}")
        if isinstance(term, CompValue) and term.name in (
            *_PATH_STEPS,
            "PathEltOrInverse",
            "PathNegatedPropertySet",
        ):
            return self._term(self._plain_path(term), at)
        return self._constant(term, at)

    def _constant(self, term: Any, at: int) -> Const:
        if isinstance(term, rdflib.Literal):
            return Const.literal(str(term), datatype=term.datatype and str(term.datatype))
        if isinstance(term, CompValue) and term.name == "literal":
            datatype = None if term.datatype is None else self.prologue.iri(term.datatype, term.at)
            return Const.literal(str(term.string), datatype=datatype, language=term.lang)
        if isinstance(term, rdflib.URIRef) or (isinstance(term, CompValue) and term.name == "pname"):
            return Const.iri(self.prologue.iri(term, at))
        self.query.refuse("this construct is not supported yet", getattr(term, "at", None) or at)

    def _plain_path(self, path: CompValue) -> Any:
        """The IRI of a path that is one; rdflib wraps every predicate into three layers of path."""
        at = path.at
        step: Any = path
        while isinstance(step, CompValue) and step.name in _PATH_STEPS:
            parts = step.part if isinstance(step.part, list) else [step.part]
            if len(parts) != 1 or step.mod is not None:
                self.query.refuse("property paths are not supported yet", at)
            step = parts[0]
        if isinstance(step, CompValue) and step.name != "pname":
            self.query.refuse("property paths are not supported yet", at)
        return step

    def _filter(self, part: CompValue, bound: set[str]) -> None:
        for conjunct in _conjuncts(part.expr):
            unbound = [
                str(v) for v in _compared(conjunct) if isinstance(v, PlacedVariable) and str(v) not in bound
            ]
            if unbound:
                # To compare what has no value is an error, and a filter removes what it has an error for.
                line, column = self.query.place(part.at)
                reason = f"?{unbound[0]} is bound by no pattern of the group of this filter"
                self.empty = self.empty or f"{reason} (line {line}:{column})"
                continue
            pair = _equal_pair(conjunct)
            if pair and isinstance(pair[0], PlacedVariable) and pair[0] == pair[1]:
                if conjunct.name == "RelationalExpression":
                    self.self_equal.setdefault(str(pair[0]), part.at)
                continue
            variable, value = _variable_first(pair) if pair else (None, None)
            if variable is None or not _is_term(value):
                self.query.refuse(
                    "this FILTER is not supported yet: only ?variable = <iri>, sameTerm and && are",
                    part.at,
                )
            constant = self._constant(value, part.at)
            if (
                constant.text.endswith(">")
                and not constant.is_iri
                and conjunct.name == "RelationalExpression"
            ):
                # Equal values may be written differently (1, 01, 1.0): that is no equality of terms.
                self.query.refuse("FILTER on the value of a literal is not supported yet", part.at)
            line, column = self.query.place(part.at)
            self.equalities.append(Equality(str(variable), constant, line, column))

    def _check_self_equal(self) -> None:
        """Refuse `?v = ?v` where ?v may be a literal: not every value equals itself (NaN does not)."""
        nodes = {t for pattern in self.patterns for t in (pattern.s, pattern.p) if isinstance(t, Var)}
        for name, at in self.self_equal.items():
            if Var(name) not in nodes:
                self.query.refuse(
                    f"?{name} = ?{name} is not supported yet where ?{name} may be a literal: write sameTerm",
                    at,
                )


def _conjuncts(expression: Any) -> list[Any]:
    pending, found = [expression], []
    while pending:
        inner = _unwrap(pending.pop(0))
        if isinstance(inner, CompValue) and inner.name == "ConditionalAndExpression":
            pending[:0] = [inner.expr, *inner.other]
        else:
            found.append(inner)
    return found


def _unwrap(expression: Any) -> Any:
    """Undo the layers that the grammar puts around an operand which has no operator."""
    while (
        isinstance(expression, CompValue)
        and list(expression) == ["expr"]
        and expression.name.endswith("Expression")
    ):
        expression = expression.expr
    return expression


def _equal_pair(expression: Any) -> tuple[Any, Any] | None:
    if (
        isinstance(expression, CompValue)
        and expression.name == "RelationalExpression"
        and expression.op == "="
    ):
        return _unwrap(expression.expr), _unwrap(expression.other)
    if isinstance(expression, CompValue) and expression.name == "Builtin_sameTerm":
        return _unwrap(expression.arg1), _unwrap(expression.arg2)
    return None


def _compared(expression: Any) -> list[Any]:
    """The operands of a comparison; without one of them it has no value. A term alone is its own operand."""
    if isinstance(expression, CompValue) and expression.name == "RelationalExpression":
        return [_unwrap(expression.expr), _unwrap(expression.other)] if expression.op in _COMPARISONS else []
    return [*(_equal_pair(expression) or (expression,))]


def _variable_first(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    first, second = pair
    if isinstance(first, PlacedVariable):
        return first, second
    return (second, first) if isinstance(second, PlacedVariable) else (None, None)


def _is_term(value: Any) -> bool:
    if isinstance(value, CompValue):
        return value.name in ("pname", "literal")
    return isinstance(value, rdflib.URIRef | rdflib.Literal)
