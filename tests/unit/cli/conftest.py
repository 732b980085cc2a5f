"""A folder with a query and a stream, and commands that run in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import Commands


@pytest.fixture
def thalweg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsysbinary)
