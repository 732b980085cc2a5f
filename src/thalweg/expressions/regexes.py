r"""Regular expressions of XPath on RE2, whose time is linear in the text: nothing can backtrack for ever.

A pattern is translated construct by construct, because the two languages differ: `\d` and `\w` are Unicode's, `\i` and
`\c` are characters of XML names, a class can be subtracted from another one. Back-references (`\1`) and Unicode blocks
(`\p{IsGreek}`) are unsupported. A repetition count is at most 1000, a pattern has at most 10,000 characters.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from thalweg.expressions.values import LONGEST_STRING, ExpressionError

LONGEST_PATTERN = 10_000
MOST_WORK = 10**9
"""Instructions of the compiled pattern times characters of the text; what needs more is an error (RE2: 2 s at most)."""
MOST_REPLACING_WORK = 5 * MOST_WORK
"""The same for `REPLACE`, which may look at the rest of the text again for each match."""

_NAME_START = (
    ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = f"{_NAME_START}\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
# For each multi-character escape: what is inside the class, and whether the class is negated.
_CLASSES = {
    "s": (" \\t\\n\\r", False),
    "i": (_NAME_START, False),
    "c": (_NAME, False),
    "d": ("\\p{Nd}", False),
    "w": ("\\p{P}\\p{Z}\\p{C}", True),
}
_SINGLE = frozenset("nrt\\|.?*+(){}-[]^$")
_CATEGORY = re.compile(
    r"\{(?:(Is[A-Za-z0-9-]+)|(L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|Z[slp]?|S[mcko]?|C[cfon]?))\}"
)
_QUANTIFIER = re.compile(r"\{([0-9]+)(,([0-9]+)?)?\}")
_SPACE = " \t\n\r"
_LAST = sys.maxunicode


class UnsupportedPatternError(ExpressionError):
    """A valid pattern that uses what this engine does not support; a constant pattern is refused with the query."""


@lru_cache(maxsize=512)
def compiled(pattern: str, flags: str = "") -> Any:
    """The compiled pattern; an error if the pattern or the flags are invalid."""
    if not set(flags) <= set("smix"):
        raise ExpressionError(f"invalid flags {flags!r}")
    if len(pattern) > LONGEST_PATTERN:
        raise UnsupportedPatternError(f"a regular expression of more than {LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = "i" not in flags
    options.dot_nl = "s" in flags
    options.never_nl = False
    translated = _Translation(pattern, "x" in flags).text()
    if "m" in flags:
        translated = f"(?m:{translated})"
    try:
        return re2.compile(translated, options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise UnsupportedPatternError(
            f"the regular expression {pattern[:60]!r} is too large: {reason}"
        ) from None


def matches(text: str, pattern: str, flags: str = "") -> bool:
    """`REGEX`: whether the pattern occurs in the text."""
    regex = compiled(pattern, flags)
    _check_work(regex, text)
    return regex.search(text) is not None


def replaced(text: str, pattern: str, replacement: str, flags: str = "") -> str:
    r"""`REPLACE`: every match replaced; `$1` stands for a group, `\$` and `\\` for themselves.

    >>> replaced("abracadabra", "a(.)", "a$1$1")
    'abbraccaddabbra'
    """
    regex = compiled(pattern, flags)
    if regex.search("") is not None:
        raise ExpressionError("the pattern matches the empty string")
    pieces = _pieces(replacement, regex.groups)
    _check_work(regex, text)
    out: list[str] = []
    done = work = length = 0
    for match in regex.finditer(text):
        work += regex.programsize * (len(text) - done)
        if work > MOST_REPLACING_WORK:
            raise ExpressionError("the text has too many matches for its length")
        made = "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)
        length += len(made)
        if length > LONGEST_STRING:
            raise ExpressionError(f"a string of more than {LONGEST_STRING} characters")
        out += (text[done : match.start()], made)
        done = match.end()
    out.append(text[done:])
    return "".join(out)


def _check_work(regex: Any, text: str) -> None:
    if regex.programsize * len(text) > MOST_WORK:
        raise ExpressionError("the regular expression is too large for a text of this length")


@lru_cache(maxsize=512)
def _pieces(replacement: str, groups: int) -> tuple[str | int, ...]:
    """The replacement as texts and numbers of groups (XPath functions, 7.6.3)."""
    pieces: list[str | int] = []
    at = 0
    while at < len(replacement):
        char, following = replacement[at], replacement[at + 1 : at + 2]
        if char == "\\":
            if following not in ("\\", "$") or not following:
                raise ExpressionError(r"in a replacement, \ comes before \ or $ only")
            pieces.append(following)
            at += 2
        elif char == "$":
            if not following.isascii() or not following.isdigit():
                raise ExpressionError("in a replacement, $ comes before a digit only")
            end = at + 2
            # As many digits as name a group; one digit that names none stands for nothing.
            while (
                end < len(replacement)
                and replacement[end] in "0123456789"
                and int(replacement[at + 1 : end + 1]) <= groups
            ):
                end += 1
            number = int(replacement[at + 1 : end])
            if number <= groups:
                pieces.append(number)
            at = end
        else:
            pieces.append(char)
            at += 1
    return tuple(pieces)


class _Translation:
    """One pattern of XPath on its way to RE2's syntax."""

    def __init__(self, pattern: str, free_spacing: bool) -> None:
        self.pattern = pattern
        self.free_spacing = free_spacing
        self.at = 0

    def text(self) -> str:
        out: list[str] = []
        open_groups = 0
        can_repeat = False
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if self.free_spacing and char in _SPACE:
                self.at += 1
                continue
            if char in "*+?{":
                if not can_repeat:
                    raise self._invalid(f"nothing to repeat before {char!r}")
                out.append(self._quantifier())
                can_repeat = False
                continue
            can_repeat = True
            if char == "\\":
                out.append(self._escape())
            elif char == "[":
                out.append(self._class())
            elif char == "(":
                open_groups += 1
                out.append(self._open())
                can_repeat = False
            elif char == ")":
                open_groups -= 1
                if open_groups < 0:
                    raise self._invalid("a bracket is closed that is not open")
                out.append(")")
                self.at += 1
            elif char in "]}":
                raise self._invalid(f"{char!r} stands for itself only after a backslash")
            else:
                can_repeat = char not in "|^$"
                out.append(char if char in "|^$." else re2.escape(char))
                self.at += 1
        if open_groups:
            raise self._invalid("a bracket is not closed")
        return "".join(out)

    def _invalid(self, reason: str) -> ExpressionError:
        return ExpressionError(f"invalid regular expression {self.pattern[:60]!r}: {reason}")

    def _open(self) -> str:
        self.at += 1
        if self.pattern.startswith("?:", self.at):
            self.at += 2
            return "(?:"
        return "("

    def _quantifier(self) -> str:
        char = self.pattern[self.at]
        if char == "{":
            match = _QUANTIFIER.match(self.pattern, self.at)
            if match is None or (match[3] and int(match[3]) < int(match[1])):
                raise self._invalid("a malformed repetition count")
            if max(int(match[1]), int(match[3] or 0)) > 1000:
                raise UnsupportedPatternError("in a regular expression, a repetition count is at most 1000")
            self.at = match.end()
            shown = match[0]
        else:
            self.at += 1
            shown = char
        if self.pattern.startswith("?", self.at):
            self.at += 1
            shown += "?"
        return shown

    def _escape(self) -> str:
        inside, negated = self._escaped()
        if len(inside) == 2 and inside[0] == "\\" and inside[1] in _SINGLE and not negated:
            return inside
        return f"[{'^' if negated else ''}{inside}]"

    def _escaped(self) -> tuple[str, bool]:
        """An escape as the inside of a class, and whether that class is negated."""
        char = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if char in _SINGLE and char:
            return f"\\{char}", False
        if char.lower() in _CLASSES:
            inside, negated = _CLASSES[char.lower()]
            return inside, negated != char.isupper()
        if char in ("p", "P"):
            match = _CATEGORY.match(self.pattern, self.at)
            if match is None:
                raise self._invalid("an unknown category of characters")
            if match[1]:
                raise UnsupportedPatternError(
                    f"the Unicode block {match[1]} in a regular expression is not supported"
                )
            self.at = match.end()
            return f"\\p{{{match[2]}}}", char == "P"
        if char.isdigit():
            raise UnsupportedPatternError("back-references in a regular expression are not supported")
        raise self._invalid(f"unknown escape \\{char}")

    def _class(self) -> str:
        """A character class. With negated parts or a subtraction inside it is written out as ranges."""
        negated, parts, minus = self._members()
        if minus is None and not any(part_negated for _, part_negated in parts):
            return f"[{'^' if negated else ''}{''.join(inside for inside, _ in parts)}]"
        points = self._points(negated, parts, minus)
        if not points:
            return "[^\\x{0}-\\x{10FFFF}]"
        return "[" + "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in points) + "]"

    def _members(self) -> tuple[bool, list[tuple[str, bool]], Any]:
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        parts: list[tuple[str, bool]] = []
        minus = None
        while not self.pattern.startswith("]", self.at) or not parts:
            char = self.pattern[self.at : self.at + 1]
            if not char:
                raise self._invalid("a character class is not closed")
            if char == "-" and self.pattern.startswith("[", self.at + 1):
                if not parts:
                    raise self._invalid("nothing to subtract from")
                self.at += 1
                minus = self._members()
                if not self.pattern.startswith("]", self.at):
                    raise self._invalid("a subtraction ends its character class")
                break
            parts.append(self._member())
        self.at += 1
        return negated, parts, minus

    def _member(self) -> tuple[str, bool]:
        """A character, a range, or an escape of several characters."""
        low, negated = self._end()
        if negated or len(low) > 2 or (len(low) == 2 and low[1] not in _SINGLE):
            return low, negated
        following = self.pattern[self.at + 1 : self.at + 2]
        if not self.pattern.startswith("-", self.at) or following in ("]", "[", ""):
            return low, False
        self.at += 1
        high, negated = self._end()
        if negated or len(high) > 2 or _point(high) < _point(low):
            raise self._invalid("a range of characters ends before it begins")
        return f"{low}-{high}", False

    def _end(self) -> tuple[str, bool]:
        char = self.pattern[self.at : self.at + 1]
        if char == "\\":
            return self._escaped()
        if char in ("[", "]", ""):
            raise self._invalid(f"{char!r} stands for itself only after a backslash")
        self.at += 1
        return (f"\\{char}" if char in "-^" else char), False

    def _points(self, negated: bool, parts: Iterable[tuple[str, bool]], minus: Any) -> list[tuple[int, int]]:
        """The code points of a class, as ascending ranges."""
        found: list[tuple[int, int]] = []
        for inside, part_negated in parts:
            ranges = _ranges(inside)
            found += _complement(ranges) if part_negated else ranges
        found = _union(found)
        if negated:
            found = _complement(found)
        if minus is not None:
            # a - b is the complement of (complement of a, and b)
            found = _complement(_union(_complement(found) + self._points(*minus)))
        return found


def _point(char: str) -> int:
    plain = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}.get(char, char[-1])
    return ord(plain)


_PART = re.compile(r"\\p\{([A-Z][a-z]?)\}|(\\.|[^\\])(?:-(\\.|[^\\]))?", re.DOTALL)


def _ranges(inside: str) -> list[tuple[int, int]]:
    """The ranges of code points of the inside of a class that this module has written."""
    found: list[tuple[int, int]] = []
    for match in _PART.finditer(inside):
        if match[1]:
            found += _category(match[1])
        else:
            low = _point(match[2])
            found.append((low, _point(match[3]) if match[3] else low))
    return found


@lru_cache(maxsize=64)
def _category(name: str) -> list[tuple[int, int]]:
    points = [point for point in range(_LAST + 1) if unicodedata.category(chr(point)).startswith(name)]
    return _union([(point, point) for point in points])


def _union(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in _union(ranges):
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, _LAST)] if start <= _LAST else found
