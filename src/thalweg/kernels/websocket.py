"""Frames of WebSockets to messages: what clients send one by one is taken by the buffer.

The law (RFC 6455, section 5.2): a frame has two bytes, 0 or 2 or 8 bytes of a longer length, 4 bytes of a mask, and
that many bytes of payload, byte k of which is xored with byte k mod 4 of the mask.
"""

from __future__ import annotations

import numpy as np

from thalweg.kernels.checking import njit

# Whether the data have no further whole frame, or one that is not for this kernel, or there is no more room.
DONE, OTHER, FULL = 0, 1, 2

# Places in `state`: where in the data the next frame begins, how many bytes of texts and how many messages there are.
POS, SIZE, COUNT = 0, 1, 2

MOST = 1 << 16
"""Bytes of a payload with a length of 16 bits; longer frames are `OTHER`."""


@njit(cache=True, nogil=True)
def take_messages(data, state, room, longest, lines, texts, ends):
    """Takes whole messages of one frame each, up to the first frame that is something else.

    Their payloads are put into `texts` one after the other, each with a line feed at its end if they are `lines`;
    `ends` has where each of them ends. `texts` has `room` bytes and `MOST` more. Frames that are a part of a message,
    control frames, those of extensions, those without a mask and those above `longest` are `OTHER`.
    """
    pos, size, count = state[POS], state[SIZE], state[COUNT]
    status = DONE
    while pos + 2 <= data.size:
        first, second = data[pos], data[pos + 1]
        length = np.int64(second) & 0x7F
        if (first != 0x81 and first != 0x82) or second < 0x80 or length == 127:
            status = OTHER
            break
        at = pos + 2
        if length == 126:
            if pos + 4 > data.size:
                break
            length = np.int64(data[pos + 2]) << 8 | np.int64(data[pos + 3])
            at = pos + 4
        if length > longest:
            status = OTHER
            break
        if at + 4 + length > data.size:
            break
        if size >= room or count >= ends.size:
            status = FULL
            break
        payload = at + 4
        for k in range(length):
            texts[size + k] = data[payload + k] ^ data[at + (k & 3)]
        size += length
        if lines and (length == 0 or texts[size - 1] != 0x0A):
            texts[size] = 0x0A
            size += 1
        ends[count] = size
        count += 1
        pos = payload + length
    state[POS], state[SIZE], state[COUNT] = pos, size, count
    return status
