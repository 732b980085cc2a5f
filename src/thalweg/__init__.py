"""Thalweg: continuous graph-pattern queries over RDF streams, in-process and on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from thalweg.errors import (
    DataError,
    QueryError,
    ThalwegError,
    ThalwegWarning,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from thalweg import spark
    from thalweg.answers import ContinuousQuery, Late, Row
    from thalweg.engine import Session
    from thalweg.lang import parse
    from thalweg.plan.explain import explain

__version__ = "0.1.0"
__all__ = [
    "ContinuousQuery",
    "DataError",
    "Late",
    "QueryError",
    "Row",
    "Session",
    "ThalwegError",
    "ThalwegWarning",
    "UnsupportedError",
    "UsageError",
    "explain",
    "parse",
    "spark",
]

# Public names whose modules load Numba, rdflib or PySpark; they are loaded when first asked for, so that
# `import thalweg` and the command line's help are quick.
_LAZY = {
    "ContinuousQuery": "thalweg.answers",
    "Late": "thalweg.answers",
    "Row": "thalweg.answers",
    "Session": "thalweg.engine",
    "explain": "thalweg.plan.explain",
    "parse": "thalweg.lang",
}


def __getattr__(name: str) -> Any:
    if name == "spark":
        return import_module("thalweg.spark")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
