"""What all tests share: fresh kernels, Hypothesis profiles, and an honest skip where Java is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from thalweg.warmup import drop_stale_kernels

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# `test`, `quick` and `deep` (of `make soak`) are the same on every machine and every day; `search` looks for new
# counterexamples:
# THALWEG_HYPOTHESIS=search THALWEG_EXAMPLES=5000 make test ARGS="tests/property --timeout=0"
for _name, _examples in (("test", 4), ("quick", 4), ("deep", 16)):
    settings.register_profile(
        _name, deadline=None, derandomize=True, max_examples=_examples, suppress_health_check=_SLOW_IS_FINE
    )
settings.register_profile(
    "search",
    deadline=None,
    max_examples=int(os.environ.get("THALWEG_EXAMPLES", "2000")),
    suppress_health_check=_SLOW_IS_FINE,
    print_blob=True,
)
# Shrinking a long example can take minutes: `unshrunk` shows the first one that fails as it is.
settings.register_profile("unshrunk", settings.get_profile("test"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("THALWEG_HYPOTHESIS", "test"))


def pytest_configure(config: pytest.Config) -> None:
    drop_stale_kernels()
    # Java's second compiler takes a fifth of the time of a short run, and does not pay within it.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not has_java():
        skip = pytest.mark.skip(
            reason="Spark needs Java 17 or newer, and there is none on PATH or in JAVA_HOME"
        )
        for item in items:
            if item.get_closest_marker("spark"):
                item.add_marker(skip)


@pytest.fixture
def thalweg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Any:
    """Commands that run in a folder of their own, with a query and a stream."""
    from tests.unit.cli.commands import Commands

    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsysbinary)
