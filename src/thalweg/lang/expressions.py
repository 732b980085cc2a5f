"""Expressions of a query: rdflib's tree, with its layers for each level of precedence, becomes calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import rdflib
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.expressions import Call, Constant, Exists, Expression, Variable
from thalweg.algebra.terms import XSD, Const
from thalweg.lang.grammar import PlacedVariable
from thalweg.lang.names import Prologue
from thalweg.lang.text import QueryText

CASTS = tuple(
    XSD + name
    for name in (
        *("boolean", "double", "float", "decimal", "integer", "dateTime", "string"),
        *("date", "time", "duration", "dayTimeDuration", "yearMonthDuration"),
    )
)
"""Casts: the seven of SPARQL 1.1 (section 17.5), and those of XPath to the other types of time."""

DEEPEST = 128
"""How deeply calls can be nested. A chain of one operator is one call."""

_CHAINS = {"ConditionalOrExpression": "OR", "ConditionalAndExpression": "AND"}
_ARITHMETIC = ("AdditiveExpression", "MultiplicativeExpression")
_UNARY = {"UnaryNot": "NOT", "UnaryPlus": "UPLUS", "UnaryMinus": "UMINUS"}
_ARGUMENTS = {
    "Builtin_REGEX": ("text", "pattern", "flags"),
    "Builtin_SUBSTR": ("arg", "start", "length"),
    "Builtin_REPLACE": ("arg", "pattern", "replacement", "flags"),
}
_ALIASES = {"URI": "IRI", "ISURI": "ISIRI"}
_BUILTIN = "Builtin_"
_AGGREGATE = "Aggregate_"


class ExpressionReader:
    """Reads the expressions of one query.

    `group` gives the logical tree of the group of an EXISTS, `aggregate` the variable that has the value of one.
    `extensions` are functions beyond the casts: their IRIs, with how many arguments they take.
    """

    def __init__(
        self,
        query: QueryText,
        prologue: Prologue,
        group: Callable[[CompValue], Any],
        extensions: Mapping[str, int] | None = None,
        aggregate: Callable[[CompValue], Expression] | None = None,
    ) -> None:
        self.query = query
        self.prologue = prologue
        self.group = group
        self.aggregate = aggregate
        self.arities = dict.fromkeys(CASTS, 1) | dict(extensions or {})

    def read(self, tree: Any, at: int = 0) -> Expression:
        """The expression of a tree; `at` is the place of what has none of its own, such as a number."""
        return self._read(tree, at, 0)

    def _read(self, tree: Any, at: int, depth: int) -> Expression:
        while isinstance(tree, CompValue) and list(tree) == ["expr"] and tree.name.endswith("Expression"):
            tree = tree.expr
        if isinstance(tree, PlacedVariable):
            return Variable(str(tree))
        if not isinstance(tree, CompValue):
            return Constant(self.prologue.constant(tree, at))
        at, name = tree.at, tree.name
        if depth > DEEPEST:
            self.query.refuse(f"this expression is nested more than {DEEPEST} calls deep", at)
        if name in _CHAINS:
            return self._call(_CHAINS[name], [tree.expr, *tree.other], at, depth)
        if name in _ARITHMETIC:
            return self._arithmetic(tree, depth)
        if name == "RelationalExpression":
            others = self._list(tree.other) if tree.op.upper() in ("IN", "NOT IN") else [tree.other]
            return self._call(" ".join(tree.op.upper().split()), [tree.expr, *others], at, depth)
        if name in _UNARY:
            return self._unary(tree, depth)
        if name.startswith(_BUILTIN):
            return self._built_in(tree, depth)
        if name.startswith(_AGGREGATE):
            if self.aggregate is None:
                self.query.fail("an aggregate cannot stand here", at)
            return self.aggregate(tree)
        if name == "Function":
            return self._function(tree, depth)
        return Constant(self.prologue.constant(tree, at))

    def _call(self, name: str, operands: list[Any], at: int, depth: int) -> Call:
        args = tuple(self._read(operand, at, depth + 1) for operand in operands)
        return Call(name, args, *self.query.place(at))

    def _arithmetic(self, tree: CompValue, depth: int) -> Expression:
        """A chain such as a - b + c: neighbours with the same operator are one call."""
        runs: list[tuple[str, list[Any]]] = []
        for op, operand in zip(tree.op, tree.other, strict=True):
            if not runs or runs[-1][0] != op:
                runs.append((op, []))
            runs[-1][1].append(operand)
        # The first operand of the chain lies below all of its calls.
        depth += len(runs)
        if depth > DEEPEST:
            self.query.refuse(
                f"this expression changes between operators more than {DEEPEST} times: use brackets", tree.at
            )
        line, column = self.query.place(tree.at)
        left = self._read(tree.expr, tree.at, depth)
        for op, operands in runs:
            right = (self._read(operand, tree.at, depth) for operand in operands)
            left = Call(op, (left, *right), line, column)
        return left

    def _unary(self, tree: CompValue, depth: int) -> Expression:
        operand = tree.expr
        # The grammar reads `-5` as an operator and a number; by SPARQL's longest tokens it is one literal.
        if isinstance(operand, rdflib.Literal) and tree.name != "UnaryNot":
            sign, following = self.query.text[tree.at], self.query.text[tree.at + 1 : tree.at + 2]
            if following.isdigit() or following == ".":
                return Constant(Const.literal(f"{sign}{operand}", datatype=str(operand.datatype)))
        return self._call(_UNARY[tree.name], [operand], tree.at, depth)

    def _built_in(self, tree: CompValue, depth: int) -> Expression:
        name = tree.name[len(_BUILTIN) :].upper()
        if name in ("EXISTS", "NOTEXISTS"):
            return Exists(self.group(tree.graph), name == "NOTEXISTS", *self.query.place(tree.at))
        name = _ALIASES.get(name, name)
        if tree.name in _ARGUMENTS:
            operands = [tree[key] for key in _ARGUMENTS[tree.name] if key in tree]
        elif name in ("COALESCE", "CONCAT"):
            operands = self._list(tree.arg)
        else:
            operands = [tree[key] for key in ("arg", "arg1", "arg2", "arg3") if key in tree]
        if name == "IRI" and self.prologue.base is not None:
            operands.append(rdflib.URIRef(self.prologue.base))
        return self._call(name, operands, tree.at, depth)

    def _function(self, tree: CompValue, depth: int) -> Expression:
        iri = self.prologue.iri(tree.iri, tree.at)
        operands = list(tree.expr or ())
        if iri not in self.arities:
            near = get_close_matches(iri, self.arities, n=2, cutoff=0.8)
            hint = f": did you mean {' or '.join(f'<{name}>' for name in near)}?" if near else ""
            self.query.refuse(f"unknown function <{iri}>{hint}", tree.at)
        if tree.distinct:
            self.query.fail(f"DISTINCT is for aggregates, and <{iri}> is none", tree.at)
        if len(operands) != self.arities[iri]:
            wanted = self.arities[iri]
            self.query.fail(
                f"<{iri}> takes {wanted} argument{'s' if wanted != 1 else ''}, not {len(operands)}", tree.at
            )
        return self._call(iri, operands, tree.at, depth)

    def _list(self, tree: Any) -> list[Any]:
        """The members of an expression list; an empty one is rdf:nil in the tree."""
        return [] if isinstance(tree, rdflib.URIRef) else list(tree)
