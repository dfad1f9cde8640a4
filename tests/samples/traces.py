#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces of jobs like those people record, and what PyTorch's policy needs for them.

    traces.py FOLDER            writes training.trace, lengths.trace, serving.trace
    traces.py --check ACRE      replays them with `acre replay --policy torch` under many settings
                                and compares every figure with figures.json beside this file
    traces.py --update ACRE     writes figures.json

The traces come out alike on every machine. Where recordings of real jobs are at hand, the conform
tests compare the policy with what PyTorch's own allocator gave for them, to the byte; figures.json
was written by a policy that passed them. So a clone without the recordings still notices when a
decision of the policy changes.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent
COMPARED = ["events", "bytes_requested_peak", "bytes_allocated_peak", "bytes_reserved_peak",
            "segments", "device_allocs", "device_frees", "maps", "unmaps", "retries", "ooms",
            "first_oom_event"]
SETTINGS = ["", "expandable_segments:True", "max_split_size_mb:20", "max_split_size_mb:64",
            "roundup_power2_divisions:4", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            "large_segment_size_mb:40", "max_split_size_mb:32,max_non_split_rounding_mb:64",
            "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9"]


class Job:
    """The events of a job, with random numbers of its own."""

    def __init__(self, seed):
        self.lines, self.count, self.state = [], 0, seed

    def draw(self, low, high):
        """A number from low to high."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return low + (self.state >> 33) % (high - low + 1)

    def alloc(self, size, stream=0):
        """A new allocation; returns its number."""
        self.count += 1
        self.lines.append(f"a {self.count} {size} {stream}")
        return self.count

    def free(self, *numbers):
        """Frees allocations."""
        self.lines += [f"f {number}" for number in numbers]

    def text(self):
        """The trace."""
        return "\n".join(self.lines) + "\n"


def training():
    """A convolutional network with momentum; the last batch of an epoch is smaller."""
    job, layers = Job(1), [(64 << min(i // 4, 4), 3 + i % 3) for i in range(24)]
    sizes = [width * width * kernel * kernel * 4 for width, kernel in layers]
    weights = [job.alloc(size) for size in sizes]
    momentum = []
    for step in range(30):
        batch = 8 if step % 10 < 9 else 3
        image = job.alloc(batch * 3 * 224 * 224 * 4)
        kept = []
        for width, kernel in layers:
            side = 7168 // width
            scratch = job.alloc(job.draw(1, 8) * MIB + 512 * kernel)
            kept.append(job.alloc(batch * width * side * side * 4))
            kept.append(job.alloc(batch * width * 8))
            job.free(scratch)
        gradient, grads = job.alloc(batch * 1000 * 4), []
        for index in range(len(layers) - 1, -1, -1):
            grads.append(job.alloc(sizes[index]))
            scratch = job.alloc(job.draw(1, 16) * MIB)
            below = job.alloc(batch * layers[index][0] * (7168 // layers[index][0]) ** 2 * 4)
            job.free(scratch, gradient, kept.pop(), kept.pop())
            gradient = below
        job.free(gradient, image)
        if not momentum:
            momentum = [job.alloc(size) for size in sizes]
        job.free(*grads)
        job.lines.append("e")
    job.free(*momentum, *weights)
    return job.text()


def lengths():
    """A decoder whose sequences have another length each step; two streams."""
    job, width = Job(2), 768
    weights = [job.alloc(width * width * 4 * 4) for _ in range(12)]
    state = [job.alloc(width * width * 4 * 8) for _ in range(12)]
    for _ in range(60):
        length, kept = job.draw(40, 1024), []
        for layer in range(12):
            for part in (3, 1, 4):
                kept.append(job.alloc(4 * length * width * part * 2))
            scores = job.alloc(4 * 12 * length * length * 2)
            kept.append(job.alloc(4 * 12 * length * length * 2))
            job.free(scores)
            if layer % 4 == 0:
                moved = job.alloc(length * width * 2, 1)
                job.lines.append(f"u {moved} 0")
                job.free(moved)
        logits = job.alloc(4 * length * 50257 // 8)
        for number in reversed(kept):
            grad = job.alloc(job.draw(1, 64) * 512)
            job.free(number, grad)
        job.free(logits)
        job.lines.append("s 1")
    job.free(*weights, *state)
    return job.text()


def serving():
    """Requests of random length come and go; their caches grow by doubling."""
    job, live = Job(3), []
    weights = [job.alloc(9 * MIB + 512 * i) for i in range(16)]
    for step in range(1500):
        if len(live) < 24 and step % 3 == 0:
            live.append([job.draw(5, 200), 16, [job.alloc(16 * 2048) for _ in range(8)]])
        for request in list(live):
            left, room, caches = request
            scratch = job.alloc(job.draw(1, 40) * 2048)
            if room < 512 and job.draw(0, 15) == 0:
                request[1] = room * 2
                grown = [job.alloc(room * 2 * 2048) for _ in caches]
                job.free(*caches)
                request[2] = grown
            job.free(scratch)
            request[0] = left - 1
            if left == 1:
                job.free(*request[2])
                live.remove(request)
    for request in live:
        job.free(*request[2])
    job.free(*weights)
    return job.text()


JOBS = {"training": training, "lengths": lengths, "serving": serving}


def write_all(folder):
    """Writes the traces into a folder."""
    for name, make in JOBS.items():
        (folder / f"{name}.trace").write_text(make())


def replay(acre, path, memory):
    """Returns the figures of one trace on one device, by setting."""
    command = [acre, "replay", str(path), "--policy", "torch", "--json", "--repeat", "2"]
    for setting in SETTINGS:
        command += ["--conf", setting]
    if memory:
        command += ["--device-memory", str(memory)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == len(SETTINGS), len(runs)
    return {run["conf"] or "default":
            [[part[key] for key in COMPARED if key in part] for part in
             [run] + ([run["warm"]] if isinstance(run.get("warm"), dict) else [])]
            for run in runs}


def figures(acre, folder):
    """All figures: each trace without a limit, and on a device that is a little too small."""
    write_all(folder)
    result = {}
    for name in JOBS:
        path = folder / f"{name}.trace"
        free = replay(acre, path, 0)
        least = free["default"][0][COMPARED.index("bytes_reserved_peak")]
        tight = least * 31 // 32 // MIB * MIB
        result[name] = {"80 GiB": free, f"{tight // MIB} MiB": replay(acre, path, tight)}
    return result


def main():
    kept = HERE / "figures.json"
    if sys.argv[1] not in ("--check", "--update"):
        write_all(pathlib.Path(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = figures(sys.argv[2], pathlib.Path(folder))
    if sys.argv[1] == "--update":
        lines = [f'  "{job}": {{\n' + ",\n".join(
            f'    "{device}": {{\n' + ",\n".join(
                f"      {json.dumps(conf)}: [\n        "
                + ",\n        ".join(json.dumps(row) for row in rows) + "]"
                for conf, rows in settings.items())
            + "\n    }" for device, settings in devices.items()) + "\n  }"
            for job, devices in found.items()]
        kept.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    expected = json.loads(kept.read_text())
    assert list(found) == list(expected), "other traces"
    compared = 0
    for job, devices in expected.items():
        assert list(found[job]) == list(devices), (job, list(found[job]), list(devices))
        for device, settings in devices.items():
            for conf, rows in settings.items():
                assert found[job][device][conf] == rows, \
                    f"{job}, {device}, {conf}: {COMPARED}: {found[job][device][conf]} is not {rows}"
                compared += sum(map(len, rows))
    print(f"{compared} figures compared\n{len(expected)} passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
