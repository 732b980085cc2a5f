"""End to end with a Kafka broker: events in, results out, a failure and a restart in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.fakes import told
from tests.spark.kafka_broker import UnavailableError, broker, broker_jars, connect
from thalweg.answers import Row

pytestmark = [pytest.mark.spark, pytest.mark.soak]
S = "http://ex/s"
AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 10s] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/q> ?z }}"


@dataclass(frozen=True)
class Kafka:
    """The topics of a broker, as Spark sees them."""

    spark: Any
    address: str

    def write(self, frame: Any, topic: str) -> None:
        frame.write.format("kafka").options(**self._broker, topic=topic).save()

    def stream(self, topic: str, **options: str) -> Any:
        reader = self.spark.readStream.format("kafka").options(**self._broker, **options)
        return reader.options(subscribe=topic, startingOffsets="earliest").load()

    def messages(self, topic: str) -> list[tuple[str, dict[str, Any]]]:
        """All keys and values of a topic, each partition in its order."""
        frame = self.spark.read.format("kafka").options(**self._broker, subscribe=topic).load()
        rows = frame.selectExpr(
            "partition", "offset", "cast(key as string) key", "cast(value as string) value"
        )
        return [(row.key, json.loads(row.value)) for row in sorted(rows.collect())]

    @property
    def _broker(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address}


@pytest.fixture(scope="module")
def kafka(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    try:
        jars = broker_jars(spark)
        connect(spark)
    except UnavailableError as failure:
        pytest.skip(f"Kafka: {failure}")
    with broker(tmp_path_factory.mktemp("broker"), jars) as address:
        yield Kafka(spark, address)


def graph(k: int) -> str:
    """Two triples of the event at second k."""
    return (
        f"<http://ex/{k % 7}> <http://ex/p> <http://ex/{k * k % 5}> <http://ex/g{k}> .\n"
        f"<http://ex/{k * k % 5}> <http://ex/q> <http://ex/{k % 3}> <http://ex/g{k}> .\n"
    )


def produce(kafka: Kafka, first: int, last: int, topic: str = "events") -> None:
    """Events as N-Quads that say their times, over both partitions, with a message in between that is none."""
    rows = [(f'<http://ex/g{k}> {AT} "{k}000" .\n{graph(k)}'.encode(), k % 2) for k in range(first, last)]
    rows.insert(10, (b"\x00\xff this is not RDF", 1))
    kafka.write(kafka.spark.createDataFrame(rows, "value binary, partition int").coalesce(1), topic)


def expected(last: int) -> list[Row]:
    session = tw.Session(lateness="5s")
    query = session.register(CHAIN)
    for k in range(last):
        session.push(S, at=k * 1000, graph=graph(k).replace(f" <http://ex/g{k}>", ""))
    return query.poll()


class CrashError(Exception):
    pass


def test_results_in_another_topic_are_there_once_by_their_keys_though_a_batch_was_written_twice(
    kafka: Kafka, tmp_path: Path, checkpoint: str
) -> None:
    written: list[int] = []

    def run(crash_after: int | None) -> None:
        events = tw.spark.events(kafka.stream("events", maxOffsetsPerTrigger="40"), stream=S, format="nq")
        results = tw.spark.run(events, CHAIN, lateness="5s", quarantine=str(tmp_path / "quarantine"))

        def deliver(rows: Any, batch: int) -> None:
            kafka.write(tw.spark.messages(rows, batch), "results")
            written.append(batch)
            if batch == crash_after:
                raise CrashError("after the write, before Spark has noted it")

        query = (
            results.writeStream.foreachBatch(deliver)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    produce(kafka, 0, 60)
    with pytest.raises(Exception, match="before Spark has noted it"):
        run(crash_after=1)
    produce(kafka, 60, 100)
    run(crash_after=None)
    assert written.count(1) == 2

    found = kafka.messages("results")
    once = dict(found)
    assert len(found) > len(once), "a batch was written twice"
    assert all(once[key] == value for key, value in found)
    rows = [Row(micros(value["at"]), value["op"], value["bindings"], None) for value in once.values()]
    assert told(rows) == told(expected(100))
    assert {value["batch"] for value in once.values()} <= set(written)

    refused = [
        json.loads(line)
        for file in (tmp_path / "quarantine").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    places = {reject["source"] for reject in refused}
    assert len(places) == 2, refused
    assert all(place.startswith("events/1/") for place in places), "topic, partition and offset"


def micros(text: str) -> int:
    from thalweg.instants import instant

    return instant(text)


def test_a_set_takes_events_and_orders_from_topics_whose_partitions_have_consumers_of_their_own(
    kafka: Kafka, checkpoint: str
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from thalweg.spark.query_sets import ORDER_SCHEMA

    found: list[Any] = []

    def order(**given: str) -> None:
        rows = [(json.dumps(given).encode(),)]
        kafka.write(kafka.spark.createDataFrame(rows, "value binary"), "orders")

    def run() -> None:
        events = tw.spark.events(kafka.stream("set-events", maxOffsetsPerTrigger="40"), stream=S, format="nq")
        text = F.col("value").cast("string")
        orders = (
            kafka.stream("orders").select(F.from_json(text, ORDER_SCHEMA).alias("order")).select("order.*")
        )
        answers = tw.spark.run_set(events, orders, shards=2, lateness="5s")
        query = (
            answers.writeStream.foreachBatch(lambda rows, batch: found.extend(rows.collect()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    order(op="register", query="chain", text=CHAIN)
    produce(kafka, 0, 60, "set-events")
    run()
    order(op="drop", query="chain")
    order(op="register", query="later", text=CHAIN)
    produce(kafka, 60, 100, "set-events")
    run()

    session = tw.Session(lateness="5s")
    expected: dict[str, list[Row]] = {}
    first = session.register(CHAIN)
    for k in range(100):
        if k == 60:
            expected["chain"] = first.poll()
            session.unregister(first)
            second = session.register(CHAIN)
        session.push(S, at=k * 1000, graph=graph(k).replace(f" <http://ex/g{k}>", ""))
    expected["later"] = second.poll()
    notices = [(row["query"], row["op"]) for row in found if row["at"] is None]
    # Orders of one batch for different queries have no order: each query has its shard, each partition its consumer.
    assert notices[0] == ("chain", "registered")
    assert sorted(notices[1:]) == [("chain", "dropped"), ("later", "registered")]
    for name, rows in expected.items():
        got = [
            Row(int(row["at"].timestamp() * 1e6), row["op"], row["bindings"], None)
            for row in found
            if row["query"] == name and row["at"] is not None
        ]
        assert told(got) == told(rows), name
