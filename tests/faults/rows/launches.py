"""However a training is started, it is hooked or named: 31 ways, each with the command's own output and status.

Where the guest gets in, the run tells of its batches; where it does not (`-I`, an environment of its own) it names the
process and the reason, so that nobody is told "0 % wait" of a training that was not seen.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.row import Case, must
from tests.faults.runs import FAKE_TORCH, GPUTUNE

TESTS = "guest/test_sitecustomize.py; probes/test_unseen.py; watch/test_launchers.py"
SECONDS = 120.0
PYTHON = sys.executable
OUTPUT = "6 batches\n"
STATUS = 3
TRAIN = f"""#!{PYTHON}
import mmap, sys, time
sys.path.insert(0, {str(FAKE_TORCH)!r})
import torch
from torch.utils.data import DataLoader

def main():
    with open({{library!r}}, "rb") as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), bytearray(80 << 20)  # looks like one with torch inside
    optimizer = torch.optim.Optimizer()
    count = 0
    for batch in DataLoader(list(range(24)), batch_size=4):
        optimizer.step()
        count += 1
        time.sleep(0.1)
    if "gputune_guest" not in sys.modules: time.sleep(4)  # who has torch inside and no guest is looked for every 2 s
    print(count, "batches", flush=True)
    sys.exit({STATUS})

if __name__ == "__main__":
    main()
"""
PARENT = """
import multiprocessing, sys, train
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=train.main)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""
RUN = "import os, subprocess, sys; sys.exit(subprocess.run([sys.executable, 'train.py'], env={env}).returncode)"
# How it is started, and whether the guest gets in.
WAYS: dict[str, tuple[tuple[str, ...], bool]] = {
    "a script": ((PYTHON, "train.py"), True),
    "a module": ((PYTHON, "-m", "train"), True),
    "-c": ((PYTHON, "-c", "import train; train.main()"), True),
    "standard input": (("sh", "-c", f"{PYTHON} - < train.py"), True),
    "-u": ((PYTHON, "-u", "train.py"), True),
    "-O": ((PYTHON, "-O", "train.py"), True),
    "-OO": ((PYTHON, "-OO", "train.py"), True),
    "-B": ((PYTHON, "-B", "train.py"), True),
    "-X dev": ((PYTHON, "-X", "dev", "train.py"), True),
    "-W error": ((PYTHON, "-W", "error", "train.py"), True),
    "-s": ((PYTHON, "-s", "train.py"), True),
    "-P": ((PYTHON, "-P", "train.py"), True),
    "-I": ((PYTHON, "-I", "train.py"), False),
    "-E": ((PYTHON, "-E", "train.py"), False),
    "-S": ((PYTHON, "-S", "train.py"), False),
    "its first line": (("./train.py",), True),
    "a shell": (("sh", "-c", f"{PYTHON} train.py; exit $?"), True),
    "exec of a shell": (("sh", "-c", f"cd . && exec {PYTHON} train.py"), True),
    "a shell's script": (("bash", "train.sh"), True),
    "env": (("env", "A=b", PYTHON, "train.py"), True),
    "env -i": (("env", "-i", PYTHON, "train.py"), False),
    "env PYTHONPATH": (("env", "PYTHONPATH=/mine", PYTHON, "train.py"), False),
    "timeout": (("timeout", "100", PYTHON, "train.py"), True),
    "nice and setsid": (("nice", "setsid", "-w", PYTHON, "train.py"), True),
    "a child": ((PYTHON, "-c", RUN.format(env="None")), True),
    "a child without an environment": ((PYTHON, "-c", RUN.format(env="{}")), False),
    "exec of Python": ((PYTHON, "-c", f"import os; os.execv({PYTHON!r}, [{PYTHON!r}, 'train.py'])"), True),
    "runpy": ((PYTHON, "-c", "import runpy; runpy.run_path('train.py', run_name='__main__')"), True),
    "an archive": ((PYTHON, "train.pyz"), True),
    "a forked child": ((PYTHON, "fork.py"), True),
    "a spawned child": ((PYTHON, "spawn.py"), True),
}
ALL = list(itertools.product(("", "1"), WAYS))  # hooks in C, and in Python
QUICK, FULL, SHARE = len(WAYS), len(ALL), 2


def laid(home: Path) -> None:
    """Lay the training there, in all its forms."""
    library = home / "libtorch_cpu.so"
    library.write_bytes(bytes(4096))
    code = TRAIN.format(library=str(library))
    (home / "train.py").write_text(code)
    (home / "train.py").chmod(0o755)
    (home / "train.sh").write_text(f"{PYTHON} train.py\n")
    for method in ("fork", "spawn"):
        (home / f"{method}.py").write_text(PARENT.format(method=method))
    with zipfile.ZipFile(home / "train.pyz", "w") as archive:
        archive.writestr("__main__.py", code)


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    def case(number: int) -> None:
        pure, way = ALL[number]
        argv, hooked = WAYS[way]
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        laid(home)
        env = {**os.environ, "GPUTUNE_GUEST_PURE": pure, "PYTHONDONTWRITEBYTECODE": "1"}
        command = (*GPUTUNE, "watch", "--no-stacks", "--out", "run", "--", *argv)
        nothing = subprocess.DEVNULL
        done = subprocess.run(
            command, cwd=home, env=env, stdin=nothing, capture_output=True, text=True, timeout=SECONDS - 20, check=False
        )
        must(done.returncode == STATUS, f"{way}: status {done.returncode}: {done.stderr}")
        must(done.stdout == OUTPUT, f"{way}: {done.stdout!r}, {done.stderr}")
        told: dict[str, Any] = json.loads((home / "run" / "run.json").read_text())
        states = [(each["state"], each["why"]) for each in told["processes"] if each["role"] == "main"]
        if hooked:
            verdict = json.loads((home / "run" / "findings.json").read_text())
            must(verdict["batches"] == 6, f"{way}: {verdict['batches']} batches were seen: {states}")
        else:
            must(("none" in dict(states)) and all(why for state, why in states if state == "none"), f"{way}: {states}")
            must(
                "not seen" in done.stderr or "no guest" in done.stderr or states[0][1] in done.stderr,
                f"{way}: {done.stderr}",
            )

    yield case
