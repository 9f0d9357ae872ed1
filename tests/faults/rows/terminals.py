r"""Terminals stay clean: no text from elsewhere, of a run, a node, a sweep, a settings file or an error, is obeyed.

Strings with escape sequences, C1, bidi, invisible characters and halves of characters stand in every text of a run's
documents and of a pack's, of nodes and of a sweep, in names and values of `gputune.toml`, and in what is typed; all
that is said is looked at.
"""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from gputune import cli
from gputune.commands import nodes
from gputune.core.hygiene import is_clean
from gputune.feeds.once import reading
from gputune.feeds.rows import Node, Update
from gputune.sweep.result import Sweep, words
from tests.faults import runs
from tests.faults.row import Case, chance, must

TESTS = "tui/test_pages.py (10,000 names); html/test_hostile.py; watch/test_hygiene.py"
QUICK, FULL, SHARE = 10_000, 100_000, 150
SECONDS = 60.0
PIECES = (
    *(
        "\x1b]52;c;aGk=\x07",
        "\x1b[2J",
        "\x1b[31m",
        "\x9b31m",
        "\x90q\x9c",
        "\r",
        "\n",
        "\t",
        "\x08" * 5,
        "\x00",
        "\x7f",
    ),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\u00ad", "\U000e0041", "\udcff", "\udc80", "\ud800", "[bold]"),
    *(
        "größe",
        "訓練",
        "👩‍👩‍👧",
        "a" * 300,
        "%s",
        "{x}",
        "`",
        '"',
        "'",
        "\\",
        "-",
        "--",
        "/",
        "..",
        "~",
        "=",
        " ",
        "",
        "名" * 90,
    ),
)
TYPED: tuple[tuple[str, ...], ...] = (
    ("{}",),
    ("report", "{}"),
    ("report", "--{}", "x"),
    ("report", "run", "--price", "{}"),
    ("explain", "{}"),
    ("compare", "{}", "{}"),
    ("export", "perfetto", "{}"),
    ("export", "{}", "run"),
    ("runs", "{}"),
    ("runs", "--{}"),
    ("watch", "--hz", "{}", "--", "true"),
    ("watch", "--max-size", "{}", "--", "true"),
    ("watch", "--tune={}", "--", "true"),
    ("watch", "--pid", "{}"),
    ("share", "--procs", "{}", "--", "true"),
    ("sweep-loader", "{}"),
    ("prove", "{}"),
)


def text(dice: random.Random) -> str:
    return "".join(dice.choices(PIECES, k=dice.randrange(1, 5)))


def filled(value: Any, dice: random.Random) -> Any:
    """Return a document with other texts in the place of most."""
    if isinstance(value, dict):
        return {name: filled(each, dice) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, dice) for each in value]
    plain = text(dice).encode("utf-8", "replace").decode()
    return plain if isinstance(value, str) and dice.random() < 0.7 else value


def said(*typed: str) -> str:
    """Return all that a command says."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.run(list(typed))
    out.flush()
    told = out.buffer.getvalue().decode() + err.getvalue()  # type: ignore[attr-defined] # BytesIO's
    must("Traceback" not in told and "open an issue" not in told, f"status {status}: {typed!r}: {told}")
    return told


def look(told: str, why: object) -> None:
    for line in told.split("\n"):
        must(is_clean(line), f"a terminal would obey {line!r}, after {why!r}")


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    _, run = runs.recorded(folder)
    pack = packed(folder / "pack")
    here = folder / "here"
    here.mkdir()
    os.chdir(here)

    with reading() as ask:
        machine = msgspec.to_builtins(ask().nodes[0])

    def case(number: int) -> None:
        dice = chance("terminals", number)
        what = number % 6
        if what == 5:
            look(of_a_sweep(dice), number)
            return
        if what == 4:
            look(of_nodes(machine, dice), number)
            return
        if what == 3:
            typed = tuple(part.format(text(dice)) for part in dice.choice(TYPED))
            typed = tuple(part.replace("\0", "").replace("\ud800", "") for part in typed)  # no argument can hold these
            look(said(*typed), typed)
            return
        if what == 2:
            settings = {
                text(dice).encode("utf-8", "replace").decode(): dice.choice((1, True, text(dice))) for _ in range(3)
            }
            lines = [f"{_quoted(name)} = {_quoted(value)}" for name, value in settings.items() if name]
            (here / "gputune.toml").write_text("\n".join([dice.choice(("", "[report]", "[watch]")), *lines]))
            look(said("report", str(run)), lines)
            (here / "gputune.toml").unlink()
            return
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(pack if what else run, copy)
        for name in ("run.json", "findings.json", "share.json"):
            if (copy / name).exists():
                document = json.loads((copy / name).read_text())
                (copy / name).write_text(json.dumps(filled(document, dice)))
        look(said("report", str(copy)), number)

    yield case


def of_nodes(machine: dict[str, Any], dice: random.Random) -> str:
    """Return what `gputune nodes` says of machines whose texts are others."""
    node = filled(machine, dice) | {"link": dice.choice(("up", "stale", "down"))}
    update = Update(until=1, nodes=(msgspec.convert(node, Node),))

    @contextlib.contextmanager
    def asked(*_: object, **__: object) -> Iterator[nodes.NodesQuery]:
        yield nodes.NodesQuery(lambda: nodes._document(update, {}), int)

    with mock.patch.object(nodes, "_asked", asked):
        return said("nodes", "m8", *dice.choice(((), ("--cmd",), ("--user", "--pid"), ("--json",))))


def of_a_sweep(dice: random.Random) -> str:
    """Return what `gputune sweep-loader` says where its script, its trials' last words and its node are others."""
    plain = {"num_workers": 2, "prefetch_factor": 2, "pin_memory": False, "persistent_workers": False, "batch_size": 4}
    rows = [
        {**plain, "predicted": None, "measured": None, "state": state, "why": text(dice), "node": text(dice)}
        for state in ("ok", "failed", "oom")
    ]
    own = {**plain, "samples_per_s": 1.0}
    told = {"where": text(dice), "baseline": own, "best": own, "speedup": {"low": 1.0, "likely": 2.0, "high": 3.0}}
    told |= {"ceiling": None, "trials": rows, "seconds": 1.0, "starts": 1, "stopped": False, "effect": "", "says": []}
    told |= {"folder": text(dice), "written": "", "node": text(dice)}
    return words(msgspec.convert(told, Sweep), text(dice))


def packed(folder: Path) -> Path:
    """Return the folder of a real pack of two processes."""
    folder.mkdir()
    command = (*runs.GPUTUNE, "share", "--procs", "2", "--no-index-args", "--trial", "0", "--", "sh", "-c", "exit 0")
    subprocess.run(command, cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=200)
    (run,) = (folder / "gputune-runs").glob("*/")
    return run


def _quoted(value: object) -> str:
    return json.dumps(value.encode("utf-8", "replace").decode() if isinstance(value, str) else value).replace(
        "\x7f", "\\u007f"
    )
