# SPDX-License-Identifier: MIT
"""The answer: figures, a verdict in one sentence, and what it rests on."""
import os
import resource

from .card import replay_cards
from .distributed import nccl_bytes
from .peak import Peak
from .spread import least, spread
from .trace import Trace

EXACT, RANGE, NAMED = ("exact rules only", "with convolutions (range)",
                       "with operators without a rule")
EXPANDABLE = "expandable_segments:True"


def size_text(size):
    """Bytes for people.

        >>> size_text(3 << 30)
        '3.00 GiB'
    """
    if abs(size) >= 1 << 30:
        return f"{size / 2**30:.2f} GiB"
    return f"{size / 2**20:.1f} MiB"


def draw(session, outcome=None):
    """The answer of a session, as a dictionary that --json prints."""
    ground = session.ground
    device = max(range(ground.device_count), key=lambda index: ground.peaks(index)[1])
    allocated, reserved, segments = ground.peaks(device)
    stats = ground.stats(device)
    events = ground.events(device)
    trace = Trace(events, [number for index, number in ground.empties if index == device])
    peak = Peak(events, session.roles.marks, ground.stacks, device)
    answer = {
        "gpu": session.gpu.name, "gpu_title": session.gpu.title,
        "gpu_memory_bytes": session.gpu.memory, "device": device,
        "device_peaks": [ground.peaks(index)[1] for index in range(ground.device_count)],
        "requested_peak_bytes": peak.requested,
        "allocated_peak_bytes": allocated, "reserved_peak_bytes": reserved,
        "context_bytes": session.gpu.context, "nccl_bytes": nccl_bytes(session.options.world),
        "segments": segments,
        "memory_fraction": ground.shares.get(device, 1.0),
        "allocations": stats["allocation"]["all"]["allocated"],
        "operators": sum(session.kernels.counts.values()),
        "seconds": round(session.seconds, 2),
        "host_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "peak": {name.replace(" ", "_"): size for name, size in peak.split.items()},
        "peak_at": peak.where,
        "largest": [{"bytes": size, "blocks": count, "stack": peak.frames(stack)}
                    for size, count, stack in peak.top],
        "stopped": session.stopped, "script_error": outcome.error if outcome else None,
        "conf": session.conf or "",
    }
    _add_class(session, answer)
    _add_verdict(session, trace, answer)
    _add_range(session, trace, answer)
    answer["verdict"] = _sentence(session.gpu, answer)
    answer["cards"] = replay_cards(session, trace, answer)
    return answer, trace, peak


def _room(gpu, answer):
    """What the allocator can have in the answered process."""
    return gpu.room(answer["nccl_bytes"], answer["memory_fraction"])


def _add_range(session, trace, answer):
    """What cuDNN's choice of algorithms leaves open."""
    low = high = answer["reserved_peak_bytes"]
    if session.kernels.has_range:
        room = _room(session.gpu, answer)
        low, high = spread(trace, session.ground.stacks, low, room, session.conf)
    answer["reserved_low_bytes"], answer["reserved_high_bytes"] = low, high
    answer["reserved_middle_bytes"] = (low + high) // 2


def _add_class(session, answer):
    unruled = sorted(name for name, may in session.kernels.unruled.items() if may)
    unruled += sorted(session.kernels.shapes.stand_ins)
    for names in session.kernels.notes.values():
        unruled += sorted(names)
    answer["operators_without_rule"] = unruled
    classes = ([RANGE] if session.kernels.has_range else []) + ([NAMED] if unruled else [])
    answer["error_class"] = "; ".join(classes) or EXACT
    answer["guesses"] = [{"what": what, "file": file, "line": line, "times": times}
                         for (what, file, line), times in sorted(session.guesses.asked.items())]
    answer["remarks"] = list(session.remarks)
    if session.ground.uses:
        answer["remarks"].append(
            f"record_stream ({session.ground.uses} times): work on a stream ends at once here; a "
            "GPU that lags behind the program holds such blocks longer")


