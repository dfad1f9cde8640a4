# SPDX-License-Identifier: MIT
"""The structs of the public headers that every program needs; tool_structs has the others.
tests/python compares each with what a C compiler says. Names and fields are those of the
headers."""
from ctypes import (POINTER, Structure, sizeof, c_bool, c_char, c_char_p, c_double, c_int, c_int32,
                    c_int64, c_uint32, c_uint64, c_void_p)

from .number import limits, number

POLICIES = {None: 0, "torch": 1, "acre": 2}
STAT_ARRAYS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes",
               "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
STATS = ("oversize_allocations", "oversize_segments")
COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
            "num_device_free", "num_oom_rejections", "max_split_size")


def struct(name, /, **fields):
    """A struct by its name in C and its fields in order."""
    return type(name, (Structure,), {"_fields_": list(fields.items())})


def sized(kind, /, **values):
    """A struct of a kind, its struct_size set and the rest as given or zero. Numbers that do
    not fit their fields are an Error."""
    fields = dict(kind._fields_)
    for name, value in values.items():
        if limits(fields[name]):
            values[name] = number(value, fields[name], name).value
    return kind(struct_size=sizeof(kind), **values)


def plain(value):
    """A struct as a dictionary, pointers and sizes of structs left out."""
    if not isinstance(value, Structure):
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return {name: plain(getattr(value, name)) for name, kind in value._fields_
            if name not in ("struct_size", "reserved") and not hasattr(kind, "contents")
            and kind is not c_void_p}


device_info = struct(
    "acre_device_info", struct_size=c_uint32, name=c_char * 64, total_bytes=c_uint64,
    alloc_granularity=c_uint64, page_bytes=c_uint64, capabilities=c_uint32, priority_least=c_int32,
    priority_greatest=c_int32, compute_units=c_int32)
device_id = struct("acre_device_id", type=c_int, index=c_int)
data_ptr = struct("acre_data_ptr", data=c_void_p, context=c_void_p, deleter=c_void_p,
                  device=device_id)

stat = struct("acre_stat", current=c_int64, peak=c_int64, allocated=c_int64, freed=c_int64)
stat_array = struct("acre_stat_array", all=stat, small_pool=stat, large_pool=stat)
cache_stats = struct(
    "acre_cache_stats", struct_size=c_uint32, reserved=c_uint32,
    **{name: stat_array for name in STAT_ARRAYS}, **{name: stat for name in STATS},
    **{name: c_int64 for name in COUNTERS})
cache_config = struct(
    "acre_cache_config", struct_size=c_uint32, flags=c_uint32, policy=c_int, reserved=c_uint32,
    conf=c_char_p, limit_bytes=c_uint64, max_split_bytes=c_uint64, large_segment_bytes=c_uint64,
    max_non_split_rounding_bytes=c_uint64, memory_fraction=c_double,
    gc_threshold=c_double)
block_info = struct("acre_block_info", base=c_void_p, bytes=c_uint64, requested_bytes=c_uint64,
                    state=c_int, stack=c_uint32)
segment_info = struct(
    "acre_segment_info", base=c_void_p, bytes=c_uint64, stream=c_void_p, order=c_uint64,
    pool=c_uint64 * 2, first_block=c_uint64, block_count=c_uint64, is_small=c_uint32,
    is_expandable=c_uint32, stack=c_uint32, reserved=c_uint32)
cache_layout = struct("acre_cache_layout", segments=POINTER(segment_info), segment_count=c_uint64,
                      blocks=POINTER(block_info), block_count=c_uint64)

history_config = struct("acre_history_config", struct_size=c_uint32, level=c_int,
                        max_entries=c_uint64, source=c_void_p, skip_actions=c_char_p, clear=c_bool,
                        objects=c_void_p)
history_entry = struct(
    "acre_history_entry", action=c_int, stack=c_uint32, address=c_uint64, bytes=c_uint64,
    stream=c_void_p, pool=c_uint64 * 2, time_us=c_uint64, compile_context=c_char_p,
    user_metadata=c_char_p)
frame = struct("acre_frame", name=c_char * 256, file=c_char * 256, line=c_int32)
stack = struct("acre_stack", frames=POINTER(c_uint64), frame_count=c_uint64)
context_source = struct("acre_context_source", gather=c_void_p, resolve=c_void_p, arg=c_void_p)
context_objects = struct("acre_context_objects", take=c_void_p, retain=c_void_p, release=c_void_p,
                         resolve=c_void_p, arg=c_void_p)
history = struct(
    "acre_history", struct_size=c_uint32, reserved=c_uint32, entries=POINTER(history_entry),
    entry_count=c_uint64, stacks=POINTER(stack), stack_count=c_uint64,
    annotations=c_void_p, annotation_count=c_uint64, source=context_source,
    objects=POINTER(c_void_p), object_source=context_objects)

hostmem_config = struct(
    "acre_hostmem_config", struct_size=c_uint32, flags=c_uint32, limit_bytes=c_uint64,
    idle_ms=c_uint32, keep_percent=c_uint32)
hostmem_stats = struct(
    "acre_hostmem_stats", struct_size=c_uint32, reserved=c_uint32, small_count=c_int64,
    small_bytes=c_int64, small_allocated=c_int64, slab_bytes=c_int64, trimmed_bytes=c_int64,
    trim_count=c_int64, remap_count=c_int64, reserved2=c_int64, cache=cache_stats)

__all__ = [name for name, value in list(globals().items())
           if isinstance(value, type) and issubclass(value, Structure)] + ["plain", "sized"]
