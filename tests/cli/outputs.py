#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every file that a command writes, whichever command: outputs.py ACRE.

Modes, links, full disks, signals and inputs that are outputs; acre/output.h has the promises.
"""
import ctypes
import errno
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

ACRE = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)
TRACE = "".join(f"a {i} 512 0\nf {i}\n" for i in range(1, 50))
CSV = "id,lower,upper,size\n" + "".join(f"{i},{i},{i + 3},64\n" for i in range(50))
passed = 0


def run(folder, *arguments, **more):
    """Runs a command in the folder."""
    return subprocess.run([ACRE, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          **more)


def writers():
    """What writes a file: a name, the arguments, and the file they write."""
    return [
        ("plan", ["plan", "in.csv", "-o", "OUT"], "OUT"),
        ("plan --svg", ["plan", "in.csv", "--svg", "OUT"], "OUT"),
        ("view", ["view", "in.trace", "-o", "OUT"], "OUT"),
        ("diff", ["diff", "in.json", "in.json", "-o", "OUT"], "OUT"),
        ("convert", ["convert", "in.trace", "OUT", "--to", "json"], "OUT"),
        ("convert trace", ["convert", "in.json", "OUT", "--to", "trace"], "OUT"),
        ("demo", ["demo", "-o", "."], "report.html"),
    ]


def inputs(folder):
    """Puts the inputs into a folder."""
    (folder / "in.trace").write_text(TRACE)
    (folder / "in.csv").write_text(CSV)
    done = run(folder, "convert", "in.trace", "in.json")
    assert done.returncode == 0, done.stderr


def check_modes(folder, name, arguments, out):
    """The umask decides about a new file; an existing mode is kept."""
    path = folder / out
    done = run(folder, *arguments, preexec_fn=lambda: os.umask(0o027))
    assert done.returncode == 0, (name, done.stderr)
    assert path.stat().st_mode & 0o777 == 0o640, (name, oct(path.stat().st_mode))
    path.write_text("old")
    path.chmod(0o606)
    assert run(folder, *arguments).returncode == 0, name
    assert path.stat().st_mode & 0o777 == 0o606, (name, oct(path.stat().st_mode))
    assert path.read_text() != "old", name


def check_links(folder, name, arguments, out):
    """A link in the own folder leads to its target; one that others may have planted does not."""
    path, target = folder / out, folder / "target"
    path.unlink()
    path.symlink_to("target")
    done = run(folder, *arguments)
    assert done.returncode == 0 and path.is_symlink() and target.stat().st_size > 10, (name, done)
    target.write_text("precious")
    folder.chmod(0o1777)
    done = run(folder, *arguments)
    folder.chmod(0o700)
    assert done.returncode == 2 and "symbolic link" in done.stderr, (name, done)
    assert target.read_text() == "precious", name
    path.unlink()
    target.unlink()


def check_limit(folder, name, arguments, out):
    """A file that cannot grow: the old one stays, the reason is told, nothing is left behind."""
    path = folder / out
    path.write_text("old")
    before = sorted(os.listdir(folder))

    def limit(how):
        import resource
        signal.signal(signal.SIGXFSZ, how)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    for how in (signal.SIG_IGN, signal.SIG_DFL):
        done = run(folder, *arguments, preexec_fn=lambda how=how: limit(how))
        assert done.returncode in (1, 2), (name, done)  # 1: the demo, whose device is a file too
        assert "File too large" in done.stderr, (name, done.stderr[-300:])
        assert path.read_text() == "old", name
        assert sorted(os.listdir(folder)) == before, (name, os.listdir(folder))
    full = [("/dev/full" if word == "OUT" else word) for word in arguments]
    if full != arguments:
        done = run(folder, *full)
        assert done.returncode == 2 and "No space left on device" in done.stderr, (name, done)


def check_planted(folder, name, arguments, out):
    """Names that a writer might use for what is not whole are not followed."""
    victim = folder / "victim"
    victim.write_text("precious")
    for end in (".part", ".tmp", "~"):
        (folder / (out + end)).symlink_to("victim")
    assert run(folder, *arguments).returncode == 0, name
    assert victim.read_text() == "precious", name
    for end in (".part", ".tmp", "~"):
        (folder / (out + end)).unlink()
    victim.unlink()


def check_same(folder):
    """An output that is an input, or two that are one, are refused before anything is written."""
    for out, svg in (("both", "both"), ("-", "-"), ("both", "./both"),
                     (str(folder / "both"), "both")):
        done = run(folder, "plan", "in.csv", "-o", out, "--svg", svg)
        assert done.returncode == 2 and "choose another name" in done.stderr, done
        assert done.stdout == "" and not (folder / "both").exists(), done
    (folder / "both").write_text("old")
    (folder / "link").symlink_to("both")
    for out, svg in (("both", "link"), ("link", "both"), ("./both", "both")):
        done = run(folder, "plan", "in.csv", "-o", out, "--svg", svg)
        assert done.returncode == 2 and "choose another name" in done.stderr, done
        assert (folder / "both").read_text() == "old", done
    done = run(folder, "plan", "in.csv", "-o", "both", "--svg", "./other")
    assert done.returncode == 0 and (folder / "other").exists(), done
    os.link(folder / "in.csv", folder / "hard.csv")
    (folder / "soft.json").symlink_to("in.json")
    for arguments, path in ((["plan", "in.csv", "-o", "in.csv"], "in.csv"),
                            (["plan", "in.csv", "--svg", "hard.csv"], "in.csv"),
                            (["view", "in.trace", "-o", "./in.trace"], "in.trace"),
                            (["diff", "in.json", "in.json", "-o", "soft.json"], "in.json"),
                            (["convert", "in.json", "soft.json"], "in.json")):
        before = (folder / path).read_bytes()
        done = run(folder, *arguments)
        assert done.returncode == 2 and "choose another name" in done.stderr, (arguments, done)
        assert (folder / path).read_bytes() == before, arguments


def hide_unnamed():
    """From now on no file without a name can be made (O_TMPFILE), as on file systems that lack it:
    a filter of system calls, for this process and those that it becomes."""
    openat = {"x86_64": 257, "aarch64": 56}[os.uname().machine]
    load, equal, has, ends = 0x20, 0x15, 0x45, 0x06
    filters = b"".join(struct.pack("<HBBI", *step) for step in (
        (load, 0, 0, 0), (equal, 0, 3, openat),          # the number of the call
        (load, 0, 0, 32), (has, 0, 1, 0o20000000),       # its third argument
        (ends, 0, 0, 0x50000 | errno.EOPNOTSUPP), (ends, 0, 0, 0x7fff0000)))
    held = ctypes.create_string_buffer(filters, len(filters))
    program = struct.pack("@HP", len(filters) // 8, ctypes.addressof(held))
    if LIBC.prctl(38, 1, 0, 0, 0) != 0 or LIBC.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def can_hide():
    """Whether hide_unnamed() works here: not in an emulator, nor where filters are forbidden."""
    try:
        return subprocess.run(["true"], preexec_fn=hide_unnamed, check=False).returncode == 0
    except (subprocess.SubprocessError, OSError):
        print("skipped: names of files under way: no filter of system calls is to be had")
        return False


def is_unfinished(folder, process):
    """Whether a process has an output open that is not whole."""
    if any(name.startswith(".acre-") for name in os.listdir(folder)):
        return True
    try:
        targets = [os.readlink(link) for link in pathlib.Path(f"/proc/{process}/fd").iterdir()]
    except OSError:  # something was closed, or the process ended
        return False
    return any(target.startswith(str(folder.resolve())) and target.endswith("(deleted)")
               for target in targets)


def stop_in_the_middle(folder, arguments, **more):
    """Starts a command, and stops it while it writes; None: it ended before that."""
    job = subprocess.Popen([ACRE, *arguments], cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, **more)
    while job.poll() is None:
        if is_unfinished(folder, job.pid):
            os.kill(job.pid, signal.SIGSTOP)  # send_signal() would take away a job that has ended
            os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if job.poll() is None and is_unfinished(folder, job.pid):
                return job
            job.send_signal(signal.SIGCONT)
    return None


def check_signal(folder, number, arguments, out, **more):
    """A signal while a command writes; an input that is too small for that is doubled."""
    count = 2000
    while count < 5000000:
        (folder / "long.trace").write_text("".join(f"a {i} 512 0\nf {i}\n" for i in range(count)))
        before = sorted(os.listdir(folder))
        job = stop_in_the_middle(folder, arguments, **more)
        if job:
            job.send_signal(number)
            job.send_signal(signal.SIGCONT)
            assert job.wait(60) == -number, (arguments, job.returncode)
            if not (folder / out).exists():
                assert sorted(os.listdir(folder)) == before, (arguments, number, os.listdir(folder))
                return
        (folder / out).unlink()  # it was whole before the signal came
        count *= 2
    raise AssertionError(f"{arguments} was never seen in the middle of writing")


def check_signals(folder):
    """A signal in the middle of writing leaves the folder as it was, also where a file under way
    has a name; nobody can help it there when it is SIGKILL."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
    is_hidden = can_hide()
    for arguments, out in ((["convert", "long.trace", "out.json"], "out.json"),
                           (["view", "long.trace", "-o", "out.html"], "out.html")):
        for number in (*ends, signal.SIGKILL):
            check_signal(folder, number, arguments, out)
        for number in ends if is_hidden else ():
            check_signal(folder, number, arguments, out, preexec_fn=hide_unnamed)
    (folder / "long.trace").unlink()


