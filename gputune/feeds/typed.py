"""What somebody typed to start a process: its script first, without the interpreter, and without secrets."""

import re
import shlex
from functools import lru_cache
from pathlib import PurePosixPath

from gputune.core.hygiene import clean, mask

COMMAND_CHARS = 160  # characters: what a wide screen has room for; rows of a thousand nodes come every second
INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|bash|dash|sh|zsh)[\d.]*")
WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})  # options of Python's that take the word after them
CODE = "-c"
MODULE = "-m"


@lru_cache(4096)
def typed(cmdline: bytes) -> str:
    """Return a /proc/PID/cmdline as it would be typed, on one line; nothing of a thread of the kernel's."""
    # Only 4096 B of a command line are looked at: an argument may be a script of megabytes
    words = [word.decode("utf-8", "surrogateescape") for word in cmdline[:4096].rstrip(b"\0").split(b"\0")]
    if len(words) == 1:  # a process may write over its own command line: its title, as of a server
        return clean(mask(words)[0].strip(), COMMAND_CHARS)
    told = mask(_bare(words))
    return clean(" ".join(map(_quoted, told)), COMMAND_CHARS)


def _bare(words: list[str]) -> list[str]:
    """Return the words without an interpreter in front, and its options."""
    if INTERPRETER.fullmatch(PurePosixPath(words[0]).name) is None:
        return [PurePosixPath(words[0]).name or words[0], *words[1:]]
    at = 1
    while at < len(words) and words[at].startswith("-") and not words[at].startswith((CODE, MODULE)):
        at += 2 if words[at] in WITH_VALUE else 1
    rest = words[at:]
    if not rest:
        return [PurePosixPath(words[0]).name, *words[1:]]
    if rest[0] == MODULE and len(rest) > 1:
        return rest[1:]
    script = PurePosixPath(rest[0])
    return [script.name if script.is_absolute() else rest[0], *rest[1:]]


def _quoted(word: str) -> str:
    """Return a word as a shell takes it; one that needs no quotes stays as it is, and `***` is no pattern here."""
    return word if not re.search(r"[\s\"'`$&|;<>()\\]", word) and word else shlex.quote(word)
