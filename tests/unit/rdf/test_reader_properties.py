"""The reader against pyoxigraph, against garbage, and against itself."""

from __future__ import annotations

import random
import re

import pytest
from documents import documents, lines, oracle, read, statements
from hypothesis import given
from hypothesis import strategies as st

from thalweg.lines import count
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.grammar import Malformed, statement
from thalweg.rdf.ntriples import GENERATED_AT, LineReader
from thalweg.rdf.prune import Prune, Signature
from thalweg.testing.strategies import BUILT_IN, LINE_ENDS, close_iris, sized_iris


@pytest.mark.parametrize("syntax", ["nt", "nq"])
@given(data=st.data())
def test_it_reads_the_statements_that_pyoxigraph_reads(syntax: str, data: st.DataObject) -> None:
    document = data.draw(documents(syntax))
    chunk, found = read(document, syntax)
    assert chunk.rejects == ()
    assert found == oracle(document, syntax)
    assert chunk.statements == len(found)
    assert chunk.number.tolist() == list(range(len(found)))


def verdict(line: bytes, syntax: str) -> bytes | Malformed:
    """What the complete path says of a line."""
    try:
        return statement(line, quads=syntax == "nq")
    except Malformed as fault:
        return fault


@pytest.mark.parametrize("syntax", ["nt", "nq"])
@given(data=st.data())
def test_both_paths_agree_on_every_line(syntax: str, data: st.DataObject) -> None:
    line = data.draw(lines(syntax).map(lambda text: text.rstrip("\r\n").encode()))
    if data.draw(st.booleans()) and line:
        # A wound: some bytes cut out, put in or replaced.
        at = data.draw(st.integers(0, len(line) - 1))
        line = line[:at] + data.draw(st.binary(max_size=2)) + line[at + data.draw(st.integers(0, 2)) :]
    line = re.sub(rb"[\r\n]", b"", line)
    if not line.strip(b" \t") or line.lstrip(b" \t").startswith(b"#"):
        return
    chunk, found = read(line, syntax)
    canonical = verdict(line, syntax)
    if isinstance(canonical, Malformed):
        assert (chunk.statements, len(chunk.rejects)) == (0, 1)
        assert (chunk.rejects[0].column, chunk.rejects[0].reason) == (canonical.column, canonical.reason)
        return
    assert chunk.rejects == ()
    assert [" ".join(filter(None, row)) + " .\n" for row in found] == [canonical.decode()]
    # Canonical text is a fixed point of both paths.
    assert verdict(canonical.rstrip(b"\n"), syntax) == canonical
    assert read(canonical, syntax)[1] == found


_hostile = st.lists(
    st.sampled_from(
        [
            b"<a:b>",
            b"<http://x",
            b">",
            b'"',
            b'"x"',
            b"\\",
            b"\\u00",
            b"_:",
            b"_:b",
            b".",
            b" ",
            b"\t",
            b"\n",
            b"\r",
        ]
        + [
            b"#",
            b"@",
            b"@en",
            b"^^",
            b"\x00",
            b"\xff",
            b"\xc3",
            b"\xe9\x80",
            b"\xed\xa0\x80",
            b"\xef\xbb\xbf",
        ]
        + [b"<a:b> <a:c> <a:d> .", b"x" * 70, b"\x7f", b"{", b"~"]
    )
    | st.binary(max_size=6),
    max_size=40,
).map(b"".join)


@pytest.mark.parametrize("syntax", ["nt", "nq"])
@given(document=_hostile)
def test_every_line_of_garbage_is_a_statement_or_a_reject(syntax: str, document: bytes) -> None:
    chunk, found = read(document, syntax)
    content = document.removeprefix(b"\xef\xbb\xbf")
    kinds = [line.strip(b" \t") for line in re.split(rb"\r\n|\r|\n", content)]
    spoken = sum(1 for line in kinds if line and not line.startswith(b"#"))
    assert chunk.statements + len(chunk.rejects) == spoken
    assert len(found) == chunk.statements
    for reject in chunk.rejects:
        assert 1 <= reject.line <= len(kinds)
        assert reject.column >= 1
        assert reject.reason


