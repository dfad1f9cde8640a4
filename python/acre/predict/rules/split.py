# SPDX-License-Identifier: MIT
"""Reductions that are split over several blocks of threads need a buffer and semaphores.

buffers() says how large both are. A block has at most 512 threads. Its width lies along
the fastest dimension of the input and its height along the other, both powers of two.
Where the reduced dimension is not the fastest, 4 outputs are computed at a time and a
block has a quarter of the threads; where it is, and all is reduced, 4 inputs are read at a
time. The reduction is spread over the rows of a block when each thread would have many
values, and over several blocks when there are still too many and too few blocks to fill
the GPU.
"""

THREADS, WARP = 512, 32
VALUES_FEW, VALUES_MANY = 16, 256


def _power_below(number):
    return 1 << (max(number, 1).bit_length() - 1)


def _ceil(number, divisor):
    return -(-number // divisor)


def _coalesced(dims):
    """(size, stride) pairs, fastest first, neighbours that are one joined."""
    joined = []
    for size, stride in sorted(dims, key=lambda dim: dim[1]):
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, stride))
    return joined


def _vector(kept, reduced):
    """How many outputs are computed at a time: 4, or less where sizes do not divide."""
    count = 4
    while count > 1 and (kept[0][0] % count
                         or any(stride % count for _, stride in kept[1:] + reduced)):
        count //= 2
    return count


def buffers(size, stride, dims, accumulator, gpu):
    """(bytes of the buffer, bytes of the semaphores), both 0 without a split.

    size and stride are those of the input, dims the reduced dimensions, accumulator the
    bytes of a partial result.

        >>> from acre.predict.gpu import find_gpu
        >>> buffers((4096, 1024), (1024, 1), (0,), 4, find_gpu("a100-40"))
        (33554432, 32)
    """
    kept = _coalesced([(size[i], stride[i]) for i in range(len(size))
                       if i not in dims and size[i] > 1])
    reduced = _coalesced([(size[i], stride[i]) for i in dims if size[i] > 1])
    outputs = inputs = 1
    for length, _ in kept:
        outputs *= length
    for length, _ in reduced:
        inputs *= length
    if inputs <= 1 or outputs == 0 or inputs == 0:
        return 0, 0
    is_fastest = not kept or reduced[0][1] < kept[0][1]
    vector = 1
    across, along = (inputs, outputs) if is_fastest else (outputs, inputs)
    if (reduced if is_fastest else kept)[0][1] == 1:
        if is_fastest and across >= 128 and not kept and len(reduced) == 1:
            across //= 4
        elif not is_fastest:
            vector = _vector(kept, reduced)
            across //= vector
    return _sizes(outputs, inputs, (across, along), (is_fastest, vector), accumulator, gpu)


def _sizes(outputs, inputs, extents, form, accumulator, gpu):
    is_fastest, vector = form
    threads = THREADS // vector
    across = min(_power_below(extents[0]), threads)
    along = min(_power_below(extents[1]), threads)
    width = min(across, WARP)
    height = min(along, threads // width)
    width = min(across, threads // height)
    step_in, step_out = (width, 1) if is_fastest else (1, width)
    values = _ceil(inputs, step_in)
    if values < min(VALUES_FEW * height, VALUES_MANY):
        return 0, 0
    values = _ceil(inputs, step_in * height)
    grid = _ceil(outputs // vector, step_out)
    target = gpu.sms * (gpu.threads_per_sm // (width * height))
    if values < VALUES_MANY or grid > target:
        return 0, 0
    blocks = max(min(_ceil(target, grid), _ceil(values, VALUES_FEW)), _ceil(values, VALUES_MANY))
    if blocks <= 1:
        return 0, 0
    buffer = accumulator * outputs * blocks
    if not is_fastest:
        buffer *= width * vector
    return buffer, 4 * grid
