"""Thalweg: continuous graph-pattern queries over RDF streams, in-process and on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from thalweg.errors import (
    DataError,
    LimitError,
    QueryError,
    ThalwegError,
    ThalwegWarning,
    UnboundError,
    UnsupportedError,
    UsageError,
)
from thalweg.instants import Instant

if TYPE_CHECKING:
    from thalweg import spark
    from thalweg.answers import ContinuousQuery, Late
    from thalweg.client import connect
    from thalweg.engine import Session
    from thalweg.explaining import explain
    from thalweg.lang import parse
    from thalweg.rdf.mapping import Mapping
    from thalweg.rows import Row
    from thalweg.store.store import Store
    from thalweg.tables import Rows
    from thalweg.terms import IRI, BlankNode, Literal

__version__ = "0.1.0"
__all__ = [
    "IRI",
    "BlankNode",
    "ContinuousQuery",
    "DataError",
    "Instant",
    "Late",
    "LimitError",
    "Literal",
    "Mapping",
    "QueryError",
    "Row",
    "Rows",
    "Session",
    "Store",
    "ThalwegError",
    "ThalwegWarning",
    "UnboundError",
    "UnsupportedError",
    "UsageError",
    "connect",
    "explain",
    "parse",
    "spark",
]

# Public names whose modules load Numba, rdflib or PySpark; they are loaded when first asked for, so that
# `import thalweg` and the command line's help are quick.
_LAZY = {
    "BlankNode": "thalweg.terms",
    "ContinuousQuery": "thalweg.answers",
    "IRI": "thalweg.terms",
    "Late": "thalweg.answers",
    "Literal": "thalweg.terms",
    "Mapping": "thalweg.rdf.mapping",
    "Row": "thalweg.rows",
    "Rows": "thalweg.tables",
    "Session": "thalweg.engine",
    "Store": "thalweg.store.store",
    "connect": "thalweg.client",
    "explain": "thalweg.explaining",
    "parse": "thalweg.lang",
}


def __getattr__(name: str) -> Any:
    if name == "spark":
        return import_module("thalweg.spark")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(__all__)}"
    raise AttributeError(f"module 'thalweg' has no attribute {name!r}{hint if name[:1] != '_' else ''}")


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet."""
    return sorted([*__all__, "__version__", "__doc__"])
