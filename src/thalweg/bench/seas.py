"""The SEAS suite: power measurements as a stream, SEAS-Q1 (all) and SEAS-Q2 (selective), windows that slide by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from thalweg.bench.report import Report
from thalweg.bench.workload import Encoded, best_costs, chunks, find_data, flat_cost, query_text, text_rows
from thalweg.testing.generate import TYPE, XSD
from thalweg.testing.generate_rows import power

MEASURES = "http://purl.org/NET/seas/measures#"
NAMES = ("q1", "q2")
PER_ROW = 8
"""Triples of a measurement."""
_FILE = "smarthome/power_2012-07-05.csv.gz"


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: triples of the stream, windows, and the triples that are timed."""

    triples: int = 1_600_000
    widths: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    tail: int = 400_000
    repeat: int = 3


QUICK = Sizes(triples=300_000, widths=(10**3, 10**4, 10**5), tail=100_000, repeat=2)


def observations(rows: Iterable[tuple[int, float]]) -> Iterator[str]:
    """The triples of each row; what the file does not tell of the voltage is derived from the time and the watts."""
    energy = 0.0
    for number, (second, watts) in enumerate(rows):
        energy += watts / 3600
        about = f"<http://thalweg.dev/power/{second}-{number}>"
        crest = 1.1 + (watts % 400) / 1000
        values = {
            "V_RMS": f"{118 + second % 40 / 10:.1f}",
            "V_THD": f"{1.5 + watts % 7 / 10:.2f}",
            "V_CF": f"{crest:.3f}",
            "W": f"{watts:.1f}",
            "Wh": f"{energy:.3f}",
            "DPF": f"{0.8 + watts % 20 / 100:.2f}",
        }
        lines = [f"{about} {TYPE} <http://purl.org/NET/seas#Observation> .\n"]
        lines += [f'{about} <{MEASURES}{name}> "{text}"^^<{XSD}decimal> .\n' for name, text in values.items()]
        lines.append(f'{about} <{MEASURES}time> "{second}"^^<{XSD}long> .\n')
        yield "".join(lines)


def rows_of(data: Path | None, count: int) -> Iterator[tuple[int, float]]:
    """So many rows of the file, again and again with later times; generated ones where there is no file."""
    path = find_data(_FILE, data)
    if path is None:
        yield from power(count)
        return
    day = [(int(float(second)), float(watts)) for second, watts, *_ in text_rows(path)]
    for number in range(count):
        lap, place = divmod(number, len(day))
        yield day[place][0] + 86_400 * lap, day[place][1]


def encoded(data: Path | None, triples: int) -> Encoded:
    """The stream as ids."""
    return Encoded(chunks(observations(rows_of(data, -(-triples // PER_ROW)))))


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("seas")
    stream = encoded(data, sizes.triples)
    for per_event in (1, 20):
        flat_cost(
            report,
            stream,
            "seas",
            NAMES,
            widths=sizes.widths,
            tail=sizes.tail,
            per_event=per_event,
            repeat=sizes.repeat,
        )
    width = sizes.widths[-1]
    for name in NAMES:
        runs = [
            partial(
                stream.run,
                [query_text("seas", name, f"[RANGE {width // per_event}]")],
                tail=sizes.tail,
                warm=width,
                per_event=per_event,
            )
            for per_event in (1, 20)
        ]
        one, twenty = best_costs(runs, sizes.repeat)
        share = 100 * (1 - twenty.a_triple / one.a_triple)
        note = "at the widest window; the paper: 25 - 35 %"
        report.add("events", f"{name}, 20 triples an event", share, "% less time than 1", note=note)
    return report
