"""Operators that several others take: they are planned, run and shown once."""

import thalweg as tw
from thalweg.lang import parse
from thalweg.plan.compile import plan_of
from thalweg.plan.explain import explain
from thalweg.plan.physical import walk

S = "http://ex/s"


def chain(length: int) -> str:
    """OPTIONALs each of which uses a variable of the one before: they cannot be matched around one pattern."""
    parts = "".join(f"OPTIONAL {{ ?x{k} <http://ex/p> ?x{k + 1} }} " for k in range(1, length + 1))
    return f"SELECT * FROM STREAM <{S}> [RANGE 10] {{ ?x0 <http://ex/start> ?x1 {parts} }}"


def test_a_chain_of_optionals_has_a_plan_of_linear_size():
    sizes = [sum(1 for _ in walk(plan_of(parse(chain(length))).root)) for length in (10, 20, 30)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    assert len(explain(parse(chain(30))).splitlines()) < 1000
    assert len(explain(parse(chain(30)), format="dot").splitlines()) < 1000


def test_a_long_chain_of_optionals_is_answered():
    session = tw.Session()
    query = session.register(chain(20))
    session.push(S, at=0, graph="<http://ex/a> <http://ex/start> <http://ex/n1> .")
    for k in range(1, 21):
        session.push(S, at=0, graph=f"<http://ex/n{k}> <http://ex/p> <http://ex/n{k + 1}> .")
    counts: dict[tuple[str, ...], int] = {}
    for row in query.poll():
        key = tuple(row.bindings.values())
        counts[key] = counts.get(key, 0) + (1 if row.op == "+" else -1)
    (answer,) = [key for key, count in counts.items() if count]
    assert answer == ("<http://ex/a>", *(f"<http://ex/n{k}>" for k in range(1, 22)))
    session.advance(11)
    assert [(row.op, len(row.bindings)) for row in query.poll()] == [("-", 22)]
    session.finish()