def _add_verdict(session, trace, answer):
    """Whether it fits: as it is, after the cache gives memory back, or with a setting."""
    room = _room(session.gpu, answer)
    answer["fits_with"] = None
    held = answer["reserved_peak_bytes"]
    answer["needed_bytes"] = answer["reserved_unlimited_bytes"] = held
    answer["retries"] = 0
    if not trace.events:
        answer["fits"] = True
        return
    answer["fits"] = held <= room
    if not answer["fits"]:
        within = trace.replay(conf=session.conf, device_bytes=max(room, 1))
        if not within.fits and session.kernels.has_range:
            # cuDNN takes algorithms that need less when memory is short.
            within = trace.replay(least(session.ground.stacks), conf=session.conf,
                                  device_bytes=max(room, 1))
        answer["fits"] = within.fits
        if within.fits:
            # The cache gives unused segments back and tries again, as it would on the GPU.
            answer["reserved_peak_bytes"] = within.first["bytes_reserved_peak"]
            answer["retries"] = within.first["retries"]
        else:
            answer["needed_bytes"] = trace.replay(conf=session.conf,
                                                  min_capacity=True).min_capacity_bytes or held
            _try_settings(session, trace, answer, room)


def _try_settings(session, trace, answer, room):
    """Whether another setting of the allocator would make it fit."""
    if EXPANDABLE not in (session.conf or ""):
        conf = ",".join(filter(None, (session.conf, EXPANDABLE)))
        if trace.replay(conf=conf, device_bytes=max(room, 1)).fits:
            answer["fits_with"] = EXPANDABLE


def _sentence(gpu, answer):
    """The verdict."""
    if not answer["allocations"]:
        return f"The program allocated nothing on a GPU; it fits on {gpu.title}."
    needed = answer["reserved_peak_bytes"] if answer["fits"] else answer["needed_bytes"]
    outside = answer["context_bytes"] + answer["nccl_bytes"]
    room, whole = _room(gpu, answer), size_text(gpu.memory)
    if answer["memory_fraction"] < 1:
        limit = size_text(int(answer["memory_fraction"] * gpu.memory))
        whole = f"the {limit} to which the program limits the allocator"
    total = f"{size_text(needed)} for the allocator and {size_text(outside)} outside it"
    low, high = answer["reserved_low_bytes"], answer["reserved_high_bytes"]
    note = "" if low == high else (f" (between {size_text(low)} and {size_text(high)}, by the "
                                   "algorithms of convolutions)")
    if answer["retries"]:
        times = "once" if answer["retries"] == 1 else f"{answer['retries']} times"
        note += f"; the allocator gives unused memory back {times} to stay within it"
    if answer["fits"]:
        return (f"Fits on {gpu.title} with {size_text(room - needed)} to spare: "
                f"{total}, of {whole}{note}.")
    if answer["fits_with"]:
        return (f"Fits on {gpu.title} only with PYTORCH_ALLOC_CONF={answer['fits_with']}: "
                f"without it, {total} exceed {whole} by "
                f"{size_text(needed - room)}.")
    return (f"Does not fit on {gpu.title}: {total} exceed {whole} by "
            f"{size_text(needed - room)}{note}.")


def text(answer, savings=None):
    """The answer for people."""
    lines = [answer["verdict"], ""]
    if answer["stopped"]:
        lines[1:1] = [f"The program was stopped {answer['stopped']}: this is the answer for what "
                      "ran so far."]
    if answer["script_error"]:
        lines[0:0] = ["The program failed; this is the answer for what ran before: "
                      + answer["script_error"]]
    lines += _figures(answer)
    lines += _largest(answer)
    lines += _cards(answer)
    lines += _savings(savings)
    lines += _honesty(answer)
    return "\n".join(lines)


