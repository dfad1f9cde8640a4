# SPDX-License-Identifier: MIT
"""Predictions against what was recorded and measured on GPUs; predict_accuracy.py prints all."""
import pytest
from predict_accuracy import RECORDED, predict_row, predicted_step, recorded_step, rows
from predicting import shared


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_step(name, tmp_path):
    """Every size of the recorded step in order; the peak; what the allocator holds."""
    truth, step = recorded_step(name), predicted_step(name, tmp_path)
    assert step.sizes == truth.sizes
    assert step.peak == truth.peak == RECORDED[name][2]
    assert (step.held, step.segments) == (truth.held, truth.segments)


@pytest.mark.parametrize("model", ("facebook/opt-350m", "distilbert/distilgpt2"))
def test_measured_transformer(model):
    pytest.importorskip("transformers")
    row = next(row for row in rows(shared("predict", "runs.csv")) if row["model"] == model)
    given = predict_row(row)
    measured = int(row["measured_peak_bytes"])
    assert -0.01 <= given["reserved_peak_bytes"] / measured - 1 <= 0.03


@pytest.mark.parametrize("model", ("ResNet101", "VGG16"))
def test_measured_convolutions(model):
    row = next(row for row in rows(shared("predict", "runs.csv")) if row["model"] == model)
    given = predict_row(row)
    low, high = given["reserved_low_bytes"], given["reserved_high_bytes"]
    assert low <= int(row["measured_peak_bytes"]) <= high
    assert (high - low) / low <= 0.25
