"""The first minute's compiler: `python -m thalweg.warmup` fills Numba's cache on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

PACKAGE = Path(__file__).parent


def drop_stale_kernels(package: Path = PACKAGE) -> int:
    """Remove Numba's cached machine code if a kernel file is newer; the number of files removed.

    Numba looks only at the file of the function itself, so a kernel that calls a changed kernel of another
    file would keep the old code inlined. Dropping everything is cheap next to such a surprise.
    """
    indexes = list(package.rglob("*.nbi"))
    sources = list((package / "kernels").glob("*.py"))
    if not indexes or not sources:
        return 0
    if max(map(_changed, sources)) <= min(map(_changed, indexes)):
        return 0
    stale = [*indexes, *package.rglob("*.nbc")]
    for file in stale:
        file.unlink(missing_ok=True)
    return len(stale)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another process swept it between listing and looking
        return float("inf")


# Together they take every way through the kernels: each window, each view, joins on all sides.
_FORMS = (
    "SELECT * FROM STREAM <{stream}> WHERE {{ {body} }}",
    "SELECT DISTINCT * FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} }}",
    "CONSTRUCT {{ _:b <urn:p> ?x }} FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} }}",
    "SELECT * FROM STREAM <{stream}> [NOW] WHERE {{ {body} }}",
    "SELECT * FROM STREAM <{stream}> [ELEMENTS 3 STEP 2] WHERE {{ {body} }}",
    "REGISTER RSTREAM <urn:out> AS SELECT * FROM STREAM <{stream}> [RANGE 2s STEP 1s] WHERE {{ {body} }}",
    "REGISTER ISTREAM <urn:out> AS SELECT * FROM STREAM <{stream}> [RANGE 1s STEP 1s] WHERE {{ {body} }}",
    "REGISTER DSTREAM <urn:out> AS SELECT * FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} }}",
)
_BODIES = (
    "?x <urn:p> ?y . ?y <urn:p> ?z . ?z <urn:p> ?x",
    "?x <urn:p> ?y . ?x ?q <urn:a> . ?u <urn:p> ?u",
)


def main() -> None:
    """Run small streams through every door once."""
    from thalweg.engine import Session
    from thalweg.io.files import ReadOptions, read_events
    from thalweg.rdf.arena import Arena
    from thalweg.rdf.chunk import Chunk
    from thalweg.rdf.ntriples import Reader
    from thalweg.testing.generate import GENERATED_AT, XSD

    begin = time.monotonic()
    drop_stale_kernels()
    triples = [f"<urn:{s}> <urn:p> <urn:{o}> .\n" for s, o in ("ab", "bc", "ca", "aa")]
    triples += ['<urn:a> <urn:p> "\\u00e9"@en .\n', "_:b <urn:p> <urn:a> .\n", "this is no triple\n"]
    stamp = f'<urn:g> {GENERATED_AT} "1970-01-01T00:00:05Z"^^<{XSD}dateTime> .\n'
    with tempfile.TemporaryDirectory() as name:
        plain, quads = Path(name) / "a.nt", Path(name) / "b.nq"
        plain.write_text("".join(triples * 3), encoding="utf-8")
        quads.write_text(
            stamp + "".join(t.replace(" .\n", " <urn:g> .\n") for t in triples), encoding="utf-8"
        )
        for path, options in (
            (plain, ReadOptions()),
            (plain, ReadOptions(per_event=3, blank_nodes="stable")),
            (quads, ReadOptions()),
        ):
            session = Session()
            stream = path.as_uri()
            asked = [session.register(form.format(stream=stream, body=b)) for form in _FORMS for b in _BODIES]
            for batch in read_events([path], stream, session.arena, session.prune(), options):
                session.push_events(batch)
            session.push(stream, at=6_000, graph="".join(triples[:4]))
            session.advance(7_000)
            session.finish(drain=True)
            for query in asked:
                query.poll()
            packer = Arena()
            chunk = Reader(packer, session.prune(), syntax="nt", source=stream).read(plain.read_bytes())
            Chunk.unpack(chunk.pack(packer), session.arena)
            packer.compact(chunk.s)
    print(f"Kernels are ready ({time.monotonic() - begin:.0f} s).")


if __name__ == "__main__":
    main()
