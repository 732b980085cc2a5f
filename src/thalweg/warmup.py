"""The first minute's compiler: `python -m thalweg.warmup` fills Numba's cache on disk."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def drop_stale_kernels(package: Path = PACKAGE) -> int:
    """Remove Numba's cached machine code if a kernel file is newer; the number of files removed.

    Numba looks only at the file of the function itself, so a kernel that calls a changed kernel of another
    file would keep the old code inlined. Dropping everything is cheap next to such a surprise.
    """
    indexes = list(package.rglob("*.nbi"))
    sources = list((package / "kernels").glob("*.py"))
    if not indexes or not sources:
        return 0
    if max(map(_changed, sources)) <= min(map(_changed, indexes)):
        return 0
    stale = [*indexes, *package.rglob("*.nbc")]
    for file in stale:
        file.unlink(missing_ok=True)
    return len(stale)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another process swept it between listing and looking
        return float("inf")
