"""Thalweg on Spark: the only home of pyspark.

>>> spark = session()  # doctest: +SKIP
>>> events = spark.readStream.format("rdf").option("stream", "http://ex/s").load("folder")  # doctest: +SKIP
>>> rows = run(events, "SELECT ?x FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?x ?p ?y }")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.spark.batch import statements
    from thalweg.spark.closures import materialise
    from thalweg.spark.frames import events
    from thalweg.spark.listener import Listener, Step
    from thalweg.spark.queries import read, run, run_files
    from thalweg.spark.query_sets import QuerySet, run_set
    from thalweg.spark.row_frames import rows
    from thalweg.spark.sessions import require_java, session
    from thalweg.spark.side_outputs import read_late, read_quarantine
    from thalweg.spark.source import register
    from thalweg.spark.store_handle import SparkStore, store
    from thalweg.spark.tables import columns, messages, quads

__all__ = [
    "Listener",
    "QuerySet",
    "SparkStore",
    "Step",
    "columns",
    "events",
    "materialise",
    "messages",
    "quads",
    "read",
    "read_late",
    "read_quarantine",
    "register",
    "require_java",
    "rows",
    "run",
    "run_files",
    "run_set",
    "session",
    "statements",
    "store",
]

# Loaded when asked for: the processes in which Spark plans a source need no engine and start sooner.
# No module here may have the name of one of these functions: it would take its place once imported.
_HOMES = {
    "Listener": "listener",
    "QuerySet": "query_sets",
    "SparkStore": "store_handle",
    "Step": "listener",
    "columns": "tables",
    "events": "frames",
    "materialise": "closures",
    "messages": "tables",
    "quads": "tables",
    "read": "queries",
    "read_late": "side_outputs",
    "read_quarantine": "side_outputs",
    "register": "source",
    "require_java": "sessions",
    "rows": "row_frames",
    "run": "queries",
    "run_files": "queries",
    "run_set": "query_sets",
    "session": "sessions",
    "statements": "batch",
    "store": "store_handle",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"thalweg.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'thalweg.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet."""
    return sorted([*__all__, "__doc__"])
