# SPDX-License-Identifier: MIT
"""Storages of the device: resizing them, as FSDP does, frees and allocates their blocks."""
import torch

from .value import handle_of


def install_storage(ground):
    """Teaches torch.UntypedStorage about storages without data."""
    kind = torch.UntypedStorage
    plain = {name: getattr(kind, name) for name in ("resize_", "nbytes", "size", "__len__")}

    def resize_(storage, size):
        if storage.device.type != "cuda":
            return plain["resize_"](storage, size)
        data = storage.data_ptr()
        if data:
            if ground.bytes_of(data) != size:
                before = ground.stacks.enter("storage resize")
                ground.resize(data, size)
                ground.stacks.leave(before)
        elif size:
            raise RuntimeError("a storage of a device that began empty cannot be resized; "
                               "allocate it with its size first")
        return storage

    def nbytes(storage):
        if ground.resized and storage.device.type == "cuda" and storage.data_ptr():
            return ground.bytes_of(storage.data_ptr())
        return plain["nbytes"](storage)

    def record_stream(tensor, stream):
        if tensor.is_cuda and tensor.numel():
            ground.record(handle_of(tensor), stream.stream_id)

    clone, cuda = kind.clone, kind.cuda

    def copied(storage):
        if storage.device.type != "cuda":
            return clone(storage)
        return fresh(storage.nbytes(), storage.device.index)

    def moved(storage, device=None, non_blocking=False):
        if storage.device.type == "cuda":
            return cuda(storage, device, non_blocking)
        return fresh(storage.nbytes(), torch.cuda._utils._get_device_index(device, True))

    def fresh(size, device):
        before = ground.stacks.enter("storage")
        made = ground.make((size,), (1,), torch.uint8, device).untyped_storage()
        ground.stacks.leave(before)
        return made

    kind.clone, kind.cuda = copied, moved
    kind.resize_ = resize_
    kind.nbytes = kind.size = kind.__len__ = nbytes
    kind._share_cuda_ = _no_sharing
    torch.Tensor.record_stream = record_stream
    torch.Tensor.pin_memory = lambda tensor, device=None: tensor if tensor.is_cuda \
        else tensor.clone()
    torch.Tensor.is_pinned = lambda tensor, device=None: tensor.device.type == "cpu"
    kind.pin_memory = lambda storage, device="cuda": storage
    kind.is_pinned = lambda storage, device="cuda": True


def _no_sharing(*_):
    raise RuntimeError("memory of a device cannot be shared with other processes in a prediction")
