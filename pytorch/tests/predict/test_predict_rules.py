# SPDX-License-Identifier: MIT
"""Each rule against sizes that were recorded on GPUs."""
import json

import pytest

from acre.error import Error
from acre.predict.gpu import GPUS, Gpu, find_gpu, list_gpus, load_gpus
from acre.predict.rules import attention, blas, family, find_all, sorting
from acre.predict.rules.split import buffers

A100, H100 = find_gpu("a100-40"), find_gpu("h100")


def test_split_reductions():
    # sum over 4,096 rows of 1,024 columns; max over 10,000 for 2,048 rows, strided, with places
    assert buffers((4096, 1024), (1024, 1), (0,), 4, A100) == (33554432, 32)
    assert buffers((2048, 10000), (1, 2048), (1,), 16, H100) == (553648128, 64)


def test_reductions_without_a_split():
    assert buffers((512, 1024), (1024, 1), (1,), 4, A100) == (0, 0)
    assert buffers((8, 1), (1, 1), (1,), 4, A100) == (0, 0)
    assert buffers((0, 8), (8, 1), (0,), 4, A100) == (0, 0)


def test_radix_sort():
    assert [sorting.sort_bytes(count) for count in (1, 2048, 4096, 8192)] == [1, 1, 72191, 138751]


def test_cublas_workspaces(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert blas.workspace_bytes(A100) == 8519680
    assert blas.workspace_bytes(H100) == 33554432
    assert blas.workspace_bytes(GPUS["b200"]) == 33554432
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8:16:2")
    assert blas.workspace_bytes(H100) == (4096 * 8 + 16 * 2) * 1024
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    assert blas.workspace_bytes(H100) == 0


def test_layouts_that_cublas_takes():
    assert blas.takes((4, 8), (8, 1)) and blas.takes((4, 8), (1, 4))
    assert blas.takes((3, 4, 8), (32, 8, 1))
    assert not blas.takes((4, 8), (0, 0))       # an expanded gradient
    assert not blas.takes((4, 8), (16, 2))


def test_attention_by_gpu():
    import torch
    kernels = type("Kernels", (), {})()
    half = torch.empty(2, 4, 16, 64, dtype=torch.float16, device="meta")
    whole = torch.empty(2, 4, 16, 64, device="meta")
    mask = torch.empty(16, 16, device="meta")
    kernels.gpu = A100
    assert attention.choose(kernels, half, half, half, None, False) == attention.FLASH
    assert attention.choose(kernels, half, half, half, mask, False) == attention.EFFICIENT
    assert attention.choose(kernels, whole, whole, whole, None, False) == attention.EFFICIENT
    kernels.gpu = GPUS["t4"]
    assert attention.choose(kernels, half, half, half, None, False) == attention.EFFICIENT
    double = whole.double()
    assert attention.choose(kernels, double, double, double, None, False) == attention.MATH


def test_operators_without_a_rule_are_named_by_family():
    import torch
    aten = torch.ops.aten
    assert not family.may_allocate(aten.add.Tensor)
    assert not family.may_allocate(aten.gelu_backward.default)
    assert family.may_allocate(aten._fft_r2c.default)
    assert family.may_allocate(aten.grid_sampler_2d.default)
    rules = find_all()
    assert all(name.startswith("aten::") and callable(rule) for name, rule in rules.items())
    for name in ("aten::mm", "aten::sum", "aten::_index_put_impl_", "aten::_foreach_add",
                 "aten::embedding_dense_backward", "aten::native_dropout",
                 "aten::cudnn_convolution"):
        assert name in rules


def test_table_of_gpus(tmp_path):
    assert all(isinstance(gpu, Gpu) and gpu.usable > 0 for gpu in GPUS.values())
    assert "a100-40" in list_gpus()
    path = tmp_path / "gpus.json"
    facts = {"title": "Own", "sms": 10, "threads_per_sm": 1024, "capability": 80,
             "memory_mib": 1000, "context_mib": 100}
    path.write_text(json.dumps({"own": facts}))
    load_gpus(path)
    assert find_gpu("own").usable == 900 << 20
    for bad in ("[]", "{", json.dumps({"x": {"sms": 1}}), json.dumps({"x": dict(facts, sms=-1)}),
                json.dumps({"x": dict(facts, sms="1")})):
        path.write_text(bad)
        with pytest.raises(Error):
            load_gpus(path)
    with pytest.raises(Error):
        find_gpu("nothing")
