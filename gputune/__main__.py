"""The way in: `gputune` and `python -m gputune`.

It imports next to nothing, because under `watch` this process becomes the supervisor, which must start the command
at once and stay small. What is parsed and printed happens in `gputune/cli.py`, there in a forked process.
"""

import signal
import sys
from collections.abc import Callable

from gputune import __version__
from gputune.core.isolation import own_modules_first
from gputune.launch import express
from gputune.launch.link import Ended, PipeEnd

SUPERVISED = frozenset({"watch", "run", "share"})  # the commands that run somebody else's program in our place

# Where a proof is to follow, or a screen is shown, another process is supervised and this one waits for it; with a pid
# nobody is started.
DIRECT = ("--prove", "--tui", "--pid")
# In a cluster nobody is started here. Options of `share` without a value: tests/commands/test_share.py compares them.
CLUSTER = "--ray"
SHARE_FLAGS = frozenset({"--follow", "--own-dirs", "--no-index-args", "--queue", "--trial-each", "--dry-run", "--json"})
TALK = frozenset({"--help", "-h", "--dry-run"})  # of `share`: nothing runs


def main() -> None:
    """Run the command line. Does not return."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C ends us in silence, until the command line is read
    arguments = sys.argv[1:]
    own_modules_first()
    if arguments == ["--version"] and _said(f"gputune {__version__}\n"):
        sys.exit(0)
    if arguments and arguments[0] in SUPERVISED and not _is_direct(arguments):
        _supervised(arguments)
    try:
        from gputune import cli  # noqa: PLC0415 - click costs 20 ms that `watch` does not have before its fork
    except ImportError as error:
        sys.stderr.write(f"error: gputune is not whole: {error}\n\nhint: pip install --force-reinstall gputune\n")
        sys.exit(1)

    sys.exit(cli.run(arguments))


def _is_direct(arguments: list[str]) -> bool:
    if arguments[0] == "share":
        return express.asks(arguments[1:], CLUSTER, SHARE_FLAGS)
    return arguments[0] == "watch" and any(express.asks(arguments[1:], name) for name in DIRECT)


def _said(text: str) -> bool:
    """Print it; return whether that went well. If not, the ordinary road says why."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, AttributeError):  # there is no place left, or no stdout
        return False
    return True


def _supervised(arguments: list[str]) -> None:
    from gputune.launch.supervisor import supervise  # noqa: PLC0415 - as above

    def first(link: PipeEnd, _run: dict[str, object]) -> int:
        wishes = express.wishes(arguments[1:]) if arguments[0] == "watch" else None
        if wishes is not None:
            from gputune.core.errors import BadUsage  # noqa: PLC0415 - in the fork
            from gputune.watching import starting  # noqa: PLC0415 - in the fork

            try:
                return starting.watch(wishes, link)
            except BadUsage:  # nothing was done yet: the ordinary road ends there too, and says so
                pass
        from gputune import cli  # noqa: PLC0415 - in the fork

        return cli.run(arguments, link)

    def again(link: PipeEnd, run: dict[str, object]) -> int:
        if arguments[0] == "run":
            from gputune.watching import running  # noqa: PLC0415 - in the fork

            return running.follow(link, run)
        from gputune.launch.run import restored  # noqa: PLC0415 - in the fork
        from gputune.watching import recorder  # noqa: PLC0415 - in the fork

        return recorder.record(link, restored(run), resumed=True)

    ahead = _launcher if arguments[0] == "share" and not TALK & set(arguments) else None
    supervise(first, again, ahead, None if arguments[0] == "run" else _hand)


def _hand(run: dict[str, object], ended: Ended, why: str) -> None:
    """Write what is known of a run whose recorder was lost."""
    from gputune.watching.recorder import last  # noqa: PLC0415 - in a fork

    last.hand(run, ended, why)


def _launcher() -> Callable[[], None]:
    """Load what runs the tasks of `share`."""
    from gputune.launch import family  # noqa: PLC0415 - in the fork
    from gputune.sharing.launcher import main as launch  # noqa: PLC0415 - in the fork

    family.adopt()  # it loads what this needs: later the tasks would wait for it

    return launch


if __name__ == "__main__":
    main()
