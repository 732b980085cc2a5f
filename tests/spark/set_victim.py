"""A driver with a set of queries that is there to be killed, or to lose its executors.

    python -m tests.spark.set_victim FOLDER MASTER

The folder holds `in.nt` and the orders; the checkpoint and the results go there as well.
"""

from __future__ import annotations

import sys

from tests.spark.victim import SHARDS, STREAM


def main(folder: str, master: str) -> None:
    import thalweg as tw

    spark = tw.spark.session(
        "thalweg-set-victim",
        cores=2,
        shards=SHARDS,
        spark__master=master,
        spark__sql__streaming__minBatchesToRetain="5",
    )
    events = (
        spark.readStream.format("rdf")
        .options(stream=STREAM, endOfStream="true", maxBytesPerTrigger="2k", pieceBytes="1k")
        .load(f"{folder}/in.nt")
    )
    orders = tw.spark.QuerySet(f"{folder}/orders").read(spark)
    query = (
        tw.spark.run_set(events, orders, shards=SHARDS, static=f"{folder}/static.nt")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/out")
    )
    query.awaitTermination()
    steps = query.recentProgress
    replayed = [
        step.observedMetrics["thalweg"]["replayed"] for step in steps if "thalweg" in step.observedMetrics
    ]
    print("replayed", *replayed)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
