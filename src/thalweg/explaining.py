"""`thalweg.explain`: how a query is understood and run, from its text."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.algebra.query import Query
from thalweg.arguments import query_of, static_data_of, under_schema
from thalweg.plan.explain import explain as explain_query


def explain(
    text: str | bytes | Query,
    shards: int = 1,
    *,
    format: str = "text",
    stream: str | None = None,
    schema: object = None,
    rules: str | Iterable[str] | None = None,
    static: object = None,
) -> str:
    """A page about a query, as `thalweg explain` prints it; or, as `dot`, `mermaid` or `svg`, a drawing of its plan.

    `shards` is over how many tasks of Spark it is spread at most, `stream` what it reads if it names no stream.
    With a `schema`, also the reduced epsilon network. With `static` data, as `thalweg.spark.run` takes them, also how
    many of them fit each pattern, and where they are.
    """
    data = static_data_of(static)
    query = query_of(text, source="query", stream=stream or "urn:thalweg:stream", graphs=data.names)
    query = under_schema(query, schema, rules)
    if static is not None:
        data.require(query.graphs)
    return explain_query(query, shards, format=format, static=data)
