"""The line reader: single cases that a property test might pass by."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from documents import EVERYTHING, read, statements

from thalweg.kernels import scan
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.ntriples import GENERATED_AT, LineReader
from thalweg.rdf.prune import Prune, Signature


def reader(arena: Arena, syntax: str = "nt", **options: object) -> LineReader:
    return LineReader(arena, EVERYTHING, syntax=syntax, source="doc", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        (b"<a:s> <a:p> .", 13, "expected an object"),
        (b"<a:s> <a:p> <a:o>", 18, "the line ends here"),
        (b"<a:s> <a:p> <a:o> . <a:x>", 21, "only one statement fits a line"),
        (b"<a:s> <a:p> <a:o> <a:g> .", 19, "expected '.' after the object"),
        (b"<a:s> <a p> <a:o> .", 9, "' ' is not allowed in an IRI"),
        (b"<a:s> <p> <a:o> .", 7, "<p> is not an absolute IRI"),
        (b"<a:s> <a:p> <a:o .", 17, "' ' is not allowed in an IRI"),
        (b"<a:s> <a:p> <a:o", 13, "the IRI has no end"),
        (b"<a:\\u0020> <a:p> <a:o> .", 1, "an escape stands for ' '"),
        (b"<a:s> <a:p> <a:\\n> .", 16, "a malformed escape in an IRI"),
        (b'<a:s> <a:p> "x .', 13, "the literal has no closing quote"),
        (b'<a:s> <a:p> "x\\q" .', 15, "a malformed escape in a literal"),
        (b'<a:s> <a:p> "\\uD800" .', 13, "is not a character"),
        (b'<a:s> <a:p> "\\UFFFFFFFF" .', 13, "is not a character"),
        (b'<a:s> <a:p> "x"@1 .', 16, "a malformed language tag"),
        (b'<a:s> <a:p> "x"@en--ltr .', 16, "a malformed language tag"),
        (b'<a:s> <a:p> "x"^<a:d> .', 16, "expected '^^' before a datatype"),
        (b'<a:s> <a:p> "x"^^a:d .', 18, "expected a datatype"),
        (
            b'<a:s> <a:p> "x"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> .',
            18,
            "needs a language",
        ),
        (b'"x" <a:p> <a:o> .', 1, "expected a subject"),
        (b"<a:s> _:b <a:o> .", 7, "expected a predicate"),
        (b"_:a:b <a:p> <a:o> .", 1, "a malformed blank node label"),
        (b"<a:s> <a:p> _:-b .", 13, "a malformed blank node label"),
        ("<a:é> <a:p> ".encode() + b"\xff .", 13, "not UTF-8: byte 0xFF"),
        (b'<a:s> <a:p> "\xed\xa0\x80" .', 14, "not UTF-8"),
        (b"<a:\x00> <a:p> <a:o> .", 4, "'\\x00' is not allowed in an IRI"),
        (b"\xef\xbb\xbf\xef\xbb\xbf<a:s> <a:p> <a:o> .", 1, "expected a subject"),
        (b"@prefix : <a:b> .", 1, "expected a subject"),
    ],
)
def test_a_malformed_line_is_refused_with_its_place_and_reason(line: bytes, column: int, reason: str) -> None:
    chunk, found = read(b"<a:s> <a:p> <a:o> .\n\n" + line + b"\n<a:s> <a:p> <a:o2> .\n")
    if line.startswith(b"\xef"):
        line = line.decode().encode()
    (reject,) = chunk.rejects
    assert (reject.source, reject.line, reject.column) == ("doc", 3, column)
    assert reason in reject.reason
    assert reject.text == line.decode("utf-8", "replace")
    assert [row[2] for row in found] == ["<a:o>", "<a:o2>"]


def test_a_long_malformed_line_is_shown_by_its_beginning() -> None:
    chunk, _ = read("é".encode() * 1000)
    assert chunk.rejects[0].text == "é" * 500


def test_rows_stand_in_source_order_whichever_path_read_them() -> None:
    # As it stands, rewritten by the kernel, only for the complete path, and no statement at all.
    forms = [b'<a:s> <a:p> "%d" .\n', b'<a:s> <a:p> "\\u0030%d" .\n', b'<a:s> <a:p> "%d" @EN .\nbad\n']
    shown = ['"{}"', '"0{}"', '"{}"@en']
    document = b"".join(forms[k % 3] % k for k in range(4000))
    chunk, found = read(document)
    assert [row[2] for row in found] == [shown[k % 3].format(k) for k in range(4000)]
    assert chunk.number.tolist() == list(range(4000))
    assert [reject.line for reject in chunk.rejects] == list(range(4, 4000 + 1334, 4))
    assert chunk.lines == 4000 + 1333


def test_the_number_of_a_row_counts_the_pruned_ones_too() -> None:
    document = (
        b'<a:s> <a:p> "\\u0041" .\n<a:s> <a:q> <a:o> .\nbad\n<a:s> <a:q> "A" @en .\n<a:s> <a:p> "B" .\n'
    )
    chunk, found = read(document, prune=Prune.of([Signature(None, b"<a:q>", None)]))
    assert chunk.number.tolist() == [1, 2]
    assert [row[2] for row in found] == ["<a:o>", '"A"@en']
    assert chunk.statements == 4


def test_control_characters_get_their_canonical_escapes() -> None:
    _, found = read(b'<a:s> <a:p> "\\u0000\x01\t\\u0008\x0b\\u007f\x7f\\\'\\u0022" .\n')
    assert found[0][2] == '"\\u0000\\u0001\\t\\b\\u000B\\u007F\\u007F\'\\""'


def test_blanks_before_a_tag_or_datatype_are_allowed() -> None:
    _, found = read(b'<a:s> <a:p> "x" @en .\n<a:s> <a:p> "x" ^^ <a:d> .\n')
    assert [row[2] for row in found] == ['"x"@en', '"x"^^<a:d>']


def test_a_comment_may_hold_any_bytes() -> None:
    chunk, found = read(
        b'<a:s> <a:p> "x" @en . # \xff\n<a:s> <a:p> <a:o> . # \xff\n# \xff\n<a:s> <a:p> # \xff\n'
    )
    assert len(found) == 2
    assert [(reject.line, reject.column) for reject in chunk.rejects] == [(4, 13)]


def test_a_byte_order_mark_is_passed_over_at_the_beginning_of_a_source_only() -> None:
    arena = Arena()
    data = b"\xef\xbb\xbf<a:s> <a:p> <a:o> .\n"
    assert reader(arena).read(data).statements == 1
    assert len(reader(arena).read(data, offset=10).rejects) == 1


@pytest.mark.parametrize("size", [4000, 4090, 4096, 4097, 5000, 70_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_the_end_of_a_piece_is_read_wherever_it_falls(size: int, end: bytes) -> None:
    line = b"<http://ex/s> <http://ex/p> <http://ex/o> .\n"
    last = b'<http://ex/s> <http://ex/p> "the last" .'
    padding = size - len(last) - len(end)
    body = line * (padding // len(line))
    document = body + b" " * (padding - len(body)) + last + end
    chunk, found = read(document)
    assert chunk.rejects == ()
    assert found[-1][2] == '"the last"'
    assert chunk.statements == padding // len(line) + 1


def test_a_very_long_line_is_read() -> None:
    long = "ж" * 3_000_000
    _, found = read(f'<a:s> <a:p> "{long}" .\n<a:s> <a:p> "\\u0041{long}" .'.encode())
    assert found[0][2] == f'"{long}"'
    assert found[1][2] == f'"A{long}"'


def test_a_very_long_line_of_garbage_is_refused() -> None:
    for filler in (b"<", b'"', b"\\", b"\x00", b"a", b"_:", b"\xc3"):
        chunk, _ = read(filler * 200_000)
        assert (chunk.statements, len(chunk.rejects)) == (0, 1)


def test_bytes_views_arrays_and_maps_need_one_compiled_kernel(tmp_path: Path) -> None:
    data = b"<a:s> <a:p> <a:o> .\n" * 1000
    file = tmp_path / "data.nt"
    file.write_bytes(data)
    arena = Arena()
    one = reader(arena)
    writable = np.frombuffer(data, dtype=np.uint8).copy()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        inputs = [data, memoryview(data), bytearray(data), np.frombuffer(data, np.uint8), writable, view]
        assert [one.read(each).statements for each in inputs] == [1000] * 6
        del inputs
        view.release()
    assert len(scan.scan.signatures) == 1


def test_an_arena_that_is_compacted_between_pieces_keeps_its_meaning() -> None:
    arena = Arena()
    one = reader(arena)
    document = b"<a:s> <a:p> <a:o> .\n<a:s> <a:p> <a:o2> .\n"
    before = statements(one.read(document), arena)
    arena.compact(np.empty(0, dtype=np.int64))
    assert statements(one.read(document), arena) == before


def test_blank_nodes_of_two_statements_are_two_and_of_one_statement_one() -> None:
    arena = Arena()
    chunk = reader(arena).read(
        b"_:b <a:p> _:b .\n_:b <a:p> _:b .\n_:b <a:p> _:b\t. # \\\n_:b <a:p\\u0070> _:b .\n"
    )
    assert (chunk.s == chunk.o).all()
    assert len(set(chunk.s.tolist())) == 4
    assert chunk.bnodes == 0


def test_the_scope_of_a_statement_is_its_place_in_the_source() -> None:
    arena = Arena()
    line = b"_:b <a:p> <a:o> .\n"
    odd = b"_:b <a:\\u0070> <a:o> .\n"
    whole = reader(arena).read(line + odd + line)
    parts = [reader(arena).read(line), reader(arena).read(odd + line, offset=len(line))]
    assert whole.s.tolist() == [*parts[0].s.tolist(), *parts[1].s.tolist()]
    elsewhere = LineReader(arena, EVERYTHING, syntax="nt", source="other").read(line)
    assert elsewhere.s[0] != whole.s[0]


def test_a_piece_can_be_one_scope() -> None:
    arena = Arena()
    one = reader(arena, per_event=0)
    document = b"_:b <a:p> <a:o> .\n<a:s> <a:p> _:b .\n<a:s> <a:\\u0070> _:b .\n" * 200
    first, second = one.read(document, offset=1), one.read(document, offset=2)
    assert len({*first.s[::3].tolist(), *first.o[1::3].tolist(), *first.o[2::3].tolist()}) == 1
    assert first.s[0] != second.s[0]


def test_stable_labels_stay_as_they_are() -> None:
    arena = Arena()
    chunk = reader(arena, blank_nodes="stable").read("_:b <a:p> _:b.c.\n_:é <a:p> _:b .".encode())
    assert arena.texts(chunk.s) == ["_:b", "_:é"]
    assert arena.texts(chunk.o) == ["_:b.c", "_:b"]
    assert chunk.bnodes == 0


def test_blank_nodes_of_graphs_and_blocks_await_their_scope() -> None:
    assert reader(Arena(), "nq").read(b"_:b <a:p> _:b <a:g> .").bnodes == 2
    assert reader(Arena(), per_event=2).read(b"_:b <a:p> _:b .\n_:b <a:\\u0070> <a:o> .").bnodes == 3


def test_the_time_of_a_graph_is_read_even_where_nothing_is_wanted() -> None:
    arena = Arena()
    document = b'<a:g> %b "1970-01-01T00:00:01Z"^^<a:d> .\n<a:s> <a:p> <a:o> <a:g> .\n<a:x> <a:p> <a:o> .\n'
    chunk = LineReader(arena, Prune.of([]), syntax="nq", source="doc").read(document % GENERATED_AT)
    assert chunk.time.tolist() == [1_000_000, NO_TIME]
    assert arena.texts([chunk.s[0], chunk.g[1]]) == ["<a:g>", "<a:g>"]
    assert chunk.p.tolist() == chunk.o.tolist() == [0, 0]
    assert (chunk.g[0], chunk.s[1]) == (0, 0)
    assert (chunk.statements, chunk.unnamed) == (3, 1)


def test_a_bad_time_is_refused_with_its_line() -> None:
    arena = Arena()
    document = b'<a:g> %b "soon" .\n<a:g> %b <a:t> .\n<a:g> %b "\\u0031" .\n' % ((GENERATED_AT,) * 3)
    chunk = reader(arena, "nq").read(document)
    assert [(reject.line, "not a time" in reject.reason) for reject in chunk.rejects] == [
        (1, True),
        (2, True),
    ]
    assert chunk.time.tolist() == [1000]
    assert chunk.statements == 1


def test_every_run_of_a_graph_leaves_a_row() -> None:
    arena = Arena()
    runs = [b"<a:g1>", b"<a:g1>", b"<a:g2>", b"<a:g1>"]
    document = b"".join(b"<a:s> <a:p> <a:o> %b .\n" % graph for graph in runs)
    document += b'<a:s> <a:p> "\\u0041" <a:g2> .\n<a:s> <a:p> <a:o> <a:g1> .\n'
    chunk = LineReader(arena, Prune.of([]), syntax="nq", source="doc").read(document)
    assert arena.texts(chunk.g) == ["<a:g1>", "<a:g2>", "<a:g1>", "<a:g2>", "<a:g1>"]
    assert chunk.number.tolist() == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("wrong", [{"syntax": "ttl"}, {"blank_nodes": "none"}, {"per_event": -1}])
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        LineReader(Arena(), EVERYTHING, **{"syntax": "nt", "source": "doc", **wrong})  # type: ignore[arg-type]
