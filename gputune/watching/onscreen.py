"""`gputune watch --tui`: the watch as ever in a process of its own, with the screen on the terminal.

A terminal can show a screen or a command's output, not both: the output goes into a file beside the run folder, and the
command's standard input is empty. Leaving the screen ends nothing; what comes then is waited for.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.core.isolation import own_python
from gputune.feeds.endings import last_words
from gputune.feeds.rows import Feed
from gputune.launch import folders, signals
from gputune.report import streams
from gputune.report import terminal as report
from gputune.report.kept import kept
from gputune.runs.places import identity
from gputune.tui import terminal
from gputune.verdict.document import Verdict

if TYPE_CHECKING:
    from gputune.tui.showing import Left  # Textual, once the command has started

OPTION = "--tui"
INSTEAD = "without `--tui` it is watched all the same; `gputune tui` in another terminal shows it"
HANDED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def watch_on_screen(arguments: Sequence[str], out: str | None, command: tuple[str, ...]) -> int:
    """Run `gputune` with these arguments (without `--tui`), and show it; return the status of the command.

    Raises NoTerminal, and GputuneError where the run cannot be kept, before anything has started.
    """
    terminal.check(INSTEAD)
    folder = Path(folders.needed(out, command, "nothing could be shown"))
    log = Path(f"{folder}.log")
    watch = [arguments[0], *([] if out else ["--out", str(folder)]), *_without(arguments[1:])]
    process = _start([*own_python("from gputune.__main__ import main; main()"), *watch], log)
    try:
        left = _show(folder)
        if left.signal:  # of a terminal that has vanished without one, nobody has asked anything
            process.send_signal(left.signal)
    finally:
        code = _wait(process, log)
        _tell(folder, log)
    if code < 0:
        signals.die_of(-code)
        return 128 - code  # only where the kernel refuses
    return code


def _show(folder: Path) -> "Left":
    """Show it until somebody leaves; return how."""
    from gputune.tui.showing import ScreenOptions, show  # noqa: PLC0415 - once the command has started
    from gputune.tui.views import PageView  # noqa: PLC0415 - as above

    def feed() -> Feed:
        from gputune.feeds.local import LocalFeed  # noqa: PLC0415 - once there is a screen

        return LocalFeed(node, find=lambda: [folder])

    node = os.uname().nodename
    return show(feed, ScreenOptions(PageView("run", identity(folder, node))))


def _start(watch: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise GputuneError(f"`{clean(str(log))}` cannot be written ({error.strerror})", hint="`--out DIR`") from None
    try:
        return subprocess.Popen(watch, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    finally:
        os.close(output)


def _wait(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """Wait for the command, and hand on what is sent to us. A terminal's Ctrl-C has reached it already."""
    if process.poll() is None:
        _say(f"the command goes on; its output is in {clean(str(log))}")
    before = {number: signal.signal(number, lambda n, _: process.send_signal(n)) for number in HANDED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(folder: Path, log: Path) -> None:
    """Say where the output is, and the verdict: what the watch itself has printed is in the log."""
    verdict: Verdict | None = None
    with contextlib.suppress(GputuneError):  # the output of the command stays
        verdict = kept(folder)
    _say(f"the output of the command is in {clean(str(log))}")
    if verdict is not None and verdict.exit_code:
        sys.stderr.writelines(f"  | {line}\n" for line in last_words(log))
    if verdict is not None:
        colour = streams.colour_wanted(os.environ, terminal=sys.stderr.isatty())
        width = os.get_terminal_size(2).columns if sys.stderr.isatty() else report.USUAL
        text = report.render(verdict, width=width, colour=colour, run_folder=folders.typed(str(folder)))
        sys.stderr.write(streams.encodable(text, sys.stderr.encoding) + "\n")


def _without(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the option: the first word of that name is it, for it stands before the command."""
    at = list(arguments).index(OPTION)
    return [*arguments[:at], *arguments[at + 1 :]]


def _say(text: str) -> None:
    sys.stderr.write(f"gputune: {text}\n")
