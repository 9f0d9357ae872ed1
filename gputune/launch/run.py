"""What was asked of a run, and what a recorder is told of it: all it needs to begin, and to begin again.

Plain classes: importing typing or dataclasses would delay the command by five or ten milliseconds.
"""

from gputune.launch.values import PERTURBED

HZ = 10.0  # readings a second
MAX_SIZE = 512 << 20  # bytes of a recording: weeks of it


class WatchOptions:
    """What was asked for on the command line, in the environment or in a file. The defaults are `watch`'s."""

    command: "tuple[str, ...]" = ()
    out: "str | None" = None
    hz: float = HZ
    json: "str | None" = None  # a file, or "-" for stdout
    max_size: int = MAX_SIZE
    stacks: bool = True
    quiet: bool = False
    perturb: float = PERTURBED  # share of the time for which device and workers may be held back
    all_devices: bool = False
    price: "float | None" = None  # of one device for an hour, in any currency
    fail_under: "float | None" = None  # a share 0 to 1 (`gputune/features/waiting.py`): a run below it has failed
    stop_when: "float | None" = None  # s of starving after which the command is ended
    pid: int = 0  # of a process that ran before us and is only looked at; 0 where we start the command
    tune: str = ""  # of `values.TUNING`, what of its loader may be tuned while it runs; "" for nothing
    html: bool = False  # a page is written into the run folder afterwards
    export: str = ""  # names of exporters, with commas: where the run is taken afterwards

    def __init__(self, command: "tuple[str, ...]", **asked: object) -> None:
        """Take what was asked for, by the names above. Raises TypeError for another name."""
        if unknown := asked.keys() - set(ASKED):
            raise TypeError(f"no option of a watch: {', '.join(sorted(unknown))}")
        self.command = command
        self.__dict__.update(asked)


ASKED = tuple(WatchOptions.__annotations__)


class WatchedRun(WatchOptions):
    """One watched command, in fields that go through a pipe."""

    def __init__(  # noqa: PLR0913 - one parameter a field
        self,
        wishes: WatchOptions,
        *,
        folder: str,
        rings: str,
        troubles: "list[str]",
        job: str = "",
        family: bool = False,
    ) -> None:
        super().__init__(**{name: getattr(wishes, name) for name in ASKED})
        self.family = family  # what the command leaves behind is ended, by whoever is left to do it
        self.folder = folder  # "" where nothing can be kept
        self.job = job  # the folder of a job of several watches, in which `folder` is ours; "" for a run of our own
        self.rings = rings  # "" where guests cannot speak
        self.troubles = troubles  # what went wrong before the start, said after the run

    def whole(self) -> "WatchedRun":
        """Return the run of the job that this watch is one of."""
        return WatchedRun(self, folder=self.job, rings=self.rings, troubles=[])

    def plain(self) -> "dict[str, object]":
        """Return what `restored` needs."""
        own = {name: getattr(self, name) for name in ("family", "folder", "job", "rings", "troubles")}
        return {"wishes": {name: getattr(self, name) for name in ASKED}, **own}


def restored(fields: "dict[str, object]") -> WatchedRun:
    """Return the run that `plain` has taken apart."""
    wishes = WatchOptions(**fields.pop("wishes"))  # type: ignore[arg-type] # it went in as a dict of Wishes' own fields
    return WatchedRun(wishes, **fields)  # type: ignore[arg-type] # as above
