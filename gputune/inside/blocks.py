"""`gputune.watch(...)`: a block, or a function, that is recorded, and the verdict at its end.

    with gputune.watch() as run:
        train()
    run.findings[0].says

Whatever becomes of us, the block runs as it would have run, and its exceptions are its own.
"""

import atexit
import contextlib
import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from gputune.core.errors import BadUsage
from gputune.inside.around import OURS, around, rank
from gputune.inside.joined import Joined
from gputune.launch.express import FASTEST
from gputune.launch.run import HZ, WatchOptions
from gputune.launch.values import MOST_PERTURBED, PERTURBED

if TYPE_CHECKING:  # msgspec takes 20 ms, and is imported where somebody asks for the verdict
    from gputune.verdict.document import FindingRow, Verdict

Call = TypeVar("Call", bound=Callable[..., Any])
TWICE = f"this {OURS} records nothing: another one records this process already"
_lock = threading.Lock()
_running: "Watch | None" = None


class Watch:
    """One recording of this process, from `start` to `stop`: as a `with` block, as a decorator, or by these two calls.

    `folder` is where it is kept, None where it is not; `said` is the verdict in words, as it was printed; `why` says in
    a sentence why nothing was recorded.
    """

    def __init__(self, wishes: Callable[[], WatchOptions], *, quiet: bool = False) -> None:
        self._wishes = wishes
        self._quiet = quiet
        self._joined: Joined | None = None
        self._pid = 0  # of the process that has started it
        self._rank = 0
        self._own = ""  # the folder of this rank, where a job has several
        self.folder: Path | None = None
        self.said = ""
        self.why = ""

    def start(self) -> "Watch":
        """Begin to record. Raises BadUsage where `out` is taken, RuntimeError where it goes on already."""
        global _running  # noqa: PLW0603 - a process has one
        with _lock:
            if self._joined is not None and self._pid == os.getpid():
                raise RuntimeError("this recording goes on already")
            self._pid, self._rank = os.getpid(), rank()
            self._joined, self.folder, self.said = None, None, ""
            outer = around()
            inner = _running is not None and _running._pid == os.getpid()
            self.why = TWICE if inner else outer or ""
            if inner or outer is not None:
                return self
            try:
                self._joined = Joined(self._wishes())
            except BadUsage:
                raise
            except Exception as error:  # noqa: BLE001 - the training is worth more than its recording
                self.why = f"nothing was recorded ({type(error).__name__}: {error})"
                return self
            _running = self
        self.folder, self._own = Path(self._joined.folder) if self._joined.folder else None, self._joined.own
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop recording, and say what was found. Does nothing a second time, and in a child that was forked."""
        if self._pid != os.getpid():
            return
        self._pid = 0
        joined = self._taken()
        if joined is not None:
            said = joined.leave()
            self.said = (said or "").strip("\n")
            if said is None:
                self.why = f"the recorder has left no verdict: `gputune report {joined.folder}` shows what there is"
        if not self._quiet:
            self._speak()

    def _taken(self) -> Joined | None:
        global _running  # noqa: PLW0603 - as above
        with _lock:
            joined, self._joined = self._joined, None
            if joined is not None:
                _running = None
        atexit.unregister(self.stop)
        return joined

    def _speak(self) -> None:
        if rank() or self._rank:  # the lowest rank speaks for all
            return
        said = f"\n{self.said}\n" if self.said else ""
        said += f"gputune: {self.why}\n" if self.why else ""
        with contextlib.suppress(Exception):  # no stderr, a closed one, or somebody's own
            sys.stderr.write(said)
            sys.stderr.flush()

    @property
    def verdict(self) -> "Verdict | None":
        """What was found, as `findings.json` has it; None before the end, and where nothing was recorded."""
        from gputune.report.kept import kept  # noqa: PLC0415 - see above

        return None if self.folder is None or self._joined is not None else kept(self.folder) or kept(Path(self._own))

    @property
    def findings(self) -> "list[FindingRow]":
        """The findings of the verdict, the best first."""
        verdict = self.verdict
        return [] if verdict is None else verdict.findings

    def __enter__(self) -> "Watch":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __call__(self, function: Call) -> Call:
        """Return a function each call of which is recorded, with these options: also of a coroutine or a generator."""

        def anew() -> Watch:
            return Watch(self._wishes, quiet=self._quiet)

        return _decorated(function, anew)

    def __repr__(self) -> str:
        state = "goes on" if self._joined is not None else "over" if self.folder is not None else "not begun"
        return self.said or self.why or f"<gputune.watch: {state}>"

    def _repr_html_(self) -> str:
        from gputune.inside.shown import html  # noqa: PLC0415 - only in a notebook

        return html(self.folder if self._joined is None else None, repr(self))


@overload
def watch(out: Call, /) -> Call: ...


@overload
def watch(
    out: "str | os.PathLike[str] | None" = None,
    *,
    quiet: bool = False,
    stacks: bool = True,
    hz: float = HZ,
    price: float | None = None,
    perturb: float = PERTURBED,
    html: bool = False,
) -> Watch: ...


def watch(  # noqa: PLR0913 - one parameter an option of `gputune watch`
    out: "Call | str | os.PathLike[str] | None" = None,
    *,
    quiet: bool = False,
    stacks: bool = True,
    hz: float = HZ,
    price: float | None = None,
    perturb: float = PERTURBED,
    html: bool = False,
) -> "Call | Watch":
    """Return a recording of this process: `with gputune.watch() as run:`, or `@gputune.watch`.

    `out` is the run folder, new or empty, by default `gputune-runs/<time>-<name>`; `hz` readings a second (0 to 100);
    `price` of a device for an hour; `perturb` the share of the time for experiments (0 to 0.03). With `quiet` nothing
    is printed, with `stacks=False` py-spy does not look, and `html` leaves `report.html` in the folder.
    Raises BadUsage for what cannot be, here or as it begins.
    """
    if callable(out):
        return watch()(out)
    _check(hz, price, perturb)
    named = None if out is None else os.fspath(out)

    def wishes() -> WatchOptions:
        return WatchOptions((), out=named, hz=hz, stacks=stacks, price=price, perturb=perturb, html=html)

    return Watch(wishes, quiet=quiet)


def _check(hz: float, price: float | None, perturb: float) -> None:
    if not 0 < hz <= FASTEST:
        raise BadUsage(f"`hz={hz}` is not a rate between 0 and {FASTEST:g} readings a second", hint="10 is enough")
    if price is not None and not 0 <= price < float("inf"):
        raise BadUsage(f"`price={price}` is no price", hint="like `price=2.50`")
    if not 0 <= perturb <= MOST_PERTURBED / 100:
        raise BadUsage(f"`perturb={perturb}` is no share up to {MOST_PERTURBED / 100}", hint=f"like `{PERTURBED}`")


def _decorated(function: Call, anew: Callable[[], Watch]) -> Call:
    if inspect.iscoroutinefunction(function):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with anew():
                return await function(*args, **kwargs)

        return cast("Call", functools.wraps(function)(awaited))
    if inspect.isgeneratorfunction(function):

        def generated(*args: Any, **kwargs: Any) -> Any:
            with anew():
                return (yield from function(*args, **kwargs))

        return cast("Call", functools.wraps(function)(generated))

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with anew():
            return function(*args, **kwargs)

    return cast("Call", called)
