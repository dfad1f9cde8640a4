#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pickle to Acre to pickle gives equal data: roundtrip.py ACRE

Made here: snapshots of every layout and pickle protocol. Taken along: the files of
../shared/snapshots (or ACRE_SHARED), where they are. What is written must load with
Python's pickle and have the types and keys that PyTorch's viewer asks for.
"""
import gzip
import json
import os
import pathlib
import pickle
import pickletools
import subprocess
import sys
import tempfile

ACCEPTED = {"PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "EMPTY_DICT",
            "SETITEMS", "SETITEM", "EMPTY_LIST", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2",
            "TUPLE3", "EMPTY_TUPLE", "SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1",
            "BININT2", "LONG1", "BINFLOAT", "NEWTRUE", "NEWFALSE", "NONE", "DICT", "LIST"}


def frame(n):
    return {"filename": f"/srv/file{n % 3}.py", "line": n, "name": f"f{n} \u00e9 \ud800"}


def modern():
    """All keys of today, two devices, shared stacks, private pools, an oom."""
    stack = [frame(1), frame(2)]
    block = {"address": 4096, "size": 1024, "requested_size": 1000, "state": "active_allocated",
             "frames": stack}
    rest = {"address": 5120, "size": 2096128, "requested_size": 0, "state": "inactive",
            "frames": []}
    segment = {"device": 1, "address": 4096, "total_size": 2097152, "allocated_size": 1024,
               "active_size": 1024, "requested_size": 1000, "stream": 94825, "segment_type":
               "small", "segment_pool_id": (0, 3), "is_expandable": True, "frames": stack,
               "blocks": [block, rest], "forward_frames": ["fwd a", "fwd b"]}
    entry = {"action": "alloc", "addr": 4096, "size": 1000, "stream": 94825, "time_us": 17 << 46,
             "compile_context": "N/A", "user_metadata": "step 1", "pool_id": (0, 3),
             "frames": stack, "forward_frames": ["fwd a", "fwd b"]}
    bare = {"action": "free_requested", "addr": 2**64 - 512, "size": 2**63, "stream": 0,
            "time_us": 5, "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}
    oom = {"action": "oom", "device_free": 12345678901, "size": 1 << 40, "stream": 0,
           "time_us": 6, "compile_context": "N/A", "user_metadata": "", "pool_id": (7, 0)}
    later = {"action": "something_new", "addr": 1, "size": 2, "stream": 3}
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                "garbage_collection_threshold": 0.8, "expandable_segments": False,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)},
                "list": [1, "a", None, 2.5, [True]], "tuple": (1, 2, 3)}
    marks = [{"name": "step", "stage": "START", "device": 1, "time_us": 4},
             {"name": "step", "stage": "END", "device": 1, "time_us": 9}]
    return {"segments": [segment], "device_traces": [[], [entry, bare, oom, later, dict(entry)]],
            "allocator_settings": settings, "external_annotations": marks}


def legacy():
    """Blocks without addresses, a history instead of frames, a bare list."""
    past = [{"addr": 4096, "real_size": 900, "frames": [frame(3)]}]
    return [{"device": 0, "address": 4096, "total_size": 2097152, "allocated_size": 1024,
             "active_size": 1024, "stream": 0, "segment_type": "small",
             "blocks": [{"size": 1024, "state": "active_allocated", "history": past},
                        {"size": 2096128, "state": "inactive"}]}]


def long():
    """More events than fit one batch of a pickle, one stack."""
    stack = [frame(i) for i in range(60)]
    events = [{"action": "alloc", "addr": 512 * i, "size": i + 1, "stream": i % 3, "time_us": i,
               "frames": stack} for i in range(5000)]
    return {"segments": [], "device_traces": [events]}


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}


def violation(schema, data, where="$"):
    """The first place where data breaks the schema, or None; the words that it uses."""
    kind = schema.get("type")
    if kind and (not isinstance(data, TYPES[kind]) or
                 (kind == "integer" and isinstance(data, bool))):
        return f"{where} is no {kind}"
    if "const" in schema and data != schema["const"]:
        return f"{where} is not {schema['const']}"
    if "enum" in schema and data not in schema["enum"]:
        return f"{where} is {data}"
    if isinstance(data, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in data:
                return f"{where} lacks {key}"
        for key, value in data.items():
            if key not in known and not schema.get("additionalProperties", True):
                return f"{where} has {key}"
            found = violation(known.get(key, {}), value, f"{where}.{key}")
            if found:
                return found
    if isinstance(data, list) and "items" in schema:
        for i, item in enumerate(data):
            found = violation(schema["items"], item, f"{where}[{i}]")
            if found:
                return found
    return None


class Runner:
    def __init__(self, acre, folder):
        self.acre, self.folder, self.failed, self.passed = acre, pathlib.Path(folder), 0, 0
        source = pathlib.Path(os.environ["ACRE_SOURCE"])
        self.schema = json.loads((source / "docs/snapshot.schema.json").read_text())

    def convert(self, *names):
        done = subprocess.run([self.acre, "convert", *map(str, names)], capture_output=True)
        if done.returncode:
            print(done.stderr.decode())
        return done.returncode == 0

    def expect(self, what, fact):
        self.passed += bool(fact)
        self.failed += not fact
        if not fact:
            print("failed:", what)

    def check(self, what, path, data):
        """One file through the pickle, and through JSON and back."""
        out, text, back = (self.folder / name for name in ("o.pickle", "o.json.gz", "b.pickle.gz"))
        if not (self.convert(path, out) and self.convert(path, text) and
                self.convert(text, back)):
            self.expect(what + ": converts", False)
            return
        raw = out.read_bytes()
        self.expect(what + ": equal", pickle.loads(raw) == data)
        used = {op.name for op, _, _ in pickletools.genops(raw)}
        self.expect(what + ": only plain instructions", used <= ACCEPTED)
        wanted = {"segments": data} if isinstance(data, list) else data
        self.expect(what + ": equal through JSON",
                    plain(pickle.loads(gzip.open(back).read())) == plain(wanted))
        broken = violation(self.schema, json.load(gzip.open(text)))
        self.expect(f"{what}: follows the schema: {broken}", broken is None)


def plain(data):
    """Tuples as lists: JSON does not tell them apart."""
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    return [plain(item) for item in data] if isinstance(data, (list, tuple)) else data


def main():
    shared = pathlib.Path(os.environ.get("ACRE_SHARED") or
                          pathlib.Path(os.environ["ACRE_SOURCE"]).parent / "shared")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[1], folder)
        for name, data in (("modern", modern()), ("legacy", legacy()), ("long", long())):
            for protocol in range(2, 6):
                path = pathlib.Path(folder) / f"{name}.{protocol}"
                path.write_bytes(pickle.dumps(data, protocol=protocol))
                runner.check(f"{name}, protocol {protocol}", path, data)
        for path in sorted((shared / "snapshots").glob("*.pickle.gz")):
            runner.check("shared file", path, pickle.loads(gzip.open(path).read()))
        print(f"{runner.passed} passed, {runner.failed} failed, 0 skipped")
        return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
