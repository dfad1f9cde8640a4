# SPDX-License-Identifier: MIT
"""Devices, streams, events, operators, views, random numbers, saving, compiling."""
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.utils.checkpoint


def test_devices_and_wrong_indices():
    with torch.acre.device(1):
        assert torch.acre.current_device() == 1
        assert torch.empty(1, device="acre").device.index == 1
    assert torch.acre.current_device() == 0
    with pytest.raises(RuntimeError, match="out of range"):
        torch.empty(1, device="acre:9")
    with pytest.raises(RuntimeError, match="out of range"):
        torch.accelerator.set_device_index(9)
    with pytest.raises(ValueError, match="cpu"):
        torch.acre.set_device("cpu")
    assert torch.acre.get_device_properties(0).total_memory == 8 << 30


def test_streams_and_events():
    side = torch.acre.Stream()
    assert torch.acre.current_stream().stream_id == 0
    with torch.acre.stream(side):
        assert torch.acre.current_stream() == side
    first, second = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
    first.record(side)
    second.record(side)
    second.synchronize()
    assert first.query() and first.elapsed_time(second) >= 0
    side.wait_event(second)
    side.synchronize()
    assert torch.acre.Stream(priority=-1).device.type == "acre"


def test_views_are_views():
    base = torch.arange(24.0, device="acre")
    views = [base.view(4, 6), base.as_strided((3,), (2,)), base.unfold(0, 4, 2),
             torch.view_as_complex(base.view(12, 2)), base[3:9], base.view(2, 12).t(),
             base.view(torch.int32), base.reshape(6, 4), base.expand(2, 24),
             base.view(4, 6).diagonal()]
    for view in views:
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    complex_base = torch.ones(3, dtype=torch.complex64, device="acre")
    torch.view_as_real(complex_base).fill_(2)
    assert complex_base.cpu().tolist() == [2 + 2j] * 3


def test_resize_and_set():
    base = torch.arange(4.0, device="acre")
    base.resize_(2000)
    assert base[:4].cpu().tolist() == [0, 1, 2, 3]
    other = torch.empty(0, device="acre")
    other.set_(base.untyped_storage(), 2, (2,))
    assert other.cpu().tolist() == [2, 3]
    storage = base.untyped_storage()
    storage.resize_(0)
    storage.resize_(64)
    assert storage.nbytes() == 64
    out = torch.empty(0, device="acre")
    torch.add(torch.ones(5, device="acre"), 1, out=out)
    assert out.cpu().tolist() == [2] * 5


def test_mixed_devices_are_refused():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="acre") + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="acre") + torch.ones(3, device="acre:1")
    assert (torch.ones(3, device="acre") + torch.tensor(2.0)).sum().item() == 9


def test_random_numbers_follow_the_seed():
    def draw():
        return [torch.rand(5, device="acre"), torch.randn(5, device="acre"),
                torch.randint(0, 100, (5,), device="acre"), torch.randperm(9, device="acre"),
                torch.nn.functional.dropout(torch.ones(50, device="acre")),
                torch.empty(5, device="acre").exponential_(),
                torch.bernoulli(torch.full((20,), 0.5, device="acre"))]

    torch.manual_seed(1)
    first = draw()
    state = torch.acre.get_rng_state()
    second = draw()
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(first, draw()))
    torch.acre.set_rng_state(state)
    assert all(torch.equal(a, b) for a, b in zip(second, draw()))
    torch.manual_seed(2)
    assert not all(torch.equal(a, b) for a, b in zip(first, draw()))
    generator = torch.Generator(device="acre:1").manual_seed(3)
    assert torch.rand(2, device="acre:1", generator=generator).device.index == 1
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(2, device="acre:0", generator=generator)


def test_autocast():
    ones = torch.ones(2, 2, device="acre")
    with torch.autocast("acre", dtype=torch.bfloat16):
        assert torch.mm(ones, ones).dtype == torch.bfloat16
        assert torch.asin(ones.bfloat16()).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(ones, ones)


def test_save_and_load(tmp_path):
    model = torch.nn.Linear(3, 3).to("acre:1")
    path = tmp_path / "model.pt"
    torch.save(model.state_dict(), path)
    assert torch.load(path)["bias"].device == torch.device("acre", 1)
    assert torch.load(path, map_location="cpu")["bias"].device.type == "cpu"
    there = torch.load(path, map_location="acre:0")["weight"]
    assert there.device.index == 0 and torch.equal(there.cpu(), model.weight.cpu())


