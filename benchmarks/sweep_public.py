"""`gputune sweep-loader` on training scripts that others have published, unmodified: what was tuned, and what it gave.

They make their data themselves, have it in their repository or train on any text: nothing is downloaded. `--folder`
holds the repositories, cloned from the addresses below; none of their code is part of this project. What a script
needs beside torch has to be there for `--python` (tensorboard for makemore, scikit-learn for DLRM).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

TUNED = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size")
HEAD = """# Sweeps of published scripts

Made by `benchmarks/sweep_public.py` on {cores} cores without a GPU, {date}; torch {torch}. No script was edited.

| script | its own settings | samples/s | best | samples/s | gain (95 %) | trials | starts | s |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True)
class Public:
    """One script: where its repository is, and how it is run in there."""

    name: str
    address: str
    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    text: str = ""  # a file that it trains on and that is the user's to put there: the source of a module of Python

    @property
    def folder(self) -> str:
        """Return the name of its repository's folder."""
        return self.address.rpartition("/")[2]


PUBLIC = (
    Public(name="makemore", address="https://github.com/karpathy/makemore", words=("makemore.py", "-i", "names.txt")),
    Public(
        name="minGPT adder",
        address="https://github.com/karpathy/minGPT",
        words=("projects/adder/adder.py", "--data.ndigit=1"),
        environment={"PYTHONPATH": "."},
    ),
    Public(
        name="minGPT chargpt",
        address="https://github.com/karpathy/minGPT",
        words=("projects/chargpt/chargpt.py", "--model.model_type=gpt-nano", "--data.block_size=32"),
        environment={"PYTHONPATH": "."},
        text="input.txt",
    ),
    Public(
        name="DLRM on random data",
        address="https://github.com/facebookresearch/dlrm",
        words=(
            "dlrm_s_pytorch.py",
            "--mini-batch-size=128",
            "--num-batches=100000",
            "--num-indices-per-lookup=10",
            "--arch-embedding-size=10000-10000-10000-10000",
            "--arch-sparse-feature-size=16",
            "--arch-mlp-bot=13-64-16",
            "--arch-mlp-top=64-1",
        ),
    ),
)


def swept(public: Public, folder: Path, python: str, out: Path) -> dict[str, object]:
    """Return the document of a sweep of a script in its repository; raises CalledProcessError where there is none."""
    if public.text:
        (folder / public.folder / public.text).write_text(Path(os.__file__).read_text())
    command = [sys.executable, "-m", "gputune", "sweep-loader", "--python", python, "--json", "--write", "-"]
    done = subprocess.run(
        [*command, "--out", str(out), *public.words],
        cwd=folder / public.folder,
        env={**os.environ, **public.environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def commit(folder: Path) -> str:
    """Return the commit that is checked out, "" where that is not known."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def words(row: dict[str, object]) -> str:
    """Return settings in words."""
    return ", ".join(f"{name}={row[name]}" for name in TUNED if row[name] is not None and row[name] is not False)


def line(public: Public, at: str, found: dict[str, object]) -> str:
    """Return the row of a script."""
    own, best, gain, trials = (found[name] for name in ("baseline", "best", "speedup", "trials"))
    assert isinstance(own, dict)
    assert isinstance(best, dict)
    assert isinstance(gain, dict)
    assert isinstance(trials, list)
    tried = len(trials) + (found["ceiling"] is not None)
    chosen = "as it is" if words(own) == words(best) else words(best)
    return (
        f"| [{public.name}]({public.address}) {at}: `{' '.join(public.words)}` | {words(own)} "
        f"| {own['samples_per_s']:.4g} | {chosen} | {best['samples_per_s']:.4g} "
        f"| ×{gain['likely']:.2f} ({gain['low']:.2f}–{gain['high']:.2f}) "
        f"| {tried} | {found['starts']} | {found['seconds']:.0f} |\n"
    )


def main() -> None:
    """Sweep all whose repository is there, print, and with `--markdown FILE` write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, required=True, help="where the repositories were cloned to")
    options.add_argument("--python", default=sys.executable, help="the interpreter that runs them")
    options.add_argument("--only", action="append", help="only this one: " + ", ".join(p.name for p in PUBLIC))
    options.add_argument("--markdown", type=Path)
    chosen = options.parse_args()
    lines, times = [], []
    for public in (p for p in PUBLIC if not chosen.only or p.name in chosen.only):
        if not (chosen.folder / public.folder).is_dir():
            print(f"{public.name}: `git clone {public.address} {chosen.folder / public.folder}` first", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as out:
            try:
                found = swept(public, chosen.folder, chosen.python, Path(out) / "sweep")
            except subprocess.CalledProcessError as error:  # it has said why
                print(f"{public.name}: status {error.returncode}", file=sys.stderr)
                continue
        lines.append(line(public, commit(chosen.folder / public.folder), found))
        times.append(float(str(found["seconds"])))
        print(lines[-1], end="", flush=True)
    if chosen.markdown and lines:
        told = subprocess.run(
            [chosen.python, "-c", "import torch; print(torch.__version__)"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        head = HEAD.format(cores=os.cpu_count(), date=time.strftime("%Y-%m-%d"), torch=told.stdout.strip())
        chosen.markdown.write_text(head + "".join(lines) + f"\nMedian: {statistics.median(times):.0f} s a script.\n")


if __name__ == "__main__":
    main()
