# SPDX-License-Identifier: MIT
"""A gate in a stream: work queued behind it runs once the gate is open, and not before."""
import ctypes
import os

import torch

_PRIVATE = 20  # acre_device_type of the devices under "acre"


class Gate:
    """Stands in a stream from its making until open()."""

    def __init__(self, stream: torch.Stream):
        self._library = ctypes.CDLL(os.environ["ACRE_LIBRARY"])
        libc = ctypes.CDLL(None)
        device = ctypes.c_void_p()
        self._post = libc.sem_post
        self._semaphore = ctypes.create_string_buffer(64)
        assert libc.sem_init(self._semaphore, 0, 0) == 0
        self._check(self._library.acre_device_get(_PRIVATE, stream.device_index,
                                                  ctypes.byref(device)))
        # The stream's own thread waits in sem_wait(), which needs nothing of Python.
        self._check(self._library.acre_launch_host(
            device, ctypes.c_void_p(stream.native_handle), libc.sem_wait, self._semaphore))

    def open(self) -> None:
        """Lets the stream go on."""
        assert self._post(self._semaphore) == 0

    @staticmethod
    def _check(status: int) -> None:
        assert status == 0, f"status {status}"
