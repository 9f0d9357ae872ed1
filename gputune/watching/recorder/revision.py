"""Which commit the code of a run is of, read from git's own files; git itself is asked for changes only, aside."""

import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from gputune.core import opening
from gputune.core.hygiene import mask
from gputune.core.sample import Json

ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
REF = re.compile(r"ref: (refs/[^\s\x00]+)")
PATIENCE = (
    5.0  # s for git to look through the files: of a project that takes longer nobody knows whether it has changes
)
MOMENT = 0.2  # s of it that a run which has ended waits for
CLEAN, DIRTY = 0, 1  # git's statuses
ASK = ("diff", "--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "HEAD", "--")
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")


class Revision:
    """The commit of the folder that the script lies in, or of the current one where there is no script."""

    def __init__(self, command: tuple[str, ...], cwd: str) -> None:
        self._folder = script_folder(command, Path(cwd or os.sep))
        self._found: dict[str, Json] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._until = 0.0

    def begin(self) -> dict[str, Json]:
        """Return the commit, and have git begin to look whether there is more than it holds. Raises OSError."""
        top = top_of(self._folder)
        found = {} if top is None else head(top)
        if top is None or "id" not in found:
            return {}
        self._found = {"folder": mask((str(top),))[0], **found}
        self._ask(top)
        return {"commit": {**self._found, "dirty": None}}

    def _ask(self, top: Path) -> None:
        nobodys = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GPUTUNE_"))}
        null = subprocess.DEVNULL
        with suppress(OSError):  # there is no git here
            self._process = subprocess.Popen(
                [*GIT, "-C", str(top), *ASK],
                stdin=null,
                stdout=null,
                stderr=null,
                env={**nobodys, "GIT_NO_LAZY_FETCH": "1"},
            )
            self._until = time.monotonic() + PATIENCE
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 19)  # a training's process goes first

    def look(self) -> dict[str, Json]:
        """Return the commit anew where git has said something; nothing while it looks, and where it was not asked."""
        if self._process is None:
            return {}
        status = self._process.poll()
        if status is None and time.monotonic() < self._until:
            return {}
        if status is None:
            self._process.kill()
            self._process.wait()
        self._process = None
        return {"commit": {**self._found, "dirty": {CLEAN: False, DIRTY: True}.get(-1 if status is None else status)}}

    def close(self) -> dict[str, Json]:
        """Wait a moment for git, then end it."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(MOMENT)
            self._until = 0.0
        return self.look()


def script_folder(command: tuple[str, ...], cwd: Path) -> Path:
    """Return where the script of a command lies; the current folder where it names none."""
    scripts = (cwd / word for word in command if word.endswith(".py"))
    return next((script.resolve().parent for script in scripts if script.is_file()), cwd)


def top_of(folder: Path) -> Path | None:
    """Return the top of the working tree that a folder lies in, None outside of one."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def head(top: Path) -> dict[str, Json]:
    """Return the commit that is checked out (`id`), and its `branch`; what cannot be read is not there."""
    with suppress(OSError, ValueError):
        own, shared = _folders(top / ".git")
        said = _words(own / "HEAD")
        on = REF.fullmatch(said)
        if on is None:
            return {"id": said} if ID.fullmatch(said) else {}
        branch: dict[str, Json] = {"branch": mask((on[1].removeprefix("refs/heads/"),))[0]}
        found = _of(on[1], own, shared)
        return {"id": found, **branch} if found else branch
    return {}


def _folders(git: Path) -> tuple[Path, Path]:
    """Return git's folder of a working tree, and the one that all working trees share."""
    if git.is_file():  # a working tree of several, or a submodule
        git = git.parent / _words(git).removeprefix("gitdir: ")
    common = git / "commondir"
    return git, git / _words(common) if common.is_file() else git


def _of(ref: str, *folders: Path) -> str:
    """Return the commit that a branch stands at, "" where that cannot be read."""
    for folder in folders:
        with suppress(OSError):
            if ID.fullmatch(found := _words(folder / ref)):
                return found
    with suppress(OSError):
        for line in _words(folders[-1] / "packed-refs").splitlines():
            found, _, name = line.partition(" ")
            if name == ref and ID.fullmatch(found):
                return found
    return ""


def _words(file: Path) -> str:
    # 16 << 20 B of a file of git's: `packed-refs` of a project with a hundred thousand of them
    return opening.read(file, 16 << 20).decode("utf-8", "replace").strip()
