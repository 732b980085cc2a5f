"""The logical form of a query: what every front end produces and every plan begins with."""

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
)
from thalweg.algebra.query import Query, Source
from thalweg.algebra.scope import Scope, scope_of
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.algebra.windows import Count, Now, Range, Report, Unbounded, Window

__all__ = [
    "Ask",
    "Bgp",
    "Const",
    "Construct",
    "Count",
    "Distinct",
    "Empty",
    "Exists",
    "Extend",
    "Filter",
    "Fixed",
    "Join",
    "LeftJoin",
    "Minus",
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
    "Union",
    "Values",
    "Var",
    "Window",
    "scope_of",
]
