#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How `acre run` ends, passes signals on and names who is late: run.py ACRE SYMM_HELLO SHARE.

Waits are for facts (a file, a line, an end), never for an amount of time; a command that does
not end fails by the limit of subprocess.
"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

ACRE, HELLO, SHARE = sys.argv[1:4]
LIMIT = 60
passed = 0


def start(folder, ranks, script, *options, **more):
    """Starts a shell script as so many ranks, in its own folder."""
    command = [ACRE, "run", "-n", str(ranks), *options, "--", "sh", "-c", script]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL,
                            text=True,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


def until(path):
    """Waits until a file is there and has a line; returns it."""
    for _ in range(LIMIT * 100):
        if path.exists() and path.read_text().endswith("\n"):
            return path.read_text().strip()
        time.sleep(0.01)
    raise AssertionError(f"{path.name} does not come")


def is_alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ends(pid):
    """Waits for the end of a process that is not a child."""
    for _ in range(LIMIT * 100):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} stays")


def a_writer_left_behind_does_not_hold_it(folder):
    """A grandchild of another session writes into the pipe for ever."""
    job = start(folder, 1, """setsid sh -c 'echo $$ >pid; while echo more; do :; done' &
        while ! [ -s pid ]; do sleep 0.01; done; echo done""")
    out, _ = job.communicate(timeout=LIMIT)
    assert job.returncode == 0 and "[0] done" in out, (job.returncode, out[-200:])
    ends(int(until(folder / "pid")))  # by SIGPIPE: nobody reads any more


def a_sleeper_left_behind_does_not_hold_it(folder):
    """A grandchild holds the pipe and is silent."""
    job = start(folder, 2, """setsid sh -c 'echo $$ >pid$ACRE_RANK; exec sleep 1000' &
        while ! [ -s pid$ACRE_RANK ]; do sleep 0.01; done; echo $ACRE_RANK""")
    out, _ = job.communicate(timeout=LIMIT)
    for rank in range(2):
        os.kill(int(until(folder / f"pid{rank}")), signal.SIGKILL)
    assert job.returncode == 0 and sorted(out.split("\n")) == ["", "[0] 0", "[1] 1"], out


def signals_reach_what_an_ended_rank_left(folder):
    """Rank 0 has ended; a process of its group is told nevertheless."""
    job = start(folder, 2, """if [ $ACRE_RANK = 0 ]; then
        sh -c 'trap "echo told >told; exit" TERM; echo $$ >pid; while :; do sleep 0.01; done' &
        while ! [ -s pid ]; do sleep 0.01; done
        else while ! [ -s pid ]; do sleep 0.01; done; echo here >here; exec sleep 1000; fi""")
    until(folder / "here")
    pid = int(until(folder / "pid"))
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 1 and "stopped by signal 15" in err, err
    assert until(folder / "told") == "told"
    ends(pid)


def a_stubborn_rank_is_killed(folder):
    """SIGINT is ignored by a rank and by what it started; twice means at once."""
    job = start(folder, 1, """trap "" INT TERM; sh -c 'echo $$ >pid; while :; do sleep 0.01; done' &
        while :; do sleep 0.01; done""")
    pid = int(until(folder / "pid"))
    job.send_signal(signal.SIGINT)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 1 and "stopped by signal 2" in err, err
    ends(pid)


def user_signals_are_passed_on_and_end_nothing(folder):
    """SIGUSR1 and SIGUSR2 come to the ranks, which end as they like."""
    job = start(folder, 2, """trap "echo one >one$ACRE_RANK" USR1; trap "echo two; exit 0" USR2
        echo ready >ready$ACRE_RANK; while :; do sleep 0.01; done""")
    for rank in range(2):
        until(folder / f"ready{rank}")
    job.send_signal(signal.SIGUSR1)
    for rank in range(2):
        until(folder / f"one{rank}")
    job.send_signal(signal.SIGUSR2)
    out, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 0 and sorted(out.split("\n")) == ["", "[0] two", "[1] two"], (out, err)


def an_output_that_nobody_reads_does_not_hold_it(folder):
    """The pipe behind standard output is full; SIGTERM is obeyed."""
    reader, writer = os.pipe()
    job = start(folder, 1, "echo $$ >pid; while :; do echo a line of some length; done",
                stdout=writer)
    os.close(writer)
    until(folder / "pid")
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=LIMIT)
    os.close(reader)
    assert job.returncode == 1


