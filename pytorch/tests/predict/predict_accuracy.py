# SPDX-License-Identifier: MIT
"""The table of docs/PREDICT.md: predictions beside what was recorded and measured.

    build/torch/python pytorch/tests/predict/predict_accuracy.py [KIND...]

KIND is recorded, transformer, convolutions or large; all without one. ACRE_SHARED names the
folder with the recordings.
"""
import csv
import gzip
import json
import pathlib
import pickle
import sys
import tempfile

from predicting import JOBS, answer, shared

_WEDSONLIN = "Wedsonlin-assignment2-systems-results-medium_{}_memory_snapshot.pickle.gz"
# Name: file, arguments of the job, the peak that was asked for.
RECORDED = {
    "128_inference": (("snapshots", _WEDSONLIN.format("128_inference")),
                      ("--mode", "inference"), 1736962048),
    "128_training": (("predict", "medium_128_training.pickle.gz"), (), 7013335044),
    "512_training": (("snapshots", _WEDSONLIN.format("512_training")),
                     ("--context", "512", "--bfloat16"), 12426629128),
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


def recorded_step(name, folder):
    """Sizes of the recorded step, its peak, and what the allocator holds at its end."""
    path = pathlib.Path(folder) / f"{name}.json"
    given = answer("--gpu", "a100-40", JOBS / "medium.py", *RECORDED[name][1], "--step", path)
    assert given["script_error"] is None
    return json.loads(path.read_text())


def _recorded():
    for name, (parts, _, peak) in RECORDED.items():
        with gzip.open(shared(*parts)) as file:
            truth = pickle.load(file)
        events = next(trace for trace in truth["device_traces"] if trace)
        sizes = [event["size"] for event in events if event["action"] == "alloc"]
        held = sum(segment["total_size"] for segment in truth["segments"])
        with tempfile.TemporaryDirectory() as folder:
            step = recorded_step(name, folder)
        equal = sum(a == b for a, b in zip(step["sizes"], sizes))
        print(f"{name:16} {equal} of {len(sizes)} sizes in order, requested "
              f"{100 * (step['requested_peak_bytes'] / peak - 1):+.3f} %, reserved "
              f"{100 * (step['reserved_bytes'] / held - 1):+.2f} %", flush=True)


def _measured(kinds):
    for row in rows(shared("predict", "runs.csv")):
        if row["kind"] not in kinds:
            continue
        given, measured = predict_row(row), int(row["measured_peak_bytes"])
        low, high = given["reserved_low_bytes"], given["reserved_high_bytes"]
        error = 100 * (given["reserved_peak_bytes"] / measured - 1)
        note = "" if low == high else (
            f", range {low:,} to {high:,}, {'in' if low <= measured <= high else 'not in'} it, "
            f"middle {100 * ((low + high) / 2 / measured - 1):+.1f} %")
        print(f"{row['model']:34} {row['batch']:>4} {row['optimizer']:9} {measured:>14,} "
              f"{given['reserved_peak_bytes']:>14,} {error:+6.2f} % {given['seconds']:5.1f} s"
              + note, flush=True)


if __name__ == "__main__":
    KINDS = sys.argv[1:] or ["recorded", "transformer", "convolutions", "large"]
    if "recorded" in KINDS:
        _recorded()
    _measured(KINDS)
