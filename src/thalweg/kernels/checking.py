"""The checked build: with THALWEG_CHECKED=1, kernels refuse loads and stores outside the arrays they were given.

Kernels reach most memory by address, so neither Python nor Numba sees an access beyond the end of an array. The
checked build keeps a table of the address ranges that may be touched:

- each array that Python code hands to kernels by address (`address_of`), for as long as the array object lives;
- each array argument of a kernel, for as long as the kernel runs.

Every load and store looks its address up there, and raises `BadAddressError` if it is not within one range. Where an
access is base + index, the base has to be in the same range. Numba checks the indexes of arrays (boundscheck).

A range is a whole array. An access to a wrong cell of the right array is not found.

The normal build has none of this: `njit` is Numba's own, and `guard` emits no code. The switch is read once, when this
module is imported. The two builds have separate caches on disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic
from numpy.typing import NDArray

CHECKED = os.environ.get("THALWEG_CHECKED", "") not in ("", "0")
"""Whether this process uses the checked build."""

_INT = ir.IntType(64)
_NEAR = 4096  # bytes
_SYMBOL = "thalweg_is_within_one_range"

# What the lookup reads and writes, at an address that stays: the address of the table of ranges, then the base, the
# address and the size of the first bad access (its size is 0 while there is none).
_TABLE, _BASE, _ADDRESS, _SIZE = range(4)
_shared = np.zeros(4, np.int64)
_SHARED_AT = int(_shared.ctypes.data)

Bounds = tuple[int, int]


class BadAddressError(IndexError):
    """A kernel of the checked build was about to touch memory outside the arrays that it was given."""


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's first byte, for kernels; the caller keeps the array alive while they use it."""
    if CHECKED:
        _ranges.add(array)
    return int(array.ctypes.data)


def guard(context: Any, builder: Any, base: Any, address: Any, size: int) -> None:
    """Emits the check of an access of `size` bytes at `address`, which was reckoned from `base`."""
    if not CHECKED:
        return
    kind = ir.FunctionType(_INT, [_INT] * 3)
    lookup = cgutils.get_or_insert_function(builder.module, kind, _SYMBOL)
    within = builder.call(lookup, [base, address, _INT(size)])
    with builder.if_then(builder.icmp_signed("==", within, _INT(0)), likely=False):
        context.call_conv.return_user_exc(builder, BadAddressError, ("a kernel used a bad address",))


class _Ranges:
    """The address ranges that kernels may touch, and the sorted table of them that the lookup reads.

    A table is never changed once kernels may read it: kernels run without the GIL. A new one takes its place, and the
    old ones are kept until no kernel runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owned: dict[int, tuple[weakref.ref[NDArray[Any]], Bounds]] = {}
        # References die at any time, also while the lock is held: what is dead is removed when a kernel is entered.
        self._dead: deque[int] = deque()
        self._lent: list[Bounds] = []
        self._running = 0
        self._tables: list[NDArray[np.int64]] = []
        self._stale = False
        self._publish()

    def add(self, array: NDArray[Any]) -> None:
        """Allows an array for as long as its object lives."""
        key = id(array)
        with self._lock:
            self._remove_dead()
            if key not in self._owned:
                self._owned[key] = weakref.ref(array, partial(self._note_dead, key)), bounds(array)
                self._stale = True

    def enter(self, arrays: Iterable[NDArray[Any]]) -> list[Bounds]:
        """Allows arguments of a kernel that begins; gives what to return with `leave`."""
        lent = [bounds(array) for array in arrays if array.size]
        with self._lock:
            self._remove_dead()
            self._running += 1
            self._lent += lent
            if lent or self._stale:
                self._publish()
        return lent

    def leave(self, lent: list[Bounds]) -> None:
        """Ends what `enter` began."""
        with self._lock:
            self._running -= 1
            for one in lent:
                self._lent.remove(one)
            self._stale |= bool(lent)
            if self._running == 0:
                del self._tables[:-1]

    def describe(self, base: int, address: int, size: int) -> str:
        """How an access misses the array that its base is in, or that is nearest."""
        access = f"{size} bytes at {address:#x}"
        table = self._tables[-1]
        starts, ends = table[1::2], table[2::2]
        distances = np.maximum(starts - base, base - ends)
        if not len(distances) or distances.min() > _NEAR:
            return f"{access}, base {base:#x}: no array that kernels may use is near the base"
        nearest = int(distances.argmin())
        start, end = int(starts[nearest]), int(ends[nearest])
        inside = "" if start <= base <= end else f" (base at byte {base - start})"
        return f"{access} are bytes {address - start} to {address - start + size}{inside} of an array of {end - start}"

    def _note_dead(self, key: int, reference: weakref.ref[NDArray[Any]]) -> None:
        self._dead.append(key)

    def _remove_dead(self) -> None:
        while self._dead:
            key = self._dead.popleft()
            held = self._owned.get(key)
            if held is not None and held[0]() is None:  # the id may belong to a new array already
                del self._owned[key]
                self._stale = True

    def _publish(self) -> None:
        every = np.array([held[1] for held in self._owned.values()] + self._lent, np.int64).reshape(-1, 2)
        every = every[np.argsort(every[:, 0], kind="stable")]
        # Views of one array overlap, and are one range. Ranges that only touch each other stay apart.
        reach = np.maximum.accumulate(every[:, 1])
        first = np.ones(len(every), np.bool_)
        first[1:] = every[1:, 0] >= reach[:-1]
        starts = np.flatnonzero(first)
        table = np.empty(1 + 2 * len(starts), np.int64)
        table[0] = len(starts)
        table[1::2] = every[starts, 0]
        table[2::2] = reach[np.append(starts[1:], len(every))[: len(starts)] - 1]
        self._tables.append(table)
        _shared[_TABLE] = table.ctypes.data
        self._stale = False


def bounds(array: NDArray[Any]) -> Bounds:
    """The addresses of an array's first byte and of the byte behind its last."""
    start, end = np.lib.array_utils.byte_bounds(array)
    return int(start), int(end)