def errors_that_nobody_reads_do_not_hold_it(folder):
    """The pipe behind standard error is full to the last byte; SIGTERM is obeyed."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"a" * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)
    job = start(folder, 1, "echo $$ >pid; exec sleep 1000", stderr=writer)
    os.close(writer)
    until(folder / "pid")
    job.send_signal(signal.SIGTERM)
    try:
        assert job.wait(LIMIT) == 1
    finally:
        job.kill()
        job.communicate()
        os.close(reader)


def a_rank_in_another_process_group_is_told(folder):
    """A rank goes to the group of its parent, which signals to its own group miss."""
    (folder / "rank.py").write_text("""if True:
        import os, pathlib, time
        os.setpgid(0, os.getpgid(os.getppid()))
        pathlib.Path("pid").write_text(f"{os.getpid()}\\n")
        time.sleep(1000)
    """)
    job = start(folder, 1, f"exec {sys.executable} rank.py", preexec_fn=os.setpgrp)
    pid = int(until(folder / "pid"))
    job.send_signal(signal.SIGTERM)
    try:
        _, problem = job.communicate(timeout=LIMIT)
    finally:
        job.kill()
    assert job.returncode == 1 and "stopped by signal 15" in problem, problem
    ends(pid)


def who_is_missing_is_named(folder):
    """Rank 1 does not come to the rendezvous of rank 0 and 2 before it was named."""
    job = start(folder, 3, f"""if [ $ACRE_RANK = 1 ]; then
        while ! [ -e go ]; do sleep 0.01; done; fi; exec {HELLO}""", "--late", "1")
    line = job.stderr.readline()
    while line and "2 of 3" not in line:  # on a slow machine rank 2 may be late as well, first
        line = job.stderr.readline()
    (folder / "go").touch()
    _, rest = job.communicate(timeout=LIMIT)
    assert 'acre run: 2 of 3 ranks wait in group "' in line and "for rank 1 (process" in line, line
    assert job.returncode == 0, rest


def who_ended_first_is_named(folder):
    """Rank 1 ends well and early."""
    job = start(folder, 3, "[ $ACRE_RANK = 1 ] || while ! [ -e go ]; do sleep 0.01; done",
                "--late", "1")
    line = job.stderr.readline()
    (folder / "go").touch()
    job.communicate(timeout=LIMIT)
    assert line == "acre run: rank 1 ended first, with status 0; still running: 0, 2\n", line
    assert job.returncode == 0


def the_example_of_sharing_leaves_no_child(folder):
    """The exporter fails before it exports; a child that stays would hold the pipe."""
    environment = {"ACRE_BACKENDS": "host", "PATH": os.environ["PATH"]}
    done = subprocess.run([SHARE], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
    assert done.returncode == 1, done


def ends_although_its_parent_ignores_children(folder):
    """Who starts it ignores SIGCHLD: the ends of ranks are seen, and how they ended."""
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    job = start(folder, 2, "[ $RANK = 1 ] || exit 3; sleep 1000", preexec_fn=ignore)
    _, problem = job.communicate(timeout=LIMIT)
    assert job.returncode == 1 and "rank 0 ended with status 3" in problem, problem


def what_is_ignored_stays_ignored(folder):
    """As nohup starts it: neither the command nor the ranks end by a hang-up."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = start(folder, 1, """kill -HUP $$; echo >ready
        while ! [ -e go ]; do sleep 0.01; done; echo done""", preexec_fn=ignore)
    until(folder / "ready")
    job.send_signal(signal.SIGHUP)
    (folder / "go").touch()
    out, problem = job.communicate(timeout=LIMIT)
    assert job.returncode == 0 and out == "[0] done\n", (job.returncode, out, problem)


def the_job_ends_with_the_reader_of_its_output(folder):
    """As in "acre run ... | head -1": what the ranks started ends as well."""
    job = start(folder, 2, """trap '' PIPE; sleep 77 & echo $! >pid.$ACRE_RANK
        while :; do echo line; sleep 0.01; done""")
    job.stdout.readline()
    for rank in range(2):
        until(folder / f"pid.{rank}")
    job.stdout.close()
    assert job.wait(LIMIT) == 1, job.returncode
    assert job.stderr.read() == ""
    for rank in range(2):
        ends(int((folder / f"pid.{rank}").read_text()))


def closed_outputs_do_not_hold_it(folder):
    """Descriptors 0 to 2 are closed: no pipe of a rank gets their numbers."""
    for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
        script = "for i in 1 2 3; do echo out; echo err >&2; done"
        job = start(folder, 2, script, preexec_fn=lambda: [os.close(fd) for fd in closed])
        out, problem = job.communicate(timeout=LIMIT)
        assert job.returncode == 0, (closed, job.returncode, problem)
        assert out.count("out\n") == (0 if 1 in closed else 6), (closed, out)
        assert problem.count("err\n") == (0 if 2 in closed else 6), (closed, problem)


def the_port_is_free_for_a_rank(folder):
    """Rank 0 listens on MASTER_PORT, which is not the store's, and rank 1 reaches it."""
    (folder / "rank.py").write_text("""if True:
        import os, pathlib, socket, time
        assert os.environ["ACRE_STORE"] != "tcp:127.0.0.1:" + os.environ["MASTER_PORT"]
        assert os.environ["LOCAL_RANK"] == os.environ["RANK"] == os.environ["ACRE_RANK"]
        assert os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"] == "2"
        where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if os.environ["RANK"] == "0":
            with socket.create_server(where) as server:
                pathlib.Path("listens").touch()
                server.accept()[0].sendall(b"heard")
        else:
            while not pathlib.Path("listens").exists():
                time.sleep(0.01)
            with socket.create_connection(where) as connection:
                print(connection.recv(5).decode())
    """)
    for options in ((), ("--store", "file:" + str(folder / "store"))):
        (folder / "listens").unlink(missing_ok=True)
        job = start(folder, 2, f"exec {sys.executable} rank.py", *options)
        out, problem = job.communicate(timeout=LIMIT)
        assert job.returncode == 0 and out == "[1] heard\n", (job.returncode, out, problem)


