"""The logical form of a query: what every front end produces and every plan begins with."""

from thalweg.algebra.nodes import Bgp, Construct, Distinct, Empty, Equality, Extend, Filter, Node, Project
from thalweg.algebra.query import Query, Source
from thalweg.algebra.scope import Scope, scope_of
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.algebra.windows import Count, Now, Range, Report, Unbounded, Window

__all__ = [
    "Bgp",
    "Const",
    "Construct",
    "Count",
    "Distinct",
    "Empty",
    "Equality",
    "Extend",
    "Filter",
    "Node",
    "Now",
    "Pattern",
    "Project",
    "Query",
    "Range",
    "Report",
    "Scope",
    "Source",
    "Term",
    "Unbounded",
    "Var",
    "Window",
    "scope_of",
]
