# SPDX-License-Identifier: MIT
"""torch.cuda.memory._record_memory_history: what a program's own snapshots show.

The ground records everything from the start. A snapshot that the program takes shows the
events since it began to record, the newest max_entries of them, as on a GPU.
"""
import os
import pickle
import time


class Recording:
    """Which events the program's snapshots hold."""

    def __init__(self, ground):
        self.ground = ground
        self._begun = None  # for each device: events before the recording; None: no recording
        self._time = self._most = 0

    def record(self, enabled, _context=None, _stacks=None, max_entries=0, clear_history=False,
               *_):
        """torch._C._cuda_record_memory_history."""
        self._set(enabled == "all", max_entries, clear_history)

    def record_legacy(self, enabled, _context=True, max_entries=1, _trace_context=False,
                      _cpp=False, clear_history=False, *_):
        """torch._C._cuda_record_memory_history_legacy."""
        self._set(bool(enabled), max_entries, clear_history)

    def _set(self, is_on, max_entries, clear_history):
        if not is_on:
            self._begun = None
        elif self._begun is None or clear_history:
            self._begun = [self.ground.count(device)
                           for device in range(self.ground.device_count)]
            self._time = time.time_ns() // 1000
        self._most = max(1, max_entries)

    def snapshot(self, choice=None):
        """torch._C._cuda_memorySnapshot; choice is None or (pool, pool, whether with traces)."""
        found = self._whole()
        has_traces = choice is None or len(choice) < 3 or choice[2]
        traces = found["device_traces"]
        for device, events in enumerate(traces):
            traces[device] = self._recorded(device, events) if has_traces else []
        if choice is not None and any(choice[:2]):
            found["segments"] = [segment for segment in found["segments"]
                                 if tuple(segment["segment_pool_id"]) == tuple(choice[:2])]
        return found

    def _whole(self):
        handle = os.memfd_create("acre-predict-snapshot")
        with open(handle, "rb") as file:
            self.ground.write(f"/proc/self/fd/{handle}")
            file.seek(0)
            return pickle.load(file)

    def _recorded(self, device, events):
        if self._begun is None or device >= len(self._begun):
            return []
        before = self._begun[device]
        for index, event in enumerate(events):
            if before == 0 and event["time_us"] >= self._time:
                return events[index:][-self._most:]
            before -= before > 0 and event["action"] in ("alloc", "free_completed")
        return []
