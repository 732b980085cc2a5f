"""The stock and smart grid suites: charts, and a rival that cannot be run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from thalweg import bench
from thalweg.bench import smartgrid, stock, stock_rival
from thalweg.bench.charts import write_charts
from thalweg.bench.report import Report
from thalweg.errors import UsageError
from thalweg.lang import parse

TINY = stock.Sizes(events=60, widths=(10, 20), companies=(1, 5), atoms=(3,), operands=(2, 3), repeat=1)


def test_charts_are_drawn_of_all_comparisons(tmp_path: Path) -> None:
    report = stock.run(sizes=TINY)
    paths = write_charts(report.charts, tmp_path / "plots")
    assert len(paths) == len({path.name for path in paths}) == 8
    for path in paths:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert "Kleene +" in (tmp_path / "plots" / "figure-9-15-unary-operators.svg").read_text()


def test_longer_and_branching_queries_are_sequences() -> None:
    for text in (stock.longer_query(",", 12, 10), stock.branching_query("<>", 8, 10)):
        assert parse(text).language == "SPAseq"


def test_a_rival_that_cannot_be_run_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stock_rival.shutil, "which", lambda tool: None)
    report = Report("stock")
    stock_rival.measure(report, [(0, 1)], (10,), lambda operator, width: (1.0, 0, 0))
    assert not report.figures
    assert "mvn is not installed" in capsys.readouterr().err


def test_a_suite_without_rivals_refuses_them() -> None:
    with pytest.raises(UsageError, match="--rivals is for stock"):
        bench.run("lubm", rivals=True)


def test_smart_grid_sensors_are_generated_where_there_are_no_files(tmp_path: Path) -> None:
    found, source = smartgrid.sensors(tmp_path / "power.csv", 2_000)
    assert source == "generated sensors"
    assert 1_900 < sum(len(one.seconds) for one in found.values()) < 2_100
