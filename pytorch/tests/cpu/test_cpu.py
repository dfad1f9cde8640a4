# SPDX-License-Identifier: MIT
"""CPU tensors on a heap of Acre: results, lifetimes, limits, processes."""
import doctest
import gc
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading

import acre
import pytest
import torch

import torch_acre.cpu as cpu

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def enabled():
    cpu.enable()
    yield
    cpu.heap().limit = None
    cpu.stop_history()
    cpu.disable()


def owns(tensor):
    return cpu.heap().owns(tensor.untyped_storage().data_ptr())


def train(steps=3):
    """A few steps of a small network; the bytes of its parameters and losses."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8),
                                torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 900, 10))
    optimizer = torch.optim.Adam(model.parameters())
    out = b""
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.rand(8, 3, 32, 32)).logsumexp(1).sum()
        loss.backward()
        optimizer.step()
        out += loss.detach().numpy().tobytes()
    return out + b"".join(value.detach().numpy().tobytes() for value in model.parameters())


def test_training_is_the_same_bit_for_bit():
    found = train()
    assert owns(torch.rand(5000))
    cpu.disable()
    assert not owns(torch.rand(5000))
    assert train() == found


def test_tensors_are_aligned_and_small_ones_share_slabs():
    tensors = [torch.empty(size) for size in (1, 7, 100, 1000, 1024, 5000, 100000)]
    assert all(tensor.data_ptr() % 64 == 0 and owns(tensor) for tensor in tensors)
    stats = cpu.memory_stats()
    assert stats["small_count"] >= 5
    assert cpu.memory_allocated() <= cpu.memory_reserved()
    assert torch.empty(0).data_ptr() == 0


def test_each_tensor_is_freed_where_it_came_from():
    gc.collect()
    before = cpu.memory_allocated()
    here = torch.ones(1 << 20)
    cpu.disable()
    there = torch.ones(1 << 20)
    here.add_(there)
    here.resize_(2 << 20)
    assert here[0] == 2
    cpu.enable()
    there.resize_(2 << 20)
    assert there[0] == 1
    del here, there
    assert cpu.memory_allocated() == before


def test_a_limit_is_an_error_that_names_the_line():
    cpu.record_history()
    kept = torch.ones(1 << 20)
    cpu.limit(cpu.memory_reserved() + (16 << 20))
    with pytest.raises(torch.OutOfMemoryError, match="test_cpu.py.*test_a_limit_is"):
        torch.empty(1 << 30)
    cpu.limit(None)
    assert kept.sum() == 1 << 20


def test_what_an_epoch_left_behind(tmp_path):
    cpu.record_history()
    cpu.snapshot(str(tmp_path / "before.pickle"))
    left = [torch.ones(300000) for _ in range(3)]
    cpu.snapshot(str(tmp_path / "after.pickle"))
    found = acre.diff(tmp_path / "before.pickle", tmp_path / "after.pickle")
    assert found["stacks"][0]["count_b"] - found["stacks"][0]["count_a"] == 3
    assert "test_what_an_epoch_left_behind" in found["stacks"][0]["text"]
    done = subprocess.run([ROOT / "build/acre", "diff", tmp_path / "before.pickle",
                           tmp_path / "after.pickle"], capture_output=True, text=True)
    assert "test_what_an_epoch_left_behind" in done.stdout
    page = tmp_path / "page.html"
    subprocess.run([ROOT / "build/acre", "view", tmp_path / "after.pickle", "-o", page],
                   check=True, capture_output=True)
    assert page.stat().st_size > 10000
    assert cpu.top(1)[0]["bytes"] >= left[0].nbytes


def test_pytorch_reads_its_snapshots(tmp_path):
    import pickle
    cpu.record_history()
    kept = torch.ones(70000)
    cpu.snapshot(str(tmp_path / "s.pickle"))
    data = pickle.loads((tmp_path / "s.pickle").read_bytes())
    blocks = [block for segment in data["segments"] for block in segment["blocks"]]
    assert any(block["address"] == kept.data_ptr() for block in blocks)
    from torch.cuda import _memory_viz
    assert "<script" in _memory_viz.trace_plot(data)


def test_threads_end():
    def run():
        for _ in range(20):
            torch.rand(100, 100) @ torch.rand(100, 100)
    gc.collect()
    before = cpu.memory_allocated()
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cpu.memory_allocated() == before


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((3000,), float(index)) ** 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers(method):
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2,
                                         multiprocessing_context=method)
    sums = [float(batch[:, 0].sum()) for batch in loader]
    assert sum(sums) == sum(index ** 2 for index in range(64))


def change(tensor):
    tensor += 1


def test_shared_tensors_stay_shared():
    tensor = torch.zeros(10000).share_memory_()
    assert not owns(tensor) and tensor.is_shared()
    process = torch.multiprocessing.get_context("fork").Process(target=change, args=(tensor,))
    process.start()
    process.join()
    assert process.exitcode == 0 and tensor.sum() == 10000


def test_save_and_load(tmp_path):
    values = {"a": torch.rand(1000, 100), "b": torch.arange(10)}
    torch.save(values, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt")
    assert all(torch.equal(values[name], loaded[name]) for name in values)
    assert owns(loaded["a"])


def test_numpy_shares_memory():
    tensor = torch.rand(5000)
    array = tensor.numpy()
    expected = tensor.sum()
    del tensor
    assert torch.from_numpy(array).sum() == expected


def test_the_profiler_sees_memory():
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.ones(1 << 20) + 1
    assert any(event.cpu_memory_usage >= 4 << 20 or event.self_cpu_memory_usage >= 4 << 20
               for event in profile.key_averages())


def test_idle_memory_goes_back():
    tensor = torch.ones(64 << 20)
    high = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
    del tensor
    assert cpu.empty_cache() >= 250 << 20
    now = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
    assert now < high - (240 << 20)


def test_a_child_enables_although_its_parent_was_enabling():
    is_held, may_go = threading.Event(), threading.Event()

    def enable():
        with cpu._lock:
            is_held.set()
            may_go.wait()
    thread = threading.Thread(target=enable)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        cpu.disable()
        cpu.enable()
        os._exit(0 if owns(torch.ones(5000)) else 1)
    may_go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


IN_VAIN = """
import acre, torch, torch_acre.cpu as cpu
enable = cpu._C._cpu_enable
def refuse(_):
    raise RuntimeError("refused")
