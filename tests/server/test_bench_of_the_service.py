"""The suite `service` on tiny data: every figure is a number."""

from __future__ import annotations

import math

import pytest

from thalweg.bench import service


@pytest.mark.soak
def test_the_suite_gives_finite_figures() -> None:
    report = service.run(
        sizes=service.Sizes(batch=100, batches=3, single=10, messages=400, seconds=0.2, queries=20, shapes=4)
    )
    assert {figure.group for figure in report.figures} == {"throughput", "latency", "many queries"}
    assert all(math.isfinite(figure.value) for figure in report.figures)
