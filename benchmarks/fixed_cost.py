"""What `gputune watch` adds to a command that does nothing: wall time, time to its start, memory; and `--version`.

Paired and alternating: bare, watched, watched, bare, with bare against bare as the A/A control.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import PLAIN, YARDSTICK, Figure, emit, figure

PROBE = r"""
#include <stdio.h>
#include <time.h>
int main(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec); return 0; }
"""


def build(folder: Path) -> Path:
    """Compile a command that prints when it started (ns of CLOCK_MONOTONIC)."""
    source = folder / "started.c"
    source.write_text(PROBE)
    subprocess.run(["cc", "-O1", "-o", str(folder / "started"), str(source)], check=True)
    return folder / "started"


def once(command: list[str], folder: Path) -> tuple[float, float]:
    """Return (s from here to the command's first instruction, s until all is over).

    `folder` is the current one: gputune's own would have settings to read in its pyproject.toml.
    """
    began = time.monotonic_ns()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, cwd=folder)
    ended = time.monotonic_ns()
    return (int(done.stdout) - began) / 1e9, (ended - began) / 1e9


def memory(gputune: str, folder: Path) -> tuple[float, float]:
    """Return the resident MB of the supervisor and of the recorder while a command runs."""
    command = [gputune, "watch", "--out", str(folder / "memory"), "--", sys.executable, "-c", "input()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        most = {"supervisor": 0.0, "recorder": 0.0}
        while time.monotonic() < deadline:
            most["supervisor"] = max(most["supervisor"], resident(process.pid))
            for child in children(process.pid):
                if b"input()" not in Path(f"/proc/{child}/cmdline").read_bytes() or is_fork(child, process.pid):
                    most["recorder"] = max(most["recorder"], resident(child))
            time.sleep(0.25)
            if time.monotonic() > deadline - 15:
                break
        return most["supervisor"], most["recorder"]
    finally:
        process.communicate(b"\n", timeout=30)


def lasts(command: list[str]) -> float:
    """Return the s that a command takes."""
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def is_fork(child: int, parent: int) -> bool:
    """Return whether the child still runs the parent's program: the recorder is a fork of the supervisor."""
    return Path(f"/proc/{child}/exe").readlink() == Path(f"/proc/{parent}/exe").readlink() and (
        Path(f"/proc/{child}/cmdline").read_bytes() == Path(f"/proc/{parent}/cmdline").read_bytes()
    )


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident(pid: int) -> float:
    """Return the resident set in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    rounds = options.parse_args().rounds
    gputune = str(Path(sys.executable).with_name("gputune"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = [str(build(folder))]
        started, added, control = [], [], []
        for number in range(rounds):
            watched = [gputune, "watch", "--out", str(folder / f"run{number}"), "--", *bare]
            pair = [once(bare, folder), once(watched, folder), once(bare, folder)]
            started.append(pair[1][0])
            added.append(pair[1][1] - pair[0][1])
            control.append(pair[2][1] - pair[0][1])
        version, help_time, python, plain = [], [], [], []
        base = str(getattr(sys, "_base_executable", sys.executable))  # no .pth files of ours
        for _ in range(rounds):
            version.append(lasts([gputune, "--version"]))
            help_time.append(lasts([gputune, "--help"]))
            python.append(lasts([sys.executable, "-I", "-S", "-c", "pass"]))
            plain.append(lasts([base, "-c", "pass"]))
        supervisor, recorder = memory(gputune, folder)
    emit(
        [
            figure("watch: command started after Enter", "s", started, 0.040),
            figure("watch: wall time added to a command that does nothing", "s", added, 0.100),
            figure("A/A control of the line above (bare against bare)", "s", control),
            figure(YARDSTICK, "s", python),
            figure(PLAIN, "s", plain),
            figure("gputune --version", "s", version, 0.060),
            figure("gputune --help", "s", help_time, 0.060),
            Figure("supervisor, resident", "MB", supervisor, supervisor, supervisor, 16),
            Figure("recorder, resident", "MB", recorder, recorder, recorder, 80),
        ]
    )


if __name__ == "__main__":
    main()