for _ in range(20):
    cpu._C._cpu_enable = refuse
    try:
        cpu.enable()
    except RuntimeError as error:
        assert str(error) == "refused", error
    cpu._C._cpu_enable = enable
    assert not cpu.is_enabled() and cpu._state["heap"] is None
cpu.enable()
kept = torch.ones(5000)
print("enabled", cpu.heap().owns(kept.data_ptr()))
"""


def test_enabling_in_vain_leaves_nothing():
    done = launch(sys.executable, "-c", IN_VAIN)
    assert done.stdout == "enabled True\n", done.stderr


LIMITED = """
import resource, torch, torch_acre.cpu as cpu
cpu.enable()
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
kept = []
try:
    while True:
        kept.append(torch.ones(10 << 20))
except torch.OutOfMemoryError as error:
    assert "live blocks" in str(error), error
    count = len(kept)
    kept.clear()
    torch.ones(20 << 20)
    print("survived", 2 < count < 11)
"""


def launch(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def test_a_limit_of_addresses_is_survived():
    done = launch(sys.executable, "-c", LIMITED)
    assert done.stdout == "survived True\n", done.stderr


PROGRAM = ("import torch; x = torch.ones(5000); import torch_acre.cpu as c;"
           "print(c.is_enabled(), c.heap().owns(x.data_ptr()), c.heap().limit)")


def test_the_environment_enables():
    done = launch(sys.executable, "-c", "import torch_acre;" + PROGRAM, ACRE_TORCH_CPU="1")
    assert done.stdout == "True True None\n", done.stderr
    done = launch(sys.executable, "-c", "import torch_acre", ACRE_TORCH_CPU="yes")
    assert done.returncode != 0 and "limit:BYTES" in done.stderr


def test_exec_enables_in_an_unchanged_program():
    done = launch(ROOT / "build/acre", "exec", "--torch-cpu", "--limit", "1GiB", "--",
                  sys.executable, "-c", PROGRAM)
    assert done.stdout == "True True 1073741824\n", done.stderr


def group_make():
    """A control group with a limit of 1 GiB for this process's children, or why not."""
    base = pathlib.Path("/sys/fs/cgroup")
    if not (base / "cgroup.controllers").exists():
        return None, "there is no control group of version 2"
    folder = base / f"acre-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.max").write_text(str(1 << 30))
    except OSError as reason:
        if folder.exists():
            folder.rmdir()
        return None, f"no control group can be made: {reason}"
    return folder, ""


GROUPED = """
import os, sys, torch, torch_acre.cpu as cpu
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
cpu.enable(limit_bytes=400 << 20)
kept = []
try:
    while True:
        kept.append(torch.ones(10 << 20))
except torch.OutOfMemoryError:
    print("survived", len(kept) > 5)
"""


def test_a_limit_below_the_control_group_spares_the_process():
    folder, reason = group_make()
    if folder is None:
        pytest.skip(reason)
    try:
        done = launch(sys.executable, "-c", GROUPED, str(folder))
        assert done.stdout == "survived True\n", done.stderr
    finally:
        folder.rmdir()


BESIDE_A_DEVICE = """
import sys, torch, torch_acre.cpu as cpu
first, then = {"cpu": (cpu.enable, torch.acre.init), "device": (torch.acre.init, cpu.enable)}[
    sys.argv[1]]
first()
then()

def taken():
    device = torch.acre.memory_stats()["allocated_bytes.all.allocated"]
    return device, cpu.heap().stats()["cache"]["allocated_bytes"]["all"]["allocated"]

values = torch.ones(1 << 20, device="acre")
for state in ("enabled", "disabled"):
    before = taken()
    sums = values + values
    after = taken()
    host = torch.ones(1 << 20)
    assert after[0] - before[0] == sums.nbytes, state
    assert after[1] - before[1] < 65536, (state, after[1] - before[1])
    assert cpu.heap().owns(host.data_ptr()) == (state == "enabled")
    cpu.disable()
cpu.enable(limit_bytes=32 << 20)
assert values.repeat(16).sum().item() == 16 << 20
print("fine")
"""


@pytest.mark.parametrize("first", ["cpu", "device"])
def test_results_of_a_device_take_no_host_memory(first):
    done = launch(sys.executable, "-c", BESIDE_A_DEVICE, first)
    assert done.stdout == "fine\n", done.stderr


def test_examples_of_the_documentation():
    found = doctest.testmod(cpu)
    assert found.attempted > 3 and found.failed == 0


def test_faults_of_a_steady_loop():
    """After the first steps a chain of large temporaries touches no new page."""
    values = torch.rand(4 << 20)
    for _ in range(3):
        torch.sqrt(torch.relu(values * 2 + 1) * values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.sqrt(torch.relu(values * 2 + 1) * values)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000
