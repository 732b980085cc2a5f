"""Many queries in one streaming query: `run_set(events, orders)`. Queries come and go while it runs."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thalweg.arguments import static_data_of
from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.schema.reading import read_triples
from thalweg.spark.encode import CHUNK_SCHEMA, encoder
from thalweg.spark.frames import uniform
from thalweg.spark.listener import COUNTED
from thalweg.spark.queries import staged
from thalweg.spark.results import RESULT_SCHEMA, unpack_named_results
from thalweg.spark.sessions import require_partitions, require_rocksdb, usual_shards
from thalweg.spark.set_engine import AFTER_EVENTS, ORDER, member_query
from thalweg.spark.set_plan import SetPlan
from thalweg.spark.static_files import sent
from thalweg.static.shipping import StaticFiles

ORDER_SCHEMA = "seq long, op string, query string, text string, schema string, rules string"
"""The columns of orders. Those of one batch are carried out in the order of `seq`, then of their texts."""
_OPTIONAL = ("seq", "text", "schema", "rules")


def run_set(
    events: DataFrame,
    orders: DataFrame,
    *,
    shards: int | None = None,
    quarantine: str | None = None,
    late: str | None = None,
    static: object = None,
    **options: Any,
) -> DataFrame:
    """The answers of a set of queries over a streaming frame of `format("rdf")` or `events`, as one streaming frame.

    `orders` is a streaming frame, of any source, with the columns `op` (`register` or `drop`), `query` (a name) and
    `text`, and, where wanted, `seq` (orders of one batch are carried out in this order), `schema` (RDF text) and
    `rules`. `QuerySet` makes one of a folder. Orders are carried out before the events of their batch, so that a query
    sees the events of the batches from there on. The queries are a part of the checkpoint.

    The rows have the name of their `query`, and the columns that those of `run` have. What became of an order is a row
    without an instant, whose `op` is `registered`, `dropped` or `error` (with a `message` among its bindings). A query
    that fails while it runs is dropped with such a row; the others go on.

    `static` are static data, as `run` takes them, which all queries can read. Others are refused when the set is
    started again with its checkpoint.

    Each of the `shards` reads all events, and has those queries whose names fall to it. With several shards, derived
    streams are refused. `options` are those of `run` that concern how events are read: mode,
    per_event, rate, mapping, blank_nodes, time_predicate, lateness, idle, drain.
    """
    spark = events.sparkSession
    data = static_data_of(static)
    plan = SetPlan(
        RunOptions(shards=shards or usual_shards(spark), **options),
        quarantine=None if quarantine is None else os.path.abspath(quarantine),
        late=None if late is None else os.path.abspath(late),
        static=sent(data, spark) if data else StaticFiles(),
    )
    chunks = uniform(events).mapInArrow(encoder(plan.reading), CHUNK_SCHEMA)
    return answers_of(chunks.unionByName(_order_chunks(orders, plan)), plan)


def answers_of(chunks: DataFrame, plan: SetPlan) -> DataFrame:
    """The answers of a set of queries over chunks of events and orders, by name."""
    require_rocksdb(chunks.sparkSession)
    require_partitions(chunks.sparkSession, plan.shards)
    packed = staged(chunks, plan, COUNTED)
    blobs = packed.select("results").where("results is not null")
    return blobs.mapInArrow(unpack_named_results, f"query string, {RESULT_SCHEMA}")


def _order_chunks(orders: DataFrame, plan: SetPlan) -> DataFrame:
    """Orders as chunks, one for each shard."""
    for name in ("op", "query"):
        if name not in orders.columns:
            raise UsageError(f"orders have a column {name!r}: there are {', '.join(orders.columns)}")
    cells = {
        name: F.col(name) if name in orders.columns else F.lit(None).cast("string")
        for name in ("op", "query", *_OPTIONAL)
    }
    order = F.to_json(F.struct(*(cells[name].alias(name) for name in cells if name != "seq")))
    return orders.select(
        F.explode(F.array(*(F.lit(key) for key in plan.keys))).alias("key"),
        F.lit(0).alias("shard"),
        F.lit("").alias("stream"),
        F.lit("").alias("source"),
        (F.lit(AFTER_EVENTS) + F.coalesce(cells["seq"].cast("long"), F.lit(0))).alias("seq"),
        F.lit(0).alias("part"),
        F.lit(ORDER).alias("syntax"),
        F.lit(False).alias("last"),
        *(F.lit(0).cast("long").alias(name) for name in ("bytes", "statements", "kept", "sent", "reading")),
        order.cast("binary").alias("chunk"),
    )


class QuerySet:
    """A folder of orders: what a set of queries is to have. Any process that can write there may register and drop.

    `graphs` are the names of the static graphs of the set.

    >>> import tempfile
    >>> queries = QuerySet(tempfile.mkdtemp())
    >>> queries.register("any", "SELECT * FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?s ?p ?o }")
    >>> queries.names
    ['any']
    >>> queries.drop("any")
    >>> queries.names
    []
    """

    def __init__(self, folder: str | os.PathLike[str], *, graphs: Iterable[str] = ()) -> None:
        self.folder = Path(folder)
        self.graphs = tuple(graphs)
        self.folder.mkdir(parents=True, exist_ok=True)

    def register(
        self, name: str, text: str, *, schema: object = None, rules: str | Iterable[str] | None = None
    ) -> None:
        """Order a query to be registered; a text that is wrong is refused here."""
        if not name:
            raise UsageError("a query of a set has a name")
        if name in self.names:
            raise UsageError(f"a query with the name {name!r} is registered: drop it first")
        listed = rules if rules is None or isinstance(rules, str) else ",".join(rules)
        turtle = None
        if schema is not None:
            _, triples = read_triples(schema, what="the schema")
            turtle = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
        member_query({"query": name, "text": text, "schema": turtle, "rules": listed}, self.graphs)
        self._write({"op": "register", "query": name, "text": text, "schema": turtle, "rules": listed})

    def drop(self, name: str) -> None:
        """Order a query to be dropped."""
        if name not in self.names:
            raise UsageError(f"there is no query with the name {name!r}")
        self._write({"op": "drop", "query": name})

    @property
    def names(self) -> list[str]:
        """The names of the queries that were registered and not dropped, as far as orders say."""
        found: dict[str, None] = {}
        for path in self._orders():
            order = json.loads(path.read_text("utf-8"))
            if order["op"] == "register":
                found[order["query"]] = None
            else:
                found.pop(order["query"], None)
        return list(found)

    def read(self, spark: SparkSession) -> DataFrame:
        """The orders as a streaming frame for `run_set`."""
        return spark.readStream.schema(ORDER_SCHEMA).json(str(self.folder))

    def _orders(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.json"))

    def _write(self, order: dict[str, Any]) -> None:
        """Write an order under the next number, which two processes never share."""
        while True:
            last = self._orders()[-1:]
            number = int(last[0].stem) + 1 if last else 1
            draft = self.folder / f".{uuid.uuid4().hex}"
            draft.write_text(json.dumps({"seq": number, **order}, ensure_ascii=False) + "\n", "utf-8")
            try:
                os.link(draft, self.folder / f"{number:012d}.json")
            except FileExistsError:
                continue
            finally:
                draft.unlink()
            return
