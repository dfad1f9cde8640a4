# SPDX-License-Identifier: MIT
"""Programs as their users write them: what they tell the allocator, how they loop and fail."""
import os
import pickle
import shutil
import subprocess
import sys

import pytest
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


TWO = """
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:1")
del x
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats(1)
y = torch.empty(32 << 20, dtype=torch.uint8, device="cuda:0")
"""


def test_the_device_with_the_highest_peak_is_answered_for():
    given = program(TWO, "--devices", "2")
    assert given["device"] == 1 and given["reserved_peak_bytes"] == 1 << 30
    assert given["device_peaks"] == [32 << 20, 1 << 30]
    done = run("--devices", "2", "--", "python", "-c", "import torch" + TWO)
    assert "This is cuda:1, which holds most (at most held: cuda:0 32.0 MiB)." in done.stdout


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


EXIT = """
import os, threading, time
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
if os.fork() == 0:
    os._exit(5)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 5
print("not flushed", end=" ")
{end}
"""


def test_a_program_that_ends_at_once_is_answered_for():
    """os._exit is how programs end that do not wait for their threads."""
    given = program(EXIT.format(end="os._exit(0)"), "--gpu", "t4", status=(0,))
    assert given["reserved_peak_bytes"] == 1 << 30 and given["script_error"] is None
    assert given["seconds"] > 0
    given = program(EXIT.format(end="threading.Thread(target=os._exit, args=(3,)).start()\n"
                                    "time.sleep(60)"), status=(2,))
    assert given["script_error"] == "the program ended with exit status 3"
    given = program(EXIT.format(end="x = x, x.repeat(31)\nos._exit(0)"), "--gpu", "t4",
                    status=(1,))
    assert given["fits"] is False
    done = run("--", "python", "-c", "import torch" + EXIT.format(end="os._exit(0)"))
    assert done.returncode == 0 and done.stdout.startswith("not flushed Fits on")


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


GENERATE = """
batch, steps = 4, 20
done = torch.zeros(batch, dtype=torch.bool, device="cuda")
cache = []
for step in range(steps):
    cache.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
    logits = torch.randn(batch, 100, device="cuda")
    {choose}
    {test}
print("steps", step + 1)
"""
CHOOSE = ("token = logits.argmax(-1)",
          "token = torch.multinomial(torch.softmax(logits, -1), 1)[:, 0]",
          "token = logits.topk(5)[1].gather(1, torch.multinomial(logits, 1))[:, 0]")
TESTS = ("if (token == 50256).all(): break",
         "if torch.all(token == 0): break",
         "done = done | (token == 2)\n    if done.all(): break",
         "done |= token.eq(1)\n    if bool(done.cpu().all()): break",
         "going = ~done & (token != torch.tensor(7, device='cuda'))\n    if not going.any(): break",
         "if torch.isin(token, torch.tensor([1, 2], device='cuda')).all(): break",
         "if token[0].item() == 50256: break")


@pytest.mark.parametrize("choose", range(len(CHOOSE)))
def test_generation_runs_to_its_limit(choose):
    """No token ends the text by being unknown: the cache has all its steps."""
    tests = [GENERATE.format(choose=CHOOSE[choose], test=test) for test in TESTS]
    done = run("--", "python", "-c", "import torch\n" + "".join(tests))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("steps 20\n") == len(TESTS), done.stdout


BEAMS = """
scores = torch.zeros(4, 3, device="cuda")
kept = torch.full((4, 3), -1e9, device="cuda")
is_finished = torch.zeros(4, 3, dtype=torch.bool, device="cuda")
words = torch.zeros(4, 3, 30, dtype=torch.long, device="cuda")
for step in range(20):
    logits = torch.randn(4, 300, device="cuda")
    best = torch.topk(logits, 6)[1]
    words[:, :, step] = best[:, :3] % 100
    hits = torch.isin(words[:, :, step], torch.tensor([50256], device="cuda"))
    scores = scores + logits[:, :3]
    both = torch.cat((is_finished, hits), dim=1)
    is_finished = torch.take_along_dim(both, torch.topk(scores, 3)[1], dim=1)
    may_improve = torch.any(scores[:, :1] > torch.min(kept, dim=1, keepdim=True)[0])
    is_open = ~(torch.all(is_finished) & early)
    if not may_improve & is_open & ~torch.all(hits):
        break
print("steps", step + 1)
"""


@pytest.mark.parametrize("early", (False, True))
def test_beams_run_to_their_limit(early):
    """Scores are not known; that no beam has ended is presumed, and decides."""
    done = run("--", "python", "-c", f"import torch\nearly = {early}" + BEAMS)
    assert done.returncode == 0, done.stderr
    assert "steps 20\n" in done.stdout


