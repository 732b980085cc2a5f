"""A driver that is there to be killed: a query over a file into files, from wherever its checkpoint stands.

    python -m tests.spark.victim FOLDER MASTER

The folder holds `in.nt`, `query.rq` if it is not the usual query, and `static.nt` if there are static data; the
checkpoint and the results go there as well.
A file `break` in it makes one task fail in the middle of a batch (see `Fragile`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

STREAM = "http://ex/s"
TEXT = f"SELECT ?x ?z FROM STREAM <{STREAM}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
STAGED = f"""SELECT ?s (COUNT(?z) AS ?n) (MAX(?z) AS ?m) FROM STREAM <{STREAM}> [RANGE 60]
    WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }} GROUP BY (STRLEN(STR(?x)) AS ?s)"""
"""It has two stages."""
SEQUENCE = f"""SELECT ?x ?y ?z (COUNT(?z) AS ?n) WITHIN 60 MILLISECONDS FROM STREAM S <{STREAM}>
    WHERE {{ SEQ (A ; B+ ; N!)
    DEFINE GPM A ON S {{ ?x <http://ex/p> ?y }} DEFINE GPM B ON S {{ ?x <http://ex/p> ?z }}
    DEFINE GPM N ON S {{ ?x <http://ex/p> ?y }} }}"""
"""Its matches end with the window: the watermark has to pass it."""
BESIDE = f"""SELECT ?x ?z ?n FROM STREAM <{STREAM}> [RANGE 60]
    WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z . ?z <http://ex/name> ?n }}"""
"""It reads static data, too: see `names`."""
SHARDS = 2


def names(last: int) -> bytes:
    """Static data: the names of some nodes of `chain`, and steps that its lines repeat."""
    named = (b'<http://ex/n%d> <http://ex/name> "%d" .\n' % (k, k % 4) for k in range(0, 31, 2))
    return b"".join([*named, chain(0, last)])


def chain(first: int, last: int) -> bytes:
    """Lines of which most have partners, and which come back only after the window has left them."""
    return b"".join(
        b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> .\n" % (k * k % 31, k * 7 % 29)
        for k in range(first, last)
    )


def fragile(folder: str) -> type:
    """A host that fails once for every file `break` that appears: after the engine has taken the batch."""
    from thalweg.spark.host import Host

    class Fragile(Host):
        def _batch(self, *args: Any) -> Iterator[pd.DataFrame]:
            for frame in super()._batch(*args):
                yield frame
                _break_once(Path(folder))

    return Fragile


def _break_once(folder: Path) -> None:
    try:
        (folder / "break").rename(folder / f"broken-{os.getpid()}")
    except FileNotFoundError:
        return
    raise RuntimeError("a test wanted this task to fail")


def main(folder: str, master: str) -> None:
    from thalweg.spark import queries, session

    spark = session(
        "thalweg-victim",
        cores=2,
        shards=SHARDS,
        spark__master=master,
        spark__sql__streaming__minBatchesToRetain="5",
    )
    queries.Host = fragile(folder)  # type: ignore[misc]
    events = (
        spark.readStream.format("rdf")
        .options(stream=STREAM, endOfStream="true", maxBytesPerTrigger="2k", pieceBytes="1k")
        .load(f"{folder}/in.nt")
    )
    given = Path(folder) / "query.rq"
    text = given.read_text() if given.exists() else TEXT
    static = Path(folder) / "static.nt"
    query = (
        queries.run(
            events,
            text,
            shards=SHARDS,
            quarantine=f"{folder}/quarantine",
            static=static if static.exists() else None,
        )
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/out")
    )
    query.awaitTermination()
    steps = [step for step in query.recentProgress if step.numInputRows]
    print("replayed", *(step.observedMetrics["thalweg"]["replayed"] for step in steps), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
