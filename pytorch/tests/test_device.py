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


def test_results_do_not_change_sides():
    """A tensor of the host without dimensions may be read, not written; nor are tensors of the
    host indexed by tensors of the device."""
    there, host = torch.ones(3, 3, device="acre"), torch.ones(3, 3)
    scalar = torch.tensor(1.0)
    for call in (lambda: torch.sum(there, 0, out=scalar), lambda: scalar.add_(there[0, 0]),
                 lambda: torch.argmax(there, out=torch.tensor(0))):
        with pytest.raises(RuntimeError, match="same device"):
            call()
    assert scalar.shape == () and scalar.item() == 1
    rows, chosen = torch.tensor([0, 2], device="acre"), there > 0
    for call in (lambda: host[rows], lambda: host[chosen],
                 lambda: host.index_put_((rows,), torch.tensor(5.0))):
        with pytest.raises(RuntimeError, match="indices should be either on cpu"):
            call()
    assert host.sum() == 9
    host[host > 0] = there[0, 0] + 1
    assert host.sum() == 18 and there[rows.cpu()].device == there.device


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


def test_a_graph_is_dumped_whole_or_not_at_all(tmp_path):
    graph = graph_of(lambda: torch.empty(8, device="acre").uniform_())
    path = tmp_path / "dump.txt"
    path.write_text("before")
    path.chmod(0o640)
    graph.debug_dump(str(path))
    assert path.read_text().startswith("options ") and path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(RuntimeError, match="No space left|full"):
        graph.debug_dump("/dev/full")
    with pytest.raises(RuntimeError, match="missing"):
        graph.debug_dump(str(tmp_path / "missing" / "dump.txt"))
    planted, target = tmp_path / "open", tmp_path / "target"
    planted.mkdir()
    planted.chmod(0o777)
    target.write_text("mine")
    (planted / "dump.txt").symlink_to(target)
    with pytest.raises(RuntimeError, match="link"):
        graph.debug_dump(str(planted / "dump.txt"))
    assert target.read_text() == "mine"


def graph_of(fill):
    """A graph that was captured on a stream of its own."""
    graph = torch.accelerator.Graph()
    with torch.acre.stream(torch.acre.Stream()), graph:
        fill()
    return graph


@pytest.mark.parametrize("name", ["uniform_", "normal_"])
def test_replays_draw_what_comes_next(name):
    values = torch.zeros(1000, device="acre")
    own = torch.Generator("acre").manual_seed(3)
    fill = getattr(torch.Tensor, name)
    torch.acre.manual_seed(7)
    wanted = [fill(torch.empty(1000, device="acre")).tolist() for _ in range(3)]
    wanted_own = fill(torch.empty(1000, device="acre"), generator=own).tolist()
    other = torch.empty(1000, device="acre")
    torch.acre.manual_seed(7)
    own.manual_seed(3)

    graph = graph_of(lambda: (fill(values), fill(other, generator=own)))
    assert values.eq(0).all()
    for step in range(2):
        graph.replay()
        torch.acre.synchronize()
        assert values.tolist() == wanted[step]
        assert (other.tolist() == wanted_own) == (step == 0)
    assert fill(torch.empty(1000, device="acre")).tolist() == wanted[2]
    graph.replay()
    graph.reset()
    torch.acre.get_rng_state()


def test_a_failed_capture_leaves_the_generator_alone():
    graph = torch.accelerator.Graph()
    with torch.acre.stream(torch.acre.Stream()):
        graph.capture_begin()
        torch.empty(8, device="acre").uniform_()
        with pytest.raises(RuntimeError):
            torch.acre.synchronize()
        with pytest.raises(RuntimeError, match="invalidated"):
            graph.capture_end()
        torch.acre.get_rng_state()
        with pytest.raises(RuntimeError, match="graph"):
            graph.replay()
        graph.reset()
        graph.capture_begin()
        torch.empty(8, device="acre").uniform_()
    del graph
    torch.acre.get_rng_state()
    assert graph_of(lambda: torch.empty(8, device="acre").normal_()).replay() is None


def test_wrong_variables_are_named(run_python):
    use = "import torch, torch_acre; torch.empty(1, device='acre')"
    for name, value, remedy in (("ACRE_TORCH_DEVICE", "nothing", "sim, host or opencl"),
                                ("ACRE_TORCH_STRICT", "maybe", "write 0 or 1"),
                                ("ACRE_SIM", "devices:900", "devices"),
                                ("ACRE_CONF", "no_such_option:1", "no_such_option"),
                                ("ACRE_TORCH_BACKEND", "libm.so.6", "acre_backend_describe")):
        done = run_python(use, check=False, **{name: value})
        assert done.returncode == 1 and remedy in done.stderr, done.stderr


@pytest.mark.parametrize("before", ["", "out.square().sum().backward()"],
                         ids=["graph", "backward"])
