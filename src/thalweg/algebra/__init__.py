"""The logical form of a query: what every front end produces and every plan begins with."""

from thalweg.algebra.nodes import Const, Equality, Pattern, Query, Source, Term, Var
from thalweg.algebra.windows import Count, Now, Range, Report, Unbounded, Window

__all__ = [
    "Const",
    "Count",
    "Equality",
    "Now",
    "Pattern",
    "Query",
    "Range",
    "Report",
    "Source",
    "Term",
    "Unbounded",
    "Var",
    "Window",
]
