# SPDX-License-Identifier: MIT
"""What scripts say about CUDA works on a PyTorch without CUDA."""
import json

import pytest
from predicting import JOBS, answer, run


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All constructs of one run, and its answer."""
    path = tmp_path_factory.mktemp("constructs") / "found.json"
    given = answer("--gpu", "rtx3060", "--devices", "2", JOBS / "constructs.py", path)
    return json.loads(path.read_text()), given


EXPECTED = {
    "availability": [True, 2, 0, "NVIDIA GeForce RTX 3060 12GB", [8, 6], 28, True, True, True],
    "names_of_devices": ["cuda:0", "cuda:0", "cuda:1", "cuda:1", "cuda:1", "cuda:1", "cuda:1",
                         True, 0, "torch.cuda.FloatTensor"],
    "default_device": "cuda:0",
    "pinned_memory": [120, "cuda:0", True, 1000],
    "workers": ["cuda:0"] * 4,
    "training_with_scaler": ["torch.float32", 4, [0.0, 0.0]],
    "statistics": [10485760, 0, 10485760, True, True, True, True],
    "empty_cache": 41943040,
    "streams_and_events": [True, 62914560, True, False],
    "compiled": [2, 256],
    "values_of_small_tensors": [True, 45, [7, 8, 9], 3, 9, [8, 8, 8, 8]],
    "values_that_are_guessed": [0.0, False, 50, 100, [0.0, 0.0], "tensor"],
    "host_and_back": ["cpu", [100, 100], 0.0, True],
    "recurrent": [[[4, 7, 32], True]] * 3,
    "attention": ["ScaledDotProductFlashAttentionBackward0",
                  "ScaledDotProductEfficientAttentionBackward0",
                  "ScaledDotProductEfficientAttentionBackward0", "UnsafeViewBackward0"],
    "convolutions": [7, 5],
    "files": ["cuda:0", 7, "cpu", [1024, 256]],
    "checkpointing": True,
    "functions_of_one_own": [5],
    "generators_and_seeds": [[3], [5], "cuda"],
    "graphs": [True, True, True, True, False, True],
    "pools": [True, 12582912],
    "recording": [["alloc", 12], ["free_requested", 4194304], ["free_completed", 4194304], True,
                  0],
    "uses_on_other_streams": [True, 512, 1],
    "backward_on_a_stream": 1,
    "indexing": [[4, 5], [4, 50], [2, 5], [4, 2], [4, 50], [4, 4], True],
    "linear_algebra": [[6, 6], [6], [6, 6], [6, 6], [6, 4], 0.0],
    "copies_of_models": [True, "torch.float16", "cuda:0", [1024, 256],
                         [1048576, 4, 4096, 4, 1048576, 4, 1024, 4], "cuda:0"],
    "attention_without_gradients": [31744, 761856],
    "quantized_linear": [[64, 64], "torch.float8_e4m3fn", [1, 2, 3]],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_construct(found, name):
    assert found[0][name] == EXPECTED[name]


def test_every_optimizer_keeps_state(found):
    assert len(found[0]["optimizers"]) == 10
    assert set(found[0]["optimizers"].values()) == {4}


def test_data_parallel_is_refused_by_name(found):
    assert "nn.DataParallel is not supported" in found[0]["data_parallel"]


def test_answer_is_honest(found):
    given = found[1]
    assert "with convolutions (range)" in given["error_class"]
    assert "with operators without a rule" in given["error_class"]
    assert "aten::_fft_r2c" in given["operators_without_rule"]
    assert any("torch.compile" in remark for remark in given["remarks"])
    assert any(remark.startswith("record_stream (2 times)") for remark in given["remarks"])
    assert any(guess["file"].endswith("constructs.py") for guess in given["guesses"])
    assert given["reserved_low_bytes"] < given["reserved_peak_bytes"] \
        < given["reserved_high_bytes"]


def test_weights_in_files(tmp_path):
    pytest.importorskip("transformers")
    done = run("--limit", "120", JOBS / "pretrained.py", tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    for kind in ("safe", "bin"):
        assert f"{kind} cuda:0 torch.bfloat16 (1, 7) cuda:0" in done.stdout


@pytest.mark.parametrize("kind", ("ddp", "buckets", "fsdp1", "fsdp2", "wrapped"))
def test_made_up_world(kind):
    given = answer("--world", "8", JOBS / "world.py", kind)
    assert given["script_error"] is None
    assert given["nccl_bytes"] > 0
    assert any("a world of 8" in remark for remark in given["remarks"])
    whole = 33595392  # bytes of all parameters
    if kind == "buckets":
        assert given["peak"]["parameters"] >= whole + 4 * 512 * 4
        assert given["peak"]["optimizer_state"] == 2 * (whole + 2 * 512 * 4)
    elif kind == "ddp":
        assert given["peak"]["parameters"] == whole
        assert given["peak"]["optimizer_state"] == 2 * whole
    else:
        assert given["peak"]["parameters"] == whole // 8
        assert given["peak"]["optimizer_state"] == 2 * whole // 8


def test_large_model_costs_megabytes():
    given = answer("--world", "64", "--gpu", "h100", JOBS / "sharded.py", "--width", "8192",
                   "--layers", "2", "--heads", "64", "--groups", "8", "--inner", "28672",
                   "--vocabulary", "128256")
    assert given["script_error"] is None
    assert given["requested_peak_bytes"] > 1 << 30
