"""One run folder as a row of the screen: live, ended or broken off, now or as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.hygiene import PHRASE, clean
from gputune.core.sample import Json, Reading, now
from gputune.core.units import NS
from gputune.feeds import packs
from gputune.feeds.board import Board
from gputune.feeds.endings import last_words, log_of
from gputune.feeds.history import Historian
from gputune.feeds.present import Recent
from gputune.feeds.rows import History, RunRow, RunState
from gputune.feeds.tasks import Kin
from gputune.recording.about import offset, read
from gputune.recording.folder import FINDINGS, LIVE, RUN
from gputune.report.kept import kept
from gputune.runs.jobs import job_of
from gputune.runs.places import first_seat, identity, recorded_on
from gputune.runs.whereabouts import fresh
from gputune.verdict import living
from gputune.verdict.document import Verdict
from gputune.verdict.living import LiveDocument

if TYPE_CHECKING:
    from gputune.recording.following import Follower  # pyarrow is not loaded before the screen is there

GONE = "its recording is gone: the folder was removed, or holds another run; this is what was seen of it"
T = TypeVar("T")


class OneRun:
    """Follows one run folder. Raises NotARun or NewerRun at once where it is none that can be read.

    `node` is the machine's name; without it that which the folder tells. `beside` is given every tick that is read.
    Unless it `follows` the recording, it tells only what the documents of a run on this machine say: no history.
    """

    def __init__(
        self,
        folder: Path,
        node: str = "",
        *,
        beside: Callable[[list[Reading]], None] | None = None,
        follows: bool = True,
    ) -> None:
        self.folder = folder
        self._follows = follows
        self._beside = beside
        self._seat = first_seat(folder)
        self._story = read(self._seat)
        self.node = node or recorded_on(folder)
        self.id = identity(folder, self.node)
        self._files: dict[str, tuple[tuple[int, int], object]] = {}
        self._follower: Follower | None = None
        self._drained = False  # it has ended, and all of it was read
        self._drawn: History | None = None  # of a run that had ended when we came
        self._historian = Historian(_number(self._story.get("started")))
        self._recent = Recent()
        self._judged: tuple[object, Verdict | None] = ("", None)
        self._at: float | None = None
        self._as_of: tuple[float, Verdict | None, Board] | None = None
        self._trouble = ""
        self._last: RunRow | None = None
        self.gone = False  # its folder is, or is another run's by now
        self._job: tuple[frozenset[int], str] | None = None  # of which processes that train, and its name

    @property
    def behind(self) -> bool:
        """Return whether there is more to be read at once."""
        wanted = self._follows and not self._trouble and not self._drained and not self.gone
        return wanted and (self._follower is None or self._follower.behind)

    @property
    def board(self) -> Board | None:
        """Return the machine as it was at the moment that was sought, None where that is the present."""
        return self._as_of[2] if self._as_of is not None and self._at is not None else None

    @property
    def ended(self) -> bool:
        """Return whether it was finished, as it was last read."""
        return bool(self._story.get("finished"))

    @property
    def kin(self) -> Kin:
        """Return its processes: the command's, and those that train."""
        told = self._story.get("processes")
        processes = [p for p in told if isinstance(p, dict)] if isinstance(told, list) else []
        alive = [p for p in processes if p.get("state") == "ring" and not p.get("ended")]
        mains = frozenset(_number(p.get("pid")) for p in alive)
        verdict = self._last.verdict if self._last is not None else None
        known = verdict.processes if verdict is not None else ()
        ranks = {each.pid: each.rank for each in known if each.rank is not None and each.pid in mains}
        return Kin(self.id, _number(self._story.get("pid")), mains, ranks)

    @property
    def job(self) -> str:
        """Return the job of a run on this machine, looked for again only when others train."""
        mains = self.kin.mains
        if self._job is None or self._job[0] != mains:
            self._job = (mains, job_of(self._story, self.folder, sorted(mains)))
        return self._job[1]

    def seek(self, at: float | None) -> None:
        """Show the run as it was `at` s after its start; None: as it is."""
        self._at = at

    def close(self) -> None:
        """Forget what was read. No file is held open between two looks."""
        self._follower = None

    def look(self) -> RunRow:
        """Return the run as it is now; of a long one that was not read yet, a part of its history."""
        story = self._kept(self._seat, RUN, read, self._story)
        self.gone = story.get("started") != self._story.get("started") or not (self._seat / RUN).is_file()
        if not self.gone or self._last is None:
            self._story = story
            self._last = self._looked()
        else:
            self._last = replace(self._last, state="ended" if self.ended else "broken", why=GONE, recent=None)
        return self._last

    def _looked(self) -> RunRow:
        self._follow()
        state = self._state()
        live = self._kept(self._seat, LIVE, _live, None) if state == "live" else None
        length = self._length(state)
        verdict, recent, judged = self._verdicts(state, live, length)
        told = None if live is None or self._at is not None else live.updated_s
        code = _code(self._story.get("exit_code")) if state == "ended" else None
        log = log_of(self.folder)
        pack = self._kept(self.folder, packs.FILE, packs.load, None)
        return RunRow(
            id=self.id,
            node=self.node,
            name=clean(_name(self._story, self.folder), PHRASE),
            pid=_number(self._story.get("pid")),
            folder=_typed(self.folder),
            state=state,
            why=self._trouble,
            started=(_number(self._story.get("started")) + offset(self._story)) / NS,
            length=length,
            at=length if self._at is None else min(self._at, length),
            seekable=self._follows,
            command=_command(self._story),
            exit_code=code,
            log=_typed(log) if log.is_file() else "",
            last=last_words(log) if code else (),
            verdict=verdict,
            recent=recent,
            told=told,
            judged=judged,
            present=self._recent.present(live.whole.batches, told) if live is not None and told is not None else None,
            history=self._historian.history() if self._drawn is None else self._drawn,
            procs=packs.rows(pack, state) if pack is not None else (),
            packed=packs.words(pack, state) if pack is not None else "",
        )

    def _follow(self) -> None:
        """Read what was added to the recording; of one that has ended, until there is nothing more."""
        if not self._follows or self._drained:
            return
        try:
            if self._follower is None and self.ended:
                self._draw()
                return
            if self._follower is None:
                from gputune.recording import lean  # noqa: PLC0415 - not before the screen is there
                from gputune.recording.following import Follower  # noqa: PLC0415 - as above

                lean()
                self._follower = Follower(self._seat, offset(self._story))
            ticks = self._follower.look()
            for file, why in self._follower.lost.items():
                self._trouble = f"a part of its recording cannot be read: `{clean(file)}` ({clean(why)})"
            for tick in ticks:
                self._historian.take(tick)
                self._recent.take(tick, began=self._historian.started / NS)
                if self._beside is not None:
                    self._beside(tick)
            if self.ended and not ticks and not self._follower.behind:
                self._follower, self._drained = None, True
        except Exception as error:  # noqa: BLE001 - a recording may be anybody's: no nonsense in it ends a screen
            self._trouble = f"its recording cannot be read: {clean(_words(error))}"

    def _draw(self) -> None:
        """Take the history of a run that has ended from its columns, and its machine from the last of them."""
        from gputune.feeds import drawn  # noqa: PLC0415 - not before the screen is there
        from gputune.recording import lean  # noqa: PLC0415 - as above

        lean()
        lost: dict[str, str] = {}
        self._drained = True
        trainers = drawn.trainers(self._kept(self.folder, FINDINGS, kept, None))
        self._drawn = drawn.history(self._seat, self._length("ended"), trainers, lost)
        for tick in drawn.ending(self._seat, self._story, lost):
            if self._beside is not None:
                self._beside(tick)
        for file, why in lost.items():
            self._trouble = f"a part of its recording cannot be read: `{clean(file)}` ({clean(why)})"

    def _state(self) -> RunState:
        if self._story.get("finished"):
            return "ended"
        return "live" if fresh(self._seat) else "broken"

    def _length(self, state: RunState) -> float:
        began, ended = _number(self._story.get("started")), _number(self._story.get("ended"))
        known = ((self._historian.last if self._follows or state != "live" else now()) - began) / NS
        return max(0.0, (ended - began) / NS if state == "ended" and ended else known)

    def _verdicts(
        self, state: RunState, live: LiveDocument | None, length: float
    ) -> tuple[Verdict | None, Verdict | None, float | None]:
        """Return the verdict on the whole, that on the last minute, and when (s) the findings were made."""
        if self._at is not None:
            verdict = self._then(min(self._at, length))
            return verdict, None, min(self._at, length)
        if live is not None:
            return live.whole, live.window, live.judged_s
        if state == "live":
            return None, None, None
        found = self._kept(self.folder, FINDINGS, kept, None)
        return found or (self._again(state) if self._follows else None), None, length

    def _again(self, state: RunState) -> Verdict | None:
        """Judge a run anew that has left no verdict: once, and again when it has ended in another way."""
        if self._judged[0] != state:
            self._judged = (state, self._rejudged(None, None))
        return self._judged[1]

    def _then(self, at: float) -> Verdict | None:
        if self._as_of is None or abs(self._as_of[0] - at) >= 0.5:
            board = Board()
            self._as_of = (at, self._rejudged(at, board), board)
        return self._as_of[1]

    def _rejudged(self, until: float | None, board: Board | None) -> Verdict | None:
        from gputune.report.rejudging import Way, rejudge  # noqa: PLC0415 - with all advisors; most runs have a verdict

        try:
            return rejudge(self.folder, {}, way=Way(until, None if board is None else board.take, lost={}))
        except (OSError, GputuneError, ValueError) as error:  # `rejudge` has made one of all others
            self._trouble = f"it cannot be judged: {clean(_words(error))}"
            return None

    def _kept(self, folder: Path, name: str, load: Callable[[Path], T], otherwise: T) -> T:
        """Return what a file says, read anew only where it has changed; `otherwise` where it says nothing now."""
        try:
            about = (folder / name).lstat()
            stamp = (about.st_mtime_ns, about.st_ino)
            known = self._files.get(name)
            if known is None or known[0] != stamp:
                known = self._files[name] = (stamp, load(folder))
        except (OSError, GputuneError, msgspec.DecodeError, ValueError):
            return otherwise
        return known[1]  # type: ignore[return-value] # kept by the name that `load` belongs to


def _live(folder: Path) -> LiveDocument:
    return living.decoded(opening.read(folder / LIVE))


def _name(story: dict[str, Json], folder: Path) -> str:
    """Return what a run is called: its script, else its folder."""
    words = [Path(word).name for word in _command(story) if word.endswith((".py", ".sh"))]
    return words[0] if words else folder.name


def _command(story: dict[str, Json]) -> tuple[str, ...]:
    command = story.get("command")
    return tuple(map(str, command)) if isinstance(command, list) else ()


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _code(value: Json) -> int | None:
    return value if isinstance(value, int) else None


def _typed(folder: Path) -> str:
    """Return the folder as it would be typed from here."""
    try:
        return str(folder.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(folder)


def _words(error: Exception) -> str:
    if isinstance(error, GputuneError):
        return str(error.args[0])
    return getattr(error, "strerror", None) or str(error)
