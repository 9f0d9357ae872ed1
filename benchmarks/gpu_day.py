"""`make gpu-day`: the checks of the simulated card on a real one, in eight minutes, and a table beside the simulated.

    python benchmarks/gpu_day.py [--only clock,cost] [--matching WORD] [--out DIR] [--seconds 480]

It needs a torch with CUDA in the Python that runs it, and gputune's libraries in that one, in this tree's .venv or in
wheels under .whl (docs/gpu-day.md). Each part is a process with a time box of its own; what fails says so in one
sentence, what does not fit is listed as not run. DIR gets results.json, results.md, log.txt and recordings-1.tar.gz;
another call with other parts and the same DIR goes on in it. Status: 0 nothing that was promised failed, 1 something
did, 77 there is no card, 2 the options are wrong.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpuday import boxes, causes, clock, cost, instruments, machine, several, table, windows
from gpuday.check import NOT_HELD, Check, Step
from gpuday.day import ROOT, Day, find_gputune

NO_CARD = 77
KEPT = Path(__file__).with_name("gpu_day_simulated.json")
PARTS: dict[str, tuple[float, Sequence[Step]]] = {  # s of each, and what it does
    "machine": (15, machine.STEPS),
    "instruments": (55, instruments.STEPS),
    "clock": (100, clock.STEPS),
    "cost": (80, cost.STEPS),
    "several": (45, several.STEPS),
    "windows": (190, windows.STEPS),
    "causes": (150, causes.STEPS),
}
ORDER = [(part, name) for part, (_, steps) in PARTS.items() for step in steps for name in step.names]
LEAST_S = 10.0  # left of the whole: with less no part is begun
WHEELS = ROOT / ".whl"


def no_card() -> str:
    """Return why no card can be used, empty where one can."""
    if importlib.util.find_spec("torch") is None:
        return f"`{sys.executable}` has no torch: run this with the Python whose torch has CUDA (PYTHON=…)"
    try:
        import torch  # noqa: PLC0415 - it may not be there

        if torch.version.cuda is None:
            return f"there is no card to use: torch {torch.__version__} of `{sys.executable}` is built without CUDA"
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError, ImportError, OSError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return f"there is no card to use: {said[0]}"
    return ""


def simulated() -> bool:
    """Return whether the card is one of simcuda's."""
    import torch  # noqa: PLC0415 - known to be there

    return "simulated" in torch.cuda.get_device_name(0).lower() or "simcuda" in os.environ.get("LD_PRELOAD", "")


