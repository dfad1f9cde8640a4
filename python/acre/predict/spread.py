# SPDX-License-Identifier: MIT
"""What cuDNN's choice of algorithms leaves open: a range for the memory that is held.

The sequence was recorded with a workspace as large as what a convolution touches: an
algorithm that works in another layout copies its tensors. Others need none, and those that
transform tensors (Winograd, FFT) need about twice as much. Which one runs is not known before,
and the sizes decide how freed memory is cut and used again. So the sequence is replayed many
times, each with one of the three for each convolution, by lot. The range lies around the
median of what the replays hold, reaches to the farthest of them, and has room for the error
of all else on both sides.
"""
import random
import statistics

FACTORS = (0, 1, 2)
REPLAYS, FEW, EVENTS = 32, 5, 2_000_000
MARGIN, WIDEST = 0.03, 0.22
_SEED = 18


def least(stacks):
    """A change of the sequence to algorithms that need no workspace."""
    def change(stack, size, _):
        return 0 if is_workspace(stacks, stack) else size
    return change


def is_workspace(stacks, stack):
    """Whether a stack is that of a convolution's workspace."""
    return bool(stack) and stacks.frame(stack[0])[1] == "range"


def _draw(stacks, number):
    """A change of the sequence to algorithms by lot."""
    lots, chosen = random.Random(_SEED * 1000 + number), {}

    def change(stack, size, _):
        if not is_workspace(stacks, stack):
            return size
        key = (stack[0], size)
        if key not in chosen:
            chosen[key] = lots.choice(FACTORS)
        return size * chosen[key]
    return change


def spread(trace, stacks, held, room, conf):
    """(low, high) bytes held on a GPU with room for the allocator; held is what the recorded
    sequence holds. A replay that does not fit is left out: cuDNN then takes another algorithm."""
    count = max(FEW, min(REPLAYS, EVENTS // max(len(trace.events), 1)))
    limit = {"device_bytes": room} if held <= room else {}
    found = [held]
    for number in range(count):
        replayed = trace.replay(_draw(stacks, number), conf=conf, **limit)
        if replayed.fits:
            found.append(replayed.first["bytes_reserved_peak"])
    middle = statistics.median(found)
    half = min(max(max(found) - middle, middle - min(found)) + MARGIN * middle,
               WIDEST / 2 * middle)
    middle += max(held - middle - half, 0) - max(middle - half - held, 0)
    return int(middle - half), int(min(middle + half, room) if held <= room else middle + half)
