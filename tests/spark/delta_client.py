"""The client that test_delta runs: events from a Delta table, results into another, a lost note and a restart."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import thalweg.spark as tw
from thalweg.spark.results import rows_of

BINARY = "NoSuchMethodError", "NoSuchFieldError", "NoClassDefFoundError", "IncompatibleClassChangeError"


def main(folder: Path, jars: str) -> dict[str, Any]:
    # Delta wants to be there when the session starts: it adds to the parser and replaces the catalog.
    spark = tw.session(
        "thalweg-delta",
        spark__jars=jars,
        spark__sql__extensions="io.delta.sql.DeltaSparkSessionExtension",
        spark__sql__catalog__spark_catalog="org.apache.spark.sql.delta.catalog.DeltaCatalog",
        spark__databricks__delta__snapshotPartitions="1",  # otherwise 50 tasks for each look at a table's log
        spark__sql__warehouse__dir=str(folder / "warehouse"),
    )
    try:
        unfit = misfit(spark, str(folder / "probe"))
        return {"unfit": unfit} if unfit else there_and_back(spark, folder)
    finally:
        spark.stop()


def misfit(spark: Any, table: str) -> str | None:
    """What keeps Delta alone, without us, from this version of Spark; releases differ even in their last number."""
    try:
        spark.range(3).write.format("delta").save(table)
        spark.read.format("delta").load(table).collect()
    except Exception as failure:
        lines = [line for line in str(failure).splitlines() if any(name in line for name in BINARY)]
        if not lines:
            raise
        return lines[0]
    return None


def there_and_back(spark: Any, folder: Path) -> dict[str, Any]:
    task = json.loads((folder / "task.json").read_text())
    checkpoint = folder / "checkpoint"
    batches = []
    for appends in task["runs"]:
        for payloads in appends:  # an append is a file, and a file is a batch
            frame = spark.createDataFrame([(payload,) for payload in payloads], "value string").coalesce(1)
            frame.write.format("delta").mode("append").save(str(folder / "events"))
        batches.append(run(spark, folder, task["stream"], task["query"], checkpoint))
        lose_last_note(checkpoint)
    results = spark.read.format("delta").load(str(folder / "results"))
    rows = [[row.at, row.op, row.bindings] for row in rows_of(results.toArrow())]
    return {"batches": batches, "rows": rows}


def run(spark: Any, folder: Path, stream: str, text: str, checkpoint: Path) -> list[int]:
    """Runs what is available; the numbers of the batches, also of those that Delta had already."""
    table = spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(str(folder / "events"))
    query = (
        tw.run(tw.events(table, stream=stream, format="nq"), text)
        .writeStream.format("delta")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(folder / "results"))
    )
    query.awaitTermination()
    return [step.batchId for step in query.recentProgress]


def lose_last_note(checkpoint: Path) -> None:
    """As if Spark had failed after the table's commit, before it noted that the batch is done."""
    notes = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(notes, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
