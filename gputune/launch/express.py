"""The short road from a command line to its wishes, for the `watch` that is typed a hundred times a day.

click takes 20 ms to import, a third of the time between Enter and the start of the command. So what is plain here is
read here, and everything else (help, mistakes, settings in files or in the environment, `--max-size`) takes
the ordinary road: `gputune/commands/watch.py`. tests/watch/test_express.py holds the two together.
"""

import os
from collections.abc import Callable

from gputune.launch import values
from gputune.launch.run import WatchOptions

VALUES = {
    "--out": "out",
    "--hz": "hz",
    "--json-file": "json",
    "--json": "json",  # its older name
    "--price": "price",
    "--fail-under": "fail_under",
    "--perturb": "perturb",
    "--stop-when": "stop_when",
    "--export": "export",
}
READ: "dict[str, Callable[[str], float | str | None]]" = {
    "hz": values.number,
    "price": values.price,
    "fail_under": values.share,
    "perturb": values.perturbing,
    "stop_when": values.starving,
    "tune": values.tuning,
    "export": values.exporting,
}
FLAGS = {
    "--quiet": ("quiet", True),
    "--html": ("html", True),
    "--all-devices": ("all_devices", True),
    "--no-stacks": ("stacks", False),
    "--passive": ("perturb", 0.0),
    "--try": ("tune", values.TRYING),
}
# perhaps two files, perhaps one is the command's; perhaps two words on one thing: click knows
BOTH = ({"--json", "--json-file"}, {"--perturb", "--passive"}, {"--try", "--tune"})
SCREEN = "--tui"  # a flag that is none of a plain watch
TUNE = "--tune"  # with a value after a sign, or without one
FASTEST = 100.0  # readings a second: beyond it the reading itself becomes a load
# Set for the command of an outer watch: no options.
INHERITED = frozenset({"GPUTUNE_RINGS", "GPUTUNE_HOST_PID", "GPUTUNE_STEER"})


def wishes(arguments: "list[str]") -> "WatchOptions | None":
    """Return what `watch` was asked for, or None where that is not plain to see."""
    if _is_configured():
        return None
    asked: dict[str, object] = {}
    names = {word.partition("=")[0] for word in arguments}
    if any(names >= both for both in BOTH):
        return None
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if word in FLAGS:
            field, asked[field] = FLAGS[word][0], FLAGS[word][1]
        elif name == TUNE:
            if not sign and rest and not rest[0].startswith("-"):  # a value, or the command: click knows
                return None
            asked["tune"] = value if sign else values.TUNING[0]
        elif name in VALUES and (sign or rest):
            asked[VALUES[name]] = value if sign else rest.pop(0)
        else:
            return None
    return _checked(tuple(rest), asked)


def asks(arguments: "list[str]", option: str, flags: "frozenset[str]" = frozenset((*FLAGS, SCREEN))) -> bool:
    """Return whether `option` stands among the options of `watch`, and not in the command's own.

    `flags`: the options without a value, of another command that is asked about.
    """
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in {"--", "-m"} or not word.startswith("-"):
            return False
        if word == option or word.startswith(f"{option}="):
            return True
        alone = "=" in word or word in flags
        if words and not alone and not (word == TUNE and words[0].startswith("-")):
            words.pop(0)  # its value
    return False


def _checked(command: "tuple[str, ...]", asked: "dict[str, object]") -> "WatchOptions | None":
    if not command or not all(asked.get(name, "-") not in {"", "--"} for name in ("out", "json")):
        return None
    for name in READ.keys() & asked.keys():
        value = asked[name] = READ[name](str(asked[name]))
        if value is None or (name == "hz" and not 0 < float(value) <= FASTEST):
            return None
    return WatchOptions(command, **asked)  # by name, as VALUES and FLAGS say


def _is_configured() -> bool:
    """Return whether the environment or a file may have something to say."""
    if any(name.startswith("GPUTUNE_") and name not in INHERITED for name in os.environ):
        return True
    try:
        folder = os.getcwd()
    except OSError:
        return True
    while True:
        if os.path.exists(os.path.join(folder, "gputune.toml")) or _mentions_us(os.path.join(folder, "pyproject.toml")):
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent


def _mentions_us(file: str) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a FIFO of somebody else's
    except OSError:
        return False
    try:
        return b"gputune" in os.read(descriptor, 1 << 20)  # B of a pyproject.toml
    except OSError:
        return False
    finally:
        os.close(descriptor)
