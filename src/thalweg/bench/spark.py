"""The rate of a query on Spark in its steady state."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from thalweg.bench.workload import STREAM


def spark_rate(plain: Path, folder: Path, text: str, copies: int, batches: int = 3) -> tuple[float, str]:
    """Triples a second over the batches after the first, and a note; the input is `copies` links to one file."""
    import thalweg.spark as on_spark

    source = folder / f"copies-{copies}"
    if not source.exists():
        source.mkdir()
        for number in range(copies):
            os.link(plain, source / f"{number:04d}.nt")
    total = copies * plain.stat().st_size
    told: list[tuple[float, int]] = []
    results = 0

    def count(rows: Any) -> None:
        nonlocal results
        results += sum(1 for _ in rows)

    spark = on_spark.session(cores=2)
    on_spark.run_files(
        text,
        {STREAM: str(source)},
        count,
        spark=spark,
        progress=lambda sums: told.append((time.perf_counter(), int(sums["statements"]))),
        source={"maxBytesPerTrigger": str(total // batches)},
    )
    (begun, before), (ended, after) = told[0], told[-1]
    seconds = ended - begun
    note = f"{len(told) - 1} batches of {(after - before) / max(len(told) - 1, 1) / 1e6:.1f} M triples, {results} rows"
    return (after - before) / seconds if seconds > 0 else float("nan"), note
