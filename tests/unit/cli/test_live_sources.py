"""Live sources: the standard input, TCP and MQTT, and events that are replayed or timed by their arrival."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.cli.commands import EX, FRIENDS, PEOPLE, STREAM, Commands
from thalweg.instants import instant

LINES = ("\n".join(PEOPLE) + "\n").encode()
PAIRS = [{"a": f"<{EX}ann>", "c": f"<{EX}cem>"}, {"a": f"<{EX}ben>", "c": f"<{EX}dora>"}]


@pytest.fixture
def commands(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capfdbinary)


@contextmanager
def writing_to_stdin(write: Callable[[int], None]) -> Iterator[None]:
    """Makes the standard input a pipe that a thread writes to and closes."""
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    os.close(reading)

    def work() -> None:
        try:
            write(writing)
        except BrokenPipeError:
            pass
        finally:
            os.close(writing)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        os.dup2(before, 0)  # ends a write that waits
        os.close(before)
        thread.join(10)


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that gives one connection to `answer`, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def work() -> None:
            connection, _ = listening.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def bindings(commands_out: list[tuple[str, str, dict[str, str]]]) -> list[dict[str, str]]:
    return [row for _, op, row in commands_out if op == "+"]


def test_the_standard_input_is_a_stream(commands: Commands) -> None:
    def write(out: int) -> None:
        for start in range(0, len(LINES), 7):  # lines are cut anywhere
            os.write(out, LINES[start : start + 7])

    with writing_to_stdin(write):
        done = commands.run("-", "--format", "nt")
    assert done.code == 0
    assert bindings(done.rows) == PAIRS


def test_answers_come_before_the_input_ends(commands: Commands) -> None:
    seen: list[bytes] = []

    def write(out: int) -> None:
        os.write(out, LINES)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not seen:
            found = (commands.folder / "out.jsonl").read_bytes() if Path("out.jsonl").exists() else b""
            if found.count(b"\n") == 2:
                seen.append(found)
            time.sleep(0.01)

    with writing_to_stdin(write):
        assert commands.run("-", "--format", "nt", "--out", "out.jsonl").code == 0
    assert seen


def test_the_last_line_needs_no_end_and_a_malformed_one_is_quarantined(commands: Commands) -> None:
    with writing_to_stdin(lambda out: os.write(out, b"nonsense\r\n" + LINES[:-1]) and None):
        done = commands.run("-", "--format", "nt", "--quarantine", "bad.jsonl")
    assert bindings(done.rows) == PAIRS
    assert '"line": 1' in Path("bad.jsonl").read_text()


def test_a_source_without_a_suffix_needs_a_format(commands: Commands) -> None:
    done = commands.run("-")
    assert (done.code, "--format" in done.err) == (2, True)


def test_the_standard_input_is_read_once(commands: Commands) -> None:
    twice = commands("run", "friends.rq", "--stream", f"{STREAM}=-", "--stream", f"{EX}b=-", "--format", "nt")
    both = commands("run", "-", "--stream", f"{STREAM}=-", "--format", "nt")
    assert (twice.code, both.code) == (2, 2)
    assert "standard input" in twice.err
    assert "standard input" in both.err


def test_a_file_that_is_the_standard_input_is_no_output(commands: Commands) -> None:
    path = commands.folder / "rows.jsonl"
    path.write_bytes(LINES)
    before = os.dup(0)
    with open(path, "rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        done = commands.run("-", "--format", "nt", "--out", "rows.jsonl", "--force")
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert done.code == 2
    assert path.read_bytes() == LINES


def test_a_server_that_sends_lines_is_a_stream(commands: Commands) -> None:
    with server(lambda connection: connection.sendall(LINES)) as address:
        done = commands.run(address, "--format", "nt")
    assert done.code == 0
    assert bindings(done.rows) == PAIRS


def test_a_connection_that_breaks_off_is_reported_and_keeps_what_came(commands: Commands) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(LINES)
        time.sleep(0.5)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with server(reset) as address:
        done = commands.run(address, "--format", "nt", "--quarantine", "bad.jsonl")
    assert bindings(done.rows) == PAIRS
    assert "breaks off" in Path("bad.jsonl").read_text()


def test_a_server_that_is_not_there_is_one_sentence(commands: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = commands.run(f"tcp://127.0.0.1:{port}", "--format", "nt")
    assert done.code == 1
    assert "cannot connect" in done.err
    assert len(done.lines) == 1


@pytest.mark.parametrize("address", ["tcp://host", "mqtt://host", "mqtt://host/t?qos=7", "mqtt://host/t?x=1"])
def test_an_address_that_is_wrong_is_refused(commands: Commands, address: str) -> None:
    assert commands.run(address, "--format", "nt").code == 2


def test_with_arrival_answers_expire_without_further_events(commands: Commands) -> None:
    (commands.folder / "friends.rq").write_text(FRIENDS.replace("[RANGE 10]", "[RANGE 200ms]"))

    def write(out: int) -> None:
        os.write(out, LINES)
        time.sleep(1)

    with writing_to_stdin(write):
        done = commands.run("-", "--format", "nt", "--arrival")
    came = [instant(at) for at, op, _ in done.rows if op == "+"]
    went = [instant(at) for at, op, _ in done.rows if op == "-"]
    assert len(came) == len(went) == 2
    assert {end - begin for begin, end in zip(came, went, strict=True)} == {200_000}
    assert abs(came[0] / 1e6 - time.time()) < 60


def test_a_replay_takes_as_long_as_its_times_say(commands: Commands) -> None:
    begin = time.monotonic()
    done = commands.run("people.nt", "--rate", "10", "--speedup", "0.5", "--loop", "2")
    assert time.monotonic() - begin >= 5 / 10 / 0.5  # from the first to the sixth event
    assert [at[17:-1] for at, _, _ in done.rows] == []
    (commands.folder / "friends.rq").write_text(FRIENDS.replace("[RANGE 10]", "[RANGE 10s]"))
    done = commands.run("people.nt", "--rate", "10", "--speedup", "1000", "--loop", "2")
    assert bindings(done.rows) == PAIRS


# MQTT


@contextmanager
def broker(folder: Path, port: int) -> Iterator[None]:
    """A broker on this machine."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("no MQTT broker here: install mosquitto")
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


