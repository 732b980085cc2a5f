"""The expression between the parentheses of SEQ: its grammar, and what it may not say.

alternatives = chain ('|' chain)*
chain        = unit ((';' | ',') unit)*  |  unit ('<>' unit)+  |  unit relation unit
unit         = (name | '(' alternatives ')') ('+' | '?' | '!' | '{' n (',' m?)? '}')*
"""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

from thalweg.algebra.allen import RELATIONS, has_blocks, related
from thalweg.algebra.sequences import (
    FOLLOWED,
    IMMEDIATELY,
    MOST_ALTERNATIVES,
    MOST_ITERATIONS,
    Alternatives,
    Chain,
    Item,
    Line,
    Negation,
    Option,
    Repeat,
    Together,
    Use,
    count_lines,
    lines_of,
    negated_uses,
    uses_of,
)
from thalweg.lang.clauses import Cursor, Token, show_token

_DEEPEST = 50
_TOGETHER = "<>"


def read_sequence(cursor: Cursor) -> tuple[Item, Token]:
    """The expression that begins here, with its opening parenthesis, and that parenthesis."""
    opened = cursor.expect("(")
    reader = _SequenceReader(cursor)
    pattern = reader.group(opened, 0)
    _check(reader, pattern, opened)
    return pattern, opened


