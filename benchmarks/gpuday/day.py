"""What the parts share: where gputune and torch are, and commands that end within the part's time."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuday.boxes import Box
from gpuday.check import Failed

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRAINING = HERE / "training.py"
NEEDED = {"click": "click", "msgspec": "msgspec", "pyarrow": "pyarrow", "psutil": "psutil", "pynvml": "nvidia-ml-py"}
TRACE = "SIMCUDA_TRACE"
LOOK = (
    "import importlib.util as u,sys;"
    f"print(' '.join(p for m,p in {NEEDED!r}.items() if u.find_spec(m) is None));import gputune"
)


@dataclass(frozen=True)
class Day:
    """Where a part works, with what, and for how long. `gputune`: the command; `python`: of the training."""

    out: Path
    gputune: Sequence[str]
    why_none: str
    simulated: bool
    box: Box
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def ours(self, *words: str) -> list[str]:
        """Return a command of gputune. Raises Failed, with what is missing, where there is none."""
        if not self.gputune:
            raise Failed(self.why_none)
        return [*self.gputune, *words]

    def run(self, command: Sequence[str], *, okay: Sequence[int] = (0,), **more: str) -> str:
        """Run a command within what is left of the part, `more` in its environment; return what it printed."""
        with (self.out / "log.txt").open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            began = time.monotonic()
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    env={**self.environment, **more},
                    cwd=self.out,
                    timeout=max(1.0, self.box.left()),
                    check=False,
                )
            except FileNotFoundError:
                raise Failed(f"there is no `{command[0]}` here") from None
            except subprocess.TimeoutExpired:
                raise Failed(f"the part's {self.box.seconds:.0f} s were over in `{named(command)}`") from None
            log.write(f"{done.stdout}{done.stderr}# {time.monotonic() - began:.1f} s\n")
        if done.returncode not in okay:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no words"]
            raise Failed(f"`{named(command)}` left {done.returncode}: {last[0][:200]}")
        return done.stdout

    def training(self, kind: str, *options: str) -> list[str]:
        """Return the command of one of the day's trainings."""
        return [self.python, str(TRAINING), kind, *options]

    def bare(self, kind: str, *options: str, seconds: float) -> dict[str, Any]:
        """Run a training alone, the device caught up at both ends of what it times; return what it says."""
        return last_json(self.run(self.training(kind, *options), GPU_DAY_SECONDS=str(seconds)))

    def watched(self, name: str, command: Sequence[str], **more: str) -> tuple[dict[str, Any], Path, str]:
        """Run a command under `gputune watch`; return its verdict, its recording, and what it printed."""
        run, verdict = self.out / "recordings" / name, self.out / "work" / f"{name}.json"
        verdict.parent.mkdir(exist_ok=True)
        run.parent.mkdir(exist_ok=True)
        watch = self.ours("watch", "--quiet", "--out", str(run), "--json", str(verdict), "--", *command)
        printed = self.run(watch, **more)
        return json.loads(verdict.read_text()), run, printed

    def told(self, run: Path) -> dict[str, Any]:
        """Return what the device's clock says in a recording (device_told.py), read where gputune is."""
        if not self.gputune:
            raise Failed(self.why_none)
        return last_json(self.run([self.gputune[0], str(HERE / "device_told.py"), str(run)]))


def named(command: Sequence[str]) -> str:
    """Return a command in a few words."""
    words = [Path(word).name if word.startswith("/") else word for word in command]
    return " ".join(words if len(words) < 9 else [*words[:4], "…", *words[-4:]])


def last_json(printed: str) -> dict[str, Any]:
    """Return the last line that is a JSON object. Raises Failed where there is none."""
    found = next(objects(printed), None)
    if found is None:
        raise Failed("it printed no figures")
    return found


def objects(printed: str) -> Iterator[dict[str, Any]]:
    """Yield the lines that are JSON objects, the last one first."""
    return (json.loads(line) for line in reversed(printed.splitlines()) if line.startswith("{"))


def find_gputune(environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the command of this tree's gputune, or none and one sentence of what is missing."""
    first = ""
    beside = ROOT / ".venv" / "bin" / "python"
    program = shutil.which("gputune")
    for python in dict.fromkeys([sys.executable, _interpreter(program), str(beside) if beside.exists() else ""]):
        if not python:
            continue
        done = subprocess.run([python, "-c", LOOK], env=environment, capture_output=True, text=True, check=False)
        lacks = done.stdout.strip() or (done.stderr.strip().splitlines() or [""])[-1]
        if not lacks:
            return [python, "-m", "gputune"], ""
        first = (
            first or f"`{python}` lacks {lacks}: `pip download` them elsewhere and carry them in .whl (docs/gpu-day.md)"
        )
    return [], f"gputune cannot run here: {first}"


def _interpreter(program: str | None) -> str:
    """Return the Python that an installed program names in its first line."""
    if program is None:
        return ""
    with Path(program).open("rb") as file:
        line = file.readline(300)
    word = line[2:].split()[0].decode() if line.startswith(b"#!") and line[2:].split() else ""
    return word if word.startswith("/") and "python" in word and Path(word).exists() else ""
