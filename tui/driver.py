"""Textual's driver, with an `Output` in place of the stream that it would write to."""

from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from gputune.tui.output import Output


def writing_to(output: Output) -> type[LinuxDriver]:
    """Return the class of a driver that draws on this."""

    class Steady(LinuxDriver):
        """Draws on a terminal that may vanish."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._file = output  # type: ignore[assignment] # Textual's thread writes and flushes, and asks for no more

    return Steady