def ranks_are_bound_to_what_is_allowed(folder):
    """Under taskset or in a control group, --bind leaves the other processors alone."""
    last = max(os.sched_getaffinity(0))
    job = start(folder, 2, "grep Cpus_allowed_list: /proc/self/status", "--bind", "--plain",
                preexec_fn=lambda: os.sched_setaffinity(0, {last}))
    out, problem = job.communicate(timeout=LIMIT)
    assert job.returncode == 0 and out == 2 * f"Cpus_allowed_list:\t{last}\n", (out, problem)


def ranks_get_no_descriptor_of_the_command(folder):
    """Neither the store's sockets nor pipes of other ranks: no more than the three that are open
    in every program."""
    (folder / "rank.py").write_text("""if True:
        import os
        def is_open(fd):
            try:
                return os.fstat(fd) is not None
            except OSError:
                return False
        print([fd for fd in range(1000) if is_open(fd)])
        """)
    job = start(folder, 3, f"exec {sys.executable} rank.py", "--plain")
    out, problem = job.communicate(timeout=LIMIT)
    assert job.returncode == 0 and out == 3 * "[0, 1, 2]\n", (out, problem)


def without_descriptors_it_ends(folder):
    """With few descriptors fewer ranks than asked for, or none, can be started: that is said, and
    is a failure. With some numbers the store has none left to talk to this command."""
    for few in range(6, 24):
        job = start(folder, 4, "exit 0",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few, few)))
        _, err = job.communicate(timeout=LIMIT)
        assert (job.returncode == 0) == ("Too many open files" not in err), (few, err)
    assert job.returncode == 0, err


def a_full_disk_is_told(folder):
    """What ranks print is lost; they themselves go on."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        job = start(folder, 2, "echo line; echo end >end$ACRE_RANK", stdout=full)
        _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 1 and "could be written: No space left on device" in err, err
    for rank in range(2):
        assert until(folder / f"end{rank}") == "end"


for case in (a_writer_left_behind_does_not_hold_it, a_sleeper_left_behind_does_not_hold_it,
             signals_reach_what_an_ended_rank_left, a_stubborn_rank_is_killed,
             user_signals_are_passed_on_and_end_nothing,
             an_output_that_nobody_reads_does_not_hold_it,
             errors_that_nobody_reads_do_not_hold_it, a_rank_in_another_process_group_is_told,
             who_is_missing_is_named, who_ended_first_is_named,
             ends_although_its_parent_ignores_children, what_is_ignored_stays_ignored,
             closed_outputs_do_not_hold_it, the_job_ends_with_the_reader_of_its_output,
             the_port_is_free_for_a_rank, the_example_of_sharing_leaves_no_child,
             ranks_are_bound_to_what_is_allowed, ranks_get_no_descriptor_of_the_command,
             without_descriptors_it_ends, a_full_disk_is_told):
    with tempfile.TemporaryDirectory() as name:
        case(pathlib.Path(name))
        passed += 1
        print("ok  ", case.__name__, flush=True)
print(f"{passed} passed, 0 failed")
