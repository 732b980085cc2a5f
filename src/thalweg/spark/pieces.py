"""Pieces: byte ranges of whole lines of the files that a stream is made of.

Pure planning, no Spark and no parsing. A *position* is how far each file has been admitted; a batch is what
lies between two positions, cut into pieces. The same two positions always give the same bytes with the same
sequence numbers, whatever the piece size, so that a batch that is run again is the same batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from typing import Any

from thalweg.errors import UsageError
from thalweg.lines import first_end, last_end
from thalweg.rdf.compression import compression_of
from thalweg.rdf.formats import Format, find_format, format_named, found_in_folder

VERSION = 1
_BLOCK = 1 << 16
BY_SUFFIX = "by-suffix"
"""The option `syntax` of streams that have a mapping: by the names of files, of which some may be rows."""


@dataclass(frozen=True)
class Piece:
    """A byte range `[start, end)` of one file: whole lines, or a whole file if it cannot be divided.

    `source` is what the file is called in messages. `seq` is the number of bytes that the stream admitted
    before it: a total order that does not depend on how the range was cut. `last` marks the piece that ends a
    finite stream. That piece may be empty (no path); so may one that reopens a stream.
    """

    path: str
    source: str
    start: int
    end: int
    seq: int
    syntax: str
    last: bool = False


@dataclass(frozen=True)
class Position:
    """How far a stream was admitted: bytes per file in order of first sight, their sum, and its end."""

    files: Mapping[str, int] = field(default_factory=dict)
    seq: int = 0
    ended: bool = False

    def to_json(self) -> dict[str, Any]:
        """The offset that goes into Spark's offset log."""
        return {"v": VERSION, "seq": self.seq, "ended": self.ended, "files": dict(self.files)}

    @classmethod
    def of_json(cls, offset: Mapping[str, Any]) -> Position:
        """The position that an offset of the log stands for; refuses what another version wrote."""
        if not isinstance(offset, Mapping) or "files" not in offset:
            raise UsageError(
                "the checkpoint is that of another source, not of rdf: start with a new checkpoint directory"
            )
        if offset.get("v") != VERSION:
            raise UsageError(
                f"the checkpoint holds an rdf offset of version {offset.get('v')!r}, and this is version "
                f"{VERSION}: start with a new checkpoint directory"
            )
        return cls(dict(offset["files"]), int(offset["seq"]), bool(offset["ended"]))


@dataclass(frozen=True)
class Found:
    """One file of a stream as the file system shows it now."""

    name: str
    path: str
    size: int
    mtime: float
    splittable: bool = True
    """Whether its format can be read from any line on."""

    @property
    def whole(self) -> bool:
        """Whether it is read as one piece: it is compressed, or its format cannot be divided."""
        return not self.splittable or compression_of(self.path) is not None


def format_for(path: str, syntax: str | None = None) -> Format | None:
    """The format of a file: that of the option `syntax`, or that of its name; `by-suffix` takes rows, too."""
    if syntax is None or syntax == BY_SUFFIX:
        return find_format(path, rows=syntax is not None)
    return format_named(syntax)


def _is_splittable(path: str, syntax: str | None) -> bool:
    format = format_for(path, syntax)
    # Where a row with quotes ends is known only to whoever reads from the beginning.
    return format is None or (format.splittable and not format.quotes)


def local_path(path: str) -> str:
    """An absolute local path; refuses what is not on a local file system.

    >>> local_path("file:///data/a.nt")
    '/data/a.nt'
    """
    if "://" in path:
        scheme, _, rest = path.partition("://")
        if scheme != "file":
            raise UsageError(f"the rdf source reads local paths, not {scheme}:// ones", source=path)
        path = "/" + rest.lstrip("/")
    elif path.startswith("file:"):
        path = path[len("file:") :]
    return os.path.abspath(os.path.expanduser(path))


def listing(root: str, syntax: str | None = None) -> list[Found]:
    """The files of a stream by name: a file, what a pattern matches, or a folder with its subfolders.

    In a folder, hidden names (`.` and `_` first) and files of unknown suffix are left out.
    """
    if os.path.isdir(root):
        return sorted(_walk(root, "", syntax), key=lambda f: f.name)
    paths = sorted(glob(root, recursive=True)) if has_magic(root) and not os.path.exists(root) else [root]
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            continue
        if os.path.isfile(path) or not os.path.isdir(path):
            found.append(Found(path, path, stat.st_size, stat.st_mtime, _is_splittable(path, syntax)))
    return found


