"""The first minute's compiler: `python -m thalweg.warmup` fills Numba's cache on disk."""

from __future__ import annotations

import ast
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent


def drop_stale_kernels(package: Path = PACKAGE) -> int:
    """Remove the cached machine code that changed kernel files made stale; the number of files removed.

    Numba looks only at the file of the function itself, so a kernel that calls a changed kernel of another file would
    keep the old code inlined. Dropped are the caches of modules that import a changed one, directly or not.
    """
    cached: dict[str, list[Path]] = {}
    for pattern in ("*.nbi", "*.nbc"):
        for file in package.rglob(pattern):
            cached.setdefault(file.name.split(".")[0], []).append(file)
    changed = {file.stem: _changed(file) for file in (package / "kernels").glob("*.py")}
    oldest = {module: min(map(_changed, files)) for module, files in cached.items()}
    if not oldest or max(changed.values(), default=0.0) <= min(oldest.values()):
        return 0
    imports = kernel_imports(package / "kernels")
    dropped = 0
    for module, files in cached.items():
        sources = _reachable(module, imports)
        if not sources or max(changed[source] for source in sources) > oldest[module]:
            for file in files:
                file.unlink(missing_ok=True)
            dropped += len(files)
    return dropped


def kernel_imports(folder: Path) -> dict[str, set[str]]:
    """For each kernel module the kernel modules that it imports itself."""
    modules = {file.stem: ast.parse(file.read_text(encoding="utf-8")) for file in folder.glob("*.py")}
    return {name: set(_imported(tree)) & modules.keys() for name, tree in modules.items()}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            if node.level == 1 and node.module:
                yield module[0]
            elif node.level == 1 or module == ["thalweg", "kernels"]:
                yield from (alias.name for alias in node.names)
            elif module[:2] == ["thalweg", "kernels"]:
                yield module[2]
        elif isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            yield from (name[2] for name in names if name[:2] == ["thalweg", "kernels"] and len(name) > 2)


def _reachable(module: str, imports: dict[str, set[str]]) -> set[str]:
    """A module and all that it imports, directly or not; nothing if there is no such module any more."""
    found: set[str] = set()
    waiting = {module} & imports.keys()
    while waiting:
        found |= waiting
        waiting = set().union(*(imports[one] for one in waiting)) - found
    return found


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
    "SELECT * FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} OPTIONAL {{ ?x <urn:q> ?o }} VALUES ?x {{ 1 2 }} }}",
    "SELECT * FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} . ?x <urn:p>+ ?w . ?v (<urn:p>|<urn:q>)+ ?r }}",
    "SELECT ?x (SUM(?y) AS ?s) (MIN(?y) AS ?m) FROM STREAM <{stream}> [RANGE 1s] WHERE {{ {body} }} "
    "GROUP BY ?x ORDER BY ?m LIMIT 2",
)
_MAPPING = """
mappings: {m: {s: "urn:x:$(a)", po: [["urn:x:p", $(a)]]}}
event: {time: $(t), format: epoch-s}
"""
_SCHEMA = """@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
<urn:p> rdfs:subPropertyOf <urn:q> ; rdfs:domain <urn:C> . <urn:C> rdfs:subClassOf <urn:D> .
<urn:q> owl:inverseOf <urn:r> ."""
_CLOSED = "SELECT * FROM STREAM <urn:s> {window} {{ ?x a <urn:D> . ?y <urn:r> ?x }}"
_SEQUENCE = """SELECT * WITHIN 5s FROM STREAM S <urn:s> WHERE { SEQ (A; B+, C; N!; A)
DEFINE GPM A ON S { ?x <urn:p> ?y } DEFINE GPM B ON S { ?y <urn:p> ?z } DEFINE GPM C ON S { ?z <urn:p> ?x }
DEFINE GPM N ON S { ?x <urn:n> ?y } }"""
_SHARED = """SELECT * WITHIN 5s FROM STREAM S <urn:s> WHERE { SEQ (A; B+, C)
DEFINE GPM A ON S { ?x <urn:p> ?a } DEFINE GPM B ON S { ?x <urn:p> ?b } DEFINE GPM C ON S { ?x <urn:p> ?c } }"""
_BODIES = (
    "?x <urn:p> ?y . ?y <urn:p> ?z . ?z <urn:p> ?x",
    "?x <urn:p> ?y . ?x ?q <urn:a> . ?u <urn:p> ?u",
)


