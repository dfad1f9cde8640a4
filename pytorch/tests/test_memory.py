# SPDX-License-Identifier: MIT
"""Allocator, statistics, pools, sleep, snapshots, advice, sharing."""
import pickle

import pytest
import torch
import torch.multiprocessing as multiprocessing


def clean() -> None:
    torch.acre.synchronize()
    torch.acre.empty_cache()


def test_statistics_follow_tensors():
    clean()
    before = torch.acre.memory_allocated()
    there = torch.empty(256, device="acre")
    assert torch.acre.memory_allocated() - before == 1024
    stats = torch.acre.memory_stats()
    assert stats == dict(sorted(stats.items()))
    assert {"allocation.all.current", "segment.small_pool.peak", "num_ooms", "max_split_size",
            "oversize_segments.freed", "requested_bytes.large_pool.allocated"} <= stats.keys()
    assert torch.accelerator.memory_stats()["active_bytes.all.current"] == \
        stats["active_bytes.all.current"]
    del there
    assert torch.acre.memory_allocated() == before
    assert "Allocated memory" in torch.acre.memory_summary()


def test_names_are_those_of_cuda():
    missing = {name for name in torch.cuda.memory.__all__ if not hasattr(torch.acre.memory, name)}
    assert missing == {"CUDAPluggableAllocator", "change_current_allocator"}
    for name in ("_record_memory_history", "_snapshot", "_dump_snapshot",
                 "_set_allocator_settings", "_set_memory_metadata", "_get_memory_metadata"):
        assert callable(getattr(torch.acre.memory, name)), name
    held = torch.empty(1 << 20, device="acre")
    assert torch.acre.device_memory_used() >= 4 << 20
    del held


def test_out_of_memory_carries_the_report_and_loses_nothing():
    clean()
    before = torch.acre.memory_allocated()
    ooms = torch.acre.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 4096.00 GiB"):
        torch.empty(1 << 40, device="acre")
    assert torch.acre.memory_stats()["num_ooms"] == ooms + 1
    assert torch.acre.memory_allocated() == before
    assert torch.ones(3, device="acre").sum().item() == 3


def test_memory_fraction():
    clean()
    torch.acre.set_per_process_memory_fraction(0.01)
    try:
        assert torch.acre.get_per_process_memory_fraction() == pytest.approx(0.01)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 28, device="acre")
    finally:
        torch.acre.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="1.5"):
        torch.acre.set_per_process_memory_fraction(1.5)
    free, total = torch.acre.mem_get_info()
    assert 0 < free <= total == 8 << 30


def test_settings_are_checked():
    torch.acre.memory._set_allocator_settings("garbage_collection_threshold:0.8")
    with pytest.raises(RuntimeError, match="nothing_of_the_kind"):
        torch.acre.memory._set_allocator_settings("nothing_of_the_kind:1")
    torch.acre.memory._set_allocator_settings("")


def test_raw_allocations():
    address = torch.acre.caching_allocator_alloc(1000)
    torch.acre.caching_allocator_delete(address)
    with pytest.raises(RuntimeError):
        torch.acre.caching_allocator_delete(address)
    with pytest.raises(RuntimeError):
        torch.acre.caching_allocator_delete(12345)


def test_pinned_memory():
    there = torch.arange(1000.0).pin_memory()
    assert there.is_pinned()
    assert torch.acre.host_memory_stats()["active_requests.current"] >= 1
    assert torch.equal(there.to("acre", non_blocking=True).cpu(), there)
    torch.accelerator.empty_host_cache()


def test_pool_and_snapshot():
    pool = torch.acre.MemPool()
    with torch.acre.use_mem_pool(pool):
        inside = torch.ones(1 << 20, device="acre")
    outside = torch.ones(1 << 20, device="acre")
    assert pool.stats()["live_count"] == 1
    segments = pool.snapshot()
    assert any(s["address"] <= inside.data_ptr() < s["address"] + s["total_size"]
               for s in segments)
    assert not any(s["address"] <= outside.data_ptr() < s["address"] + s["total_size"]
                   for s in segments)


def test_sleep_and_wake():
    pool = torch.acre.MemPool(tag="weights")
    with torch.acre.use_mem_pool(pool):
        weights = torch.arange(1 << 20, dtype=torch.float32, device="acre")
    address, reserved = weights.data_ptr(), torch.acre.memory_reserved()
    torch.acre.sleep("weights")
    assert torch.acre.memory_reserved() <= reserved - (4 << 20)
    torch.acre.wake("weights")
    assert weights.data_ptr() == address
    assert torch.equal(weights.cpu(), torch.arange(1 << 20, dtype=torch.float32))
    with pytest.raises(RuntimeError, match="no pool has the tag"):
        torch.acre.sleep("nobody")


def record_a_job():
    torch.acre.memory._record_memory_history(stacks="python", clear_history=True)
    held = [torch.empty(1 << 20, device="acre") for _ in range(5)]
    del held[1:3]
    return held


def test_history_has_python_stacks(tmp_path):
    held = record_a_job()
    try:
        snapshot = torch.acre.memory._snapshot()
        allocs = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
        assert len(allocs) >= 5
        names = {frame["name"] for frame in allocs[-1]["frames"]}
        assert "record_a_job" in names
        path = tmp_path / "now.pickle"
        torch.acre.memory._dump_snapshot(str(path))
        with open(path, "rb") as file:
            assert pickle.load(file)["segments"]
        from torch.cuda import _memory_viz
        assert "local_files" in _memory_viz.trace_plot(snapshot)
        assert _memory_viz.segsum(snapshot)
        advice = torch.acre.advise()
        assert advice["events"] > 0 and advice["settings"]
        page = tmp_path / "page.html"
        torch.acre.view(str(page))
        assert "<html" in page.read_text()[:2000].lower()
    finally:
        torch.acre.memory._record_memory_history(None)
    del held
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        torch.acre.advise()
    with pytest.raises(ValueError, match="enabled"):
        torch.acre.memory._record_memory_history("sometimes")
    with pytest.raises(ValueError, match="max_entries is -3"):
        torch.acre.memory._record_memory_history(max_entries=-3)


def _child(queue, back):
    import torch_acre  # noqa: F401
    tensor = queue.get()
    back.put((tensor.device.type, tensor.sum().item()))
    tensor.add_(1)
    torch.acre.synchronize()
    back.put("done")
    queue.get()


def test_tensors_go_through_queues():
    context = multiprocessing.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(queue, back))
    child.start()
    tensor = torch.arange(10.0, device="acre")
    queue.put(tensor)
    assert back.get(timeout=120) == ("acre", 45.0)
    assert back.get(timeout=120) == "done"
    assert tensor.sum().item() == 55.0
    queue.put("end")
    child.join(120)
    assert child.exitcode == 0


def test_share_refuses_what_is_not_ours():
    with pytest.raises(RuntimeError, match="not on a device of Acre"):
        torch.acre.share(torch.ones(3))
