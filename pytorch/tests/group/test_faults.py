# SPDX-License-Identifier: MIT
"""Ranks that are lost, stopped, or make other calls; see work_faults.py."""
import os
import random
import signal
import time

import pytest

import ranks


def test_a_killed_rank_is_named_in_every_operation():
    with ranks.Job("work_faults:killed", 16) as job:
        job.wait({rank: -signal.SIGKILL for rank in range(2, 16)})


def test_a_stopped_rank_is_named_at_the_time_limit():
    with ranks.Job("work_faults:stopped", 3) as job:
        job.wait({1: -signal.SIGKILL})


def test_mismatches_are_named_and_the_group_goes_on():
    ranks.run("work_faults:mismatched", 3)


def test_a_monitored_barrier_after_messages_of_some_ranks():
    ranks.run("work_faults:monitored_after_messages", 3)


def test_a_monitored_barrier_is_given_up_behind_a_large_message():
    ranks.run("work_faults:given_up", 2)


def test_a_forked_child_does_not_act_for_its_parent():
    ranks.run("work_faults:forked", 2)


def test_a_time_limit_of_centuries_has_not_passed_yet():
    ranks.run("work_faults:patient_for_centuries", 2)


def test_abort_ends_waiting_and_leaves_nothing():
    ranks.run("work_faults:aborted", 2)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_join():
    ranks.run("work_faults:foreign", 2)


def test_ranks_killed_at_any_moment():
    """ACRE_TEST_ROUNDS rounds, 200 in the long form; ACRE_TEST_SEED repeats one."""
    rounds = int(os.environ.get("ACRE_TEST_ROUNDS", "3"))
    first = int(os.environ.get("ACRE_TEST_SEED", random.randrange(1 << 30)))
    slowest = 0.0
    for seed in range(first, first + rounds):
        print(f"ACRE_TEST_SEED={seed}")
        with ranks.Job("work_faults:mixed_until_death", 3, {"ACRE_TEST_SEED": str(seed)}) as job:
            victim = seed % 3
            pid = int(ranks.await_file(job.path / f"pid.{victim}"))
            ranks.await_file(job.path / f"started.{victim}")
            time.sleep(random.Random(seed).uniform(0.1, 0.6))
            os.kill(pid, signal.SIGKILL)
            died = time.monotonic()
            job.wait({victim: -signal.SIGKILL})
            for rank in {0, 1, 2} - {victim}:
                moment, text = (job.path / f"noticed.{rank}").read_text().split(" ", 1)
                assert f"rank {victim}" in text and "sequence number" in text, text
                slowest = max(slowest, float(moment) - died)
    print(f"{rounds} rounds, the slowest rank noticed after {slowest:.3f} s")
    assert slowest < ranks_limit()


def ranks_limit() -> float:
    import work_faults
    return work_faults.LIMIT / 2
