# SPDX-License-Identifier: MIT
"""Proof 7: how processes begin and end. Each program must end by itself, with status 0, and say
nothing on standard error that PyTorch alone does not say."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent

FORMS = {
    "plain": ([], {}),
    "dev": (["-X", "dev"], {}),
    "malloc": ([], {"PYTHONMALLOC": "debug"}),
}

PROGRAMS = {
    # Everything that holds on to the device is alive when the interpreter ends.
    "live_tensors": """
import torch, torch_acre
torch.acre.memory._record_memory_history(stacks="python")
held = [torch.ones(1000, device=f"acre:{i}") for i in (0, 1)]
side = torch.acre.Stream(); event = torch.Event(enable_timing=True); event.record(side)
pool = torch.acre.MemPool(tag="t")
with torch.acre.use_mem_pool(pool):
    held.append(torch.zeros(1 << 20, device="acre"))
pinned = torch.ones(100).pin_memory(); generator = torch.Generator(device="acre")
with torch.acre.stream(side):
    late = pinned.to("acre", non_blocking=True)
model = torch.nn.LSTM(3, 3).to("acre"); out, _ = model(torch.ones(2, 1, 3, device="acre"))
graph = torch.accelerator.Graph()
print("done")
""",
    # A cycle that the last collection of the interpreter takes apart.
    "cycle": """
import torch, torch_acre
class Node: pass
node = Node(); node.me = node; node.there = torch.ones(1000, device="acre")
del node
print("done")
""",
    "thread_allocates": """
import threading, torch, torch_acre
started = threading.Event()
def work():
    while True:
        torch.empty(1 << 16, device="acre"); started.set()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
print("done")
""",
    "thread_computes": """
import threading, torch, torch_acre
started = threading.Event()
def work():
    model = torch.nn.Linear(8, 8).to("acre")
    while True:
        model(torch.ones(4, 8, device="acre")).sum().backward(); started.set()
threading.Thread(target=work, daemon=True).start()
started.wait()
print("done")
""",
    "import_in_a_forked_child": """
import os, sys
child = os.fork()
if child == 0:
    import torch, torch_acre
    assert torch.ones(3, device="acre").sum().item() == 3
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
""",
    "use_in_a_forked_child": """
import os, sys, torch, torch_acre
assert torch.acre.is_available() and torch.acre.device_count() == 2
child = os.fork()
if child == 0:
    assert torch.ones(3, device="acre").sum().item() == 3
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.ones(3, device="acre").sum().item() == 3
print("done")
""",
    "a_fork_that_is_refused": """
import os, sys, torch, torch_acre
held = torch.ones(3, device="acre")
child = os.fork()
if child == 0:
    for use in (lambda: torch.ones(1, device="acre"), lambda: held + 1,
                lambda: torch.acre.init(), lambda: held.cpu(),
                lambda: torch.ones(1).pin_memory(), lambda: torch.acre.Stream()):
        try:
            use()
        except RuntimeError as error:
            assert "Cannot re-initialize acre in forked subprocess. To use acre with " \\
                   "multiprocessing, you must use the 'spawn' start method" in str(error), error
        else:
            os._exit(9)
    assert torch.acre._is_in_bad_fork() and not torch.acre.is_initialized()
    assert torch.ones(3).sum().item() == 3
    del held
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert held.sum().item() == 3
print("done")
""",
}


def run(code, arguments, variables):
    return subprocess.run([sys.executable, *arguments, "-c", code], text=True, timeout=300,
                          env={**os.environ, **variables}, capture_output=True)


@pytest.fixture(scope="module")
def running(request):
    """All programs that were asked for, two at a time; and PyTorch alone in each form."""
    wanted = [item.callspec.params for item in request.session.items
              if getattr(item, "originalname", "") == "test_a_process_ends_cleanly"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {**{form: pool.submit(run, "import torch", *FORMS[form]) for form in FORMS},
               **{(p["name"], p["form"]): pool.submit(run, PROGRAMS[p["name"]],
                                                      *FORMS[p["form"]]) for p in wanted}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_ends_cleanly(running, name, form):
    done = running[name, form].result()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert done.stderr == running[form].result().stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers(method):
    """DataLoader(pin_memory=True) with workers, while the devices of the parent run."""
    done = subprocess.run([sys.executable, str(HERE / "work_loader.py"), method], text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "read 40\n" and done.stderr == ""
