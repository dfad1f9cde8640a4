# SPDX-License-Identifier: MIT
"""What PyTorch gives every backend of its own name: methods, types, generators, saving."""
import copy
import io
import pickle

import pytest
import torch
import torch_acre  # noqa: F401
from torch.nn.utils.rnn import pack_padded_sequence


def test_methods_of_tensors_modules_and_storages():
    there = torch.arange(4.0).acre()
    assert there.is_acre and there.device == torch.device("acre:0")
    assert torch.ones(2).acre(1).device.index == 1
    assert torch.ones(2).pin_memory().acre(non_blocking=True).is_acre
    assert not torch.ones(1).is_acre
    module = torch.nn.Linear(2, 2).acre()
    assert module.weight.is_acre and module.acre(1).weight.device.index == 1
    storage = torch.ones(4).untyped_storage().acre()
    assert storage.device.type == "acre" and storage.is_acre and storage.nbytes() == 16
    assert storage.cpu().tolist() == torch.ones(4).untyped_storage().tolist()
    typed = torch.ones(4).storage().acre()
    assert typed.is_acre and typed.device.type == "acre"
    packed = pack_padded_sequence(torch.ones(3, 2, 1), torch.tensor([3, 2])).acre()
    assert packed.is_acre and packed.data.is_acre


def test_names():
    assert torch._C._get_privateuse1_backend_name() == "acre"
    assert torch.utils.backend_registration._get_custom_mod_func("device_count")() == 2
    assert torch.device("acre:1").index == 1 and torch.device("acre").type == "acre"
    assert str(torch.empty(0, device="acre").device) == "acre:0"
    assert "device='acre:0'" in repr(torch.ones(2, device="acre"))
    with pytest.raises(RuntimeError):
        torch.utils.rename_privateuse1_backend("another")
    torch.utils.rename_privateuse1_backend("acre")
    with pytest.raises(RuntimeError):
        torch._register_device_module("acre", torch.acre)


def test_dispatch_key_and_type():
    there = torch.ones(1, device="acre")
    assert torch._C._dispatch_keys(there).has(torch._C.DispatchKey.PrivateUse1)
    assert there.type().startswith("torch.acre.") or "acre" in there.type()
    assert torch.ones(2).to(there).is_acre
    assert there.new_ones(3).is_acre and torch.ones_like(there).is_acre
    assert there.get_device() == 0 and torch.ones(1, device="acre:1").get_device() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16,
                                   torch.int8, torch.uint8, torch.int16, torch.int32,
                                   torch.int64, torch.bool, torch.complex64])
def test_every_type_goes_there_and_back(dtype):
    here = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    for source in (here, here.t(), here[:, ::2], here[:0], here[0, 0]):
        assert torch.equal(source.to("acre").cpu(), source)
        assert torch.equal(source.to("acre").to("acre:1").cpu(), source)
        assert torch.equal(source.to("acre", torch.float64).cpu(), source.to(torch.float64)) \
            if not dtype.is_complex else True


def test_copies_between_layouts():
    here = torch.arange(24.0).reshape(2, 3, 4)
    there = torch.empty(4, 3, 2, device="acre").permute(2, 1, 0)
    there.copy_(here)
    assert torch.equal(there.cpu(), here)
    there.copy_(torch.arange(4.0))  # a broadcast
    assert torch.equal(there.cpu(), torch.arange(4.0).expand(2, 3, 4))
    conj = torch.tensor([1 + 2j]).conj()
    assert torch.equal(conj.to("acre").cpu(), conj)
    back = torch.empty(2, 3, 4)
    back.copy_(here.to("acre"), non_blocking=True)
    torch.acre.synchronize()
    assert torch.equal(back, here)
    pinned = here.to("acre").to("cpu", non_blocking=True)
    torch.acre.synchronize()
    assert torch.equal(pinned, here)


def test_scalars_and_python_values():
    there = torch.arange(3, device="acre")
    assert there.tolist() == [0, 1, 2] and there[1].item() == 1 and int(there[2]) == 2
    assert bool(there.any()) and [int(x) for x in there] == [0, 1, 2]
    with pytest.raises(TypeError, match="acre"):
        there.numpy()
    assert there.cpu().numpy().tolist() == [0, 1, 2]


def test_data_of_another_device():
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.data = torch.ones(2, device="acre")
    assert parameter.is_acre and parameter.sum().item() == 2


