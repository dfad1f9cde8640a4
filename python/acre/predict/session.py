# SPDX-License-Identifier: MIT
"""One prediction: everything put in place, the program run, the answer drawn."""
import ctypes
import os
import threading
import time

from . import change, compiled, distributed, loading
from .cuda import Cuda
from .gpu import find_gpu
from .ground import Ground
from .guess import Guesses
from .host import Host
from .kernel import Kernels
from .role import Roles
from .storage import install_storage


class Session:
    """Sets up this process for a prediction. There is one in a process: what it puts into
    PyTorch stays there."""

    current = None

    def __init__(self, options):
        if Session.current is not None:
            raise RuntimeError("this process has made a prediction; another needs a new process")
        Session.current = self
        self.options = options
        self.gpu = find_gpu(options.gpu)
        conf = options.conf or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") \
            or os.environ.get("PYTORCH_ALLOC_CONF")
        self.conf = conf
        self.ground = Ground(options.devices, conf)
        self.guesses = Guesses(options.item, options.nonzero)
        self.kernels = Kernels(self.ground, self.gpu, self.guesses)
        self.guesses.values = self.kernels.values
        self.kernels.register()
        Host().register()
        self.remarks = []
        Cuda(self.ground, self.gpu, self.remarks).install()
        install_storage(self.ground)
        self.roles = Roles(self.ground)
        self.roles.install()
        loading.install()
        compiled.install(self.remarks)
        distributed.install(options.world, options.rank, self.remarks)
        change.install(options.change)
        self.seconds = 0.0
        self.stopped = None
        self._began = None

    def run(self, function):
        """Runs a function; a limit in seconds or Ctrl-C ends it early, and it still counts."""
        self._began = time.monotonic()
        is_over = threading.Event()
        if self.options.limit:
            threading.Thread(target=self._interrupt, args=(threading.get_ident(), is_over),
                             daemon=True).start()
        try:
            try:
                return function()
            finally:
                is_over.set()
        except KeyboardInterrupt:
            self.stopped = self.stopped or "by Ctrl-C"
            return None
        finally:
            self.end()

    def end(self):
        """The program is over."""
        self.seconds = time.monotonic() - self._began

    def _interrupt(self, thread, is_over):
        """Raises KeyboardInterrupt in a thread at the limit, and again until that is over: one
        that meets a callback is lost. Signals are no help where SIGINT is ignored."""
        pause = self.options.limit
        while not is_over.wait(pause):
            self.stopped = f"after {self.options.limit:g} seconds (--limit)"
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread),
                                                       ctypes.py_object(KeyboardInterrupt))
            pause = 0.25

    def progress(self):
        """One line about what was done so far."""
        spent = time.monotonic() - self._began if self._began else 0
        return (f"{spent:.0f} s, {sum(self.kernels.counts.values()):,} operators, "
                f"{self.ground.peaks(0)[1] / 2**30:.2f} GiB at most")
