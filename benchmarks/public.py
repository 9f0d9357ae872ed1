"""gputune on training scripts that others have published: its verdict, its trace in their output, what the fix brings.

Each script of `benchmarks/public/scripts.toml` runs at its pinned commit, unmodified, on made-up data: bare and under
`gputune watch` (outputs and statuses are compared, times masked), and with the obvious fix between two bare runs, one
at a time. What the fix realised is read off the script's own output (the first to the last line of its loop) and stands
beside what gputune predicted. A run that others disturbed is repeated. What cannot run here is listed with the reason.
Repositories are fetched from GitHub, or found as git directories in `--sources DIR`; none is part of this project.
"""

import argparse
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from public_page import Row, document, line
from public_run import DEADLINE_S, Line, Ran, Turn, run, undisturbed
from public_source import GENERATORS, NotHere, empty, git_dir, make_data, patch, put, unpack
from public_table import Fix, Script, read, requirements

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("public") / "results.json"
MARKDOWN = ROOT / "docs" / "public.md"


@dataclass
class Place:
    """Where scripts are unpacked and run, and with what."""

    work: Path
    python: Path
    gputune: str
    sources: Path | None
    lock: Path | None
    rounds: int
    attempts: int = 3


class Failed(Exception):  # noqa: N818 - a run that failed is a row of the table, no error of ours
    """A run that should have worked did not; its text says how."""


def judged(script: Script, place: Place) -> Row:
    """Return a script's row: bare, watched and fixed runs, compared."""
    row = Row(script.name, script.repository, script.commit or script.release, shlex.join(script.command))
    if script.fix:
        row.fix, row.causes = script.fix.what, list(script.fix.causes)
    try:
        row.torch = _prepared(script, place)
        _experiment(script, place, row)
    except (NotHere, Failed) as reason:
        row.missing = str(reason)
    return row


