# SPDX-License-Identifier: MIT
"""The lines of docs/PYTORCH.md for people with a GPU, run as far as a PyTorch without CUDA goes.

Its two functions in C that take and set an allocator are not in such a build; recorders stand in
for them. All else is real: the names and parameters in PyTorch's Python, the setters in its header,
the hooks in libacre_torch.so, which hand out memory of the reference device here.
"""
import ctypes
import inspect
import os
import pathlib
import re

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("ACRE_LIBRARY", ROOT / "build" / "libacre.so")).parent
HEADER = pathlib.Path(torch.__file__).parent / "include/torch/csrc/cuda/CUDAPluggableAllocator.h"


def blocks():
    text = (ROOT / "docs" / "PYTORCH.md").read_text(encoding="utf-8")
    part = text[text.index("## Acre's allocator under PyTorch, on a GPU"):]
    return re.findall(r"```python\n(.*?)```", part, re.S)


class Recorder:
    """What PyTorch's allocator would be given. It has the setters of PyTorch's header only."""

    def __init__(self, alloc, free):
        self.given = {"alloc": alloc, "free": free}
        for setter in re.findall(r"void (set_\w+)\(", HEADER.read_text()):
            setattr(self, setter, lambda address, name=setter: self.given.update({name: address}))


@pytest.fixture
def lines(monkeypatch):
    """Runs the first block; gives its names and the allocator that was made current."""
    path = LIBRARY / "libacre_torch.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    if torch.backends.cuda.is_built():
        pytest.skip("this PyTorch has CUDA: changing its allocator would stay")
    current = []
    monkeypatch.setenv("ACRE_BACKEND", "sim")
    monkeypatch.setattr(torch._C, "_cuda_customAllocator", Recorder, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_changeCurrentAllocator", current.append, raising=False)
    names = {}
    code = blocks()[0].replace("/usr/local/lib/libacre_torch.so", str(path))
    assert str(path) in code
    exec(compile(code, "docs/PYTORCH.md", "exec"), names)
    return names, current


def test_every_hook_is_set_and_is_the_library_s(lines):
    names, current = lines
    inner = names["allocator"].allocator()
    assert current == [inner]
    pairs = dict(re.findall(r'\("(set_\w+)", "(acre_torch_\w+)"\)', blocks()[0]))
    assert len(pairs) == 8
    for setter, hook in {**pairs, "alloc": "acre_torch_malloc", "free": "acre_torch_free"}.items():
        address = ctypes.cast(getattr(names["hooks"], hook), ctypes.c_void_p).value
        assert inner.given[setter] == address, setter


def test_every_setter_of_the_header_is_used():
    assert set(re.findall(r"void (set_\w+)\(", HEADER.read_text())) == set(
        re.findall(r'"(set_\w+)"', blocks()[0]))


def test_addresses_allocate_and_free_as_pytorch_calls_them(lines):
    given = lines[0]["allocator"].allocator().given
    malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    ctypes.CFUNCTYPE(None, ctypes.c_int)(given["set_init_fn"])(1)
    memory = malloc(given["alloc"])(1 << 20, 0, None)
    assert memory
    free(given["free"])(memory, 1 << 20, 0, None)
    assert malloc(given["alloc"])(1 << 20, 0, None) == memory
    free(given["free"])(memory, 1 << 20, 0, None)
    ctypes.CFUNCTYPE(None)(given["set_reset_fn"])()


def test_pool_lines_fit_what_pytorch_has():
    code = blocks()[1]
    compile(code, "docs/PYTORCH.md", "exec")
    assert "allocator" in inspect.signature(torch.cuda.MemPool.__init__).parameters
    assert list(inspect.signature(torch.cuda.use_mem_pool).parameters)[0] == "pool"
    for name in re.findall(r"torch\.cuda\.([\w.]+)", "".join(blocks())):
        found = torch.cuda
        for part in name.split("."):
            found = getattr(found, part)
