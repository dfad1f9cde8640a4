# SPDX-License-Identifier: MIT
"""Programs as their users write them: what they tell the allocator, how they loop and fail."""
from predicting import answer, run


def program(text, *options, **settings):
    """The answer for a program of a few lines."""
    return answer(*options, "--", "python", "-c", "import torch\n" + text, **settings)


def test_peaks_that_the_program_resets_count():
    """A script that measures each of its phases hides none of them from the answer."""
    given = program("""
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == torch.cuda.max_memory_reserved() == 0
y = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.max_memory_allocated() == 1 << 20
""", "--gpu", "t4")
    assert given["reserved_peak_bytes"] == given["allocated_peak_bytes"] == 1 << 30
    assert given["segments"] == 1


def test_peaks_that_the_program_resets_decide():
    given = program("""
x = torch.empty(40 << 30, dtype=torch.uint8, device="cuda")
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
""", "--gpu", "t4", status=(1,))
    assert given["fits"] is False and given["reserved_peak_bytes"] == 40 << 30


def test_the_device_with_the_highest_peak_is_answered_for():
    given = program("""
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:1")
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats(1)
y = torch.empty(1 << 20, dtype=torch.uint8, device="cuda:0")
""", "--devices", "2")
    assert given["device"] == 1 and given["reserved_peak_bytes"] == 1 << 30
