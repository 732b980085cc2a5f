"""Shares by what is in the files."""

from __future__ import annotations

from pathlib import Path

from thalweg.lang import parse
from thalweg.plan.shares import plan_shares
from thalweg.spark.sampling import kept_sizes, sampled_sizes

S = "http://ex/s"
TEXT = f"SELECT * FROM STREAM <{S}> [RANGE 10] WHERE {{ ?x <http://ex/p> ?y . ?a <http://ex/q> ?b }}"


def test_the_pattern_that_fits_most_is_not_copied(tmp_path: Path) -> None:
    few, many = (
        "<http://ex/n{k}> <http://ex/p> <http://ex/o> .\n",
        "<http://ex/n{k}> <http://ex/q> <http://ex/o> .\n",
    )
    (tmp_path / "a.nt").write_text(few.format(k=1) + "".join(many.format(k=k) for k in range(99)))
    query = parse(TEXT)
    sizes = sampled_sizes(query, {S: str(tmp_path)})
    assert sizes == {0: 2.0, 1: 100.0}
    shares = plan_shares(query, 4, sizes)
    assert [shares.copies(pattern) for pattern in query.patterns] == [4, 1]


def test_a_checkpoint_keeps_the_sizes_that_its_state_was_spread_by(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_text("<http://ex/n> <http://ex/p> <http://ex/o> .\n")
    checkpoint = str(tmp_path / "checkpoint")
    first = kept_sizes(checkpoint, parse(TEXT), {S: str(file)})
    file.write_text("<http://ex/n> <http://ex/q> <http://ex/o> .\n" * 50)
    assert kept_sizes(checkpoint, parse(TEXT), {S: str(file)}) == first == {0: 2.0, 1: 1.0}