class _SequenceReader:
    """A walk over the tokens of one expression."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.query = cursor.query

    def group(self, opened: Token, depth: int) -> Item:
        """What is between a parenthesis and the one that closes it."""
        if depth > _DEEPEST:
            self.query.refuse(f"a sequence is nested at most {_DEEPEST} levels deep", opened.at)
        items = [self._chain(depth)]
        while self.cursor.take("|"):
            items.append(self._chain(depth))
        if not self.cursor.take(")"):
            self._fail_unexpected()
        if len(items) == 1:
            return items[0]
        for item in items:
            if any(True for _ in negated_uses(item)):
                self.query.refuse("! cannot stand inside |", opened.at)
        return Alternatives(tuple(items))

    def _fail_unexpected(self) -> NoReturn:
        token = self.cursor.peek()
        hint = ""
        if token.kind == "var":
            hint = ": put a space behind ?"
        elif token.kind == "word":
            hint = ": between atoms stands ; or ,"
        self.query.fail(f"expected an operator or ')', not {show_token(token)}{hint}", token.at)

    def _chain(self, depth: int) -> Item:
        items = [self._unit(depth)]
        ops: list[str] = []
        if self._is_together():
            return self._together(items, depth)
        if relation := self._relation():
            return self._related(items[0], *relation, depth)
        while op := self.cursor.take(FOLLOWED, IMMEDIATELY):
            ops.append(op.text)
            items.append(self._unit(depth))
            if self._is_together():
                self.query.fail("put parentheses around the operands of <>: (A <> B)", self.cursor.peek().at)
            if relation := self._relation():
                self.query.fail(f"put parentheses around both parts: (... {relation[0]} ...)", relation[1].at)
        return items[0] if len(items) == 1 else Chain(tuple(items), tuple(ops))

    def _relation(self) -> tuple[str, Token] | None:
        """One of Allen's relations, if it stands here."""
        token = self.cursor.peek()
        if token.kind != "word":
            return None
        name = token.text.upper()
        for written in (f"{name} BY" if self.cursor.peek(1).matches("BY") else name, name):
            if written in RELATIONS:
                for _ in written.split():
                    self.cursor.next()
                return written, token
        return None

    def _related(self, left: Item, relation: str, token: Token, depth: int) -> Item:
        """Two parts with one of Allen's relations, as the orders of events that fulfil it."""
        right = self._unit(depth)
        if self.cursor.peek().matches(FOLLOWED, IMMEDIATELY, "|") or self._is_together() or self._relation():
            self.query.fail(f"put parentheses around the two parts: (... {relation} ...)", token.at)
        if not has_blocks(left) or not has_blocks(right):
            self.query.refuse(
                f"the parts of {relation} are made of atoms, (A <> B), ; and |, without , + ? or !", token.at
            )
        found = related(left, relation, right, MOST_ALTERNATIVES)
        if not found:
            self.query.fail(
                f"{relation} never holds here: a part that is one event has no duration", token.at
            )
        if len(found) > MOST_ALTERNATIVES:
            self.query.refuse(
                f"{relation} has more than {MOST_ALTERNATIVES:,} orders of events here: shorten its parts",
                token.at,
            )
        return Alternatives(tuple(found), orders=True)

    def _is_together(self) -> bool:
        token = self.cursor.peek()
        return token.kind == "iri" and token.text == _TOGETHER

    def _together(self, items: list[Item], depth: int) -> Item:
        at = self.cursor.peek().at
        while self._is_together():
            self.cursor.next()
            items.append(self._unit(depth))
        if self.cursor.peek().matches(FOLLOWED, IMMEDIATELY, "|"):
            self.query.fail("put parentheses around the operands of <>: (A <> B)", at)
        uses = [item for item in items if isinstance(item, Use)]
        if len(uses) < len(items):
            self.query.refuse(
                "the operands of <> are atoms, without + ? ! or a group: (A <> B) stands for events at one timestamp",
                at,
            )
        return Together(tuple(uses))

    def _unit(self, depth: int) -> Item:
        token = self.cursor.next()
        item: Item
        if token.matches("("):
            item = self.group(token, depth + 1)
        elif token.kind == "word":
            item = Use(token.text, *self.query.place(token.at))
        else:
            self.query.fail(f"expected the name of an atom or '(', not {show_token(token)}", token.at)
        while mark := self.cursor.take("+", "?", "!", "{"):
            item = self._marked(item, mark)
        return item

    def _marked(self, item: Item, mark: Token) -> Item:
        match mark.text:
            case "?":
                if not _has_positive(item):
                    self.query.refuse(
                        "? needs an atom that is not negated: leave the negation out, or keep it", mark.at
                    )
                return Option(item)
            case "!":
                return self._negated(item, mark)
            case "+":
                return Repeat(self._repeatable(item, mark))
        least, most = self._bounds(mark)
        if most == 0:
            self.query.fail("{0} is no repetition: leave the atom out", mark.at)
        repeated = self._repeatable(item, mark)
        return Repeat(repeated, least, most) if least else Option(Repeat(repeated, 1, most))

    def _negated(self, item: Item, mark: Token) -> Negation:
        if isinstance(item, Use):
            return Negation((item,))
        if isinstance(item, Alternatives):
            uses = tuple(one for one in item.items if isinstance(one, Use))
            if len(uses) == len(item.items):
                return Negation(uses)
        self.query.refuse("! takes an atom, or | of atoms: A! or (A | B)!", mark.at)

    def _repeatable(self, item: Item, mark: Token) -> Use | Together | Alternatives:
        if isinstance(item, Use | Together):
            return item
        if isinstance(item, Alternatives) and all(isinstance(one, Use) for one in item.items):
            return item
        self.query.refuse(
            "a repetition takes an atom, or | or <> of atoms: A+, (A | B)+ or (A <> B)+", mark.at
        )

    def _bounds(self, mark: Token) -> tuple[int, int | None]:
        """The numbers of {n}, {n,} or {n,m}."""
        least = self._number()
        most: int | None = least
        if self.cursor.take(","):
            most = None if self.cursor.peek().matches("}") else self._number()
        self.cursor.expect("}")
        if most is not None and most < least:
            self.query.fail(f"{{{least},{most}}} repeats fewer times at most than at least", mark.at)
        return least, most

    def _number(self) -> int:
        token = self.cursor.next()
        if token.kind != "number" or not token.text.isdigit():
            self.query.fail(f"expected a number of iterations, not {show_token(token)}", token.at)
        if len(token.text) > 9 or int(token.text) > MOST_ITERATIONS:
            self.query.refuse(f"a repetition is bounded by at most {MOST_ITERATIONS:,} iterations", token.at)
        return int(token.text)


def _has_positive(item: Item) -> bool:
    return sum(1 for _ in uses_of(item)) > sum(1 for _ in negated_uses(item))


def _check(reader: _SequenceReader, pattern: Item, opened: Token) -> None:
    """Refuses what only the whole expression shows."""
    query = reader.query
    if not _has_positive(pattern):
        query.refuse("a sequence needs an atom that is not negated", opened.at)
    if count_lines(pattern) > MOST_ALTERNATIVES:
        query.refuse(
            f"? and | make {count_lines(pattern):,} alternatives, and {MOST_ALTERNATIVES:,} are the most",
            opened.at,
        )
    for line in lines_of(pattern):
        if not _negations_apart(line):
            query.refuse(
                f"neighbouring negations need ; on all their sides, and this sequence can be {line}",
                opened.at,
            )


def _negations_apart(line: Line) -> bool:
    """Whether all operators of negations that are neighbours are `;`."""
    negated = [isinstance(step, Negation) for step in line.steps]
    neighbours = {k for k, pair in enumerate(pairwise(negated)) if all(pair)}
    beside = {place for k in neighbours for place in (k - 1, k, k + 1) if 0 <= place < len(line.ops)}
    return all(line.ops[place] == FOLLOWED for place in beside)
