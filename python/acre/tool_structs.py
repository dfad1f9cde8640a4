# SPDX-License-Identifier: MIT
"""The structs of snapshots, replays, explanations, plans, files and DLPack, as structs has the
others: programs that only allocate do without them."""
from ctypes import (POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)

from .structs import POLICIES, data_ptr, plain, sized, struct

snapshot_info = struct(
    "acre_snapshot_info", struct_size=c_uint32, device_count=c_uint32, segment_count=c_uint64,
    block_count=c_uint64, event_count=c_uint64, stack_count=c_uint64, frame_count=c_uint64,
    reserved_bytes=c_uint64, allocated_bytes=c_uint64, has_settings=c_uint32,
    annotation_count=c_uint32)

replay_config = struct(
    "acre_replay_config", struct_size=c_uint32, flags=c_uint32, policy=c_int, repeat=c_uint32,
    conf=c_char_p, device_bytes=c_uint64, streams=c_uint32, device=c_uint32, progress=c_void_p,
    progress_arg=c_void_p)
replay_pass = struct(
    "acre_replay_pass", events=c_uint64, allocs=c_uint64, frees=c_uint64,
    bytes_requested_peak=c_uint64, bytes_allocated_peak=c_uint64, bytes_reserved_peak=c_uint64,
    segments_peak=c_uint64, segments=c_uint64, device_allocs=c_uint64, device_frees=c_uint64,
    maps=c_uint64, unmaps=c_uint64, retries=c_uint64, ooms=c_uint64, first_oom_event=c_int64,
    waste_ppm=c_int64, departures=c_uint64, ns_per_event=c_double)
replay_result = struct(
    "acre_replay_result", struct_size=c_uint32, has_warm=c_uint32, device_bytes=c_uint64,
    min_capacity_bytes=c_uint64, first=replay_pass, warm=replay_pass, start_allocs=c_uint64,
    start_bytes=c_uint64, start_open=c_uint64, start_open_bytes=c_uint64, contradictions=c_uint64,
    device=c_uint32, padding=c_uint32)
verify_result = struct(
    "acre_verify_result", struct_size=c_uint32, is_exact=c_uint32, events=c_uint64,
    compared=c_uint64, agreed=c_uint64, first_difference=c_int64, start_blocks=c_uint64,
    start_open=c_uint64, start_open_bytes=c_uint64, contradictions=c_uint64,
    ties_by_address=c_uint32, device=c_uint32, conf=c_char * 256, text=c_char * 512)

share = struct("acre_share", bytes=c_uint64, count=c_uint64, text=c_char_p)
remedy = struct("acre_remedy", bytes=c_uint64, is_enough=c_uint32, reserved=c_uint32,
                text=c_char_p)
growth = struct("acre_growth", bytes_from=c_uint64, bytes_to=c_uint64, count_from=c_uint64,
                count_to=c_uint64, text=c_char_p)
why_config = struct("acre_why_config", struct_size=c_uint32, device=c_int32, device_bytes=c_uint64)
why = struct(
    "acre_why", struct_size=c_uint32, device=c_uint32, has_oom=c_uint32, has_history=c_uint32,
    verdict=c_int, reserved=c_uint32,
    event=c_uint64, oom_requested_bytes=c_uint64, oom_device_free_bytes=c_uint64,
    allocated_bytes=c_uint64, requested_bytes=c_uint64, reserved_bytes=c_uint64,
    largest_free_bytes=c_uint64, free_split_bytes=c_uint64, waiting_bytes=c_uint64,
    private_pool_bytes=c_uint64, outside_bytes=c_int64, top=POINTER(share), top_count=c_uint64,
    sizes=POINTER(share), size_count=c_uint64, growth=POINTER(growth), growth_count=c_uint64,
    text=c_char_p, device_count=c_uint32, is_expandable=c_uint32, device_reason=c_char_p,
    allocator=c_char_p, oom_stack=c_char_p, free_whole_bytes=c_uint64, private_free_bytes=c_uint64,
    missing_bytes=c_uint64, stackless_bytes=c_uint64, categories=POINTER(share),
    category_count=c_uint64, remedies=POINTER(remedy), remedy_count=c_uint64)
setting = struct(
    "acre_setting", conf=c_char_p, note=c_char_p, policy=c_int, flags=c_uint32,
    bytes_reserved_peak=c_uint64, min_capacity_bytes=c_uint64, fits=c_int32, reserved=c_int32)
