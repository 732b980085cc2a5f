"""Each suite runs on tiny data, and every figure of it is a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from thalweg import bench
from thalweg.bench import (
    algebra,
    dynamic,
    hub,
    many,
    memory,
    offers,
    offers_rivals,
    process,
    read,
    reevaluation,
    seas,
    smartgrid,
    snb,
    spark,
    static,
    stock,
    taxi,
)
from thalweg.bench.report import Report
from thalweg.errors import UsageError

TINY = {
    "seas": (seas.run, seas.Sizes(triples=6_000, widths=(100, 1000), tail=2_000, repeat=1)),
    "taxi": (taxi.run, taxi.Sizes(trips=200, pushes=20, rival=5, repeat=1)),
    "snb": (
        snb.run,
        snb.Sizes(triples=6_000, events=(100, 1000), widths=(100, 1000), tail=2_000, rival=1000, repeat=1),
    ),
    "stock": (
        stock.run,
        stock.Sizes(
            events=300, widths=(10,), companies=(1, 10), atoms=(3, 6), operands=(2,), batch=100, repeat=1
        ),
    ),
    "smartgrid": (smartgrid.run, smartgrid.Sizes(events=1_000, widths=(60,), batch=300, repeat=1)),
    "offers": (
        offers.run,
        offers.Sizes(
            offers=400,
            windows=(1,),
            static=(3_000,),
            rival=offers_rivals.Sizes(window=20, reports=2, events=20),
            univ=6_000,
            types=2_000,
            repeat=1,
        ),
    ),
    "static": (static.run, static.Sizes(loaded=2_000, static=1_000, stream=4_000)),
    "process": (process.run, process.Sizes(triples=2_000, grown=5_000, followed=2_000, singles=2, repeat=1)),
    "read": (read.run, read.Sizes(triples=2_000)),
    "spark": (spark.run, spark.Sizes(windows=(1_000, 10_000))),
    "memory": (memory.run, memory.Sizes(triples=8_000, window=2_000, new_terms=60_000, small=1_000)),
    "algebra": (
        algebra.run,
        algebra.Sizes(
            widths=(100, 1000), window=1000, tail=2_000, events=20, reports=1, seas=6_000, repeat=1
        ),
    ),
    "dynamic": (
        dynamic.run,
        dynamic.Sizes(
            triples=6_000,
            window=1_000,
            repeat=1,
            hub=hub.Sizes(edges=1_000, events=40),
            many=many.Sizes(queries=30, window=1_000, triples=3_000, repeat=1),
            reevaluation=reevaluation.Sizes(
                widths=(10, 1000), names=("q2", "q4"), reports=2, events=50, streamed=500, repeat=1
            ),
        ),
    ),
}
GROUPS = {
    "seas": {"sliding window", "sliding window, 20 triples an event", "events"},
    "taxi": {"per event", "latency"},
    "snb": {"large events", "sliding window"},
    "stock": {
        *(f"{many}, {setting}" for many in ("1 company", "10 companies") for setting in stock.SETTINGS),
        *(f"atoms, {setting}" for setting in stock.SETTINGS),
        "unary operators, figure 9.15",
        "conjunction and disjunction, figure 9.16",
        "conjunction of 4, figure 9.19",
        "memory",
    },
    "smartgrid": {"three sensors, figure 9.17", "index of runs, 20 houses, figure 9.18"},
    "offers": {"schema", "inference", "static", "materialising each window", "LUBM ontology", "hierarchy"},
    "static": {"load", "beside"},
    "memory": {"bytes", "ever new terms"},
    "process": {"embedded", "embedded, 5000 triples", "continuous"},
    "read": {
        *(sample.format for sample in read.SAMPLES),
        "csv",
        "json-rows",
        "one pass over the bytes",
        "compressed",
    },
    "spark": {"cached engine"},
    "algebra": {
        "growth",
        "against a basic pattern",
        "re-evaluation by pyoxigraph",
        "bytes",
        "latency",
        "filter of SEAS-Q2",
        "paths",
        "groups",
        "top k",
    },
    "dynamic": {
        "random graph, 20 % deletes",
        "LUBM, 20 % deletes",
        "hub",
        "many queries",
        "bytes",
        "re-evaluation by pyoxigraph",
        "re-evaluation by ourselves",
    },
}


@pytest.fixture(autouse=True)
def nothing_but_generated_data(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (seas, taxi):
        monkeypatch.setattr(module, "find_data", lambda name, given=None: given)


def check(report: Report, groups: set[str]) -> None:
    assert {figure.group for figure in report.figures} == groups
    for figure in report.figures:
        assert math.isfinite(figure.value), figure
        assert figure.unit, figure


@pytest.mark.parametrize("suite", TINY)
def test_a_suite_gives_finite_figures_in_all_its_groups(suite: str, tmp_path: Path) -> None:
    run: Callable[..., Report]
    run, sizes = TINY[suite]
    report = run(quick=True, spark=False, sizes=sizes)
    check(report, GROUPS[suite])
    report.write(tmp_path / "figures.json")
    assert len({(figure.group, figure.name, figure.unit) for figure in report.figures}) == len(report.figures)


def test_real_rows_are_read_where_they_are_given(tmp_path: Path) -> None:
    watts = tmp_path / "power.csv"
    watts.write_text("".join(f"{1_341_446_400 + k},{600 + k}.5\n" for k in range(50)))
    rows = list(seas.rows_of(watts, 70))
    assert rows[0] == (1_341_446_400, 600.5)
    assert rows[50] == (1_341_446_400 + 86_400, 600.5), "a file that is too short is read again, a day later"
    _, sizes = TINY["seas"]
    check(seas.run(data=watts, spark=False, sizes=sizes), GROUPS["seas"])  # type: ignore[arg-type]


def test_every_suite_can_be_called_by_its_name() -> None:
    assert sorted(bench.suites()) == [
        *(
            "algebra",
            "dynamic",
            "lubm",
            "memory",
            "offers",
            "process",
            "read",
            "seas",
            "service",
            "smartgrid",
            "snb",
            "spark",
            "static",
            "stock",
            "taxi",
        ),
    ]
    with pytest.raises(UsageError, match="seas"):
        bench.run("nothing")


def test_the_memory_of_a_million_ever_new_terms_stays_flat() -> None:
    passage = memory.pass_through(1_000_000, 1_000)
    assert passage.rows == 2 * 999_999 - 999, (
        "each pair of neighbours came, and all but the last window's went"
    )
    assert passage.growth(passage.session) <= 5
    assert passage.growth(passage.process) <= 5
    assert max(passage.session) < 20e6
