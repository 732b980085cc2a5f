"""A changed kernel file drops the cached code of the modules that use it, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from thalweg import warmup

SOURCES = {
    "bits": "import numpy as np",
    "layout": "SIZE = 3",
    "hashing": "from thalweg.kernels.bits import load",
    "store": "from thalweg.kernels import layout\nfrom thalweg.kernels.hashing import mix",
    "match": "import thalweg.kernels.store",
    "frame": "from .layout import SIZE",
    "times": "import datetime",
}
SAVED, COMPILED, EDITED = 1_000, 2_000, 3_000


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Kernel files, and newer caches of a function of each, in both builds."""
    kernels = tmp_path / "kernels"
    for folder in ("__pycache__", "__pycache__/checked/kernels_1"):
        (kernels / folder).mkdir(parents=True)
    for module, text in SOURCES.items():
        write(kernels / f"{module}.py", SAVED, text)
        for folder in ("__pycache__", "__pycache__/checked/kernels_1"):
            for name in ("run-7.py311.nbi", "run-7.py311.1.nbc"):
                write(kernels / folder / f"{module}.{name}", COMPILED)
    return tmp_path


def write(file: Path, time: int, text: str = "") -> None:
    file.write_text(text, encoding="utf-8")
    os.utime(file, (time, time))


def cached(package: Path) -> set[str]:
    """The modules with complete caches; none has a part of one."""
    files = [file.name.split(".")[0] for file in package.rglob("*.nb?")]
    assert all(files.count(module) == 4 for module in files)
    return set(files)


@pytest.mark.parametrize(
    ("edited", "stale"),
    [
        ("times", {"times"}),
        ("match", {"match"}),
        ("store", {"store", "match"}),
        ("layout", {"layout", "store", "match", "frame"}),
        ("bits", {"bits", "hashing", "store", "match"}),
    ],
)
def test_a_changed_file_drops_the_caches_of_all_modules_that_import_it(
    package: Path, edited: str, stale: set[str]
) -> None:
    os.utime(package / "kernels" / f"{edited}.py", (EDITED, EDITED))
    assert warmup.drop_stale_kernels(package) == 4 * len(stale)
    assert cached(package) == SOURCES.keys() - stale
    assert warmup.drop_stale_kernels(package) == 0


def test_nothing_is_dropped_where_nothing_changed(package: Path) -> None:
    assert warmup.drop_stale_kernels(package) == 0
    assert cached(package) == SOURCES.keys()


def test_an_overload_that_is_compiled_after_the_change_does_not_hide_an_older_one(package: Path) -> None:
    os.utime(package / "kernels" / "store.py", (EDITED, EDITED))
    for folder in (package / "kernels").rglob("match.*.nbi"):
        os.utime(folder, (EDITED + 1, EDITED + 1))
    warmup.drop_stale_kernels(package)
    assert cached(package) == SOURCES.keys() - {"store", "match"}


def test_caches_of_a_module_that_is_gone_are_dropped(package: Path) -> None:
    (package / "kernels" / "times.py").unlink()
    os.utime(package / "kernels" / "match.py", (EDITED, EDITED))
    warmup.drop_stale_kernels(package)
    assert cached(package) == SOURCES.keys() - {"times", "match"}


def test_the_imports_of_the_real_kernels_are_followed() -> None:
    imports = warmup.kernel_imports(warmup.PACKAGE / "kernels")
    assert {"memory", "bits", "checking"} <= imports["store"]
    assert {"store", "layout"} <= imports["match"]
    assert imports["checking"] == set()
