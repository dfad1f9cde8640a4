# SPDX-License-Identifier: MIT
"""The command: answers, programs that fail, limits, searches, files."""
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import pytest
from predicting import ROOT, answer, run

TRAIN = """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int)
batch = parser.parse_args().batch
layers = [nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(4)]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(batch, 1024, device="cuda")).mean().backward()
    optimizer.step()
print("done")
"""
KEYS = {"requested_peak_bytes", "allocated_peak_bytes", "reserved_peak_bytes", "context_bytes",
        "segments", "fits", "gpu", "error_class", "verdict", "peak", "peak_at", "largest"}


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def test_answer_as_json_and_snapshot(script, tmp_path):
    out = tmp_path / "snapshot.pickle"
    given = answer("--gpu", "rtx3060", "-o", out, "--", "python", script, "--batch", "512")
    assert KEYS <= set(given)
    assert given["gpu"] == "rtx3060" and given["fits"] is True
    assert given["error_class"] == "exact rules only"
    weights = 4 * (2 * 1024 * 4096 + 1024 + 4096) * 4
    assert given["peak"]["parameters"] == weights
    assert given["peak"]["gradients"] == weights
    assert given["peak"]["optimizer_state"] >= 2 * weights
    assert sum(given["peak"].values()) == given["requested_peak_bytes"]
    assert given["requested_peak_bytes"] <= given["allocated_peak_bytes"] \
        <= given["reserved_peak_bytes"]
    assert "train.py" in given["peak_at"]
    with open(out, "rb") as file:
        snapshot = pickle.load(file)
    files = {frame["filename"] for event in snapshot["device_traces"][0]
             for frame in event["frames"]}
    assert str(script) in files
    done = subprocess.run([ROOT / "build" / "acre", "why", out], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "held by the allocator" in done.stdout, done.stderr


def test_sequence_is_legal(script, tmp_path):
    """No free without an allocation, no block handed out twice, and the replay is exact."""
    import acre
    out = tmp_path / "snapshot.pickle"
    given = answer("-o", out, script, "--batch", "64")
    with open(out, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    live = {}
    for event in events:
        if event["action"] == "alloc":
            assert event["addr"] not in live and event["size"] > 0
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            assert live.pop(event["addr"]) == event["size"]
    assert acre.verify(out)["is_exact"] == 1
    replayed = acre.replay(out, policy="torch")
    assert replayed.first["bytes_reserved_peak"] == given["reserved_peak_bytes"]
    assert replayed.first["bytes_requested_peak"] == given["requested_peak_bytes"]


RANDOM = """
import random, sys, torch
import acre.predict
from acre.predict.session import Session
from acre.predict.trace import Trace
seed = int(sys.argv[1])
lots = random.Random(seed)

def job():
    held, streams = [], [torch.cuda.Stream() for _ in range(3)] + [torch.cuda.default_stream()]
    for _ in range(600):
        with torch.cuda.stream(lots.choice(streams)):
            what = lots.random()
            if what < 0.45 or not held:
                size = lots.choice((lots.randrange(1, 2000), lots.randrange(1, 1 << 22)))
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            elif what < 0.8:
                held.pop(lots.randrange(len(held)))
            elif what < 0.85:
                held[-1].record_stream(lots.choice(streams))
            elif what < 0.95:
                weight = torch.randn(lots.randrange(1, 300), 64, device="cuda", requires_grad=True)
                (weight.T @ weight).sum().backward()
            elif what < 0.97:
                torch.cuda.empty_cache()
            else:
                held[-1].untyped_storage().resize_(lots.choice((0, 5000)))

given = acre.predict(job, gpu="a100-40")
ground = Session.current.ground
live, events = {}, ground.events(0)
for action, _, address, size, _ in events:
    if action == "alloc":
        assert address not in live and size > 0
        assert all(address + size <= start or start + length <= address
                   for start, length in live.items()), "two blocks overlap"
        live[address] = size
    else:
        assert live.pop(address) == size
replayed = Trace(events, [number for _, number in ground.empties]).replay().first
assert replayed["bytes_reserved_peak"] == given["reserved_peak_bytes"], seed
assert replayed["bytes_requested_peak"] == given["requested_peak_bytes"], seed
print("legal", len(events) > 600)
"""


@pytest.mark.parametrize("choice", ("fixed", "drawn"))
def test_random_programs_are_legal_and_replayed_exactly(choice):
    seed = 1 if choice == "fixed" else random.SystemRandom().randrange(1 << 32)
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                       TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    environment.setdefault("ACRE_LIBRARY", str(ROOT / "build" / "libacre.so"))
    done = subprocess.run([sys.executable, "-c", RANDOM, str(seed)], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-2000:]}"
    assert done.stdout == "legal True\n", f"seed {seed}"


def test_text_of_the_answer(script):
    done = run("--gpu", "rtx3060", "--", "python3.11", script, "--batch", "8")
    assert done.returncode == 0
    assert done.stdout.startswith("done\nFits on GeForce RTX 3060 12GB with ")
    for part in ("context, outside the allocator", "At the peak", "Largest at the peak",
                 "H100 80GB HBM3", "Error class: exact rules only."):
        assert part in done.stdout


def test_table_of_cards(script, monkeypatch):
    """One sequence on each card, as a run for that card would hold it; or a run for each."""
    from acre.predict import card
    from acre.predict.options import Options
    rows = {row["gpu"]: row for row in
            answer("--gpu", "a100-80", script, "--batch", "512")["cards"]}
    assert len(rows) == 10 and all(row["fits"] for row in rows.values())
    assert [name for name, row in rows.items() if row["was_run"]] == ["a100-80"]
    run_there = answer("--gpu", "h100", script, "--batch", "512")
    own = {row["gpu"]: row for row in run_there["cards"]}
    assert own["h100"]["was_run"]
    assert abs(rows["h100"]["spare_bytes"] - own["h100"]["spare_bytes"]) <= 2 << 20
    assert abs(rows["l4"]["spare_bytes"] - own["l4"]["spare_bytes"]) <= 2 << 20
    asked = []

    def ask(options, extra, program):
        asked.append(options.gpu)
        return {"cards": [{"gpu": options.gpu, "fits": False, "spare_bytes": -5}]}, ""

    monkeypatch.setattr(card, "ask", ask)
    found = card.run_cards(Options(gpu="t4", program=("x.py",)))
    assert len(found) == 11 and asked[0] == "rtx3060" and "t4" in asked
    assert all(row["was_run"] and row["spare_bytes"] == -5 for row in found)
    monkeypatch.setattr(card, "ask", lambda *_: (None, "it failed"))
    with pytest.raises(RuntimeError, match="it failed"):
        card.run_cards(Options(program=("x.py",)))


def test_does_not_fit(script, tmp_path):
    table = tmp_path / "gpus.json"
    table.write_text(json.dumps({"small": {"title": "Small", "sms": 10, "threads_per_sm": 1024,
                                           "capability": 80, "memory_mib": 500,
                                           "context_mib": 100}}))
    done = run("--gpu-file", table, "--gpu", "small", "--json", script, "--batch", "8")
    given = json.loads(done.stdout)
    assert done.returncode == 1 and given["fits"] is False
    assert {row["gpu"]: row["fits"] for row in given["cards"]}["small"] is False
    assert given["verdict"].startswith("Does not fit on Small: ")
    done = run("--gpu-file", table, "--gpu", "small", "--largest", "batch=8:64", "--quiet",
               script, "--batch", "{batch}")
    assert done.returncode == 1 and done.stdout.startswith("No value of batch fits")


def test_verdict_tells_of_memory_given_back(script, tmp_path):
    held = answer(script, "--batch", "4096")["reserved_peak_bytes"] >> 20
    table = tmp_path / "gpus.json"
    table.write_text(json.dumps({"tight": {"title": "Tight", "sms": 108, "threads_per_sm": 2048,
                                           "capability": 80, "memory_mib": held + 99,
                                           "context_mib": 100}}))
    given = answer("--gpu-file", table, "--gpu", "tight", script, "--batch", "4096")
    if given["fits"]:
        assert given["retries"] >= 1 and "gives unused memory back" in given["verdict"]
        assert given["reserved_peak_bytes"] < given["reserved_unlimited_bytes"]
    else:
        assert given["needed_bytes"] > (held - 1) << 20


def test_largest_by_halving(script, tmp_path):
    table = tmp_path / "gpus.json"
    table.write_text(json.dumps({"own": {"title": "Own", "sms": 10, "threads_per_sm": 1024,
                                         "capability": 80, "memory_mib": 900,
                                         "context_mib": 100}}))
    done = run("--gpu-file", table, "--gpu", "own", "--largest", "batch=2000:2008", "--json",
               script, "--batch", "{batch}")
    given = json.loads(done.stdout)
    assert given["name"] == "batch"
    fits = {row["value"]: row["fits"] for row in given["tried"]}
    best = given["largest"]
    assert best is None or fits[best]
    assert all(not ok or value <= (best or 0) for value, ok in fits.items())


def test_savings_are_computed(script):
    given = answer("--savings", script, "--batch", "4096")
    found = {saving["name"]: saving for saving in given["savings"]}
    assert set(found) == {"activation checkpointing", "bfloat16 (autocast)",
                          "8-bit optimizer state", "half the batch (2048)"}
    for saving in found.values():
        assert saving["reserved_peak_bytes"] is not None, saving
    assert found["activation checkpointing"]["saves_bytes"] > 0
    assert found["half the batch (2048)"]["saves_bytes"] > 0
    assert found["8-bit optimizer state"]["saves_bytes"] > 0


def test_savings_are_computed_unasked_when_they_are_wanted():
    from acre.predict.__main__ import UNASKED, _is_worth_saving
    from acre.predict.options import Options
    from acre.predict.script import Outcome
    large = {"fits": False, "stopped": None, "seconds": UNASKED}
    assert _is_worth_saving(Options(), large, Outcome())
    assert not _is_worth_saving(Options(), dict(large, fits=True), Outcome())
    assert not _is_worth_saving(Options(), dict(large, stopped="by Ctrl-C"), Outcome())
    assert not _is_worth_saving(Options(), dict(large, seconds=UNASKED + 1), Outcome())
    assert not _is_worth_saving(Options(json=True), large, Outcome())
    assert not _is_worth_saving(Options(), large, Outcome(1, "ValueError: mine"))


@pytest.mark.parametrize("text, status, said", (
    ("raise ValueError('mine')", 2, "ValueError: mine"),
    ("import sys; sys.exit(3)", 2, ""),
    ("import sys; sys.exit('text of the end')", 2, "text of the end"),
    ("import torch\ntorch.randn(3, device='cuda') @ torch.randn(4, device='cuda')", 2,
     "RuntimeError: "),
    ("def f(:", 2, "SyntaxError"),
    ("print('fine')", 0, "")))
def test_programs_that_end_in_their_own_way(tmp_path, text, status, said):
    path = tmp_path / "own.py"
    path.write_text(text)
    done = run(path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "acre/predict" not in done.stderr
    if "raise" in text:
        assert f'File "{path}", line 1, in <module>' in done.stderr
        assert "The program failed" in done.stdout


def test_traceback_names_the_file_as_python_does(tmp_path):
    (tmp_path / "own.py").write_text("raise ValueError('mine')")
    done = run("own.py", folder=tmp_path)
    assert f'File "{tmp_path / "own.py"}", line 1, in <module>' in done.stderr
    assert done.stdout.startswith("The program failed; this is the answer for what ran before: "
                                  "ValueError: mine\n")


def test_missing_file_is_said_as_python_says_it(tmp_path):
    done = run(tmp_path / "nothing.py")
    assert done.returncode == 2
    assert f"can't open file '{tmp_path / 'nothing.py'}': [Errno 2] No such file" in done.stderr


@pytest.mark.parametrize("words", (
    (), ("--gpu", "nothing", "x.py"), ("--item", "2", "x.py"), ("--nonzero", "2", "x.py"),
    ("--largest", "batch", "x.py"), ("--largest", "batch=8:16", "x.py"), ("--rank", "3", "x.py"),
    ("--limit", "-1", "x.py"), ("-o", "/nowhere/x.pickle", "x.py"), ("--", "python", "-X", "x"),
    ("--gpu-file", "/nowhere", "--gpu", "list")))
def test_bad_use(words):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("acre predict: ") and done.stdout == ""


def test_list_of_gpus():
    done = run("--gpu", "list")
    assert done.returncode == 0 and "a100-40" in done.stdout and "H100" in done.stdout


ENDLESS = """
import torch, sys
print("ready", file=sys.stderr, flush=True)
while True:
    x = torch.randn(1024, 1024, device="cuda")
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").close()
    x = x + 1
"""


def test_limit_answers_for_what_ran(tmp_path):
    path, sign = tmp_path / "endless.py", tmp_path / "allocated"
    path.write_text(ENDLESS)
    given = answer("--limit", "1", path, sign)
    assert "--limit" in given["stopped"]
    assert given["script_error"] is None
    if sign.exists():  # it came as far as the first allocation
        assert given["requested_peak_bytes"] >= 4 << 20
        assert given["allocations"] >= 1 and "endless.py" in given["peak_at"]


def heed_interrupts():
    """Jobs in the background of a shell ignore SIGINT; the one to be interrupted must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupt_answers_for_what_ran(tmp_path):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                       TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    environment.setdefault("ACRE_LIBRARY", str(ROOT / "build" / "libacre.so"))
    with subprocess.Popen([sys.executable, "-m", "acre.predict", "--json", str(path)],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, preexec_fn=heed_interrupts) as process:
        for line in process.stderr:
            if line.startswith("ready"):
                break
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert json.loads(out)["stopped"] == "by Ctrl-C"


def test_command_finds_interpreter_and_package(script):
    environment = {name: value for name, value in os.environ.items() if name != "ACRE_LIBRARY"}
    done = subprocess.run([ROOT / "build" / "acre", "predict", "--json", "--", sys.executable,
                           script, "--batch", "8"], env=environment, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"] is True


def test_function_in_python():
    code = ("import acre, torch\n"
            "def job():\n"
            "    return torch.empty(1 << 20, device='cuda').sum()\n"
            "given = acre.predict(job, gpu='l4')\n"
            "assert repr(given).startswith('<Prediction: Fits on L4'), given\n"
            "print(given['gpu'], given['requested_peak_bytes'])\n")
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                       TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    environment.setdefault("ACRE_LIBRARY", str(ROOT / "build" / "libacre.so"))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True, check=True)
    name, size = done.stdout.split()
    assert name == "l4" and int(size) >= 4 << 20


def test_modules_and_texts(tmp_path):
    (tmp_path / "mine.py").write_text("import sys, torch\nprint(sys.argv[1:], __name__)\n"
                                      "torch.zeros(10, device='cuda')\n")
    done = run("--", "python", "-m", "mine", "--flag", folder=tmp_path)
    assert done.returncode == 0 and "['--flag'] __main__" in done.stdout, done.stderr
    done = run("--", "python", "-c", "import sys; print(sys.argv)", "a")
    assert done.returncode == 0 and "['-c', 'a']" in done.stdout


def test_command_helps_and_refuses_as_others_do():
    """As tests/golden/main.txt asks of every command that needs no Python."""
    command = str(ROOT / "build" / "acre")
    helped = subprocess.run([command, "predict", "--help"], capture_output=True, text=True)
    assert helped.returncode == 0 and helped.stdout.startswith("usage: acre predict")
    refused = subprocess.run([command, "predict", "--nonsense"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--nonsense" in refused.stderr and not refused.stdout
