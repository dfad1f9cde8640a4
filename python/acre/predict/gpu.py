# SPDX-License-Identifier: MIT
"""GPUs as facts: multiprocessors, threads, generation, memory, the size of a context.

memory is what CUDA shows programs as the total, in MiB, which is less than the card's name
says. context is what a process holds outside
the allocator once its kernels are loaded, in MiB: it grows as kernels load and differs by
driver, so it is a separate line of every answer.
"""
import dataclasses
import difflib
import json

from ..error import Error

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One kind of GPU."""
    name: str
    title: str
    sms: int
    threads_per_sm: int
    capability: int
    memory_mib: int
    context_mib: int

    @property
    def memory(self):
        """All its memory in bytes."""
        return self.memory_mib * MIB

    @property
    def context(self):
        """What a context takes, in bytes."""
        return self.context_mib * MIB

    @property
    def usable(self):
        """What the allocator can have."""
        return self.memory - self.context

    def room(self, nccl=0, share=1.0):
        """What the allocator can have beside NCCL's buffers, in a program that limits it to a share
        of the memory."""
        return min(self.usable - nccl, int(share * self.memory))


def _table():
    rows = """
    t4 Tesla T4 | 40 1024 75 14930 300
    v100-16 Tesla V100 16GB | 80 2048 70 16148 320
    v100-32 Tesla V100 32GB | 80 2048 70 32502 320
    rtx2080ti GeForce RTX 2080 Ti | 68 1024 75 11008 300
    rtx3060 GeForce RTX 3060 12GB | 28 1536 86 12042 300
    rtx3070 GeForce RTX 3070 | 46 1536 86 7844 300
    rtx3080 GeForce RTX 3080 10GB | 68 1536 86 10004 300
    rtx3090 GeForce RTX 3090 | 82 1536 86 24259 310
    rtx4060 GeForce RTX 4060 8GB | 24 1536 89 7813 300
    rtx4070 GeForce RTX 4070 | 46 1536 89 11878 310
    rtx4080 GeForce RTX 4080 | 76 1536 89 16067 320
    rtx4090 GeForce RTX 4090 | 128 1536 89 24207 340
    rtx5090 GeForce RTX 5090 | 170 1536 120 32117 400
    a10 A10 | 72 1536 86 22589 310
    a40 A40 | 84 1536 86 45486 320
    a6000 RTX A6000 | 84 1536 86 48671 320
    a100-40 A100-SXM4-40GB | 108 2048 80 40335 400
    a100-80 A100-SXM4-80GB | 108 2048 80 81050 400
    l4 L4 | 58 1536 89 22559 320
    l40s L40S | 142 1536 89 45466 340
    h100 H100 80GB HBM3 | 132 2048 90 80998 430
    h200 H200 | 132 2048 90 143155 430
    b200 B200 | 148 2048 100 182630 480
    """
    found = {}
    for row in rows.strip().splitlines():
        names, numbers = row.split("|")
        name, title = names.split(None, 1)
        found[name] = Gpu(name, title.strip(), *map(int, numbers.split()))
    return found


GPUS = _table()
COMMON = ("rtx3060", "rtx4090", "l4", "a10", "l40s", "a100-40", "a100-80", "h100", "h200", "b200")


def find_gpu(name):
    """A GPU of the table.

        >>> find_gpu("a100-40").sms
        108
    """
    if name not in GPUS:
        asked = name.lower()
        like = [known for known in GPUS if asked in known] \
            or [known for known in GPUS if known in asked][-1:] \
            or difflib.get_close_matches(asked, GPUS)
        hint = f"did you mean {' or '.join(like)}? " if asked and like else ""
        raise Error(f"there is no GPU \"{name}\" in the table; {hint}\"--gpu list\" prints it, and "
                    "--gpu-file adds to it", "ACRE_ERR_NOT_FOUND", 0)
    return GPUS[name]


def load_gpus(path):
    """Adds the GPUs of a JSON file: {"name": {"title": ..., "sms": ..., "threads_per_sm": ...,
    "capability": ..., "memory_mib": ..., "context_mib": ...}}."""
    fields = [field.name for field in dataclasses.fields(Gpu)][1:]
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise Error(f"{path}: the table of GPUs cannot be read: {error}", "ACRE_ERR_FORMAT",
                    0) from error
    if not isinstance(found, dict):
        raise Error(f"{path}: a table of GPUs is an object of names", "ACRE_ERR_FORMAT", 0)
    for name, facts in found.items():
        if not isinstance(facts, dict) or set(facts) != set(fields):
            raise Error(f"{path}: \"{name}\" must have exactly: " + ", ".join(fields),
                        "ACRE_ERR_FORMAT", 0)
        for field in fields[1:]:
            value = facts[field]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 40:
                raise Error(f"{path}: \"{name}\": {field} is {value!r} and must be a positive "
                            "whole number", "ACRE_ERR_FORMAT", 0)
        GPUS[name] = Gpu(name, str(facts["title"]), *(facts[field] for field in fields[1:]))


def list_gpus():
    """The table as text."""
    lines = [f"{'name':10} {'GPU':24} {'SMs':>4} {'threads/SM':>10} {'arch':>6} "
             f"{'memory MiB':>10} {'context MiB':>11}"]
    lines += [f"{gpu.name:10} {gpu.title:24} {gpu.sms:4} {gpu.threads_per_sm:10} "
              f"{'sm_' + str(gpu.capability):>6} {gpu.memory_mib:10} {gpu.context_mib:11}"
              for gpu in GPUS.values()]
    return "\n".join(lines)