def check_standard_output(folder):
    """A long answer that cannot be written, on a full disk or a terminal that went away, ends with
    a sentence."""
    for name, first in (("one", 0), ("two", 6000)):
        blocks = [{"address": 4096 + 512 * i, "size": 512, "requested_size": 512,
                   "state": "active_allocated",
                   "frames": [{"filename": "job.py", "line": i, "name": f"call{first + i}"}]}
                  for i in range(6000)]
        (folder / f"{name}.json").write_text(json.dumps({"device_traces": [], "segments": [
            {"device": 0, "address": 4096, "total_size": 512 * 6000, "allocated_size": 512 * 6000,
             "active_size": 512 * 6000, "stream": 0, "segment_type": "large", "blocks": blocks}]}))
    command = [ACRE, "diff", "one.json", "two.json", "--all"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=120)
    assert done.returncode == 2 and "No space left on device" in done.stderr, done
    leader, terminal = os.openpty()
    with subprocess.Popen(command, cwd=folder, stdout=terminal, stderr=subprocess.PIPE,
                          text=True) as job:
        os.close(terminal)
        os.read(leader, 1)
        os.close(leader)
        text = job.communicate(timeout=120)[1]
    assert job.returncode == 2 and "Input/output error" in text, (job.returncode, text[-300:])


