# SPDX-License-Identifier: MIT
"""Programs as people write them run, and what they hold is what they should."""
import json

import pytest
from predicting import JOBS, answer, run


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All programs of one run."""
    path = tmp_path_factory.mktemp("programs") / "found.json"
    given = answer("--gpu", "rtx4090", JOBS / "programs.py", path)
    assert given["script_error"] is None
    return json.loads(path.read_text())


EXPECTED = {
    "classification": [0, 0, 7],
    "encoder": [0, 0.0],
    "diffusion": [0, 10, [2, 3, 16, 16]],
    "recurrence": [[3, 9, 16], [9, 7, 4], [96, 32], [128, 32], [20, 2, 30]],
    "generation": [True, 4, [0, 0, 0]],
    "adapters": [0, 6],
    "captured_training": [[2, True], [2, True], [2, True], True],
    "branches": [0, "not positive", [64], 2048, 2048, 2, [1, 3, 4, 4]],
    "old_types": [[3, 4], [1, 2], "torch.float16", "cuda:0", True, "cuda:0", "cpu",
                  "torch.cuda.FloatTensor"],
    "functions": [[4, 32, 16], [4, 1], True],
    "safetensors": [600576, [300, 500], [10, 500], "cuda:0"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_program(found, name):
    assert found[name] == EXPECTED[name]


SPAWN = """
import sys, torch, torch.distributed as dist
def work(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(rank), [rank])
    net(torch.randn(4, 64).to(rank)).sum().backward()
    print("rank", dist.get_rank(), "of", dist.get_world_size())
if __name__ == "__main__":
    if "spawn" in sys.argv:
        torch.multiprocessing.spawn(work, (4,), nprocs=4)
    else:
        import os
        work(int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"]))
"""


@pytest.mark.parametrize("words", (
    ("SCRIPT", "spawn"), ("torchrun", "--nproc_per_node=4", "SCRIPT"),
    ("-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node", "2", "SCRIPT", "x")))
def test_launchers(tmp_path, words):
    script = tmp_path / "work.py"
    script.write_text(SPAWN)
    done = run("--", *[str(script) if word == "SCRIPT" else word for word in words])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("rank 0 of 4\n")
    assert ("of 4 processes the one of rank 0" in done.stdout) == ("spawn" in words)
    done = run("--", "torchrun", "--nonsense")
    assert done.returncode == 2 and "torchrun's arguments are not understood" in done.stderr


def test_sparse_tensors_are_refused_by_name():
    done = run("--", "python", "-c", "import torch\n"
               "net = torch.nn.Embedding(9, 8, sparse=True).cuda()\n"
               "net(torch.tensor([1], device='cuda')).sum().backward()")
    assert done.returncode == 2
    assert "sparse and quantized tensors on a GPU are not supported" in done.stderr


def test_one_process_is_not_a_world():
    """Libraries that ask the environment must not find a launcher."""
    done = run("--", "python", "-c", "import os\n"
               "print('RANK' in os.environ, 'WORLD_SIZE' in os.environ)")
    assert done.stdout.startswith("False False\n")
