"""What the guests in the watched processes write into their rings: batches, fetches, pauses, and who they are.

The layout is docs/ring.md. For ten seconds after the start, or after a process has come or gone, rings and folder are
read on every tick; then once a second, for records taken together cost half of what they cost one by one. On the looks
between one slot of each ring is read: if so much is new that some might be lost, everything is read at once. A
file that is no ring is named once and left alone. A process that ended is drained, told and forgotten and its files are
removed, so that a run that starts workers for every epoch does not fill the shared memory. A recorder that takes over
from one that died goes on where that one stopped, under the same process indices.

Over 300 lines because reading a ring, knowing its process and numbering processes share one life cycle.
"""

import contextlib
import errno
import json
import mmap
import os
import select
import stat
import struct
import time
from collections import deque
from pathlib import Path

from gputune.core.events import BatchCode, Event, Kind, Record
from gputune.core.hygiene import mask
from gputune.core.sample import Guest, Json, Metric, Note, Open, Reading, Role, Sample, Target, Ticks, now

WAIT = Metric("loader.wait", "ratio", "Share of the last second that training processes spent in next(), their mean.")
BATCHES = Metric("loader.batches", "1", "Batches that training processes got from their loaders.", "counter")
SAMPLES = Metric("loader.samples", "1", "Samples in those batches, as far as their number is known.", "counter")
ERRORS = Metric("loader.errors", "1", "Errors that guests swallowed inside the watched processes.", "counter")
LOST = Metric("loader.lost", "1", "Records that were overwritten before they were read.", "counter")
METRICS = (WAIT, BATCHES, SAMPLES, ERRORS, LOST)

PERIOD = 0.0  # every tick
LATER = (
    0.25  # s; a ring holds four thousand records, and a training that writes more in a quarter of a second has no work
)
MAGIC = b"GPUTUNE1"
VERSION = 1
HEADER = struct.Struct("<8sIIIIIIiiqIIQIIqQQqqI")
RECORD = struct.Struct("<IHHqqqqqqII")
U32 = struct.Struct("<I").unpack_from
U64 = struct.Struct("<Q").unpack_from
LIVE = struct.Struct("<QIIqQQqq").unpack_from  # at 56: notes, mark kind, code, t0, errors, read, ended, since
OPENING = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_AT, LIVE_AT, FLAGS_AT, INDEX_AT, ENDED_AT = 88, 56, 52, 112, 96
M32 = 0xFFFFFFFF
RECENT = 256  # t0 of records kept to know whether an open mark is stale: marks are nested a few deep
BEAT = 1_000_000_000  # ns between samples, and the silence after which what is open is worth saying
YOUNG = 10 * BEAT  # ns; so long everything is read on every tick, and the role of a new process known at once
PRESSING = 512  # records that are not left unread for long, or an eighth of a small ring
SETTLE = 0.1  # s; a folder that changed this short ago may change again within one tick of its time stamp
LEFT = ".raised"
EARLY = 4096  # bytes of an error that ended a script without torch: several times what a guest tells

BATCH = int(Kind.BATCH)  # looked up for every record, and an enum's members are slow to look up
new = tuple.__new__  # what Event(...) and Record(...) do, without their calls


class Foreign(Exception):  # noqa: N818 - a fact about a file
    """A file in the folder is no ring, or a damaged one."""


def _opened(path: Path) -> tuple[int, tuple[Path, ...]]:
    """Return a descriptor of a ring, and its files: the ring, and the link where it lies in a spare folder.

    The guest makes the link where shared memory is full; it leads into a folder of this one's name, and nowhere else.
    """
    files: tuple[Path, ...] = (path,)
    try:
        fd = os.open(path, OPENING)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        target = path.readlink()
        if target.parent.name != path.parent.name:
            raise Foreign("it is a link to elsewhere") from None
        fd, files = os.open(target, OPENING), (path, target)
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != path.parent.stat().st_uid:
        os.close(fd)
        raise Foreign("it is somebody else's, or no file")
    return fd, files


