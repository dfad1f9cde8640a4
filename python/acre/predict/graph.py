# SPDX-License-Identifier: MIT
"""CUDA graphs and memory pools: what is allocated during a capture comes from a private pool.

The work of a capture is not done, and neither is that of a replay. The pool keeps its memory
until the graphs and pools of the program that use it are gone.
"""
import torch


def install(ground):
    """torch.cuda.CUDAGraph, torch.cuda.MemPool and what captures ask."""
    state = {"captures": 0}

    def count(change):
        state["captures"] += change
        ground.set_capturing(state["captures"] > 0)

    class CUDAGraph:
        """A graph that holds no work, and the pool of its capture."""

        def __init__(self, keep_graph=False):
            self._pool = self._device = None

        def capture_begin(self, pool=None, capture_error_mode="global",
                          check_input_liveness=False):
            """Allocations of all threads come from the pool from now on."""
            if self._pool is not None:
                raise RuntimeError("This CUDAGraph instance already owns a captured graph. To "
                                   "capture a new graph, create a new instance.")
            self._device = ground.device()
            if not ground.stream(self._device):
                raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
            chosen = tuple(pool) if pool is not None else ground.pool_next(is_graph=True)
            ground.pool_use(self._device, chosen)
            ground.pool_begin(self._device, chosen, is_whole=True)
            self._pool = chosen
            count(1)

        def capture_end(self):
            """Allocations come from the shared pool again."""
            ground.pool_end(self._device, self._pool)
            count(-1)

        def replay(self):
            """No work, no memory."""

        def reset(self):
            """Drops the pool, whose memory goes back when the cache is emptied."""
            if self._pool is not None:
                pool, self._pool = self._pool, None
                ground.pool_drop(self._device, pool)

        def __del__(self):
            self.reset()

        def pool(self):
            """The id of the pool."""
            return self._pool

        def instantiate(self):
            """Nothing to make."""

        def enable_debug_mode(self):
            """Nothing to show."""

        def debug_dump(self, path):
            """Nothing to show."""

        def register_generator_state(self, generator):
            """Random numbers are not drawn."""

    cuda = torch.cuda
    cuda.CUDAGraph = cuda.graphs.CUDAGraph = CUDAGraph
    torch._C._host_emptyCache = lambda: None
    for module in (cuda, cuda.graphs):
        module.graph_pool_handle = lambda: ground.pool_next(is_graph=False)
        module.is_current_stream_capturing = lambda: state["captures"] > 0
    cuda.graphs._cuda_isCurrentStreamCapturing = lambda: state["captures"] > 0
    _install_pools(ground)


def _install_pools(ground):
    class MemPool:
        """A pool of the program's own."""

        def __init__(self, allocator=None, use_on_oom=False, no_split=False):
            self.allocator, self.id = allocator, ground.pool_next(is_graph=False)
            self._devices = set()

        def _use(self, device):
            if device not in self._devices:
                self._devices.add(device)
                ground.pool_use(device, self.id)

        def use_count(self):
            """One of the program, and those of open scopes."""
            return max(1, len(self._devices))

        def snapshot(self, include_traces=True):
            """The segments of the pool."""
            return torch.cuda.memory_snapshot(self.id, include_traces)

        def __del__(self):
            for device in getattr(self, "_devices", ()):
                ground.pool_drop(device, self.id)

    def begin(device, chosen):
        ground.pool_begin(device, chosen, is_whole=False)

    memory = torch.cuda.memory
    use = memory.use_mem_pool

    def use_mem_pool(pool, device=None):
        index = torch.cuda._utils._get_device_index(device, optional=True)
        pool._use(index)
        return use(pool, index)

    memory.MemPool = torch.cuda.MemPool = MemPool
    memory.use_mem_pool = torch.cuda.use_mem_pool = use_mem_pool
    memory._cuda_beginAllocateCurrentThreadToPool = begin
    memory._cuda_endAllocateToPool = ground.pool_end
    memory._cuda_releasePool = lambda device, chosen: None