def test_dlpack():
    there = torch.arange(5, device="acre")
    again = torch.acre.from_dlpack(torch.acre.to_dlpack(there))
    assert again.data_ptr() == there.data_ptr() and again.device == there.device


def test_compile_and_checkpoint():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    inputs = torch.randn(3, 4)
    wanted = model(inputs)
    model.to("acre")
    compiled = torch.compile(model, backend="aot_eager")
    assert torch.equal(compiled(inputs.to("acre")).cpu(), wanted)
    saved = torch.utils.checkpoint.checkpoint(model, inputs.to("acre"), use_reentrant=False)
    saved.sum().backward()
    assert model[0].weight.grad.device.type == "acre"


def test_dynamo_knows_the_device():
    from torch._dynamo.device_interface import get_interface_for_device

    from torch_acre import dynamo
    dynamo.install()
    interface = get_interface_for_device("acre")
    assert interface.is_available() and interface.device_count() == 2
    assert interface.current_device() == 0 and not interface.is_triton_capable()


def test_training_equals_cpu():
    def train(device, kind):
        torch.manual_seed(5)
        layers = [torch.nn.Linear(12, 16), torch.nn.LayerNorm(16), torch.nn.GELU(),
                  torch.nn.Linear(16, 4)]
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = kind(model.parameters(), lr=1e-2)
        losses = []
        for step in range(20):
            inputs = torch.randn(8, 12, generator=torch.Generator().manual_seed(step))
            with torch.autocast(device, dtype=torch.bfloat16, enabled=step % 2 == 1):
                loss = model(inputs.to(device)).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        assert train("acre", kind) == train("cpu", kind)


def test_lstm_equals_cpu():
    model = torch.nn.LSTM(6, 5, num_layers=2, batch_first=True)
    inputs = torch.randn(3, 7, 6)
    wanted, _ = model(inputs)
    wanted.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.to("acre")
    got, _ = model(inputs.to("acre"))
    got.square().sum().backward()
    assert torch.equal(got.cpu(), wanted)
    assert all(torch.equal(p.grad.cpu(), g) for p, g in zip(model.parameters(), gradients))


def test_graph_replays_copies():
    source, target = torch.ones(8, device="acre"), torch.zeros(8, device="acre")
    torch.acre.synchronize()
    graph = torch.accelerator.Graph()
    with torch.acre.stream(torch.acre.Stream()):
        graph.capture_begin()
        target.copy_(source, non_blocking=True)
        with pytest.raises(RuntimeError, match="aten::add"):
            target.add_(1)
        graph.capture_end()
        source.fill_(5)
        graph.replay()
        torch.acre.synchronize()
    assert target.cpu().tolist() == [5] * 8


def test_wrong_variables_are_named(run_python):
    use = "import torch, torch_acre; torch.empty(1, device='acre')"
    for name, value, remedy in (("ACRE_TORCH_DEVICE", "nothing", "sim, host or opencl"),
                                ("ACRE_TORCH_STRICT", "maybe", "write 0 or 1"),
                                ("ACRE_SIM", "devices:900", "devices"),
                                ("ACRE_CONF", "no_such_option:1", "no_such_option"),
                                ("ACRE_TORCH_BACKEND", "libm.so.6", "acre_backend_describe")):
        done = run_python(use, check=False, **{name: value})
        assert done.returncode == 1 and remedy in done.stderr, done.stderr


def test_strict_finds_host_code(run_python):
    code = """
import ctypes, torch, torch_acre
there = torch.ones(4, device="acre") + 1
assert there.sum().item() == 8
big = torch.randn(3 << 20, device="acre"); assert torch.equal((big + big).cpu(), big.cpu() * 2)
print("ready", flush=True)
ctypes.string_at(there.data_ptr(), 4)
"""
    done = run_python(code, check=False, ACRE_TORCH_STRICT=1)
    assert "ready" in done.stdout and done.returncode == -11, done.stderr


