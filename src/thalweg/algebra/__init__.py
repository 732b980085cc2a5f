"""The logical form of a query: what every front end produces and every plan begins with."""

from thalweg.algebra.nodes import (
    Const,
    Equality,
    Now,
    Pattern,
    Query,
    Range,
    Source,
    Term,
    Unbounded,
    Var,
    Window,
)

__all__ = [
    "Const",
    "Equality",
    "Now",
    "Pattern",
    "Query",
    "Range",
    "Source",
    "Term",
    "Unbounded",
    "Var",
    "Window",
]