def _figures(answer):
    peaks = answer["device_peaks"]
    lines = []
    if len(peaks) > 1:
        rest = ", ".join(f"cuda:{index} {size_text(peak)}" for index, peak in enumerate(peaks)
                         if index != answer["device"])
        lines = [f"This is cuda:{answer['device']}, which holds most (at most held: {rest}).", ""]
    rows = [("asked for, at most", answer["requested_peak_bytes"]),
            ("in blocks, at most", answer["allocated_peak_bytes"]),
            ("held by the allocator, at most", answer["reserved_peak_bytes"]),
            ("context, outside the allocator", answer["context_bytes"])]
    if answer["reserved_low_bytes"] < answer["reserved_high_bytes"]:
        rows[3:3] = [("  at least (algorithms of convolutions)", answer["reserved_low_bytes"]),
                     ("  at most (algorithms of convolutions)", answer["reserved_high_bytes"])]
    if answer["nccl_bytes"]:
        rows.append(("NCCL, outside the allocator (estimate)", answer["nccl_bytes"]))
    lines += [f"{name:40} {size:>16,}  {size_text(size):>12}" for name, size in rows]
    total = max(answer["requested_peak_bytes"], 1)
    lines += ["", "At the peak" + (f", {answer['peak_at']}:" if answer["peak_at"] else ":")]
    lines += [f"  {name.replace('_', ' '):38} {size:>16,}  {100 * size / total:10.1f} %"
              for name, size in answer["peak"].items() if size]
    return lines


def _largest(answer):
    if not answer["largest"]:
        return []
    first = answer["largest"][0]
    blocks = "1 block" if first["blocks"] == 1 else f"{first['blocks']} blocks"
    lines = ["", f"Largest at the peak: {size_text(first['bytes'])} in {blocks}, by"]
    shown = [frame for frame in first["stack"] if "/torch/nn/modules/module.py" not in frame]
    return lines + [f"  {_short(frame)}" for frame in shown[:8]]


def _short(frame):
    name, found, place = frame.partition(" (")
    if not found:
        return frame
    file, _, line = place.rstrip(")").rpartition(":")
    parts = file.split(os.sep)
    return f"{name} ({os.sep.join(parts[-2:])}:{line})"


def _cards(answer):
    lines = ["", f"{'GPU':24} {'memory':>10}  {'fits':4} {'to spare':>12}"]
    for card in answer["cards"]:
        lines.append(f"{card['title']:24} {size_text(card['memory_bytes']):>10}  "
                     f"{'yes' if card['fits'] else 'no':4} {size_text(card['spare_bytes']):>12}")
    if not all(card["was_run"] for card in answer["cards"]):
        lines.append(f"The sequence of {answer['gpu_title']}, with the memory and the cuBLAS "
                     "workspaces of each;")
        lines.append("--cards runs the program again for each.")
    return lines


def _savings(savings):
    if not savings:
        return []
    lines = ["", "What would save most (each run or replayed with the change):"]
    for saving in savings:
        if saving["reserved_peak_bytes"] is None:
            lines.append(f"  {saving['name']:34} not computed: {saving['note']}")
        else:
            lines.append(f"  {saving['name']:34} {size_text(saving['reserved_peak_bytes']):>12}  "
                         f"saves {size_text(saving['saves_bytes'])}")
    return lines


def _honesty(answer):
    lines = ["", f"Error class: {answer['error_class']}."]
    if answer["operators_without_rule"]:
        lines.append("  Without a rule: " + ", ".join(answer["operators_without_rule"]))
    for guess in answer["guesses"][:5]:
        times = "once" if guess["times"] == 1 else f"{guess['times']} times"
        lines.append(f"  The program read data that is not there ({guess['what']}, {times}) at "
                     f"{_short('x (' + guess['file'] + ':' + str(guess['line']) + ')')[3:-1]}.")
    if len(answer["guesses"]) > 5:
        lines.append(f"  ... and at {len(answer['guesses']) - 5} more places.")
    lines += [f"  {remark}." for remark in answer["remarks"]]
    return lines
