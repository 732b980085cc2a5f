"""The suite of readers: every format on one core, next to pyoxigraph, rdflib and pyjelly on the same bytes."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyoxigraph as ox
from numba import njit

from thalweg.bench.lubm import NAMES, prune_for, query_text
from thalweg.bench.read_samples import SAMPLES, TAXI_COLUMNS, TAXI_MAPPING, Sample
from thalweg.bench.report import Report
from thalweg.bench.taxi import rows_of
from thalweg.bench.workload import STREAM, lay_out
from thalweg.io.files import read_events
from thalweg.lang import parse
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.mapping import Mapping
from thalweg.rdf.prune import Prune, Signature

_RDFLIB_TRIPLES = 20_000
_LAPS = 3
_NOTHING = Prune.of([Signature(None, b"<http://nowhere>", None)])


@dataclass(frozen=True)
class Sizes:
    """How much is read."""

    triples: int = 300_000


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite."""
    report = Report("read")
    sizes = sizes or Sizes(50_000 if quick else Sizes.triples)
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        plain = Path(folder) / "lubm.nt"
        lay_out(data, plain, sizes.triples)
        triples = list(ox.parse(plain.read_bytes(), format=ox.RdfFormat.N_TRIPLES))
        for sample in SAMPLES:
            formats(report, sample, [quad.triple for quad in triples], Path(folder))
        rows(report, data, sizes.triples // 8, Path(folder))
        share_of_a_pass(report, plain)
        compressions(report, plain)
    return report


def _seconds(work: Callable[[], object]) -> float:
    """The least time of this process over some laps: other load can only add to it."""
    times = []
    for _ in range(_LAPS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def _read(path: Path, prune: Prune, format: str | None = None, mapping: Mapping | None = None) -> int:
    events = read_events([path], STREAM, Arena(), prune, RunOptions(format=format, mapping=mapping))
    for _ in events:
        pass
    return events.statements


def formats(report: Report, sample: Sample, triples: list[ox.Triple], folder: Path) -> None:
    """One format: all triples kept, next to other parsers on the same bytes."""
    content = sample.make(triples)
    path = folder / f"sample{sample.suffix}"
    path.write_bytes(content)
    statements = _read(path, Prune.everything(), sample.format)
    seconds = _seconds(lambda: _read(path, Prune.everything(), sample.format))
    rate = statements / seconds
    report.add(
        sample.format,
        "everything kept",
        rate / 1e6,
        "M triples/s",
        note=f"{len(content) / seconds / 1e6:.0f} MB/s",
    )
    if sample.rival is not None:
        rival, parse_all = sample.rival
        own = _seconds(lambda: parse_all(content))
        report.add(
            sample.format,
            f"against {rival}",
            own / seconds,
            "x",
            target=sample.target,
            note=f"{statements / own / 1e6:.2f} M triples/s, {len(content) / own / 1e6:.0f} MB/s",
        )
    if sample.rdflib is not None:
        part = sample.make(triples[:_RDFLIB_TRIPLES])
        begin = time.process_time()
        _rdflib(part, sample.rdflib)
        slow = (time.process_time() - begin) / min(len(triples), _RDFLIB_TRIPLES)
        report.add(
            sample.format, "against rdflib", slow * rate, "x", note=f"{1 / slow / 1e6:.3f} M triples/s"
        )


def rows(report: Report, data: Path | None, count: int, folder: Path) -> None:
    """Taxi trips by a mapping, as CSV and as JSON: eight triples a row."""
    mapping = Mapping(TAXI_MAPPING)
    trips = list(rows_of(data, count))
    texts = {
        "csv": "".join(",".join(trip[:17]) + "\n" for trip in trips),
        "json-rows": "".join(
            json.dumps(dict(zip(TAXI_COLUMNS, trip, strict=False))) + "\n" for trip in trips
        ),
    }
    for format, text in texts.items():
        path = folder / f"trips.{format}"
        path.write_text(text, encoding="utf-8")
        statements = _read(path, Prune.everything(), format, mapping)
        seconds = _seconds(
            lambda path=path, format=format: _read(path, Prune.everything(), format, mapping)  # type: ignore[misc]
        )
        report.add(
            format,
            "everything kept",
            statements / seconds / 1e6,
            "M triples/s",
            target=1 if format == "csv" else None,
            note=f"{len(text) / seconds / 1e6:.0f} MB/s",
        )


def _rdflib(content: bytes, name: str) -> None:
    import rdflib

    # rdflib closes a default graph that it was not given.
    graph = rdflib.Dataset() if name in ("nquads", "trig", "json-ld") else rdflib.Graph()
    graph.parse(data=content, format=name)


@njit
def _classes(data: np.ndarray, table: np.ndarray) -> int:  # pragma: no cover - compiled
    """The least that a reader does which looks at each byte: its class."""
    total = 0
    for byte in data:
        total += table[byte]
    return total


def share_of_a_pass(report: Report, plain: Path) -> None:
    """N-Triples against one bare pass over the bytes: what reading could reach at most."""
    content = plain.read_bytes()
    data = np.frombuffer(content, np.uint8)
    table = np.arange(256)
    _classes(data, table)
    bare = len(content) / _seconds(lambda: [_classes(data, table) for _ in range(10)]) * 10
    report.add("one pass over the bytes", "the class of each byte", bare / 1e9, "GB/s")
    prunes = {"nothing kept": _NOTHING, "everything kept": Prune.everything()}
    prunes |= {f"pruned for {name}": prune_for(parse(query_text(name, ""))) for name in NAMES[:3]}
    for name, prune in prunes.items():
        rate = len(content) / _seconds(lambda prune=prune: _read(plain, prune))  # type: ignore[misc]
        report.add(
            "one pass over the bytes", name, 100 * rate / bare, "% of it", note=f"{rate / 1e6:.0f} MB/s"
        )


def compressions(report: Report, plain: Path) -> None:
    """Compressed N-Triples: the time of the decompressor alone, and with the reading."""
    content = plain.read_bytes()
    packed = {
        "gz": gzip.compress(content, 6),
        "zst": pa.compress(content, codec="zstd", asbytes=True),
        "bz2": bz2.compress(content),
    }
    alone: dict[str, Callable[[], object]] = {
        "gz": lambda: gzip.decompress(packed["gz"]),
        "zst": lambda: pa.decompress(packed["zst"], len(content), codec="zstd", asbytes=True),
        "bz2": lambda: bz2.decompress(packed["bz2"]),
    }
    reading = _seconds(lambda: _read(plain, _NOTHING))
    for suffix, data in packed.items():
        path = plain.with_name(f"lubm.nt.{suffix}")
        path.write_bytes(data)
        whole = _seconds(lambda path=path: _read(path, _NOTHING))  # type: ignore[misc]
        unpacking = _seconds(alone[suffix])
        report.add(
            "compressed",
            f".{suffix}",
            len(content) / whole / 1e6,
            "MB/s of text",
            note=f"Python's own decompressor alone {len(content) / unpacking / 1e6:.0f}, "
            f"reading alone {len(content) / reading / 1e6:.0f}",
        )
