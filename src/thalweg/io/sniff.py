"""What a file seems to hold, judged by its beginning: the likely cause where none of it could be read."""

from __future__ import annotations

import os
import re

from thalweg.io.files import pieces
from thalweg.rdf.compression import Compression, compression_by_magic, named_compression
from thalweg.rdf.formats import Format, format_of
from thalweg.rdf.grammar import Malformed, statement
from thalweg.rdf.unpacking import BrokenFile, unpacked

_HEAD = 1 << 16
_LINES = 50
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_HTML = re.compile(r"<!doctype html|<html\b", re.IGNORECASE)
_XML = re.compile(r"<\?xml|<rdf:RDF\b|<!DOCTYPE\b")
_JSON = re.compile(r'\{\s*["}]|\[\s*[{"\]]')
_DIRECTIVE = re.compile(
    r"^\s*(?:@prefix|@base|prefix\s+[^\s<>]*:\s*<|base\s+<)", re.IGNORECASE | re.MULTILINE
)
_GOES_ON = re.compile(r"[;,]\s*$|\s[;,]\s", re.MULTILINE)
_LINE_END = re.compile(r"[\r\n]")
_CONTENT = re.compile(rb"(?:^|[\r\n])[ \t]*[^#\s]")
_QUADS = "it holds N-Quads: call it .nq"


def likely_cause(path: str, format: Format | None = None, *, whole: bool = False) -> str | None:
    """Why lines of a file may be unreadable, and what to do; None where nothing seems to be wrong with it.

    `format` is what it is read as, if not what its name says. `whole`: none of it gave an event, so that statements
    without a graph are a cause, too.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not head:
        return None
    format = format or format_of(path)
    wanted = format.title
    named = named_compression(path)
    if compression := compression_by_magic(head):
        head = _unpacked(path, compression)
    elif named:
        suffix = os.path.splitext(path)[1]
        return f"it is not a {named.title} file, though its name ends in {suffix}: take {suffix} off its name"
    if head.startswith(_WIDE):
        return "it is text in UTF-16, not in UTF-8: convert it (iconv -f UTF-16 -t UTF-8)"
    if b"\0" in head:
        return f"it is binary data or text in UTF-16, not {wanted}"
    if not format.splittable or format.has_events:  # its parser has named the place
        return None
    looks = _looks(head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip(), format, whole)
    return looks and (looks if ":" in looks else f"it looks like {looks}: convert it to {wanted}")


def is_misnamed(path: str, format: Format) -> bool:
    """Whether a file holds N-Quads and is called N-Triples."""
    return likely_cause(path, format) == _QUADS


def _looks(text: str, format: Format, whole: bool) -> str | None:
    """The language of a text that is not in lines of its syntax, or a whole sentence about it."""
    if _HTML.match(text):
        return "it is a web page (HTML), perhaps of a failed download: fetch the data again"
    if _XML.match(text):
        return "RDF/XML" if "22-rdf-syntax-ns" in text else "XML"
    if _JSON.match(text):
        return "JSON-LD" if '"@' in text else "JSON"
    parts = _LINE_END.split(text)
    whole_lines = parts[:-1] or parts  # the last may be cut
    lines = [line for line in whole_lines if line.strip() and not line.lstrip().startswith("#")]
    lines = lines[:_LINES]
    triples = sum(_reads(line, quads=False) for line in lines)
    quads = sum(_reads(line, quads=True) for line in lines)
    # A graph whose time is a triple has at least one quad.
    if not format.has_graphs and quads > triples and quads >= 2 * triples and 2 * quads > len(lines):
        return _QUADS
    if format.has_graphs and whole and lines and triples == len(lines):
        return "it holds N-Triples, whose statements have neither graph nor time: call it .nt"
    plain = "\n".join(line for line in lines if not _reads(line, quads=True))
    goes_on = 2 * quads <= len(lines) and "<" in plain and _GOES_ON.search(plain)
    if goes_on or _DIRECTIVE.search(plain):
        return "TriG" if format.has_graphs and "{" in plain else "Turtle"
    return None


def _reads(line: str, *, quads: bool) -> bool:
    try:
        statement(line.encode(), quads=quads)
    except Malformed:
        return False
    return True


def _unpacked(path: str, compression: Compression) -> bytes:
    try:
        return next(unpacked(path, compression), b"")[:_HEAD]
    except BrokenFile:
        return b""


def holds_data(path: str) -> bool:
    """Whether a file has more than comments and empty lines, in whatever language."""
    source = pieces(path, _HEAD)
    return any(_CONTENT.search(data) for _, data in source) or bool(source.rejects)