class _CheckedDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel that may touch its array arguments while it runs, and reports which access was bad."""

    def __call__(self, *args: Any) -> Any:
        lent = _ranges.enter(arg for arg in args if isinstance(arg, np.ndarray))
        try:
            return super().__call__(*args)
        except BadAddressError:
            base, address, size = _shared[_BASE:].tolist()
            _shared[_SIZE] = 0
            name = f"{self.py_func.__module__}.{self.py_func.__name__}"
            raise BadAddressError(f"{name}: {_ranges.describe(base, address, size)}") from None
        finally:
            _ranges.leave(lent)


def _cache_directory() -> str:
    """Where the machine code of the checked build is kept: apart from that of the normal build."""
    given = numba.config.CACHE_DIR
    return str(Path(given or Path(__file__).parent / "__pycache__") / "checked")


def _checked_njit(**options: Any) -> Any:
    """Numba's `njit` with checks; the result can be called by kernels like any other."""

    def decorate(function: Any) -> Any:
        usual, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _cache_directory()
        try:
            kernel = numba.njit(boundscheck=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = usual
        kernel.__class__ = _CheckedDispatcher
        return kernel

    return decorate


def _publish_lookup() -> Any:
    """Compiles the lookup and makes it known to LLVM by name: code from a cache on disk finds it, too."""

    @intrinsic
    def peek(typingctx: Any, address: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.gep(builder.inttoptr(args[0], _INT.as_pointer()), [args[1]]))

        return types.int64(types.int64, types.int64), codegen

    @intrinsic
    def poke(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], builder.gep(builder.inttoptr(args[0], _INT.as_pointer()), [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    def is_within_one_range(base, address, size):
        table = peek(_SHARED_AT, _TABLE)
        low = np.int64(0)
        high = peek(table, 0)
        while low < high:  # ranges before `low` begin at or before the address
            middle = (low + high) >> 1
            if peek(table, 1 + 2 * middle) <= address:
                low = middle + 1
            else:
                high = middle
        if low > 0:
            start = peek(table, 2 * low - 1)
            end = peek(table, 2 * low)
            if address + size <= end and start <= base and base <= end:
                return 1
        if peek(_SHARED_AT, _SIZE) == 0:
            poke(_SHARED_AT, _BASE, base)
            poke(_SHARED_AT, _ADDRESS, address)
            poke(_SHARED_AT, _SIZE, size)
        return 0

    lookup = numba.cfunc(types.int64(types.int64, types.int64, types.int64))(is_within_one_range)
    llvm.add_symbol(_SYMBOL, lookup.address)
    return lookup


njit = numba.njit
if CHECKED:
    _ranges = _Ranges()
    _lookup = _publish_lookup()
    njit = _checked_njit
