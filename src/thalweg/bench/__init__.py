"""Benchmarks that a user can run: figures as a table and as JSON, rivals measured in the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from thalweg.bench.charts import write_charts
from thalweg.bench.report import Report
from thalweg.errors import UsageError

__all__ = ["run", "suites", "write_charts"]

_WITH_RIVALS = ("stock",)


def suites() -> dict[str, Callable[..., Report]]:
    """The suites by name."""
    from thalweg.bench import (
        algebra,
        dynamic,
        lubm,
        memory,
        offers,
        process,
        read,
        seas,
        service,
        smartgrid,
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
            smartgrid,
            memory,
            static,
            process,
            spark,
            service,
        )
    }


def run(
    suite: str, *, data: Path | None = None, quick: bool = False, spark: bool = True, rivals: bool = False
) -> Report:
    """Runs a suite; `quick` takes less data, `data` is a file to use in place of the generated one.

    `rivals` runs other engines, too, which are downloaded for it.
    """
    known = suites()
    if suite not in known:
        raise UsageError(f"no benchmark {suite!r}: there is {', '.join(sorted(known))}")
    if not rivals:
        return known[suite](data=data, quick=quick, spark=spark)
    if suite not in _WITH_RIVALS:
        raise UsageError(f"--rivals is for {' and '.join(_WITH_RIVALS)}: {suite} has no rival to download")
    return known[suite](data=data, quick=quick, spark=spark, rivals=True)
