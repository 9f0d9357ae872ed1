"""Every failure that gputune understands. `gputune/cli.py` is the one place that prints them."""

BY_SIGNAL = 128  # a shell shows the death by signal n as 128 + n
TOO_LOW = 3  # exit status of a run below `--fail-under`, as of a proof that did not hold: measured, and not good enough
STOPPED = 4  # exit status of a run that `--stop-when` has ended


class GputuneError(Exception):
    """A failure gputune understands: printed without a traceback, status 1."""

    status = 1

    def __init__(self, says: str, *, hint: str) -> None:
        super().__init__(says)
        self.hint = hint

    def __str__(self) -> str:
        return f"error: {self.args[0]}\n\nhint: {self.hint}"


class BadUsage(GputuneError):  # noqa: N818 - named for what happened
    """What was typed cannot be done: status 2."""

    status = 2