class Ring:
    """The reader of one ring file. `errors`, `since` and the open mark are as of the last `look`."""

    def __init__(self, path: Path) -> None:
        fd, self.files = _opened(path)
        try:
            size = os.fstat(fd).st_size
            if size < HEADER.size:
                raise Foreign("it is too short to be a ring")
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        fields = HEADER.unpack_from(self._map)
        magic, version, capacity, self._notes_at, room, self._base, record = fields[:7]
        self.pid, self.ppid, self.created, _hexversion, flags = fields[7:12]
        whole = capacity > 0 and capacity & (capacity - 1) == 0 and record == RECORD.size
        if magic != MAGIC or version != VERSION or not whole or self._base + capacity * record > size or self._base % 4:
            self._map.close()
            raise Foreign(f"it is no ring of version {VERSION}")
        if room > 1 << 20 or self._notes_at + room > self._base:  # bytes of notes that are believed
            self._map.close()
            raise Foreign("its header is damaged")
        self._room = room
        self._capacity, self._mask = capacity, capacity - 1
        self._view = memoryview(self._map)
        self._words = self._view[: size // 4 * 4].cast("I")  # the numbers of the records are aligned
        self._stop = self._base + capacity * RECORD.size
        self._noted = 0
        self.read: int = fields[17]
        self.index: int = fields[20] - 1  # -1: no recorder has numbered it yet
        self.worker = bool(flags & 1)
        self.recent: deque[int] = deque(maxlen=RECENT)
        self.lost = self._lost_told = 0
        self._hole_seen = -1
        self.errors = 0
        self.ended = 0
        self.mark = (0, 0, 0)
        self.since = 0
        self._remember()

    def _remember(self) -> None:
        """Learn the last records that an earlier recorder read, for the open mark's sake."""
        for n in range(max(0, self.read - RECENT), self.read):
            fields = RECORD.unpack_from(self._map, self._base + (n + 1 & self._mask) * RECORD.size)
            if fields[0] == fields[10] == (n + 1) & M32:
                self.recent.append(fields[3])

    def number(self, index: int) -> None:
        """Write the index of its process into the file, for the recorder that may take over."""
        self.index = index
        struct.pack_into("<I", self._map, INDEX_AT, index + 1)

    def look(self) -> None:
        """Read what changes in the header."""
        _notes, kind, code, t0, self.errors, _read, self.ended, self.since = LIVE(self._map, LIVE_AT)
        self.mark = (kind, code, t0)
        self.worker = bool(U32(self._map, FLAGS_AT)[0] & 1)

    def open(self) -> tuple[int, int, int]:
        """Return kind, code and t0 of what is under way, zeros when its record has been read."""
        return self.mark if self.mark[2] not in self.recent else (0, 0, 0)

    def ahead(self) -> tuple[memoryview, int, int]:
        """Return a slot as a view, its place there, and what it holds: something else once too much is unread."""
        last = (self.read + min(PRESSING, self._capacity // 8)) & self._mask
        place = (self._base + last * RECORD.size) // 4
        return self._words, place, self._words[place]

    def farewell(self) -> tuple[memoryview, int, int]:
        """Return the place of the time at which its process says that it writes no more, likewise."""
        return self._words, ENDED_AT // 4, self._words[ENDED_AT // 4]

    def drain(self, process: int) -> list[Event]:
        """Return the records written since the last call, in order, as events of `process`."""
        events: list[Event] = []
        while True:
            first = (self.read + 1) & M32
            at = self._base + (first & self._mask) * RECORD.size
            found = U32(self._map, at)[0]
            if found != first:
                newer = found != 0 and (found - first) & M32 <= M32 // 2
                if (newer and self._lapped(first)) or (not newer and self._hole(first)):
                    continue
                break
            seq = first
            got: list[Event] = []
            for fields in RECORD.iter_unpack(self._view[at : self._stop]):
                if fields[0] != seq or fields[10] != seq:
                    break
                got.append(new(Event, (process, new(Record, fields[1:10]))))
                seq = (seq + 1) & M32
            if not got or U32(self._map, at)[0] != first:  # being written right now, or overtaken while we read
                if not got:
                    break
                continue
            self.read += len(got)
            events += got
            if len(events) >= self._capacity:  # a writer as fast as this one is read on at the next tick
                break
        if events:
            self._consumed()
            self.recent.extend([event.record.t0 for event in events[-RECENT:]])
        return events

    def _consumed(self) -> None:
        """Write into the file how far it was read."""
        struct.pack_into("<Q", self._map, READ_AT, self.read)

    def _hole(self, first: int) -> bool:
        """Step over a record that its writer never finished: a later one stands there, and did at the last tick."""
        following = (first + 1) & M32
        if U32(self._map, self._base + (following & self._mask) * RECORD.size)[0] != following:
            return False
        if self._hole_seen != first:
            self._hole_seen = first
            return False
        self.lost += 1
        self.read += 1
        return True

    def _lapped(self, first: int) -> bool:
        """Go on at the oldest record that is safe from the writer, and count what is lost."""
        ahead = 0
        for fields in RECORD.iter_unpack(self._view[self._base : self._stop]):
            distance = (fields[0] - first) & M32
            if fields[0] == fields[10] and distance <= M32 // 2:
                ahead = max(ahead, distance)
        # 64 records; after being lapped stay this far from the writer, who goes on writing
        skip = ahead - self._capacity + 1 + 64
        if skip <= 0:
            return False
        self.lost += skip
        self.read += skip
        return True

    def notes(self) -> list[dict[str, Json]]:
        """Return the notes written since the last call; a line that is no JSON object is left out."""
        size = min(U64(self._map, LIVE_AT)[0], self._room)
        if size <= self._noted:
            return []
        text = bytes(self._view[self._notes_at + self._noted : self._notes_at + size])
        self._noted = size
        notes = []
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                fields = json.loads(line)
                if isinstance(fields, dict):
                    notes.append(_masked(fields) if fields.get("n") == "raised" else fields)
        return notes

    def losses(self, *, last: bool) -> list[dict[str, Json]]:
        """Return that more records were lost: once they have doubled since it was told, and at the `last`."""
        more = self.lost - self._lost_told
        if self.worker or not more or (more < self._lost_told and not last):
            return []
        self._lost_told = self.lost
        return [{"n": "lost", "records": more}]

    def close(self) -> None:
        """Give the mapping back."""
        self._words.release()
        self._view.release()
        self._map.close()


def _early(path: Path) -> dict[str, Json]:
    """Return what a process left that an error ended before it had a ring; nothing of a file that is none of that."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        fields = json.loads(os.read(file, EARLY)) if stat.S_ISREG(os.fstat(file).st_mode) else None
    except (OSError, ValueError, RecursionError):
        fields = None
    finally:
        os.close(file)
    if not isinstance(fields, dict) or fields.get("n") != "raised":
        return {}
    return _masked(fields)


def _masked(fields: dict[str, Json]) -> dict[str, Json]:
    """Return what an error said without secrets: it may name an address with a password in it."""
    return {**fields, "what": mask([str(fields.get("what") or "")])[0]}


class GuestProcess:
    """One process that said hello, wrote a ring, or both."""

    def __init__(self, index: int, pid: int, seen: int, hello: Path | None) -> None:
        self.index, self.pid, self.hello = index, pid, hello
        self.started = seen
        self.ring: Ring | None = None
        self.told: Guest | None = None
        self.moved = now()
        self.opened = Open(index, 0, 0, 0, 0)
        self.waited_to = now()  # loader.wait is counted up to here
        self.replaced = 0  # when another program took its pid over by exec
        self.ringless: tuple[str, Path] | None = None  # a role, and the file that says why it has no ring
        try:
            self.fd = os.pidfd_open(pid)
        except (OSError, AttributeError):  # gone already, an old kernel, or one that forbids it
            self.fd = -1

    @property
    def role(self) -> Role:
        """Return what it is: one that imported torch trains, as far as we can know."""
        if self.ring is None and self.ringless is not None:
            return "worker" if self.ringless[0] == "worker" else "main"
        if self.ring is None:
            return "other"
        return "worker" if self.ring.worker else "main"

    def gone(self) -> bool:
        """Return whether it has ended: asked seldom where the kernel does not tell us."""
        if self.fd >= 0:
            return False
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return True
        return stat.rpartition(b")")[2].split()[0] in {b"Z", b"X"}

    def guest(self, ended: int) -> Guest:
        """Return what is known of it now."""
        ring = self.ring
        ppid = ring.ppid if ring is not None else 0
        return Guest(self.index, self.pid, ppid, self.started, ended, self.role, self.state, self._why())

    @property
    def state(self) -> str:
        """Return how much is heard of it, as `Guest` has it."""
        return "ring" if self.ring else "hello" if self.ringless is None else "none"

    def _why(self) -> str:
        if self.ring or self.ringless is None:
            return ""
        code = int(self.ringless[1].name.split(".")[2])
        return f"no place for its ring, in shared memory or elsewhere ({os.strerror(code) if code else 'an error'})"

    def close(self) -> None:
        """Give everything back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.ring is not None:
            self.ring.close()
            self.ring = None


class Rings:
    """All processes of one folder."""

    def __init__(self, target: Target) -> None:
        self._folder = target.rings
        self._path = str(target.rings)
        self._proc = target.proc
        self._seen: set[str] = set()
        self._changed = 0.0
        self._scanned = False
        self._poll = select.epoll()
        self._by_fd: dict[int, GuestProcess] = {}
        self._by_pid: dict[int, GuestProcess] = {}
        self._replaced = False
        self._ahead: list[tuple[memoryview, int, int]] = []
        self.alive: list[GuestProcess] = []
        self._next = self._read_next()
        self._young_until = now() + YOUNG  # or so long after a process has come or gone
        self._due = now() + BEAT - int(BEAT / target.hz / 2)  # half a tick early is in time
        self._root = self._watch_root(target.root_pid)
        self._last = self._looked = self._ticked = now()  # of the beat, of the tick before this one, of this one
        self._waited = 0
        self.batches = self.samples = 0
        self._lost = self._errors = 0  # of processes that are gone

    def tick(self) -> list[Reading]:
        """Return what is new."""
        t = now()
        self._looked, self._ticked = self._ticked, t
        beat = t >= self._due
        told = self._poll.poll(0)
        thorough = beat or t < self._young_until or not self._scanned
        if not told and not thorough and self._root >= 0:
            for words, place, was in self._ahead:
                if words[place] != was:  # so much is new that it should not wait, or it is the last
                    break
            else:
                return []
        dead = self._ended(told)
        thorough = thorough or bool(dead)
        readings: list[Reading] = []
        if thorough:
            self._scan(readings)
            if dead or readings:
                self._young_until = t + YOUNG
        self._read(t, dead, readings, beat=beat)
        if beat:
            self._sample(t, readings)
        return readings

    def _read(self, t: int, dead: list[GuestProcess], readings: list[Reading], *, beat: bool) -> None:
        """Read every ring, and bury the dead."""
        if beat:
            dead += [process for process in self.alive if process.fd < 0 and process.gone()]
        for process in self.alive:
            if process.ring is not None:
                self._drain(process, process.ring, t, readings, beat=beat)
        if self._replaced:
            dead += [process for process in self.alive if process.replaced]
            self._replaced = False
        for process in dict.fromkeys(dead):
            self._bury(process, readings)
        rings = [process.ring for process in self.alive if process.ring is not None]
        self._ahead = [place for ring in rings for place in (ring.ahead(), ring.farewell())]

    def close(self) -> None:
        """Give everything back."""
        self._ahead.clear()
        for process in self.alive:
            process.close()
        self._forget_root()
        self._poll.close()

    # who is there

    def _watch_root(self, pid: int) -> int:
        """Return a descriptor that tells of the command's end; -1 without one: then nothing may wait to be read."""
        try:
            fd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            return -1
        self._poll.register(fd, select.EPOLLIN)
        return fd

    def _forget_root(self) -> None:
        if self._root >= 0:
            self._poll.unregister(self._root)
            os.close(self._root)
            self._root = -1

    def _ended(self, told: list[tuple[int, int]]) -> list[GuestProcess]:
        """Return the processes that have ended since the last call, as far as the kernel told."""
        fds = [fd for fd, _ in told]
        if self._root in fds:
            self._forget_root()
        return [self._by_fd[fd] for fd in fds if fd in self._by_fd]

    # what is there

    def _scan(self, readings: list[Reading]) -> None:
        """Meet files that are new. Reading the folder is skipped while its time stamp says that nothing changed."""
        try:
            changed = os.stat(self._path).st_mtime  # noqa: PTH116 - on every tick
            if self._scanned and changed == self._changed:
                return
            self._scanned = time.time() - changed > SETTLE
            self._changed = changed
            with os.scandir(self._path) as entries:
                names = [entry.name for entry in entries if entry.name not in self._seen]
        except OSError as error:
            if self._changed and isinstance(error, FileNotFoundError):  # it was there
                self._changed = 0.0
                why = "their folder was removed while it ran: who began after that was not seen"
                readings.append(Note(-1, {"n": "unavailable", "probe": "rings", "why": why}))
            return
        if names:
            self._meet(names, readings)
            for name in names:
                if name.endswith(".none"):
                    self._without(self._folder / name)
            for process in self.alive:
                if process.told is None or process.told.state != process.state:
                    self._tell(process, 0, readings)

    def _meet(self, names: list[str], readings: list[Reading]) -> None:
        rings: list[Ring] = []
        hellos: list[tuple[int, int, int, Path]] = []  # when, number or -1, pid, path
        for name in names:
            path = self._folder / name
            try:
                if name.endswith(".ring"):
                    rings.append(Ring(path))
                elif name.endswith(".hello"):
                    hellos.append(self._hello(path))
                self._seen.add(name)
            except (OSError, ValueError, Foreign) as error:
                if not self._half_made(path):
                    self._foreign(name, f"`{name}` cannot be read: {error}", readings)
        for when, number, pid, path in sorted(hellos):
            self._arrive(pid, when, number, path)
        for ring in sorted(rings, key=lambda r: r.created):
            self._own(ring)
        for name in names:
            stem = name[: -len(LEFT)] if name.endswith(LEFT) else ""
            process = self._by_pid.get(int(stem)) if stem.isdecimal() else None
            if process is not None and (fields := _early(self._folder / name)):
                readings.append(Note(process.index, fields))

    def _half_made(self, path: Path) -> bool:
        """Return whether a file is so young that its guest may still be making it; it is looked at again then.

        As is one that is gone: where there was no room for it, a link of its name follows.
        """
        try:
            young = time.time() - path.lstat().st_mtime < 1.0
        except FileNotFoundError:
            young = True
        except OSError:
            return False
        self._scanned = self._scanned and not young
        return young

    def _foreign(self, name: str, why: str, readings: list[Reading]) -> None:
        self._seen.add(name)
        readings.append(Note(-1, {"n": "unreadable", "file": name, "why": why}))

    def _hello(self, path: Path) -> tuple[int, int, int, Path]:
        pid = int(path.stem)
        wall = path.stat().st_mtime_ns
        text = path.read_text()
        return now() - max(0, time.time_ns() - wall), int(text) if text else -1, pid, path

    def _arrive(self, pid: int, when: int, number: int, path: Path | None) -> GuestProcess:
        process = GuestProcess(self._number(number), pid, self._started(pid, when), path)
        if path is not None and number < 0:
            with contextlib.suppress(OSError):
                path.write_text(str(process.index))
        if process.fd >= 0:
            self._poll.register(process.fd, select.EPOLLIN)
            self._by_fd[process.fd] = process
        self._by_pid[pid] = process
        self.alive.append(process)
        return process

    def _without(self, path: Path) -> None:
        """Note that a process has no ring; a forked child has not said hello."""
        pid, role, code = path.name.split(".")[:3]
        if not (pid.isdigit() and code.isdigit()):
            return
        process = self._by_pid.get(int(pid)) or self._arrive(int(pid), now(), -1, None)
        process.ringless = (role, path)

    def _own(self, ring: Ring) -> None:
        """Give a ring to its process: the one that said hello under its pid, or a new one."""
        process = self._by_pid.get(ring.pid)
        if process is not None and process.ring is not None:  # exec: another program in the same process
            process.replaced = ring.created
            self._replaced = True
            process = None
        if process is None:
            process = self._arrive(ring.pid, ring.created, ring.index, None)
        process.ring = ring
        if ring.index != process.index:
            ring.number(process.index)

    def _started(self, pid: int, seen: int) -> int:
        """Return when a process started, from its stat (resolution 10 ms), or else when it was `seen`."""
        earlier = self._by_pid.get(pid)
        if earlier is not None:
            return seen
        try:
            ticks = int((self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            return seen
        since_boot = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        started = since_boot - (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - now())
        return min(started, seen)

    def _read_next(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / "next").read_text())
        return 0

    def _number(self, known: int) -> int:
        if known >= 0:
            return known
        index = self._next
        self._next += 1
        with contextlib.suppress(OSError):
            (self._folder / "next").write_text(str(self._next))
        return index

    # what they say

    def _drain(self, process: GuestProcess, ring: Ring, t: int, readings: list[Reading], *, beat: bool) -> None:
        events = ring.drain(process.index)
        if beat or (events and not ring.worker):  # one that is no fork has its ring before it is a worker
            ring.look()
            if process.told is not None and process.told.role != process.role:
                self._tell(process, 0, readings)
        readings += self._notes(process, ring)  # first: records speak of loaders that notes describe
        self._lose(process, ring, readings)
        if events:
            process.moved = t
            readings += events
            if not ring.worker:
                self._count(process, events)
        if beat and (t - process.moved >= BEAT or ring.since != process.opened.since):
            self._open(process, ring, readings)

    def _notes(self, process: GuestProcess, ring: Ring) -> list[Reading]:
        return [Note(process.index, fields) for fields in ring.notes()]

    def _open(self, process: GuestProcess, ring: Ring, readings: list[Reading]) -> None:
        opened = Open(process.index, *ring.open(), ring.since)
        if opened != process.opened:
            process.opened = opened
            readings.append(opened)

    def _count(self, process: GuestProcess, events: list[Event]) -> None:
        for event in events:
            record = event.record
            if record.kind == BATCH:
                if not record.code & BatchCode.APART:
                    self._wait(process, record.t0, record.t1)
                if not record.code & ~BatchCode.APART:
                    self.batches += 1
                    self.samples += record.c

    def _wait(self, process: GuestProcess, t0: int, t1: int) -> None:
        t0 = max(t0, process.waited_to)
        if t1 > t0:
            self._waited += t1 - t0
            process.waited_to = t1

    def _tell(self, process: GuestProcess, ended: int, readings: list[Reading]) -> None:
        process.told = process.guest(ended)
        readings.append(process.told)

    def _bury(self, process: GuestProcess, readings: list[Reading]) -> None:
        """Tell the last of a process that is gone, and remove its files."""
        ring = process.ring
        ended = process.replaced or now()
        files = [] if process.hello is None or process.replaced else [process.hello]
        files += [] if process.ringless is None else [process.ringless[1]]
        if f"{process.pid}{LEFT}" in self._seen:
            files.append(self._folder / f"{process.pid}{LEFT}")
        if ring is not None:
            self._drain(process, ring, now(), readings, beat=False)
            ring.look()
            if ring.ended and (ring.worker or now() - self._looked > BEAT):  # else it took so long to end after that
                ended = ring.ended
            self._open(process, ring, readings)
            self._lose(process, ring, readings, last=True)
            self._lost += ring.lost
            self._errors += ring.errors
            files += ring.files
        self._tell(process, ended, readings)
        if process.fd >= 0:
            self._poll.unregister(process.fd)
            del self._by_fd[process.fd]
        process.close()
        self.alive.remove(process)
        if self._by_pid.get(process.pid) is process:
            del self._by_pid[process.pid]
        for path in files:
            self._seen.discard(path.name)
            with contextlib.suppress(OSError):
                path.unlink()

    def _lose(self, process: GuestProcess, ring: Ring, readings: list[Reading], *, last: bool = False) -> None:
        """Tell what was lost of a process; also of all, as the next beat may come after the end."""
        if told := ring.losses(last=last):
            readings += [*(Note(process.index, fields) for fields in told), Sample(LOST, now(), self._losses())]

    def _losses(self) -> int:
        return self._lost + sum(process.ring.lost for process in self.alive if process.ring is not None)

    def _sample(self, t: int, readings: list[Reading]) -> None:
        lost, errors, training = self._losses(), self._errors, 0
        for process in self.alive:
            ring = process.ring
            if ring is None:
                continue
            errors += ring.errors
            if not ring.worker:
                training += 1
                kind, _code, t0 = ring.open()
                if kind == BATCH:
                    self._wait(process, t0, t)
        share = self._waited / max(1, t - self._last) / max(1, training)
        values = ((WAIT, min(1.0, share)), (BATCHES, self.batches), (SAMPLES, self.samples))
        counts = ((ERRORS, errors), (LOST, lost))
        readings += [Sample(metric, t, value) for metric, value in (*values, *counts)]
        self._waited, self._last = 0, t
        self._due += max(0, t - self._due) // BEAT * BEAT + BEAT  # in phase: what else is due once a second comes along


def attach(target: Target) -> Ticks:
    """Read the folder `target.rings`. It need not exist yet: guests come when the command starts Python."""
    rings = Rings(target)
    try:
        while True:
            yield rings.tick()
    finally:
        rings.close()