def test_generators():
    generator = torch.Generator(device="acre:1")
    assert generator.device == torch.device("acre:1")
    generator.manual_seed(9)
    assert generator.initial_seed() == 9
    state = generator.get_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    first = torch.rand(4, device="acre:1", generator=generator)
    generator.set_state(state)
    assert torch.equal(first, torch.rand(4, device="acre:1", generator=generator))
    twin = generator.clone_state()
    assert torch.equal(torch.rand(4, device="acre:1", generator=generator),
                       torch.rand(4, device="acre:1", generator=twin))
    assert generator.seed() == generator.initial_seed()
    with pytest.raises(RuntimeError):
        generator.set_state(torch.zeros(3, dtype=torch.uint8))
    assert len(torch.acre.default_generators) == 2
    with pytest.raises(RuntimeError):
        torch.Generator(device="acre:8")


def test_states_of_all_generators():
    torch.acre.manual_seed_all(4)
    assert torch.acre.initial_seed() == 4
    states = torch.acre.get_rng_state_all()
    first = torch.rand(3, device="acre:1")
    torch.acre.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(3, device="acre:1"))
    with torch.random.fork_rng(devices=[0, 1], device_type="acre"):
        torch.manual_seed(77)
        inside = torch.rand(3, device="acre")
    torch.acre.set_rng_state_all(states)
    torch.rand(3, device="acre:1")
    with torch.random.fork_rng(devices=[0, 1], device_type="acre"):
        torch.manual_seed(77)
        assert torch.equal(inside, torch.rand(3, device="acre"))
    torch.acre.seed()
    torch.acre.seed_all()


def test_initialisation_and_dropout_follow_the_seed():
    def make():
        module = torch.nn.Sequential(torch.nn.Linear(20, 20, device="acre"), torch.nn.Dropout(),
                                     torch.nn.LSTM(20, 4, num_layers=2, dropout=0.5,
                                                   device="acre"))
        torch.nn.init.trunc_normal_(module[0].weight)
        torch.nn.init.orthogonal_(module[2].weight_hh_l0)
        out = module(torch.ones(3, 20, device="acre"))[0]
        return [out.detach().cpu()] + [p.detach().cpu() for p in module.parameters()]

    torch.manual_seed(8)
    first = make()
    state = torch.acre.get_rng_state(), torch.get_rng_state()
    second = make()
    torch.manual_seed(8)
    assert all(torch.equal(a, b) for a, b in zip(first, make()))
    torch.acre.set_rng_state(state[0])
    torch.set_rng_state(state[1])
    assert all(torch.equal(a, b) for a, b in zip(second, make()))
    torch.manual_seed(9)
    assert not any(torch.equal(a, b) for a, b in zip(first[1:3], make()[1:3]))


def test_autocast_of_this_device():
    assert torch.amp.is_autocast_available("acre")
    assert {torch.bfloat16, torch.float16} <= set(torch.acre.get_amp_supported_dtype())
    ones = torch.ones(3, 3, device="acre")
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("acre", dtype=dtype):
            assert torch.is_autocast_enabled("acre")
            assert torch.get_autocast_dtype("acre") == dtype
            assert (ones @ ones).dtype == dtype
            assert torch.nn.functional.linear(ones, ones).dtype == dtype
            with torch.autocast("acre", enabled=False):
                assert (ones @ ones).dtype == torch.float32
    assert not torch.is_autocast_enabled("acre")

    class Typed(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="acre", cast_inputs=torch.float32)
        def forward(context, x):
            return x.clone()

        @staticmethod
        @torch.amp.custom_bwd(device_type="acre")
        def backward(context, gradient):
            return gradient
    with torch.autocast("acre", dtype=torch.bfloat16):
        assert Typed.apply(ones.bfloat16()).dtype == torch.float32


