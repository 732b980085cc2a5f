"""A small query, and others that differ from it."""

from typing import Any

from thalweg.algebra.nodes import Const, Pattern, Query, Source, Var

P = Const.iri("http://ex/p")


def query(**changes: Any) -> Query:
    return Query(
        **{
            "language": "SPARQL",
            "operator": None,
            "output": None,
            "distinct": False,
            "select": ("x",),
            "fixed": (),
            "sources": (Source(("http://ex/s",)),),
            "patterns": (Pattern(Var("x"), P, Var("y")),),
            "text": "",
        }
        | changes
    )