def environment(site: Path) -> dict[str, str]:
    """Return the environment of all commands: this tree's gputune, and what wheels under .whl brought to `site`."""
    wheels = sorted(WHEELS.glob("*.whl"))
    if wheels and not site.exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--no-compile",
            "--target",
            str(site),
        ]
        done = subprocess.run([*pip, *map(str, wheels)], capture_output=True, text=True, check=False)
        if done.returncode:
            print(
                f"gpu-day: the wheels under {WHEELS} cannot be installed: {done.stderr.strip()[-200:]}", file=sys.stderr
            )
    paths = [str(ROOT), *([str(site)] if site.exists() else []), *filter(None, [os.environ.get("PYTHONPATH")])]
    path = os.pathsep.join([*([str(site / "bin")] if site.exists() else []), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PATH": path, "PYTHONUNBUFFERED": "1"}


def folder(asked: Path | None, card: str) -> Path:
    """Return the folder of the results: new, empty, or of an earlier call. Raises SystemExit of another one."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", card).strip("-")
    out = (asked or ROOT / "gpu-day" / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}").resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / "results.json").exists():
        raise SystemExit(f"gpu-day: {out} is neither empty nor a day's folder")
    return out


def earlier(out: Path, card: object) -> list[Check]:
    """Return what an earlier call left in the folder. Raises SystemExit where that was another card, or is no such."""
    if not (out / "results.json").exists():
        return []
    try:
        found = json.loads((out / "results.json").read_text())
        if found["about"]["card"] != card:
            raise SystemExit(f"gpu-day: {out} is of {found['about']['card']}: name another folder")
        return table.checks_of(found)
    except (ValueError, KeyError, TypeError, table.Unreadable) as error:
        raise SystemExit(f"gpu-day: {out}/results.json cannot be gone on with: {error}") from None


def steps_of(part: str, word: str) -> list[Step]:
    """Return the steps of a part of which a check has `word` in its name."""
    return [step for step in PARTS[part][1] if any(word in name for name in step.names)]


def run_part(part: str, word: str, out: Path, seconds: float, whole: boxes.Box) -> list[Check]:
    """Run a part as a process of its own, ended with all that it started when its box is over; return its checks."""
    steps = steps_of(part, word)
    seconds = min(seconds, whole.left() - boxes.LAST_S)
    rows = out / f"{part}.jsonl"
    if seconds < LEAST_S:
        return boxes.kept(
            rows, part, steps, f"its share of the {whole.seconds:.0f} s for all was under {LEAST_S:.0f} s"
        )
    command = [sys.executable, __file__, "--inside", part, "--out", str(out), "--seconds", str(seconds)]
    command += ["--matching", word]
    why = f"the part's {seconds:.0f} s were over"
    with (out / "log.txt").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(seconds + 3)
            why = f"the part ended with status {status}: log.txt has its words"
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    made = boxes.kept(rows, part, steps, why)
    rows.unlink(missing_ok=True)
    return made


def inside(part: str, word: str, out: Path, seconds: float) -> None:
    """Be a part: write each check as it comes, a line of JSON."""
    box = boxes.Box(seconds)
    environ = environment(out / "site")
    gputune, why = find_gputune(environ)
    day = Day(out, gputune, why, simulated(), box, environment=environ)
    with (out / f"{part}.jsonl").open("a") as rows:
        for check in boxes.taken(part, steps_of(part, word), day, box):
            rows.write(json.dumps(check.row()) + "\n")
            rows.flush()


def other() -> list[Check]:
    """Return what the simulated card gave, nothing where that is not kept."""
    try:
        return table.checks_of(json.loads(KEPT.read_text()))
    except FileNotFoundError:
        return []
    except (ValueError, table.Unreadable) as error:
        print(f"gpu-day: {KEPT.name} cannot be compared with: {error}", file=sys.stderr)
        return []


def pack(out: Path, work: Path) -> None:
    """Put the recordings into one file: they are many small ones, and some machines give back few."""
    if (work / "recordings").exists():
        number = 1 + len(list(out.glob("recordings-*.tar.gz")))
        with tarfile.open(out / f"recordings-{number}.tar.gz", "w:gz") as packed:
            packed.add(work / "recordings", "recordings")
    if (work / "log.txt").exists():
        with (out / "log.txt").open("a") as log:
            log.write((work / "log.txt").read_text(errors="replace"))


def day(chosen: Sequence[str], word: str, asked: Path | None, total: float) -> int:
    """Run the parts that are chosen, and write what came of them."""
    whole = boxes.Box(total)
    about = {**machine.about(), "gputune": machine.revision().strip(), "made": time.strftime("%Y-%m-%d %H:%M %Z")}
    out = folder(asked, str(about["card"]))
    seconds = boxes.stretched({part: box for part, (box, _) in PARTS.items()}, chosen, total)
    old, now = earlier(out, about["card"]), list[Check]()
    checks, is_simulated, before = old, simulated(), other()
    with tempfile.TemporaryDirectory(prefix="gpu-day-") as name:
        work = Path(name)
        for number, part in enumerate(chosen):
            left = (whole.left() - boxes.LAST_S) / max(1e-9, sum(seconds[one] for one in chosen[number:]))
            box = seconds[part] * max(1.0, left)  # what earlier ones did not use
            print(f"gpu-day: {part}, {box:.0f} s at most", file=sys.stderr, flush=True)
            now += run_part(part, word, work, box, whole)
            checks = boxes.merged(old, now, ORDER)
            write(out, checks, about, before, is_simulated=is_simulated)
        pack(out, work)
    print((out / "results.md").read_text())
    print(f"gpu-day: {table.counted(checks)}; {out}", file=sys.stderr)
    return int(any(check.verdict == NOT_HELD for check in now))


def write(out: Path, checks: list[Check], about: dict[str, object], before: list[Check], *, is_simulated: bool) -> None:
    """Write what there is so far: whoever ends us has it."""
    document = table.document(checks, about, simulated=is_simulated)
    (out / "results.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (out / "results.md").write_text(table.words(checks, about, before, simulated=is_simulated))


def main() -> int:
    """Read the options; be the day, or a part of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=os.environ.get("ONLY", ""), help=f"parts: {', '.join(PARTS)}")
    options.add_argument("--out", type=Path, help="new or empty folder  [default: gpu-day/DATE-CARD]")
    options.add_argument("--seconds", type=float, default=boxes.TOTAL_S, help="of all parts together")
    options.add_argument("--matching", default="", metavar="WORD", help="only checks with this in their names")
    options.add_argument("--inside", choices=list(PARTS), help=argparse.SUPPRESS)
    asked = options.parse_args()
    chosen = [part for part in PARTS if part in asked.only.split(",")] if asked.only else list(PARTS)
    if unknown := set(filter(None, asked.only.split(","))) - set(PARTS):
        options.error(f"there is no part {', '.join(sorted(unknown))}")
    if asked.inside:
        inside(asked.inside, asked.matching, asked.out, asked.seconds)
        return 0
    if why := no_card():
        print(f"gpu-day: {why}", file=sys.stderr)
        return NO_CARD
    return day(chosen, asked.matching, asked.out, asked.seconds)


if __name__ == "__main__":
    raise SystemExit(main())
