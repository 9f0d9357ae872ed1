"""gputune's own Python kept apart from the training's: the same variables and the same folder are not meant for both.

`PYTHONPATH` often holds packages for another Python, or files named like a library. Nothing is imported here that an
interpreter does not have at hand.
"""

import os
import sys

# The folder that gputune is imported from.
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def own_modules_first() -> None:
    """Let what this gputune was installed with win over what `PYTHONPATH` and `python -m` put in front of it.

    All stays within reach, and in its order where gputune itself was found through one of them.
    """
    try:
        theirs = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        if HERE not in theirs:  # an empty entry is the current folder, as "" without the variable is
            sys.path.sort(key=lambda entry: os.path.abspath(entry) in theirs)
    except OSError:  # the current folder was removed
        return


def own_python(code: str, *, theirs: bool = False) -> "list[str]":
    """Return the command that runs `code` with the modules that we have, whatever the variables and the folder say.

    With `theirs` this process is the user's: what was put in front of its path may be named like a library.
    """
    path = [entry for entry in sys.path if os.path.isabs(entry)]  # "" is the user's folder
    if theirs:
        path.sort(key=_distance)
    if HERE not in path:
        path.append(HERE)  # an editable installation is found by a hook of site's
    return [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {path!r}\n{code}"]


def _distance(entry: str) -> int:
    """Return how late an entry of the path is to be asked: Python's own, gputune's, what is installed, all else."""
    if entry == HERE:
        return 1
    if "-packages" in entry:
        return 2
    return 0 if entry.startswith((sys.base_prefix + os.sep + "lib", os.path.dirname(os.__file__))) else 3
