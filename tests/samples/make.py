#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the small snapshots that golden tests show: make.py FOLDER

  oom.pickle    a job that leaks a little each step, until a request fails
  state.pickle  the same without history
  later.pickle  the state some steps later: what grew
  edited.pickle segments that do not add up
  devices.pickle three devices, of which the second ran out of memory
  npu.pickle    blocks as Ascend's torch_npu rounds them, with a history
  grown.pickle  expandable segments, and no key that says so
  one.pickle    a state with the one event that recording the state leaves
  forbidden.pickle, truncated.gz, empty.pickle: what is refused
"""
import copy
import gzip
import pathlib
import pickle
import random
import sys

MIB = 1 << 20
BASE = 0x7F0000000000


def frame(name, line):
    return {"filename": "/srv/train/model.py", "line": line, "name": name}


STACKS = {
    "weights": [frame("__init__", 12), frame("main", 80)],
    "forward": [frame("forward", 31), frame("step", 60), frame("main", 88)],
    "log": [frame("append_loss", 70), frame("step", 66), frame("main", 88)],
}


def entry(action, addr, size, stack, time):
    event = {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time,
             "compile_context": "N/A", "user_metadata": "", "frames": STACKS[stack]}
    if action == "oom":
        event["device_free"] = event.pop("addr")
    return event


def block(addr, size, state, stack):
    return {"address": addr, "size": size, "requested_size": size, "state": state,
            "frames": STACKS[stack] if stack else []}


def segment(logs):
    """The state after some steps: a log entry of 2 MiB every 4 MiB behind the weights."""
    blocks, at, end = [block(BASE, 16 * MIB, "active_allocated", "weights")], BASE + 16 * MIB, \
        BASE + 64 * MIB
    for _ in range(logs):
        blocks.append(block(at, 2 * MIB, "inactive", None))
        blocks.append(block(at + 2 * MIB, 2 * MIB, "active_allocated", "log"))
        at += 4 * MIB
    if at < end:
        blocks.append(block(at, end - at, "inactive", None))
    used = sum(b["size"] for b in blocks if b["state"] != "inactive")
    return {"device": 0, "address": BASE, "total_size": 64 * MIB, "allocated_size": used,
            "active_size": used, "requested_size": used, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}


def history(logs):
    """Events that lead from an empty device to segment(logs), then a failed request."""
    time = 1_700_000_000_000_000
    events = [entry("segment_alloc", BASE, 64 * MIB, "weights", time),
              entry("alloc", BASE, 64 * MIB, "weights", time),
              entry("free_requested", BASE, 64 * MIB, "weights", time),
              entry("free_completed", BASE, 64 * MIB, "weights", time),
              entry("alloc", BASE, 16 * MIB, "weights", time)]
    at = BASE + 16 * MIB
    for _ in range(logs):
        time += 10
        events.append(entry("alloc", at, 2 * MIB, "forward", time))
        events.append(entry("alloc", at + 2 * MIB, 2 * MIB, "log", time + 1))
        at += 4 * MIB
    at = BASE + 16 * MIB
    for _ in range(logs):
        time += 10
        for action in ("free_requested", "free_completed"):
            events.append(entry(action, at, 2 * MIB, "forward", time))
        at += 4 * MIB
    events.append(entry("oom", 4 * MIB, 20 * MIB, "forward", time + 5))
    return events


def other_device(data, device, logs):
    """The segments of a state moved to another device."""
    moved = copy.deepcopy(segment(logs))
    moved["device"] = device
    data["segments"].append(moved)


def devices():
    """Device 0 holds most, device 1 ran out of memory, device 2 has nothing to tell."""
    data = {"segments": [], "device_traces": [[], history(11), []]}
    other_device(data, 1, 11)
    for device in (0, 2):
        other_device(data, device, 4)
    more = copy.deepcopy(data["segments"][1])
    for item in [more] + more["blocks"]:
        item["address"] += 1 << 30
    data["segments"].append(more)
    return data


def padded(request):
    """The block of torch_npu for a request."""
    return (request + 32 + 511) // 512 * 512


def npu():
    """Small tensors on Ascend: a segment of 2 MiB, filled from its start."""
    sizes = [1024 * (i % 7 + 1) for i in range(40)]
    events = [entry("segment_alloc", BASE, 2 * MIB, "weights", 1)]
    blocks, at = [], BASE
    for i, size in enumerate(sizes):
        events.append(entry("alloc", at, size, "forward", 2 + i))
        blocks.append({"address": at, "size": padded(size), "requested_size": size,
                       "state": "active_allocated", "frames": STACKS["forward"]})
        at += padded(size)
    used = at - BASE
    blocks.append(block(at, 2 * MIB - used, "inactive", None))
    small = segment(0) | {"total_size": 2 * MIB, "allocated_size": used, "active_size": used,
                          "requested_size": sum(sizes), "segment_type": "small", "blocks": blocks}
    return {"segments": [small], "device_traces": [events]}


def grown():
    """A mapped range of 20 MiB without allocator_settings."""
    used = 12 * MIB
    events = [entry("segment_map", BASE, 20 * MIB, "weights", 1),
              entry("alloc", BASE, used, "weights", 2)]
    blocks = [block(BASE, used, "active_allocated", "weights"),
              block(BASE + used, 8 * MIB, "inactive", None)]
    large = segment(0) | {"total_size": 20 * MIB, "allocated_size": used, "active_size": used,
                          "requested_size": used, "is_expandable": True, "blocks": blocks}
    return {"segments": [large], "device_traces": [events]}


def lives(tensors):
    """The history of tensors (start, end, size) at the addresses that first fit gives them."""
    moments = sorted([(end, 0, i) for i, (_, end, _) in enumerate(tensors)]
                     + [(start, 1, i) for i, (start, _, _) in enumerate(tensors)])
    total, places = 64 * MIB, {}
    events = [entry("segment_alloc", BASE, total, "weights", 1_700_000_000_000_000)]
    for moment, begins, i in moments:
        time, size = 1_700_000_000_000_001 + moment, tensors[i][2]
        if not begins:
            addr = places.pop(i)
            events += [entry(action, addr, size, "forward", time)
                       for action in ("free_requested", "free_completed")]
            continue
        addr = BASE
        for start, length in sorted((places[k], tensors[k][2]) for k in places):
            if addr + size <= start:
                break
            addr = start + length
        places[i] = addr
        events.append(entry("alloc", addr, size, list(STACKS)[i % 3], time))
    large = segment(0) | {"total_size": total, "allocated_size": 0, "active_size": 0,
                          "requested_size": 0, "blocks": [block(BASE, total, "inactive", None)]}
    return {"segments": [large], "device_traces": [events]}


def varied(count, seed):
    """Tensors of varied sizes and lifetimes."""
    dice = random.Random(seed)
    return lives([(i, i + int(2 ** dice.uniform(1, 8)), 512 * int(2 ** dice.uniform(0, 11)))
                  for i in range(count)])


def stairs(count):
    """Tensors of 13 sizes that each overlap twenty others: no plan reaches the lower bound."""
    return lives([(i, i + 20 + i % 7, 512 * (1 + i % 13)) for i in range(count)])


def write_all(folder):
    """Writes all samples into a folder."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                "garbage_collection_threshold": 0.0, "expandable_segments": False,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
    oom = {"segments": [segment(11)], "device_traces": [history(11)],
           "allocator_settings": settings, "external_annotations": []}
    edited = copy.deepcopy(oom)
    edited["segments"][0]["total_size"] = 65 * MIB
    files = {"oom.pickle": oom, "state.pickle": {"segments": [segment(4)], "device_traces": [[]]},
             "later.pickle": {"segments": [segment(9)], "device_traces": [[]]},
             "edited.pickle": edited, "devices.pickle": devices(), "npu.pickle": npu(),
             "grown.pickle": grown(),
             "one.pickle": {"segments": [segment(4)],
                            "device_traces": [[entry("snapshot", 0, 0, "log", 1)]]}}
    for name, data in files.items():
        (folder / name).write_bytes(pickle.dumps(data, protocol=4))
    (folder / "forbidden.pickle").write_bytes(b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00truetR.")
    (folder / "truncated.gz").write_bytes(gzip.compress(pickle.dumps(oom), mtime=0)[:900])
    (folder / "empty.pickle").write_bytes(b"")


if __name__ == "__main__":
    write_all(pathlib.Path(sys.argv[1]))
