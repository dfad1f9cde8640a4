#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What "acre why" and "acre advise" tell, compared with an allocator that knows: the one below
places blocks by PyTorch's documented rules, writes snapshots, and remembers what it held when a
request failed. Every figure has to be the same, and each answer has to say the right thing."""
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

ACRE = pathlib.Path(os.environ["ACRE_BUILD"]) / "acre"
MIB = 1 << 20
PACKAGES = "/opt/conda/lib/python3.10/site-packages/torch/"
FIGURES = ("reserved", "allocated", "waiting", "free_split", "free_whole", "private_free",
           "largest_free", "requested")
NATIVE = [("torch::unwind::unwind()", "??", 0),
          ("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)", "??", 0)]
failed = 0


def stack(*frames):
    return [{"name": name, "filename": file, "line": line} for name, file, line in frames]


def forward(line, file="/srv/job/model.py", depth=2):
    return stack(*NATIVE, ("forward", PACKAGES + "nn/modules/linear.py", 116),
                 *[("_call_impl", PACKAGES + "nn/modules/module.py", 1527)] * depth,
                 ("layer", file, line), ("main", "/srv/job/train.py", 80))


class Device:
    """Segments of 2 MiB, 20 MiB, or what is asked for; best fit; what is free is merged."""

    def __init__(self, mib, number=0, padding=0):
        self.limit, self.number, self.padding = mib * MIB, number, padding
        self.segments, self.blocks, self.events = {}, {}, []
        self.next, self.time, self.failure = 0x7f0000000000 + (number << 42), 10**15, None

    def note(self, action, address, size, where, place=(0, (0, 0))):
        self.time += 7
        self.events.append({"action": action, "size": size, "stream": place[0],
                            "time_us": self.time, "frames": where or [],
                            "device_free" if action == "oom" else "addr": address})

    def held(self):
        return sum(segment["total"] for segment in self.segments.values())

    def find(self, size, place):
        fit = [block for block in self.blocks.values()
               if block["state"] == "inactive" and block["size"] >= size
               and self.segments[block["segment"]]["place"] == place
               and self.segments[block["segment"]]["small"] == (size <= MIB)]
        return min(fit, key=lambda block: (block["size"], block["at"])) if fit else None

    def obtain(self, size, place, where):
        total = (2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB
                 else -(-size // (2 * MIB)) * 2 * MIB)
        if self.held() + total > self.limit:
            return None
        at = self.next
        self.next += total
        self.segments[at] = {"total": total, "place": place, "small": size <= MIB}
        self.blocks[at] = {"at": at, "size": total, "segment": at, "state": "inactive"}
        self.note("segment_alloc", at, total, where, place)
        return self.blocks[at]

    def give_back(self):
        for at, segment in list(self.segments.items()):
            inside = [block for block in self.blocks.values() if block["segment"] == at]
            if len(inside) == 1 and inside[0]["state"] == "inactive" and not segment["place"][1][1]:
                self.note("segment_free", at, segment["total"], None, segment["place"])
                del self.segments[at], self.blocks[at]

    def alloc(self, bytes_, where=None, stream=0, pool=(0, 0)):
        size, place = -(-(bytes_ + self.padding) // 512) * 512, (stream, pool)
        block = self.find(size, place) or self.obtain(size, place, where)
        if not block:
            self.give_back()
            block = self.obtain(size, place, where)
        if not block:
            self.note("oom", self.limit - self.held(), size, where, place)
            self.failure = dict(self.figures(), request=size)
            return None
        rest = block["size"] - size
        if rest >= 512 if size <= MIB else rest > MIB:
            self.blocks[block["at"] + size] = {"at": block["at"] + size, "size": rest,
                                               "segment": block["segment"], "state": "inactive"}
            block["size"] = size
        block.update(state="active_allocated", asked=bytes_, where=where)
        self.note("alloc", block["at"], bytes_, where, place)
        return block["at"]

    def free(self, at, completes=True):
        block = self.blocks[at]
        place = self.segments[block["segment"]]["place"]
        self.note("free_requested", at, block["asked"], None, place)
        block["state"] = "active_pending_free"
        if not completes:
            return
        self.note("free_completed", at, block["asked"], None, place)
        block["state"] = "inactive"
        for one in sorted(self.blocks):
            first = self.blocks.get(one)
            second = first and self.blocks.get(one + first["size"])
            while second and (first["state"], second["state"]) == ("inactive", "inactive") and \
                    first["segment"] == second["segment"]:
                first["size"] += second["size"]
                del self.blocks[second["at"]]
                second = self.blocks.get(one + first["size"])

    def figures(self):
        found = dict.fromkeys(FIGURES, 0)
        found["reserved"] = self.held()
        used = {block["segment"] for block in self.blocks.values() if block["state"] != "inactive"}
        for block in self.blocks.values():
            is_private = self.segments[block["segment"]]["place"][1] != (0, 0)
            if block["state"] == "active_allocated":
                found["allocated"] += block["size"]
                found["requested"] += block["asked"]
            elif block["state"] == "active_pending_free":
                found["waiting"] += block["size"]
            elif is_private:
                found["private_free"] += block["size"]
            else:
                found["free_split" if block["segment"] in used else "free_whole"] += block["size"]
                found["largest_free"] = max(found["largest_free"], block["size"])
        return found

    def state(self, is_old=False):
        out = []
        for at, segment in sorted(self.segments.items()):
            inside = sorted((block for block in self.blocks.values() if block["segment"] == at),
                            key=lambda block: block["at"])
            live = [block for block in inside if block["state"] != "inactive"]
            whole = {"device": self.number, "address": at, "total_size": segment["total"],
                     "stream": segment["place"][0], "segment_pool_id": segment["place"][1],
                     "segment_type": "small" if segment["small"] else "large",
                     "allocated_size": sum(block["size"] for block in live
                                           if block["state"] == "active_allocated"),
                     "active_size": sum(block["size"] for block in live), "blocks": []}
            for block in inside:
                one = {"size": block["size"], "state": block["state"]}
                if is_old and block in live:
                    one["history"] = [{"addr": block["at"], "real_size": block["asked"],
                                       "frames": block["where"]}]
                elif not is_old:
                    one.update(address=block["at"], requested_size=block.get("asked", 0),
                               frames=block.get("where") or [] if block in live else [])
                whole["blocks"].append(one)
            out.append(whole)
        return out


def train(device, steps=1, leak=0):
    """Weights, then steps whose activations come and go."""
    for i in range(6):
        device.alloc(24 * MIB + 1000 * i, forward(10 + i))
    for _ in range(steps):
        made = [device.alloc((40 if i % 2 else 13) * MIB + 512 * i, forward(100 + i))
                for i in range(12)]
        if leak and device.alloc(leak * MIB, forward(77, "/srv/job/metrics.py")) is None:
            return device
        for at in made:
            if at:
                device.free(at)
        if None in made:
            return device
    return device


def whole(*devices, **more):
    count = max(device.number for device in devices) + 1
    traces = [[] for _ in range(count)]
    for device in devices:
        traces[device.number] = device.events
    return {"segments": sum((device.state() for device in devices), []), "device_traces": traces,
            **more}


def complain(what):
    global failed
    failed += 1
    print("FAIL", what)


def run(*arguments, columns=None):
    environment = dict(os.environ, COLUMNS=str(columns)) if columns else None
    return subprocess.run([str(ACRE), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=120, env=environment)


def write(folder, name, content):
    path = folder / f"{name}.pickle"
    path.write_bytes(pickle.dumps(content))
    return str(path)


def compare(name, said, parts, without):
    """What an answer has to say, and what it must not say."""
    for part in parts:
        if part not in said:
            complain(f"{name}: \"{part}\" is missing: {said[:900]}")
    for part in without:
        if part in said:
            complain(f"{name}: \"{part}\" is told: {said[:900]}")


def check(folder, name, content, truth, verdict, *parts, without=()):
    """The figures, the verdict, and what the answer says and does not say."""
    path = write(folder, name, content)
    why = json.loads(run("why", path, "--json").stdout)
    said = " ".join(run("why", path).stdout.decode().split())
    if why.get("verdict") != verdict:
        complain(f"{name}: {why.get('verdict')} instead of {verdict}: {why.get('text')}")
    for key in FIGURES if truth else ():
        if why[key + "_bytes"] != truth[key]:
            complain(f"{name}: {key} is {truth[key]}, told is {why[key + '_bytes']}")
    if truth and "request" in truth and why["oom"]["requested_bytes"] != truth["request"]:
        complain(f"{name}: the request is {truth['request']}: {why['oom']}")
    compare(name, said, parts, without)
    return path


def advise(path, *parts, without=(), codes=(0, 1)):
    done = run("advise", path)
    said = " ".join(done.stdout.decode().split())
    if done.returncode not in codes:
        complain(f"advise {path}: status {done.returncode}: {done.stderr!r}")
    compare(f"advise {path}", said, parts, without)


def check_fragmentation(folder):
    """A setting is advised when the replay fits with it, and only then."""
    device = Device(1000)
    for at in [device.alloc(90 * MIB, forward(50)) for _ in range(10)]:
        device.free(at)
    kept = [device.alloc(12 * MIB, forward(60)) for _ in range(70)]
    for i, at in enumerate(kept):
        if i % 7 != 3:
            device.free(at)
    device.alloc(200 * MIB, forward(222))
    path = check(folder, "helps", whole(device), device.failure, "fragmentation",
                 "1. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: replayed with it",
                 "made by layer (job/model.py:222)")
    advise(path, "finds no room in one piece", "export PYTORCH_CUDA_ALLOC_CONF=",
           without=("0 bytes less",))
    # 54 MiB are free where 40 are asked for, but segments grow by 20.
    device = Device(700)
    for i in range(6):
        device.alloc(24 * MIB + 1000 * i, forward(10))
    for i in range(12):
        device.alloc(4000 + 512 * i, forward(11))
    for _ in range(2):
        made = [device.alloc(size, forward(30))
                for i in range(6) for size in (40 * MIB + 4096 * i, 13981013)]
        if None in made:
            break
        gradients = []
        for i in range(6):
            device.free(made.pop())
            device.free(made.pop())
            gradients.append(device.alloc(24 * MIB + 1000 * i, forward(20)))
        for i in range(12):
            device.alloc(24 * MIB, forward(21))
        for at in gradients:
            device.free(at)
    path = check(folder, "does_not", whole(device), device.failure, "fragmentation",
                 "settings of PyTorch, the request that failed included: none of them fits",
                 without=("Set PYTORCH", "fits this device either"))
    device = Device(700, padding=32)
    for i in range(40):
        device.alloc(512 + 1024 * i, forward(10))
    device.alloc(900 * MIB, forward(9))
    check(folder, "npu", whole(device), device.failure, "shortage", "torch_npu")


def check_other_causes(folder):
    device = Device(600)
    for i, at in enumerate([device.alloc(50 * MIB, forward(100 + i)) for i in range(10)]):
        if i > 1:
            device.free(at, completes=False)
    device.alloc(200 * MIB, forward(300))
    path = check(folder, "waiting", whole(device), device.failure, "streams",
                 "400.00 MiB waited for other streams")
    advise(path, "Synchronise the streams", without=("that failed is served.",))
    device = Device(600)
    for i, at in enumerate([device.alloc(50 * MIB, forward(7), pool=(0, 7)) for _ in range(8)]):
        if i:
            device.free(at)
    device.alloc(300 * MIB, forward(333))
    path = check(folder, "pools", whole(device), device.failure, "pools",
                 "50.00 MiB were in use and 350.00 MiB were free in private pools. ")
    advise(path, "not what stood in its way", "private pools")
    device = train(Device(400))
    for event in device.events:
        if event["action"] == "oom":
            event["device_free"] += 30000 * MIB
    path = check(folder, "limit", whole(device), device.failure, "limit",
                 "set_per_process_memory_fraction")
    advise(path, "not what stood in its way")
    # A size that was computed wrongly, as jobs do ask for.
    device = Device(200)
    device.alloc(10 * MIB, forward(1))
    device.alloc((1 << 63) - 1024, forward(999))
    path = check(folder, "absurd", whole(device), device.failure, "shortage",
                 "larger than all the memory there is", "Look at the shapes",
                 without=("Less has to be live",))
    advise(path, "A true shortage", codes=(1,))


def check_lacking(folder):
    """Histories without their segments: what they know is told, and no verdict is made up."""
    device = Device(200)
    for i in range(9):
        device.alloc(20 * MIB, forward(i))
    device.alloc(60 * MIB, forward(99))
    assert device.failure, "the request was served"
    content = whole(device)
    content["segments"] = []
    parts = ("A request of 60.00 MiB failed", "the file has no segments; by its history 180.00 MiB "
             "or more were in use", "cannot be told without the segments", "_dump_snapshot()")
    without = ("shortage", "held nothing", "larger than all the memory")
    check(folder, "lacking", content, None, "unknown", *parts, without=without)
    bare = {**content, "device_traces": [
        [event for event in trace if not event["action"].startswith("segment")]
        for trace in content["device_traces"]]}
    check(folder, "bare", bare, None, "unknown", *parts,
          without=(*without, "held by the allocator", "largest free piece"))
    calm = {**bare, "device_traces": [
        [event for event in trace if event["action"] != "oom"] for trace in bare["device_traces"]]}
    check(folder, "calm", calm, None, "none", "No request failed.", "by its history 180.00 MiB")
    # All was given back before the request, which is larger than the device: nothing is lacking.
    device = Device(200)
    for at in [device.alloc(20 * MIB, forward(i)) for i in range(4)]:
        device.free(at)
    device.alloc(600 * MIB, forward(99))
    content = whole(device)
    content["segments"] = []
    content["device_traces"] = [
        [event for event in trace if not event["action"].startswith("segment")]
        for trace in content["device_traces"]]
    check(folder, "given_back", content, None, "shortage", "larger than all the memory there is")


def check_states(folder):
    device = Device(4000)
    for at in [device.alloc(100 * MIB, forward(100)) for _ in range(8)][1:]:
        device.free(at)
    content = whole(device)
    content["device_traces"] = [[]]
    check(folder, "whole_segments", content, device.figures(), "none",
          "of which 100.00 MiB were in use and 700.00 MiB were free in whole segments. ")
    device = train(Device(4000))
    check(folder, "old", device.state(is_old=True), device.figures(), "none",
          "layer (job/model.py:10)", without=("has no stack",))
    check(folder, "nothing", {"segments": [], "device_traces": [[], []]}, None, "none",
          "the allocator held nothing.", without=("0 bytes were in use",))
    small, large = train(Device(4000), 2), train(Device(4000, 1), 3)
    for i in range(9):
        large.alloc(90 * MIB, forward(i))
    content = whole(small, large)
    content["device_traces"][1] = []
    path = check(folder, "other_history", content, large.figures(), "none",
                 "Device 1 of 2, which holds most memory")
    advise(path, "Device 0 of 2, which holds most memory of those that have a history")
    device = train(Device(900), 90, leak=9)
    check(folder, "leak", whole(device), device.failure, "fragmentation",
          "What is allocated by layer (job/metrics.py:77)", "grows from iteration to iteration")
    device = Device(900)
    device.alloc(4000 * MIB, forward(1))
    train(device, 6)
    check(folder, "caught", whole(device), device.failure, "shortage",
          "The job caught this failure and made")


def check_names(folder):
    """Names of any kind are one line each; C++ without a file is a name; letters stay whole."""
    for where, expected in (
            (stack(*NATIVE), "at::detail::empty_generic"),
            (forward(7, "/srv/пример/модель_с_длинным_именем_и_ещё_длиннее.py"), "модель"),
            (stack(("a\x1b[31mred\nline\tx", "/srv/job/odd.py", 3)), "a?[31mred?line?x (job")):
        device = Device(300)
        for _ in range(5):
            device.alloc(50 * MIB, where)
        device.alloc(100 * MIB, where)
        path = check(folder, "name", whole(device), device.failure, "shortage", expected,
                     without=("??", "(:0)", "c10::ArrayRef"))
        for columns in (60, 80, 120):
            for line in run("why", path, columns=columns).stdout.decode().splitlines():
                if len(line) > columns and " " in line[columns // 2:columns]:
                    complain(f"{len(line)} of {columns} columns: {line}")
                if "?" in line.replace("a?[31mred?line?x", ""):
                    complain(f"a letter was cut: {line}")


def check_widths(folder):
    """What is printed fits the terminal; a table whose numbers alone are too wide is turned."""
    path = write(folder, "wide", whole(train(Device(900), 90, leak=9)))
    calls = [("why", path), ("advise", path), ("diff", path, path), ("plan", path),
             ("replay", path, "--policy", "torch,acre", "--min-capacity", "--conf", "",
              "--conf", "expandable_segments:True,max_split_size_mb:128")]
    for columns in (60, 80, 120):
        for call in calls:
            done = run(*call, columns=columns)
            for line in done.stdout.decode().splitlines():
                if len(line) > columns and not line.startswith("  export "):
                    complain(f"{call[0]}: {len(line)} of {columns} columns: {line}")
    said = run(*calls[-1], columns=80).stdout.decode().split()
    whole_run = run(*calls[-1]).stdout.decode().split()
    if said.count("896.0") != whole_run.count("896.0") or "ns/event" not in said:
        complain(f"a turned table lacks something: {said}")


def check_json(folder):
    content = whole(train(Device(4000)))
    content["segments"][0]["total_size"] += 512
    path = write(folder, "edited", content)
    for command in ("why", "advise", "replay", "diff"):
        done = run(command, path, *([path] if command == "diff" else []), "--json")
        try:
            if done.returncode != 1 or not json.loads(done.stdout)["error"]:
                complain(f"{command}: status {done.returncode}: {done.stdout[:99]!r}")
        except ValueError:
            complain(f"{command}: no JSON: {done.stdout[:99]!r}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in (check_fragmentation, check_other_causes, check_lacking, check_states,
                     check_names, check_widths, check_json):
            part(folder)
    print(f"{failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
