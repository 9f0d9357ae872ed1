"""What was typed, as a command: a script, `-m module`, or a command of any kind after two dashes."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.launch.folders import name_of

EXAMPLE = "like `gputune sweep-loader train.py`, or `gputune sweep-loader -- CMD`"


class NoScript(BadUsage):
    """There is nothing to run."""

    def __init__(self) -> None:
        super().__init__("no script to sweep", hint=EXAMPLE)


class NotThere(BadUsage):
    """The script or the program does not exist."""

    def __init__(self, word: str, what: str) -> None:
        super().__init__(f"`{clean(word)}` {what}", hint=f"check the spelling; {EXAMPLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A command that runs the user's training, with its own arguments as they were typed."""

    command: tuple[str, ...]
    cwd: str

    @property
    def name(self) -> str:
        """Return how it is called in a sentence: its script's or its module's name."""
        words = [word for word in self.command[1:] if word.endswith(".py")]
        if words:
            return clean(Path(words[0]).name)
        return clean(name_of(self.command))

    @property
    def files(self) -> list[str]:
        """Return the files of the command that hold Python."""
        words = [str(Path(self.cwd, word)) for word in self.command if word.endswith(".py")]
        return [word for word in words if Path(word).is_file()]


def script_of(words: Sequence[str], module: str | None, python: str) -> Script:
    """Return the command for `words`: a script's name and its arguments, or a program's; or `module`'s arguments.

    Raises NoScript or NotThere.
    """
    cwd = str(Path.cwd())
    if module is not None:
        if not module or module.startswith("-"):
            raise BadUsage("`-m` has no module", hint="like `gputune sweep-loader -m package.train`")
        return Script(command=(_program(python), "-m", module, *words), cwd=cwd)
    if not words or not words[0]:
        raise NoScript
    if not words[0].endswith(".py"):
        _program(words[0])
        return Script(command=tuple(words), cwd=cwd)
    if Path(words[0]).is_dir():
        raise NotThere(words[0], "is a folder")
    if not Path(words[0]).is_file():
        raise NotThere(words[0], "does not exist")
    return Script(command=(_program(python), *words), cwd=cwd)


def _program(name: str) -> str:
    if shutil.which(name) is None:
        raise NotThere(name, "cannot be executed" if Path(name).exists() else "was not found")
    return name


def scripts_of(words: Sequence[str], module: str | None, python: str) -> tuple[Script, ...]:
    """Return the commands for `words`: one, or several that are each quoted as one word: `'cmd a' -- 'cmd b'`.

    Raises NoScript or NotThere.
    """
    parts = [word for word in words if word != "--"]
    several = "--" in words and parts and all(_is_quoted(word) for word in parts)
    alone = len(words) == 1 and _is_quoted(words[0])
    if module is not None or not (several or alone):
        return (script_of(words, module, python),)
    return tuple(script_of(_split(word), None, python) for word in parts)


def _is_quoted(word: str) -> bool:
    """Return whether a word is a whole command."""
    return " " in word.strip() and not Path(word).exists()


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadUsage(f"`{clean(text, 80)}` is no command: {error}", hint="quote it as for a shell") from None