def test_a_constant_beside_what_is_not_known_decides_nothing():
    program("""
yes = torch.ones((), dtype=torch.bool, device="cuda")
loss = torch.randn((), device="cuda")
assert not (loss > 3) & yes and not (loss > 3) | ~yes and not yes & (loss > 3)
""")


def test_what_programs_assert_still_holds():
    program("""
mask = torch.randint(0, 2, (64, 2048), device="cuda")
x = torch.randn(64, device="cuda")
assert (mask == 1).all() and (x == x).all() and (x > 0).all()
assert torch.isfinite(x).all() and not torch.isnan(x).any() and not (~torch.isfinite(x)).any()
flags = torch.zeros(2, dtype=torch.bool, device="cuda")
flags[0] = True
assert flags.any() and not flags.all()
""")


@pytest.mark.parametrize("text", ("torch.ones(3, device='cuda:2')", "torch.ones(3).to('cuda:2')",
                                  "torch.nn.Linear(2, 2).cuda(2)", "torch.cuda.set_device(2)"))
def test_a_device_that_is_not_shown_is_named(text):
    done = run("--devices", "2", "--", "python", "-c", "import torch\n" + text)
    assert done.returncode == 2
    assert "invalid device ordinal 2; the prediction shows 2 (--devices)" in done.stderr


def test_what_programs_ask_of_the_device():
    """Streams of other libraries, memory by hand, marks for profilers, versions."""
    given = program("""
torch.cuda.check_error(0)
torch.cuda.profiler.start()
torch.cuda.profiler.stop()
torch.cuda.cudart().cudaMemGetInfo(0)
torch.compiler.cudagraph_mark_step_begin()
torch.cuda.reset_peak_host_memory_stats()
torch.cuda.reset_accumulated_host_memory_stats()
torch.cuda.memory.caching_allocator_enable(True)
assert torch.cuda.nccl.version()[0] == 2 and not torch.cuda.tunable.is_enabled()
assert torch.cuda.power_draw() == torch.cuda.clock_rate() == 0
with torch.cuda.stream(torch.cuda.get_stream_from_external(0x5000)):
    assert torch.cuda.current_stream().cuda_stream == 0x5000
    x = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
free, total = torch.accelerator.get_memory_info()
assert (free, total) == torch.cuda.mem_get_info()
assert torch.cuda.device_memory_used() == total - free
block = torch.cuda.caching_allocator_alloc(1 << 30)
assert torch.cuda.memory_allocated() == (1 << 30) + (1 << 28)
torch.cuda.caching_allocator_delete(block)
assert torch.cuda.memory_allocated() == 1 << 28
""")
    assert given["allocated_peak_bytes"] == (1 << 30) + (1 << 28)


def test_largest_keeps_the_change_and_writes_the_snapshot(tmp_path):
    path, out = tmp_path / "train.py", tmp_path / "best.pickle"
    path.write_text("import sys, torch\n"
                    "layer = torch.nn.Linear(1024, 1024, device='cuda')\n"
                    "x = torch.empty(int(sys.argv[1]) << 16, 1024, device='cuda')\n"
                    "for _ in range(2):\n"
                    "    with torch.no_grad():\n"
                    "        y = layer(x)\n")
    search = ("--quiet", "--gpu", "t4", "--largest", "n=17:25")
    plain = answer(*search, path, "{n}")
    changed = answer(*search, "--change", "bfloat16", "-o", out, path, "{n}")
    assert 17 < plain["largest"] < changed["largest"] < 25
    with open(out, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    assert (changed["largest"] << 28) in {event["size"] for event in events}
    done = run(*search, "--cards", path, "{n}")
    assert done.returncode == 2 and "--largest does not go with --cards" in done.stderr


LIMITED = """
torch.cuda.set_per_process_memory_fraction(0.25)
assert torch.cuda.get_per_process_memory_fraction() == 0.25
x = torch.empty({size} << 30, dtype=torch.uint8, device="cuda")
"""


def test_a_program_that_limits_itself_has_no_more():
    given = program(LIMITED.format(size=11), "--gpu", "a100-40", status=(1,))
    assert given["fits"] is False and "to which the program limits" in given["verdict"]
    assert {card["gpu"] for card in given["cards"] if card["fits"]} == \
        {"a100-80", "h100", "h200", "b200", "l40s"}
    given = program(LIMITED.format(size=9), "--gpu", "a100-40", status=(0,))
    assert given["memory_fraction"] == 0.25
    spare = [card["spare_bytes"] for card in given["cards"] if card["gpu"] == "a100-40"]
    assert spare == [(40335 << 20) // 4 - (9 << 30)]
