"""The checked build finds each planted bug; the normal build has no checks and a cache of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kernels.planted_bugs import BUGS

SCRIPT = Path(__file__).with_name("planted_bugs.py")
# The code of a kernel that loads a cell, and where the code of kernels is cached.
BUILD = """
import json
from thalweg.kernels import checking, memory, store

@checking.njit()
def load(address):
    return memory.load64(address, 1)

load.compile("int64(int64)")
print(json.dumps([load.inspect_asm(load.signatures[0]), store.insert.stats.cache_path]))
"""


def run(checked: str, *command: str) -> Any:
    """What a new process prints, with or without the switch."""
    environment = {**os.environ, "THALWEG_CHECKED": checked}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def errors() -> dict[str, str | None]:
    found: dict[str, str | None] = run("1", str(SCRIPT))
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("checked")
@pytest.mark.parametrize("bug", [bug.__name__ for bug in BUGS])
def test_the_checked_build_finds(bug: str, errors: dict[str, str | None]) -> None:
    assert errors[bug] is not None
    assert errors[bug].startswith(
        "IndexError" if bug == "an_array_index_beyond_the_end" else "BadAddressError"
    )


@pytest.mark.xdist_group("checked")
def test_an_error_names_the_kernel_and_the_bytes_that_it_was_about_to_touch(errors: dict[str, str]) -> None:
    error = errors["a_ring_that_is_one_row_shorter_than_described"]
    place = r"8 bytes at 0x[0-9a-f]+ are bytes (\d+) to \d+ of an array of \1"
    assert re.fullmatch(rf"BadAddressError: thalweg\.kernels\.store\.insert: {place}", error)


def test_the_normal_build_has_no_checks_and_does_not_share_its_cache() -> None:
    code, cache = run("", "-c", BUILD)
    checked_code, checked_cache = run("1", "-c", BUILD)
    assert "thalweg_is_within_one_range" in checked_code
    assert "thalweg_is_within_one_range" not in code
    assert "checked" in Path(checked_cache).parts
    assert "checked" not in Path(cache).parts[-2:]
