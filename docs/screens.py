"""Capture real screens in tmux: `make tui-shot` writes docs/screens/*.txt, and as pictures what the first pages show.

`python docs/screens.py pictures` makes the pictures alone.

A short training of examples/ is watched first, so that there is a run to show. The nodes are simulated, and say so.
This machine is shown, and the training watched, in name spaces of their own where the system allows that: what else
runs on it is nobody's business.
"""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from picture import svg

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCREENS = HERE / "screens"
PATIENCE = 180.0  # s
SETTLE = 2.5  # s: the second reading, without which there are no rates
CURVES = 60.0  # s of a machine's past
NUMBERS = itertools.count()
APART = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]
TASK = [str(ROOT / "tests" / "sharing" / "task.py")]
GPUTUNE = f"{shlex.quote(sys.executable)} -m gputune"


class Tmux:
    """One terminal of tmux, on a server of its own."""

    def __init__(self, command: str, size: tuple[int, int]) -> None:
        self._socket = f"gputune-{os.getpid()}-{next(NUMBERS)}"  # a server that is about to end takes nobody
        width, height = map(str, size)
        environ = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, command, env=environ)

    def _tmux(self, *arguments: str, **options: object) -> str:
        command = ["tmux", "-u", "-L", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout  # type: ignore[call-overload] # of subprocess

    def shown(self) -> str:
        """Return the screen."""
        return "\n".join(line.rstrip() for line in self._tmux("capture-pane", "-p").splitlines()).rstrip() + "\n"

    def coloured(self) -> str:
        """Return the screen with its escape sequences for colours, without what it was asked by."""
        return self._tmux("capture-pane", "-p", "-e").rstrip() + "\n"

    def until(self, text: str) -> None:
        """Wait for a text."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown():
            if time.monotonic() > end:
                raise SystemExit(f"{text!r} was not shown:\n{self.shown()}")
            time.sleep(0.1)

    def press(self, *keys: str) -> None:
        """Type keys, by tmux's names."""
        self._tmux("send-keys", *keys)
        time.sleep(0.5)

    def close(self) -> None:
        """End it and its server."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False, capture_output=True)


def capture(  # noqa: PLR0913 - what is shown, how large, and after what
    name: str, command: str, ready: str, size: tuple[int, int], *keys: str, until: str = "", settle: float = SETTLE
) -> None:
    """Write what a command shows, `settle` s after it was ready, after keys were pressed and `until` has come."""
    terminal = Tmux(command, size)
    try:
        terminal.until(ready)
        time.sleep(settle)
        for key in keys:
            terminal.press(key)
        terminal.until(until)
        SCREENS.mkdir(exist_ok=True)
        (SCREENS / f"{name}.txt").write_text(terminal.shown(), encoding="utf-8")
    finally:
        terminal.close()
    sys.stdout.write(f"docs/screens/{name}.txt\n")


def picture(name: str, command: str, ready: str, size: tuple[int, int], title: str) -> None:
    """Draw what a command shows as docs/screens/NAME.svg, once `ready` is to be seen."""
    terminal = Tmux(command, size)
    try:
        terminal.until(ready)
        time.sleep(SETTLE)
        (SCREENS / f"{name}.svg").write_text(svg(terminal.coloured(), title), encoding="utf-8")
    finally:
        terminal.close()
    sys.stdout.write(f"docs/screens/{name}.svg\n")


def pictures(folder: Path, run: Path) -> None:
    """Draw what the first pages show: a verdict, a run on the screen, a sweep."""
    os.chdir(folder)  # what is shown names no folder of this machine
    name, still = shlex.quote(str(run.relative_to(folder))), f"; sleep {PATIENCE:.0f}"
    watched = "gputune watch -- python examples/train_digits.py"
    picture("verdict", f"{GPUTUNE} report {name}{still}", "next:", (88, 24), watched)
    picture("screen", f"{GPUTUNE} tui {name}", "FINDINGS", (100, 40), "gputune tui")
    os.chdir(ROOT)
    script, out = "examples/train_digits.py", shlex.quote(str(folder / "sweep"))
    swept = f"{GPUTUNE} sweep-loader --write - --out {out} {script} 2>/dev/null"
    picture("sweep", f"{swept}{still}", "best:", (120, 24), f"gputune sweep-loader {script}")


def trained(folder: Path) -> Path:
    """Watch a short training; return its run folder."""
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "make_digits.py")], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    out = folder / "gputune-runs" / "digits"
    training = [
        "python",
        "examples/train_digits.py",
    ]  # as it is typed: what is captured names no folder of this machine
    command = [sys.executable, "-m", "gputune", "watch", "--quiet", "--out", str(out), "--", *training]
    subprocess.run([*apart(), *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return out


def shared(folder: Path) -> Path:
    """Share a simulated card among three short trainings; return the run folder."""
    out = folder / "gputune-runs" / "shared"
    task = [*TASK, "--steps", "400", "--kernel", "0.006", "--idle", "0.014"]
    share = ["-m", "gputune", "share", "--procs", "3", "--trial", "2s", "--python", sys.executable, "--out", str(out)]
    simulated = [str(ROOT / "tests" / "simgpu" / "run.py"), "--devices", "1", "--", sys.executable, *share]
    subprocess.run(
        [sys.executable, *simulated, *task, "--memory", "4e9"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return out


def busy(folder: Path, run: str) -> str:
    """Return the screen of a machine with two simulated cards, on one of which a training is watched."""
    task = "tests/sharing/task.py --steps 100000 --kernel 0.02 --idle 0.01 --memory 4e9"  # as it is typed
    watch = f"(cd {ROOT} && exec {GPUTUNE} watch --quiet --out {folder}/gputune-runs/{run} -- python {task})"
    simulated = [sys.executable, str(ROOT / "tests" / "simgpu" / "run.py"), "--devices", "2", "--"]
    return shlex.join([*simulated, "sh", "-c", f"{watch} >/dev/null 2>&1 & exec {GPUTUNE} tui"])


def apart() -> list[str]:
    """Return what runs a command in name spaces of its own, nothing where these are not to be had."""
    return APART if subprocess.run([*APART, "true"], check=False, capture_output=True).returncode == 0 else []


def alone(command: str) -> str:
    """Return the command in name spaces of its own, where they are to be had, on a machine called m8."""
    where = apart()
    return f"{shlex.join(where)} sh -c {shlex.quote(f'hostname m8; exec {command}')}" if where else command


def main() -> None:
    """Capture every screen."""
    if shutil.which("tmux") is None:
        raise SystemExit("tmux is not installed")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run = trained(folder)
        pictures(folder, run)
        if sys.argv[1:] == ["pictures"]:
            return
        os.chdir(folder)
        shown = f"{GPUTUNE} tui {run.relative_to(folder)}"
        capture("run", shown, "FINDINGS", (100, 40))
        capture("run-80x24", f"{shown} --ascii", "FINDINGS", (80, 24))
        capture("back-in-time", shown, "FINDINGS", (100, 40), "S-Left", "Left", until="judged as of then")
        capture("finding", shown, "FINDINGS", (100, 40), "Enter")
        capture("machine", alone(f"{GPUTUNE} tui"), "HOST", (100, 30))
        capture("machine-200x60", alone(busy(folder, "task")), "HOST", (200, 60), settle=CURVES)
        capture("processes", alone(busy(folder, "again")), "HOST", (100, 24), "p", until="COMMAND", settle=CURVES / 3)
        capture("keys", shown, "FINDINGS", (80, 36), "?")
        both = shared(folder).relative_to(folder)
        capture("share", f"{GPUTUNE} tui {both}", "FINDINGS", (100, 30), "Tab", until="3 processes")
        os.chdir(ROOT)
    bench = f"{shlex.quote(sys.executable)} benchmarks/screen_ours.py 64 --quiet"
    capture("nodes", bench, "n0001", (120, 30), "b", "b")


if __name__ == "__main__":
    main()
