"""The suite of static data: loading them, starting again with the cache, and what they cost the streams beside them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Encoded, Rounds, chunks, power_of_ten
from thalweg.rdf.formats import format_named
from thalweg.static.data import StaticData
from thalweg.static.document import UNNAMED
from thalweg.static.files import open_document

_SHOP = "http://thalweg.dev/shop/"
_VALUES, _PRODUCTS = 50_021, 5_000


@dataclass(frozen=True)
class Sizes:
    """Triples that are loaded; static triples beside a stream, and triples of the stream."""

    loaded: int = 10_000_000
    static: int = 100_000
    stream: int = 400_000


QUICK = Sizes(loaded=1_000_000, stream=100_000)


def products(count: int) -> Iterator[str]:
    """Triples of products, five of each."""
    for number in range(count):
        yield (f"<{_SHOP}product/{number // 5}> <{_SHOP}p{number % 5}> <{_SHOP}value/{number % _VALUES}> .\n")


def offers(count: int) -> Iterator[str]:
    """Triples of offers: a product, and a vendor."""
    for number in range(count // 2):
        product, vendor = number * 7919 % _PRODUCTS, number % 500
        yield f"<{_SHOP}offer/{number}> <{_SHOP}product> <{_SHOP}product/{product}> .\n"
        yield f"<{_SHOP}offer/{number}> <{_SHOP}vendor> <{_SHOP}vendor/{vendor}> .\n"


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark. `data` is a file of N-Triples to load."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("static")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        load(report, data, Path(folder), sizes.loaded)
    beside(report, sizes.static, sizes.stream)
    return report


def load(report: Report, data: Path | None, folder: Path, count: int) -> None:
    """Seconds and bytes of a load, and the seconds of a second start with the cache."""
    path = data or folder / "products.nt"
    if data is None:
        with path.open("w") as file:
            file.writelines(products(count))
    nt, cache = format_named("nt"), folder / "cache"
    taken, worked = [], []
    for _ in range(2):
        begin, begun = time.perf_counter(), time.process_time()
        document = open_document(path, nt, cache)
        taken.append(time.perf_counter() - begin)
        worked.append(time.process_time() - begun)
    name = f"{power_of_ten(len(document))} triples"
    report.add(
        "load",
        name,
        len(document) / taken[0] / 1e6,
        "M triples/s",
        note=f"{taken[0]:.2f} s, {worked[0]:.2f} s of CPU; cache written",
    )
    report.add(
        "load",
        f"{name}, with the cache",
        taken[1],
        "s",
        note=f"mapped, checksums read; {worked[1]:.2f} s of CPU",
    )
    report.add(
        "load", f"{name}, memory", document.nbytes / len(document), "bytes a triple", target=100, at_most=True
    )


def beside(report: Report, static: int, count: int, repeat: int = 15) -> None:
    """How much slower a stream is beside static data that its query can see and that it rarely joins."""
    stream = Encoded(chunks(offers(count)))
    text = f"PREFIX : <{_SHOP}> SELECT ?o ?v FROM STREAM <{STREAM}> [RANGE 10000] {{ ?o :product ?p . ?o :vendor ?v }}"
    lines = "".join(
        f"<{_SHOP}old/{k}> <{_SHOP}product> <{_SHOP}product/{k % _PRODUCTS}> .\n" for k in range(static)
    )
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        path = Path(folder) / "old.nt"
        path.write_text(lines)
        data = StaticData()
        data.load(open_document(path, format_named("nt"), None), UNNAMED, replace=False)
    run_ = partial(stream.run, [text], tail=count // 2, warm=count // 4, clock=time.process_time)
    rounds = Rounds([run_, partial(run_, static=data)], repeat)
    without, beside_it = rounds.best
    report.add(
        "beside",
        f"loss with {power_of_ten(static)} static triples",
        100 * (1 - rounds.ratio(0, 1)),
        "%",
        target=10,
        at_most=True,
        note=f"median of {repeat} rounds; at best {1e-6 / beside_it.a_triple:.2f} against "
        f"{1e-6 / without.a_triple:.2f} M triples/s",
    )