def test_gradients_scaled():
    scaler = torch.amp.GradScaler("acre")
    model = torch.nn.Linear(4, 1).to("acre")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.detach().clone()
    loss = model(torch.ones(2, 4, device="acre")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() > 0
    assert not torch.equal(before, model.weight)


def test_saving(tmp_path):
    there = torch.arange(6.0, device="acre:1").reshape(2, 3)
    view = there[1]
    buffer = io.BytesIO()
    torch.save({"a": there, "b": view, "p": torch.nn.Parameter(there)}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["a"].device == torch.device("acre:1")
    assert loaded["b"].untyped_storage().data_ptr() == loaded["a"].untyped_storage().data_ptr()
    assert isinstance(loaded["p"], torch.nn.Parameter)
    assert torch.equal(loaded["a"].cpu(), there.cpu())
    for location in ("cpu", "acre:0", torch.device("acre"), {"acre:1": "acre:0"},
                     lambda storage, place: storage):
        buffer.seek(0)
        wanted = {"cpu": "cpu", "acre:0": "acre"}.get(location, None) \
            if isinstance(location, str) else None
        found = torch.load(buffer, map_location=location)["a"]
        assert torch.equal(found.cpu(), there.cpu())
        assert wanted is None or found.device.type == wanted
    buffer.seek(0)
    with pytest.raises(RuntimeError):
        torch.load(buffer, map_location="acre:9")
    path = tmp_path / "cpu.pt"
    torch.save(torch.ones(3), path)
    assert torch.load(path, map_location="acre").is_acre
    assert torch.load(path, map_location="acre", mmap=True).is_acre
    assert torch.equal(pickle.loads(pickle.dumps(there)).cpu(), there.cpu())
    assert copy.deepcopy(there).data_ptr() != there.data_ptr()


def test_metadata_of_tensors():
    there = torch.ones(2, device="acre")
    assert torch._utils.get_tensor_metadata(there) == {}
    torch._utils.set_tensor_metadata(there, {"version_number": True, "format_number": True})
    buffer = io.BytesIO()
    torch.save(there, buffer)
    buffer.seek(0)
    again = torch._utils.get_tensor_metadata(torch.load(buffer))
    assert again["version_number"] and again["format_number"]


def test_storages():
    storage = torch.UntypedStorage(16, device="acre")
    assert storage.device == torch.device("acre:0") and storage.nbytes() == 16
    storage.resize_(64)
    assert storage.nbytes() == 64
    twin = storage.clone()
    assert twin.data_ptr() != storage.data_ptr() and twin.device == storage.device
    there = torch.tensor([], device="acre").set_(storage)
    there.fill_(2)
    assert there.cpu().tolist() == [2] * 16
    lazy = torch._lazy_clone(there)
    assert lazy.data_ptr() == there.data_ptr() or torch.equal(lazy.cpu(), there.cpu())
    lazy.add_(1)
    assert there.cpu().tolist() == [2] * 16 and lazy.cpu().tolist() == [3] * 16
    assert not storage.is_pinned()


def test_pinned_memory():
    pinned = torch.empty(8, pin_memory=True)
    assert pinned.is_pinned() and pinned.untyped_storage().is_pinned()
    assert torch.ones(3).pin_memory().is_pinned() and not torch.ones(3).is_pinned()
    assert torch.ones(3).pin_memory(device="acre").is_pinned()
    with pytest.raises(RuntimeError):
        torch.empty(3, device="acre", pin_memory=True)
    with pytest.raises(RuntimeError):
        torch.ones(3, device="acre").pin_memory()


def test_dlpack_both_ways():
    there = torch.arange(6, device="acre:1").reshape(2, 3).t()
    capsule = torch.utils.dlpack.to_dlpack(there)
    again = torch.utils.dlpack.from_dlpack(capsule)
    assert again.data_ptr() == there.data_ptr() and again.stride() == there.stride()
    assert again.device == there.device
    again[0, 0] = 9
    assert there[0, 0].item() == 9
    assert torch.acre.from_dlpack(there).data_ptr() == there.data_ptr()
    with pytest.raises(RuntimeError):
        torch.utils.dlpack.from_dlpack(capsule)  # used already


def test_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                            torch.profiler.ProfilerActivity.PrivateUse1],
                                profile_memory=True, record_shapes=True) as profile:
        there = torch.ones(1 << 18, device="acre")
        there = there + 1
        del there
    table = profile.key_averages().table()
    assert "aten::add" in table
    used = [event for event in profile.events() if event.name == "aten::add"]
    assert used and sum(e.device_memory_usage for e in profile.key_averages()) is not None
    names = {event.name for event in profile.events()}
    assert "[memory]" in names or any(e.self_device_memory_usage for e in
                                      profile.key_averages())
    with torch.autograd.profiler.profile(use_device="acre", use_kineto=False) as old:
        torch.ones(8, device="acre") + 1
    assert "aten::add" in old.key_averages().table()


