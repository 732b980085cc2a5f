"""Expressions as SPARQL text, evaluated by us and by pyoxigraph."""

from __future__ import annotations

import numpy as np
import pyoxigraph

from thalweg.algebra.expressions import Expression
from thalweg.expressions.evaluate import Evaluator
from thalweg.lang.expressions import ExpressionReader
from thalweg.lang.grammar import parse
from thalweg.lang.names import Prologue
from thalweg.lang.text import QueryText
from thalweg.rdf.arena import Arena

XSD = "http://www.w3.org/2001/XMLSchema#"
PROLOGUE = f"PREFIX xsd: <{XSD}> PREFIX ex: <http://ex/> "
_STORE = pyoxigraph.Store()


def read(text: str, prologue: str = PROLOGUE) -> Expression:
    query = QueryText(f"{prologue}SELECT * {{ FILTER({text}) }}")
    declarations, tree = parse(query.text)
    return ExpressionReader(query, Prologue(query, declarations), lambda group: group.name).read(
        tree.where.part[0].expr
    )


def short(text: str | None) -> str | None:
    """A term as SPARQL writes it with our prefixes."""
    return None if text is None else text.replace(f"<{XSD}", "xsd:").replace(">", "") if XSD in text else text


def ours(text: str, *, now: int | None = None, prologue: str = PROLOGUE, **bindings: str) -> str | None:
    """The value of an expression as short text, or None for an error."""
    arena = Arena()
    evaluator = Evaluator(read(text, prologue), list(bindings), arena, now=now)
    row = [arena.intern(term.encode()) for term in bindings.values()]
    (found,) = evaluator.values(np.array([row], dtype=np.int64).reshape(1, len(row)))
    return short(arena.text(int(found))) if found else None


def theirs(text: str) -> str | None:
    """The value that pyoxigraph computes, or None for an error."""
    (row,) = _STORE.query(f"{PROLOGUE}SELECT ({text} AS ?r) {{}}")  # type: ignore[misc]
    return None if row["r"] is None else short(str(row["r"]))