def _prepared(script: Script, place: Place) -> str:
    """Return torch's version, once all is there that the script needs; raises NotHere."""
    if script.impossible:
        raise NotHere(script.impossible)
    code = "import importlib.metadata as m, sys; [m.version(n) for n in sys.argv[1:]]; print(m.version('torch'))"
    names = [re.split(r"[\[=<>~! ]", need)[0] for need in script.installed()]
    told = subprocess.run([place.python, "-c", code, *names], capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotHere("not installed: " + told.stderr.strip().splitlines()[-1].rpartition(" ")[2])
    if not script.release:
        git_dir(script.repository, script.commit, place.sources, place.work / "sources")
    return told.stdout.strip()


def _tree(script: Script, place: Place, fix: Fix | None) -> Path:
    """Return a fresh folder of the repository with its data, as each run gets it."""
    tree = place.work / "trees" / script.name.replace(" ", "-").replace("/", "-")
    empty(tree)
    if not script.release:
        git = git_dir(script.repository, script.commit, place.sources, place.work / "sources")
        unpack(git, script.commit, script.paths, tree)
    for target, *words in (fix and fix.data) or script.data:
        put(make_data(words, place.work / "data"), tree / target)
    return tree


def _once(script: Script, place: Place, fix: Fix | None = None, watch: Sequence[str] = ()) -> Ran:
    tree = _tree(script, place, fix)
    if fix:
        patch(tree, fix.patch)
    words = list((fix and fix.command) or script.command)
    seeded = [str(GENERATORS / "seeded.py"), str(script.seed)] if script.seed is not None else []
    argv = [*watch, str(place.python), *seeded, *words]
    environment = {**script.environment, **(fix.environment if fix else {})}
    return run(argv, tree / script.folder, environment)


def _bare(script: Script, place: Place, row: Row, fix: Fix | None = None) -> Ran:
    return _taken(
        script, row, "fixed" if fix else "bare", undisturbed(lambda: _once(script, place, fix), place.attempts)
    )


def _taken(script: Script, row: Row, kind: str, ran: Ran) -> Ran:
    """Note a run; raises Failed where it failed by itself."""
    loop = ran.loop_s(script.clock) if script.clock else None
    row.runs.append(
        {
            "kind": kind,
            "status": ran.status,
            "wall_s": round(ran.wall_s, 3),
            "loop_s": loop and round(loop, 3),
            "foreign": round(ran.foreign, 3),
            "stolen": round(ran.stolen, 3),
        }
    )
    if ran.status == -signal.SIGKILL and ran.wall_s >= DEADLINE_S:
        raise Failed(f"not over after {DEADLINE_S:.0f} s ({kind})")
    if ran.status and kind != "watched":
        raise Failed(f"status {ran.status} ({kind}): {ran.last_words()[-200:]}")
    return ran


def _watched(script: Script, place: Place, row: Row) -> Ran:
    """Run it watched, and note the verdict."""
    record = place.work / "runs" / f"{script.name.replace(' ', '-').replace('/', '-')}-{time.time():.0f}"
    verdict = record.with_suffix(".json")
    record.parent.mkdir(parents=True, exist_ok=True)
    watch = [place.gputune, "watch", "--quiet", "--json", str(verdict), "--out", str(record), "--"]
    ran = _taken(script, row, "watched", _once(script, place, watch=watch))
    row.runs[-1]["record"] = record.name
    if not verdict.exists():
        raise Failed(f"no verdict was written; status {ran.status}: {ran.last_words()[-200:]}")
    document = json.loads(verdict.read_text())
    row.abstained = document["abstained"]
    row.findings = [_told(f, "finding") for f in document["findings"]] + [
        _told(f, "perhaps") for f in document["perhaps"]
    ]
    return ran


def _told(finding: dict[str, object], kind: str) -> dict[str, object]:
    speedup = finding["speedup"]
    assert isinstance(speedup, dict)
    return {
        "id": finding["id"],
        "kind": kind,
        "promised": not (finding["risk"] or finding["offer"]),
        **{end: speedup[end] for end in ("low", "likely", "high")},
        "at_least": bool(speedup.get("at_least")),
        "change": finding["change"],
        "says": finding["says"],
        "do": finding["do"],
    }


def _experiment(script: Script, place: Place, row: Row) -> None:
    """Run bare, watched, fixed and bare again; then the fixed run between two bare ones, in each further round."""
    for number in range(place.rounds if script.fix else 1):
        with Turn(place.lock) as turn:
            before = _bare(script, place, row)
            turn.give_way()
            if not number:
                row.output = difference(script, before, _watched(script, place, row))
                turn.give_way()
            fixed = _bare(script, place, row, script.fix) if script.fix else None
            turn.give_way()
            after = _bare(script, place, row)
        if not number:
            row.control = difference(script, before, after)
        if fixed:
            row.gains.append((_lasted(script, before) + _lasted(script, after)) / 2 / _lasted(script, fixed))


def _lasted(script: Script, ran: Ran) -> float:
    return (ran.loop_s(script.clock) if script.clock else None) or ran.wall_s


def difference(script: Script, one: Ran, other: Ran) -> str:
    """Return how the outputs and statuses of two runs differ, times masked; empty: not at all."""
    if one.status != other.status:
        return f"status {other.status} instead of {one.status}"
    for name in ("out", "err"):
        mine, theirs = (compared(script, getattr(ran, name)) for ran in (one, other))
        if mine != theirs:
            at = next(
                (n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
            )
            said = [lines[at] if at < len(lines) else "(nothing)" for lines in (mine, theirs)]
            return f"std{name}, line {at + 1}: {said[1][:160]!r} instead of {said[0][:160]!r}"
    return ""


def compared(script: Script, lines: Sequence[Line]) -> list[str]:
    """Return what of an output has to be the same at each run."""
    kept = [line.text for line in lines if not any(re.search(skip, line.text) for skip in script.skip)]
    for mask in script.mask:
        kept = [re.sub(mask, "#", text) for text in kept]
    return [text.rstrip() for text in kept]


def kept(path: Path) -> dict[str, Row]:
    """Return the rows of earlier runs by name."""
    if not path.exists():
        return {}
    return {row["name"]: Row(**row) for row in json.loads(path.read_text())["scripts"]}


def main() -> int:
    """Run those asked for; write the results of all that are known, in the table's order."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", help="only scripts whose name contains this (several times: any)")
    options.add_argument("--sources", type=Path, help="git directories, as OWNER/NAME or OWNER+NAME, instead of GitHub")
    options.add_argument("--python", type=Path, default=Path(sys.executable), help="the interpreter that runs them")
    options.add_argument("--gputune", default="gputune", help="the command that watches them")
    options.add_argument(
        "--work", type=Path, default=ROOT / ".venvs" / "public-work", help="for trees, data, recordings"
    )
    options.add_argument("--rounds", type=int, default=2, help="how often a fixed run goes between two bare ones")
    options.add_argument("--attempts", type=int, default=3, help="how often to try a run that others disturb")
    options.add_argument(
        "--lock", type=Path, help="a file to lock during runs, where others measure on this machine too"
    )
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--markdown", type=Path, default=MARKDOWN)
    options.add_argument("--requirements", action="store_true", help="only print what the scripts need beside torch")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the run under way is ended with us
    scripts = read()
    if chosen.requirements:
        print("\n".join(requirements(scripts)))
        return 0
    place = Place(
        chosen.work.resolve(),
        chosen.python.absolute(),
        chosen.gputune,
        chosen.sources,
        chosen.lock,
        chosen.rounds,
        chosen.attempts,
    )
    rows = kept(chosen.results)
    for script in scripts:
        if chosen.only and not any(part in script.name for part in chosen.only):
            continue
        before = rows.get(script.name)
        rows[script.name] = row = judged(script, place)
        row.day = time.strftime("%Y-%m-%d")
        row.again = bool(before and (before.again or not before.missing))
        print(f"{row.name}: not here: {row.missing}" if row.missing else line(row).strip(), flush=True)
        known = [rows[s.name] for s in scripts if s.name in rows]
        chosen.results.write_text(
            json.dumps({"scripts": [asdict(r) for r in known]}, indent=1, ensure_ascii=False) + "\n"
        )
        chosen.markdown.write_text(document(known, [s.name for s in scripts if s.name not in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
