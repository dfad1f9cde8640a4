# SPDX-License-Identifier: MIT
"""Programs as their users write them: what they tell the allocator, how they loop and fail."""
import os
import shutil
import subprocess
import sys

from predicting import ROOT, answer, run


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


def test_packages_beside_acre_are_not_in_the_way(tmp_path):
    """An installed Acre lies among the system's packages, such as an old tqdm; the program has
    its own."""
    packages = tmp_path / "lib" / "python3" / "dist-packages"
    (packages / "tqdm").mkdir(parents=True)
    (packages / "tqdm" / "__init__.py").write_text("raise ImportError('not for this Python')\n")
    (packages / "acre").symlink_to(ROOT / "python" / "acre")
    (tmp_path / "bin").mkdir()
    shutil.copy2(ROOT / "build" / "acre", tmp_path / "bin")
    code = "import acre, torch, tqdm; torch.ones(3, device='cuda'); print(acre.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LD_LIBRARY_PATH"] = str(ROOT / "build")
    done = subprocess.run([tmp_path / "bin" / "acre", "predict", "--", sys.executable, "-c",
                           code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and str(packages / "acre") in done.stdout, done.stderr


def test_the_current_folder_is_not_on_the_path_of_a_file(tmp_path):
    """Nor on that of what PyTorch imports on its way, such as tqdm."""
    for folder, text in (("tqdm", "raise SystemExit('cwd')"), ("scripts", "")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(text)
    (tmp_path / "scripts" / "train.py").write_text(
        "import os, sys, torch, tqdm\n"
        "assert sys.path[0] == os.path.dirname(os.path.abspath(__file__)), sys.path\n"
        "assert os.getcwd() not in sys.path, sys.path\n")
    done = run("--", "python", "scripts/train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_interpreter_is_found_without_dashes(tmp_path):
    """A python without PyTorch comes first in the path of the shell."""
    (tmp_path / "python3").write_text("#!/bin/sh\necho the wrong one >&2; exit 9\n")
    (tmp_path / "python3").chmod(0o755)
    environment = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}")
    command = [ROOT / "build" / "acre", "predict", "--quiet", "--gpu", "l4", "-o",
               tmp_path / "x.pickle", sys.executable, "-c", "print('here')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("here\n"), done.stderr
    done = subprocess.run(command[:3] + ["train.py", sys.executable], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 9 and done.stderr == "the wrong one\n"


def test_an_interpreter_without_pytorch_is_named(tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    done = subprocess.run([sys.executable, "-I", "-S", "-c",
                           f"import sys; sys.path.append({str(ROOT / 'python')!r});"
                           "import runpy; sys.argv = ['x', 'train.py'];"
                           "runpy.run_module('acre.predict', run_name='__main__')"],
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"{sys.executable} has no PyTorch; name the interpreter that has it" in done.stderr


def test_gpus_of_another_spelling_are_suggested():
    for name, meant in (("H100", "h100"), ("4090", "rtx4090"), ("A100-80GB", "a100-80")):
        done = run("--gpu", name, "x.py")
        assert done.returncode == 2 and f"did you mean {meant}" in done.stderr, done.stderr
