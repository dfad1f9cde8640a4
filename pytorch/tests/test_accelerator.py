# SPDX-License-Identifier: MIT
"""What a user expects of torch.accelerator, torch.Stream and torch.Event on this device."""
import threading

import pytest
import torch
import torch_acre  # noqa: F401


# ---- Devices ---------------------------------------------------------------------------------


def test_the_accelerator_is_this_device():
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.acre.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("acre")
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("acre")
    assert torch.get_device_module() is torch.acre
    assert torch.get_device_module("acre") is torch.get_device_module(torch.device("acre:1"))


def test_the_current_device():
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(1)
    try:
        assert torch.accelerator.current_device_index() == torch.acre.current_device() == 1
        assert torch.empty(1, device="acre").device == torch.device("acre:1")
    finally:
        torch.accelerator.set_device_index("acre:0")
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(torch.device("acre", 0))
    with pytest.raises(RuntimeError, match="The device index is out of range"):
        torch.accelerator.set_device_index(2)
    with pytest.raises((RuntimeError, ValueError)):
        torch.accelerator.set_device_index("cpu")
    assert torch.accelerator.current_device_index() == 0


def test_the_current_device_belongs_to_the_thread():
    found = []

    def work():
        found.append(torch.accelerator.current_device_index())
        torch.accelerator.set_device_index(1)
        found.append(torch.accelerator.current_device_index())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0, 1] and torch.accelerator.current_device_index() == 0


def test_device_index_context():
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
        with torch.accelerator.device_index(None):
            assert torch.accelerator.current_device_index() == 1
        with torch.accelerator.device_index(0):
            assert torch.accelerator.current_device_index() == 0
        assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0
    with pytest.raises(ZeroDivisionError):
        with torch.accelerator.device_index(1):
            1 / 0
    assert torch.accelerator.current_device_index() == 0


def test_device_as_context():
    with torch.device("acre:1"):
        assert torch.ones(2).device == torch.device("acre:1")
        assert torch.nn.Linear(2, 2).weight.device == torch.device("acre:1")
    torch.set_default_device("acre")
    try:
        assert torch.zeros(2).device == torch.device("acre:0")
    finally:
        torch.set_default_device(None)


def test_device_capability():
    capability = torch.accelerator.get_device_capability()
    served = capability["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64,
            torch.uint16, torch.float8_e4m3fn} <= served
    every = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert len(every) > len(served)
    for dtype in every:
        if dtype in served:
            there = torch.empty(16, dtype=dtype, device="acre")
            assert there.to(torch.float32).to(dtype).dtype == dtype
        else:
            with pytest.raises(RuntimeError):
                torch.empty(16, dtype=dtype, device="acre").to(torch.float32).to(dtype)


# ---- Streams and events ----------------------------------------------------------------------


def test_streams():
    default = torch.accelerator.current_stream()
    assert default.device == torch.device("acre:0") and default.stream_id == 0
    assert torch.accelerator.current_stream(1).device_index == 1
    side = torch.Stream(device="acre")
    assert isinstance(side, torch.Stream) and side != default
    again = torch.Stream(stream_id=side.stream_id, device_index=side.device_index,
                         device_type=side.device_type)
    assert again == side and hash(again) == hash(side)
    assert side.native_handle != default.native_handle or side.native_handle != 0
    assert "acre" in repr(side)
    torch.accelerator.set_stream(side)
    assert torch.accelerator.current_stream() == side
    torch.accelerator.set_stream(default)
    side.synchronize()
    assert side.query() and not side.is_capturing()
    for priority in (0, -1):
        assert torch.Stream(device="acre:1", priority=priority).device_index == 1
    with pytest.raises(RuntimeError):
        torch.Stream(device="acre:7")


def test_stream_as_context():
    side = torch.Stream(device="acre:1")
    before = torch.accelerator.current_stream()
    with side as entered:
        assert entered == side
        assert torch.accelerator.current_stream() == side
        assert torch.accelerator.current_device_index() == 1
        inner = torch.Stream(device="acre:0")
        with inner:
            assert torch.accelerator.current_stream() == inner
        assert torch.accelerator.current_stream() == side
    assert torch.accelerator.current_stream() == before
    assert torch.accelerator.current_device_index() == 0
    assert torch.accelerator.current_stream(1).stream_id == 0


def test_the_current_stream_belongs_to_the_thread():
    found = []
    with torch.Stream(device="acre"):
        thread = threading.Thread(
            target=lambda: found.append(torch.accelerator.current_stream().stream_id))
        thread.start()
        thread.join()
    assert found == [0]


