"""The table of public scripts (`benchmarks/public/scripts.toml`), read and checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

TABLE = Path(__file__).with_name("public") / "scripts.toml"
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class Fix:
    """The obvious fix of a script: another command line, environment or data, or edits of its text.

    `causes` are the ids of gputune's findings that would propose it.
    """

    what: str
    causes: Sequence[str]
    command: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    patch: Sequence[dict[str, str]] = ()
    data: Sequence[Sequence[str]] = ()  # other data


@dataclass(frozen=True, kw_only=True)
class Script:
    """One script: where it is, what it needs, how it is run, how its output is read.

    `clock` matches the lines between whose first and last its loop runs. What a `mask` matches is left out where
    outputs are compared, and a line that `skip` matches is not compared: times, addresses, states of a progress bar.
    """

    name: str
    repository: str
    commit: str = ""
    release: str = (
        ""  # a pinned package that has the script inside, where that is how it is published: no repository then
    )
    command: Sequence[str]
    folder: str = "."
    paths: Sequence[str] = ()  # of the repository that it needs, where not all
    needs: Sequence[str] = ()  # beside torch, torchvision and numpy
    data: Sequence[Sequence[str]] = ()  # where it goes, the generator, its options
    seed: int | None = None  # set by benchmarks/public/seeded.py, where the script has none of its own
    environment: dict[str, str] = field(default_factory=dict)
    clock: str = ""
    mask: Sequence[str] = ()
    skip: Sequence[str] = ()
    impossible: str = ""  # why it cannot run without more than this table has
    fix: Fix | None = None

    def installed(self) -> list[str]:
        """Return all that has to be installed for it."""
        return [*self.needs, *([self.release] if self.release else [])]


def read(path: Path = TABLE) -> list[Script]:
    """Return the scripts, in their order; raises ValueError where a commit is none or a name is there twice."""
    scripts = [_script(row) for row in tomllib.loads(path.read_text())["script"]]
    for script in scripts:
        if not (script.release or script.impossible) and not COMMIT.fullmatch(script.commit):
            raise ValueError(f"{script.name}: {script.commit!r} is no whole commit")
    names = [script.name for script in scripts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"there twice: {', '.join(twice)}")
    return scripts


def _script(row: dict[str, object]) -> Script:
    fix = row.pop("fix", None)
    return Script(**row, fix=Fix(**fix) if isinstance(fix, dict) else None)  # type: ignore[arg-type]


def requirements(scripts: Sequence[Script]) -> list[str]:
    """Return what has to be installed beside torch, torchvision and numpy."""
    return sorted({need for script in scripts if not script.impossible for need in script.installed()})
