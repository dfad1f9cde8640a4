# SPDX-License-Identifier: MIT
"""PyTorch on Acre: the device "acre".

    >>> import torch, torch_acre
    >>> torch.ones(3, device="acre").sum().item()
    3.0
"""
import atexit as _atexit
import os as _os
import threading as _threading
import time as _time

import torch as _torch

TORCH_VERSION = "2.13.0"

if _torch.__version__.split("+")[0] != TORCH_VERSION:
    raise ImportError(f"torch_acre was built for PyTorch {TORCH_VERSION}, but PyTorch "
                      f"{_torch.__version__} is installed; install torch=={TORCH_VERSION} or "
                      "build torch_acre anew")

from torch_acre import _C  # noqa: E402  (registers allocator, guard, hooks and operators)
from torch_acre import device as _device  # noqa: E402
from torch_acre import sharing as _sharing  # noqa: E402
from torch_acre import distributed as _distributed  # noqa: E402


def _register() -> None:
    """Gives the device its name and torch its module; once per process."""
    name = _os.environ.get("ACRE_TORCH_NAME", "acre")
    _torch.utils.rename_privateuse1_backend(name)
    _torch._register_device_module(name, _device)
    _torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _C._graph_serve(name.upper())
    _sharing.install()
    _distributed.register(name)


def _has_engine_threads() -> bool:
    """Whether autograd has threads of its own: it starts them for the first gradient."""
    try:
        tasks = _os.listdir("/proc/self/task")
    except OSError:
        return True  # nobody knows
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                if file.read().startswith("pt_autograd"):
                    return True
        except OSError:
            pass  # it has ended
    return False


def _at_exit() -> None:
    """Daemon threads that allocate are stopped before the interpreter goes. Threads of autograd
    are given time to let go of Python's objects: the end of the last gradient does not wait for
    that, and Python aborts a process whose thread asks for the interpreter when it is gone."""
    if not _C._is_started() or _C._is_in_bad_fork():
        return
    has_threads = _threading.active_count() > 1
    if has_threads:
        _C._threads_park()
    if has_threads or _has_engine_threads():
        _time.sleep(0.05)


_register()
_atexit.register(_at_exit)

if _os.environ.get("ACRE_TORCH_CPU", "") not in ("", "0"):
    from torch_acre import cpu as _cpu  # noqa: E402
    _cpu._enable_by_environment()


def _autoload() -> None:
    """Entry point "torch.backends": importing this package did all there is to do."""
