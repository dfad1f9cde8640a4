# SPDX-License-Identifier: MIT
"""Common GPUs: whether the program fits on each.

The sequence was recorded for one GPU. For another one it is replayed with that one's memory
and the cuBLAS workspaces that its generation gets. What else depends on the GPU (buffers of
split reductions by multiprocessors, the kernel of attention below compute capability 8.0)
stays as it was recorded; run_cards() runs the program again for each GPU instead.
"""
import dataclasses

from .gpu import COMMON, GPUS
from .rules.blas import workspace_bytes
from .saving import ask
from .spread import is_workspace


def _row(gpu, fits, spare, was_run):
    return {"gpu": gpu.name, "title": gpu.title, "memory_bytes": gpu.memory, "fits": fits,
            "spare_bytes": spare, "was_run": was_run}


def _names(own):
    names = list(COMMON) + ([own] if own not in COMMON else [])
    return sorted(names, key=lambda name: GPUS[name].memory)


def _change(stacks, size, is_least):
    """A change of the sequence to cuBLAS workspaces of a size, and to convolutions without."""
    def change(stack, bytes_, _):
        if stack and stacks.frame(stack[0])[:2] == ("cublas workspace", "workspace"):
            return size
        return 0 if is_least and is_workspace(stacks, stack) else bytes_
    return change


class _Sequence:
    """The sequence with cuBLAS workspaces of one size, on GPUs of any memory."""

    def __init__(self, session, trace, size):
        self._trace, self._conf = trace, session.conf
        stacks = session.ground.stacks
        self._texts = [trace.text(_change(stacks, size, False))]
        if session.kernels.has_range:
            self._texts.append(trace.text(_change(stacks, size, True)))
        self._held = self._replay(0).first["bytes_reserved_peak"]
        self._least = None

    def _replay(self, which, **settings):
        return self._trace.replay(text=self._texts[which], conf=self._conf, **settings)

    def fit(self, room):
        """(whether it fits, bytes to spare)."""
        if self._held <= room:
            return True, room - self._held
        for which in range(len(self._texts)):
            within = self._replay(which, device_bytes=max(room, 1))
            if within.fits:
                return True, room - within.first["bytes_reserved_peak"]
        if self._least is None:
            self._least = self._replay(-1, min_capacity=True).min_capacity_bytes or self._held
        return False, room - self._least


def replay_cards(session, trace, answer):
    """A row for each common GPU, from the recorded sequence."""
    rows, known = [], {}
    for name in _names(session.gpu.name):
        gpu = GPUS[name]
        room = gpu.room(answer["nccl_bytes"], answer["memory_fraction"])
        if name == session.gpu.name:
            needed = answer["reserved_peak_bytes" if answer["fits"] else "needed_bytes"]
            rows.append(_row(gpu, answer["fits"], room - needed, True))
            continue
        if not trace.events:
            rows.append(_row(gpu, True, room, False))
            continue
        size = workspace_bytes(gpu)
        if size not in known:
            known[size] = _Sequence(session, trace, size)
        rows.append(_row(gpu, *known[size].fit(room), False))
    return rows


def run_cards(options):
    """A row for each common GPU, from a prediction for it."""
    rows = []
    for name in _names(options.gpu):
        gpu = GPUS[name]
        answer, reason = ask(dataclasses.replace(options, gpu=name), [], options.program)
        if answer is None:
            raise RuntimeError(f"{gpu.title}: {reason}")
        rows += [_row(gpu, row["fits"], row["spare_bytes"], True) for row in answer["cards"]
                 if row["gpu"] == name]
    return rows
