#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Snapshots of many kinds through every tool: several devices, no history, no stacks, growing
segments, blocks that wait, torch_npu, several failures, deep stacks, histories out of order or cut,
absurd sizes, unknown fields. Every answer ends in time and is text or JSON, sums add up, and the
device and the verdict are the right ones."""
import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile

ACRE = pathlib.Path(os.environ["ACRE_BUILD"]) / "acre"
MIB = 1 << 20
SECONDS = 120
TORCH = "/usr/lib/python3/site-packages/torch/nn/modules/linear.py"
failed = 0


def frames(line, depth):
    return [{"name": "malloc", "filename": "??", "line": 0},
            *({"name": "forward", "filename": TORCH, "line": i} for i in range(depth)),
            {"name": "step", "filename": "/job/train.py", "line": line},
            {"name": "main", "filename": "/job/train.py", "line": 7}]


class Job:
    """A small allocator: a segment per block, kept when it is free and given back, as
    PyTorch does it, before a request fails."""

    def __init__(self, device=0, limit=1000, *, has_stacks=True, extra=0, grows=False, stream=0):
        self.device, self.limit, self.has_stacks = device, limit * MIB, has_stacks
        self.extra, self.grows, self.stream = extra, grows, stream
        self.next = 0x7f0000000000 + (device << 40) + (stream << 36)
        self.events, self.live, self.free_segments, self.time = [], {}, {}, 10**15

    def event(self, action, address, size, line=1, depth=0):
        self.time += 10
        self.events.append({
            "action": action, "size": size, "stream": self.stream, "time_us": self.time,
            "device_free" if action == "oom" else "addr": address,
            "frames": frames(line, depth) if self.has_stacks else []})

    def held(self):
        return sum(s for s, *_ in self.live.values()) + sum(self.free_segments.values())

    def alloc(self, mib, line=1, depth=0):
        request = int(mib * MIB)
        size = (request + self.extra + 511) // 512 * 512
        segment = (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
        for address, bytes_ in self.free_segments.items():
            if bytes_ == segment:
                del self.free_segments[address]
                break
        else:
            if self.held() + segment > self.limit:
                for address, bytes_ in self.free_segments.items():
                    self.event("segment_unmap" if self.grows else "segment_free", address, bytes_)
                self.free_segments.clear()
            if self.held() + segment > self.limit:
                self.event("oom", self.limit - self.held(), size, line, depth)
                return None
            address = self.next
            self.next += segment
            self.event("segment_map" if self.grows else "segment_alloc", address, segment)
        self.event("alloc", address, size, line, depth)
        self.live[address] = (segment, request, size, line)
        return address

    def free(self, address):
        segment, _, size, _ = self.live.pop(address)
        self.event("free_requested", address, size)
        self.event("free_completed", address, size)
        self.free_segments[address] = segment

    def train(self, steps, blocks, mib=30, leak=0):
        for _ in range(3):
            self.alloc(40, 11)
        for _ in range(steps):
            made = [self.alloc(mib, 22, 4) for _ in range(blocks)]
            if leak:
                self.alloc(leak, 99)
            for address in reversed(made):
                if address:
                    self.free(address)
        return self

    def segments(self, waiting=()):
        out = []
        for address, (segment, request, size, line) in sorted(self.live.items()):
            waits = address in waiting
            blocks = [{"address": address, "size": size, "requested_size": request,
                       "state": "active_pending_free" if waits else "active_allocated",
                       "frames": frames(line, 0) if self.has_stacks else []}]
            if segment > size:
                blocks.append({"address": address + size, "size": segment - size,
                               "requested_size": 0, "state": "inactive", "frames": []})
            out.append(self.segment(address, segment, 0 if waits else size, size, request, blocks))
        for address, segment in sorted(self.free_segments.items()):
            out.append(self.segment(address, segment, 0, 0, 0, [
                {"address": address, "size": segment, "requested_size": 0, "state": "inactive",
                 "frames": []}]))
        return out

    def segment(self, address, total, allocated, active, requested, blocks):
        return {"device": self.device, "address": address, "total_size": total,
                "stream": self.stream, "segment_type": "large", "allocated_size": allocated,
                "active_size": active, "requested_size": requested, "segment_pool_id": (0, 0),
                "is_expandable": self.grows, "frames": [], "blocks": blocks}


def whole(*jobs, segments=None, traces=None, **more):
    if segments is None:
        segments = sum((job.segments() for job in jobs), [])
    return {"segments": segments,
            "device_traces": [job.events for job in jobs] if traces is None else traces,
            "allocator_settings": {"expandable_segments": any(job.grows for job in jobs)}, **more}


def make():
    """Name: the snapshot, and what "why" must say: device, verdict."""
    dice = random.Random(7)
    three = [Job(d, 250 if d == 1 else 4000).train(3, 5) for d in range(3)]
    plain = Job().train(3, 5)
    failing = Job(limit=250).train(3, 5)
    shuffled = list(failing.events)
    dice.shuffle(shuffled)
    back = [dict(event) for event in failing.events]
    for event in back[::7]:
        event["time_us"] -= 5000
    once = Job(limit=800).train(3, 4)
    for _ in range(8):
        once.alloc(40, 33)
    once.alloc(600, 44)
    ring = Job(limit=400).train(10, 5)
    ring.alloc(390, 5)
    deep = Job(limit=400)
    for _ in range(9):
        deep.alloc(40, 3, 3000)
    deep.alloc(90, 4, 20000)
    absurd = Job(limit=1 << 39).train(1, 2)
    absurd.alloc(1 << 37, 5)
    strange = Job().train(3, 5)
    strange.events.insert(3, {"action": "teleport", "addr": 5, "size": 7, "stream": 0,
                              "time_us": 3, "frames": [], "more": {"x": [1, {"y": None}]}})
    side = Job(stream=7).train(2, 3)
    both = sorted(plain.events + side.events, key=lambda event: event["time_us"])
    return {
        "three_devices": (whole(*three), 1, "shortage"),
        "no_history": (whole(plain, traces=[[]]), 0, "none"),
        "segments_only": ({"segments": plain.segments()}, 0, "none"),
        "list": (plain.segments(), 0, "none"),
        "growing": (whole(Job(limit=250, grows=True).train(3, 5)), 0, "shortage"),
        "waiting": (whole(plain, traces=[[]],
                          segments=plain.segments(list(plain.live)[:2])), 0, "none"),
        "npu": (whole(Job(limit=250, extra=32).train(3, 5)), 0, None),
        "no_stacks": (whole(Job(limit=250, has_stacks=False).train(3, 5)), 0, "shortage"),
        "several_failures": (whole(Job(limit=250).train(6, 5)), 0, "shortage"),
        "deep": (whole(deep), 0, "shortage"),
        "shuffled": (whole(failing, traces=[shuffled]), 0, None),
        "times_back": (whole(failing, traces=[back]), 0, "shortage"),
        "leak": (whole(Job(limit=600).train(30, 2, leak=12)), 0, None),
        "optimizer_once": (whole(once), 0, "shortage"),
        "ring": (whole(ring, traces=[ring.events[len(ring.events) // 2:]]), 0, "shortage"),
        "history_only": (whole(failing, segments=[]), 0, None),
        "empty": (whole(segments=[], traces=[[]]), 0, "none"),
        "eight_devices": (whole(*(Job(d).train(2, 3) for d in range(8))), 0, "none"),
        "streams": (whole(plain, traces=[both],
                          segments=plain.segments() + side.segments()), 0, "none"),
        "absurd": (whole(absurd), 0, "none"),
        "strange": (whole(strange, future={"a": [1, 2]}), 0, "none"),
    }


def complain(what):
    global failed
    failed += 1
    print("FAIL", what)


def run(folder, *arguments, codes=(0, 1, 2)):
    line = "acre " + " ".join(arguments)
    try:
        done = subprocess.run([str(ACRE), *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        complain(f"{line}: does not end")
        return None
    if done.returncode not in codes:
        complain(f"{line}: exit status {done.returncode}: {done.stderr[-300:]!r}")
    said = done.stdout + done.stderr
    # Names in these files are plain: anything else was never meant to be printed.
    if re.search(rb"[^\t\n -~]|[^\"' ]\?[^\"' \n]", said.replace(b"??", b"")):
        complain(f"{line}: odd characters in {said[:400]!r}")
    if done.returncode == 2 and not done.stderr:
        complain(f"{line}: refused without a word")
    return done


def check_why(folder, name, device, verdict):
    done = run(folder, "why", f"{name}.pickle", "--json")
    if not done or done.returncode == 2:
        return complain(f"{name}: why refuses it: {done and done.stderr}")
    why = json.loads(done.stdout)
    if why["device"] != device:
        complain(f"{name}: device {why['device']} instead of {device}")
    if verdict and why["verdict"] != verdict:
        complain(f"{name}: verdict {why['verdict']} instead of {verdict}: {why['text']}")
    parts = sum(why[key] for key in ("allocated_bytes", "waiting_bytes", "free_split_bytes",
                                     "free_whole_bytes", "private_free_bytes"))
    if parts != why["reserved_bytes"] and "not whole" not in why["text"]:
        complain(f"{name}: {parts} bytes in parts, {why['reserved_bytes']} held")
    if why["requested_bytes"] > why["allocated_bytes"]:
        complain(f"{name}: more was asked for than is in use")
    if name != "leak" and why["growth"]:
        complain(f"{name}: growth is claimed: {why['growth']}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = make()
        for case, (content, device, verdict) in cases.items():
            (folder / f"{case}.pickle").write_bytes(pickle.dumps(content))
            file = f"{case}.pickle"
            check_why(folder, case, device, verdict)
            run(folder, "why", file)
            run(folder, "advise", file)
            advice = run(folder, "advise", file, "--json")
            if advice:
                json.loads(advice.stdout)
            run(folder, "replay", file)
            run(folder, "replay", "--verify", file)
            run(folder, "plan", file, "--time", "2")
            run(folder, "view", file, "-o", "page.html", codes=(0, 2))
            run(folder, "diff", "no_history.pickle" if case != "no_history" else file, file)
            run(folder, "convert", file, "out.trace")
        waits = json.loads(run(folder, "why", "waiting.pickle", "--json").stdout)
        if waits["waiting_bytes"] != 80 * MIB or "waited for other streams" not in waits["text"]:
            complain(f"blocks that wait: {waits['text']}")
        said = run(folder, "advise", "three_devices.pickle").stdout
        if b"Device 1 of 3, where a request failed" not in said:
            complain(f"advise takes another device: {said[:200]!r}")
        said = run(folder, "why", "npu.pickle").stdout
        if b"torch_npu" not in said:
            complain(f"torch_npu is not named: {said[:300]!r}")
    print(f"{len(cases)} snapshots, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
