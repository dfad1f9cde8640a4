# SPDX-License-Identifier: MIT
"""Predictions against what was recorded and measured on GPUs; predict_accuracy.py prints all."""
import gzip
import pickle

import pytest
from predict_accuracy import RECORDED, predict_row, recorded_step, rows
from predicting import shared


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_step(name, tmp_path):
    """Every size of the recorded step in order; the peak; what the allocator holds."""
    path = shared(*RECORDED[name][0])
    with gzip.open(path) as file:
        truth = pickle.load(file)
    step = recorded_step(name, tmp_path)
    events = next(trace for trace in truth["device_traces"] if trace)
    sizes = [event["size"] for event in events if event["action"] == "alloc"]
    assert step["sizes"] == sizes
    assert step["requested_peak_bytes"] == RECORDED[name][2]
    held = sum(segment["total_size"] for segment in truth["segments"])
    assert abs(step["reserved_bytes"] - held) <= 0.005 * held


@pytest.mark.parametrize("model", ("facebook/opt-350m", "distilbert/distilgpt2"))
def test_measured_transformer(model):
    pytest.importorskip("transformers")
    row = next(row for row in rows(shared("predict", "runs.csv")) if row["model"] == model)
    given = predict_row(row)
    measured = int(row["measured_peak_bytes"])
    assert -0.01 <= given["reserved_peak_bytes"] / measured - 1 <= 0.03


def test_measured_convolutions():
    row = next(row for row in rows(shared("predict", "runs.csv")) if row["model"] == "ResNet101")
    given = predict_row(row)
    low, high = given["reserved_low_bytes"], given["reserved_high_bytes"]
    assert low <= int(row["measured_peak_bytes"]) <= high
    assert (high - low) / ((high + low) / 2) <= 0.25