def test_events():
    stream = torch.accelerator.current_stream()
    event = torch.Event("acre")
    assert event.device == torch.device("acre") or event.device == torch.device("acre:0")
    assert event.query()  # nothing was recorded
    event.synchronize()
    event.record()
    event.synchronize()
    assert event.query() and event.event_id != 0
    first = stream.record_event()
    assert isinstance(first, torch.Event)
    other = torch.Stream(device="acre")
    other.wait_event(first)
    other.wait_stream(stream)
    first.wait(other)
    other.synchronize()


def test_event_times():
    one, two = (torch.Event("acre", enable_timing=True) for _ in range(2))
    with pytest.raises((RuntimeError, ValueError)):
        one.elapsed_time(two)
    one.record()
    source = torch.ones(1 << 16).pin_memory()
    source.to("acre", non_blocking=True)
    two.record()
    two.synchronize()
    assert one.elapsed_time(two) >= 0
    plain = torch.Event("acre")
    plain.record()
    plain.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        plain.elapsed_time(two)
    elsewhere = torch.Event("acre:1", enable_timing=True)
    elsewhere.record(torch.accelerator.current_stream(1))
    elsewhere.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        one.elapsed_time(elsewhere)


def test_an_event_stays_on_its_device():
    event = torch.Event("acre:0")
    event.record(torch.accelerator.current_stream(0))
    with pytest.raises((RuntimeError, ValueError), match="device"):
        event.record(torch.accelerator.current_stream(1))


def test_work_of_two_streams_is_ordered_by_events():
    first, second = torch.Stream(device="acre"), torch.Stream(device="acre")
    source = torch.arange(1 << 18, dtype=torch.float32).pin_memory()
    for _ in range(20):
        with first:
            there = source.to("acre", non_blocking=True)
            event = first.record_event()
        with second:
            second.wait_event(event)
            there.record_stream(second)
            result = there * 2
        second.synchronize()
        assert torch.equal(result.cpu(), source * 2)


def test_synchronize_takes_any_device():
    with torch.accelerator.device_index(0):
        there = torch.ones(1 << 16).pin_memory().to("acre:1", non_blocking=True)
        torch.accelerator.synchronize(1)
        assert torch.accelerator.current_stream(1).query()
        assert there.sum().item() == 1 << 16
    torch.accelerator.synchronize()
    torch.accelerator.synchronize("acre:1")
    torch.accelerator.synchronize(torch.device("acre:0"))
    with pytest.raises(RuntimeError):
        torch.accelerator.synchronize(5)


# ---- Memory ----------------------------------------------------------------------------------


def test_memory_statistics():
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.reset_peak_memory_stats()
    before = torch.accelerator.memory_stats()
    assert before["active_bytes.all.freed"] == 0 and before["num_ooms"] == 0
    there = torch.randn(256, device="acre")
    after = torch.accelerator.memory_stats()
    assert after["active_bytes.all.current"] == before["active_bytes.all.current"] + 1024
    assert after["active_bytes.all.allocated"] == before["active_bytes.all.allocated"] + 1024
    assert after["active_bytes.all.freed"] == 0
    del there
    assert torch.accelerator.memory_stats()["active_bytes.all.freed"] == 1024
    assert list(after) == sorted(after)
    assert all(isinstance(value, int) for value in after.values())


def test_memory_amounts():
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    base = torch.accelerator.memory_allocated()
    there = torch.empty(10 << 20, dtype=torch.uint8, device="acre")
    assert torch.accelerator.memory_allocated() == base + (10 << 20)
    assert torch.accelerator.max_memory_allocated() >= base + (10 << 20)
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    assert torch.accelerator.memory_allocated(1) == torch.accelerator.memory_allocated("acre:1")
    del there
    assert torch.accelerator.memory_allocated() == base
    assert torch.accelerator.max_memory_allocated() >= base + (10 << 20)
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == base
    held = torch.accelerator.memory_reserved()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() <= held - (10 << 20)
    assert torch.accelerator.max_memory_reserved() >= held


def test_memory_info():
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total == torch.acre.get_device_properties(0).total_memory
    there = torch.empty(64 << 20, dtype=torch.uint8, device="acre:1")
    assert torch.accelerator.get_memory_info(1)[0] <= total - (64 << 20)
    del there


def test_host_cache():
    pinned = torch.ones(1 << 20).pin_memory()
    del pinned
    assert torch.acre.host_memory_stats()["allocated_bytes.current"] > 0
    torch.accelerator.empty_host_cache()
    assert torch.acre.host_memory_stats()["allocated_bytes.current"] == \
        torch.acre.host_memory_stats()["active_bytes.current"]


def test_graph():
    source, target = torch.ones(64, device="acre"), torch.zeros(64, device="acre")
    graph = torch.accelerator.Graph()
    with torch.Stream(device="acre"):
        with graph:
            target.copy_(source, non_blocking=True)
        source.fill_(3)
        graph.replay()
        torch.accelerator.synchronize()
    assert target.cpu().eq(3).all()
    graph.reset()
