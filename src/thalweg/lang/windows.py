"""Windows as they are written: the text between `[` and `]`.

    [NOW]
    [RANGE d (STEP d | TUMBLING)? (ORIGIN instant)? (BOUNDS CLOSED-OPEN | OPEN-CLOSED)? report?]
    [ELEMENTS n (STEP n | TUMBLING)? (ORIGIN instant)? report?]       TRIPLES alike, and RANGE TRIPLES
    report = REPORT ON? (WINDOW-CLOSE | CONTENT-CHANGE | NON-EMPTY | PERIODIC d) (WITH EMPTY)?

ORIGIN, BOUNDS and REPORT may come in any order. SLIDE is another word for STEP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thalweg.algebra.windows import (
    CHANGE,
    CLOSE,
    CLOSED_OPEN,
    NON_EMPTY,
    OPEN_CLOSED,
    PERIODIC,
    Count,
    Now,
    Range,
    Report,
    Unbounded,
    Window,
)
from thalweg.hints import did_you_mean
from thalweg.instants import duration, instant
from thalweg.lang.clauses import Cursor, Token, show_token

_STEP = ("STEP", "SLIDE")
"""SLIDE is how drafts of RSP-QL and SRBench write STEP."""
_KINDS = ("RANGE", "ELEMENTS", "TRIPLES", "NOW")
_OTHER_STEPS = re.compile(r"\s(?:EVERY|HOP|HOPPING|ADVANCE|ADVANCING|SLIDING|BY|JUMP)\b", re.IGNORECASE)
_ENDS = (*_STEP, "TUMBLING", "ORIGIN", "BOUNDS", "REPORT", "WITH", "AS", "UNDER", "]")


@dataclass
class _Options:
    """What may follow RANGE and STEP, and where it is written."""

    origin: int = 0
    bounds: str = ""
    report: Report | None = None
    origin_at: int | None = None
    report_at: int = 0


def read_window(cursor: Cursor) -> Window:
    """The window that is written here in brackets; without brackets there is none."""
    if not cursor.take("["):
        return Unbounded()
    kind = cursor.next()
    if kind.matches("NOW"):
        cursor.expect("]")
        return Now()
    if kind.matches("ELEMENTS", "TRIPLES"):
        return _counting(cursor, kind)
    if kind.matches("RANGE") and cursor.peek().matches("ELEMENTS", "TRIPLES"):  # as C-SPARQL writes it
        return _counting(cursor, cursor.next())
    if kind.matches("RANGE"):
        return _range(cursor)
    if kind.matches("FROM"):
        cursor.query.refuse(
            "windows in the past, [FROM NOW-d TO NOW-d], are not supported: a window ends at the present instant",
            kind.at,
        )
    cursor.query.fail(
        "a window is [RANGE r], [RANGE r STEP s], [ELEMENTS n], [TRIPLES n] or [NOW], "
        f"not [{show_token(kind)} ...{did_you_mean(kind.text, _KINDS) if kind.kind == 'word' else ''}",
        kind.at,
    )


def _range(cursor: Cursor) -> Range:
    width = read_duration(cursor, "RANGE")
    step: int | None = None
    if cursor.take(*_STEP):
        step = read_duration(cursor, "STEP")
    elif cursor.take("TUMBLING"):
        step = width
    options = _options(cursor, "ORIGIN", "BOUNDS", "REPORT", *(["STEP"] if step is None else []))
    _check_origin(cursor, options, stepped=step is not None)
    if step is None and options.report is not None and options.report.kind == CLOSE:
        cursor.query.fail(
            "WINDOW-CLOSE needs a STEP: a window that slides with every instant never closes",
            options.report_at,
        )
    return Range(width, step, options.origin, options.bounds, options.report)


def _counting(cursor: Cursor, unit: Token) -> Count:
    size = _number(cursor, unit.text.upper())
    step = 1
    if cursor.take(*_STEP):
        step = _number(cursor, "STEP")
    elif cursor.take("TUMBLING"):
        step = size
    options = _options(cursor, "ORIGIN", "REPORT")
    _check_origin(cursor, options, stepped=False)
    return Count(unit.text.upper(), size, step, options.origin, options.report)


def _options(cursor: Cursor, *words: str) -> _Options:
    """The options up to the closing bracket, each at most once."""
    options = _Options()
    left = list(words)
    while not cursor.take("]"):
        token = cursor.expect(*left, "]")
        word = token.text.upper()
        if word not in ("ORIGIN", "BOUNDS", "REPORT"):  # a STEP that comes too late
            cursor.query.fail(f"{word} is written before ORIGIN, BOUNDS and REPORT", token.at)
        left = [other for other in left if other not in (word, "STEP")]
        if word == "ORIGIN":
            options.origin, options.origin_at = _instant(cursor), token.at
        elif word == "BOUNDS":
            options.bounds = _compound(cursor, CLOSED_OPEN, OPEN_CLOSED)
        else:
            options.report, options.report_at = _report(cursor)
    return options


def _report(cursor: Cursor) -> tuple[Report, int]:
    cursor.take("ON")
    at = cursor.peek().at
    kind = _compound(cursor, CLOSE, CHANGE, NON_EMPTY, PERIODIC)
    period = read_duration(cursor, "PERIODIC") if kind == PERIODIC else None
    empty = False
    if with_ := cursor.take("WITH"):
        cursor.expect("EMPTY")
        if kind == NON_EMPTY:
            cursor.query.fail("NON-EMPTY reports nothing where the answer is empty", with_.at)
        empty = True
    return Report(kind, period, empty), at


def _check_origin(cursor: Cursor, options: _Options, *, stepped: bool) -> None:
    periodic = options.report is not None and options.report.kind == PERIODIC
    if options.origin_at is not None and not stepped and not periodic:
        cursor.query.fail(
            "ORIGIN needs a STEP of time or REPORT PERIODIC: nothing else is counted from it",
            options.origin_at,
        )


def _compound(cursor: Cursor, *words: str) -> str:
    """One of some words that may have hyphens in them."""
    first = cursor.next()
    written = first.text
    while cursor.peek().text == "-" and cursor.peek().at == first.at + len(written):
        written += cursor.next().text
        if cursor.peek().kind == "word" and cursor.peek().at == first.at + len(written):
            written += cursor.next().text
    if written.upper() not in words:
        shown = repr(written[:40]) if written else "the end of the query"
        cursor.query.fail(f"expected {' or '.join(words)}, not {shown}", first.at)
    return written.upper()


def _written(cursor: Cursor) -> tuple[str, int]:
    """The text up to the next keyword, and where it begins."""
    first = cursor.peek()
    while not cursor.peek().matches(*_ENDS) and cursor.peek().kind != "end":
        cursor.next()
    return cursor.query.text[first.at : cursor.peek().at].strip(), first.at


def read_duration(cursor: Cursor, what: str) -> int:
    """The duration that is written here, up to the next keyword."""
    written, at = _written(cursor)
    if not written:
        cursor.query.fail(f"{what} needs a duration, such as PT10S, 10s or 500 (milliseconds)", at)
    try:
        length = duration(written)
    except ValueError as error:
        hint = "; the distance of reports is written STEP d" if _OTHER_STEPS.search(written) else ""
        cursor.query.fail(f"{error}{hint}", at)
    if length <= 0:
        cursor.query.fail(f"{what} must be longer than nothing", at)
    return length


def _instant(cursor: Cursor) -> int:
    written, at = _written(cursor)
    if not written:
        cursor.query.fail("ORIGIN needs an instant, such as 2026-01-01T00:00:00Z or milliseconds", at)
    try:
        return instant(written)
    except ValueError as error:
        cursor.query.fail(str(error), at)


def _number(cursor: Cursor, what: str) -> int:
    written, at = _written(cursor)
    if not (written.isascii() and written.isdigit()):
        cursor.query.fail(f"{what} needs a number, such as 10, not {written[:40]!r}", at)
    if len(written) > 18 or int(written) == 0:
        cursor.query.fail(f"{what} is at least 1 and has at most 18 digits, not {written[:40]}", at)
    return int(written)
