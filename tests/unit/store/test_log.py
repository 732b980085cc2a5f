"""The log of a store: records are whole or not there, and damage is never silent."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg as tw
from thalweg.store.log import Head, Log

HEAD = Head("http://ex/s", rows=1, events=1, deletes=0, first=1, last=1)


def log_of(folder: Path, bodies: list[bytes], **options: int) -> Log:
    log = Log(folder, **options)
    for body in bodies:
        log.append(HEAD, body)
    return log


def bodies(log: Log) -> list[bytes]:
    return [log.body(record) for record in log.records]


def test_records_are_read_back_over_several_segments(tmp_path: Path) -> None:
    written = [bytes([k]) * 100 for k in range(20)]
    log_of(tmp_path, written, segment=500).close()
    assert len(list(tmp_path.glob("*.log"))) > 2
    again = Log(tmp_path)
    assert bodies(again) == written
    again.append(HEAD, b"more")
    assert bodies(again)[-1] == b"more"


def test_a_record_that_was_cut_anywhere_is_gone_and_those_before_it_stay(tmp_path: Path) -> None:
    log = log_of(tmp_path / "whole", [b"one", b"two"])
    log.close()
    data = (tmp_path / "whole" / "00000000.log").read_bytes()
    start = log.records[1].start
    for end in range(start, len(data)):
        folder = tmp_path / str(end)
        folder.mkdir()
        (folder / "00000000.log").write_bytes(data[:end])
        again = Log(folder)
        assert bodies(again) == [b"one"], end
        again.append(HEAD, b"three")
        again.close()
        assert bodies(Log(folder)) == [b"one", b"three"]


def test_blocks_that_were_reserved_and_never_written_are_cut_off(tmp_path: Path) -> None:
    log_of(tmp_path, [b"one"]).close()
    with (tmp_path / "00000000.log").open("ab") as file:
        file.write(bytes(4096))
    assert bodies(Log(tmp_path)) == [b"one"]


def test_a_last_record_of_which_not_every_byte_came_to_the_disk_is_cut_off(tmp_path: Path) -> None:
    log_of(tmp_path, [b"one", b"two"]).close()
    path = tmp_path / "00000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert bodies(Log(tmp_path)) == [b"one"]


def test_damage_in_the_middle_is_refused_with_its_place(tmp_path: Path) -> None:
    log = log_of(tmp_path, [b"one", b"two", b"three"])
    log.close()
    path, record = tmp_path / "00000000.log", log.records[1]
    data = bytearray(path.read_bytes())
    data[record.body] ^= 1
    path.write_bytes(data)
    damaged = Log(tmp_path)
    with pytest.raises(tw.DataError, match=f"the record at byte {record.start} cannot be read"):
        bodies(damaged)
    data[record.start] ^= 1
    path.write_bytes(data)
    with pytest.raises(tw.DataError, match=f"the record at byte {record.start} cannot be read"):
        Log(tmp_path)


def test_a_damaged_size_does_not_cut_off_the_whole_records_behind_it(tmp_path: Path) -> None:
    log = log_of(tmp_path, [b"one", b"two", b"three"])
    log.close()
    path, record = tmp_path / "00000000.log", log.records[1]
    data = bytearray(path.read_bytes())
    data[record.start + 10] ^= 1  # the body then ends far behind the end of the file
    path.write_bytes(data)
    with pytest.raises(tw.DataError, match=f"the record at byte {record.start} cannot be read"):
        Log(tmp_path)
    assert path.read_bytes() == data


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    log = log_of(tmp_path, [b"one"])
    real = os.pwrite

    def short(file: int, data: bytes, at: int) -> int:
        real(file, data[:5], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(OSError, match="No space left"):
        log.append(HEAD, b"two")
    monkeypatch.undo()
    log.append(HEAD, b"three")
    assert bodies(log) == bodies(Log(tmp_path)) == [b"one", b"three"]