@pytest.mark.parametrize("syntax", ["nt", "nq"])
@given(data=st.data())
def test_a_document_cut_between_lines_gives_the_same_statements(syntax: str, data: st.DataObject) -> None:
    document = data.draw(documents(syntax))
    ends = [match.end() for match in re.finditer(rb"\r\n|\r|\n", document)]
    cuts = sorted(data.draw(st.sets(st.sampled_from(ends), max_size=3))) if ends else []
    arena, whole_arena = Arena(), Arena()

    def reader(arena: Arena) -> LineReader:
        return LineReader(arena, Prune.everything(), syntax=syntax, source="doc", time_predicate=b"")  # type: ignore[arg-type]

    parts = reader(arena)
    found = []
    lines = 0
    for start, end in zip([0, *cuts], [*cuts, len(document)], strict=True):
        chunk = parts.read(document[start:end], offset=start)
        found += statements(chunk, arena)
        lines += chunk.lines
    whole = reader(whole_arena).read(document)
    assert found == statements(whole, whole_arena)
    assert lines == whole.lines


@given(document=documents(), mask=st.sampled_from([0, 1, 7, 255]))
def test_a_weak_hash_changes_no_statement(document: bytes, mask: int) -> None:
    assert read(document, arena=Arena(hash_mask=mask))[1] == read(document)[1]


@given(document=documents("nq"), data=st.data())
def test_pruning_keeps_exactly_what_a_signature_agrees_with(document: bytes, data: st.DataObject) -> None:
    _, every = read(document, "nq")
    signatures = []
    for row in data.draw(st.lists(st.sampled_from(every), max_size=3)) if every else []:
        kept = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
        signatures.append(
            Signature(*[term.encode() if keep else None for term, keep in zip(row, kept, strict=False)])
        )
    chunk, found = read(document, "nq", prune=Prune.of(signatures))
    wanted = [
        (k, row)
        for k, row in enumerate(every)
        if any(
            all(
                part is None or part.decode() == term
                for part, term in zip((one.s, one.p, one.o), row, strict=False)
            )
            for one in signatures
        )
    ]
    assert found == [row for _, row in wanted]
    assert chunk.number.tolist() == [k for k, _ in wanted]
    assert chunk.statements == len(every)


_close = close_iris() | close_iris() | sized_iris()


@st.composite
def close_lines(draw: st.DrawFn) -> bytes:
    """A statement whose terms a kernel may take for others: see `close_iris`."""
    subject, predicate, datatype = draw(_close), draw(_close), draw(_close)
    typed = f'"12"^^<{datatype}>'
    object_ = draw(st.sampled_from([typed, typed, typed, f"<{datatype}>", f'"{datatype}"', '"12"']))
    return f"<{subject}> <{predicate}> {object_} .".encode()


@pytest.mark.parametrize("constant", BUILT_IN)
def test_a_constant_with_one_byte_changed_is_another_term(constant: str) -> None:
    scheme = constant.index(":") + 1
    close = [constant[:at] + "Z" + constant[at + 1 :] for at in range(scheme, len(constant))]
    close += [constant[:at] + "Z" * (len(constant) - at - 8) + constant[-8:] for at in (scheme, 8, 16)]
    document = "".join(f'<{iri}> <{iri}> "12"^^<{iri}> .\n' for iri in close).encode()
    for time in (b"", GENERATED_AT):
        chunk, found = read(document, "nq", time_predicate=time)
        assert chunk.rejects == ()
        assert found == oracle(document, "nq")
        assert (chunk.time == NO_TIME).all()


@given(texts=st.lists(close_lines(), min_size=1, max_size=12), time=st.sampled_from([b"", GENERATED_AT]))
def test_terms_close_to_what_a_kernel_compares_are_read_as_pyoxigraph_reads_them(
    texts: list[bytes], time: bytes
) -> None:
    expected, refused = [], []
    for number, text in enumerate(texts, 1):
        try:
            [row] = oracle(text, "nq")
        except SyntaxError:
            refused.append((number, "rdf:langString"))
            continue
        if row[1] == time.decode() and not row[2].startswith('"12"'):
            refused.append((number, "not a time"))
        else:
            expected.append(row)
    chunk, found = read(b"\n".join(texts), "nq", time_predicate=time)
    assert found == expected
    assert [reject.line for reject in chunk.rejects] == [number for number, _ in refused]
    assert all(why in reject.reason for reject, (_, why) in zip(chunk.rejects, refused, strict=True))
    assert (chunk.time != NO_TIME).tolist() == [row[1] == time.decode() for row in found]


