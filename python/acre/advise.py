# SPDX-License-Identifier: MIT
"""Which setting helps."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from . import tool_structs as structs
from .library import encode, lib, make
from .report import CHOOSE, items

_POLICY_NAMES = {number: name for name, number in structs.POLICIES.items()}
_CURVES = 1


class Advice:
    """Settings compared on one recording: settings is a list of dictionaries, best first,
    recommended one of them or None, why a paragraph, remedies what else can be done. With
    curves, each setting has a list "curve": bytes held over time."""

    def __init__(self, found: Any):
        self.facts: dict[str, Any] = structs.plain(found)
        self.settings = [self._setting(found.settings[i]) for i in range(found.setting_count)]
        self.recommended: Optional[dict[str, Any]] = \
            self.settings[found.recommended] if found.recommended >= 0 else None
        self.top = items(found.top, found.top_count, structs.plain)
        self.remedies = items(found.remedies, found.remedy_count, structs.plain)
        self.device: int = found.device
        self.why: str = self.facts["why"]
        for i in range(found.setting_count if found.curve_points else 0):
            self.settings[i]["curve"] = found.curves[i][:found.curve_points]

    @staticmethod
    def _setting(setting: Any) -> dict[str, Any]:
        facts = structs.plain(setting)
        facts["policy"] = _POLICY_NAMES[setting.policy]
        facts["fits"] = None if setting.fits < 0 else bool(setting.fits)
        return facts

    def __str__(self) -> str:
        return self.why

    def __repr__(self) -> str:
        best = self.recommended["conf"] if self.recommended else "no other setting"
        return f"<Advice: device {self.device}, {len(self.settings)} settings tried, {best}>"


def advise(path: Union[str, "os.PathLike[str]"], device: int = CHOOSE, device_bytes: int = 0,
           threads: int = 0, curves: bool = False, seconds: float = 0) -> Advice:
    """Replays a trace or snapshot under the settings that matter, and compares. With seconds,
    settings that are not tried by then are left, which why says; 0 is without limit.

        print(acre.advise("oom.pickle"))
    """
    config = structs.sized(structs.advise_config, device=device, device_bytes=device_bytes,
                           threads=threads, flags=_CURVES if curves else 0, seconds=seconds)
    handle = make("acre_advise", encode(path), ctypes.byref(config))
    try:
        return Advice(ctypes.cast(handle, ctypes.POINTER(structs.advice)).contents)
    finally:
        lib.acre_advice_destroy(handle)
