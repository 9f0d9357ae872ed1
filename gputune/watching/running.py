"""The undertaking behind `gputune run`: a command with other loader settings, and nothing measured.

As under `watch`, the supervisor starts it and its guests change the settings as loaders are built; here that is all
they do. Afterwards it is said what was changed, and above all what was not: a line that has moved changes nothing.
Under an outer `watch` its guests are there already, and it is that watch that is told.
"""

import contextlib
import json
import os
import select
import sys
from collections.abc import Iterable, Mapping, Sequence

from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.launch import folders
from gputune.launch.link import Ended, PipeEnd, Plan, Started
from gputune.probes.loader import Foreign, Ring

OVERRIDE, ONLY, RINGS = "GPUTUNE_OVERRIDE", "GPUTUNE_ONLY", "GPUTUNE_RINGS"
Rules = Sequence[Mapping[str, Json]]


def run(command: "tuple[str, ...]", rules: Rules, link: PipeEnd, *, quiet: bool) -> int:
    """Have the supervisor start the command with these rules in force, and say afterwards what came of them."""
    inside = bool(os.environ.get(RINGS))  # of a watch, whose guests do it
    changes: dict[str, str | None] = {OVERRIDE: json.dumps(list(rules))}
    rings, trouble = ("", "") if inside else _rings()
    guest = folders.guest()
    if rings and os.pathsep not in guest:
        theirs = os.environ.get("PYTHONPATH")
        others = [entry for entry in theirs.split(os.pathsep) if entry != guest] if theirs else []
        changes.update({"PYTHONPATH": os.pathsep.join([guest, *others]), RINGS: rings, ONLY: OVERRIDE})
    fields: dict[str, object] = {"rules": list(rules), "rings": rings, "quiet": quiet or inside, "trouble": trouble}
    link.send(Plan(command, changes, rings, fields, keeps_stdout=False))
    return follow(link, fields)


def follow(link: PipeEnd, fields: "dict[str, object]") -> int:
    """Live beside the command to its end, and say what was changed; `fields` are those of the plan."""
    rings = str(fields["rings"])
    notes: dict[str, Mapping[str, Json]] = {}
    first = link.receive()
    if not isinstance(first, Started):
        return 0  # it was not started, and the supervisor has said why
    # 30.0 s between looks for what ended processes have left: workers may be started for every epoch
    while not select.select([link], [], [], 30.0)[0]:
        _tidy(rings, notes)
    if not isinstance(link.receive(), Ended) or fields["quiet"]:
        return 0  # or the supervisor is gone, and whoever killed it wants no words
    _collect(rings, notes)
    rules = fields["rules"] if isinstance(fields["rules"], list) else []
    for line in [*([str(fields["trouble"])] if fields["trouble"] else []), *said(rules, notes.values())]:
        _say(f"gputune: {line}\n")
    return 0


def _rings() -> "tuple[str, str]":
    """Return (folder of the rings, ""), or ("", what stands in the way)."""
    try:
        return folders.rings(), ""
    except OSError as error:
        return "", f"nothing was changed: no folder for its guests ({error.strerror})"


def said(rules: Iterable[Mapping[str, Json]], notes: Iterable[Mapping[str, Json]]) -> "list[str]":
    """Return what became of each rule, in sentences."""
    told = list(notes)
    lines: list[str] = []
    for rule in rules:
        where = rule.get("where")
        mine = [note for note in told if not where or note.get("where") == where]
        if not mine:
            place = f"at `{clean(str(where), 100)}`" if where else "in random order"
            lines.append(f"no loader was built {place}: nothing was changed")
        for note in mine:
            lines += _of_note(note)
    return list(dict.fromkeys(lines))


def _of_note(note: Mapping[str, Json]) -> Iterable[str]:
    where = clean(str(note.get("where")), 100)
    change, refused = note.get("change"), note.get("refused")
    if isinstance(change, dict) and change:
        settings = ", ".join(f"{clean(name, 40)}={value}" for name, value in change.items())
        yield f"the loader at `{where}` was built with {settings}"
    for name, why in refused.items() if isinstance(refused, dict) else ():
        yield f"the loader at `{where}` did not get its {clean(name, 40)}: {clean(str(why))}"
    if not change and not refused:
        yield f"the loader at `{where}` has these settings already"


def _tidy(rings: str, notes: "dict[str, Mapping[str, Json]]") -> None:
    """Remove what ended processes have left, once it was read."""
    _collect(rings, notes)
    for name in _names(rings):
        pid = name.partition(".")[0].partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(rings, name))


def _collect(rings: str, notes: "dict[str, Mapping[str, Json]]") -> None:
    """Read what guests have said of loaders that they changed."""
    from pathlib import Path  # noqa: PLC0415 - the command has started; now there is time

    for name in _names(rings):
        if name.endswith(".ring"):
            with contextlib.suppress(OSError, Foreign):
                ring = Ring(Path(rings, name))
                for note in ring.notes():
                    if note.get("n") == "override":
                        notes[json.dumps(note, sort_keys=True)] = note
                ring.close()


def _names(rings: str) -> "list[str]":
    try:
        return os.listdir(rings) if rings else []
    except OSError:
        return []


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