def check_alone(folder):
    """What goes to standard output, by whichever name, stands there alone: also without the JSON
    that is asked for beside it."""
    (folder / "alone.json").write_text((folder / "in.json").read_text())
    small = ["advise", "in.trace", "--device-memory", "1MiB"]  # nothing fits: status 1
    for command, end in ((["advise", "in.trace"], "</html>\n"), (small, "</html>\n"),
                         (["plan", "in.csv"], None),
                         (["diff", "in.json", "alone.json"], "</html>\n"),
                         (["view", "in.trace"], "</html>\n")):
        for more in ([], ["--json"]):
            if more and command[0] == "view":
                continue
            done = run(folder, *command, *more, "-o", "-")
            assert done.returncode in (0, 1) and done.stdout, (command, done)
            assert not end or done.stdout.endswith(end), (command, more, done.stdout[-200:])
            assert end or done.stdout.count("\n") == 51, (command, more, done.stdout)
            for name in ("/dev/stdout", "/proc/self/fd/1"):
                again = run(folder, *command, *more, "-o", name)
                assert again.stdout == done.stdout, (command, more, name, again.stdout[-200:])
                with open(folder / "alone.html", "wb") as file:
                    subprocess.run([ACRE, *command, *more, "-o", name], cwd=folder, stdout=file,
                                   stderr=subprocess.DEVNULL, timeout=120, check=False)
                assert (folder / "alone.html").read_text() == done.stdout, (command, more, name)
    (folder / "alone.html").unlink()
    (folder / "alone.json").unlink()


with tempfile.TemporaryDirectory() as temporary:
    where = pathlib.Path(temporary)
    inputs(where)
    for case in writers():
        for check in (check_modes, check_links, check_limit, check_planted):
            check(where, *case)
            passed += 1
        (where / case[2]).unlink()
    check_same(where)
    check_signals(where)
    check_standard_output(where)
    check_alone(where)
    passed += 4
print(f"{passed} passed, 0 failed")
