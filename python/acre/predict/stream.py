# SPDX-License-Identifier: MIT
"""Streams and events of a device on which all work is done at once."""
import torch


class Stream(torch.Stream):
    """torch.cuda.Stream: a stream of the pool, whose blocks are its own."""

    def __new__(cls, device=None, priority=0, stream_id=None, device_index=None,
                device_type=None, **_):
        if stream_id is not None:
            return torch.Stream.__new__(cls, stream_id=stream_id, device_index=device_index or 0,
                                        device_type=device_type or 1)
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return torch.Stream.__new__(cls, device=torch.device("cuda", index), priority=priority)

    @property
    def cuda_stream(self):
        return self.stream_id

    @property
    def _as_parameter_(self):
        return self.stream_id

    def wait_event(self, event):
        """Waits for nothing: the work is done."""

    def wait_stream(self, stream):
        """Waits for nothing: the work is done."""

    def record_event(self, event=None):
        """An event of this moment."""
        event = event if event is not None else Event()
        event.record(self)
        return event

    def query(self):
        return True

    def synchronize(self):
        """Waits for nothing: the work is done."""

    @staticmethod
    def priority_range():
        return 0, -5


class Event:
    """torch.cuda.Event: it has always happened."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.device = None
        self.cuda_event = 0

    def record(self, stream=None):
        self.device = torch.device("cuda", torch.cuda.current_device())

    def wait(self, stream=None):
        """Waits for nothing."""

    def query(self):
        return True

    def elapsed_time(self, end_event):
        return 0.001

    def synchronize(self):
        """Waits for nothing."""
