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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from gputune import cli
from gputune.commands import nodes
from gputune.core.hygiene import is_clean
from gputune.feeds.once import reading
from gputune.feeds.rows import Node, Update
from gputune.report.kept import ours
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
DOCUMENTS = ("run.json", "findings.json", "share.json")
MOST = 0.7  # of the texts that are others
Way = tuple[Any, ...]
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
    return other(dice) if isinstance(value, str) and dice.random() < 0.7 else value


def other(dice: random.Random) -> str:
    """Return a text as a document can hold it."""
    return text(dice).encode("utf-8", "replace").decode()


def texts(value: Any, at: Way = ()) -> Iterator[Way]:
    """Yield where texts stand in a document."""
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in within:
        yield from texts(each, (*at, name))
    if isinstance(value, str):
        yield at


def put(document: Any, at: Way, new: str) -> Any:
    """Return the document with another text at a place."""
    if not at:
        return new
    found: Any = list(document) if isinstance(document, list) else dict(document)
    found[at[0]] = put(document[at[0]], at[1:], new)
    return found


class Told:
    """A run folder, and the places of its documents where any text may stand: one that is refused shows nothing."""

    def __init__(self, folder: Path, copy: Path) -> None:
        self._copy = shutil.copytree(folder, copy)
        self._documents = {}
        for name in DOCUMENTS:
            if (folder / name).exists():
                document = json.loads((folder / name).read_text())
                document.pop("crc32", None)  # else it is a document that was changed, and no more is said of it
                self._documents[name] = document
        self._free = {
            name: [at for at in texts(document) if self._shown({name: put(document, at, "x")})]
            for name, document in self._documents.items()
        }
        count = sum(map(len, self._free.values()))
        must(
            count > len(DOCUMENTS) and self._shown(self.other(lambda _: "x")), f"{folder.name}: {self._free} are shown"
        )

    def other(self, new: Callable[[Way], str]) -> dict[str, Any]:
        """Return its documents with other texts."""
        found = dict(self._documents)
        for name, places in self._free.items():
            for at in places:
                found[name] = put(found[name], at, new(at))
        return found

    def written(self, documents: dict[str, Any]) -> Path:
        """Return the copy, which now holds these."""
        for name, document in (self._documents | documents).items():
            (self._copy / name).write_text(json.dumps(document))
        return self._copy

    def _shown(self, documents: dict[str, Any]) -> bool:
        """Return whether a report shows them, and judges nothing anew: else of a verdict nothing is said."""
        folder = self.written(documents)
        return told("report", str(folder))[0] == 0 and (
            "findings.json" not in self._documents or ours(folder) is not None
        )


def said(*typed: str) -> str:
    """Return all that a command says."""
    return told(*typed)[1]


def told(*typed: str) -> tuple[int, str]:
    """Return a command's status, and all that it says."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.run(list(typed))
    out.flush()
    says = out.buffer.getvalue().decode() + err.getvalue()  # type: ignore[attr-defined] # BytesIO's
    must("Traceback" not in says and "open an issue" not in says, f"status {status}: {typed!r}: {says}")
    return status, says


def look(told: str, why: object) -> None:
    for line in told.split("\n"):
        must(is_clean(line), f"a terminal would obey {line!r}, after {why!r}")


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    _, run = runs.recorded(folder)
    alone, several = Told(run, folder / "alone"), Told(packed(folder / "pack"), folder / "several")
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
        hostile = several if what else alone
        documents = hostile.other(lambda at: other(dice) if dice.random() < MOST else "x")
        look(said("report", str(hostile.written(documents))), number)

    yield case


def of_nodes(machine: dict[str, Any], dice: random.Random) -> str:
    """Return what `gputune nodes` says of machines whose texts are others."""
    node = filled(machine, dice) | {"link": dice.choice(("up", "late", "down", "refused"))}
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
    document = {"where": text(dice), "baseline": own, "best": own, "speedup": {"low": 1.0, "likely": 2.0, "high": 3.0}}
    document |= {
        "ceiling": None,
        "trials": rows,
        "seconds": 1.0,
        "starts": 1,
        "stopped": False,
        "effect": "",
        "says": [],
    }
    document |= {"folder": text(dice), "written": "", "node": text(dice)}
    return words(msgspec.convert(document, Sweep), text(dice))


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