advise_config = struct(
    "acre_advise_config", struct_size=c_uint32, device=c_uint32, device_bytes=c_uint64,
    threads=c_uint32, flags=c_uint32, progress=c_void_p, progress_arg=c_void_p, seconds=c_double)
advice = struct(
    "acre_advice", struct_size=c_uint32, device=c_uint32, is_shortage=c_uint32, reserved=c_uint32,
    events=c_uint64,
    bytes_requested_peak=c_uint64, device_bytes=c_uint64, recorded_reserved_peak=c_uint64,
    recorded_ooms=c_uint64, recorded_conf=c_char_p, settings=POINTER(setting),
    setting_count=c_uint64, recommended=c_int64, saves_bytes=c_uint64, why=c_char_p,
    top=POINTER(share), top_count=c_uint64, device_reason=c_char_p, device_count=c_uint32,
    curve_points=c_uint32, allocator=c_char_p, failed_bytes=c_uint64, failed_stack=c_char_p,
    wanted_peak_bytes=c_uint64, remedies=POINTER(remedy), remedy_count=c_uint64,
    curves=POINTER(POINTER(c_uint64)))
change = struct("acre_change", bytes_a=c_uint64, bytes_b=c_uint64, count_a=c_uint64,
                count_b=c_uint64, text=c_char_p)
diff = struct(
    "acre_diff", struct_size=c_uint32, device=c_uint32, allocated_a=c_uint64,
    allocated_b=c_uint64, reserved_a=c_uint64, reserved_b=c_uint64, stacks=POINTER(change),
    stack_count=c_uint64, sizes=POINTER(change), size_count=c_uint64, text=c_char_p,
    device_reason=c_char_p)
view_config = struct(
    "acre_view_config", struct_size=c_uint32, policy=c_int, conf=c_char_p, device_bytes=c_uint64,
    progress=c_void_p, progress_arg=c_void_p, label=c_char_p, device_first=c_uint32,
    reserved=c_uint32)
plan_buffer = struct(
    "acre_plan_buffer", start=c_uint64, end=c_uint64, size=c_uint64, alignment=c_uint64,
    offset=c_uint64, gaps=c_void_p, gap_count=c_uint32, flags=c_uint32)
plan_config = struct(
    "acre_plan_config", struct_size=c_uint32, threads=c_uint32, capacity=c_uint64, seed=c_uint64,
    seconds=c_double, progress=c_void_p, progress_arg=c_void_p, limit=c_double)
plan_result = struct(
    "acre_plan_result", struct_size=c_uint32, is_optimal=c_uint32, lower_bound=c_uint64,
    bound_time=c_uint64, height=c_uint64, seconds=c_double)

file_config = struct(
    "acre_file_config", struct_size=c_uint32, flags=c_uint32, block_bytes=c_uint64, depth=c_uint32,
    engine=c_uint32, mode=c_uint32, reserved=c_uint32)
file_info = struct(
    "acre_file_info", struct_size=c_uint32, fd=c_int32, bytes=c_uint64, offset_alignment=c_uint64,
    memory_alignment=c_uint64, engine=c_uint32, is_direct=c_uint32, is_registered=c_uint32,
    reserved=c_uint32)

dl_device = struct("acre_dl_device", type=c_int32, index=c_int32)
dl_type = struct("acre_dl_type", code=c_uint8, bits=c_uint8, lanes=c_uint16)
dl_tensor = struct(
    "acre_dl_tensor", data=c_void_p, device=dl_device, ndim=c_int32, dtype=dl_type,
    shape=POINTER(c_int64), strides=POINTER(c_int64), byte_offset=c_uint64)
dl_managed = struct("acre_dl_managed", tensor=dl_tensor, manager_ctx=c_void_p, deleter=c_void_p)
dl_versioned = struct(
    "acre_dl_versioned", major=c_uint32, minor=c_uint32, manager_ctx=c_void_p, deleter=c_void_p,
    flags=c_uint64, tensor=dl_tensor)
dl_layout = struct(
    "acre_dl_layout", struct_size=c_uint32, ndim=c_int32, dtype=dl_type, reserved=c_uint32,
    shape=POINTER(c_int64), strides=POINTER(c_int64), byte_offset=c_uint64, bytes=c_uint64,
    flags=c_uint64)

__all__ = [name for name, value in list(globals().items())
           if isinstance(value, type) and issubclass(value, Structure)] + [
               "POLICIES", "plain", "sized", "struct"]
