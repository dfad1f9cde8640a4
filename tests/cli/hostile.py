#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files made to do harm, through every command that reads files: hostile.py ACRE.

Compressed files that unpack to far more than they are: memory stays within the limit, and a
sentence says so. Strings that a file shares and another repeats: no file grows beyond its limit.
Escape sequences in every name: none reaches standard output or error. Histories that make a search
for a plan long, whole and damaged, and traces that make comparing settings long: both end within
their limits. Names and numbers that would share one place in a table: they do not. Tens of
thousands of streams: work does not grow with the square of their number.
"""
import gzip
import json
import os
import pathlib
import pickle
import random
import re
import resource
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "samples"))
import make  # noqa: E402

ACRE = sys.argv[1]
MIB = 1 << 20
passed = 0


def run(folder, *arguments, processor=None):
    """Runs a command; returns status and both outputs as bytes. With processor, the kernel ends it
    after so many seconds of processor time."""
    limit = [] if processor is None else ["prlimit", f"--cpu={processor}"]
    with subprocess.Popen([*limit, ACRE, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        out, err = job.communicate(timeout=250)
    return job.returncode, out, err


def run_on_terminal(folder, *arguments):
    """What a command sends to a terminal, which adds nothing of its own."""
    leader, terminal = os.openpty()
    modes = termios.tcgetattr(terminal)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    pieces = []
    with subprocess.Popen([ACRE, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=terminal, stderr=terminal):
        os.close(terminal)
        while True:
            try:
                pieces.append(os.read(leader, 65536))
            except OSError:  # nobody has it open any more
                break
    os.close(leader)
    return b"".join(pieces)


def bombs(folder, size):
    """Files of a few hundred kilobytes that unpack to size."""
    parts = {
        "dicts.pickle.gz": (b"\x80\x02}(X\x08\0\0\0segments](", b"}(K\x01K\x02u", b"eu."),
        "lists.json.gz": (b'{"segments":[', b"[],", b"[]]}"),
        "rows.csv.gz": (b"id,lower,upper,size\n", b"a,1,2,3\n", b""),
        "line.csv.gz": (b"", b"0", b"\n"),
    }
    for name, (head, unit, tail) in parts.items():
        with gzip.open(folder / name, "wb", 9) as file:
            file.write(head)
            for _ in range(size // MIB):
                file.write(unit * (MIB // len(unit)))
            file.write(tail)
    return list(parts)


def check_bombs(folder):
    """The limit of --memory holds, and is named with the file; without it the size of the file
    decides."""
    for name in bombs(folder, 40 * MIB):
        commands = [["plan", name]] if ".csv" in name else [
            ["why", name], ["advise", name], ["replay", name], ["plan", name],
            ["view", name, "-o", "x.html"], ["diff", name, name], ["convert", name, "x.trace"]]
        for command in commands:
            status, out, err = run(folder, *command, "--memory", "24MiB")
            assert status == 2 and out == b"", (command, status, out[:200])
            assert b"24 MiB of host memory" in err and b"--memory" in err, (command, err[-300:])
            assert name.encode() in err, (command, err[-300:])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    assert peak < 100, f"{peak} MiB under a limit of 24 MiB"
    (folder / "huge.trace").write_text(f"a 0 {1 << 50} 0\n")  # of no device that there is
    status, out, err = run(folder, "convert", "huge.trace", "x.json")
    assert status == 2 and out == b"" and b"huge.trace" in err, (status, err)
    status, _, err = run(folder, "why", "dicts.pickle.gz", "--memory", "nothing")
    assert status == 2 and b"write a size" in err, err
    bombs(folder, 300 * MIB)
    status, _, err = run(folder, "plan", "rows.csv.gz")
    assert status == 2 and b"which is the limit" in err, (status, err)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    assert peak < 800, f"{peak} MiB for {(folder / 'rows.csv.gz').stat().st_size} bytes"


def shared(events, length):
    """A pickle whose events all refer to a few long strings."""
    text = "x" * length
    frame = {"filename": text, "line": 1, "name": "/" + text}
    history = [{"action": "alloc" if number % 2 == 0 else "free_completed", "addr": 4096,
                "size": 512, "stream": 0, "time_us": number, "frames": [{**frame, "line": number}],
                "compile_context": text, "user_metadata": text, "forward_frames": [text]}
               for number in range(events)]
    return pickle.dumps({"segments": [], "device_traces": [history],
                         "external_annotations": [{"stage": text, "name": text, "time_us": number}
                                                  for number in range(events // 10)]}, protocol=4)


def check_sharing(folder):
    """Strings that a pickle shares and a file repeats: the file is refused, and nothing stays."""
    (folder / "shared.pickle").write_bytes(shared(20000, 100000))
    small = (folder / "shared.pickle").stat().st_size
    assert small < 4 * MIB, small
    before = sorted(path.name for path in folder.iterdir())
    for command in (["convert", "shared.pickle", "x.json"],
                    ["convert", "shared.pickle", "x.json.gz"],
                    ["convert", "shared.pickle", "-", "--to", "json"],
                    ["convert", "--to", "json", "shared.pickle", "/dev/null"]):
        status, out, err = run(folder, *command, processor=20)
        assert status == 2 and out == b"", (command, status, len(out))
        assert re.search(rb"would take [\d.]+ GiB or more, and the limit is [\d.]+ [MG]iB;",
                         err), err
        assert b"--output-limit" in err and len(err) < 500, (command, err[-300:])
    for command in (["view", "shared.pickle", "-o", "x.html"], ["why", "shared.pickle"],
                    ["why", "shared.pickle", "--json"], ["advise", "shared.pickle"],
                    ["advise", "shared.pickle", "--json"], ["plan", "shared.pickle"],
                    ["advise", "shared.pickle", "-o", "x.html"], ["replay", "shared.pickle"],
                    ["diff", "shared.pickle", "shared.pickle", "-o", "x.html"],
                    ["diff", "shared.pickle", "shared.pickle", "--json"],
                    ["convert", "shared.pickle", "x.pickle"],
                    ["convert", "shared.pickle", "x.trace"]):
        status, out, err = run(folder, *command, processor=60)
        assert status in (0, 1, 2) and len(out) < 500 * small, (command, status, len(out))
        for path in folder.iterdir():
            if path.name not in before:
                assert path.stat().st_size < 500 * small, (command, path, path.stat().st_size)
                path.unlink()
    (folder / "few.pickle").write_bytes(shared(100, 100000))
    status, _, err = run(folder, "convert", "few.pickle", "x.json", "--output-limit", "1MiB")
    assert status == 2 and b"the limit is 1024.00 KiB" in err, err
    assert not (folder / "x.json").exists()
    status, _, err = run(folder, "convert", "few.pickle", "x.json", "--output-limit", "1GiB")
    assert status == 0, err
    assert len(json.loads((folder / "x.json").read_text())["device_traces"][0]) == 100


BAD = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\x08\r\x7f"

CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def poison(value):
    """The value with escape sequences behind every name that is free text."""
    if isinstance(value, list):
        return [poison(item) for item in value]
    if isinstance(value, dict):
        return {key: item + BAD if key in ("filename", "name", "user_metadata", "compile_context")
                else poison(item) for key, item in value.items()}
    return value


def check_terminal(folder):
    """No control character comes out of any command, in answers or in errors."""
    make.write_all(folder)
    for name in ("oom", "state", "later"):
        data = poison(pickle.loads((folder / f"{name}.pickle").read_bytes()))
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(data, protocol=4))
        (folder / f"{name}.json").write_text(json.dumps(data))
    (folder / "bad.json").write_text('{"segments": "' + BAD.replace("\r", "") + '"')
    (folder / "bad.trace").write_bytes(b"a 1 512 0\n" + BAD.encode() + b" \xff\xfe\n")
    (folder / "bad.csv").write_bytes(b"id,lower,upper,size\nx\x1b[31m,1,\x1b]0;x\x07,4\n")
    (folder / "odd\x1b[31m.pickle").write_bytes(b"none")
    texts = 0
    for command in (
            ["why", "oom.pickle"], ["why", "state.pickle"], ["why", "oom.json"],
            ["why", "oom.pickle", "--json"], ["advise", "oom.pickle"],
            ["advise", "oom.pickle", "--json"], ["diff", "state.pickle", "later.pickle"],
            ["diff", "state.pickle", "later.pickle", "--json", "--all"],
            ["replay", "oom.pickle"], ["replay", "oom.json", "--json"],
            ["view", "oom.pickle", "-o", "x.html"], ["plan", "oom.pickle"],
            ["why", "bad.json"], ["replay", "bad.trace"], ["plan", "bad.csv"],
            ["convert", "bad.trace", "x.json"], ["why", "odd\x1b[31m.pickle"],
            ["why", "no\x1b[31m.pickle"], ["no\x1bcommand"], ["why", "--\x1b[31m"]):
        status, out, err = run(folder, *command)
        for text in (out, err):
            decoded = text.decode("utf-8")  # or this raises
            assert not CONTROL.search(decoded), (command, text)
        texts += b"evil" in out
        assert status in (0, 1, 2), (command, status, err)
    assert texts >= 4, f"{texts} answers name what was poisoned"
    (folder / "ids.csv").write_bytes(b"id,lower,upper,size\n" + BAD.replace("\r", "").encode() +
                                     b",1,5,4\ngr\xc3\xbcn\xff,1,3,7\n")
    for wanted, command in (
            (b"evil", ["convert", "oom.pickle", "-", "--to", "json"]),
            (b"is no text", ["convert", "oom.pickle", "-", "--to", "pickle"]),
            (b"<!DOCTYPE", ["view", "oom.pickle", "-o", "-"]), (b"evil", ["why", "oom.pickle"]),
            (b"<!DOCTYPE", ["diff", "state.pickle", "later.pickle", "-o", "-"]),
            (b"evil", ["plan", "ids.csv", "-o", "-"]), (b"<svg", ["plan", "ids.csv", "--svg", "-"]),
            ("gr\u00fcn?,1,3,7".encode(), ["plan", "ids.csv", "-o", "/dev/stdout"])):
        text = run_on_terminal(folder, *command)
        assert wanted in text, (command, text[:300])
        assert not CONTROL.search(text.decode("utf-8")), (command, text)


def damaged(data, dice):
    """Copies of a history that are wrong in one way each: as values, then as bytes."""
    events = data["device_traces"][0]
    for wrong in (0, 1, 511, MIB + 1, (1 << 63) - 1, 1 << 62):
        for key in ("size", "addr", "time_us"):
            copy = pickle.loads(pickle.dumps(data))
            for event in dice.sample(copy["device_traces"][0], 20):
                event[key] = wrong
            yield pickle.dumps(copy, protocol=4)
    for keep in (lambda event: event["action"] != "free_completed",
                 lambda event: event["action"] != "alloc" or dice.random() < 0.5,
                 lambda event: dice.random() < 0.7):
        yield pickle.dumps(data | {"device_traces": [[e for e in events if keep(e)]]}, protocol=4)
    yield pickle.dumps(data | {"device_traces": [events[::-1]]}, protocol=4)
    yield pickle.dumps(data | {"device_traces": [events + events]}, protocol=4)
    whole = pickle.dumps(data, protocol=4)
    for _ in range(8):
        some = bytearray(whole)
        for _ in range(4):
            some[dice.randrange(len(some))] = dice.randrange(256)
        yield bytes(some)


def check_search(folder):
    """Planning and advice for 369 tensors end, whatever the history is like: within a limit of
    processor time, ten times what they take."""
    seed = int(os.environ.get("ACRE_SEED", "20"))
    print(f"seed {seed}")
    is_long = os.environ.get("ACRE_TEST_LONG") == "1"
    wholes = [make.stairs(369)] + [make.varied(369, seed + i) for i in range(8 if is_long else 1)]
    answers = 0
    for number, data in enumerate(wholes):
        (folder / "whole.pickle").write_bytes(pickle.dumps(data, protocol=4))
        for command in (["plan", "whole.pickle"] + ([] if is_long else ["--time", "1"]),
                        ["advise", "whole.pickle"]):
            status, out, err = run(folder, *command, processor=80)
            assert status in (0, 1) and out, (command, number, status, err[-300:])
        if number == 0 and not is_long:
            continue
        for index, case in enumerate(damaged(data, random.Random(seed + number))):
            (folder / "damaged.pickle").write_bytes(case)
            for command in (["plan", "damaged.pickle", "--time", "0.2"],
                            ["advise", "damaged.pickle"]):
                status, out, err = run(folder, *command, processor=20)
                assert status in (0, 1, 2), (command, number, index, status, err[-300:])
                answers += status < 2
    assert answers >= 8, f"{answers} damaged histories were answered"


def check_advice(folder):
    """A file of four kilobytes that unpacks to a million events, each of which walks over all that
    is held: advice ends at its limit of time, with what is known then, and says so."""
    with gzip.open(folder / "empty.trace.gz", "wb") as file:
        file.writelines(b"a %d 3000000 %d\n" % (number, number % 64) for number in range(500))
        file.write(b"e\n" * 1000000)
    for more in ([], ["--json"], ["-o", "x.html"]):
        status, out, err = run(folder, "advise", "empty.trace.gz", "--time", "0.000001", *more,
                               processor=20)
        assert status == 1 and b"before the present settings were tried" in err, (status, err)
        assert b"empty.trace.gz" in err and b"--time" in err, err
        assert json.loads(out)["error"] if more == ["--json"] else not out, out
    status, out, err = run(folder, "advise", "empty.trace.gz", "--time", "2", processor=60)
    assert status in (0, 1) and b"time was over before" in out + err, (out, err)
    status, _, err = run(folder, "advise", "empty.trace.gz", "--time", "0")
    assert status == 2 and b"write seconds" in err, err


def unshift(value, bits):
    """The x for which x ^ x >> bits is this."""
    wanted = value
    for _ in range(64 // bits):
        value = wanted ^ value >> bits
    return value


def colliding(count):
    """Numbers of eight bytes that share the low bits under fixed hashes of a usual kind: such a
    hash is a chain of steps that can each be turned back. Two kinds of them by turns, of which the
    first is one product, the second the end of a hash of texts."""
    size = 1 << 64
    one = pow(0x9E3779B97F4A7C15, -1, size)
    two, three = pow(0xFF51AFD7ED558CCD, -1, size), pow(0xC4CEB9FE1A85EC53, -1, size)
    numbers = [unshift((2 * i + 1) * one % size, 32) for i in range(count)]
    texts = [(unshift(unshift(((i + 1) << 26) % size, 29) * three % size, 32) * two % size
              ^ 0x9E3779B97F4A7C15 ^ 8).to_bytes(8, "little") for i in range(count)]
    return numbers, texts


def check_collisions(folder):
    """Numbers, texts and addresses that would all lie in one place of a table, were its hash always
    the same: reading them takes what other ones take, a small part of the limit."""
    count = 150000
    numbers, texts = colliding(count)
    (folder / "same.trace").write_text("".join(f"a {number} 512 0\n" for number in numbers))
    history = [{"action": "alloc" if i % 2 == 0 else "free_completed", "addr": 4096, "size": 512,
                "stream": 0, "frames": [{"filename": f"Q{i:07}", "name": "f", "line": 1}]}
               for i in range(count)]
    plain = pickle.dumps({"segments": [], "device_traces": [history]}, protocol=4)
    some = iter(texts)
    (folder / "same.pickle").write_bytes(
        re.sub(rb"\x8c\x08Q\d{7}", lambda _: b"\x8c\x08" + next(some), plain))
    for command in (["plan", "same.trace"], ["why", "same.pickle"],
                    ["view", "same.pickle", "-o", "x.html"]):
        status, out, err = run(folder, *command, processor=10)
        assert status in (0, 1) and out, (command, status, err[-300:])


def stream_history(streams):
    """A snapshot that allocates once on each stream, then frees."""
    history = [{"action": action, "addr": 4096 + i * 512, "size": 512, "frames": [],
                "stream": 0x7f0000000000 + i * 4096}
               for action in ("alloc", "free_completed") for i in range(streams)]
    return pickle.dumps({"segments": [], "device_traces": [history]}, protocol=4)


def check_streams(folder):
    """Tens of thousands of streams, and a segment for each: every command ends within a limit of
    processor time that grows with the file, and numbers streams in the order in which they come."""
    count = 30000
    text = "".join(f"a {i} 512 {i}\n" for i in range(count))
    text += "".join(f"f {i}\n" for i in range(count))
    (folder / "streams.trace").write_text(text)
    (folder / "streams.pickle").write_bytes(stream_history(count))
    for command in (["replay", "streams.trace"], ["view", "streams.trace", "-o", "x.html"],
                    ["plan", "streams.trace"],
                    ["replay", "streams.trace", "--policy", "plan"],
                    ["replay", "streams.pickle"], ["why", "streams.pickle"],
                    ["advise", "streams.trace", "--time", "2"]):
        status, out, err = run(folder, *command, processor=25)
        assert status in (0, 1) and out + err, (command, status, err[-300:])
    for source, target in (("streams.trace", "x.json"), ("streams.pickle", "x.trace")):
        status, _, err = run(folder, "convert", source, target, processor=25)
        assert status == 0, (source, err)
    numbers = [line.split()[3] for line in (folder / "x.trace").read_text().splitlines()
               if line.startswith("a ")]
    assert numbers == [str(i + 1) for i in range(count)], numbers[:5]
    (folder / "more.pickle").write_bytes(stream_history(65536))
    status, _, err = run(folder, "convert", "more.pickle", "x.trace", processor=25)
    assert status == 2 and b"more than 65536 streams" in err, (status, err)


with tempfile.TemporaryDirectory() as temporary:
    for check in (check_bombs, check_sharing, check_terminal, check_search, check_advice,
                  check_collisions, check_streams):
        check(pathlib.Path(temporary))
        passed += 1
        print("ok  ", check.__name__, flush=True)
print(f"{passed} passed, 0 failed")
