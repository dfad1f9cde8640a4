# SPDX-License-Identifier: MIT
"""Which setting helps."""
import ctypes

from . import structs
from .library import encode, lib, make

_POLICY_NAMES = {number: name for name, number in structs.POLICIES.items()}


class Advice:
    """Settings compared on one recording: settings is a list of dictionaries, best first,
    recommended one of them or None, why a paragraph."""

    def __init__(self, found):
        self.facts = structs.plain(found)
        self.settings = [self._setting(found.settings[i]) for i in range(found.setting_count)]
        self.recommended = self.settings[found.recommended] if found.recommended >= 0 else None
        self.top = [structs.plain(found.top[i]) for i in range(found.top_count)]
        self.why = self.facts["why"]

    @staticmethod
    def _setting(setting):
        facts = structs.plain(setting)
        facts["policy"] = _POLICY_NAMES[setting.policy]
        facts["fits"] = None if setting.fits < 0 else bool(setting.fits)
        return facts


def advise(path, device=0, device_bytes=0, threads=0):
    """Replays a trace or snapshot under the settings that matter, and compares."""
    config = structs.sized(structs.advise_config, device=device, device_bytes=device_bytes,
                           threads=threads)
    handle = make("acre_advise", encode(path), ctypes.byref(config))
    try:
        return Advice(ctypes.cast(handle, ctypes.POINTER(structs.advice)).contents)
    finally:
        lib.acre_advice_destroy(handle)
