# SPDX-License-Identifier: MIT
"""Types of tensors as old programs name them: torch.cuda.FloatTensor and its like."""
import torch

_NAMES = {"FloatTensor": torch.float32, "DoubleTensor": torch.float64,
          "HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16,
          "LongTensor": torch.int64, "IntTensor": torch.int32, "ShortTensor": torch.int16,
          "CharTensor": torch.int8, "ByteTensor": torch.uint8, "BoolTensor": torch.bool}


class _Type(type):
    """A class of tensors by device and type."""

    def __instancecheck__(cls, value):
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype

    def __call__(cls, *values):
        if all(isinstance(value, int) for value in values):
            return torch.empty(values or (0,), dtype=cls.dtype, device="cuda")
        return torch.tensor(values[0], dtype=cls.dtype, device="cuda")

    def __repr__(cls):
        return f"<class 'torch.cuda.{cls.__name__}'>"


def install():
    """Puts the types into torch.cuda, and teaches Tensor.type() about them."""
    kinds = {name: _Type(name, (), {"dtype": dtype, "__module__": "torch.cuda",
                                    "is_cuda": True, "layout": torch.strided})
             for name, dtype in _NAMES.items()}
    for name, kind in kinds.items():
        setattr(torch.cuda, name, kind)
    convert, choose = torch.Tensor.type, torch.set_default_tensor_type

    def find(name):
        if isinstance(name, str) and name.startswith("torch.cuda."):
            name = kinds.get(name[11:], name)
        return name if isinstance(name, _Type) else None

    def type_(tensor, dtype=None, non_blocking=False, **rest):
        kind = find(dtype)
        if kind is None:
            return convert(tensor, dtype, non_blocking, **rest) if dtype is not None \
                else convert(tensor)
        return tensor.to("cuda", kind.dtype, non_blocking=non_blocking)

    def set_default_tensor_type(name):
        kind = find(name)
        if kind is None:
            torch.set_default_device(None)
            choose(name)
        else:
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")

    torch.Tensor.type = type_
    torch.set_default_tensor_type = set_default_tensor_type