@given(texts=st.lists(close_lines(), min_size=1, max_size=12), data=st.data())
def test_pruning_distinguishes_terms_that_differ_in_one_byte(texts: list[bytes], data: st.DataObject) -> None:
    document = b"\n".join(texts)
    _, every = read(document)
    wanted = {row[1] for row in data.draw(st.lists(st.sampled_from(every), max_size=2)) if every}
    signatures = [Signature(None, predicate.encode(), None) for predicate in wanted]
    assert read(document, prune=Prune.of(signatures))[1] == [row for row in every if row[1] in wanted]


@given(parts=st.lists(st.sampled_from([b"<a:s> <a:p> <a:o> .", b"bad", *LINE_ENDS]), max_size=30))
def test_the_kernel_counts_the_line_ends_that_everything_else_counts(parts: list[bytes]) -> None:
    document = b"".join(parts)
    chunk, _ = read(document)
    assert chunk.lines == count(document) + (document[-1:] not in (b"", b"\r", b"\n"))
    assert chunk.lines == len(document.splitlines())


@pytest.mark.parametrize("end", LINE_ENDS)
def test_a_large_piece_is_read_in_place_whatever_ends_its_lines(end: bytes) -> None:
    reader = LineReader(Arena(), Prune.everything(), syntax="nt", source="doc")
    before = reader._pad.size
    lines = [b"<a:s> <a:p> <a:%d> ." % k if k % 100 else b"bad" for k in range(20_000)]
    chunk = reader.read(end.join(lines) + end)
    assert (chunk.statements, chunk.lines) == (19_800, 20_000)
    assert [reject.line for reject in chunk.rejects] == list(range(1, 20_000, 100))
    assert reader._pad.size == before, "only the end of a piece is copied"


_SEEDS = [
    b"<http://www.University0.edu/s> <http://ex.org/p> <http://ex.org/o> .",
    b'<http://ex.org/s> <http://ex.org/p> "a string that is longer than a block of 64 bytes: now"@en .',
    b'<http://ex.org/\\u00e9> <http://ex.org/p> "esc\\"aped \\u0041\\U0001F600 \\n"^^<http://ex.org/t> .',
    '_:b1 <http://ex.org/p> "ж日本 \u00e9\U0001f600"@ru-RU <http://ex.org/g> . # so'.encode(),
    b'_:b2 <http://ex.org/p> "5"^^<http://www.w3.org/2001/XMLSchema#string> _:g .',
    b"# nothing but a comment",
    b"",
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mask", [-1, 7])
def test_a_large_document_of_wounded_lines_is_read_line_by_line(seed: int, mask: int) -> None:
    dice = random.Random(seed)
    lines = []
    for _ in range(1500):
        line = bytearray(dice.choice(_SEEDS))
        for _ in range(dice.choice([0, 0, 0, 1, 2])):
            at = dice.randrange(len(line) + 1)
            line[at : at + dice.randrange(3)] = bytes(
                dice.choices(b'<>" \\.u@^_:\x00\x7f\xc3\xa9\xf0#aZ', k=dice.randrange(3))
            )
        lines.append(bytes(line))
    expected = []
    refused = []
    for number, line in enumerate(lines, 1):
        if not line.strip(b" \t") or line.lstrip(b" \t").startswith(b"#"):
            continue
        found = verdict(line, "nq")
        if isinstance(found, Malformed):
            refused.append((number, found.column, found.reason))
        else:
            expected.append(found.decode())
    chunk, rows = read(b"\n".join(lines), "nq", arena=Arena(hash_mask=mask))
    assert [" ".join(filter(None, row)) + " .\n" for row in rows] == expected
    assert [(reject.line, reject.column, reject.reason) for reject in chunk.rejects] == refused
    assert chunk.number.tolist() == list(range(len(expected)))
    assert len(expected) > 500
    assert len(refused) > 100