def main() -> None:
    """Run small streams through every door once."""
    from thalweg.algebra.expressions import Call, Constant, Variable
    from thalweg.algebra.terms import Const
    from thalweg.engine import Session
    from thalweg.expressions.evaluate import Evaluator
    from thalweg.io.files import read_events
    from thalweg.options import RunOptions
    from thalweg.rdf.arena import Arena
    from thalweg.rdf.chunk import Chunk
    from thalweg.rdf.mapping import Mapping
    from thalweg.rdf.ntriples import LineReader
    from thalweg.rdf.prune import Prune
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
        turtle = Path(name) / "c.ttl"
        turtle.write_text("@prefix : <urn:> . :a :p :b , [ :q ( 1 ) ] . ( :c ) :p 'x' .", encoding="utf-8")
        for path, options in (
            (turtle, RunOptions()),
            (plain, RunOptions()),
            (plain, RunOptions(per_event=3, blank_nodes="stable")),
            (quads, RunOptions()),
        ):
            session = Session()
            stream = path.as_uri()
            asked = [session.register(form.format(stream=stream, body=b)) for form in _FORMS for b in _BODIES]
            for batch in read_events([path], stream, session.arena, session.prune(), options):
                session.push_events(batch)
            asked.append(session.register(_FORMS[0].format(stream=stream, body=_BODIES[0])))  # in mid-stream
            session.push(stream, at=6_000, graph="".join(triples[:4]))
            session.advance(7_000)
            session.finish(drain=True)
            for query in asked:
                query.poll()
            packer = Arena()
            chunk = LineReader(packer, session.prune(), syntax="nt", source=stream).read(plain.read_bytes())
            Chunk.unpack(chunk.pack(packer), session.arena)
            packer.compact(chunk.s)
            number = Constant(Const.literal("1", datatype=f"{XSD}integer"))
            Evaluator(Call(">", (Variable("x"), number)), ["x"], session.arena).holds(chunk.o[:, None])
        rows = Path(name) / "c.csv"
        rows.write_text('t,a\n1,"b"\n', encoding="utf-8")
        mapped = RunOptions(mapping=Mapping(_MAPPING))
        list(read_events([rows], "urn:s", Arena(), Prune.everything(), mapped))
    _closures_and_sequences(triples[:4])
    _messages()
    print(f"Kernels are ready ({time.monotonic() - begin:.0f} s).")


def _closures_and_sequences(triples: list[str]) -> None:
    """Schemas, static data and sequences, with deletes."""
    from thalweg.engine import Session

    session = Session()
    session.load("".join(triples), format="nt")
    asked = [
        session.register(_CLOSED.format(window=window), schema=schema)
        for window in ("[RANGE 1s]", "[NOW]", "[ELEMENTS 3]")
        for schema in (_SCHEMA, None)
    ]
    for at, triple in enumerate(triples, 1):
        session.push("urn:s", at=at, graph=triple)
    session.push("urn:s", at=9, graph=triples[0], op="delete")
    session.finish(drain=True)
    events = Session()
    asked += [events.register(text) for text in (_SEQUENCE, _SHARED)]
    for at, triple in enumerate(triples * 2, 1):
        events.push("urn:s", at=at, graph=triple)
    events.finish(drain=True)
    for query in asked:
        query.poll()


def _messages() -> None:
    """Frames of the service."""
    import numpy as np

    from thalweg.kernels.websocket import take_messages

    data = np.frombuffer(b"\x81\x81abcd ", np.uint8)
    take_messages(data, np.zeros(3, np.int64), 9, 9, True, np.empty(9, np.uint8), np.empty(9, np.int64))


if __name__ == "__main__":
    main()
