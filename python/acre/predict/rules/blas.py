# SPDX-License-Identifier: MIT
"""Matrix products: a workspace for each handle and stream, and copies of matrices in
layouts that cuBLAS does not take.

A handle belongs to a host thread. Its workspace comes from the allocator when the handle
is first used on a stream, and stays until the process ends.
"""
import os
import re
import threading

import torch

_KIB = 1024


def workspace_bytes(gpu):
    """Bytes of a workspace: CUBLAS_WORKSPACE_CONFIG, or what the GPU's generation gets."""
    setting = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    pairs = re.findall(r":(\d+):(\d+)", setting)
    if pairs:
        return sum(int(size) * int(count) for size, count in pairs) * _KIB
    if gpu.capability >= 90:
        return 32 * _KIB * _KIB
    return (4096 * 2 + 16 * 8) * _KIB


def handle(call):
    """Makes sure that this thread's handle has its workspace on the current stream."""
    kernels = call.kernels
    key = (call.device, threading.get_ident(), kernels.ground.stream(call.device))
    if key not in kernels.workspaces:
        size = workspace_bytes(kernels.gpu)
        before = kernels.ground.stacks.enter("cublas workspace", "workspace")
        kernels.workspaces[key] = call.keep(size) if size else 0
        kernels.ground.stacks.leave(before)


def takes(size, stride):
    """Whether cuBLAS takes a matrix as it lies: one dimension is dense, the other steps
    over at least its length."""
    rows, columns = size[-2:]
    by_row, by_column = stride[-2:]
    return (by_row == 1 and by_column >= max(1, rows)) \
        or (by_column == 1 and by_row >= max(1, columns))


def copy_of(call, tensor):
    """The copy of a matrix, or of a batch, that cuBLAS does not take."""
    if not takes(tensor.size(), tensor.stride()) and tensor.numel():
        call.temp(tensor.numel() * tensor.element_size())


def _result(call, left, right):
    results = call.run()
    if results.numel():
        copy_of(call, left)
        copy_of(call, right)
        if results.dim() >= 2:
            copy_of(call, results)
        handle(call)
    return results


def _two(call):
    """mm, bmm: the matrices come first."""
    return _result(call, call.args[0], call.args[1])


def _three(call):
    """addmm, baddbmm: the matrices follow what is added."""
    return _result(call, call.args[1], call.args[2])


def _vectors(call):
    """addmv, dot: the vectors may lie with any step."""
    results = call.run()
    handle(call)
    return results


def _scaled(call):
    results = call.run()
    handle(call)
    return results


def _solver(call):
    """Decompositions: sizes inside cuSOLVER are not known."""
    call.kernels.notes.setdefault("cuSOLVER workspace", set()).add(call.op._schema.name)
    results = call.run()
    handle(call)
    return results


RULES = {"aten::mm": _two, "aten::bmm": _two, "aten::addmm": _three, "aten::addmm_": _three,
         "aten::baddbmm": _three, "aten::baddbmm_": _three, "aten::addbmm": _three,
         "aten::_addmm_activation": _three, "aten::addmv": _vectors, "aten::addmv_": _vectors,
         "aten::dot": _vectors, "aten::vdot": _vectors, "aten::_scaled_mm": _scaled,
         "aten::_int_mm": _scaled, "aten::_grouped_mm": _scaled,
         "aten::_scaled_grouped_mm": _scaled}
RULES.update(dict.fromkeys((
    "aten::linalg_inv_ex", "aten::_linalg_solve_ex", "aten::linalg_lu_factor_ex",
    "aten::_linalg_svd",
    "aten::linalg_cholesky_ex", "aten::_linalg_eigh", "aten::linalg_qr", "aten::triangular_solve",
    "aten::linalg_solve_triangular", "aten::linalg_lu", "aten::linalg_ldl_factor_ex",
    "aten::_linalg_det", "aten::_linalg_slogdet", "aten::cholesky_inverse",
    "aten::_cholesky_solve_helper", "aten::geqrf", "aten::ormqr",
    "aten::linalg_householder_product",
    "aten::linalg_eig", "aten::_linalg_eigvals", "aten::linalg_lstsq"), _solver))
