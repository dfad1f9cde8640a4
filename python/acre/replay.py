# SPDX-License-Identifier: MIT
"""Recorded jobs, run again without their device."""
import ctypes

from . import structs
from .error import choose
from .library import call, encode
from .number import number

_MIN_CAPACITY, _PLAN = 1, 2


class Replay:
    """What a replay needed: first and warm are dictionaries of figures (warm is None after
    one pass), min_capacity_bytes is 0 unless it was searched."""

    def __init__(self, result):
        facts = structs.plain(result)
        self.first = facts["first"]
        self.warm = facts["warm"] if result.has_warm else None
        self.device_bytes = result.device_bytes
        self.min_capacity_bytes = result.min_capacity_bytes
        self.start_allocs = result.start_allocs
        self.contradictions = result.contradictions

    @property
    def fits(self):
        """Whether no request failed."""
        return self.first["ooms"] == 0 and not (self.warm and self.warm["ooms"])


def replay(path, policy=None, conf=None, device_bytes=0, repeat=1, device=0, streams=0,
           min_capacity=False, plan=False):
    """Feeds a trace, or the history of a snapshot, to a new cache on a simulated device."""
    flags = (_MIN_CAPACITY if min_capacity else 0) | (_PLAN if plan else 0)
    config = structs.sized(structs.replay_config, flags=flags, repeat=repeat, conf=encode(conf),
                           policy=choose(structs.POLICIES, policy, "policy"), streams=streams,
                           device_bytes=device_bytes, device=device)
    result = structs.sized(structs.replay_result)
    call("acre_replay", encode(path), ctypes.byref(config), ctypes.byref(result))
    return Replay(result)


def verify(path, device=0):
    """Compares the decisions of policy "torch" with those that a snapshot recorded."""
    result = structs.sized(structs.verify_result)
    call("acre_replay_verify", encode(path), number(device, ctypes.c_uint32, "device"),
         ctypes.byref(result))
    return structs.plain(result)
