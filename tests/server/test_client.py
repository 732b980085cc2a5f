"""`tw.connect`: the shape of a session over a socket."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg as tw
from tests.server.serving import ALL, PAIRS, S, Served, triple
from thalweg.client import ServiceError


@pytest.fixture
def remote(served: Served) -> tw.client.Remote:
    return tw.connect(served.running.url, served.client.token)


def test_it_answers_as_a_session_does(remote: tw.client.Remote) -> None:
    here = tw.Session()
    queries = [one.register(PAIRS) for one in (here, remote)]
    p = tw.IRI("http://ex/p")
    for one in (here, remote):
        one.push(S, at=1000, graph=[(tw.IRI("http://ex/a"), p, tw.IRI("http://ex/b"))])
        one.push(S, at="1970-01-01T00:00:02Z", graph=triple("b", "c"))
        one.push(S, at=3000, graph="@prefix : <http://ex/> . :c :p :d .", format="turtle")
        one.push(S, at=4000, graph=triple("a", "b"), op="delete")
        one.advance(60_000, stream=S)
    expected, found = ([(row.at, row.op, row.bindings) for row in query.poll()] for query in queries)
    assert found == expected
    assert len(found) == 4
    assert queries[1].poll() == []
    assert queries[1].inspect()["last"] == 4
    remote.unregister(queries[1])
    assert remote.queries == []


def test_rows_are_iterated_as_they_come(remote: tw.client.Remote, served: Served) -> None:
    query = remote.register(ALL)

    async def follow() -> list[str]:
        found = []
        async for row in query:
            found.append(row["a"])
            if len(found) == 3:
                await asyncio.to_thread(remote.unregister, query)
        return found

    async def both() -> list[str]:
        following = asyncio.create_task(follow())
        for n in range(3):
            await asyncio.to_thread(remote.push, S, at=n, graph=triple(n, "o"))
        return await asyncio.wait_for(following, 20)

    assert asyncio.run(both()) == [f"<http://ex/{n}>" for n in range(3)]
    assert query.ended in ("dropped", "gone")


def test_errors_have_their_kinds_and_places(remote: tw.client.Remote, served: Served) -> None:
    with pytest.raises(tw.QueryError) as wrong:
        remote.register("SELECT ?x FROM STREAM <http://ex/s> [RANGE 1s]\nWHERE { ?x ex:p ?y }")
    assert (wrong.value.line, wrong.value.column) == (2, 12)
    with pytest.raises(ServiceError, match="no stream") as unknown:
        remote.push(S, at=1, graph=triple("a", "b"))
    assert unknown.value.status == 404
    with pytest.raises(ServiceError, match="token"):
        tw.connect(served.running.url).register(ALL)
    with pytest.raises(tw.UsageError, match="http://HOST"):
        tw.connect("ftp://x")
    with pytest.raises(tw.ThalwegError, match="no answer"):
        tw.connect("http://127.0.0.1:9").queries  # noqa: B018


def test_the_rest_of_the_shape_is_there(remote: tw.client.Remote) -> None:
    remote.retain(S, "1h")
    assert remote.streams == [S]
    assert remote.load("<http://ex/x> <http://ex/p> 1 .") == 1
    remote.send(S, triple("a", "b").encode(), "nt", at=1000)
    query = remote.register(ALL, start="content", lease="5m")
    query.renew("10m")
    assert sorted(row["a"] for row in query) == ["<http://ex/a>", "<http://ex/x>"]
    assert remote.ask("ASK { <http://ex/a> ?p ?o }")["boolean"] is True
    assert "<http://ex/a>" in remote.ask("CONSTRUCT WHERE { ?s ?p ?o }")
    assert remote.query(query.id).poll()


def test_the_example_of_the_page_does_what_it_says(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    code = page.split("<!-- example -->\n```python\n")[1].split("```")[0]
    code = code.replace("http://127.0.0.1:7411", served.running.url)
    exec(code, {"TOKEN": served.client.token})
    expected = "2026-01-05T17:00:04Z + <http://example.org/ann> <http://example.org/cem>\n"
    assert capsys.readouterr().out == expected


def test_a_query_is_run_on_a_server(served: Served, tmp_path: Path) -> None:
    (tmp_path / "q.rq").write_text(PAIRS)
    lines = [json.dumps({"at": 1000 * n, "graph": triple(n, n + 1)}) for n in range(5)]
    (tmp_path / "s.ndjson").write_text("\n".join(lines))
    command = [sys.executable, "-m", "thalweg.cli", "run", "q.rq", "--at", served.running.url]
    command += ["--stream", f"{S}=s.ndjson"]
    env = {"THALWEG_TOKEN": served.client.token or "", "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["bindings"]["a"] for row in rows] == [f"<http://ex/{n}>" for n in range(4)]
    assert served.client("GET", "/queries").json["count"] == 0
    assert "5 events, 5 triples, 4 results" in done.stderr
    wrong = subprocess.run([*command, "--drain"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert (wrong.returncode, "--drain" in wrong.stderr) == (2, True)


def test_a_run_on_a_server_says_what_it_left_out_and_overwrites_no_input(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from thalweg.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THALWEG_TOKEN", served.client.token or "")
    Path("q.rq").write_text(PAIRS)
    Path("s.nt").write_text(triple("a", "b") + triple("b", "c"))
    Path("bad.nt").write_text("nonsense\n")

    def run(name: str, *more: str) -> tuple[int, str]:
        command = ["run", "q.rq", "--at", served.running.url, "--stream", f"{S}={name}", *more]
        with pytest.raises(SystemExit) as end:
            main(command)
        return int(end.value.code or 0), capsys.readouterr().err

    code, said = run("s.nt", "--out", "rows.jsonl")
    assert (code, "2 events, 2 triples, 1 result" in said, "their arrival" in said) == (0, True, True)
    code, said = run("bad.nt")
    assert (code, "1 quarantined" in said) == (1, True)
    before = Path("s.nt").read_bytes()
    code, said = run("s.nt", "--out", "s.nt", "--force")
    assert code != 0
    assert Path("s.nt").read_bytes() == before
