"""The command line in small batches, which gets SIGKILL at a point of a batch.

    python -m tests.spark.killed POINT BATCH ARGUMENT...

POINT is `written` (rows are in the outputs, and nothing is noted), `noted` (the outputs are noted, and Spark has not
committed the batch) or `never`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main(point: str, batch: str, *arguments: str) -> None:
    from thalweg import cli
    from thalweg.spark import command
    from thalweg.spark.outputs import Ledger

    note = Ledger.note

    def killed(self: Ledger, number: int) -> None:
        reached = number == int(batch)
        if reached and point == "written":
            os.kill(os.getpid(), signal.SIGKILL)
        note(self, number)
        if reached and point == "noted":
            os.kill(os.getpid(), signal.SIGKILL)

    Ledger.note = killed  # type: ignore[method-assign]
    run_files = command.run_files

    def in_small_batches(*given: Any, **options: Any) -> Any:
        return run_files(*given, **{**options, "source": {"maxBytesPerTrigger": "2k"}})

    command.run_files = in_small_batches
    cli.main(arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