@pytest.mark.parametrize("name", ["there", "big", "result"])
def test_strict_finds_host_code(run_python, name, before):
    """The host faults whatever ran before: an LSTM keeps memory of its own in its graph."""
    code = f"""
import ctypes, torch, torch_acre
there = torch.ones(4, device="acre") + 1
assert there.sum().item() == 8
big = torch.randn(3 << 20, device="acre"); assert torch.equal((big + big).cpu(), big.cpu() * 2)
layers = torch.nn.LSTM(6, 5, num_layers=2).to("acre")
out, last = layers(torch.randn(7, 3, 6, device="acre"))
result = out.detach()
{before}
print("ready", flush=True)
ctypes.string_at({name}.data_ptr(), 4)
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


@pytest.mark.parametrize("device", ["sim", "host", "opencl"])
def test_every_device_trains_copies_and_runs_out(run_python, device):
    code = """
import copy, torch, torch_acre
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(2, 8, 3, padding=1)
        self.layers = nn.LSTM(8, 8, batch_first=True)
        self.norm, self.last = nn.LayerNorm(8), nn.Linear(8, 5)
    def forward(self, x):
        x = torch.relu(self.first(x)).transpose(1, 2)
        return self.last(self.norm(self.layers(x)[0]).mean(1))

def train(model, device):
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for _ in range(20):
        x, y = torch.randn(4, 2, 6), torch.randint(5, (4,))
        if device == "acre":
            x, y = (t.pin_memory().to(device, non_blocking=True) for t in (x, y))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        losses.append(loss.item())
    return losses

def job():
    model = Model()
    other = copy.deepcopy(model).to("acre")
    assert train(model, "cpu") == train(other, "acre")
    for one, two in zip(model.parameters(), other.parameters()):
        assert torch.equal(one, two.cpu())

def copies():
    here = torch.arange(60.0).reshape(3, 4, 5)
    there = here.to("acre")
    for index in range(torch.acre.device_count()):
        assert torch.equal(there.to(f"acre:{index}", non_blocking=True).cpu(), here)
    assert torch.equal(there.permute(2, 0, 1).contiguous().cpu(), here.permute(2, 0, 1))
    assert torch.equal(there[1:, ::2].to(torch.int32).cpu(), here[1:, ::2].to(torch.int32))
    back = torch.empty(3, 4, 5).pin_memory()
    back.copy_(there, non_blocking=True); torch.acre.synchronize()
    assert torch.equal(back, here)
    there.resize_(4, 4, 5); assert torch.equal(there[:3].cpu(), here)
    there.fill_(2); assert there.sum().item() == 160
    big = torch.randn(1 << 20); assert torch.equal(big.to("acre").cpu(), big)

job(); copies()
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="acre")
    raise SystemExit("not refused")
except torch.OutOfMemoryError as error:
    assert "Tried to allocate" in str(error), error
held = []
torch.acre.set_per_process_memory_fraction(
    (torch.acre.memory_reserved() + (64 << 20)) / torch.acre.mem_get_info()[1])
try:
    while True:
        held.append(torch.empty(8 << 20, dtype=torch.uint8, device="acre"))
except torch.OutOfMemoryError as error:
    assert "MiB" in str(error)
    assert 4 <= len(held) <= 8, len(held)
torch.acre.set_per_process_memory_fraction(1.0)
held.clear()
job()
import gc; gc.collect(); torch.acre.synchronize(); torch.acre.empty_cache()
assert torch.acre.memory_allocated() == 0 and torch.acre.memory_reserved() == 0
torch.acre.empty_host_cache()
print(torch.acre.get_device_properties().backend)
"""
    done = run_python(code, ACRE_TORCH_DEVICE=device)
    assert done.stdout.strip() == ("torch" if device == "sim" else device)


def test_forked_child_starts_the_engine(run_python):
    """A thread of the engine for each device, in children of a process that had used threads."""
    run_python("""
import os, torch, torch_acre
torch.set_num_threads(4)
torch.get_num_threads()
for _ in range(60):
    if os.fork() == 0:
        x = torch.ones(3, requires_grad=True)
        x.square().sum().backward()
        os._exit(0 if x.grad.tolist() == [2, 2, 2] and torch.get_num_threads() == 4 else 1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
""", ACRE_SIM="devices:8")


def test_another_name(run_python):
    """ACRE_TORCH_NAME: a program written for another backend finds everything under its name."""
    run_python("""
import os, io, torch, torch_acre
assert torch.accelerator.current_accelerator() == torch.device("mine")
there = torch.ones(4).mine()
assert there.is_mine and there.device == torch.device("mine:0") and torch.mine.device_count() == 2
assert torch.get_device_module() is torch.mine and not hasattr(torch, "acre")
with torch.autocast("mine", dtype=torch.bfloat16):
    assert (torch.ones(2, 2).mine() @ torch.ones(2, 2).mine()).dtype == torch.bfloat16
buffer = io.BytesIO(); torch.save(there, buffer); buffer.seek(0)
assert torch.load(buffer, map_location="mine:1").device == torch.device("mine:1")
graph = torch.accelerator.Graph()
assert torch.mine.memory_allocated() > 0 and "mine" in repr(torch.mine.Stream())
torch.manual_seed(1); assert torch.rand(2, device="mine").is_mine
if os.fork() == 0:
    try:
        there + 1
    except RuntimeError as error:
        os._exit(7 if "Cannot re-initialize mine in forked subprocess" in str(error) else 8)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
""", ACRE_TORCH_NAME="mine")


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
