"""Runs pytest, then once more, and alone, those tests that failed.

twice.py NOTES [PYTEST ARGUMENTS]

A machine that builds for several people stands still now and then, and a test that waits for another process may
lose its patience. So a failure counts when it comes twice. What needed a second try is said at the end and written to
the file NOTES, because it is a test to mend; more than a handful of failures is a defect and is not tried again.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

MOST = 15  # failures that a crowded machine may cause; more of them have another cause
FAILED = 1  # pytest's status for "some tests failed"; 2 to 5 are interrupts, its own errors, and no tests at all
Pytest = Callable[[Sequence[str]], int]


def run(arguments: Sequence[str]) -> int:
    """Run pytest in a process of its own and return its exit status, negative for a signal. No locale changes files."""
    environ = {**os.environ, "PYTHONUTF8": "1"}
    return subprocess.run((sys.executable, "-m", "pytest", *arguments), check=False, env=environ).returncode


def twice(notes: Path, arguments: Sequence[str], pytest: Pytest = run) -> int:
    """Run pytest, then its failures again; return 0 if each test has passed once, else the status of the first run."""
    notes.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="twice-") as cache:  # of our own: nothing of an earlier run counts
        same = ["-o", f"cache_dir={cache}", *arguments]
        status = pytest([*same, "--durations=15"])
        failed = failures(Path(cache))
        if status != FAILED or not failed:
            return status
        if len(failed) > MOST:
            print(f"{len(failed)} tests failed: too many for chance, they are not tried again", flush=True)
            return status
        print(f"\n{len(failed)} failed: once more, alone\n", flush=True)
        alone = ["-n", "0"] if "-n" in arguments else []  # several at a time were perhaps too many
        again = pytest([*same, *alone, "--last-failed", "--last-failed-no-failures=none"])
        if again or failures(Path(cache)):
            return status
    said = second_tries(failed)
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text(said, encoding="utf-8")
    print(said, flush=True)
    return 0


def failures(cache: Path) -> list[str]:
    """Return the tests that failed and have not passed since, by pytest's cache in this folder."""
    try:
        known = json.loads((cache / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    except FileNotFoundError:  # nothing failed, or pytest died before it could say so
        return []
    return sorted(known)


def second_tries(failed: Sequence[str]) -> str:
    """Return what is said of tests that passed at their second try."""
    count = f"{len(failed)} TEST{'S' if len(failed) > 1 else ''}"
    rule = "!" * 79
    lines = [rule, f"{count} NEEDED A SECOND TRY: each depends on how busy the machine is, and has to be mended"]
    return "\n".join([*lines, *(f"  {name}" for name in failed), rule, ""])


if __name__ == "__main__":
    sys.exit(abs(twice(Path(sys.argv[1]), sys.argv[2:])))
