"""One lazy Spark session for all tests of this folder, and small helpers for running a stream to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from thalweg.spark.sessions import session
    from thalweg.spark.source import register

    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = session(
        "thalweg-tests",
        spark__sql__warehouse__dir=str(warehouse),
        spark__sql__streaming__minBatchesToRetain="5",
    )
    register(spark)
    yield spark
    spark.stop()


@pytest.fixture
def lines() -> Callable[[int, int], bytes]:
    """N-Triples lines number `first` to `last - 1`, each one naming its number."""

    def made(first: int, last: int) -> bytes:
        return b"".join(
            b"<http://ex/s%d> <http://ex/p> <http://ex/o%d> .\n" % (k, k) for k in range(first, last)
        )

    return made


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