def publish(port: int, **messages: bytes) -> None:
    """Leaves a message at each topic, which whoever comes later gets, too."""
    from paho.mqtt import publish as sender

    what = [{"topic": f"people/{name}", "payload": text, "retain": True} for name, text in messages.items()]
    sender.multiple(what, hostname="127.0.0.1", port=port)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def stop_when(path: Path, lines: int, meanwhile: Callable[[], None] = lambda: None) -> threading.Thread:
    """Interrupts this process when a file has so many lines."""

    def work() -> None:
        meanwhile()
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") >= lines):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_messages_of_a_broker_are_a_stream(commands: Commands) -> None:
    port, out = free_port(), commands.folder / "out.jsonl"
    with broker(commands.folder, port):
        publish(port, a=PEOPLE[0].encode(), b=LINES[len(PEOPLE[0]) + 1 :])
        waiting = stop_when(out, 2)
        done = commands.run(f"mqtt://127.0.0.1:{port}/people/#", "--format", "nt", "--out", str(out))
        waiting.join()
    assert done.code == 0  # a source without an end is stopped
    assert out.read_text().count('"+"') == 2


def test_a_message_may_be_a_document(commands: Commands) -> None:
    port, out = free_port(), commands.folder / "out.jsonl"
    turtle = f"@prefix : <{EX}> .\n:ann :knows :ben .\n:ben :knows :cem, :dora ."
    with broker(commands.folder, port):
        publish(port, a=turtle.encode())
        waiting = stop_when(out, 2)
        done = commands.run(f"mqtt://127.0.0.1:{port}/people/+", "--format", "turtle", "--out", str(out))
        waiting.join()
    assert done.code == 0
    assert out.read_text().count('"+"') == 2


@pytest.mark.slow
def test_a_broker_that_goes_away_is_reported_and_connected_to_again(commands: Commands) -> None:
    port, out = free_port(), commands.folder / "out.jsonl"
    going = broker(commands.folder, port)
    going.__enter__()
    publish(port, a=LINES[: 2 * len(PEOPLE[0]) + 2])
    again = broker(commands.folder, port)

    def restart() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not (out.exists() and out.read_bytes()):
            time.sleep(0.05)
        going.__exit__(None, None, None)
        again.__enter__()
        publish(port, b=PEOPLE[2].encode())

    waiting = stop_when(out, 2, restart)
    done = commands.run(f"mqtt://127.0.0.1:{port}/people/#", "--format", "nt", "--out", str(out))
    waiting.join()
    again.__exit__(None, None, None)
    assert done.code == 0
    assert "the connection is lost" in done.err
    assert "connected again" in done.err
    assert out.read_text().count('"+"') == 2


def test_a_broker_that_is_not_there_is_one_sentence(commands: Commands) -> None:
    done = commands.run(f"mqtt://127.0.0.1:{free_port()}/people", "--format", "nt")
    assert done.code == 1
    assert "cannot connect" in done.err
