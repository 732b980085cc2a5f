"""Benchmarks that a user can run: figures as a table and as JSON, rivals measured in the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from thalweg.bench.report import Report
from thalweg.errors import UsageError


def suites() -> dict[str, Callable[..., Report]]:
    """The suites by name."""
    from thalweg.bench import (
        algebra,
        dynamic,
        lubm,
        memory,
        offers,
        read,
        seas,
        snb,
        spark,
        static,
        stock,
        taxi,
    )

    return {
        module.__name__.rsplit(".", 1)[1]: module.run
        for module in (
            lubm,
            read,
            seas,
            taxi,
            snb,
            dynamic,
            algebra,
            offers,
            stock,
            memory,
            offers,
            static,
            spark,
        )
    }


def run(suite: str, *, data: Path | None = None, quick: bool = False, spark: bool = True) -> Report:
    """Runs a suite; `quick` takes less data, `data` is a file to use in place of the generated one."""
    known = suites()
    if suite not in known:
        raise UsageError(f"no benchmark {suite!r}: there is {', '.join(sorted(known))}")
    return known[suite](data=data, quick=quick, spark=spark)
