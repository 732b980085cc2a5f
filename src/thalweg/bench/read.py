"""The suite of readers: every format on one core, next to pyoxigraph and rdflib on the same bytes."""

from __future__ import annotations

import bz2
import gzip
import io
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
from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, lay_out
from thalweg.io.files import read_events
from thalweg.lang import parse
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.prune import Prune, Signature

_RDFLIB_TRIPLES = 20_000
_LAPS = 3
_NOTHING = Prune.of([Signature(None, b"<http://nowhere>", None)])


@dataclass(frozen=True)
class Sample:
    """The same triples in a format, the parser of pyoxigraph for it, and rdflib's name of it."""

    format: str
    suffix: str
    make: Callable[[list[ox.Triple]], bytes]
    rival: ox.RdfFormat | None = None
    rdflib: str | None = None
    target: float | None = None
    """How many times the rate of pyoxigraph's parser is wanted."""


def _in_graphs(triples: list[ox.Triple], size: int = 1000) -> list[ox.Quad]:
    """The triples in named graphs, each with its time."""
    quads = []
    stamp = ox.NamedNode("http://www.w3.org/ns/prov#generatedAtTime")
    for start in range(0, len(triples), size):
        graph = ox.NamedNode(f"http://example.org/graph/{start}")
        quads.append(ox.Quad(graph, stamp, ox.Literal(str(start))))
        quads += [ox.Quad(t.subject, t.predicate, t.object, graph) for t in triples[start : start + size]]
    return quads


def _serialised(format: ox.RdfFormat, graphs: bool = False) -> Callable[[list[ox.Triple]], bytes]:
    def make(triples: list[ox.Triple]) -> bytes:
        return ox.serialize(_in_graphs(triples) if graphs else triples, format=format) or b""

    return make


def _patch(triples: list[ox.Triple]) -> bytes:
    """A patch that inserts the triples, a hundred in a transaction, and deletes a fifth of them again."""
    out = io.BytesIO()
    lines = (ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES) or b"").splitlines()
    for start in range(0, len(lines), 100):
        part = lines[start : start + 100]
        out.write(b"TX .\n" + b"".join(b"A " + line + b"\n" for line in part))
        out.write(b"".join(b"D " + line + b"\n" for line in part[::5]) + b"TC .\n")
    return out.getvalue()


SAMPLES = (
    Sample("nt", ".nt", _serialised(ox.RdfFormat.N_TRIPLES), ox.RdfFormat.N_TRIPLES, "nt", 5),
    Sample("nq", ".nq", _serialised(ox.RdfFormat.N_QUADS, graphs=True), ox.RdfFormat.N_QUADS, "nquads", 5),
    Sample("turtle", ".ttl", _serialised(ox.RdfFormat.TURTLE), ox.RdfFormat.TURTLE, "turtle", 1),
    Sample("trig", ".trig", _serialised(ox.RdfFormat.TRIG, graphs=True), ox.RdfFormat.TRIG, "trig", 1),
    Sample("n3", ".n3", _serialised(ox.RdfFormat.TURTLE), ox.RdfFormat.N3, "n3"),
    Sample("rdfxml", ".rdf", _serialised(ox.RdfFormat.RDF_XML), ox.RdfFormat.RDF_XML, "xml"),
    Sample("jsonld", ".jsonld", _serialised(ox.RdfFormat.JSON_LD), ox.RdfFormat.JSON_LD, "json-ld"),
    Sample("rdfp", ".rdfp", _patch),
)


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


def _read(path: Path, prune: Prune, format: str | None = None) -> int:
    events = read_events([path], STREAM, Arena(), prune, RunOptions(format=format))
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
        rival = sample.rival
        own = _seconds(lambda: [None for _ in ox.parse(content, format=rival)])
        report.add(
            sample.format,
            "against pyoxigraph.parse",
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
