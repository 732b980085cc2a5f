"""The client that test_connect runs: a local Connect server, and every function of `thalweg.spark` that it can use."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import thalweg.spark as tw
from thalweg.errors import UsageError

S, E = "http://ex/s", "http://ex/e"


def collected(spark: Any, frame: Any, name: str, folder: Path, *columns: str) -> list[list[Any]]:
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(folder / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [[row[column] for column in columns] for row in spark.table(name).orderBy(*columns).collect()]


def main(folder: Path) -> dict[str, Any]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.remote("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    steps: list[tw.Step] = []
    listener = tw.Listener(steps.append)
    spark.streams.addListener(listener)
    try:
        return {"session": type(spark).__module__, **queries(spark, folder), "steps": told_by(steps, 3)}
    finally:
        # Its thread would keep this process alive.
        spark.streams.removeListener(listener)
        spark.stop()


def told_by(steps: list[tw.Step], count: int) -> list[Any]:
    deadline = time.monotonic() + 20
    while len(steps) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return [json.loads(step.to_json()) for step in steps]


def queries(spark: Any, folder: Path) -> dict[str, Any]:
    file = folder / "a.nt"
    file.write_text("".join(f"<http://ex/n{k}> <http://ex/p> <http://ex/n{k + 1}> .\n" for k in range(20)))
    chain = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
    rows = tw.run(tw.read(spark, str(file), stream=S), chain)
    names = {"x": "string", "z": "string"}
    files = collected(spark, tw.columns(rows, names), "files", folder, "at", "x", "z")

    # Two stages, so that both steps find the file that the session has sent.
    named = f"""SELECT ?n (COUNT(?x) AS ?c) FROM STREAM <{S}> [RANGE 60]
        WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/name> ?n }} GROUP BY ?n"""
    rows = tw.run(
        tw.read(spark, str(file), stream=S), named, static='<http://ex/n3> <http://ex/name> "N" .', shards=2
    )
    static = collected(spark, tw.columns(rows, {"n": "string", "c": "int"}), "static", folder, "n", "c")

    (folder / "in").mkdir()
    texts = ["5 <http://ex/a> <http://ex/p> <http://ex/b> .", "1 <http://ex/c> <http://ex/p> <http://ex/d> ."]
    for number, text in enumerate(texts):
        (folder / "in" / f"{number}.txt").write_text(text + "\n")
        time.sleep(1.1)  # files are read in the order of their times
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(folder / "in"))
    split = lines.selectExpr(
        "bigint(split(value, ' ', 2)[0]) * 1000 as time", "split(value, ' ', 2)[1] as value"
    )
    query = f"SELECT ?x FROM STREAM <{E}> [RANGE 3s] WHERE {{ ?x <http://ex/p> ?y }}"
    late = str(folder / "late")
    rows = tw.run(tw.events(split, stream=E, time="time"), query, late=late)
    frames = collected(spark, tw.columns(rows, {"x": "string"}), "frames", folder, "x")
    try:
        tw.events(split, stream=E, payload="time", time="time")
        refused = ""
    except UsageError as error:
        refused = str(error)

    told = collected(spark, tw.read_late(spark, late), "late", folder, "stream", "event")
    return {
        "files": [row[1:] for row in files],
        "static": static,
        "frames": frames,
        "late": told,
        "refused": refused,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
