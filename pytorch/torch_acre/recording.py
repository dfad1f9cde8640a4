# SPDX-License-Identifier: MIT
"""What happened in the caches: history, snapshots, advice, pictures."""
import contextlib
import os
import pickle
import sys
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

from torch_acre import _C
from torch_acre._index import Device, index_of

_LEVELS = {None: 0, "state": 1, "alloc": 2, "all": 3}


def _record_memory_history(enabled: Optional[str] = "all", context: Optional[str] = "all",
                           stacks: str = "all", max_entries: int = sys.maxsize,
                           device: Device = None, clear_history: bool = False,
                           compile_context: bool = False,
                           global_record_annotations: bool = False,
                           skip_actions: Optional[List[str]] = None) -> None:
    """Starts recording what happens in the caches; enabled=None stops and forgets.

    enabled      "state": stacks of live memory; "all": every event too
    context      when stacks are gathered: None, "state", "alloc", "all"
    stacks       "python", or "all" with native frames before them
    max_entries  events kept, the newest
    """
    if enabled not in (None, "state", "all"):
        raise ValueError(f"enabled is {enabled!r}; it can be None, 'state' or 'all'")
    if context not in _LEVELS:
        raise ValueError(f"context is {context!r}; it can be None, 'state', 'alloc' or 'all'")
    if stacks not in ("python", "all"):
        raise ValueError(f"stacks is {stacks!r}; it can be 'python' or 'all'")
    if max_entries < 0:
        raise ValueError(f"max_entries is {max_entries}; it cannot be negative")
    _C._init()
    every = range(_C._device_count()) if device is None else [index_of(device)]
    for index in every:
        if enabled is None:
            _C._history_stop(index)
            continue
        level = min(_LEVELS[context], 1) if enabled == "state" else _LEVELS[context]
        kept = 1 if enabled == "state" else max(1, int(max_entries))
        _C._history_start(index, level, kept, stacks == "all", ",".join(skip_actions or []),
                          clear_history)


def _snapshot_bytes(index: int = -1, is_json: bool = False, no_history: bool = False,
                    pool: Tuple[int, int] = (0, 0)) -> bytes:
    """A snapshot as it would stand in a file; it goes through a pipe, not through a disk."""
    reader, writer = os.pipe()
    parts: List[bytes] = []

    def read() -> None:
        with os.fdopen(reader, "rb", buffering=0) as file:
            while part := file.read(1 << 20):
                parts.append(part)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        _C._snapshot_write(f"/proc/self/fd/{writer}", is_json, index, no_history, pool)
    finally:
        os.close(writer)
        thread.join()
    return b"".join(parts)


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> Dict[str, Any]:
    """Segments, blocks, history and settings as a dictionary, as torch.cuda has it."""
    index = -1 if device is None else index_of(device)
    return pickle.loads(_snapshot_bytes(index))


def memory_snapshot(mempool_id: Optional[Tuple[int, int]] = None,
                    include_traces: bool = True) -> List[Dict[str, Any]]:
    """The segments of all devices, or of one pool."""
    data = _snapshot_bytes(no_history=not include_traces, pool=tuple(mempool_id or (0, 0)))
    return pickle.loads(data)["segments"]


def _dump_snapshot(filename: str = "dump_snapshot.pickle",
                   augment_with_fx_traces: bool = False) -> None:
    """Writes a snapshot for torch.cuda._memory_viz, acre view, acre why, acre advise."""
    _C._snapshot_write(os.fspath(filename), False, -1, False, (0, 0))


def _set_memory_metadata(metadata: str) -> None:
    """Sets a text that the entries of this thread carry from now on."""
    _C._metadata_set(metadata)


def _get_memory_metadata() -> str:
    return _C._metadata_get()


@contextlib.contextmanager
def _snapshot_file(index: int = -1) -> Iterator[str]:
    """A path, good inside the with statement, at which a snapshot can be read."""
    descriptor = os.memfd_create("snapshot")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(_snapshot_bytes(index))
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def advise(device: Device = None, capacity: int = 0) -> Dict[str, Any]:
    """What other settings would have needed for the job so far.

    History must be recording (_record_memory_history()). The result has "settings", best
    first, each with "conf", "policy" and "reserved_peak"; "recommended" is an index into it.
    """
    index = index_of(device)
    if not _C._history_is_on(index):
        raise RuntimeError("advise: nothing was recorded; call "
                           "torch.acre.memory._record_memory_history() before the job")
    with _snapshot_file(index) as path:
        return _C._advise(path, index, capacity)


def view(path: str, title: str = "PyTorch on Acre") -> None:
    """Writes what was recorded as one page for a browser."""
    with _snapshot_file() as snapshot:
        _C._view_write(snapshot, os.fspath(path), title)
