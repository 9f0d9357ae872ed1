"""What a task is about to be is told by its processes: a Python, and one that has begun to load a framework."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

from gputune.sharing import host


def test_a_python_is_told_from_other_programs() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert host.is_python([os.getpid()])
            assert not host.is_python([other.pid])
            assert not host.is_loading([other.pid])
        finally:
            other.kill()
    assert not host.is_python([other.pid])  # it has ended


def test_a_framework_shows_as_soon_as_it_is_mapped(tmp_path: Path) -> None:
    file = tmp_path / "libc10.so"
    file.write_bytes(b"\0" * mmap.PAGESIZE)
    code = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); print(1, flush=True); input()"
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert host.is_loading([process.pid])
        process.kill()
