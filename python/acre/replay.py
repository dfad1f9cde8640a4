# SPDX-License-Identifier: MIT
"""Recorded jobs, run again without their device."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from . import tool_structs as structs
from .error import choose
from .library import call, encode
from .report import CHOOSE, Report, size_text
from .number import number

_MIN_CAPACITY, _PLAN = 1, 2


class Replay:
    """What a replay needed: first and warm are dictionaries of figures (warm is None after
    one pass), min_capacity_bytes is 0 unless it was searched."""

    def __init__(self, result: Any):
        facts = structs.plain(result)
        self.first = facts["first"]
        self.warm = facts["warm"] if result.has_warm else None
        self.device_bytes = result.device_bytes
        self.min_capacity_bytes = result.min_capacity_bytes
        self.start_allocs = result.start_allocs
        self.contradictions = result.contradictions
        self.device: int = result.device

    def __repr__(self) -> str:
        return (f"<Replay: device {self.device}, {self.first['events']} events, "
                f"{size_text(self.first['bytes_reserved_peak'])} reserved, "
                f"{size_text(self.first['bytes_requested_peak'])} requested, "
                f"{self.first['ooms']} failed>")

    @property
    def fits(self) -> bool:
        """Whether no request failed."""
        return self.first["ooms"] == 0 and not (self.warm and self.warm["ooms"])


Path = Union[str, "os.PathLike[str]"]


def replay(path: Path, policy: Optional[str] = None, conf: Optional[str] = None,
           device_bytes: int = 0, repeat: int = 1, device: int = CHOOSE, streams: int = 0,
           min_capacity: bool = False, plan: bool = False) -> Replay:
    """Feeds a trace, or the history of a snapshot, to a new cache on a simulated device."""
    flags = (_MIN_CAPACITY if min_capacity else 0) | (_PLAN if plan else 0)
    config = structs.sized(structs.replay_config, flags=flags, repeat=repeat, conf=encode(conf),
                           policy=choose(structs.POLICIES, policy, "policy"), streams=streams,
                           device_bytes=device_bytes, device=device)
    result = structs.sized(structs.replay_result)
    call("acre_replay", encode(path), ctypes.byref(config), ctypes.byref(result))
    return Replay(result)


class Verified(Report):
    """How far a recorded history is reproduced; is_exact says whether all of it is."""

    def __str__(self) -> str:
        return (f"{self['agreed']} of {self['compared']} decisions agree"
                + (": exact" if self["is_exact"] else f"; {self['text']}"))


def verify(path: Path, device: int = CHOOSE) -> Verified:
    """Compares the decisions of policy "torch" with those that a snapshot recorded."""
    result = structs.sized(structs.verify_result)
    call("acre_replay_verify", encode(path), number(device, ctypes.c_uint32, "device"),
         ctypes.byref(result))
    return Verified(structs.plain(result))
