"""What `gputune share` must show: packs at their bound, the number that `auto` finds, nobody left behind, and no cost.

All on the simulated card (tests/simgpu), with tests/sharing/task.py as the training. `--only` makes parts of it.

- packs: tasks that keep the card busy 20, 30 and 60 % of the time alone, 2 to 6 at once: what they do together over
  min(N x alone, what the card can do). Their kernels are queued ahead, as a training's are.
- auto: the number that is found against the best one.
- fit: a number that does not fit is refused, with the right sum.
- scenarios: crashes, hangs, signals and OOM at random times: statuses, logs, and processes that are left.
- shell: wall time against `&` and `wait`.
- start: what the launcher adds to the time until the first task begins.
"""

import argparse
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Figure, emit, figure

ROOT = Path(__file__).resolve().parents[1]
TASK = str(ROOT / "tests" / "sharing" / "task.py")
SHARE = (sys.executable, "-m", "gputune", "share", "--python", sys.executable)
SHARES = (0.2, 0.3, 0.6)  # of the card's time, one alone
STEP = 0.04  # s of a step alone
BATCH = 8
BUDGET = 0.97  # of the bound, at least
GB = 10**9
LONGEST = 180.0  # s of any one run
_making = threading.Lock()  # of a card: the library that makes it has one at a time

sys.path.insert(0, str(ROOT / "tests" / "simgpu"))
import simgpu  # noqa: E402 - found by the line above


@contextmanager
def card(**params: int) -> Iterator[tuple[dict[str, str], Path]]:
    """Make a simulated card; yield the environment that has it, and an empty folder."""
    with tempfile.TemporaryDirectory(prefix="share-") as folder:
        with _making:
            state = simgpu.create(Path(folder) / "state")
            simgpu.Cards(state).set(0, **params)
            library = str(simgpu.build())
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        plain.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed, Python keeps what it has compiled
        library = os.pathsep.join(filter(None, [library, plain.get("LD_LIBRARY_PATH", "")]))
        yield {**plain, "SIMGPU_STATE": str(state), "LD_LIBRARY_PATH": library}, Path(folder)


