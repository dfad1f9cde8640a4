# SPDX-License-Identifier: MIT
"""torch.cuda as scripts expect it, on a PyTorch without CUDA.

Most of torch.cuda is Python over functions torch._C._cuda_*, which a build for CPUs lacks.
They are added here over the ground; the rest of torch.cuda then works as it is.
"""
import sys
import types

import torch

from . import graph, legacy
from . import stream as streams
from .recording import Recording

DEVICE_TYPE = 1


class Cuda:
    """Puts everything in place."""

    def __init__(self, ground, gpu, notes):
        self.ground, self.gpu, self.notes = ground, gpu, notes
        self.library = None
        self.seeds = ()
        self._raw = {}  # blocks of caching_allocator_alloc(): their device

    def install(self):
        """Makes torch.cuda answer."""
        for name in dir(self):
            if name.startswith("c_"):
                setattr(torch._C, "_cuda_" + name[2:], getattr(self, name))
        torch._C._has_cuda = True
        torch.version.cuda = "13.0"
        cuda = torch.cuda
        cuda._lazy_init = cuda.init = self._lazy_init
        cuda._lazy_init()
        cuda.is_available = lambda: True
        cuda.device_count = lambda: self.ground.device_count
        cuda.get_device_properties = self._properties
        cuda._exchange_device = self.c_exchangeDevice
        cuda._maybe_exchange_device = self.c_maybeExchangeDevice
        cuda.get_device_capability = lambda device=None: divmod(self.gpu.capability, 10)
        for module in (cuda, cuda.streams):
            module.Stream, module.Event = streams.Stream, streams.Event
            module.ExternalStream = streams.Stream
        cuda._cudart = types.SimpleNamespace(
            cudaMemGetInfo=self._free, cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0,
            cudaError=types.SimpleNamespace(success=0))
        self.seeds = tuple(torch.Generator() for _ in range(self.ground.device_count))
        cuda.default_generators = self.seeds
        cuda.get_rng_state = lambda device="cuda": torch.zeros(16, dtype=torch.uint8)
        cuda.set_rng_state = lambda state, device="cuda": None
        for name in ("memory_usage", "utilization", "temperature", "power_draw", "clock_rate"):
            setattr(cuda, name, lambda device=None: 0)
        cuda.device_memory_used = lambda device=None: self.gpu.memory - self._free(device)[0]
        torch._C._nccl_version, torch._C._nccl_version_suffix = lambda: 2 << 32 | 28 << 16, bytes
        self._install_memory(cuda.memory)
        self._install_nvtx(cuda.nvtx)
        self._install_cudnn()
        self._install_accelerator()
        graph.install(self.ground)
        legacy.install()
        torch.Generator = _Generator
        torch._C._get_accelerator = lambda check=False: torch.device("cuda")

    def _lazy_init(self):
        cuda = torch.cuda
        if cuda._initialized:
            return
        cuda._initialized = True
        calls, cuda._queued_calls[:] = list(cuda._queued_calls), []
        cuda._tls.is_initializing = False
        for call, _ in calls:
            if getattr(call, "__name__", "") not in ("_check_capability", "_check_cubins"):
                call()

    def _install_memory(self, memory):
        recording = Recording(self.ground)
        torch._C._cuda_memorySnapshot = recording.snapshot
        torch._C._cuda_record_memory_history = recording.record
        torch._C._cuda_record_memory_history_legacy = recording.record_legacy
        memory.mem_get_info = self._free
        torch.cuda.mem_get_info = self._free
        memory.list_gpu_processes = torch.cuda.list_gpu_processes = lambda device=None: ""

    def _install_nvtx(self, nvtx):
        nothing = types.SimpleNamespace(
            rangePushA=lambda text: 0, rangePop=lambda: 0, rangeStartA=lambda text: 0,
            rangeEnd=lambda number: None, markA=lambda text: None,
            deviceRangeStart=lambda *_: 0, deviceRangeEnd=lambda *_: None)
        nvtx._nvtx = nothing

    def _install_cudnn(self):
        cudnn = sys.modules["torch.backends.cudnn"]
        cudnn.is_available = lambda: True
        cudnn.version = lambda: 91400
        cudnn.is_acceptable = lambda tensor: tensor.is_cuda
        torch._C._cuda_get_cudnn_benchmark_limit = lambda: 10
        torch._C._cuda_set_cudnn_benchmark_limit = lambda limit: None
        modes = types.SimpleNamespace(rnn_relu=0, rnn_tanh=1, lstm=2, gru=3)
        import torch.backends.cudnn.rnn as recurrent
        recurrent.get_cudnn_mode.__globals__["_cudnn"] = types.SimpleNamespace(RNNMode=modes)
        torch._C.has_cudnn = torch._C._has_cudnn = True

    def _install_accelerator(self):
        memory = torch.accelerator.memory
        for module in (torch.accelerator, memory):
            for name in ("empty_cache", "memory_stats", "memory_allocated",
                         "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                         "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
                if hasattr(module, name):
                    setattr(module, name, getattr(torch.cuda, name))
        torch.accelerator.get_memory_info = memory.get_memory_info = self._free
        torch.accelerator.synchronize = lambda device=None: None

    def _properties(self, device=None):
        index = torch.cuda._utils._get_device_index(device, optional=True)
        if not 0 <= index < self.ground.device_count:
            raise AssertionError(f"Invalid device id {index}: --devices shows "
                                 f"{self.ground.device_count}")
        major, minor = divmod(self.gpu.capability, 10)
        return types.SimpleNamespace(
            name="NVIDIA " + self.gpu.title, major=major, minor=minor, total_memory=self.gpu.memory,
            multi_processor_count=self.gpu.sms, is_integrated=0, is_multi_gpu_board=0,
            max_threads_per_multi_processor=self.gpu.threads_per_sm, warp_size=32,
            max_threads_per_block=1024, regs_per_multiprocessor=65536, gcnArchName="",
            shared_memory_per_block=49152, shared_memory_per_block_optin=101376,
            shared_memory_per_multiprocessor=102400, L2_cache_size=40 << 20, uuid="0")

    def _free(self, device=None):
        index = torch.cuda._utils._get_device_index(device, optional=True)
        held = self.ground.stats(index)["reserved_bytes"]["all"]["current"]
        return max(0, self.gpu.usable - held), self.gpu.memory

    # ---- torch._C._cuda_* --------------------------------------------------------------

    def c_getDeviceCount(self):
        return self.ground.device_count

    def c_getDevice(self):
        return self.ground.device()

    def c_setDevice(self, index):
        self.ground.check_device(index)
        self.ground.set_device(index)

    def c_exchangeDevice(self, index):
        before = self.ground.device()
        if index >= 0:
            self.c_setDevice(index)
        return before

    def c_maybeExchangeDevice(self, index):
        return self.c_exchangeDevice(index)

    def c_synchronize(self):
        return None

    def c_isInBadFork(self):
        return False

    def c_getCurrentStream(self, index):
        return self.ground.stream(index), index, DEVICE_TYPE

    def c_getDefaultStream(self, index):
        return 0, index, DEVICE_TYPE

    def c_setStream(self, stream_id=0, device_index=0, device_type=DEVICE_TYPE):
        self.ground.set_device(device_index)
        self.ground.set_stream(device_index, stream_id)

    def c_getStreamFromExternal(self, pointer, index):
        return pointer, index, DEVICE_TYPE

    def c_getCurrentRawStream(self, index):
        return self.ground.stream(index)

    def c_emptyCache(self):
        for index in range(self.ground.device_count):
            self.ground.empty(index)

    def c_memoryStats(self, index):
        stats = self.ground.stats(index)
        stats["num_sync_all_streams"] = stats.get("num_sync_all_streams", 0)
        return stats

    def c_resetPeakMemoryStats(self, index):
        self.ground.reset_peaks(index)

    def c_resetAccumulatedMemoryStats(self, index):
        return None

    def c_hostMemoryStats(self):
        return {}

    def c_resetAccumulatedHostMemoryStats(self):
        return None

    def c_resetPeakHostMemoryStats(self):
        return None

    def c_cudaCachingAllocator_raw_alloc(self, size, stream):
        device = self.ground.device()
        before = self.ground.stream(device)
        self.ground.set_stream(device, stream)
        block = self.ground.alloc(size, device)
        self.ground.set_stream(device, before)
        self._raw[block] = device
        return block

    def c_cudaCachingAllocator_raw_delete(self, block):
        self.ground.free(block, self._raw.pop(block))

    def c_cudaCachingAllocator_enable(self, is_on):
        return None

    def c_setMemoryFraction(self, fraction, device):
        self.ground.shares[device] = fraction

    def c_getMemoryFraction(self, device):
        return self.ground.shares.get(device, 1.0)

    def c_getAllocatorBackend(self):
        return "native"

    def c_getArchFlags(self):
        return f"sm_{self.gpu.capability}"

    def c_canDeviceAccessPeer(self, device, peer):
        return True

    def c_tunableop_is_enabled(self):
        return False

    def c_ipc_collect(self):
        return None

    def c_getCurrentBlasHandle(self):
        return 0

    def c_getCurrentSolverHandle(self):
        return 0

    def c_clearCublasWorkspaces(self):
        return None

    def c_set_sync_debug_mode(self, mode):
        return None

    def c_get_sync_debug_mode(self):
        return 0

    def c_setMemoryMetadata(self, text):
        return None

    def c_getMemoryMetadata(self):
        return ""

    def c_sleep(self, cycles):
        return None


class _Generator(torch._C.Generator):
    """torch.Generator that may be asked for on a device of no data."""

    def __new__(cls, device="cpu"):
        return torch._C.Generator.__new__(cls, "cpu")

    def __init__(self, device="cpu"):
        self._acre_device = torch.device(device)

    @property
    def device(self):
        return self._acre_device
