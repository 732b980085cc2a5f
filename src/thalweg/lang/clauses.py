"""What continuous queries add to SPARQL: tokens to find it by, and names.

The front ends (`rspql`, `csparql`) read their clauses with a `Cursor` and blank them, so that what remains is
SPARQL and every character of it is where it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from thalweg.hints import did_you_mean
from thalweg.lang.text import QueryText

_TOKENS = re.compile(
    r"""
    (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
  | (?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3} | '{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
             | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
  | (?P<var>[?$]\w+)
  | (?P<pname>[^\W\d_](?:[\w.\-]*[\w\-])?:(?:(?:[\w:\-%]|\\.)(?:(?:[\w:.\-%]|\\.)*(?:[\w:\-%]|\\.))?)?
            | :(?:(?:[\w:\-%]|\\.)(?:(?:[\w:.\-%]|\\.)*(?:[\w:\-%]|\\.))?)? )
  | (?P<label>_:[\w.\-]*[\w\-])
  | (?P<number>[0-9]+(?:\.[0-9]+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<mark>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a query and the offset where it begins."""

    kind: str
    text: str
    at: int
    depth: int

    @property
    def end(self) -> int:
        """The offset just after it."""
        return self.at + len(self.text)

    def matches(self, *words: str) -> bool:
        """Whether it is one of these keywords or marks, in any case."""
        return self.kind in ("word", "mark") and self.text.upper() in words


@dataclass(frozen=True, slots=True)
class Name:
    """An IRI or prefixed name that a clause mentions; it is resolved when the prologue is known."""

    text: str
    at: int


class Cursor:
    """A place in the tokens of a query, and the text from which clauses are cut."""

    def __init__(self, query: QueryText) -> None:
        self.query = query
        self.tokens = _tokens(query)
        self.i = 0
        self._text = list(query.text)

    @property
    def remaining_text(self) -> str:
        """The text, with spaces where clauses were."""
        return "".join(self._text)

    def peek(self, ahead: int = 0) -> Token:
        """The token here, or some tokens ahead; after the last one, an empty one."""
        if self.i + ahead < len(self.tokens):
            return self.tokens[self.i + ahead]
        return Token("end", "", len(self.query.text), 0)

    def next(self) -> Token:
        """The token here; the cursor goes on."""
        token = self.peek()
        self.i += 1
        return token

    def take(self, *words: str) -> Token | None:
        """The token here if it is one of these keywords or marks."""
        return self.next() if self.peek().matches(*words) else None

    def expect(self, *words: str) -> Token:
        """The token here, which must be one of these."""
        token = self.peek()
        if not token.matches(*words):
            hint = did_you_mean(token.text, words) if token.kind == "word" else ""
            self.query.fail(f"expected {' or '.join(words)}, not {show_token(token)}{hint}", token.at)
        return self.next()

    def name(self, what: str) -> Name:
        """An IRI or a prefixed name."""
        token = self.peek()
        if token.kind not in ("iri", "pname"):
            self.query.fail(f"expected {what} as <iri> or prefix:name, not {show_token(token)}", token.at)
        self.next()
        return Name(token.text, token.at)

    def blank(self, start: int, end: int) -> None:
        """Cut a clause out: spaces take its place, line ends stay."""
        self._text[start:end] = [c if c in "\r\n" else " " for c in self._text[start:end]]

    def overwrite(self, token: Token, keyword: str) -> None:
        """Write a keyword of SPARQL over one of ours that is at least as long."""
        self._text[token.at : token.end] = keyword.ljust(len(token.text))


def _tokens(query: QueryText) -> list[Token]:
    tokens: list[Token] = []
    open_marks: list[Token] = []
    for match in _TOKENS.finditer(query.text):
        kind, text = match.lastgroup or "mark", match[0]
        if kind == "mark" and text in _CLOSES:
            if not open_marks or open_marks[-1].text != _CLOSES[text]:
                query.fail(f"{text!r} closes nothing that is open here", match.start())
            open_marks.pop()
        token = Token(kind, text, match.start(), len(open_marks))
        tokens.append(token)
        if kind == "mark" and text in _CLOSES.values():
            open_marks.append(token)
    if open_marks:
        query.fail(f"{open_marks[-1].text!r} is never closed", open_marks[-1].at)
    return tokens


def show_token(token: Token) -> str:
    """A token as an error message names it."""
    return repr(token.text[:40]) if token.text else "the end of the query"
