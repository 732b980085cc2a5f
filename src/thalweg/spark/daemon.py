"""Spark's daemon of Python workers with the engine loaded: every worker that it forks can begin at once.

Spark hands tasks to its workers in turn, so that four or more of them would each load the libraries and the
compiled kernels, in the middle of some batch. Spark runs this file by the setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TEXT = "SELECT * FROM STREAM <urn:s> [RANGE 1s] WHERE { ?x <urn:p> ?y . ?y <urn:p> ?z }"


_frozen: set[int] = set()


def freeze_loaded_objects() -> None:
    """Keep the garbage collector from the objects that this process has loaded; once in a process.

    Spark's workers collect their garbage after every task. All libraries would be searched each time, which takes
    longer than a small batch, and would be copied by it from the pages that the workers share.
    """
    if os.getpid() not in _frozen:
        _frozen.add(os.getpid())
        gc.freeze()


def preload() -> None:
    """Load everything that a task uses, by one small run through all of it."""
    from thalweg.io.job import Job
    from thalweg.spark.encode import encode_piece
    from thalweg.spark.host import Host
    from thalweg.spark.shard_engine import Arrival, ShardEngine
    from thalweg.spark.shard_plan import ShardPlan

    plan = ShardPlan.of(Job.of(_TEXT))
    Host(plan)
    engine = ShardEngine(plan)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.nt"
        file.write_bytes(b"<urn:a> <urn:p> <urn:a> .\n" * 200)
        piece = {
            **{"stream": "urn:s", "path": str(file), "source": "a", "start": 0, "end": file.stat().st_size},
            **{"seq": 0, "syntax": "nt", "last": True},
        }
        for batch in encode_piece(plan.reading, piece):
            row = batch.to_pylist()[0]
            list(engine.batch([Arrival(*(row[name] for name in Arrival._fields))], 0, 0))


def without_broken_pipes(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that prints nothing when Java hangs up, as it does when a query is stopped within a batch."""

    def work(*parts: Any) -> int:
        try:
            return worker(*parts)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # the process ends, and the next task gets another

    return work


if __name__ == "__main__":
    from pyspark import daemon

    daemon.worker = without_broken_pipes(daemon.worker)
    # The same daemon also serves the processes that plan a source: they need none of it.
    if sys.argv[1:] == ["pyspark.worker"]:
        preload()
    gc.collect()
    freeze_loaded_objects()
    daemon.manager()
