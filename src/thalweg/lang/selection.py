"""Clauses that say which matches of a sequence are reported: AFTER MATCH SKIP, CONSUME, WITH RETRACTIONS, TIMED OUT."""

from __future__ import annotations

from thalweg.algebra.sequences import (
    CHRONOLOGICAL,
    PAST_LAST,
    RECENT,
    TO_FIRST,
    TO_LAST,
    TO_NEXT,
    Negation,
    Sequence,
    Skip,
    negated_uses,
    uses_of,
)
from thalweg.hints import did_you_mean
from thalweg.lang.clauses import Cursor, Token, show_token


class SelectionReader:
    """Reads the clauses, and checks them when the sequence is known."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.skip: Skip | None = None
        self.consume: str | None = None
        self.retracts = False
        self.timed_out: str | None = None
        self._timed_out_at: Token | None = None
        self._with_at: Token | None = None
        self._skip_at: Token | None = None
        self._consume_at: Token | None = None
        self._atom_at: Token | None = None

    def read_skip(self, after: Token) -> None:
        """AFTER MATCH SKIP, behind AFTER."""
        if self._skip_at is not None:
            self.cursor.query.fail("AFTER MATCH SKIP stands once", after.at)
        self._skip_at = after
        self.cursor.expect("MATCH")
        self.cursor.expect("SKIP")
        where = self.cursor.expect("NO", "PAST", "TO")
        match where.text.upper():
            case "NO":
                self.cursor.expect("SKIP")
            case "PAST":
                self.cursor.expect("LAST")
                self.cursor.expect("EVENT")
                self.skip = Skip(PAST_LAST)
            case "TO":
                self._read_target()

    def _read_target(self) -> None:
        target = self.cursor.expect("NEXT", "FIRST", "LAST")
        if target.matches("NEXT"):
            self.cursor.take("EVENT")
            self.skip = Skip(TO_NEXT)
            return
        atom = self.cursor.next()
        if atom.kind != "word":
            self.cursor.query.fail(
                f"SKIP TO {target.text} takes the name of an atom, not {show_token(atom)}", atom.at
            )
        self._atom_at = atom
        self.skip = Skip(TO_FIRST if target.matches("FIRST") else TO_LAST, atom.text)

    def read_consume(self, consume: Token) -> None:
        """CONSUME RECENT or CONSUME CHRONOLOGICAL, behind CONSUME."""
        if self._consume_at is not None:
            self.cursor.query.fail("CONSUME stands once", consume.at)
        self._consume_at = consume
        self.consume = self.cursor.expect(RECENT, CHRONOLOGICAL).text.upper()

    def read_with(self, token: Token) -> None:
        """WITH RETRACTIONS or WITH TIMED OUT AS ?v, behind WITH."""
        if self.cursor.expect("RETRACTIONS", "TIMED").matches("RETRACTIONS"):
            if self._with_at is not None:
                self.cursor.query.fail("WITH RETRACTIONS stands once", token.at)
            self._with_at, self.retracts = token, True
            return
        self.cursor.expect("OUT")
        self.cursor.expect("AS")
        if self.timed_out is not None:
            self.cursor.query.fail("WITH TIMED OUT stands once", token.at)
        variable = self.cursor.next()
        if variable.kind != "var":
            self.cursor.query.fail(
                f"WITH TIMED OUT AS takes a new variable, not {show_token(variable)}", variable.at
            )
        self.timed_out, self._timed_out_at = variable.text[1:], variable

    def check(self, sequence: Sequence, *, is_construct: bool) -> None:
        """Refuses what has no meaning for a sequence."""
        query = self.cursor.query
        if self._with_at is not None and sequence.selects:
            query.refuse(
                "WITH RETRACTIONS beside AFTER MATCH SKIP or CONSUME is not supported: "
                "a match that is taken back could change every later one",
                self._with_at.at,
            )
        if self._with_at is not None and is_construct:
            query.refuse(
                "WITH RETRACTIONS is for SELECT: events of a derived stream are not taken back",
                self._with_at.at,
            )
        if self.skip is not None and self._consume_at is not None:
            query.refuse(
                "AFTER MATCH SKIP and CONSUME in one query are not supported: choose one", self._consume_at.at
            )
        if self._timed_out_at is not None:
            self._check_timed_out(sequence, self._timed_out_at, is_construct)
        if self._atom_at is not None:
            negated = set(map(id, negated_uses(sequence.pattern)))
            names = [use.atom for use in uses_of(sequence.pattern) if id(use) not in negated]
            if self._atom_at.text not in names:
                near = did_you_mean(self._atom_at.text, tuple(dict.fromkeys(names)))
                query.fail(
                    f"AFTER MATCH SKIP names {self._atom_at.text}, which is no atom of SEQ that has events{near}",
                    self._atom_at.at,
                )
        self._check_recent(sequence)

    def _check_timed_out(self, sequence: Sequence, at: Token, is_construct: bool) -> None:
        query = self.cursor.query
        if any(at.text[1:] in atom.possible for atom in sequence.atoms):
            query.fail(f"{at.text} has a value already: WITH TIMED OUT AS needs a new variable", at.at)
        if sequence.selects or sequence.retracts or is_construct:
            query.refuse(
                "WITH TIMED OUT is for SELECT, without AFTER MATCH SKIP, CONSUME or WITH RETRACTIONS", at.at
            )

    def _check_recent(self, sequence: Sequence) -> None:
        query = self.cursor.query
        if self.consume == RECENT and self._consume_at is not None:
            for line in sequence.lines:
                if isinstance(line.steps[-1], Negation):
                    query.refuse(
                        "CONSUME RECENT of a sequence that ends in a negation is not supported: "
                        "matches with the same last event are known at different times",
                        self._consume_at.at,
                    )
