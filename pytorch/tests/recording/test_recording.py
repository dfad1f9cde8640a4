# SPDX-License-Identifier: MIT
"""History with Python stacks: PyTorch's viewer and every command of Acre read it."""
import base64
import os
import pathlib
import pickle
import re
import subprocess
import sys
import zlib

import pytest

ACRE = pathlib.Path(__file__).resolve().parents[3] / "build/acre"

JOB = """
import sys, torch, torch_acre

def train_a_little(steps):
    model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.LSTM(64, 64)).to("acre")
    head = torch.nn.Linear(64, 512).to("acre")
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    side = torch.acre.Stream()
    for step in range(steps):
        with torch.acre.stream(side):
            words = torch.randint(100, (20, 8 + step)).pin_memory().to("acre", non_blocking=True)
        torch.acre.current_stream().wait_stream(side)
        words.record_stream(torch.acre.current_stream())
        head(model(words)[0]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            torch.acre.empty_cache()
    return model, head, optimizer

torch.acre.memory._record_memory_history(stacks="python")
held = train_a_little(8)
torch.acre.memory._dump_snapshot(sys.argv[1])
"""


@pytest.fixture(scope="module", params=["policy:torch", "policy:acre",
                                        "policy:torch,expandable_segments:True"])
def recorded(request, tmp_path_factory):
    """A snapshot of a job under a policy: (policy, path)."""
    path = tmp_path_factory.mktemp("recording") / "job.pickle"
    subprocess.run([sys.executable, "-c", JOB, str(path)], check=True, timeout=300,
                   env={**os.environ, "ACRE_CONF": request.param})
    return request.param, path


def acre(*arguments):
    done = subprocess.run([str(ACRE), *map(str, arguments)], text=True, capture_output=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_entries_carry_python_stacks(recorded):
    with open(recorded[1], "rb") as file:
        snapshot = pickle.load(file)
    allocations = [entry for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    assert len(allocations) > 100
    named = [entry for entry in allocations
             if any(frame["name"] == "train_a_little" for frame in entry["frames"])]
    assert len(named) == len(allocations) - sum(not entry["frames"] for entry in allocations)
    assert len(named) > len(allocations) / 3
    assert {frame["filename"] for entry in named for frame in entry["frames"]} >= {"<string>"}


def test_replay_finds_it_exact(recorded):
    policy, path = recorded
    if policy == "policy:acre":  # places by its own rules: what is replayed are the requests
        assert "events" in acre("replay", path)
        return
    assert re.search(r"(\d+) compared, \1 agree: exact", acre("replay", "--verify", path))


def test_pytorch_opens_it(recorded):
    from torch.cuda import _memory_viz
    with open(recorded[1], "rb") as file:
        snapshot = pickle.load(file)
    told = _memory_viz.trace(snapshot)
    assert f"{len(snapshot['device_traces'][0])} entries" in told and "free completed" in told
    assert "train_a_little" in _memory_viz.memory(snapshot, lambda lines: lines)
    assert _memory_viz.segsum(snapshot)
    assert "local_files" in _memory_viz.trace_plot(snapshot)
    assert "local_files" in _memory_viz.segment_plot(snapshot)
    assert _memory_viz.segments(snapshot, lambda lines: lines)


def test_pytorch_opens_what_acre_converts(tmp_path):
    from torch.cuda import _memory_viz
    trace, path = tmp_path / "job.trace", tmp_path / "job.pickle"
    trace.write_text("a 1 1000 0\na 2 3000000 0\nf 1\na 3 5000000 0\na 4 700 1\n")
    acre("convert", trace, path)
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    rows = [line.rsplit(" ", 1) for line in
            _memory_viz.segments(snapshot, lambda lines: lines).splitlines()]
    live = [int(size) for name, size in rows if "active_allocated;<non-python>" in name]
    assert sorted(live) == [700, 3000000, 5000000]
    told = _memory_viz.trace(snapshot)
    assert told.count("cudaMalloc") == 3 and "free completed" in told
    assert "local_files" in _memory_viz.trace_plot(snapshot)
    assert _memory_viz.segsum(snapshot).count("segments: 3") == 1


def page_text(path):
    """All that a page holds, its pieces of data unpacked."""
    page = path.read_text()
    pieces = re.findall(r'<script[^>]*data-form="(\w+)"[^>]*>([^<]*)</script>', page)
    assert pieces
    return page + "".join(
        (zlib.decompress(data) if form == "deflate" else data).decode(errors="replace")
        for form, data in ((form, base64.b64decode(text)) for form, text in pieces))


def test_commands_read_it(recorded, tmp_path):
    _, path = recorded
    assert "train_a_little" in acre("why", path)
    assert "policy" in acre("advise", path)
    page = tmp_path / "page.html"
    acre("view", path, "-o", page)
    assert "train_a_little" in page_text(page)


def test_calls_in_the_job_itself(tmp_path):
    import torch

    def allocate_with_a_name():
        return torch.empty(1 << 20, device="acre")

    torch.acre.memory._record_memory_history(stacks="all", clear_history=True)
    try:
        held = [allocate_with_a_name() for _ in range(5)]
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 40, device="acre")
        failed = [entry for entry in torch.acre.memory._snapshot()["device_traces"][0]
                  if entry["action"] == "oom"]
        assert any(frame["name"] == "test_calls_in_the_job_itself"
                   for frame in failed[-1]["frames"])
        page = tmp_path / "page.html"
        torch.acre.view(str(page))
        assert "allocate_with_a_name" in page_text(page)
        advice = torch.acre.advise()
        assert advice["events"] >= 5 and advice["settings"][0]["reserved_peak"] > 0
        held.clear()
    finally:
        torch.acre.memory._record_memory_history(None)
