# SPDX-License-Identifier: MIT
"""The table of docs/PREDICT.md: predictions beside what was recorded and measured.

    build/torch/python pytorch/tests/predict/predict_accuracy.py [KIND...]

KIND is recorded, transformer, convolutions, large or sharded; all without one. ACRE_SHARED
names the folder with the recordings.
"""
import csv
import gzip
import pathlib
import pickle
import statistics
import sys
import tempfile

from predicting import JOBS, answer, shared

_WEDSONLIN = "Wedsonlin-assignment2-systems-results-medium_{}_memory_snapshot.pickle.gz"
_SMALL = ("--width", "768", "--inner", "3072", "--layers", "12", "--heads", "12")
# Name: file, arguments of the job, the peak that was asked for.
RECORDED = {
    "128_inference": (("snapshots", _WEDSONLIN.format("128_inference")),
                      ("--mode", "inference"), 1736962048),
    "128_training": (("predict", "medium_128_training.pickle.gz"), (), 7013335044),
    "512_training": (("snapshots", _WEDSONLIN.format("512_training")),
                     ("--context", "512", "--bfloat16"), 12426629128),
    "256_gradients": (("snapshots", "MAGMA27-assignment2-systems-memory_snapshot.pickle.gz"),
                      ("--mode", "gradients", "--context", "256", "--batch", "32", *_SMALL),
                      13923997700),
}
_GPUS = {"GeForce RTX 3060 12GB": "rtx3060", "GeForce RTX 4060 8GB": "rtx4060",
         "A100-SXM4-40GB": "a100-40"}
_MODELS = {"EleutherAI/gpt-neo-125M": "gpt-neo-125m", "T5-small": "t5-small",
           "cerebras/Cerebras-GPT-111M": "cerebras-111m", "distilbert/distilgpt2": "distilgpt2",
           "facebook/opt-125m": "opt-125m", "facebook/opt-350m": "opt-350m",
           "Qwen/Qwen3-4B": "qwen3-4b", "meta-llama/Llama-3.2-3B-Instruct": "llama-3b"}


def rows(path):
    """The measured runs."""
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predict_row(row):
    """The prediction of a measured run."""
    if row["kind"] == "convolutions":
        job = [JOBS / "vision.py", "--model", row["model"]]
    else:
        job = [JOBS / "transformer.py", "--model", _MODELS[row["model"]]]
    return answer("--gpu", _GPUS[row["gpu"]], *job, "--batch", row["batch"], "--optimizer",
                  row["optimizer"])


class Step:
    """A recorded step: sizes of its allocations in order, its peak, what is held after it."""

    def __init__(self, snapshot):
        events = next(trace for trace in snapshot["device_traces"] if trace)
        self.sizes = [event["size"] for event in events if event["action"] == "alloc"]
        self.held = sum(segment["total_size"] for segment in snapshot["segments"])
        self.segments = len(snapshot["segments"])
        live = sum(block["requested_size"] for segment in snapshot["segments"]
                   for block in segment["blocks"] if block["state"].startswith("active"))
        self.peak = live
        for event in reversed(events):
            live += {"alloc": -1, "free_completed": 1}.get(event["action"], 0) * event["size"]
            self.peak = max(self.peak, live)


def recorded_step(name):
    """The step that was recorded on a GPU."""
    with gzip.open(shared(*RECORDED[name][0])) as file:
        return Step(pickle.load(file))


def predicted_step(name, folder):
    """The same step by the same program, which takes a snapshot of a GPU that is not there."""
    path = pathlib.Path(folder) / f"{name}.pickle"
    given = answer("--gpu", "a100-40", JOBS / "medium.py", *RECORDED[name][1], "--snapshot", path)
    assert given["script_error"] is None
    return Step(pickle.loads(path.read_bytes()))


def _recorded():
    for name, (_, _, peak) in RECORDED.items():
        truth = recorded_step(name)
        with tempfile.TemporaryDirectory() as folder:
            step = predicted_step(name, folder)
        equal = sum(a == b for a, b in zip(step.sizes, truth.sizes))
        print(f"{name:16} {equal} of {len(truth.sizes)} sizes in order, requested "
              f"{100 * (step.peak / peak - 1):+.3f} %, reserved "
              f"{100 * (step.held / truth.held - 1):+.2f} %, {step.segments} segments of "
              f"{truth.segments}", flush=True)


# A transformer of 70.6 billion parameters over 64 ranks.
SHARDED = ("--world", "64", "--gpu", "h100", JOBS / "sharded.py", "--width", "8192", "--layers",
           "80", "--heads", "64", "--groups", "8", "--inner", "28672", "--vocabulary", "128256",
           "--length", "4096")


def _cost(given):
    return f"{given['seconds']:5.1f} s {given['host_peak_bytes'] / 1e6:5.0f} MB"


def _measured(kind):
    errors = []
    for row in rows(shared("predict", "runs.csv")):
        if row["kind"] != kind:
            continue
        given, measured = predict_row(row), int(row["measured_peak_bytes"])
        low, high = given["reserved_low_bytes"], given["reserved_high_bytes"]
        peak = given["reserved_peak_bytes"] if low == high else (low + high) / 2
        errors.append(100 * (peak / measured - 1))
        note = "" if low == high else (
            f", range {low:,} to {high:,}, {200 * (high - low) / (high + low):.1f} % wide, "
            f"{'in' if low <= measured <= high else 'not in'} it")
        print(f"{row['model']:34} {row['batch']:>4} {row['optimizer']:9} {measured:>14,} "
              f"{peak:>16,.0f} {errors[-1]:+6.2f} % {_cost(given)}" + note, flush=True)
    sizes = sorted(map(abs, errors))
    print(f"{kind}: median {statistics.median(sizes):.2f} %, worst {sizes[-1]:.2f} %, lowest "
          f"{min(errors):+.2f} %", flush=True)


def _sharded():
    given = answer(*SHARDED)
    print(f"70.6 billion parameters, world 64: {given['reserved_peak_bytes']:,} bytes, "
          f"{_cost(given)}", flush=True)


if __name__ == "__main__":
    for KIND in sys.argv[1:] or ["recorded", "transformer", "convolutions", "large", "sharded"]:
        if KIND == "recorded":
            _recorded()
        elif KIND == "sharded":
            _sharded()
        else:
            _measured(KIND)
