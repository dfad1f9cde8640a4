#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads what `acre devices --json` prints, and tells what it found, if it has the right form."""
import json
import sys

KEYS = {"type": str, "index": int, "name": str, "total_bytes": int, "free_bytes": int,
        "alloc_granularity": int, "page_bytes": int, "capabilities": list}
data = json.load(sys.stdin)
assert set(data) == {"backends"}
for backend in data["backends"]:
    assert set(backend) == {"name", "available", "why", "devices"}, backend
    assert backend["available"] == (backend["why"] is None) == bool(backend["devices"]), backend
    for device in backend["devices"]:
        assert {key: type(value) for key, value in device.items()} == KEYS, device
        assert device["free_bytes"] <= device["total_bytes"], device
    print(backend["name"], len(backend["devices"]))