def test_strict_trains(run_python):
    run_python("""
import torch, torch_acre
model = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))
cell = torch.nn.LSTM(3, 3).to("acre")
model.to("acre")
optimizer = torch.optim.AdamW([*model.parameters(), *cell.parameters()])
for _ in range(2):
    out, _ = cell(model(torch.randn(5, 2, 4, device="acre"))[None])
    out.square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert torch.isfinite(out.cpu()).all()
""", ACRE_TORCH_STRICT=1)


@pytest.mark.parametrize("device", ["host", "opencl"])
def test_other_devices(run_python, device):
    code = """
import torch, torch_acre
model = torch.nn.Linear(4, 4)
wanted = model(torch.ones(2, 4)); model.to("acre")
got = model(torch.ones(2, 4, device="acre")); got.sum().backward()
assert torch.equal(got.cpu(), wanted)
x = torch.randn(100, device="acre"); assert torch.equal(x.to("cpu").to("acre"), x)
print(torch.acre.get_device_properties().backend)
"""
    done = run_python(code, ACRE_TORCH_DEVICE=device)
    assert done.stdout.strip() == device


def test_exit_with_live_tensors_and_threads(run_python):
    code = """
import threading, torch, torch_acre
held = torch.ones(1000, device="acre")
def work():
    while True:
        torch.empty(1 << 16, device="acre")
threading.Thread(target=work, daemon=True).start()
side = torch.acre.Stream()
print("bye")
"""
    for args in ([], ["-X", "dev"]):
        done = run_python(code, args=args, PYTHONMALLOC="debug")
        assert done.stdout.strip() == "bye"


def test_fork_is_refused_with_a_sentence(run_python):
    code = """
import os, torch, torch_acre
torch.ones(1, device="acre")
if os.fork() == 0:
    try:
        torch.ones(1, device="acre")
    except RuntimeError as error:
        assert "Cannot re-initialize acre in forked subprocess" in str(error)
        assert torch.acre._is_in_bad_fork()
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    run_python(code)


def test_fork_before_the_first_use_is_fine(run_python):
    run_python("""
import os, torch, torch_acre
assert torch.acre.device_count() == 2 and torch.acre.is_available()
if os.fork() == 0:
    assert torch.ones(2, device="acre").sum().item() == 2
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
""")


def test_a_backend_of_ones_own(run_python):
    library = pathlib.Path(__file__).resolve().parents[2] / "build/examples/libbackend.so"
    code = """
import torch, torch_acre
model = torch.nn.Linear(4, 4)
wanted = model(torch.ones(2, 4)); model.to("acre")
assert torch.equal(model(torch.ones(2, 4, device="acre")).cpu(), wanted)
base = torch.arange(3.0, device="acre"); base.resize_(1000)
assert base[:3].cpu().tolist() == [0, 1, 2]
try:
    torch.empty(1 << 28, device="acre")
except torch.OutOfMemoryError:
    print(torch.acre.get_device_name(), torch.acre.device_count())
"""
    done = run_python(code, ACRE_TORCH_BACKEND=library)
    assert done.stdout.strip() == "toy device 1"


def test_another_pytorch_is_refused(run_python):
    done = run_python("import torch; torch.__version__ = '2.12.1'; import torch_acre",
                      check=False)
    assert done.returncode == 1 and "2.13.0" in done.stderr and "2.12.1" in done.stderr


def test_import_is_quiet_and_starts_nothing(run_python):
    done = run_python("import torch, torch_acre; assert not torch.acre.is_initialized()")
    assert done.stdout == "" and done.stderr == ""


def test_profiler_sees_memory():
    with torch.profiler.profile(profile_memory=True) as profile:
        held = torch.empty(1 << 20, device="acre")
    names = {event.name for event in profile.events()}
    assert "aten::empty" in names or "[memory]" in names
    del held


def test_seeding_starts_no_device():
    """torch.manual_seed is called by programs that fork later; the seed counts all the same."""
    code = ("import torch, torch_acre\n"
            "torch.manual_seed(5)\n"
            "assert not torch_acre._C._is_started()\n"
            "first = torch.rand(8, device='acre').cpu()\n"
            "torch.manual_seed(5)\n"
            "assert torch.equal(first, torch.rand(8, device='acre').cpu())\n")
    subprocess.run([sys.executable, "-c", code], check=True)
