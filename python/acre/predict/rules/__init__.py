# SPDX-License-Identifier: MIT
"""Rules: what CUDA kernels allocate beside their results.

Each file of this folder has a table RULES: names of operators to functions. A rule takes
the call, allocates in the order in which the kernel does, and returns the results.
"""
from . import (attention, blas, convolution, copying, cudnn, data, embedding, factory, foreach,
               indexing, normalization, reduction, recurrent, sorting)

_FILES = (attention, blas, convolution, copying, cudnn, data, embedding, factory, foreach,
          indexing, normalization, reduction, recurrent, sorting)

# Operators that write to what they are given and never resize it.
SAME_SIZE = frozenset(("aten::normal_", "aten::uniform_", "aten::fill_", "aten::zero_"))


def find_all():
    """All rules by the names of their operators."""
    found = {}
    for file in _FILES:
        found.update(file.RULES)
    return found


def judge(kernels, op):
    """Notes an operator that has no rule although operators of its family allocate inside."""
    from .family import may_allocate
    name = op._schema.name
    if name not in kernels.unruled:
        kernels.unruled[name] = may_allocate(op)