def test_deterministic_and_fill():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.isnan(torch.empty(4, device="acre").cpu()).all()
        assert torch.isnan(torch.empty_strided((2, 2), (1, 2), device="acre").cpu()).all()
        grown = torch.ones(2, device="acre").resize_(5)
        assert grown[:2].cpu().tolist() == [1, 1] and torch.isnan(grown[2:].cpu()).all()
        index = torch.tensor([0, 0, 1], device="acre")
        out = torch.zeros(2, device="acre").index_add_(0, index, torch.ones(3, device="acre"))
        assert out.cpu().tolist() == [2, 1]
    finally:
        torch.use_deterministic_algorithms(False)


def test_sparse_tensors():
    """COO tensors of the device: their parts are of the device, results are the CPU's."""
    here = torch.sparse_coo_tensor([[0, 2, 2], [1, 0, 0]], [1.0, 2.0, 3.0], (3, 3))
    there = here.to("acre")
    assert there.is_sparse and there.device == torch.device("acre:0")
    assert there._indices().is_acre and there._values().is_acre and there._nnz() == 3
    assert torch.equal(there.cpu().to_dense(), here.to_dense())
    assert not there.is_coalesced()
    merged = there.coalesce()
    assert merged.is_coalesced() and merged.values().cpu().tolist() == [1, 5]
    dense = torch.ones(3, 3, device="acre")
    for name, compute in {
            "dense": lambda s, d: s.to_dense(), "add": lambda s, d: d + s,
            "sum": lambda s, d: torch.sparse.sum(s),
            "rows": lambda s, d: torch.sparse.sum(s, 0).to_dense(),
            "mm": lambda s, d: s @ d, "twice": lambda s, d: (s + s).to_dense(),
            "times": lambda s, d: (s * 3).to_dense(), "mask": lambda s, d:
            d.sparse_mask(s.coalesce()).to_dense(), "norm": lambda s, d: s.norm(),
            "turned": lambda s, d: s.t().to_dense(), "sqrt": lambda s, d: s.sqrt().to_dense(),
            "picked": lambda s, d: s.index_select(0, torch.tensor([2], device=d.device)).to_dense(),
    }.items():
        assert torch.equal(compute(there, dense).cpu(), compute(here, torch.ones(3, 3))), name
    twin = there.clone()
    twin.mul_(2)
    twin.add_(there)
    assert torch.equal(twin.to_dense().cpu(), here.to_dense() * 3)
    assert torch.equal(there.to_dense().cpu(), here.to_dense())
    twin.zero_()
    assert twin._nnz() == 0 and twin.to_dense().sum().item() == 0
    made = torch.eye(3, device="acre").to_sparse()
    assert made.is_sparse and made.is_acre and torch.equal(made.to_dense().cpu(), torch.eye(3))
    dense.add_(there)
    assert dense[2, 0].item() == 6
    other = there.to("acre:1")
    assert other.device == other._values().device == torch.device("acre:1")
    assert (other + other).device == other.clone().device == torch.device("acre:1")
    assert torch.equal(other.coalesce().to_dense().cpu(), here.to_dense())
    with pytest.raises(RuntimeError, match="same device"):
        dense + here


def test_operators_that_cannot_be_served_say_their_name():
    with pytest.raises((NotImplementedError, RuntimeError), match="aten::"):
        torch._fused_dropout(torch.ones(3, device="acre"), 0.5)
    with pytest.raises((NotImplementedError, RuntimeError), match="aten::"):
        torch.eye(3).to_sparse().to("acre").exp()
    with pytest.raises((NotImplementedError, RuntimeError), match="aten::|layout"):
        torch.eye(3, device="acre").to_sparse_csr() @ torch.ones(3, device="acre")


def test_operators_of_a_user():
    library = torch.library.Library("acre_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "PrivateUse1")
    assert torch.ops.acre_test.twice(torch.ones(2, device="acre")).cpu().tolist() == [2, 2]

    @torch.library.custom_op("acre_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3
    assert thrice(torch.ones(1, device="acre")).item() == 3


def test_distributed_names_the_backend():
    assert torch.distributed.get_default_backend_for_device("acre") == "acre"