def run(env: dict[str, str], folder: Path, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Run `share --json` to its end; return its status, its document and what it said."""
    command = [*SHARE, "--json", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=LONGEST, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def packed(share: float, procs: object, *, seconds: float = 8.0) -> tuple[dict[str, Any], str]:
    """Run so many tasks at once, each long enough for `seconds` of all of them."""
    slowest = max(1.0, share * procs if isinstance(procs, int) else 2.0)
    steps = math.ceil(6 / STEP + (seconds + 2) / STEP / slowest)  # the first one is alone for the first six seconds
    kernel = share * STEP
    with card() as (env, folder):
        asked = ("--procs", procs, "--trial", 3, TASK, "--kernel", kernel, "--idle", STEP, "--ahead", 8)
        _, found, said = run(env, folder, *asked, "--batch", BATCH, "--steps", steps)
    return found, said


def packs() -> list[Figure]:
    """Return, for each device share, how near packs of 2 to 6 come to their bound: the worst of them counts."""
    figures = []
    for share in SHARES:
        ratios = {}
        for procs in range(2, 7):
            found, _said = packed(share, procs)
            bound = min(procs * found["alone"], BATCH / (share * STEP))
            ratios[procs] = found["together"] / bound
            print(f"{share:.0%} x {procs}: {ratios[procs]:.3f} of {bound:.0f}/s", file=sys.stderr)
        worst = min(ratios.values())
        note = ", ".join(f"{procs}: {ratio:.1%}" for procs, ratio in ratios.items())
        short = 1 - worst
        figures.append(
            Figure(f"share: short of the bound, {share:.0%} busy alone", "ratio", short, short, short, 1 - BUDGET, note)
        )
    return figures


def auto() -> list[Figure]:
    """Return by how many processes `--procs auto` misses the best number."""
    found = {}
    for share in SHARES:
        told, _said = packed(share, "auto", seconds=30.0)  # long enough for copies to be tried
        found[share] = len(told["procs"]) - math.ceil(1 / share)
        print(f"auto, {share:.0%}: {len(told['procs'])}", file=sys.stderr)
    note = ", ".join(f"{share:.0%}: {off:+d}" for share, off in found.items())
    off = float(max(map(abs, found.values())))
    return [Figure("share: `auto` misses the best number by", "processes", off, off, off, 1.0, note)]


def fit(tries: int = 6) -> list[Figure]:
    """Return the share of refusals and admissions that were wrong, by the card's own sums."""
    chance, wrong = random.Random(5), 0
    for _ in range(tries):
        need, procs = chance.randint(5, 40) * GB, chance.randint(2, 6)
        with card(memory_total=100 * GB, memory_reserved=0, context=GB) as (env, folder):
            asked = ("--procs", procs, "--trial", 1, TASK, "--memory", need, "--idle", 0.02, "--steps", 150)
            status, _, said = run(env, folder, *asked)
        fits = procs * (need + GB) <= 100 * GB
        right = status == 0 if fits else status == 2 and f"one takes {(need + GB) / GB:.3g} GB" in said
        wrong += not right
        print(f"{procs} x {need / GB:.0f} GB: status {status}, {'right' if right else said}", file=sys.stderr)
    return [Figure("share: wrong decisions on what fits", "ratio", wrong / tries, wrong / tries, wrong / tries, 0.0)]


# scenarios

FATES: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {  # arguments, and statuses that are right
    "well": ((), (0,)),
    "status": (("--status", "7"), (7,)),
    "crash": (("--crash-at", "{at}"), (1,)),
    "killed": (("--kill-at", "{at}"), (-9,)),
    "oom": (("--grow", str(30 * GB)), (1,)),
    "hangs": (("--hang-at", "{at}"), (-15, -9)),
    "deaf": (("--hang-at", "{at}", "--ignore-term"), (-9,)),
}
TOGETHER = 0.5  # s: who ends within it of another may be met first, on a busy machine
SIGNALS = (None, None, None, signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1)


@dataclass(frozen=True)
class Scenario:
    """What is to happen: a fate for each process, a policy for failures, a signal to the launcher and when."""

    fates: tuple[str, ...]
    policy: str
    number: signal.Signals | None
    after: float

    def __str__(self) -> str:
        what = f"{self.number.name} after {self.after:.1f} s" if self.number else "no signal"
        return f"{', '.join(self.fates)}; {self.policy}; {what}"

    def statuses(self, fate: str, *, sent: bool) -> set[int]:
        """Return the exit codes that a process of this fate may have."""
        right = set(FATES[fate][1])
        if sent:
            right |= {0, -signal.SIGKILL, -signal.SIGTERM, -(self.number or 0)}
            right |= {1} if self.number == signal.SIGINT else set()  # a Python that is interrupted while it starts
        if self.policy == "stop":
            right |= {-signal.SIGTERM, -signal.SIGKILL}
        return right


def scenarios(count: int, seed: int, at_once: int, only: int | None) -> list[Figure]:
    """Run so many random ones, some at a time; return how many of them went wrong."""
    numbers = [only] if only is not None else list(range(count))
    wrong = 0
    with ThreadPoolExecutor(at_once) as pool:
        for number, (one, said) in zip(numbers, pool.map(lambda n: scenario(n, seed), numbers), strict=True):
            if said:
                wrong += 1
                print(f"scenario {number} ({one}): {said}", file=sys.stderr, flush=True)
            elif number % 20 == 19:
                print(f"{number + 1} scenarios, {wrong} wrong", file=sys.stderr, flush=True)
    share = wrong / len(numbers)
    note = f"{len(numbers)} of them, seed {seed}"
    return [Figure("share: random scenarios that went wrong", "ratio", share, share, share, 0.0, note)]


def scenario(number: int, seed: int) -> tuple[Scenario, str]:
    """Make one of them, let it happen, and return it with what was wrong."""
    chance = random.Random(f"{seed}-{number}")  # any one can be repeated by itself
    policy = chance.choice(("continue", "continue", "stop", "restart=1"))
    fates = tuple(chance.choice(list(FATES)) for _ in range(chance.randint(2, 4)))
    one = Scenario(fates, policy, chance.choice(SIGNALS), chance.uniform(0.2, 2.0))
    return one, played(one, chance)


def jobs(one: Scenario, chance: random.Random) -> str:
    """Return a jobs file: for each fate a task of its own."""
    text = ""
    for fate in one.fates:
        words = [word.format(at=f"{chance.uniform(0.1, 0.8):.2f}") for word in FATES[fate][0]]
        steps, children = str(chance.randint(100, 140)), str(chance.randint(0, 2))
        argv = [sys.executable, TASK, "--steps", steps, "--children", children, "--idle", "0.01", *words]
        text += f"[[jobs]]\ncommand = {json.dumps(argv)}\n"
    return text


def played(one: Scenario, chance: random.Random) -> str:
    """Let it happen; return what was wrong, nothing if all was right."""
    mark = f"SCENARIO={os.getpid()}-{time.monotonic_ns()}"
    with card(memory_total=100 * GB, memory_reserved=0) as (plain, folder):
        (folder / "jobs.toml").write_text(jobs(one, chance))
        options = ("--jobs", "jobs.toml", "--on-failure", one.policy, "--stall-timeout", "4", "--grace", "1")
        process = subprocess.Popen(
            [*SHARE, "--json", *options],
            cwd=folder,
            env=dict([*plain.items(), mark.split("=")]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        sent = one.number is not None and hit(process, one.number, one.after)
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            return "it never ended"
        left = marked(mark)
        if left:
            return f"left {left}; {err}"
        if sent and process.returncode == -signal.SIGKILL and one.number == signal.SIGKILL:
            return ""
        why = judged(one, json.loads(out) if out else {}, process.returncode, sent=sent)
        return f"{why}; {out}; {err}" if why else ""


def hit(process: "subprocess.Popen[str]", number: signal.Signals, after: float) -> bool:
    """Send a signal after so many s; return whether it was still there."""
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        return True
    return False


def judged(one: Scenario, found: dict[str, Any], status: int, *, sent: bool) -> str:
    """Return what is wrong with a document and a status, nothing if both are right."""
    if not found:  # it was hit before it had begun; Python itself leaves with 1 where it is interrupted as it starts
        early = status < 0 or (status == 1 and one.number == signal.SIGINT)
        return "" if sent and early else f"no document, status {status}"
    failures = []
    for row, fate in zip(found["procs"], one.fates, strict=True):
        code = row["exit_code"]
        if code is None and not sent and one.policy != "stop":
            return f"{fate} never ran"
        if code is not None and code not in one.statuses(fate, sent=sent):
            return f"{fate} left {code}"
        if code == 0 and not re.search(r"^begin 0.*^end 0$", Path(row["log"]).read_text(), re.DOTALL | re.MULTILINE):
            return f"the log of {fate} is not whole"
        if code:
            failures.append((row["wall_s"], code))
    first = min(failures)[0] if failures else 0.0
    loose = one.policy.startswith("restart")  # the last of several starts counts, and may come later
    allowed = {code for at, code in failures if loose or at <= first + TOGETHER}
    if not failures:
        return "" if status == 0 or sent else f"all were well, and the status {status}"
    return "" if status in allowed else f"the status is {status}, and not of {allowed}"


def marked(mark: str, longest: float = 30.0) -> list[str]:
    """Return what still runs with a variable in its environment, after it had some time to end."""
    until = time.monotonic() + longest
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[-120:])
                except OSError:
                    continue
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


# what it costs

SHELL = 'for i in 0 1 2; do "$0" "$@" --process_index $i --process_num 3 > process$i.log 2>&1 & done; wait'


def warm() -> None:
    """Run once what is to be timed, so that all of it is compiled."""
    with card() as (env, folder):
        run(env, folder, "--procs", 2, "--trial", 0, TASK, "--idle", STEP, "--steps", 100)


def shell(pairs: int, seconds: float) -> list[Figure]:
    """Return how much longer three tasks of so many s take than under a plain shell: all in all, and by themselves."""
    task = (TASK, "--kernel", "0.004", "--idle", "0.036", "--ahead", "8", "--steps", str(round(seconds / STEP)))
    warm()
    whole, own, control = [], [], []
    for number in range(pairs):
        with card() as (env, folder):

            def ours() -> tuple[float, float]:
                return timed([*SHARE, "--procs", "3", "--trial", "0", "--log-dir", ".", *task], env, folder)

            def plain() -> tuple[float, float]:
                return timed(["sh", "-c", SHELL, sys.executable, *task], {**env, "OMP_NUM_THREADS": "1"}, folder)

            times = [one() for one in ((plain, ours, plain) if number % 2 else (plain, plain, ours))]
        mine = times.pop(1 if number % 2 else 2)
        whole.append(mine[0] / statistics.fmean(time[0] for time in times) - 1)
        own.append(mine[1] / statistics.fmean(time[1] for time in times) - 1)
        control.append(times[1][0] / times[0][0] - 1)
        print(f"share {mine}, shell {times}: s in all, and of the longest loop", file=sys.stderr)
    name = f"share: three tasks of {seconds:g} s, longer than under `&` and `wait` by"
    return [
        figure(name, "ratio", whole, 0.01, "from Enter to prompt, the verdict included"),
        figure("  their own loops", "ratio", own, 0.01),
        figure("  A/A: the shell against itself", "ratio", control),
    ]


def timed(command: list[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Return the s that a command takes, and those of the longest loop by the tasks' own logs."""
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True, timeout=LONGEST)
    whole = time.monotonic() - began
    said = [re.search(r"^loop ([\d.]+) s$", file.read_text(), re.MULTILINE) for file in folder.glob("process*.log")]
    return whole, max(float(match[1]) for match in said if match)


def start(times: int) -> list[Figure]:
    """Return what passes until the first task begins, beyond a bare start of it."""
    code = "import time; print(time.monotonic_ns())"
    warm()
    added, whole = [], []
    for _ in range(times):
        with card() as (env, folder):
            began = time.monotonic_ns()
            done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, check=True)
            bare = (int(done.stdout) - began) / 1e9
            began = time.monotonic_ns()
            command = [
                *SHARE,
                "--procs",
                "1",
                "--no-index-args",
                "--log-dir",
                "l",
                "--",
                sys.executable,
                "-S",
                "-c",
                code,
            ]
            subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True, timeout=LONGEST)
            ended = time.monotonic_ns()
            added.append((int((folder / "l" / "process0.log").read_text()) - began) / 1e9 - bare)
            whole.append((ended - began) / 1e9)
    return [
        figure("share: the first task starts later by", "s", added, 0.3),
        figure("share: a task that does nothing, from Enter to prompt", "s", whole),
    ]


def main() -> None:
    """Run what was asked for, and print a line of JSON for each figure."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--only", action="append", choices=["packs", "auto", "fit", "scenarios", "shell", "start"])
    options.add_argument("--scenarios", type=int, default=200)
    options.add_argument("--seed", type=int, default=3, help="of the scenarios")
    options.add_argument("--at-once", type=int, default=2, help="scenarios at a time")
    options.add_argument("--scenario", type=int, help="this one only")
    options.add_argument("--seconds", type=float, default=30.0, help="of a task, against the shell")
    options.add_argument("--pairs", type=int, default=4)
    asked = options.parse_args()
    parts: dict[str, Callable[[], list[Figure]]] = {
        "packs": packs,
        "auto": auto,
        "fit": fit,
        "scenarios": lambda: scenarios(asked.scenarios, asked.seed, asked.at_once, asked.scenario),
        "shell": lambda: shell(asked.pairs, asked.seconds),
        "start": lambda: start(20),
    }
    for name, part in parts.items():
        if not asked.only or name in asked.only:
            emit(part())


if __name__ == "__main__":
    main()
