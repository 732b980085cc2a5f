"""Stable labels for the nodes that a parser has given random ones."""

from __future__ import annotations

import re

# The parser gives random labels of this form to nodes without a label.
_LABEL = re.compile(rb"_:([0-9a-f]{16,32})\b")
_LABEL_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"|_:([0-9a-f]{16,32})\b')
_IN_STRING = re.compile(rb'"[^\n]*_:[0-9a-f]{16}')
_GIVEN = re.compile(rb"[0-9a-f]{16,}")


class Labels:
    """Replaces the random labels in lines by others that are numbered in the order of their first appearance.

    >>> random = b"_:0123456789abcdef0123456789abcdef <a:p> _:x .\\n"
    >>> Labels(b"[] <a:p> _:x .", "d-", 7).renamed(random)
    b'_:d-7 <a:p> _:x .\\n'
    """

    def __init__(self, text: bytes, prefix: str, first: int = 0) -> None:
        """`text` is what was parsed: labels that stand in it are not replaced."""
        self.used = first
        """The number of the next label."""
        self._text = text
        self._given: set[bytes] | None = None
        self._prefix = f"_:{prefix}".encode()
        self._names: dict[bytes, bytes] = {}

    def renamed(self, lines: bytes) -> bytes:
        """The lines with other labels."""
        if not _LABEL.search(lines):
            return lines
        if self._given is None:
            self._given = set(_GIVEN.findall(self._text))
        # Strings are passed over one by one only where one has something like a label in it.
        return (_LABEL_OR_STRING if _IN_STRING.search(lines) else _LABEL).sub(self._renamed, lines)

    def _renamed(self, match: re.Match[bytes]) -> bytes:
        label = match[1]
        if label is None or label in (self._given or ()):
            return match[0]
        name = self._names.get(label)
        if name is None:
            name = self._names[label] = b"%b%d" % (self._prefix, self.used)
            self.used += 1
        return name
