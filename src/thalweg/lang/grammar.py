"""rdflib's SPARQL grammar, in a private copy that keeps positions and lexical forms.

rdflib builds its grammar when its parser module is executed. We execute that module once more, under no name,
and adjust the copy; rdflib's own grammar stays as it is. What is adjusted, and why:

- every node of the tree remembers where it begins, so that a refusal has line and column;
- literals keep their lexical form (`01`, `1e0`, `+1.5`), because the readers keep it too;
- tabs are not expanded: that would change literals and move positions;
- comments are not skipped (the text has none left), because `<#a>` would otherwise lose its end;
- triples of a block or a template are a loop and not a recursion, so that thousands need no deep stack;
- variables and numbers are tried before the 60 functions: a long expression is parsed five times as fast.
"""

from __future__ import annotations

import importlib.util
import threading
from functools import cache, partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pyparsing
import rdflib
from rdflib.plugins.sparql.parserutils import Comp, Param, ParamList

PARSER = "rdflib.plugins.sparql.parser"
_LOCK = threading.Lock()
_MANY = 60
"""Alternatives of a choice that has the functions of SPARQL among them."""


class GrammarError(Exception):
    """A text that the grammar does not take: the furthest place it came to, and what it would take there."""

    def __init__(self, at: int, expected: tuple[str, ...]) -> None:
        super().__init__(at, expected)
        self.at = at
        self.expected = expected


class AnonymousNode(rdflib.BNode):
    """A blank node that the query does not name: `[]`, `[ :p ?o ]`, or a cell of a list."""


class PlacedVariable(rdflib.Variable):
    """A variable with the place where it is written."""

    at: int = 0


class PlacedIri(rdflib.URIRef):
    """An IRI, as written between `<` and `>`, with its place."""

    at: int = 0


def parse(text: str) -> Any:
    """The tree of a query: [prologue, query], made of rdflib's CompValues, each with its offset in `at`."""
    grammar = _grammar()
    with _LOCK:
        try:
            return grammar.query.parse_string(text, parse_all=True)
        except pyparsing.ParseBaseException:
            raise _furthest_failure(grammar, text) from None


class _Grammar:
    def __init__(self) -> None:
        self.module = _private_copy()
        self.query = self.module.Query
        _adjust(self.module)
        elements = _elements(self.query)
        for element in elements:
            if isinstance(element, Comp) and element.name == "InversePath":
                # rdflib drops the predicate of an inverse inside a negated property set.
                element.expr = pyparsing.Suppress("^") + Param("part", self.module.iri | self.module.A)
        elements = _elements(self.query)
        self.terminals = [e for e in elements if isinstance(e, pyparsing.Token)]
        for element in elements:
            element.ignoreExprs = []
            if isinstance(element, Comp):
                element.add_parse_action(_place)
        self.query.parse_with_tabs()
        self.query.streamline()  # nested choices become one
        for element in _elements(self.query):
            if isinstance(element, pyparsing.MatchFirst) and len(element.exprs) >= _MANY:
                _try_first(element, self.module.Var)


@cache
def _grammar() -> _Grammar:
    return _Grammar()


def _private_copy() -> ModuleType:
    spec = importlib.util.find_spec(PARSER)
    if spec is None or spec.loader is None:
        raise ImportError(f"{PARSER} is missing: rdflib is not installed completely")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _adjust(module: Any) -> None:
    literal = partial(rdflib.Literal, normalize=False)
    # The grammar's actions look `rdflib` up in their module each time they run.
    module.rdflib = SimpleNamespace(
        **{name: getattr(rdflib, name) for name in ("RDF", "XSD", "URIRef", "term")},
        Literal=literal,
        BNode=lambda label=None: AnonymousNode() if label is None else rdflib.BNode(label),
    )
    module.neg = lambda number: literal(f"-{number}", datatype=number.datatype)
    for name in ("DECIMAL_POSITIVE", "DOUBLE_POSITIVE"):
        getattr(module, name).set_parse_action(lambda t: literal(f"+{t[0]}", datatype=t[0].datatype))
    module.Var.set_parse_action(partial(_placed, PlacedVariable))
    module.IRIREF.set_parse_action(partial(_placed, PlacedIri))
    module.TriplesBlock <<= _loop(ParamList("triples", module.TriplesSameSubjectPath))
    module.ConstructTriples <<= _loop(ParamList("template", module.TriplesSameSubject))


def _try_first(choice: pyparsing.MatchFirst, variable: Any) -> None:
    """Puts variables and numbers, which nothing else begins like, before the other alternatives of a choice."""
    choice.exprs = sorted(
        choice.exprs, key=lambda one: one is not variable and not isinstance(one, pyparsing.Regex)
    )


def _loop(triples: Any) -> Any:
    dot = pyparsing.Suppress(".")
    return triples + pyparsing.ZeroOrMore(dot + triples) + pyparsing.Optional(dot)


def _elements(root: Any) -> list[Any]:
    found: dict[int, Any] = {}
    stack = [root]
    while stack:
        element = stack.pop()
        if id(element) in found or element is None:
            continue
        found[id(element)] = element
        stack.extend(getattr(element, "exprs", ()))
        stack.append(getattr(element, "expr", None))
        stack.append(getattr(element, "not_ender", None))
    return list(found.values())


def _place(text: str, at: int, tokens: Any) -> None:
    tokens[0].at = _after_space(text, at)


def _placed(kind: type, text: str, at: int, tokens: Any) -> Any:
    term = kind(tokens[0])
    term.at = _after_space(text, at)
    return term


def _after_space(text: str, at: int) -> int:
    """Where the token itself begins: some elements of the grammar count the space before it as theirs."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _furthest_failure(grammar: _Grammar, text: str) -> GrammarError:
    """Parse again and watch the terminals: the last place that refused one is where to look."""
    furthest = -1
    expected: dict[str, None] = {}

    def refused(instring: str, at: int, element: Any, error: Exception) -> None:
        nonlocal furthest, expected
        if at > furthest:
            furthest, expected = at, {}
        if at == furthest:
            expected[_spelling(element)] = None

    for terminal in grammar.terminals:
        terminal.set_fail_action(refused)
    try:
        grammar.query.parse_string(text, parse_all=True)
    except pyparsing.ParseBaseException:
        pass
    finally:
        for terminal in grammar.terminals:
            terminal.set_fail_action(None)
    return GrammarError(max(furthest, 0), tuple(sorted(filter(None, expected))))


def _spelling(terminal: Any) -> str:
    fixed = isinstance(terminal, pyparsing.Literal | pyparsing.Keyword)
    return str(terminal.match) if fixed else ""
