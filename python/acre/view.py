# SPDX-License-Identifier: MIT
"""Recordings as one page for a browser."""
from __future__ import annotations

import ctypes
import os
from typing import Optional, Union

from . import tool_structs as structs
from .error import choose
from .library import call, encode, lib, make, text

Path = Union[str, "os.PathLike[str]"]


def view(path: Path, page: Path, title: Optional[str] = None, policy: Optional[str] = None,
         conf: Optional[str] = None, device_bytes: int = 0) -> Optional[str]:
    """Writes a page that shows a snapshot or trace; returns a warning about a file that does
    not add up, or None. policy, conf and device_bytes are for traces, which are replayed.

        acre.view("oom.pickle", "oom.html")
    """
    if os.path.exists(page) and os.path.samefile(path, page):
        raise ValueError(f"{os.fspath(page)!r} is the input; write to another file")
    config = structs.sized(structs.view_config, conf=encode(conf), device_bytes=device_bytes,
                           policy=choose(structs.POLICIES, policy, "policy"))
    handle = make("acre_view_create", encode(title or os.path.basename(os.fspath(path))))
    try:
        call("acre_view_read", handle, encode(path), ctypes.byref(config))
        call("acre_view_write", handle, encode(page))
        lib.acre_view_warning.restype = ctypes.c_char_p
        return text(lib.acre_view_warning(handle))
    finally:
        lib.acre_view_destroy(handle)
