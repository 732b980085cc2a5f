"""New blank nodes for rows of terms: a node's text is a digest of the texts in its row, and of a seed.

The same row gives the same text in every task, process and machine, whatever ids its terms have there. 128 bits
distinguish rows: the rounds are those of MurmurHash3 (x64, 128), over the size and the text of each term in turn, so
that texts cannot run into each other.
"""

from __future__ import annotations

from thalweg.kernels.arena import COUNT, RECORD, USED, crowded, find, put
from thalweg.kernels.bits import address, load_half, lshr, store8
from thalweg.kernels.checking import njit
from thalweg.kernels.hashing import hash64, word

NODE = 35
"""Bytes of a node's text: `_:c` and 32 hexadecimal digits."""

_C1 = -0x783C846EEEBDAC2B
_C2 = 0x4CF5AD432745937F
_F1 = -0x00AE502812AA7333
_F2 = -0x3B314601E57A13AD


@njit(cache=True, nogil=True)
def _rotated(bits, count):
    return (bits << count) | lshr(bits, 64 - count)


@njit(cache=True, nogil=True)
def _absorbed(high, low, first, second):
    """The state after two more words."""
    high ^= _rotated(first * _C1, 31) * _C2
    high = (_rotated(high, 27) + low) * 5 + 0x52DCE729
    low ^= _rotated(second * _C2, 33) * _C1
    low = (_rotated(low, 31) + high) * 5 + 0x38495AB5
    return high, low


@njit(cache=True, nogil=True)
def _mixed(bits):
    bits = (bits ^ lshr(bits, 33)) * _F1
    bits = (bits ^ lshr(bits, 33)) * _F2
    return bits ^ lshr(bits, 33)


@njit(cache=True, nogil=True)
def _write(target, place, bits):
    for k in range(16):
        digit = lshr(bits, 60 - 4 * k) & 15
        store8(target + place + k, digit + (0x30 if digit < 10 else 0x57))


@njit(cache=True, nogil=True)
def name_nodes(head, slots, log, rows, seed, nodes, start):
    """Write the id of each row's node to `nodes`, from row `start` on; gives the row at which room ran out.

    `seed` is two words. An id that the arena does not have gives -1; 0 stands for no term.
    """
    slots_at = address(slots)
    log_at = address(log)
    last = slots.size // 2 - 1
    for k in range(start, rows.shape[0]):
        if crowded(head[COUNT] + 1, last) or head[USED] + RECORD + NODE + 128 > log.size:
            return k
        high, low = seed[0], seed[1]
        for column in range(rows.shape[1]):
            size = 0
            text = log_at
            if rows[k, column] != 0:
                offset = find(slots_at, last, rows[k, column])
                if offset < 0:
                    return -1
                size = load_half(log_at + offset + 8)
                text = log_at + offset + RECORD
            high, low = _absorbed(high, low, size, column)
            for done in range(0, size, 16):
                high, low = _absorbed(
                    high, low, word(text + done, size - done), word(text + done + 8, size - done - 8)
                )
        high, low = high + low, high + low + low
        high, low = _mixed(high), _mixed(low)
        high += low
        low += high
        tail = log_at + head[USED] + RECORD
        store8(tail, 0x5F)
        store8(tail + 1, 0x3A)
        store8(tail + 2, 0x63)
        _write(tail, 3, high)
        _write(tail, 19, low)
        nodes[k] = put(head, slots_at, last, log_at, tail, NODE, hash64(tail, NODE))
    return rows.shape[0]