def _walk(folder: str, prefix: str, syntax: str | None) -> Iterator[Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, f"{prefix}{entry.name}/", syntax)
            elif (
                found_in_folder(entry.name, rows=syntax is not None)
                if syntax in (None, BY_SUFFIX)
                else format_for(entry.name, syntax) is not None
            ):
                try:
                    stat = entry.stat()
                except FileNotFoundError:  # gone between the listing and here
                    continue
                splittable = _is_splittable(entry.name, syntax)
                yield Found(prefix + entry.name, entry.path, stat.st_size, stat.st_mtime, splittable)


def line_end_before(path: str, low: int, high: int) -> int:
    """The end of the last whole line of `[low, high)`, or `low` where no line is sure to end in it (see `last_end`)."""
    behind = b""
    with open(path, "rb") as file:
        while high > low:
            begin = max(low, high - _BLOCK)
            file.seek(begin)
            # The byte behind a block decides whether a CR in its last byte is a line end of its own.
            block = file.read(high - begin) + behind
            end = last_end(block, 0, len(block))
            if end:
                return begin + end
            high, behind = begin, block[:1]
    return low


def line_end_after(path: str, at: int, high: int) -> int:
    """The end of the line that holds byte `at - 1`, at most `high`."""
    with open(path, "rb") as file:
        at = max(at - 1, 0)
        file.seek(at)
        while at < high:
            block = file.read(min(_BLOCK, high - at))
            if not block:
                return high
            found = first_end(block)
            if found >= 0:
                end = at + found + 1
                file.seek(end)
                halved = block[found : found + 1] == b"\r" and end < high and file.read(1) == b"\n"
                return end + halved
            at += len(block)
    return high


def admissible(found: Found, done: int, *, complete: bool) -> int:
    """How far a file may be admitted: to its last line end, or to its end if it is `complete`.

    A file that is one piece is admitted whole, once it is complete. A file that shrank stays where it was.
    """
    if found.size <= done:
        return done
    if found.whole:
        return found.size if complete and done == 0 else done
    return found.size if complete else line_end_before(found.path, done, found.size)


def admit(
    start: Position,
    available: list[tuple[Found, int]],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
) -> Position:
    """The position after the next batch: what is available, in order, within the limits, at line ends.

    At least one line (or one file that is one piece) is always admitted, however small the limit.
    """
    files = dict(start.files)
    room = max_bytes
    taken = touched = 0
    for found, end in available:
        begin = files.get(found.name, 0)
        if end <= begin:
            continue
        if (room is not None and room <= 0) or (max_files is not None and touched >= max_files):
            break
        if room is not None and end - begin > room:
            if found.whole:
                if taken:
                    break
            else:
                end = line_end_after(found.path, begin + room, end)
        files[found.name] = end
        taken += end - begin
        touched += 1
        if room is not None:
            room -= end - begin
    return Position(files, start.seq + taken)


def plan(
    start: Position,
    end: Position,
    *,
    path_of: Callable[[str], tuple[str, str]],
    syntax: str | None,
    piece_bytes: int,
) -> list[Piece]:
    """The pieces between two positions, in order. Each ends at a line end and is about `piece_bytes` long.

    `path_of` gives the path of a file and what it is called in messages.
    """
    pieces: list[Piece] = []
    seq = start.seq
    for name, high in end.files.items():
        low = start.files.get(name, 0)
        path, source = path_of(name)
        format = format_for(path, syntax)
        whole = not _is_splittable(path, syntax) or compression_of(path) or not os.path.exists(path)
        kind = "nt" if format is None else format.name
        while low < high:
            if whole or high - low <= piece_bytes * 5 // 4:
                cut = high
            else:
                cut = line_end_after(path, low + piece_bytes, high)
            pieces.append(Piece(path, source, low, cut, seq, kind))
            seq += cut - low
            low = cut
    # A stream that has ended goes on when there is more of it, and then ends again.
    if end.ended and (pieces or not start.ended):
        if pieces:
            pieces.append(replace(pieces.pop(), last=True))
        else:
            pieces.append(Piece("", "", 0, 0, seq, syntax or "", last=True))
    elif start.ended and not pieces and not end.ended:
        pieces.append(Piece("", "", 0, 0, seq, syntax or ""))
    return pieces
